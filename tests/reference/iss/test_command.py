"""``xpulpnn iss``."""

import subprocess
import sys

import pytest
from tests.programs import LOOPING, printing, read_results, run_printing

from xpulpnn.errors import InputError, XpulpnnError
from xpulpnn_sim.cli.main import execute_command
from xpulpnn_sim.reference.iss.library import library

ENTRY, DATA = 0x1C00_0080, 0x1000_0000


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """The simulator, before lines of progress of its compilation come between what the tests read."""
    library()


def looping(code: int = 1) -> str:
    return LOOPING + f"li x31, tohost; li x30, {code}; sw x30, 0(x31)"


def run(*arguments):
    return execute_command(["iss", *map(str, arguments)])


def test_pass(elf_file, tmp_path, capsys):
    record = tmp_path / "out.json"
    assert run(elf_file(looping()), "--json", record) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("pass (210 instructions, ")
    result = read_results(record)[0]
    assert result.keys() == {
        "program", "reason", "code", "pc", "symbol", "line", "address", "text", "exception", "engine", "instructions",
        "wall_s", "instructions_per_s",
    }  # fmt: skip
    assert (result["engine"], result["reason"], result["code"], result["instructions"]) == ("iss", "pass", 0, 210)


def test_a_plain_run_starts_without_slow_packages(elf_file):
    code = """if True:
        import sys
        from xpulpnn_sim.cli.main import main
        main(["iss", *sys.argv[1:]])
        print({"amaranth", "importlib.metadata", "numpy", "rich"} & sys.modules.keys())"""
    command = [sys.executable, "-c", code, elf_file(looping())]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "set()\n"


@pytest.mark.parametrize("option", ["--max-instructions", "--max-cycles"])
def test_limit(elf_file, capsys, option):
    assert run(elf_file(looping()), option, 50) == 1
    assert capsys.readouterr().err.startswith("not finished after 50 instructions, at 0x1c000090 (loop+0x4)")


def test_dumps_by_address_and_symbol(elf_file, tmp_path, capsys):
    words, host = tmp_path / "one.bin", tmp_path / "two.bin"
    path = elf_file(looping())
    assert run(path, "--hart-id", "0x25", "--dump", f"{DATA:#x}:12:{words}", "--dump", f"tohost:0x4:{host}") == 0
    assert words.read_bytes() == bytes(4) + b"\x07\0\0\0" + b"\x25\0\0\0"
    assert host.read_bytes() == b"\x01\0\0\0"
    assert f"{words} is written\n{host} is written\n" in capsys.readouterr().err


def test_trace(elf_file, tmp_path):
    path = tmp_path / "trace.txt"
    assert run(elf_file(looping()), "--trace", path) == 0
    lines = path.read_text().splitlines()
    assert len(lines) == 1 + 210
    assert lines[1].split() == ["0", "1c000080", "00700293", "addi", "t0,", "zero,", "7", "t0=0x00000007"]
    assert lines[-1].split()[:3] == ["209", "1c0000ac", "01efa023"]
    assert lines[-1].endswith("[0x10000800]<-0x00000001")


@pytest.mark.parametrize("traced", [False, True])
def test_profile(traced, elf_file, tmp_path, capsys):
    record = tmp_path / "out.json"
    trace = ["--trace", tmp_path / "trace.txt"] if traced else []
    assert run(elf_file(looping()), "--profile", "--json", record, *trace) == 0
    profile = read_results(record)[0]["profile"]
    assert profile == [
        {"symbol": "loop", "address": ENTRY + 12, "count": 207, "share": 0.9857},
        {"symbol": "_start", "address": ENTRY, "count": 3, "share": 0.0143},
    ]
    assert "98.6%" in capsys.readouterr().out


def test_the_programs_output_is_passed_on(elf_file, capfdbinary):
    run_printing(lambda descriptor: run(elf_file(printing(descriptor))), capfdbinary)


def test_ram_and_configuration(elf_file, capsys):
    source = "li x5, 0x20000000; sw x5, 0(x5); pv.add.n x6, x5, x5;" + looping()
    path = elf_file(source, vectors="ecall")
    assert run(path, "--ram", "0x20000000:4K") == 0
    assert run(path) == 1
    assert "store of 4 bytes outside memory: address 0x20000000" in capsys.readouterr().err
    assert run(path, "--ram", "0x20000000:4K", "--preset", "ri5cy") == 1
    assert "trap loop" in capsys.readouterr().err
    assert run(path, "--ram", "0x20000000:4K", "--set", "widths=8") == 1


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--hart-id -1", "--hart-id"),
        ("--dump nobody:4:f", "--dump"),
        ("--dump 0x10000ffe:4:f", "--dump"),
        ("--cores 2 --trace x.txt", "--trace"),
        ("--quantum 5", "--quantum"),
        ("--cores 17", "cores"),
    ],
)
def test_bad_arguments(elf_file, words, named):
    with pytest.raises(XpulpnnError, match=rf"{named}[. ].*must "):
        run(elf_file(looping()), *words.split())


def test_missing_program(tmp_path):
    with pytest.raises(InputError, match="must be an existing file"):
        run(tmp_path / "none.elf")


def test_a_trap_loop_tells_how_it_was_entered(elf_file, capsys):
    code = ["_start: li x5, 0x1c000100; csrrw x0, mtvec, x5", "cause: .word 0xffffffff", *["addi x0, x0, 0"] * 28]
    assert run(elf_file("\n".join([*code, "handler: .word 0xffffffff"])), "--preset", "ri5cy") == 1
    error = capsys.readouterr().err
    assert error.startswith("trap loop: the exception handler at 0x1c000100 (handler) traps at its first instruction")
    assert "\nlast exception: illegal instruction at 0x1c00008c (cause): 0xffffffff; " in error


TEAM = """
_start: csrrs x5, mhartid, x0
    slli x5, x5, 2; li x8, data + 0x100; add x8, x8, x5; addi x6, x5, 1; sw x6, 0(x8)
    bne x5, x0, stay
    li x8, data + 0x100
look: lw x7, 4(x8); beq x7, x0, look
    li x31, tohost; li x30, 1; sw x30, 0(x31)
stay: j stay
"""


def test_cores(elf_file, tmp_path, capsys):
    record, words = tmp_path / "out.json", tmp_path / "words.bin"
    path = elf_file(TEAM)
    options = ["--dump", f"{DATA + 0x100:#x}:8:{words}", "--json", record, "--profile"]
    assert run(path, "--cores", 2, "--quantum", 3, *options) == 0
    assert words.read_bytes() == b"\1\0\0\0\5\0\0\0"
    assert " instructions on 2 cores, " in capsys.readouterr().err
    result = read_results(record)[0]
    assert (result["cores"], sum(result["instructions_of_cores"])) == (2, result["instructions"])
    assert sum(row["count"] for row in result["profile"]) == result["instructions"]
    assert run(path, "--preset", "cluster-ri5cy", "--set", "cores=3", "--json", record) == 0
    assert read_results(record)[0]["cores"] == 3
