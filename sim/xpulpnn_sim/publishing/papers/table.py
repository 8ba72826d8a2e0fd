"""Tables of the papers: rows of printed figures and of the runs that are put beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from xpulpnn.config import BOTH_FORMS, ClusterConfig, CoreConfig, preset
from xpulpnn_sim.api.cosimulation import MOST_CYCLES, cosim, cosim_cluster
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.network_run import build_network
from xpulpnn_sim.cosimulation.networks.network_work import NetworkCase
from xpulpnn_sim.cosimulation.workloads.bnn_run import BnnCase, run_bnn
from xpulpnn_sim.cosimulation.workloads.cifar10 import random_network
from xpulpnn_sw.kernels.requantisation import Rule

Record = Mapping[str, Any]

USUAL_BANKS = 16


class Run(Protocol):
    """Something that runs on the RTL; equal ones are run once, and ``repr`` tells different ones apart."""

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        ...

    def measure(self, *, check: bool) -> Record:
        """Run it and compare its results, with ``check`` every retired instruction too.

        The record is that of ``cosim --json``; its ``mismatches`` are 0 if all is right.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperRun:
    """A kernel, on the back end fed with its instructions or on the cores of a cluster."""

    kernel: str  # as on the command line of `cosim`
    layer: str  # as on the command line of `cosim`
    precision: str  # as on the command line of `cosim`
    variant: str  # as on the command line of `cosim`
    rule: str = Rule.BN32.value  # how results come of accumulators
    cores: int | None = None  # cores of a cluster that share it; None: one by itself, with memory of its own
    banks: int = USUAL_BANKS

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        words = ["xpulpnn cosim", self.kernel, "--layer", self.layer, "--precision", self.precision]
        words += ["--variant", self.variant]
        words += [] if self.rule == Rule.BN32.value else ["--requantise", self.rule]
        words += [] if self.cores is None else ["--cores", str(self.cores)]
        words += [] if self.banks == USUAL_BANKS else ["--banks", str(self.banks)]
        return " ".join(words)

    def measure(self, *, check: bool) -> Record:
        """Run it."""
        asked: dict[str, Any] = {
            "layers": [self.layer],
            "precisions": [self.precision],
            "variants": [self.variant],
            "rule": Rule(self.rule),
            "config": BOTH_FORMS,
            "check": check,
        }
        if self.cores is None:
            (result,) = cosim(self.kernel, **asked)
        else:
            (result,) = cosim_cluster(self.kernel, cores=[self.cores], banks=[self.banks], **asked)
        return result.record


def simulated_config(name: str, cores: int) -> CoreConfig | ClusterConfig:
    """A core of a preset, or a cluster of such cores."""
    core = simulated(preset(name))
    return core if cores == 1 else ClusterConfig(core=core, cores=cores)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierRun:
    """The binarised classifier."""

    variant: str  # how bits lie in words: `window`, `dense` or `crumbs`
    popcount: str  # how bits are counted: `hardware` or `software`
    cores: int = 1  # that share it; one has memory of its own

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        shared = "" if self.cores == 1 else f" --cores {self.cores}"
        return f"xpulpnn cosim bnn --variant {self.variant} --popcount {self.popcount}{shared}"

    def measure(self, *, check: bool) -> Record:
        """Run it."""
        config = simulated_config(BOTH_FORMS, self.cores)
        machine = Machine(max_cycles=MOST_CYCLES)
        case = BnnCase(variant=self.variant, popcount=self.popcount, config=config, machine=machine, checked=check)
        return run_bnn(case).record


@dataclass(frozen=True, slots=True, kw_only=True)
class Cifar10Run:
    """The CIFAR-10 network with random weights."""

    preset: str
    bits: int  # width of all layers but the first
    cores: int  # that share each layer; one has memory of its own, several a TCDM and DMA

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        return f"xpulpnn cosim cifar10 --preset {self.preset} --bits {self.bits} --cores {self.cores}"

    def measure(self, *, check: bool) -> Record:
        """Run it."""
        machine = Machine(max_cycles=MOST_CYCLES)
        network, image = random_network(self.bits, machine.seed)
        config = simulated_config(self.preset, self.cores)
        case = NetworkCase(network=network, image=image, config=config, machine=machine, checked=check)
        return build_network(case).run().record


_Key = TypeVar("_Key")


class RowVerdict(StrEnum):
    """Comparison of our figure with the printed one."""

    BETTER = "better"
    EQUAL = "equal"
    WORSE = "worse"
    DIFFERENT = "different"
    """Neither way is better."""
    NONE = "-"
    """Nothing is printed to compare with."""
    WRONG = "wrong results"
    """A run's results or instructions differ from the references."""


class Published(NamedTuple):
    """A printed figure, kept as text, because the digits printed tell how exact it is.

    1.65 stands for anything that rounds or is cut to it.
    """

    text: str  # as printed, in the unit of its row
    where: str  # section, table or figure

    @property
    def value(self) -> float:
        """As a number."""
        return float(self.text)


def printed(where: str, figures: Mapping[_Key, str]) -> dict[_Key, Published]:
    """Figures that are printed in one place."""
    return {key: Published(text, where) for key, text in figures.items()}


