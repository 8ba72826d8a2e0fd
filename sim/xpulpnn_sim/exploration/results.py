"""Designs, and results of flows, energy estimation and kernels for them: plain data that goes into JSON and back.

Both are stored on disk under a hash of everything that determines them.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, is_dataclass
from statistics import median_low
from typing import Any, Protocol, TypeVar, get_args, get_type_hints

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.debug.config import DebugConfig
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.tools.results import cached_results, digest, sources_digest

Configuration = CoreConfig | ClusterConfig | DebugConfig
"""Configuration of a point: a component of a core, a cluster, or external debugging, which runs no programs."""

_Record = TypeVar("_Record")

Spread = tuple[float, float]  # the least and the largest of several runs

_NS_MHZ = 1000.0  # nanoseconds times megahertz in one cycle


def spread(values: Iterable[float | None]) -> Spread | None:
    """Least and largest of several known values."""
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if len(known) > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedDesign:
    """Emitted Verilog of one configuration."""

    top: str  # name of the component on the command line, such as `ex-stage`
    module: str  # name of its Verilog module, such as `ex_stage`
    config: Configuration  # what it was emitted from
    verilog: str
    manifest: Mapping[str, Any]  # Ports, hierarchy and names (see verilog)
    # modules of which the source has the ports alone: they are mapped by themselves
    apart: frozenset[str] = frozenset()
    memories: tuple[str, ...] = ()  # modules whose memories would be macros, and are not mapped

    @property
    def code(self) -> str:
        """The source without lines of comment, which name the configuration: all that synthesis sees."""
        return "\n".join(line for line in self.verilog.splitlines() if not line.lstrip().startswith("//"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleArea:
    """Cells of one instance of the hierarchy."""

    path: str  # instance path from the top, such as `ex_stage.dotp.array`; the top itself is its module name alone
    module: str
    own_ge: float  # area in NAND2 equivalents without the instances below it
    total_ge: float  # area with them
    own_cells: int  # library cells without the instances below it


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """One cell on a path: the net it drives, its type, its delay and the arrival time at the net, in ps."""

    net: str
    cell: str
    delay_ps: float
    arrival_ps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPath:
    """The longest path."""

    tool: str  # what found it, with its version; ABC's estimate is named as such
    netlist: str  # `mapped` or `routed`: the netlist it was found in, which is that of the result
    start: str  # port or register bit, by its name in the emitted Verilog
    end: str  # port or register bit
    delay_ps: float  # from start to end
    steps: list[PathStep] = field(default_factory=list[PathStep])  # the cells in between, first one first
    # longest path of the same netlist by other tools, ps
    others: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantPath:
    """The longest path from a core's request for data through its grant."""

    path: CriticalPath  # from the register it starts at to the one it ends at
    request_ps: float  # arrival where the request leaves the core
    grant_ps: float  # arrival where the grant enters it
    fo4: float  # the whole path in FO4


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRun:
    """Figures of one of several runs of a flow, which are numbered from 1 on."""

    number: int
    area_kge: float | None
    delay_ps: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowResult:
    """Outcome of one flow on one design; what a flow does not measure is None or empty."""

    flow: str  # `asic`, `builtin`, `ecp5` or `ice40`
    script: str = ""  # `area` or `speed` with the ABC flows, else empty
    tools: dict[str, str]  # version of each tool used
    conditions: list[str]  # everything a reader must know to trust the figures, in short sentences
    area_um2: float | None = None  # cell area
    area_kge: float | None = None  # cell area in thousands of the library's NAND2
    cells: int | None = None  # number of cells, registers included
    flip_flops: int | None = None  # number of registers
    delay_ps: float | None = None  # longest combinational path
    delay_fo4: float | None = None  # longest path in fan-out-of-four inverter delays of the library
    clock_ps: float | None = None  # clock period that was asked for
    path: CriticalPath | None = None  # longest path in detail, of the netlist with this delay
    # area by instance, depth first, the top first, of the netlist with this area
    modules: list[ModuleArea] = field(default_factory=list[ModuleArea])
    # shares of the area whose instance was derived from its function, from what reads it, or that several share
    origins: dict[str, float] = field(default_factory=dict[str, float])
    # each mapping of the design; area and delay above are their medians, each that of one netlist
    runs: list[FlowRun] = field(default_factory=list[FlowRun])
    # parameters of the configuration that the flow set itself
    structures: dict[str, str] = field(default_factory=dict[str, str])
    area_run: int = 1  # number of the run that area, cells and instances are of
    delay_run: int = 1  # number of the run that delay and path are of
    memory_bits: int | None = None  # bits of memories that are not mapped, in no area
    grant: GrantPath | None = None  # of a cluster: from requests of its cores through their grants
    luts: int | None = None  # look-up tables of an FPGA
    dsps: int | None = None  # multipliers of an FPGA
    brams: int | None = None  # block memories of an FPGA
    fmax_mhz: list[float] = field(default_factory=list[float])  # FPGA clock per placement seed
    wall_s: float = 0.0  # seconds the tools took (when they ran, not when read from the cache)

    @property
    def name(self) -> str:
        """Flow and script, such as ``asic-speed``."""
        return f"{self.flow}-{self.script}" if self.script else self.flow

    @property
    def is_fpga(self) -> bool:
        """Look-up tables are counted instead of cells."""
        return self.luts is not None

    @property
    def fmax(self) -> float | None:
        """Median clock in MHz over the placement seeds, of two in the middle the lower one."""
        return median_low(self.fmax_mhz) if self.fmax_mhz else None

    @property
    def size(self) -> float | None:
        """Area in kGE, or look-up tables."""
        return self.luts if self.is_fpga else self.area_kge

    @property
    def delay(self) -> float | None:
        """Longest path in FO4, or the clock period in ns at the median clock."""
        if not self.is_fpga:
            return self.delay_fo4
        return _NS_MHZ / self.fmax if self.fmax else None

    @property
    def size_spread(self) -> Spread | None:
        """Least and largest area in kGE over the runs; None for one run."""
        return spread(run.area_kge for run in self.runs)

    @property
    def delay_spread(self) -> Spread | None:
        """Least and largest delay in FO4 over the runs, or clock period in ns over the placements."""
        if self.is_fpga:
            return spread(_NS_MHZ / clock for clock in self.fmax_mhz)
        unit = self.delay_fo4 / self.delay_ps if self.delay_fo4 and self.delay_ps else 0.0
        return spread(None if run.delay_ps is None else run.delay_ps * unit for run in self.runs)

    @property
    def grant_fo4(self) -> float | None:
        """Path from a core's request through a grant in FO4."""
        return self.grant and self.grant.fo4

    @property
    def slack_ps(self) -> float | None:
        """Clock period that was asked for less the delay; negative if it is missed."""
        return None if self.clock_ps is None or self.delay_ps is None else self.clock_ps - self.delay_ps


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOutput:
    """Result of a flow, the files to keep with it, text by name, and on request the netlist that has the delay (see
    :mod:`xpulpnn_sim.exploration.mapped_netlist`)."""

    result: FlowResult
    files: dict[str, str]
    netlist: str = ""


