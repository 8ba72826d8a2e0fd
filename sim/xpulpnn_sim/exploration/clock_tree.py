"""Estimate the clock tree of placed flip-flops: groups of neighbours behind buffers, level by level, up to one."""

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.mapped_netlist import MappedNetlist
from xpulpnn_sim.exploration.placement import Placement, Points, tree_um
from xpulpnn_sim.exploration.placement_result import ClockTree

FANOUT = 16  # of each buffer, at most


def clock_tree(netlist: MappedNetlist, placement: Placement, library: Library) -> ClockTree:
    """Return the tree with the library's driving cell as buffer, between wires without resistance."""
    states = [(number, gate.cell) for number, gate in enumerate(netlist.gates) if gate.cell.flip_flop]
    pins_ff = np.array([cell.pins[cell.flip_flop.clocked_on].capacitance_ff for _, cell in states if cell.flip_flop])
    points = placement.places[[number for number, _ in states]]
    buffer, arc = library.cells[library.driving_cell], library.cells[library.driving_cell].outputs[0].timing[0]
    counts, wire_um, charge_ff, delays_ns = list[int](), 0.0, 0.0, np.zeros(2)
    while len(points) > (counts != []):
        groups = _groups(points, np.arange(len(points)))
        centres = np.array([points[group].mean(axis=0) for group in groups])
        trees = [tree_um(np.vstack([points[group], centre])) for group, centre in zip(groups, centres, strict=True)]
        loads = placement.wire_ff_um * np.array(trees) + [pins_ff[group].sum() for group in groups]
        ends = min(loads), max(loads)
        delays_ns += [arc.cell_rise.value_at(library.fo4_ps / 1e3, load) if arc.cell_rise else 0.0 for load in ends]
        wire_um, charge_ff = wire_um + sum(trees), charge_ff + sum(loads)
        points, pins_ff = centres, np.full(len(groups), buffer.inputs[0].capacitance_ff)
        counts.append(len(groups))
    return ClockTree(
        buffers=sum(counts),
        wire_mm=round(wire_um / 1e3, 3),
        area_um2=round(sum(counts) * buffer.area, 2),
        energy_pj=round(charge_ff * library.liberty.voltage**2 / 1e3, 3),
        latency_ps=round(delays_ns[1] * 1e3, 1),
        skew_ps=round((delays_ns[1] - delays_ns[0]) * 1e3, 1),
    )


def _groups(points: Points, members: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Halve points across their longer side until each part has at most :data:`FANOUT`."""
    if len(members) <= FANOUT:
        return [members]
    ordered = members[np.argsort(points[members, np.ptp(points[members], axis=0).argmax()], kind="stable")]
    half = len(ordered) // 2
    return _groups(points, ordered[:half]) + _groups(points, ordered[half:])
