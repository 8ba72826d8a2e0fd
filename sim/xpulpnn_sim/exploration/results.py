"""Designs, and results of flows, energy estimation and kernels that are cached on disk as JSON."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, is_dataclass
from operator import ge, gt, le, lt
from statistics import median_low
from typing import Any, Protocol, TypeVar, get_args, get_type_hints

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.debug.config import DebugConfig
from xpulpnn.errors import InputError
from xpulpnn.xif.config import XifConfig
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.exploration.placement_result import PlacementResult
from xpulpnn_sim.tools.results import cached_results, digest, sources_digest

Configuration = CoreConfig | ClusterConfig | DebugConfig | XifConfig
"""Configuration of a point: a core, a cluster, or a debug module and transport (which run no programs)."""

_Record = TypeVar("_Record")
Spread = tuple[float, float]  # smallest and largest of several runs
_NS_MHZ = 1000.0


def spread(values: Iterable[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if len(known) > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedDesign:
    top: str  # command-line name of the component, such as `ex-stage`
    module: str  # Verilog module, such as `ex_stage`
    config: Configuration
    verilog: str
    manifest: Mapping[str, Any]  # ports, hierarchy and names (see xpulpnn.verilog)
    # modules that are black boxes here and are mapped separately
    black_boxes: frozenset[str] = frozenset()
    memories: tuple[str, ...] = ()  # modules whose memories would be macros, and are not mapped

    @property
    def code(self) -> str:
        return "\n".join(line for line in self.verilog.splitlines() if not line.lstrip().startswith("//"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleArea:
    path: str  # instance path from the top module, such as `ex_stage.dotp.array`
    module: str
    own_ge: float  # area in NAND2 equivalents without instances below
    total_ge: float  # area with instances below
    own_cells: int  # library cells without instances below


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    net: str
    cell: str
    delay_ps: float
    arrival_ps: float
    instance: str = ""  # path of the cell's instance below the top; empty for the top
    wire_ps: float = 0.0  # part of the delay that is due to the wire of the net


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPath:
    tool: str  # tool and version that computed the path
    netlist: str  # `mapped` or `routed`: stage of the netlist
    start: str  # port or register bit in the emitted Verilog
    end: str  # port or register bit
    delay_ps: float
    steps: list[PathStep] = field(default_factory=list[PathStep])  # cells in between
    # longest path of the same netlist by other tools, ps
    others: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantPath:
    path: CriticalPath  # from register to register
    request_ps: float  # arrival time at the core's request output
    grant_ps: float  # arrival time at the core's grant input
    fo4: float  # the whole path in FO4


@dataclass(frozen=True, slots=True, kw_only=True)
class Macro:
    """A macro of a technology, or a memory that is built of such."""

    name: str
    words: float
    bits: float
    ports: float = 1  # for accesses in the same cycle
    area_um2: float
    access_ps: float  # from the clock to the word read
    read_pj: float
    write_pj: float
    leakage_nw: float = 0.0
    width_um: float = 0.0  # 0 if unknown, as is the height
    height_um: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse(Macro):
    """Equal memories of a module; figures are those of one memory."""

    count: int
    macro: str
    macros: int  # of each memory


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRun:
    number: int
    area_kge: float | None
    delay_ps: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CornerResult:
    """Figures of a netlist at one corner of its library."""

    corner: str = ""  # operating conditions of the library, or the name of its file
    delay_ps: float | None = None  # longest combinational path
    delay_fo4: float | None = None  # longest path in FO4 delays (fan-out-of-four inverter) of the library
    register_ps: float | None = None  # clock-to-output and setup time of the library's flip-flop
    leakage_uw: float | None = None  # of all cells, mean over their states
    clock_ps: float | None = None  # requested clock period

    @property
    def clock_mhz(self) -> float | None:
        """Return the clock of a register behind and before the longest path."""
        return 1e6 / (self.delay_ps + self.register_ps) if self.delay_ps and self.register_ps else None

    @property
    def slack_ps(self) -> float | None:
        if self.clock_ps is None or self.delay_ps is None:
            return None
        return self.clock_ps - self.delay_ps - (self.register_ps or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowResult(CornerResult):
    """Result of one flow on one design; values that the flow does not measure are None or empty."""

    flow: str  # `asic`, `builtin`, `ecp5` or `ice40`
    script: str = ""  # `area` or `speed` for ABC flows
    tools: dict[str, str]  # versions by tool
    conditions: list[str]  # conditions and limits of the figures, in sentences
    area_um2: float | None = None  # cell area
    area_kge: float | None = None  # cell area in thousands of the library's NAND2
    cells: int | None = None  # registers included
    flip_flops: int | None = None
    other_corners: list[CornerResult] = field(default_factory=list[CornerResult])  # of the same netlist
    path: CriticalPath | None = None  # the longest path in detail
    # area by instance in preorder, top first
    modules: list[ModuleArea] = field(default_factory=list[ModuleArea])
    origins: dict[str, float] = field(default_factory=dict[str, float])  # area of one function, of readers, shared
    runs: list[FlowRun] = field(default_factory=list[FlowRun])  # all mappings; area and delay are their medians
    structures: dict[str, str] = field(default_factory=dict[str, str])  # parameters that the flow set itself
    area_run: int = 1  # number of the run with the median area
    delay_run: int = 1  # number of the run with the median delay
    placement: PlacementResult | None = None  # of the run with the median delay
    memories: list[MemoryUse] = field(default_factory=list[MemoryUse])  # of a cluster, in area and leakage
    grant: GrantPath | None = None  # of a cluster: path from a core's request through its grant
    luts: int | None = None  # look-up tables of an FPGA
    dsps: int | None = None  # DSP blocks of an FPGA
    brams: int | None = None  # block memories of an FPGA
    fmax_mhz: list[float] = field(default_factory=list[float])  # FPGA clock per placement seed
    wall_s: float = 0.0  # seconds that the tools took, also if the result is cached

    @property
    def name(self) -> str:
        return f"{self.flow}-{self.script}" if self.script else self.flow

    @property
    def is_fpga(self) -> bool:
        return self.luts is not None

    @property
    def fmax(self) -> float | None:
        """Return the median clock in MHz over placement seeds; for an even number of seeds, the lower median."""
        return median_low(self.fmax_mhz) if self.fmax_mhz else None

    @property
    def corners(self) -> list[CornerResult]:
        return [self, *self.other_corners]

    @property
    def size(self) -> float | None:
        """Return the area in kGE, or the number of look-up tables of an FPGA."""
        return self.luts if self.is_fpga else self.area_kge

    @property
    def delay(self) -> float | None:
        """Return the longest path in FO4 delays, or on an FPGA the median clock period in ns."""
        if not self.is_fpga:
            return self.delay_fo4
        return _NS_MHZ / self.fmax if self.fmax else None

    @property
    def size_spread(self) -> Spread | None:
        return spread(run.area_kge for run in self.runs)

    @property
    def delay_spread(self) -> Spread | None:
        """Return the smallest and largest delay in FO4 over repeated runs, or clock period in ns over placements."""
        if self.is_fpga:
            return spread(_NS_MHZ / clock for clock in self.fmax_mhz)
        unit = self.delay_fo4 / self.delay_ps if self.delay_fo4 and self.delay_ps else 0.0
        return spread(None if run.delay_ps is None else run.delay_ps * unit for run in self.runs)

    @property
    def grant_fo4(self) -> float | None:
        return self.grant and self.grant.fo4


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOutput:
    result: FlowResult
    files: dict[str, str]
    netlist: str = ""


PERIOD_NS = 10.0  # clock period whose leakage is in energies
ENERGY_PARTS = ("switching", "internal", "clock", "leakage")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleEnergy:
    """Energy in fJ per cycle of an instance without submodules: at nets, inside cells, for the clock, and leakage."""

    path: str
    module: str
    switching: float
    internal: float
    clock: float
    leakage: float
    wires: float = 0.0  # part of switching

    @property
    def total(self) -> float:
        return self.switching + self.internal + self.clock + self.leakage


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyResult:
    workload: str  # kernel specification or program name
    top: str  # simulated netlist: `backend`, `core` or `cluster`
    tools: dict[str, str]  # versions by tool
    conditions: list[str]  # library, method and limits, in short sentences
    cycles: int  # clock cycles whose switching was counted
    macs: float  # multiply-accumulates in these cycles; 0 for general code
    energy_per_cycle_fj: float  # of the whole netlist
    energy_per_mac_fj: float | None  # of the whole netlist; None for general code
    modules: list[ModuleEnergy]  # by instance in preorder, top first
    # area of the simulated netlist, which has clock gates, unlike that of any FlowResult
    area_kge: float | None = None
    method: str = ""  # how the netlist was mapped
    # accesses per cycle to memories whose energy is not included
    accesses: dict[str, float] = field(default_factory=dict[str, float])
    wall_s: float = 0.0

    def part_fj(self, part: str) -> float:
        return sum(getattr(module, part) for module in self.modules)


UNFINISHED = "interrupted before the end of"  # start of the error of a point that an interrupted run did not finish


@dataclass(frozen=True, slots=True, kw_only=True)
class PointResult:
    label: str  # unique in a run, such as `xpulpnn multipliers=shared`
    top: str
    preset: str
    settings: dict[str, str]  # changes to the preset
    configuration: dict[str, Any]  # whole configuration, from the manifest of the emitted Verilog
    folder: str  # relative to the folder of the run
    error: str = ""  # why the point failed, in one line; else empty
    flows: list[FlowResult] = field(default_factory=list[FlowResult])  # one per flow and script
    # records of `xpulpnn cosim` (see "Records of cosim" in the guide)
    kernels: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    energies: list[EnergyResult] = field(default_factory=list[EnergyResult])  # one per workload

    @property
    def unfinished(self) -> bool:
        return self.error.startswith(UNFINISHED)

    @property
    def failed(self) -> bool:
        return bool(self.error) and not self.unfinished


OF_CORNERS = ("delay_ps", "delay_fo4", "clock_mhz", "leakage_uw")
LIMITED = ("area_kge", "area_um2", "cells", "flip_flops", *OF_CORNERS, "luts", "fmax")
"""Figures of flows that a constraint may limit."""
_COMPARISONS = {"<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass(frozen=True, slots=True)
class Constraint:
    text: str  # such as `area_kge<60`

    def __post_init__(self) -> None:
        if not re.fullmatch(rf"({'|'.join(LIMITED)})[<>]=?\d+(\.\d+)?", self.text):
            raise InputError(
                f"constraint must be one of {', '.join(LIMITED)}, < > <= or >=, and a number, not {self.text}"
            )

    def met(self, point: PointResult) -> bool:
        """Return whether every flow that knows the figure keeps the limit, at every corner."""
        name, comparison, limit = re.split("([<>]=?)", self.text)
        values = (getattr(corner, name, None) for flow in point.flows for corner in flow.corners)
        return all(value is None or _COMPARISONS[comparison](value, float(limit)) for value in values)


class Flow(Protocol):
    name: str
    script: str

    def settings(self) -> Mapping[str, str]:
        """Return all that determines a result besides the Verilog: tool versions, options, hashes of libraries."""
        ...

    def run(self, design: EmittedDesign) -> FlowOutput:
        """Run the tools on a design; raise :class:`~xpulpnn.errors.ToolError` with a message of one line."""
        ...


def from_json(kind: type[_Record], values: Mapping[str, Any]) -> _Record:
    """Convert a JSON object to a record of type ``kind``, the inverse of ``asdict``; missing fields get defaults."""
    hints = get_type_hints(kind)
    return kind(**{name: _typed(hint, values[name]) for name, hint in hints.items() if name in values})


def _typed(hint: Any, value: Any) -> Any:
    record: Any = next((candidate for candidate in (hint, *get_args(hint)) if is_dataclass(candidate)), None)
    if record is None or value is None:
        return value
    return [from_json(record, item) for item in value] if isinstance(value, list) else from_json(record, value)


_SHOWS_ONLY = frozenset({"benches", "cli", "proofs", "publishing", "report", "verification"})
"""Source folders that cannot change a result."""


def design_sources_digest() -> str:
    """Return a hash of Amaranth's version and of the sources of generator, kernels and simulation."""
    return sources_digest(_SHOWS_ONLY)


def emit_design(top: str, config: Configuration) -> EmittedDesign:
    verilog, manifest = cached_emission(top, config)
    return EmittedDesign(top=top, module=manifest["top"], config=config, verilog=verilog, manifest=manifest)


_Kept = TypeVar("_Kept", FlowOutput, EnergyResult)


def cached(folder: str, key: str, kind: type[_Kept], make: Callable[[], _Kept]) -> tuple[_Kept, bool]:
    cache = cached_results(folder)
    if (values := cache.find(key)) is not None:
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            return from_json(kind, values), True
    result = make()
    cache.store(key, asdict(result))
    return result, False


def cached_flow(flow: Flow, design: EmittedDesign) -> tuple[FlowOutput, bool]:
    key = digest(flow.name, flow.script, flow.settings(), design.module, design.code, design.memories)
    return cached("flows", key, FlowOutput, lambda: flow.run(design))
