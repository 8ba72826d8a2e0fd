"""Run random programs on a model that counts coverage: crosses, and lines and bits of the Verilog.

Programs come in batches. A batch depends only on what earlier batches have reached, so that the same options give the
same programs with any number of processes.
"""

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError, require
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cosimulation.model.build import TOP
from xpulpnn_sim.cosimulation.model.libraries import cached_emission, model_library, observed, write_coverage
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.model.session import RunResult
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.bare.draw import Draw
from xpulpnn_sim.reference.bare.program import Handlers, RandomProgram, random_handlers
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.reference.programs.retirements import RETIREMENT, Records
from xpulpnn_sim.verification.coverage.aims import SKIPPING, Aims
from xpulpnn_sim.verification.coverage.collector import Collector
from xpulpnn_sim.verification.coverage.crosses import Crosses, crosses_of
from xpulpnn_sim.verification.coverage.kinds import Producer
from xpulpnn_sim.verification.coverage.placing import Placer
from xpulpnn_sim.verification.random.designs import Verdict, random_machine
from xpulpnn_sim.verification.random.generator import framed, initial_registers
from xpulpnn_sim.verification.random.program_runs import CoreSource, Coverage, Job, ProgramCase, ProgramRun

T = TypeVar("T")
_HEAD = b"# SystemC::Coverage-3\n"
_COUNT = re.compile(rb"' (\d+)$", re.MULTILINE)
_POINT = re.compile(rb"^C '(.*)' \d+$", re.MULTILINE)
_BIT = re.compile(r"^(.*?)(?:\[(\d+)\])?(?::(0->1|1->0))?$")
_DROPPED = "unused"  # signal of a module that holds what nobody reads, for the sake of lint


@dataclass(frozen=True, slots=True)
class CoveragePoint:
    """A line, a branch or a bit of the emitted Verilog whose use Verilator counts."""

    kind: str  # `line`, `branch` or `toggle`
    module: str  # of the emitted Verilog
    line: int  # in the emitted Verilog
    name: str  # which branch of the line, or which signal
    bit: int = -1  # of the signal; -1: it has one
    change: str = ""  # `0->1` or `1->0` of a toggle


def read_counts(path: Path) -> NDArray[np.int64]:
    """Read the counts of a coverage file in the order of :func:`read_points`; raise :class:`ToolError` if invalid."""
    data = path.read_bytes()
    require(data.startswith(_HEAD), f"{path.name} must be coverage in Verilator's format 3, not another one", ToolError)
    return np.array(_COUNT.findall(data), np.int64)


def read_points(path: Path) -> list[CoveragePoint]:
    return [_point(entry.decode()) for entry in _POINT.findall(path.read_bytes())]


def _point(text: str) -> CoveragePoint:
    # a name with two underscores in a row is written with the number of the second
    fields = dict(part.split("\x02", 1) for part in text.replace("___05F", "__").split("\x01") if "\x02" in part)
    kind, _, module = fields["page"].removeprefix("v_").partition("/")
    # an instance with parameters of its own would be named behind the module
    module = module.partition("__")[0]
    if kind != "toggle":
        return CoveragePoint(kind, module, int(fields["l"]), fields["o"])
    match = _BIT.match(fields["o"])
    assert match is not None
    return CoveragePoint(kind, module, int(fields["l"]), match[1], int(match[2] or -1), match[3] or "")


@dataclass(frozen=True, slots=True)
class ModuleCoverage:
    """Used and counted lines, branches and bit changes of a module, over all its instances."""

    name: str  # in the Verilog
    component: str  # the Python class it was made of
    lines: tuple[int, int]  # used and counted
    branches: tuple[int, int]  # used and counted
    changes: tuple[int, int]  # used and counted


UsedPoints = Mapping[CoveragePoint, bool]  # Points of the core with whether they were used


def merged(points: Sequence[CoveragePoint], used: NDArray[np.bool_]) -> UsedPoints:
    """Merge the coverage points of all instances of each module; points outside the core are dropped."""
    used_points: dict[CoveragePoint, bool] = {}
    for point, was_used in zip(points, used.tolist(), strict=True):
        if point.module != TOP and point.name != _DROPPED:
            used_points[point] = used_points.get(point, False) or was_used
    return used_points


def module_table(points: UsedPoints, components: Mapping[str, str]) -> list[ModuleCoverage]:
    tallies: dict[str, dict[str, tuple[int, int]]] = {}
    for point in sorted(points, key=lambda point: point.line):
        tally = tallies.setdefault(point.module, dict.fromkeys(("line", "branch", "toggle"), (0, 0)))
        used, counted = tally[point.kind]
        tally[point.kind] = used + points[point], counted + 1
    return [ModuleCoverage(name, components.get(name, ""), *tally.values()) for name, tally in tallies.items()]


