"""Place the cells of a mapped netlist in rows with coloquinte, and estimate the capacitance of its wires.

Cells are as high as a row and as wide as their area makes them; pins are in the middle of their cell, and ports at
equal distances round the border. The clock has no wire: a chip gives it a tree of its own.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.mapped_netlist import MappedGate, MappedNetlist
from xpulpnn_sim.tools.netlists import ONE

UTILISATION = 0.7
WIRE_FF_UM = 0.15
_EXTRA = "coloquinte must be installed for placement: pip install '.[placement]'"
_UNITS = 100  # per um, as coordinates of coloquinte are integers
_FILLED = 0.85  # share of the rows that cells fill with the free space that they take along
_EFFORT = 3  # coloquinte's default
_PINS = (3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 35, 40, 45, 50)
_TREES = (
    *(1.0, 1.0828, 1.1536, 1.2206, 1.2823, 1.3385, 1.3991, 1.4493),
    *(1.6899, 1.8924, 2.0743, 2.2334, 2.3895, 2.5356, 2.6625, 2.7933),
)
"""Length of the shortest tree in half perimeters, by number of pins: C. E. Cheng, RISA, ICCAD 1994."""

Cell = tuple[float, Collection[int]]  # area in um2, and nets at its pins but the clock
Points = NDArray[np.float64]  # coordinates in um, a row for each point


@dataclass(frozen=True, slots=True, kw_only=True)
class Placer:
    """Settings of placements."""

    row_um: float  # height of a row
    utilisation: float = UTILISATION  # share of the rows that cells take
    wire_ff_um: float = WIRE_FF_UM
    seeds: int = 1

    def settings(self) -> dict[str, str]:
        require_coloquinte()
        return {"placement": f"{self}", "coloquinte": metadata.version("coloquinte")}

    @property
    def text(self) -> str:
        return (
            f"wires of the shortest trees, estimated from half perimeters, at {self.wire_ff_um:g} fF/um and without "
            f"resistance; cells placed by coloquinte in rows of {self.row_um:.2f} um with a utilisation of "
            f"{self.utilisation:g}, ports round the border"
        )


def default_row_um(nand2_um2: float) -> float:
    """Return the height of rows in which the smallest NAND2 is twice as high as wide, as it is in many libraries."""
    return round(sqrt(2 * nand2_um2), 2)


def tree_um(points: Points) -> float:
    """Return the estimated length of the shortest tree of wires between points."""
    return float(np.ptp(points, axis=0).sum() * np.interp(len(points), _PINS, _TREES))


class Placement:
    """Places of cells, and of ports round the border."""

    def __init__(self, cells: Sequence[Cell], ports: Sequence[int], placer: Placer) -> None:
        self._placer, self.row_um, self.wire_ff_um = placer, placer.row_um, placer.wire_ff_um
        self.places: Points = np.zeros((0, 2))  # centres of the cells
        self.cells, self.ports = cells, ports
        area = sum(area for area, _ in cells) / placer.utilisation
        self.rows = max(1, round(sqrt(area) / placer.row_um))
        self.width_um, self.height_um = area / self.rows / placer.row_um, self.rows * placer.row_um
        corners = np.cumsum([0, self.width_um, self.height_um, self.width_um, self.height_um])
        at = corners[-1] * np.arange(len(ports)) / max(len(ports), 1)
        x = np.interp(at, corners, [0, self.width_um, self.width_um, 0, 0])
        self.border: Points = np.stack([x, np.interp(at, corners, [0, 0, self.height_um, self.height_um, 0])], axis=1)

    def members(self) -> dict[int, list[int]]:
        """Return the cells of each net by number, and its ports, whose numbers begin at -1 and fall."""
        nets: defaultdict[int, list[int]] = defaultdict(list)
        for number, (_, pins) in enumerate(self.cells):
            for net in dict.fromkeys(pins):
                nets[net].append(number)
        for number, net in enumerate(self.ports):
            nets[net].append(-1 - number)
        return {net: numbers for net, numbers in nets.items() if net > ONE}

    def wires_ff(self) -> dict[int, float]:
        return {net: self.wire_ff(numbers) for net, numbers in self.members().items()}

    def wire_ff(self, numbers: Iterable[int]) -> float:
        points = np.array([self.border[-1 - number] if number < 0 else self.places[number] for number in numbers])
        return tree_um(points) * self._placer.wire_ff_um

    def place(self, seed: int, weights: Mapping[int, float]) -> None:
        """Place all cells; wires of nets with large ``weights`` (default 1) become shorter than others."""
        tool = require_coloquinte()
        count, ports, height = len(self.cells), len(self.ports), round(self._placer.row_um * _UNITS)
        # a cell takes its share of the free space along, so that cells are spread over the rows
        wider = max(_FILLED / self._placer.utilisation, 1.0) * _UNITS / self._placer.row_um
        widths = [max(1, round(area * wider)) for area, _ in self.cells]
        circuit = tool.Circuit(count + ports)
        circuit.cell_width, circuit.cell_height = widths + [0] * ports, [height] * count + [0] * ports
        circuit.cell_is_fixed = [False] * count + [True] * ports
        circuit.cell_is_obstruction = [True] * count + [False] * ports
        circuit.cell_row_polarity = [tool.CellRowPolarity.ANY] * (count + ports)
        around = np.rint(self.border * _UNITS).astype(int).T.tolist()
        circuit.cell_x, circuit.cell_y = ([0] * count + coordinates for coordinates in around)
        width = round(self.width_um * _UNITS)
        rows = [tool.Rectangle(0, width, row * height, (row + 1) * height) for row in range(self.rows)]
        circuit.rows = [tool.Row(row, tool.CellOrientation.N) for row in rows]
        for net, numbers in self.members().items():
            if len(numbers) > 1:
                x = [0 if number < 0 else widths[number] // 2 for number in numbers]
                y = [0 if number < 0 else height // 2 for number in numbers]
                cells = [count - 1 - number if number < 0 else number for number in numbers]
                circuit.add_net(cells, x, y, weights.get(net, 1.0))
        parameters = tool.ColoquinteParameters(_EFFORT, seed)
        try:
            circuit.place_global(parameters)
            circuit.place_detailed(parameters)
        except RuntimeError as error:
            text = " ".join(str(error).split())
            used = f"utilisation {self._placer.utilisation:g}"
            raise ToolError(f"coloquinte must be able to place the cells with {used}: {text}") from None
        self.places = np.array([circuit.cell_x, circuit.cell_y]).T[:count] + [
            (width // 2, height // 2) for width in widths
        ]
        self.places = self.places / _UNITS


_TILES = 100  # tiles of a picture in each direction, at most
_NAMED = 9  # modules of a picture with a colour of their own
OTHERS = "(others)"


def module_tiles(netlist: MappedNetlist, placement: Placement) -> tuple[list[str], list[list[int]]]:
    """Return the largest modules, and by row and column of square tiles the one with most cells there, or -1."""
    paths = [".".join(gate.path.split(".")[:2]) for gate in netlist.gates]
    areas: defaultdict[str, float] = defaultdict(float)
    for path, gate in zip(paths, netlist.gates, strict=True):
        areas[path] += gate.cell.area
    modules = sorted(areas, key=areas.__getitem__, reverse=True)
    if len(modules) > _NAMED:
        modules[_NAMED:] = [OTHERS]
    size = max(placement.row_um, max(placement.width_um, placement.height_um) / _TILES)
    ends = [int(length // size) + 1 for length in (placement.height_um, placement.width_um)]
    counts = np.zeros((*ends, len(modules)), int)
    for path, (x, y) in zip(paths, placement.places, strict=True):
        counts[int(y // size), int(x // size), modules.index(path if path in modules else OTHERS)] += 1
    tiles = np.where(counts.any(axis=2), counts.argmax(axis=2), -1)
    return modules, tiles.tolist()


def signal_pins(gate: MappedGate) -> list[int]:
    clock = gate.cell.flip_flop.clocked_on if gate.cell.flip_flop else ""
    return [net for pin, net in gate.pins.items() if pin != clock and not gate.cell.pins[pin].clock]


def netlist_cells(netlist: MappedNetlist) -> list[Cell]:
    return [(gate.cell.area, signal_pins(gate)) for gate in netlist.gates]


def netlist_ports(netlist: MappedNetlist) -> list[int]:
    return [*netlist.inputs.values(), *netlist.outputs.values()]


def require_coloquinte() -> Any:
    try:
        return import_module("coloquinte")
    except ImportError:
        raise ToolError(_EXTRA) from None
