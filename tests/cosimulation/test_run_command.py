"""``xpulpnn run``: what it tells, what it writes, and how every program comes to an end."""

import os
import re
import signal

import pytest
from tests.programs import LOOPING, printing, read_results, run_printing

from xpulpnn.config import preset
from xpulpnn_sim.cli import common
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.cosimulation.model.libraries import model_library, simulated
from xpulpnn_sim.cosimulation.workloads import program_run
from xpulpnn_sim.reference.iss.library import library
from xpulpnn_sim.reference.iss.lockstep import Lockstep

pytestmark = pytest.mark.cosim

DATA, TOHOST, ENTRY = 0x1000_0000, 0x1000_0800, 0x1C00_0080
INSTRUCTIONS = 3 + 200 + 3 + 4
START = 5
CYCLES = START + INSTRUCTIONS + 2 * 99
"""Fetching the first instruction takes 4 cycles, a taken branch costs 2."""


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Model and simulator, before lines of progress of their compilation come between what the tests read."""
    library()
    model_library("core", simulated(preset("xpulpnn-full")))


def run(*arguments):
    """The command on the core that other tests have compiled too."""
    return main(["run", "--preset", "xpulpnn-full", *(str(argument) for argument in arguments)])


def test_pass(core_elf, tmp_path, capfd):
    record = tmp_path / "out.json"
    assert run(core_elf(LOOPING), "--json", record, "--profile", "--check", "all", "--lockstep") == 0
    captured = capfd.readouterr()
    assert captured.err.startswith(f"pass ({CYCLES} cycles, {INSTRUCTIONS} instructions)\n")
    assert "198 (47.9%): taken branch" in captured.err
    result = read_results(record)[0]
    assert (result["reason"], result["engine"], result["code"]) == ("pass", "core", 0)
    assert (result["cycles"], result["instructions"], result["interrupts"]) == (CYCLES, INSTRUCTIONS, 0)
    assert (result["ipc"], result["mismatches"], result["difference"]) == (0.5085, 0, None)
    assert {cause: lost for cause, lost in result["stalls"].items() if lost} == {"branch": 198, "start": START}
    assert result["conditions"]["preset"] == "xpulpnn-full"
    assert [row["symbol"] for row in result["profile"]] == ["loop", "_start"]
    assert "loop" in captured.out
    assert [row["instructions"] for row in result["listing"]] == [1] * 3 + [100] * 2 + [1] * 7


@pytest.mark.parametrize("name", ["run", "iss"])
def test_ctrl_c_tells_where_a_program_hangs_and_keeps_its_trace(core_elf, tmp_path, capfd, monkeypatch, name):
    """A program that goes on for ever is mostly ended by Ctrl-C; and no output replaces the program."""
    monkeypatch.setattr(common.Bar, "reach", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    program, trace = core_elf("loop: addi x10, x10, 1\njal x0, next\nnext: jal x0, loop"), tmp_path / "trace.txt"
    command = [name, "--preset", "xpulpnn-full", str(program), "--trace"]
    assert main([*command, str(trace)]) == 1
    assert re.match(r"interrupted after \d+ \w+, at 0x1c0000\w\w \((loop|next)", capfd.readouterr().err)
    assert len(trace.read_text().splitlines()) > 1000
    assert main([*command, str(program)]) == 2
    assert "--trace must be another file than the program" in capfd.readouterr().err


ILLEGAL = """
_start: li x10, 1
    pv.qnt.n x10, x11, (x12)
    li x10, 2
handler: csrrs x11, mcause, x0
    li x31, tohost; li x30, 9; sw x30, 0(x31)
"""


def test_the_last_exception_is_told(core_elf, tmp_path, capfd):
    record = tmp_path / "out.json"
    assert run(core_elf(ILLEGAL, vectors="handler"), "--json", record) == 1
    explanation = "illegal instruction at 0x1c000084 (_start+0x4): pv.qnt.n a0, a1, (a2); xpulpnn-full has no XpulpQnt"
    assert f"\nlast exception: {explanation}\n" in capfd.readouterr().err
    exception = read_results(record)[0]["exception"]
    assert (exception["pc"], exception["cause"], exception["symbol"]) == (ENTRY + 4, 2, "_start+0x4")
    assert exception["text"] == explanation
    # a handler that traps itself does not hide where it came from
    assert run(core_elf(ILLEGAL, vectors="")) == 1
    error = capfd.readouterr().err
    assert error.startswith("trap loop: the exception handler at 0x1c000000")
    assert f"last exception: {explanation}\n" in error


UNREADABLE = """
_start: li x10, 0x20000002
    jalr x1, 0(x10)
