"""Place a mapped netlist, and enlarge gates and insert buffers where its wires make the longest paths longer."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import product
from math import inf

import numpy as np

from xpulpnn_sim.exploration.clock_tree import clock_tree
from xpulpnn_sim.exploration.liberty import LibraryCell
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.mapped_netlist import MappedGate, MappedNetlist
from xpulpnn_sim.exploration.placement import Placement, Placer, netlist_cells, netlist_ports
from xpulpnn_sim.exploration.placement_result import PlacementResult
from xpulpnn_sim.exploration.timing import FALL, RISE, Analysis, CellArc, NetArc, timing_arcs
from xpulpnn_sim.tools.netlists import ONE

_ROUNDS = 3  # placements, each after the sizing of the one before
_PASSES, _PASSES_JOINED = 40, 12  # of each sizing, and of that of a cluster's parts together, at most
_CRITICAL = 0.02  # share of the longest path: nets with less slack are changed
_WEIGHTED, _WEIGHT = 0.1, 20.0  # share of the longest path below which slack makes a net heavier, and by how much
_URGENT = 4.0  # weight of slack beside that of gain in the order of changes
_GAIN_NS, _BUFFER_GAIN_NS = 0.0005, 0.05  # price of another cell, and of a buffer: changes must gain more
_MARGINS_NS = (0.1, 0.2, 0.4)  # slack beyond that of the net from which on sinks may move behind a buffer

_Sink = tuple[int, str]  # number of a gate and its pin; below 0 that of a port, from -1 on, and its name


@dataclass(frozen=True, slots=True)
class SizedNetlist:
    netlist: MappedNetlist
    placement: Placement
    delay_ps: float
    result: PlacementResult


def place_and_size(
    mapped: MappedNetlist, library: Library, placer: Placer, seed: int, wireless_ps: float | None
) -> SizedNetlist:
    """Place and size in turn; return the state after the placement that makes the longest path shortest."""
    weights: dict[int, float] = {}
    states: list[tuple[float, MappedNetlist, Placement]] = []
    netlist = replace(mapped, wires_ff={})
    for _ in range(_ROUNDS):
        placement = Placement(netlist_cells(netlist), netlist_ports(netlist), placer)
        placement.place(seed, weights)
        netlist = replace(netlist, wires_ff=placement.wires_ff())
        analysis = Analysis(netlist, library)
        states.append((round(analysis.worst_ns * 1e3, 2), netlist, placement))
        if len(states) < _ROUNDS:
            analysis = _size(analysis, placement, library)
            netlist, limit = analysis.netlist, _WEIGHTED * analysis.worst_ns
            slacks = {net: max(analysis.slack_ns(net), 0.0) for net in netlist.wires_ff}
            weights = {net: 1 + _WEIGHT * (1 - slack / limit) ** 2 for net, slack in slacks.items() if slack < limit}
    delay_ps, netlist, placement = min(states, key=lambda state: state[0])
    pairs = zip(netlist.gates, mapped.gates, strict=False)  # buffers are behind
    result = PlacementResult(
        seed=seed,
        width_um=round(placement.width_um, 2),
        height_um=round(placement.height_um, 2),
        utilisation=placer.utilisation,
        wire_mm=round(sum(netlist.wires_ff.values()) / placer.wire_ff_um / 1e3, 3),
        resized=sum(gate.cell is not before.cell for gate, before in pairs),
        buffers=len(netlist.gates) - len(mapped.gates),
        wireless_ps=wireless_ps,
        unsized_ps=states[0][0],
        clock=clock_tree(netlist, placement, library),
    )
    return SizedNetlist(netlist, placement, delay_ps, result)


def resized(netlist: MappedNetlist, library: Library) -> MappedNetlist:
    """Change gates of parts that are placed and joined for others of their functions."""
    return _size(Analysis(netlist, library), None, library, _PASSES_JOINED).netlist


def _size(analysis: Analysis, placement: Placement | None, library: Library, passes: int = _PASSES) -> Analysis:
    """Change gates while the longest path becomes shorter; a pass that fails is tried again with fewer changes.

    Without a placement no buffers are inserted.
    """
    cells, placement, most = _Cells(library), copy(placement), len(analysis.netlist.gates)
    for _ in range(passes):
        changed = _Pass(cells, analysis, placement)
        count = changed.apply(most)
        if not count:
            break
        later = Analysis(changed.netlist, library, analysis)
        if later.worst_ns < analysis.worst_ns:
            analysis, most = later, 2 * most
            if placement:
                placement.places = changed.places
        else:
            most = count // 4
    return analysis


class _Cells:
    """Cells of a library that compute the same."""

    def __init__(self, library: Library) -> None:
        self.output_load_ff, self.driver = library.output_load_ff, library.cells[library.driving_cell]
        self._by_function = defaultdict[object, list[LibraryCell]](list)
        for cell in library.cells.values():
            timed = all(timing_arcs(cell, pin.name) for pin in cell.outputs)
            if timed and not (cell.dont_use or cell.sequential) and cell.area > 0:
                self._by_function[self._function(cell)].append(cell)

    @staticmethod
    def _function(cell: LibraryCell) -> object:
        return frozenset((pin.name, pin.direction, pin.function, pin.three_state) for pin in cell.pins.values())

    def equal(self, cell: LibraryCell) -> list[LibraryCell]:
        return self._by_function[self._function(cell)]


@dataclass(frozen=True, slots=True)
class _Change:
    net: int
    gain_ns: float
    cell: LibraryCell  # instead of the driver of the net, or a buffer before the sinks ``behind``
    behind: Sequence[_Sink] = ()


class _Pass:
    """Changes of a netlist that leave each other's timing alone, those that gain most first."""

    def __init__(self, cells: _Cells, analysis: Analysis, placement: Placement | None) -> None:
        self._cells, self._analysis, self._placement = cells, analysis, placement
        self.netlist, self.places = analysis.netlist, placement.places if placement else np.zeros((0, 2))
        self._drivers = {net: -1 - number for number, net in enumerate(self.netlist.inputs.values())}
        self._sinks = defaultdict[int, list[_Sink]](list)
        for number, gate in enumerate(self.netlist.gates):
            self._drivers |= dict.fromkeys(gate.driven, number)
            for pin in gate.cell.inputs:
                self._sinks[gate.pins.get(pin.name, ONE)].append((number, pin.name))
        for number, (name, net) in enumerate(self.netlist.outputs.items(), len(self.netlist.inputs)):
            self._sinks[net].append((-1 - number, name))

    def apply(self, most: int) -> int:
        """Make up to ``most`` changes, and return their number."""
        analysis, netlist = self._analysis, self.netlist
        limit = _CRITICAL * analysis.worst_ns
        critical = [net for net in analysis.arrival if analysis.slack_ns(net) < limit]
        best = [max(self._changes(net), key=lambda change: change.gain_ns, default=None) for net in critical]
        ordered = [change for change in best if change]
        ordered.sort(key=lambda change: _URGENT * analysis.slack_ns(change.net) - change.gain_ns)
        self._gates, self._outputs = list(netlist.gates), dict(netlist.outputs)
        self._wires, self._names = dict(netlist.wires_ff), dict(netlist.names)
        locked, count = set[int](), 0
        for change in ordered:
            driver, readers = self._drivers[change.net], (number for number, _ in self._sinks[change.net])
            near = {change.net, *(net for number in readers if number >= 0 for net in self._gates[number].driven)}
            near |= {*self._gates[driver].read, *self._gates[driver].driven} if driver >= 0 else set()
            if count < most and change.gain_ns > 0 and not near & locked:
                if change.behind:
                    self._insert(change)
                else:
                    self._gates[driver] = replace(self._gates[driver], cell=change.cell)
                locked |= near
                count += 1
        more = {"outputs": self._outputs, "wires_ff": self._wires, "names": self._names}
        self.netlist = replace(netlist, gates=self._gates, **more)
        return count

    def _insert(self, change: _Change) -> None:
        net, driver, cell = max(self._names) + 1, self._drivers[change.net], change.cell
        for number, pin in change.behind:
            if number < 0:
                self._outputs[pin] = net
            else:
                self._gates[number] = replace(self._gates[number], pins={**self._gates[number].pins, pin: net})
        for wire, sinks in ((change.net, self._others(change)), (net, change.behind)):
            self._wires[wire] = self._wire_ff(change.net, sinks)
        self._names[net] = f"{self._names[change.net]} buffered"
        pins = {cell.inputs[0].name: change.net, cell.outputs[0].name: net}
        path = self._gates[driver].path if driver >= 0 else ""
        self._gates.append(MappedGate(f"placed_buffer_{net}", path, cell, pins))
        assert self._placement is not None
        place = self._placement.border[-1 - driver] if driver < 0 else self._placement.places[driver]
        self.places = np.concatenate([self.places, [place]])

    def _others(self, change: _Change) -> list[_Sink]:
        return [sink for sink in self._sinks[change.net] if sink not in change.behind]

    def _wire_ff(self, net: int, sinks: Sequence[_Sink]) -> float:
        assert self._placement is not None
        return self._placement.wire_ff([self._drivers[net], *(number for number, _ in sinks)])

    def _load_ff(self, sinks: Sequence[_Sink]) -> float:
        """Return the capacitance of input pins."""
        gates = self.netlist.gates
        return sum(
            self._cells.output_load_ff if self._is_end(number) else gates[number].cell.pins[pin].capacitance_ff
            for number, pin in sinks
        )

    def _is_end(self, number: int) -> bool:
        return number < 0 or self.netlist.gates[number].cell.sequential

    def _arcs(self, net: int, number: int) -> Iterator[tuple[float, int, NetArc]]:
        """Yield slack, output and timing arc of the paths from a net through a gate that reads it."""
        analysis = self._analysis
        for output in self.netlist.gates[number].driven:
            for arc in analysis.arcs.get(output, ()) if output in analysis.required else ():
                if arc.source == net:
                    at = analysis.arrival[net][arc.arc.input_edge] + arc.delay_ns
                    yield analysis.required[output][arc.arc.output_edge] - at, output, arc

    def _sink_slack_ns(self, net: int, number: int) -> float:
        if self._is_end(number):
            return self._analysis.worst_ns - max(self._analysis.arrival[net])
        return min((slack for slack, *_ in self._arcs(net, number)), default=inf)

    def _stage(self, net: int, edge: int) -> "_Stage":
        """Return what drives a net when it has this edge, which is the driving cell for inputs and registers."""
        if cause := self._analysis.cause.get((net, edge)):
            slew_ns = self._analysis.slew[cause.source][cause.arc.input_edge]
            return _Stage(cause.gate.cell, cause.arc, slew_ns, self._analysis.load[net])
        cell = self._cells.driver
        arcs = timing_arcs(cell, cell.outputs[0].name)
        return _Stage(cell, next(arc for arc in arcs if arc.output_edge == edge), 0.0, self._analysis.load[net])

    def _changes(self, net: int) -> Iterator[_Change]:
        """Yield changes of the driver of a net, and buffers behind it, with the time that the worst path gains."""
        analysis, sinks = self._analysis, self._sinks[net]
        edge = min((RISE, FALL), key=lambda edge: analysis.required[net][edge] - analysis.arrival[net][edge])
        slacks = {sink: self._sink_slack_ns(net, sink[0]) for sink in sinks}
        follower = min(slacks, key=slacks.__getitem__)[0]
        arcs = [] if self._is_end(follower) else list(self._arcs(net, follower))
        arcs = [item for item in arcs if item[2].arc.input_edge == edge]
        _, output, reader = min(arcs, key=lambda item: item[0], default=(inf, ONE, None))

        def following(slew_ns: float) -> float:
            """Return the delay of the next gate of the path."""
            return _Stage(reader.gate.cell, reader.arc, slew_ns, analysis.load[output]).at()[0] if reader else 0.0

        stage = self._stage(net, edge)
        delay, slew = stage.at()
        now = delay + following(slew)
        if cause := analysis.cause.get((net, edge)):
            for cell in self._cells.equal(stage.cell):
                if cell is not stage.cell:
                    delay, slew = replace(stage, cell=cell).at()
                    gain = now - delay - following(slew) - self._upstream_ns(cause.gate, cell, self._drivers[net])
                    yield _Change(net, gain - _GAIN_NS, cell)
        buffers = self._cells.equal(self._cells.driver) if self._placement else ()
        for cell, margin in product(buffers, (-inf, *_MARGINS_NS)):
            behind = [sink for sink in sinks if slacks[sink] > analysis.slack_ns(net) + margin]
            change = _Change(net, 0.0, cell, behind)
            others, pin = self._others(change), cell.inputs[0]
            if behind:
                load = pin.capacitance_ff + self._load_ff(others) + self._wire_ff(net, others)
                delay, slew = replace(stage, load_ff=load).at()
                load = self._load_ff(behind) + self._wire_ff(net, behind)
                own = next(arc for arc in timing_arcs(cell, cell.outputs[0].name) if arc.output_edge == edge)
                more, slew_behind = _Stage(cell, own, slew, load).at()
                if not others:
                    delay, slew = delay + more, slew_behind
                elif min(slacks[sink] for sink in behind) < analysis.slack_ns(net) + more:
                    continue
                yield replace(change, gain_ns=now - delay - following(slew) - _BUFFER_GAIN_NS)

    def _upstream_ns(self, gate: MappedGate, cell: LibraryCell, number: int) -> float:
        """Return by how much the drivers of a gate that becomes another cell delay the worst paths through the gate."""
        analysis, late = self._analysis, 0.0
        for pin in cell.inputs:
            net, more = gate.pins[pin.name], pin.capacitance_ff - gate.cell.pins[pin.name].capacitance_ff
            if net in analysis.arrival:
                edge = max((RISE, FALL), key=analysis.arrival[net].__getitem__)
                stage = self._stage(net, edge)
                change = replace(stage, load_ff=stage.load_ff + more).at()[0] - stage.at()[0]
                spare = self._sink_slack_ns(net, number) - analysis.slack_ns(net)
                late += max(change - max(spare, 0.0), 0.0) if change > 0 else change * (spare <= 0)
        return late


@dataclass(frozen=True, slots=True)
class _Stage:
    """A timing arc with its slew and load."""

    cell: LibraryCell
    arc: CellArc
    slew_ns: float
    load_ff: float

    def at(self) -> tuple[float, float]:
        """Return delay and slew, which are infinite for a cell without this arc."""
        arc, key = self.arc, (self.arc.pin, self.arc.input_edge, self.arc.output_edge)
        for other in timing_arcs(self.cell, arc.output):
            if (other.pin, other.input_edge, other.output_edge) == key:
                return other.delay.value_at(self.slew_ns, self.load_ff), other.slew.value_at(self.slew_ns, self.load_ff)
        return inf, inf