_LISTS = ("--variant", "--cores", "--precision", "--popcount", "--bits")  # options that take several values


def joined_cells(first: str, second: str) -> str | None:
    """One command line for two that differ in one value of an option that takes several; None for any others."""
    words, others = first.split(), second.split()
    if len(words) != len(others):
        return None
    different = [place for place, (one, other) in enumerate(zip(words, others, strict=True)) if one != other]
    if len(different) != 1 or words[different[0] - 1] not in _LISTS:
        return None
    place = different[0]
    return " ".join([*words[:place], f"{words[place]},{others[place]}", *words[place + 1 :]])


class Place(NamedTuple):
    """A bar in a chart."""

    chart: str  # title of the chart, which tells the unit
    series: str  # bars of the same colour
    at: str  # group of bars along the axis


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A printed figure and ours."""

    figure: str
    unit: str
    published: Published | None  # the printed one; None: none is printed
    run: Run
    # name of a number in its record; with dots that of a number within a part, such as `layers.conv2`
    field: str = "cycles"
    over: Run | None = None  # what `run` is compared with: the figure is how many times larger the field of `over` is
    per: float = 1.0
    better: Literal["", "less", "more"] = "less"  # which figures are better; empty if neither are
    digits: int = 2  # decimals of ours
    quick: bool = True  # whether it takes seconds only
    place: Place | None = None  # where a chart shows it, besides the one of all ratios

    @property
    def runs(self) -> tuple[Run, ...]:
        """Runs that the figure needs, the one it is compared with first."""
        return (self.run,) if self.over is None else (self.over, self.run)

    def value(self, records: Mapping[Run, Record]) -> float:
        """Our figure."""
        found, *others = [self._field(records[run]) for run in reversed(self.runs)]
        return (others[0] / found if others else found) / self.per

    def _field(self, record: Record) -> float:
        found: Any = record
        for name in self.field.split("."):
            found = found[name]
        return float(found)

    @property
    def commands(self) -> tuple[str, ...]:
        """The command lines that repeat it."""
        commands = [run.command for run in self.runs]
        both = joined_cells(*commands) if len(commands) > 1 else None
        return tuple(dict.fromkeys(commands)) if both is None else (both,)


def speed_up(figure: str, published: Published | None, run: Run, over: Run, **more: Any) -> TableRow:
    """The row of how many times more cycles ``over`` takes than ``run``."""
    return TableRow(figure=figure, unit="x", published=published, run=run, over=over, **{"better": "more", **more})


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """Rows that belong together."""

    name: str  # what `--table` calls it
    title: str
    printed_by: str  # what the printed figures stand in
    rows: Sequence[TableRow]  # in the order shown
    notes: Sequence[str] = ()  # conditions of the printed figures and of ours
    reference: str = "paper"  # what the column of the printed figures is called


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow:
    """A row with our figure."""

    row: TableRow  # what was measured
    ours: float
    mismatches: int  # instructions and results that were wrong in its runs

    @property
    def ratio(self) -> float | None:
        """Ours over the printed figure; None if nothing is printed."""
        return None if self.row.published is None else self.ours / self.row.published.value

    @property
    def advantage(self) -> float | None:
        """Factor by which ours is better, below 1 if it is worse; None if nothing is printed or neither is better."""
        ratio = self.ratio
        if ratio is None or not self.row.better:
            return None
        return 1 / ratio if self.row.better == "less" else ratio

    @property
    def verdict(self) -> RowVerdict:
        """Comparison with the printed figure; those that differ by less than its last digit are equal."""
        if self.mismatches:
            return RowVerdict.WRONG
        published = self.row.published
        if published is None:
            return RowVerdict.NONE
        last_digit = 10.0 ** -len(published.text.partition(".")[2])
        if abs(self.ours - published.value) < last_digit:
            return RowVerdict.EQUAL
        if self.advantage is None:
            return RowVerdict.DIFFERENT
        return RowVerdict.BETTER if self.advantage > 1 else RowVerdict.WORSE


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTable:
    """A table with our figures."""

    table: PaperTable  # what was measured
    rows: Sequence[MeasuredRow]  # its rows, those left out missing

    def count(self, verdict: RowVerdict) -> int:
        """Rows with a verdict."""
        return sum(row.verdict is verdict for row in self.rows)

    @property
    def summary(self) -> str:
        """Number of rows of each verdict, and of those left out."""
        parts = [
            f"{self.count(one)} {one.value}" for one in RowVerdict if one is not RowVerdict.NONE and self.count(one)
        ]
        parts += [f"{self.count(RowVerdict.NONE)} without a printed figure"] if self.count(RowVerdict.NONE) else []
        left_out = len(self.table.rows) - len(self.rows)
        parts += [f"{left_out} left out"] if left_out else []
        return ", ".join(parts)


def measured(table: PaperTable, records: Mapping[Run, Record], *, quick: bool) -> MeasuredTable:
    """A table with the figures of its runs, which ``records`` holds; with ``quick`` only the rows that are."""
    rows = [
        MeasuredRow(
            row=row, ours=row.value(records), mismatches=sum(int(records[run]["mismatches"]) for run in row.runs)
        )
        for row in table.rows
        if row.quick or not quick
    ]
    return MeasuredTable(table=table, rows=rows)