handler: csrrs x11, mcause, x0
    csrrs x12, mepc, x0
    li x13, data; sw x11, 0(x13); sw x12, 4(x13)
    li x31, tohost; li x30, 1; sw x30, 0(x31)
"""


def test_a_fetch_that_the_bus_answers_with_an_error_is_an_access_fault(core_elf, tmp_path, capfd):
    dump = tmp_path / "dump.bin"
    program = core_elf(UNREADABLE, vectors="handler")
    options = ("--bus-error", "0x20000000:4", "--dump", f"{DATA:#x}:8:{dump}")
    for command in (("run", "--check", "all", "--lockstep"), ("iss",)):
        assert main([command[0], str(program), "--preset", "xpulpnn-full", *options, *command[1:]]) == 0
        assert dump.read_bytes() == b"\x01\0\0\0" + b"\x02\0\0\x20"
        dump.unlink()
    capfd.readouterr()
    # without the option a fetch outside memory ends the run
    assert run(program) == 1
    assert capfd.readouterr().err.startswith("execution outside memory: pc 0x20000002, coming from ")


UNWRITABLE = """
_start: li x10, 0x20000ffe
    li x13, data
    li x14, 5
load: p.lw x14, 4(x10!)
    li x15, 2
store: p.sw x15, 4(x10!)
    sw x14, 0(x13); sw x10, 4(x13)
    li x31, tohost; li x30, 1; sw x30, 0(x31)
handler: csrrs x11, mcause, x0
    csrrs x12, mepc, x0
    sw x11, 0(x13); sw x12, 4(x13)
    addi x13, x13, 8; addi x12, x12, 4; csrrw x0, mepc, x12
    mret