ENERGY_PARTS = ("switching", "internal", "clock", "leakage")  # fields of ModuleEnergy


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleEnergy:
    """Energy of one instance without the instances below it, femtojoule per clock cycle.

    ``switching`` charges the capacitances of its nets, ``internal`` is spent inside its cells on top of that, ``clock``
    at the clock pins of its registers (and clock gates), ``leakage`` at the clock period of the conditions.
    """

    path: str
    module: str
    switching: float
    internal: float
    clock: float
    leakage: float

    @property
    def total(self) -> float:
        """Sum of the four."""
        return self.switching + self.internal + self.clock + self.leakage


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyResult:
    """Energy of one workload on one configuration."""

    workload: str  # kernel specification or name of the program
    top: str  # `backend`, `core` or `cluster`: the netlist simulated
    tools: dict[str, str]  # version of each tool used
    conditions: list[str]  # library, method and limits, in short sentences
    cycles: int  # clock cycles whose switching was counted
    macs: float  # Multiply-accumulates done in them; 0 for general code
    energy_per_cycle_fj: float  # of the whole netlist
    energy_per_mac_fj: float | None  # of the whole netlist; None for general code
    modules: list[ModuleEnergy]  # by instance, depth first, the top first
    # area of the netlist simulated, which is not that of any FlowResult: it has clock gates
    area_kge: float | None = None
    method: str = ""  # how it was mapped, in a few words
    # accesses per cycle to memories that are in no energy, of a cluster
    accesses: dict[str, float] = field(default_factory=dict[str, float])
    wall_s: float = 0.0  # seconds it took

    def part_fj(self, part: str) -> float:
        """Energy of all instances per cycle in a part, which is one of :data:`ENERGY_PARTS`."""
        return sum(getattr(module, part) for module in self.modules)


