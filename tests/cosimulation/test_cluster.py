"""Programs on a cluster: every retirement of every core checked, ends told, faults of the hardware found."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.faulty_cluster import CONFIG, emitted, faulty_model
from tests.programs import read_results

from xpulpnn.config import preset
from xpulpnn.errors import InputError
from xpulpnn.isa.cluster import NO_MASTER, TCDM_BASE
from xpulpnn_sim.cli import run as run_command
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.cosimulation.checks.retirements import Checker
from xpulpnn_sim.cosimulation.model import session, waves
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.cosimulation.model.machine import Machine, hart_ids
from xpulpnn_sim.cosimulation.model.schema import STALLS, DeviceWait
from xpulpnn_sim.cosimulation.model.session import RunResult, stalls_of
from xpulpnn_sim.cosimulation.workloads import program_run
from xpulpnn_sim.reference.bare.program import elf_bytes
from xpulpnn_sim.reference.iss.cluster_lockstep import ClusterLockstep
from xpulpnn_sim.reference.programs.elf import Executable, Segment, functions_of, require_fitting
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sw.assembly.asm import assemble

pytestmark = pytest.mark.cosim

CORES, BANKS, TCDM_BYTES = CONFIG.cores, CONFIG.banks, CONFIG.tcdm_bytes
TEXT, L2 = 0x1C00_0080, 0x1C01_0000
TOHOST = TCDM_BASE + 0x100
PROGRAM = Path(__file__).with_suffix(".s").read_text()
RANDOM = Path(__file__).with_name("test_cluster_random.s").read_text()
SHARED = Path(__file__).with_name("test_cluster_shared.s").read_text()
PASS = "li t1, 1\nli t0, tohost\nsw t1, 0(t0)\nrest: j rest"
ROUNDS = 30
LATE = 2
"""The core that comes to barriers last."""


@pytest.fixture
def library() -> Path:
    return faulty_model()


def program(source: str = PROGRAM, *, rounds: int = ROUNDS, tohost: int = TOHOST) -> Executable:
    values = {"tcdm": TCDM_BASE, "l2": L2, "tohost": tohost, "rounds": rounds}
    values |= {"cores": CORES, "cores_mask": (1 << CORES) - 1, "late": LATE, "expected": rounds * CORES}
    text = assemble("".join(f".equ {name}, {value}\n" for name, value in values.items()) + source, TEXT)
    code = text.to_bytes()
    labels = {name: address for name, address in text.labels.items() if 0 <= address - TEXT < len(code)}
    return Executable(
        path=Path("cluster program"),
        entry=TEXT,
        segments=(Segment(TEXT, code, len(code)), Segment(L2, b"", 0x100)),
        functions=functions_of(labels, TEXT + len(code)),
        tohost=tohost,
    )


def run(library: Path, executable: Executable, *, check: bool = True, account: bool = False, **machine) -> RunResult:
    surroundings = Machine(max_cycles=1_000_000, **machine)
    return program_run.run_program(executable, CONFIG, surroundings, check=check, account=account, library=library)


def passes(library: Path, executable: Executable, **machine) -> RunResult:
    result = run(library, executable, **machine)
    assert (result.exit.text, result.mismatches, result.difference) == ("pass", 0, None)
    return result


@pytest.mark.parametrize(
    ("tohost", "machine"),
    [(TOHOST, {}), (L2 + 0x80, {"l2_latency": 9, "response_latency": 4, "grant_stalls": 0.3, "seed": 3})],
)
def test_every_retirement_is_right(library, tohost, machine):
    result = passes(library, program(tohost=tohost), fetch_latency=2, fetch_grant_stalls=0.1, **machine)
    words = result.memory[TCDM_BASE][:0x100].view("<u4")
    assert words[:CORES].tolist() == [ROUNDS] * CORES
    assert words[0x48 // 4] == ROUNDS * CORES
    assert result.memory[L2][: 4 * CORES].view("<u4").tolist() == [ROUNDS] * CORES


@pytest.mark.parametrize(
    ("source", "rounds", "block", "machine"),
    [
        (RANDOM, 60, 0, {"fetch_latency": 2, "l2_latency": 6, "grant_stalls": 0.2, "seed": 9}),
        # the shared view of the event unit is judged
        (SHARED, 40, 256, {"fetch_latency": 3, "fetch_grant_stalls": 0.2, "seed": 4}),
        # blocks end anywhere
        (PROGRAM, 5, 16, {"l2_latency": 5}),
    ],
)
def test_words_that_all_cores_draw_and_share(library, monkeypatch, source, rounds, block, machine):
    monkeypatch.setattr(session, "BLOCK_RETIREMENTS", block or session.BLOCK_RETIREMENTS)
    result = passes(library, program(source, rounds=rounds), **machine)
    assert source != RANDOM or result.instructions > 1000 * rounds


def test_a_wrong_order_of_grants_is_found(library, monkeypatch):
    """The check is told of a write and the next read of the word, by two cores, the other way round."""
    swapped = []

    class Misled(ClusterLockstep):
        def follow(self, records, accesses, lines=None, *, last=False):
            swapped_accesses = accesses.copy()
            words = accesses[["address", "hart", "we", "be", "cycle"]].tolist()
            for at, (address, hart, we, be, cycle) in enumerate(words if not swapped else ()):
                later = next((n for n in range(at + 1, len(words)) if words[n][0] == address), at)
                reader, until = words[later][1], words[later][4]
                if not (we and be == 15 and hart != reader < CORES and not words[later][2] and address < L2):
                    continue
                # the read could have been made in the cycle of the write
                retired = records[reader]["cycle"]
                if not ((retired > cycle) & (retired <= until)).any():
                    swapped.append((reader, address))
                    swapped_accesses[at + 1 : later + 1] = accesses[at:later]
                    swapped_accesses[at] = accesses[later]
                    swapped_accesses["cycle"][at] = cycle
                    break
            return super().follow(records, swapped_accesses, lines, last=last)

    monkeypatch.setattr(program_run, "ClusterLockstep", Misled)
    result = run(library, program(RANDOM, rounds=5))
    [(hart, address)] = swapped
    assert result.mismatches
    lines = result.difference.splitlines()
    assert lines[0].startswith(f"difference at hart {hart}, retirement ")
    assert lines[2].startswith("  mem_rdata must be ")
    read = int(lines[2].split()[-1], 0)
    assert 0 <= (address - read) % TCDM_BYTES < 4


class Recorder(Checker):
    def __call__(self, block):
        self.records = [block.records(hart).copy() for hart in range(CORES)]
        self.grants = block.grants.copy()


def changed(field, flip):
    def change(grants, at):
        grants[field][at] ^= flip
        return grants

    return change


@pytest.mark.parametrize(
    ("master", "writes", "change", "reported"),
    [
        ("core", True, changed("wdata", 1), "bus_wdata must be 0x"),
        ("core", True, changed("be", 0xC), "bus_be must be 0x"),
        ("core", False, changed("address", 4), "bus_addr must be 0x"),
        ("core", False, np.delete, "bus_req must be 1, not 0"),
        ("core", False, lambda grants, at: np.insert(grants, at, grants[at]), "the bus has granted an access that"),
        ("mark", True, changed("be", 2), "a test&set marks the bytes that it has read"),
        ("mark", True, changed("wdata", 1), "a test&set marks the bytes that it has read"),
        ("mark", True, np.delete, "a test&set marks the bytes that it has read"),
    ],
)
def test_a_wrong_access_is_found(library, master, writes, change, reported):
    recorder, executable = Recorder(), program(rounds=2)
    program_run.run_program(executable, CONFIG, Machine(), library=library, more_checkers=[recorder])
    assert ClusterLockstep(executable, CONFIG).follow(recorder.records, recorder.grants) is None
    masters, we = recorder.grants["hart"], recorder.grants["we"] != 0
    chosen = masters < CORES if master == "core" else masters == NO_MASTER
    grants = change(recorder.grants.copy(), int(np.flatnonzero(chosen & (we == writes))[0]))
    assert reported in ClusterLockstep(executable, CONFIG).follow(recorder.records, grants).text


def test_a_missing_core_at_a_barrier_is_a_deadlock(library):
    source = PROGRAM.replace("go:\n", "go:\nli t0, 3\nbeq s0, t0, rest\n")
    result = run(library, program(source))
    assert result.exit.reason is Reason.DEADLOCK
    barrier, rest = (function for function in program(source).functions if function.name in ("lock", "rest"))
    assert result.exit.text.startswith("deadlock: cores 0, 1, 2: waits for barrier 0 at 0x1c0001")
    assert f"({barrier.name}+0x" in result.exit.text
    assert result.exit.text.endswith(f"; core 3: is in an endless loop at 0x{rest.address:08x} (rest)")


def test_each_core_is_told_what_it_waits_for(library):
    source = """
    start:
        csrr s0, mhartid
        andi s0, s0, 31
        li s2, 0x10204000
        li t0, 1
        beq s0, x0, mutex
        beq s0, t0, dispatch
        li t0, 2
        beq s0, t0, event
        wfi
    mutex:
        p.elw t1, 0xc0(s2)
        p.elw t1, 0xc0(s2)
    dispatch:
        p.elw t1, 0x80(s2)
    event:
        p.elw t1, 0x3c(s2)
    """
    text = run(library, program(source)).exit.text
    reasons = ("core 0: waits for mutex 0", "core 1: waits for a dispatched task", "core 2: waits for an event")
    assert all(part in text for part in (*reasons, "core 3: sleeps in wfi")), text


def test_who_waits_for_the_timer_does_not_wait_in_vain(library):
    source = """
    start:
        csrr s0, mhartid
        andi s0, s0, 31
        li s2, 0x10204000
        li s4, 0x10200400
        li t0, 0x400
        sw t0, 8(s2)
        bne s0, x0, wait
        li t0, 150000
        sw t0, 0x10(s4)
        li t0, 0x25
        sw t0, 0(s4)
    wait:
        p.elw t1, 0x3c(s2)
        bne s0, x0, rest
    """
    assert 150_000 < passes(library, program(source + PASS)).cycles < 150_400


OUTSIDE_PROGRAM = "start:\ncsrr s0, mhartid\nli t0, 2\nbne s0, t0, rest\nguilty:\nli t1, {}\n{}\nrest: j rest"
INSNS = {"load": "lw t2, 0(t1)", "store": "sw t2, 0(t1)"}


def test_an_access_outside_the_memory_beyond_names_the_core(library):
    address = L2 + 0x100
    ended = run(library, program(OUTSIDE_PROGRAM.format(address, INSNS["store"]))).exit
    assert (ended.reason, ended.address) == (Reason.BAD_ACCESS, address)
    assert ended.text.startswith(f"core 2: store of 4 bytes outside memory: address 0x{address:08x}, instruction at")
    assert "(guilty+0x" in ended.text


@pytest.mark.parametrize(
    ("kind", "address"),
    [("load", TCDM_BASE + TCDM_BYTES), ("load", 0x3_0000), ("store", 0x1020_1C00), ("load", 0x1021_0000)],
)
def test_an_access_outside_the_map_of_the_cluster_faults(library, kind, address):
    executable = program(OUTSIDE_PROGRAM.format(address, INSNS[kind]))
    result = run(library, executable)
    # there is no handler either
    assert result.exit.reason is Reason.BAD_FETCH
    assert result.exit.text.startswith("core 2: execution outside memory")
    assert result.trapped is not None
    assert result.trapped.cause == {"load": 5, "store": 7}[kind]
    assert executable.symbol_at(result.trapped.pc).startswith("guilty+0x")


def test_all_addresses_of_the_tcdm_are_one_memory(library):
    source = """
    start:
        csrr s0, mhartid
        bne s0, x0, rest
        li s1, tcdm
        li s3, 0x10100000
        li t0, 77
        sw t0, 0x20(x0)
        lw t1, 0x20(s1)
        lw t2, 0x20(s3)
        lw t3, 0x20(x0)
        sb t0, 0x21(s3)
        lw t4, 0x20(s1)
        sub t1, t1, t0
        sub t2, t2, t0
        addi t3, t3, 1
        li t5, 0xffff4dff
        xor t4, t4, t5
        or t1, t1, t2
        or t1, t1, t3
        or t1, t1, t4
        slli t1, t1, 1
        addi t1, t1, 1
        li t0, tohost
        sw t1, 0(t0)
    rest: j rest
    """
    passes(library, program(source))


def test_stalls_are_told_apart(library):
    source = """
    start:
        csrr s0, mhartid
        bne s0, x0, rest
        li s4, l2
        li s2, 0x10204000
        li t0, 10
    more:
        lw t1, 0(s4)
        lw t1, 0x1c(s2)
        addi t0, t0, -1
        bne t0, x0, more
    """
    costs = {}
    for latency in (1, 21):
        result = run(library, program(source + PASS), check=False, account=True, l2_latency=latency)
        assert result.exit.ok
        costs[latency] = stalls_of(result.accounts[0], devices=True)
    assert costs[21]["external"] - costs[1]["external"] == 10 * 20
    assert costs[1]["bank_conflict"] == costs[1]["barrier"] == costs[1]["response"] == costs[1]["grant"] == 0
    assert list(costs[1]) == [cause.name.lower() for cause in STALLS if cause]
    result = run(library, program(), check=False, account=True)
    # the core that comes last waits for nobody but itself
    waits = [int(account[:, DeviceWait.BARRIER].sum()) for account in result.accounts]
    assert min(waits) == waits[LATE] < ROUNDS * 10
    assert all(wait > ROUNDS * 100 for core, wait in enumerate(waits) if core != LATE)
    assert all(account[:, DeviceWait.BANK_CONFLICT].any() for account in result.accounts)


def test_programs_and_surroundings_must_fit():
    core, ram = preset("xpulpnn"), Machine(ram=((TCDM_BASE + TCDM_BYTES, 16),))
    large, alias = (Segment(TCDM_BASE, b"", TCDM_BYTES + 4),), (Segment(0x100, b"", 16),)
    for config, machine, executable, message in (
        (CONFIG, Machine(), replace(program(), segments=large), "must fit into the TCDM"),
        (CONFIG, Machine(), replace(program(), segments=alias), "must keep out of the alias of the TCDM"),
        (CONFIG, ram, program(), "^ram must fit into the TCDM, which ends at 0x10010000"),
        (CONFIG, Machine(hart_id=1), program(), "hart number must be left out for a cluster"),
        (core, Machine(l2_latency=2), program(), "latency of the L2 must be 1 without a cluster, not 2"),
    ):
        with pytest.raises(InputError, match=message):
            _require_all(config, machine, executable)


def _require_all(config, machine, executable):
    hart_ids(config, machine)
    require_fitting(executable, config, machine.ram)


@pytest.fixture
def cluster_command(library, tmp_path, monkeypatch) -> Callable[..., int]:
    for module in (run_command, program_run):
        monkeypatch.setattr(module, "model_library", lambda *_arguments, **_options: library)
    path = tmp_path / "program.elf"

    def execute(executable: Executable, *options: str) -> int:
        path.write_bytes(elf_bytes(replace(executable, symbols={"tohost": executable.tohost})))
        design = f"--preset ri5cy --cores {CORES} --banks {BANKS} --set tcdm_bytes={TCDM_BYTES}"
        return main(["run", str(path), *design.split(), *options])

    return execute


def test_the_command_tells_of_every_core(cluster_command, tmp_path, capfd):
    record, trace = tmp_path / "run.json", tmp_path / "trace.txt"
    options = ("--check", "all", "--profile", "--json", str(record), "--trace", str(trace), "--l2-latency", "3")
    assert cluster_command(program(rounds=3), *options) == 0
    result = read_results(record)[0]
    assert (result["reason"], result["engine"], result["mismatches"]) == ("pass", "cluster", 0)
    conditions = {"cores": CORES, "banks": BANKS, "l2_latency": 3}
    assert conditions.items() <= result["conditions"].items()
    cores = result["by_core"]
    assert [row["core"] for row in cores] == list(range(CORES))
    for row in cores:
        assert row["instructions"] + sum(row["stalls"].values()) + row["unfinished"] == result["cycles"]
    lines = trace.read_text().splitlines()[1:]
    assert len(lines) == result["instructions"]
    when = [tuple(map(int, reversed(line.split()[:2]))) for line in lines]
    assert when == sorted(when)
    assert {core for _cycle, core in when} == set(range(CORES))
    printed = capfd.readouterr()
    assert "cycles by core" in printed.out
    assert "ri5cy tcdm_bytes=65536, 4 cores, 8 banks, l2 latency 3, seed 0" in printed.err


@pytest.mark.parametrize(
    ("source", "options", "code", "message"),
    [
        ("start: wfi\nj start", (), 1, "cores 0, 1, 2, 3: sleeps in wfi"),
        (PROGRAM, ("--cores", "3"), 2, "Parameter --cores specified multiple times."),
        (PROGRAM, ("--irq", "3@100"), 2, "interrupts must be left out for a cluster"),
    ],
)
def test_the_command_tells_what_is_wrong(cluster_command, capfd, source, options, code, message):
    assert cluster_command(program(source), *options) == code
    assert message in capfd.readouterr().err


def test_waveforms_have_a_view_for_each_core(monkeypatch):
    monkeypatch.setattr(waves, "cached_emission", lambda *_arguments: emitted())
    groups, _ = waves.contents(program(), CONFIG)
    assert {group.partition("/")[0] for group in groups if "/" in group} == {f"core {core}" for core in range(CORES)}
    assert {shown.name for shown in groups["cluster"]} >= {"core_clock_en", "ext__req", "barrier_0_events"}
    instances = {
        shown.instance for group, signals in groups.items() if group.startswith("core 1/") for shown in signals
    }
    assert "cluster.core1.backend.id_stage" in instances
    assert all(instance.startswith(("cluster.core1", "cluster.demux1")) for instance in instances)
    assert all(groups.values())
    # of a core without Mac&Load
    names = {shown.name for signals in groups.values() for shown in signals}
    assert ("lpcount0" in names, "nn_we" in names) == (True, False)


def test_gated_clocks_change_no_cycle(library):
    """Barriers, and the counter of cycles that each core stores behind them, with and without clock gates."""
    stored = "csrr t6, mcycle\nadd t4, s1, s5\nsw t6, 0x200(t4)\nadd t4, s1, x0\n"
    executable = program(PROGRAM.replace("add t4, s1, x0\n", stored), rounds=5)
    gated = replace(CONFIG, core=replace(CONFIG.core, clock_gate=True))
    ends = []
    for config, model in ((CONFIG, library), (gated, model_library("cluster", gated))):
        result = program_run.run_program(executable, config, Machine(max_cycles=100_000, l2_latency=3), library=model)
        assert (result.exit.text, result.difference) == ("pass", None)
        counts = result.memory[TCDM_BASE][0x200 : 0x200 + 4 * CORES].view("<u4").tolist()
        assert min(counts) > 0
        ends.append((result.cycles, counts))
    assert ends[0] == ends[1]