"""


def test_an_access_that_the_bus_answers_with_an_error_is_an_access_fault(core_elf, core_program, tmp_path):
    dump, low = tmp_path / "dump.bin", tmp_path / "low.bin"
    program = core_elf(UNWRITABLE, vectors="handler")
    labels = core_program(UNWRITABLE, vectors="handler").symbols
    # both go across the border of two words; of the store the lower half arrives
    options = ("--ram", "0x20000000:0x1000", "--bus-error", "0x20001000:16", "--dump", f"{DATA:#x}:24:{dump}")
    options += ("--dump", f"0x20000ffc:4:{low}")
    words = (5, labels["load"], 7, labels["store"], 5, 0x20000FFE)
    results = b"".join(word.to_bytes(4, "little") for word in words)
    for command in (
        ("run", "--check", "all", "--lockstep"),
        ("run", "--response-latency", "5", "--check", "all"),
        ("iss",),
    ):
        assert main([command[0], str(program), "--preset", "xpulpnn-full", *options, *command[1:]]) == 0
        assert (dump.read_bytes(), low.read_bytes()) == (results, b"\0\0\2\0")
        dump.unlink()


def test_trace_and_dumps(core_elf, tmp_path):
    trace, words, host = tmp_path / "trace.txt", tmp_path / "one.bin", tmp_path / "two.bin"
    arguments = ("--hart-id", "0x25", "--dump", f"{DATA:#x}:12:{words}", "--dump", f"tohost:4:{host}", "--trace", trace)
    assert run(core_elf(LOOPING), *arguments) == 0
    assert words.read_bytes() == bytes(4) + b"\x07\0\0\0" + b"\x25\0\0\0"
    assert host.read_bytes() == b"\x01\0\0\0"
    lines = trace.read_text().splitlines()
    assert len(lines) == 1 + INSTRUCTIONS
    assert lines[1].split() == [str(START + 1), "1c000080", "00700293", "addi", "t0,", "zero,", "7", "t0=0x00000007"]
    # the store that ends the program is part of it
    assert lines[-1].split()[:2] == [str(CYCLES), "1c0000ac"]
    assert lines[-1].endswith("[0x10000800]<-0x00000001")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.bin", "program.elf", "trace.txt", "two.bin"]


@pytest.mark.parametrize("arguments", [[], ["--lockstep", "--check", "all"], ["--response-latency", "4"]])
def test_the_programs_output_is_passed_on(core_elf, capfdbinary, arguments):
    run_printing(lambda descriptor: run(core_elf(printing(descriptor)), *arguments), capfdbinary)


def test_slow_memory_and_interrupts(core_elf, tmp_path):
    source = """
        csrrwi x0, mstatus, 8
        li x9, -1
        csrrw x0, mie, x9
        li x8, data
        li x10, 200
    loop: lw x6, 0(x8)
        sw x6, 4(x8)
        addi x10, x10, -1
        bne x10, x0, loop
        jal x0, done
    handler: mret
    done: csrrwi x0, mstatus, 0
    """
    record = tmp_path / "out.json"
    timing = ("--grant-stalls", 0.2, "--response-latency", 3, "--fetch-grant-stalls", 0.2, "--fetch-latency", 3)
    path = core_elf(source, vectors="handler")
    assert run(path, "--json", record, "--irq", "16@100", "--irq", "3@200") == 0
    ideal = read_results(record)[0]
    assert ideal["interrupts"] == 2
    results = []
    for _ in range(2):
        assert run(path, "--json", record, *timing, "--irq-rate", 0.01, "--seed", 4, "--lockstep", "--profile") == 0
        results.append(read_results(record)[0])
    slow = results[0]
    assert slow["interrupts"] > 2
    assert slow["cycles"] > ideal["cycles"]
    assert min(slow["stalls"][cause] for cause in ("response", "grant", "fetch")) > 0
    assert sum(slow["stalls"].values()) + slow["instructions"] == slow["cycles"]
    assert [result["cycles"] for result in results] == [slow["cycles"]] * 2


@pytest.mark.parametrize(
    ("source", "options", "line"),
    [
        ("li x31, tohost; li x30, 9; sw x30, 0(x31)\n j .", {}, "fail: the program reports code 4 at 0x1c00008c"),
        ("here: j here", {}, "endless loop at 0x1c000080 (here), no interrupt can end it"),
        ("wfi", {}, "endless loop at 0x1c000080, no interrupt can end it"),
        ("ecall", {"vectors": ""}, "trap loop: the exception handler at 0x1c000000 traps at its first instruction"),
        (
            "ecall\n handler: addi x5, x5, 1\n ecall",
            {"vectors": "handler"},
            "trap loop: the exception handler at 0x1c000088 (handler+0x4) traps again and again",
        ),
        ("ecall", {"vectors": "0"}, "endless loop at 0x1c000000"),
        ("1: addi x5, x5, 1\n j 1b", {}, "not finished after 2000 cycles, at 0x1c00008"),
    ],
    ids=["fail", "jump to itself", "wfi", "trap loop", "again and again", "vector to itself", "max-cycles"],
)
@pytest.mark.parametrize("checks", [[], ["--check", "all", "--lockstep"]], ids=["plain", "checked"])
def test_every_program_ends(core_elf, capsys, source, options, line, checks):
    assert run(core_elf(source, end="\n nop; nop; nop; nop", **options), "--max-cycles", 2000, *checks) == 1
    text = capsys.readouterr().err
    assert text.startswith(line)
    assert re.search(rf"mismatches +{'0' if checks else 'not checked'}\n", re.sub(" +\n", "\n", text))


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda content: b"", "must be an ELF file, not empty"),
        (lambda content: content.replace(b"tohost\0", b"nohost\0"), "must define the symbol tohost"),
    ],
    ids=["empty", "tohost"],
)
def test_broken_programs(core_elf, refused, damage, rule):
    path = core_elf(LOOPING)
    path.write_bytes(damage(path.read_bytes()))
    assert rule in refused("run", path)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--max-cycles", "0"),
        ("--irq", "4@10"),
        ("--waves", "a.vcd"),
        ("--wave-window", "1:2"),
        ("--trace", "{folder}"),
        ("--json", "/proc/none/out.json"),
    ],
)
def test_bad_arguments(core_elf, tmp_path, refused, option, value):
    assert option in refused("run", core_elf(LOOPING), option, value.format(folder=tmp_path))


def test_difference_from_the_reference(core_elf, core_program, tmp_path, capsys, monkeypatch):
    other = core_program(LOOPING.replace("x5, 7", "x5, 8"))
    monkeypatch.setattr(program_run, "Lockstep", lambda _, config, **options: Lockstep(other, config, **options))
    record = tmp_path / "out.json"
    assert run(core_elf(LOOPING), "--lockstep", "--json", record) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("differences from the reference: 1 (")
    assert "0x1c000080 (_start)" in printed.out
    result = read_results(record)[0]
    assert (result["reason"], result["mismatches"]) == ("difference", 1)
    assert "addi t0, zero, 7" in result["difference"]
