"""What a placement gives: sizes, wires, and an estimate of the clock tree."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockTree:
    buffers: int
    wire_mm: float
    area_um2: float  # of the buffers
    energy_pj: float  # of wires and pins in each cycle, those of the flip-flops included
    latency_ps: float  # to the flip-flops behind the most loaded buffers of all levels
    skew_ps: float  # by how much those behind the least loaded buffers are earlier: the margin to keep


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPlace:
    """A part, a memory or the memories of a cache on the floorplan of a cluster."""

    name: str
    x_um: float
    y_um: float
    width_um: float
    height_um: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockWires:
    """Wires between blocks of some kinds on the floorplan of a cluster."""

    between: str  # kinds of blocks, such as `core, tcdm`
    nets: int
    wire_mm: float
    longest_um: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementResult:
    """Where the cells of the netlist are whose delay is shown, and what their wires cost."""

    seed: int
    width_um: float
    height_um: float
    utilisation: float  # share of the rows that cells take
    wire_mm: float
    resized: int  # gates that became other cells for their wires
    buffers: int  # gates that were added
    wireless_ps: float | None  # delay of the netlist before placement, without wires
    # delay with the wires of the first placement, before any gate was changed; of a cluster with those in its parts
    unsized_ps: float
    modules: list[str] = field(default_factory=list[str])
    clock: ClockTree | None = None  # estimate
    tiles: list[list[int]] = field(default_factory=list[list[int]])  # module by row and column of square tiles, or -1
    blocks: list[BlockPlace] = field(default_factory=list[BlockPlace])  # of a cluster
    wires: list[BlockWires] = field(default_factory=list[BlockWires])  # of a cluster, those between its blocks
