"""Place the blocks of a cluster beside each other, and estimate the wires between them.

Blocks stand in rows, whose order simulated annealing improves for short wires. Each wire between blocks begins behind a
buffer, and ends at the nearest borders of the others.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import exp, sqrt
from random import Random

import numpy as np

from xpulpnn_sim.exploration.liberty import LibraryCell
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.mapped_netlist import MappedGate, MappedNetlist, instance_path, pin_bits
from xpulpnn_sim.exploration.placement import Points, signal_pins, tree_um
from xpulpnn_sim.exploration.placement_result import BlockPlace, BlockWires
from xpulpnn_sim.exploration.timing import timing_arcs
from xpulpnn_sim.tools.netlists import ONE

Block = tuple[float, float]  # width and height in um
_SPARE = 1.12  # area of the floorplan over that of the blocks, for which its width is chosen
_STEPS, _COOLING, _WARM = 6000, 0.999, 0.05  # of the annealing; _WARM is the temperature at first, in costs
_WEAKER = 1.2  # delay of a buffer over that of the fastest one
_TILES = 100  # tiles of a picture in each direction, at most


def kind_of(block: str) -> str:
    return re.sub(r"\d+", "", block)


@dataclass(frozen=True, slots=True)
class Floorplan:
    netlist: MappedNetlist  # with the wires between blocks, and their buffers
    places: list[BlockPlace]
    wires: list[BlockWires]

    @property
    def size_um(self) -> Block:
        return max(one.x_um + one.width_um for one in self.places), max(one.y_um + one.height_um for one in self.places)

    def tiles(self) -> tuple[list[str], list[list[int]]]:
        """Return the kinds of blocks, and by row and column of square tiles the kind there, or -1."""
        kinds = sorted({kind_of(place.name) for place in self.places})
        width, height = self.size_um
        size = max(width, height) / _TILES
        tiles = np.full((int(height / size), int(width / size)), -1)
        for at in self.places:
            ends = ((at.y_um, at.y_um + at.height_um), (at.x_um, at.x_um + at.width_um))
            rows, columns = (slice(round(low / size), round(high / size)) for low, high in ends)
            tiles[rows, columns] = kinds.index(kind_of(at.name))
        return kinds, tiles.tolist()


def floorplan(
    netlist: MappedNetlist,
    blocks: Mapping[str, Block],
    block_of: Callable[[str], str],
    driven_ff: Mapping[int, float],
    library: Library,
) -> Floorplan:
    """Place the blocks of instances; ``driven_ff`` is the wire of a net inside the block that drives it."""
    assert library.placer is not None
    drivers, nets = _between(netlist, block_of)
    places = _annealed(blocks, Counter(nets.values()))
    between: defaultdict[str, list[float]] = defaultdict(list)
    gates, wires, names = list(netlist.gates), dict(netlist.wires_ff), dict(netlist.names)
    behind: dict[int, int] = {}
    for number, (net, joined) in enumerate(nets.items(), max(names) + 1):
        length = tree_um(_ends(joined, places))
        between[", ".join(sorted({kind_of(block) for block in joined}))].append(length)
        own_ff = driven_ff.get(net, 0.0)
        load_ff = length * library.placer.wire_ff_um + max(wires.get(net, 0.0) - own_ff, 0.0)
        cell = _buffer(library, load_ff)
        wires |= {net: own_ff, number: load_ff}
        names[number] = f"{names.get(net, f'n{net}')} between blocks"
        gates.append(MappedGate(f"wire_{number}", "", cell, {cell.inputs[0].name: net, cell.outputs[0].name: number}))
        behind[net] = number
    for at, gate in enumerate(netlist.gates):
        own = block_of(gate.path)
        pins = {pin: net if drivers.get(net) == own else behind.get(net, net) for pin, net in gate.pins.items()}
        gates[at] = replace(gate, pins=pins)
    outputs = {name: behind.get(net, net) for name, net in netlist.outputs.items()}
    counted = [
        BlockWires(between=kinds, nets=len(each), wire_mm=round(sum(each) / 1e3, 3), longest_um=round(max(each), 1))
        for kinds, each in sorted(between.items(), key=lambda item: -sum(item[1]))
    ]
    placed = replace(netlist, gates=gates, wires_ff=wires, names=names, outputs=outputs)
    return Floorplan(placed, list(places.values()), counted)


def _between(
    netlist: MappedNetlist, block_of: Callable[[str], str]
) -> tuple[dict[int, str], dict[int, frozenset[str]]]:
    """Return the block of the driver of each net, and of the nets between blocks all that they join."""
    joined: defaultdict[int, set[str]] = defaultdict(set)
    drivers: dict[int, str] = {}
    for gate in netlist.gates:
        for net in signal_pins(gate):
            joined[net].add(block_of(gate.path))
        drivers |= dict.fromkeys(gate.driven, block_of(gate.path))
    for cell in netlist.unmapped:
        block = block_of(instance_path(cell.name))
        for outputs in (False, True):
            for name, net in pin_bits(cell, outputs=outputs):
                if outputs:
                    drivers[net] = block
                # the clock has a tree of its own
                if not name.rpartition(".")[2].startswith(("RD_CLK", "WR_CLK")):
                    joined[net].add(block)
    between = {net: frozenset(ends) for net, ends in joined.items() if net > ONE and len(ends) > 1 and net in drivers}
    return drivers, between


def _ends(joined: frozenset[str], places: Mapping[str, BlockPlace]) -> Points:
    """Return where the wires of a net reach its blocks: as near as possible to the middle of them all."""
    low = np.array([[places[block].x_um, places[block].y_um] for block in sorted(joined)])
    size = np.array([[places[block].width_um, places[block].height_um] for block in sorted(joined)])
    return np.clip((low + size / 2).mean(axis=0), low, low + size)


def _annealed(blocks: Mapping[str, Block], nets: Mapping[frozenset[str], int]) -> dict[str, BlockPlace]:
    random, across = Random(1), sqrt(_SPARE * sum(width * height for width, height in blocks.values()))
    order = random.sample(sorted(blocks), len(blocks))

    def cost(order: list[str]) -> float:
        places = _in_rows(order, blocks, across)
        height = max(place.y_um + place.height_um for place in places.values())
        wires = sum(count * tree_um(_ends(joined, places)) for joined, count in nets.items())
        return wires * (1 + max(height / across - 1, 0.0))

    now = cost(order)
    best, heat = (now, order), _WARM * now
    for _ in range(_STEPS if len(blocks) > 2 else 0):
        changed = list(order)
        one, other = random.sample(range(len(order)), 2)
        if random.random() < 0.5:
            changed[one], changed[other] = changed[other], changed[one]
        else:
            changed.insert(other, changed.pop(one))
        later = cost(changed)
        if later < now or random.random() < exp((now - later) / heat):
            order, now = changed, later
            best = min(best, (now, order))
        heat *= _COOLING
    return _in_rows(best[1], blocks, across)


def _in_rows(order: list[str], blocks: Mapping[str, Block], across: float) -> dict[str, BlockPlace]:
    places: dict[str, BlockPlace] = {}
    x = y = row = 0.0
    for name in order:
        width, height = blocks[name]
        if x and x + width > across:
            x, y, row = 0.0, y + row, 0.0
        places[name] = BlockPlace(name=name, x_um=x, y_um=y, width_um=width, height_um=height)
        x, row = x + width, max(row, height)
    return places


def _buffer(library: Library, load_ff: float) -> LibraryCell:
    """Return the smallest buffer that is almost as fast as the fastest one."""
    arcs = [timing_arcs(cell, cell.outputs[0].name) for cell in library.buffers]
    delays = [max(arc.delay.value_at(0.0, load_ff) for arc in of_cell) for of_cell in arcs]
    return next(cell for cell, delay in zip(library.buffers, delays, strict=True) if delay <= _WEAKER * min(delays))