def unused_lines(points: UsedPoints, verilog: str) -> list[tuple[str, list[list[Any]]]]:
    """Return, by module, the unused lines and branches: line number, Verilog text, and which branch of the line."""
    text = dict(enumerate(map(str.strip, verilog.splitlines()), 1))
    never = sorted(
        (point.module, point.line, text.get(point.line, ""), point.name.replace("_", " "))
        for point, used in points.items()
        if point.kind != "toggle" and not used
    )
    return [(module, [line for _, *line in lines]) for module, lines in groupby(never, key=itemgetter(0))]


def unused_bits(points: UsedPoints) -> list[tuple[str, list[tuple[str, str]]]]:
    toggles = [point for point, used in points.items() if point.kind == "toggle" and not used]
    never = sorted((point.module, point.name, point.change, point.bit) for point in toggles)
    unused: dict[str, list[tuple[str, str]]] = {}
    for (module, name), signal in groupby(never, key=itemgetter(0, 1)):
        bits = {change: [bit for *_, bit in each] for change, each in groupby(signal, key=itemgetter(2))}
        unused.setdefault(module, []).append((name, _bits_text(bits.get("0->1", []), bits.get("1->0", []))))
    return [*unused.items()]


def _bits_text(rising: Sequence[int], falling: Sequence[int]) -> str:
    if rising == falling:
        return f"{_ranges(rising)}never changes"
    parts = [f"{_ranges(bits)}never {verb}" for bits, verb in ((rising, "rises"), (falling, "falls")) if bits]
    return ", ".join(parts)


def _ranges(bits: Sequence[int]) -> str:
    """Format bit numbers as ranges; return an empty text for a signal of one bit."""
    if bits[0] < 0:
        return ""
    # neighbours are as far from their places in the list
    runs = groupby(enumerate(bits), key=lambda pair: pair[1] - pair[0])
    spans = [[bit for _, bit in run] for _, run in runs]
    return ", ".join(f"{span[-1]}:{span[0]}" if len(span) > 1 else str(span[0]) for span in reversed(spans)) + " "


BATCH = 16  # programs of a batch
_FEW = 50  # blocks of a program that aims at fewer crosses, each several times
_UNAIMED = 4  # of them without an aim
AIMS = 1500  # crosses that a program aims at, at most
_RATE = 0.05  # Interrupts per cycle of programs that aim at interrupts, with an ideal memory
_MAX_CYCLES = 400_000  # a program that runs longer has failed; it has no long loops
_SLOTS = ("mret", "mret", "mret", "mret", "j quick", "j skip")
_INTERRUPTS = frozenset({"interrupt", "across an interrupt", "interrupt in a loop"})

_IDEAL = {"grant_stalls": 0.0, "response_latency": 1, "fetch_grant_stalls": 0.0, "fetch_latency": 1}


class Need(Enum):
    """Memory and interrupt settings with which a program is likely to reach some crosses."""

    ANY = dict[str, float]()
    QUICK = _IDEAL
    SLOW_DATA = _IDEAL | {"grant_stalls": 0.1, "response_latency": 8}
    SLOW_FETCH = _IDEAL | {"fetch_grant_stalls": 0.3, "fetch_latency": 9}
    INTERRUPTS = _IDEAL | {"irq_rate": _RATE}


@dataclass(frozen=True, kw_only=True)
class CoverageSource(CoreSource):
    """Programs that run on the model that counts coverage; with ``aims`` they aim at those crosses."""

    aims: tuple[int, ...] = ()  # numbers of the crosses

    def case(self, seed: int) -> ProgramCase[RandomProgram]:
        if not self.aims:
            return super().case(seed)
        crosses = crosses_of(self.config)
        settings = {"max_cycles": _MAX_CYCLES, "irq_rate": 0.0, **need(crosses, self.aims[0]).value, **self.chosen}
        machine = replace(random_machine(seed, self.chosen), **settings)
        interrupts, draw = machine.irq_rate > 0, Draw(Random(f"aimed program {seed}"), self.config)
        registers = initial_registers(draw)
        aims = Aims(crosses, Placer(draw, crosses.rows, interrupts=interrupts))
        blocks = [block for number in self.aims if (block := aims.block(number)) is not None]
        handlers = Handlers(watches_loops=draw.config.xpulpv2)
        if interrupts:
            # most return at once, so that programs get on
            slots = tuple(draw.rng.choice(_SLOTS) for _ in handlers.slots)
            handlers = replace(random_handlers(draw), slots=slots, exception=SKIPPING + handlers.exception.lstrip())
        program = RandomProgram((registers, *blocks), (), handlers, seed, f"aimed program {seed}")
        return ProgramCase(framed(program, interrupts=interrupts), machine)

    def command(self, seed: int) -> str:
        random = super().command(seed)
        if not self.aims:
            return random
        return f"{random.replace('verify', 'verify coverage', 1)} --aim {','.join(map(str, self.aims))}"

    def measure(self, case: ProgramCase[RandomProgram]) -> tuple[Verdict, "Covered"]:
        covered, collector, blocks = Covered(), _collector(self.config), [np.zeros(0, RETIREMENT)]

        def observe(harts: Sequence[Records]) -> None:
            covered.add(harts[0], self.config)
            blocks.append(harts[0].copy())

        how = {"lockstep": True, "observer": observe}
        result, counts = run_counted(case.program.executable(), self.config, case.machine, read_counts, **how)
        covered.points = counts > 0
        collector.counts[:] = 0
        collector.add(np.concatenate(blocks))
        covered.crosses = np.flatnonzero(collector.counts)
        covered.times = collector.counts[covered.crosses]
        return Verdict.of(result), covered


