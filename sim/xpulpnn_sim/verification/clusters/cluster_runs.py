"""Run random programs on a cluster in lock step with the simulator, also with faults, and shrink failing programs."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import numpy as np

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import EncodingError
from xpulpnn.isa import cluster as isa
from xpulpnn.isa.machine import ADDRESS_SPACE, WORD_BYTES
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.model.session import stalls_of
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.proofs.faults.fault import Fault
from xpulpnn_sim.reference.bare.program import ProgramBlock
from xpulpnn_sim.reference.programs.retirements import Records
from xpulpnn_sim.verification.clusters.generator import BUDGET, generate_cluster
from xpulpnn_sim.verification.clusters.program import L2_FAILING, ClusterProgram, Phase, store_lines
from xpulpnn_sim.verification.random.designs import Verdict, reset_cycle
from xpulpnn_sim.verification.random.faulty_core import FaultDetection, faulty_model, find_by_programs
from xpulpnn_sim.verification.random.program_runs import ProgramCase, ProgramRun, ProgramSource, Tally
from xpulpnn_sim.verification.random.shrink import minimise_list, shorter

MAX_INSTRUCTIONS = 25 * BUDGET  # of all harts; a program that executes more has failed
_CYCLES, _PER_LATENCY = 400_000, 40_000  # a program that runs longer has failed: fixed, and by the latency outside
RUNS, _ALL_INSTRUCTIONS = 300, 600_000
"""Limits of shrinking a program: number of candidates, and instructions that all candidates together may execute."""
_IDEAL_CHANCE = 0.15
_TIMINGS = {
    "l2_latency": (1, 1, 3, 8, 20),
    "response_latency": (1, 1, 3),
    "grant_stalls": (0.0, 0.0, 0.25),
    "fetch_latency": (1, 1, 3),
    "fetch_grant_stalls": (0.0, 0.0, 0.25),
}

_PLACES = {
    "TCDM": (isa.TCDM_BASE, isa.TCDM_BASE + (1 << isa.TEST_SET_BIT)),
    "alias of the TCDM": (0, 1 << isa.TEST_SET_BIT),
    "test&set view": (isa.TCDM_BASE | 1 << isa.TEST_SET_BIT, isa.CONTROL),
    "event unit": (isa.PRIVATE_EVENT_UNIT, isa.PRIVATE_DMA),
    "DMA engine": (isa.PRIVATE_DMA, isa.PRIVATE_DMA + 0x400),
    "timer": (isa.TIMER, isa.TIMER + 0x400),
    "L2": (isa.L2_BASE, ADDRESS_SPACE),
}
"""Address ranges whose accesses are counted, each with its first address and the address after its last."""


@dataclass(slots=True)
class Reached(Tally):
    accesses: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(_PLACES, 0)))  # by place
    misaligned: int = 0  # those across two words
    traps: int = 0  # instructions that trapped
    stalls: Counter[str] = field(default_factory=Counter[str])  # cycles without a retirement by cause, of all harts
    meetings: Counter[str] = field(default_factory=Counter[str])  # phases by kind

    def add(self, blocks: Sequence[Records]) -> None:
        for records in blocks:
            mask = records["mem_rmask"] | records["mem_wmask"]
            address = records["mem_addr"].astype(np.int64)
            accesses = mask != 0
            for place, (low, high) in _PLACES.items():
                self.accesses[place] += int((accesses & (address >= low) & (address < high)).sum())
            size = sum((mask >> byte & 1).astype(np.int64) for byte in range(4))
            self.misaligned += int((accesses & (address % WORD_BYTES + size > WORD_BYTES)).sum())
            self.traps += int((records["trap"] != 0).sum())


@dataclass(frozen=True, kw_only=True)
class ClusterSource(ProgramSource):
    config: ClusterConfig
    l2_latency: int | None = None  # of the memory outside; None: chosen for each program
    library: Path | None = None  # compiled model; None: that of the configuration

    def machine(self, seed: int) -> Machine:
        rng = Random(f"cluster machine {seed}")
        machine = Machine(seed=seed, max_instructions=MAX_INSTRUCTIONS, reset_after=reset_cycle(seed))
        machine = replace(machine, bus_errors=(L2_FAILING,))
        if rng.random() >= _IDEAL_CHANCE:
            machine = replace(machine, **{name: rng.choice(values) for name, values in _TIMINGS.items()})
        latency = machine.l2_latency if self.l2_latency is None else self.l2_latency
        return replace(machine, l2_latency=latency, max_cycles=_CYCLES + _PER_LATENCY * latency)

    def case(self, seed: int) -> ProgramCase[ClusterProgram]:
        return ProgramCase(generate_cluster(self.config, seed), self.machine(seed))

    def command(self, seed: int) -> str:
        latency = [] if self.l2_latency is None else [f"--l2-latency {self.l2_latency}"]
        return " ".join(["xpulpnn verify cluster", self.label, f"--seed {seed} --instructions 1", *latency])

    def measure(self, case: ProgramCase[ClusterProgram]) -> tuple[Verdict, Reached]:
        reached = Reached()
        result = run_program(
            case.program.executable(),
            self.config,
            case.machine,
            check=True,
            observer=reached.add,
            account=True,
            library=self.library,
        )
        for account in result.accounts:
            reached.stalls.update(stalls_of(account, devices=True))
        reached.meetings.update(phase.kind for phase in case.program.phases)
        return Verdict.of(result), reached


def shrink_cluster(
    run: ProgramRun, progress: Callable[[int], None] | None = None, runs: int = RUNS
) -> tuple[ClusterProgram, Verdict]:
    """Return the shortest program found that fails in the same way as the program of ``run``, and its verdict."""
    # whole phases are left out, then blocks of single harts; what then waits for ever counts as another failure
    case = run.source.case(run.seed)
    full: ClusterProgram = case.program
    machine = shorter(case.machine, run.verdict)
    best = full, run.verdict
    tried = spent = 0

    def fails(candidate: ClusterProgram) -> bool:
        nonlocal best, tried, spent
        if tried >= runs or spent > _ALL_INSTRUCTIONS:
            return False
        tried += 1
        try:
            verdict, _ = run.source.measure(ProgramCase(candidate, machine))
        except EncodingError:
            return False
        spent += verdict.instructions
        if verdict.reason is not run.verdict.reason:
            return False
        best = candidate, verdict
        if progress is not None:
            progress(len(candidate.text().splitlines()))
        return True

    phases = minimise_list(full.phases, lambda remaining: fails(replace(full, phases=remaining)))
    harts = range(full.harts)
    blocks = [(at, hart, block) for at, phase in enumerate(phases) for hart in harts for block in phase.parts[hart]]

    def reduced(blocks: Sequence[tuple[int, int, ProgramBlock]]) -> tuple[Phase, ...]:
        return tuple(
            replace(phase, parts=tuple(tuple(block for *at, block in blocks if at == [number, hart]) for hart in harts))
            for number, phase in enumerate(phases)
        )

    minimise_list(blocks, lambda remaining: fails(replace(full, phases=reduced(remaining))))
    if full.functions:
        fails(replace(best[0], functions=()))
    return best


@dataclass(frozen=True, kw_only=True)
class _FaultySource(ClusterSource):
    """Random programs in which core 0 first activates a fault of the bridges to Wishbone."""

    fault: int

    def case(self, seed: int) -> ProgramCase[ClusterProgram]:
        case = super().case(seed)
        first, *others = case.program.phases
        choice = ProgramBlock("fault", tuple(store_lines(isa.CONTROL, (isa.Control.RETURN, self.fault))))
        phases = (replace(first, parts=((choice, *first.parts[0]), *first.parts[1:])), *others)
        return replace(case, program=replace(case.program, phases=phases))


def find_bridge_faults(
    source: ClusterSource, faults: Sequence[Fault], instructions: int, seed: int = 0
) -> Iterator[FaultDetection]:
    """For each fault, run random programs on the faulty cluster until one fails or enough instructions have retired."""
    config, latency = source.config, source.l2_latency
    library = faulty_model(config, faults, "cluster-wishbone")
    for number, fault in enumerate(faults, start=1):
        faulty = _FaultySource(config=config, l2_latency=latency, library=library, fault=number)
        yield find_by_programs(fault, faulty, instructions, seed)