UNFINISHED = "interrupted before the end of"  # how the error of a point begins that an interrupted run did not finish


@dataclass(frozen=True, slots=True, kw_only=True)
class PointResult:
    """All that is known about one configuration."""

    label: str  # short and unique in a run, such as `xpulpnn multipliers=shared`
    top: str  # as given on the command line
    preset: str  # as given on the command line
    settings: dict[str, str]  # changes to the preset
    configuration: dict[str, Any]  # the whole configuration, echoed from the manifest of the emitted Verilog
    folder: str  # folder of the point, relative to that of the run
    error: str = ""  # why the point failed, one line; empty if it did not
    flows: list[FlowResult] = field(default_factory=list[FlowResult])  # one per flow and script
    # records of `xpulpnn cosim` (guide, "Records of cosim")
    kernels: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    energies: list[EnergyResult] = field(default_factory=list[EnergyResult])  # one per workload

    @property
    def unfinished(self) -> bool:
        """An interrupted run left some of its steps."""
        return self.error.startswith(UNFINISHED)

    @property
    def failed(self) -> bool:
        """Steps of it ran and failed."""
        return bool(self.error) and not self.unfinished


class Flow(Protocol):
    """A way to turn a design into figures with real tools."""

    name: str
    script: str

    def settings(self) -> Mapping[str, str]:
        """Everything besides the Verilog that determines the result: tool versions, options, hashes of libraries."""
        ...

    def run(self, design: EmittedDesign) -> FlowOutput:
        """Run the tools; raises :class:`~xpulpnn.errors.ToolError` with one clear line."""
        ...


def from_json(kind: type[_Record], values: Mapping[str, Any]) -> _Record:
    """Inverse of ``asdict`` for a record of the type ``kind``; fields that are missing have their defaults."""
    hints = get_type_hints(kind)
    return kind(**{name: _typed(hint, values[name]) for name, hint in hints.items() if name in values})


def _typed(hint: Any, value: Any) -> Any:
    """JSON value of a field: a record, a list of records, or what JSON knows."""
    record: Any = next((candidate for candidate in (hint, *get_args(hint)) if is_dataclass(candidate)), None)
    if record is None or value is None:
        return value
    return [from_json(record, item) for item in value] if isinstance(value, list) else from_json(record, value)


_SHOWS_ONLY = frozenset({"benches", "cli", "proofs", "publishing", "report", "verification"})
"""Folders of sources that no result depends on."""


def design_sources_digest() -> str:
    """Hash of the sources of generator, kernels and simulation, and of the version of the hardware language."""
    return sources_digest(_SHOWS_ONLY)


def emit_design(top: str, config: Configuration) -> EmittedDesign:
    """Verilog and manifest of the component ``top``, one of ``component_names.ALL_TOPS``, through the cache.

    Raises :class:`~xpulpnn.errors.ConfigError` if the configuration has no such component.
    """
    verilog, manifest = cached_emission(top, config)
    return EmittedDesign(top=top, module=manifest["top"], config=config, verilog=verilog, manifest=manifest)


_Kept = TypeVar("_Kept", FlowOutput, EnergyResult)


def cached(folder: str, key: str, kind: type[_Kept], make: Callable[[], _Kept]) -> tuple[_Kept, bool]:
    """The result kept as ``key``, and whether it was there; an entry that cannot be read is made anew."""
    cache = cached_results(folder)
    if (values := cache.find(key)) is not None:
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            return from_json(kind, values), True
    result = make()
    cache.keep(key, asdict(result))
    return result, False


def cached_flow(flow: Flow, design: EmittedDesign) -> tuple[FlowOutput, bool]:
    """Result and files of a flow, and whether it came from the cache; raises what :meth:`Flow.run` raises."""
    key = digest(flow.name, flow.script, flow.settings(), design.module, design.code, design.memories)
    return cached("flows", key, FlowOutput, lambda: flow.run(design))