@cache
def need(crosses: Crosses, aim: int) -> Need:
    """Return the settings with which programs are most likely to reach the cross ``aim``."""
    family, place = crosses.place(aim)
    values = [axis[at] for axis, at in zip(family.values, family.at(place), strict=True)]
    ops = {getattr(value, "op", "") for value in values}
    returns = "mret" in ops and (WaitCause.TRAP in values or "behind what fails" in values)
    if family.name in _INTERRUPTS or WaitCause.SLEEP in values or "wfi" in ops or returns:
        return Need.INTERRUPTS
    if family.name == "wait" and values[1] in (WaitCause.GRANT, WaitCause.RESPONSE):
        return Need.SLOW_DATA
    if family.name == "wait" and values[1] is WaitCause.FETCH:
        return Need.SLOW_FETCH
    if family.name == "timing":
        kind, producer, _, when = values
        if when == "after a wait":
            return Need.SLOW_FETCH
        return Need.SLOW_DATA if kind in crosses.slow or producer is Producer.LINK else Need.QUICK
    return Need.ANY


def steered(source: CoverageSource, first: int, collector: Collector) -> Iterator[Iterable[Job]]:
    """Yield batches of programs without end; each batch aims at crosses that ``collector`` does not contain yet."""
    seed = first
    while True:
        sources = batch(source, collector, seed)
        yield enumerate(sources, seed)
        seed += len(sources)


def batch(source: CoverageSource, collector: Collector, seed: int) -> list[CoverageSource]:
    """Return a source for each of the next programs; all crosses that a source aims at need the same settings."""
    rng = Random(f"batch {seed}")
    crosses = collector.crosses
    holes = collector.holes.tolist()
    rng.shuffle(holes)
    groups: dict[Need, list[int]] = {}
    for hole in holes:
        groups.setdefault(need(crosses, hole), []).append(hole)
    sources = [source] * (_UNAIMED if collector.counts.any() else BATCH // 2)
    shares = dict.fromkeys(groups, 0)
    while groups and len(sources) + sum(shares.values()) < BATCH:
        # one each, then those with the most left
        shares[max(groups, key=lambda kind: (shares[kind] == 0, len(groups[kind]) / (shares[kind] + 1)))] += 1
    for kind, share in shares.items():
        group = groups[kind]
        for number in range(share):
            aims = group[AIMS * number : AIMS * (number + 1)] or rng.sample(group, min(len(group), AIMS))
            # where few are left, several programs aim at each, several times
            sources.append(replace(source, aims=tuple(aims * max(1, _FEW // len(aims)))))
    return sources


@dataclass(slots=True)
class Covered(Coverage):
    crosses: NDArray[np.int64] = field(default_factory=partial(np.zeros, 0, np.int64))  # numbers of those reached
    times: NDArray[np.int64] = field(default_factory=partial(np.zeros, 0, np.int64))  # how often each
    points: NDArray[np.bool_] = field(default_factory=partial(np.zeros, 0, np.bool_))  # lines and bits used


_collector = cache(Collector)  # all programs of this process share it, since it caches decoded words


def run_counted(
    executable: Executable, config: CoreConfig, machine: Machine, read: Callable[[Path], T], **how: Any
) -> tuple[RunResult, T]:
    """Run a program on the model that counts coverage; return its result, and the counts in the form of ``read``."""
    library = model_library("core", config, covered=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts"
        closing = partial(write_coverage, library, path)
        return run_program(executable, config, machine, library=library, before_close=closing, **how), read(path)


class Total:
    def __init__(self, config: CoreConfig) -> None:
        self.collector = Collector(config)
        _, self.points = run_counted(RandomProgram(()).executable(), config, Machine(), read_points)
        self.used = np.zeros(len(self.points), np.bool_)
        self.verilog, manifest = cached_emission("core", observed(config), both_edges=True)
        self.components = {name: module["component"] for name, module in manifest["modules"].items()}

    def add(self, run: ProgramRun) -> None:
        covered = run.coverage
        self.collector.counts[covered.crosses] += covered.times
        self.used |= covered.points

    @property
    def used_points(self) -> UsedPoints:
        return merged(self.points, self.used)

    def families(self) -> dict[str, dict[str, int]]:
        """Return, for each family, the numbers of its crosses, reached crosses and unreachable combinations."""
        crosses, table = self.collector.crosses, dict[str, dict[str, int]]()
        for name, family in crosses.families.items():
            states, met = family.states.ravel(), crosses.part(name, self.collector.counts) > 0
            masks = {"crosses": states == 0, "reached": met & (states == 0), "out_of_reach": states > 0}
            table[name] = {what: int(places.sum()) for what, places in masks.items()}
        return table
