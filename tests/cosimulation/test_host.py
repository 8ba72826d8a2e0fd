"""Programs on CV32E40X, whose sources a package has."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.programs import read_results

from xpulpnn.errors import ToolError
from xpulpnn.isa.machine import DATA_BASE, WORD_BYTES
from xpulpnn.xif.config import XifHost
from xpulpnn_sim.api.programs import run
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.cosimulation.model import host
from xpulpnn_sim.cosimulation.model.host import HOST_CORE, HOSTS, Host, our_coprocessor
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.directed.programs import programs_of

pytest.importorskip(host.PACKAGE, reason="needs pythondata-cpu-cv32e40x: pip install '.[xif]'")

pytestmark = pytest.mark.cosim

OTHER_CORE = (
    *("access faults", "CSRs", "counters", "traps: instructions that cannot be fetched"),
    "interrupts: direct mode and another vector table",
)
"""Programs that expect what the privileged specification leaves open and our cores do otherwise: precise access faults,
bits of mcause and mtvec, counters that run after reset."""
PROGRAMS = [case for case in programs_of(HOST_CORE) if not case.name.startswith(OTHER_CORE)]
# one coprocessor for all, as each model takes its time to compile
COPROCESSOR = ("--set", "memory=obi", "--set", "requantise=exact")
CONFIG = XifHost.of({"memory": "obi", "requantise": "exact"}, "cv32e40x")
PUBLISHED = Host(coprocessor=our_coprocessor(CONFIG.xif))
SLOW = {"grant_stalls": 0.25, "response_latency": 4, "fetch_grant_stalls": 0.25, "fetch_latency": 4}


@pytest.mark.parametrize(("waits", "programs", "least"), [({}, PROGRAMS, 10), (SLOW, PROGRAMS[1::3], 3)])
def test_directed(waits, programs, least):
    interrupts = 0
    for case in programs:
        machine = Machine(irq_rate=0.002 * case.interrupts, max_cycles=500_000, seed=4, **waits)
        how = {"host": PUBLISHED, "lockstep": True, "check": True}
        result = run_program(case.program().executable(), HOST_CORE, machine, **how)
        assert result.difference is None, f"{case.name}: {result.difference}"
        assert result.exit.ok, f"{case.name}: {result.exit.text}"
        assert case.problems(result.read) == []
        interrupts += result.interrupts
    assert len(PROGRAMS) >= 20
    assert interrupts > least


def test_run_command(core_elf, tmp_path, capsys):
    """A program for CV32E40X from the command line, with a profile; the cycles are those of its manual."""
    path = tmp_path / "run.json"
    program = core_elf("_start: li x5, 7; li x6, 35; div x7, x6, x5; mulh x8, x7, x6; jal x0, end; end: nop\n")
    words = [*COPROCESSOR, "--lockstep", "--profile", "--hart-id", "3", "--json", str(path)]
    assert main(["run", str(program), "--host", "cv32e40x-mended", *words]) == 0
    assert "cv32e40x-mended" in capsys.readouterr().err
    (result,) = read_results(path)
    assert (result["reason"], result["conditions"]["preset"]) == ("pass", "cv32e40x-mended")
    assert result["stalls"]["multicycle"] == 31 + 3  # 3 cycles and 29 leading zeros of the divisor; 4 cycles


def test_verify_command(tmp_path):
    path = tmp_path / "verify.json"
    words = ["--instructions", "15000", "--seed", "3", "--jobs", "1", "--json", str(path)]
    assert main(["verify", "--host", "cv32e40x-mended", *COPROCESSOR, *words]) == 0
    (result,) = read_results(path)
    assert (result["differences"], result["missing_rows"]) == (0, [])
    assert result["traps"].keys() == {"2", "3", "11"}


SUM = "pv.add.b x7, x5, x6"
SUMS = {
    "EX ready": (f"nop; {SUM}", 42, True),
    "result behind a division": (f"div x10, x6, x5; {SUM}", 42, False),
    "result behind a read of a counter": (f"csrrs x10, minstret, x0; {SUM}", 42, False),
    "operand of a division": ("li x7, 1; div x6, x6, x5; pa.accup.b 0, x5, x6", 1, False),
    "back to back": (f"nop; {SUM}; pv.add.b x7, x7, x5; pv.add.b x7, x7, x5", 56, True),
}
"""Code, what it leaves in x7, and whether it does so on the core as published, which has issue 941."""


LOST = re.compile(r"the core lost the result or an operand of the instruction at .*: issue 941 of CV32E40X; mended by")


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("case", SUMS)
def test_results_of_a_coprocessor(case, name, core_program):
    code, expected, on_published = SUMS[case]
    program = core_program(f"_start: li x5, 7; li x6, 35; li x7, 0; li x8, data; {code}; nop; nop; sw x7, 0(x8)\n")
    result = run_program(program, CONFIG, Machine(max_cycles=1000), host=replace(PUBLISHED, name=name))
    if HOSTS[name] or on_published:
        assert result.exit.ok, result.exit.text
        assert int.from_bytes(result.read(DATA_BASE, WORD_BYTES), "little") == expected
    else:
        assert LOST.match(result.exit.text)


def test_our_coprocessor(core_elf):
    text = """_start: li x5, 0x01020304; li x6, 0x05060708; li x8, data; sw x5, 4(x8); sw x6, 20(x8); addi x9, x8, 4
        addi x10, x8, 20; li x11, 1; pa.ptr x9, x10; pa.stepup.b x11; nop; pa.sync x12; pa.rd x7, 0; sw x7, 0(x8)\n"""
    how = {"host": "cv32e40x-mended", "config": CONFIG, "lockstep": True}
    result = run(core_elf(text), machine=Machine(max_cycles=1000), **how)
    assert (result.exit.ok, result.difference) == (True, None), result.exit.text
    assert result.read(DATA_BASE, 1)[0] == 1 * 5 + 2 * 6 + 3 * 7 + 4 * 8


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("latency", [1, 6])
def test_acceptance(latency, name, tmp_path):
    """The program of the examples: the published core loses a result; the mended one passes, also with late data."""
    if shutil.which("riscv64-unknown-elf-gcc") is None:
        pytest.skip("riscv64-unknown-elf-gcc is not installed")
    source, program = Path(__file__).parents[2] / "examples/xif/acceptance.c", tmp_path / "acceptance.elf"
    assert main(["cc", "--xif", "--compiler", "gcc", str(source), "-o", str(program)]) == 0
    machine = Machine(response_latency=latency, max_cycles=20_000, seed=1)
    result = run(program, config=CONFIG, machine=machine, host=name, lockstep=True)
    assert result.mismatches == 0
    assert result.exit.ok if HOSTS[name] else LOST.match(result.exit.text), result.exit.text


def test_costs(tmp_path):
    path = tmp_path / "costs.json"
    assert main(["verify", "costs", "--host", "cv32e40x-mended", *COPROCESSOR, "--json", str(path)]) == 0
    assert {row["event"] for row in read_results(path)} >= {"pa.acc, dependent", "lw and pa.blk", "pa.step by obi"}


BAD = {
    "--preset xpulpnn2": "--preset must be left out with --host",
    "--jtag 0": "--jtag must be left out with --host",
    "--bus-error 0x100:4": "--bus-error must be left out with --host",
}


@pytest.mark.parametrize("words", BAD)
def test_options_of_our_cores(words, core_elf, capsys):
    assert main(["run", str(core_elf("_start: nop\n")), "--host", "cv32e40x", *words.split()]) == 2
    assert BAD[words] in capsys.readouterr().err


def test_missing_package(monkeypatch):
    monkeypatch.setattr(host, "PACKAGE", "no_such_package")
    with pytest.raises(ToolError, match=r"^pythondata-cpu-cv32e40x must be .*: pip install 'xpulpnn\[xif\]'$"):
        Host().library()
