"""Random programs and litmus tests on Verilated clusters: no difference, and every fault of the hardware found."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.designs import PAIR
from tests.faulty_cluster import CONFIG, FAULT_WORD, ClusterFault, faulty_model
from tests.programs import read_results

from xpulpnn_sim.cli import verify_clusters
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.cosimulation.model import session
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads import program_run
from xpulpnn_sim.reference.bare.program import ProgramBlock
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sim.verification.clusters import cluster_runs
from xpulpnn_sim.verification.clusters.cluster_runs import ClusterSource, shrink_cluster
from xpulpnn_sim.verification.clusters.generator import generate_cluster
from xpulpnn_sim.verification.clusters.litmus import TESTS, LitmusProgram, run_litmus
from xpulpnn_sim.verification.clusters.program import L2_FAILING, ClusterProgram
from xpulpnn_sim.verification.random.program_runs import ProgramCase

pytestmark = pytest.mark.cosim

BUDGET = 2500
MACHINE = Machine(max_cycles=150_000, max_instructions=40_000, l2_latency=4, fetch_latency=2, bus_errors=(L2_FAILING,))
BY_NAME = {test.name: test for test in TESTS}


@pytest.fixture
def library() -> Path:
    return faulty_model()


@pytest.fixture
def source(library) -> ClusterSource:
    return ClusterSource(config=CONFIG, library=library)


def lines_of(fault: int) -> tuple[str, ...]:
    return f"li t1, 0x{FAULT_WORD:x}", f"addi s0, zero, {fault}", "sw s0, 0(t1)"


def program(seed: int, fault: int = 0) -> ClusterProgram:
    """A random program that begins a fault in its first phase."""
    made = generate_cluster(CONFIG, seed, budget=BUDGET)
    first, *rest = made.phases
    parts = ((ProgramBlock("fault", lines_of(fault)), *first.parts[0]), *first.parts[1:])
    return replace(made, phases=(replace(first, parts=parts), *rest))


def test_no_difference(source):
    verdict, reached = source.measure(ProgramCase(program(2), replace(source.machine(2), max_cycles=200_000)))
    assert (verdict.reason, verdict.text) == (Reason.PASS, "pass")
    assert all(reached.accesses.values())
    assert reached.misaligned > 50
    assert reached.stalls["bank_conflict"] > 0


def test_blocks_end_anywhere(source, monkeypatch):
    monkeypatch.setattr(session, "BLOCK_RETIREMENTS", 64)
    assert source.measure(ProgramCase(program(3), MACHINE))[0].text == "pass"


def test_instruction_caches():
    run = ClusterSource(config=PAIR, l2_latency=20).run(5)
    assert run.verdict.text == "pass"
    assert run.coverage.stalls["fetch"] > 100


DIFFERENCE, HANGS = {Reason.DIFFERENCE}, {Reason.DEADLOCK, Reason.MAX_CYCLES, Reason.STUCK}
FAULTS = [
    (ClusterFault.LOST_EVENT, HANGS, "core 1: waits for barrier 0"),
    (ClusterFault.EARLY_BARRIER, DIFFERENCE, "event unit: the access of offset 0x"),
    (ClusterFault.DROPPED_GRANT, HANGS, "core 3: waits for the grant of an access"),
    (ClusterFault.SWAPPED_BANKS, DIFFERENCE, "bus_addr must be 0x1000"),
    (ClusterFault.WRONG_STORE, DIFFERENCE, "bus_wdata must be"),
    (ClusterFault.UNMARKED, DIFFERENCE, "bus_we must be 1, not 0"),
    (ClusterFault.SILENT_ACCESS, DIFFERENCE, "bus_req must be 1, not 0"),
    (ClusterFault.LOST_MARK, DIFFERENCE, "bus_we must be 1, not 0"),
    (ClusterFault.DMA_BYTE, DIFFERENCE, "DMA engine"),
    (ClusterFault.DMA_EVENT, HANGS, "waits for an event"),
    (ClusterFault.DMA_STATUS, DIFFERENCE, "DMA engine: transfer"),
    (ClusterFault.TIMER_STEP, DIFFERENCE, "event"),
    (ClusterFault.ANY_MUTEX, DIFFERENCE, "event unit: the access of offset 0xc0"),
    (ClusterFault.DMA_ENDLESS, HANGS, "not finished after 40000 instructions"),
    (ClusterFault.STALE_LINES, DIFFERENCE, "insn must be 0x"),
]


@pytest.mark.parametrize(("fault", "reasons", "text"), FAULTS, ids=[fault.name for fault, *_ in FAULTS])
def test_faults_are_found(source, fault, reasons, text):
    # one program may show the fault in another way
    verdicts = (source.measure(ProgramCase(program(seed, fault), MACHINE))[0] for seed in range(1, 6))
    assert any(verdict.reason in reasons and text in verdict.text for verdict in verdicts)


def test_a_failure_becomes_short(source, monkeypatch):
    full = program(1, ClusterFault.WRONG_STORE)
    monkeypatch.setattr(ClusterSource, "case", lambda self, seed: ProgramCase(full, MACHINE))
    small, verdict = shrink_cluster(source.run(1), runs=15)
    assert verdict.reason is Reason.DIFFERENCE
    assert len(small.text()) < len(full.text()) / 2


@pytest.mark.parametrize("name", ["SB", "TAS"])
def test_litmus(library, name):
    counts, result = run_litmus(BY_NAME[name], CONFIG, MACHINE, 60, library=library)
    assert (result.exit.text, result.mismatches) == ("pass", 0)
    assert sum(counts.values()) == 60
    assert counts.keys() == BY_NAME[name].allowed()


def test_a_test_set_that_marks_nothing_is_seen(library, monkeypatch):
    text = LitmusProgram._text
    fault = "\n".join(["start:", *lines_of(ClusterFault.UNMARKED)])
    monkeypatch.setattr(LitmusProgram, "_text", lambda self: text(self).replace("start:", fault, 1))
    program = LitmusProgram(BY_NAME["TAS"], CONFIG, 60)
    result = program_run.run_program(program.executable(), CONFIG, MACHINE, library=library)
    assert result.exit.text == "pass"
    assert sum(BY_NAME["TAS"].forbidden(program.outcomes(result)).values()) > 50


OPTIONS = ("--cores", "4", "--preset", "ri5cy", "--banks", "8", "--icache", "512", "--set", "tcdm_bytes=65536")


@pytest.fixture
def command(library, monkeypatch):
    for module in (verify_clusters, program_run):
        monkeypatch.setattr(module, "model_library", lambda *_arguments, **_options: library)
    return lambda name, *options: main(["verify", name, *OPTIONS, "--jobs", "1", *options])


def test_the_command(command, tmp_path, capfd):
    record = tmp_path / "found.json"
    assert command("cluster", "--instructions", "1000", "--seed", "9", "--json", str(record)) == 0
    result = read_results(record)[0]
    assert (result["differences"], result["failing_seeds"], result["complete"]) == (0, [], True)
    assert result["instructions"] >= 1000
    assert set(result["configurations"]) == {
        "--cores 4 --preset ri5cy --banks 8 --icache 512 --arbiter counter --set tcdm_bytes=65536"
    }
    assert "differences" in capfd.readouterr().out


def test_the_command_tells_how_to_run_a_failure_again(command, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(cluster_runs, "generate_cluster", lambda config, seed: program(seed, ClusterFault.WRONG_STORE))
    assert command("cluster", "--instructions", "1000", "--seed", "1", "--no-shrink", "-o", str(tmp_path)) == 1
    output = capfd.readouterr().out
    assert "program 1 fails:\ndifference at hart" in output
    assert "again: xpulpnn verify cluster --cores 4 --preset ri5cy" in output
    assert "--seed 1 --instructions 1" in output
    assert "hart0:" in (tmp_path / "fail1.S").read_text()
    assert (tmp_path / "fail1.elf").read_bytes().startswith(b"\x7fELF")


def test_the_command_runs_litmus_tests(command, tmp_path, capfd):
    record = tmp_path / "found.json"
    assert command("litmus", "--rounds", "5", "--json", str(record)) == 0
    result = read_results(record)[0]
    assert (result["forbidden"], result["rounds"], result["failures"]) == (0, 5, [])
    assert {test["test"] for test in result["tests"]} == set(BY_NAME)
    assert "store buffering" in capfd.readouterr().out
