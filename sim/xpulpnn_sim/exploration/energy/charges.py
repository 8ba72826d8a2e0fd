"""Energies from transitions and the figures of a Liberty file."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sim.exploration.energy.model import Circuit, Register
from xpulpnn_sim.exploration.energy.toggles import Activity
from xpulpnn_sim.exploration.liberty import Liberty, LibraryCell, Pin, Table, expression
from xpulpnn_sim.exploration.results import ENERGY_PARTS, ModuleEnergy
from xpulpnn_sim.tools.netlists import ONE, ZERO

_FJ_PER_NW_NS = 1e-3


_Sums = dict[str, float]  # energy of an instance per cycle, fJ, by part


class Charges:
    """Energies of a netlist in a library."""

    def __init__(
        self, circuit: Circuit, liberty: Liberty, clock_gate: str, *, slew_ns: float, period_ns: float
    ) -> None:
        self._circuit, self._voltage = circuit, liberty.voltage
        self._slew_ns, self._period_ns = slew_ns, period_ns
        self._gate = liberty.cells.get(clock_gate)
        self._known_edges: dict[tuple[object, ...], tuple[float, float]] = {}
        self.loads_ff = np.zeros(circuit.net_count)
        self._groups: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for number, register in enumerate(circuit.registers):
            if register.enable != ONE:
                self._groups[register.path, register.enable].append(number)
        for gate in circuit.gates:
            self.loads_ff[gate.output] += gate.cell.pins[gate.pin].capacitance_ff
            for pin, net in gate.inputs.items():
                self.loads_ff[net] += gate.cell.pins[pin].capacitance_ff
        for register in circuit.registers:
            self.loads_ff[register.data] += register.cell.pins[register.data_pin].capacitance_ff
        if self._gate is not None:
            for _, enable in self._groups:
                self.loads_ff[enable] += _role(self._gate, "enable").capacitance_ff

    @property
    def clock_gates(self) -> int:
        """Number of clock gates."""
        return len(self._groups) if self._gate else 0

    @property
    def area(self) -> float:
        """Area of all cells, clock gates included, in the unit of the library."""
        gates = sum(gate.cell.area for gate in self._circuit.gates)
        registers = sum(register.cell.area for register in self._circuit.registers)
        return gates + registers + (self._gate.area * len(self._groups) if self._gate else 0.0)

    def delays_ns(self) -> list[float]:
        """Delay of each gate at its load: mean of all arcs and both edges."""
        known: dict[tuple[str, str, float], float] = {}
        delays: list[float] = []
        for gate in self._circuit.gates:
            key = gate.cell.name, gate.pin, float(self.loads_ff[gate.output])
            if key not in known:
                arcs = gate.cell.pins[gate.pin].timing
                tables = [table for arc in arcs for table in (arc.cell_rise, arc.cell_fall) if table is not None]
                known[key] = self._mean(tables, key[2])
            delays.append(known[key])
        return delays

    def modules(self, activity: Activity, names: Mapping[str, str]) -> list[ModuleEnergy]:
        """Energy of every instance."""
        top = self._circuit.top
        paths = {"", *("" if path == top else path.removeprefix(f"{top}.") for path in names)}
        sums: dict[str, _Sums] = {path: dict.fromkeys(ENERGY_PARTS, 0.0) for path in paths}
        rates = activity.toggles / max(activity.transitions, 1)
        self._gates(sums, rates)
        self._registers(sums, rates, activity)
        self._ports(sums, rates)
        ordered = sorted(sums, key=lambda path: path.split(".") if path else [])
        return [
            ModuleEnergy(
                path=path or top,
                module=names.get(f"{top}.{path}" if path else top, path.rpartition(".")[2] or top),
                **sums[path],
            )
            for path in ordered
        ]

    def _half_cv2(self, load_ff: float) -> float:
        return 0.5 * load_ff * self._voltage**2

    def _mean(self, tables: Sequence[Table], load_ff: float) -> float:
        return sum(table.at(self._slew_ns, load_ff) for table in tables) / max(len(tables), 1)

    def _gates(self, sums: dict[str, _Sums], rates: NDArray[np.float64]) -> None:
        for gate in self._circuit.gates:
            own, load, rate = _of(sums, gate.path), float(self.loads_ff[gate.output]), float(rates[gate.output])
            if rate:
                tied = {pin: bool(net) for pin, net in gate.inputs.items() if net in (ZERO, ONE)}
                own["switching"] += rate * self._half_cv2(load)
                own["internal"] += rate * sum(self._edges(gate.cell, gate.pin, tied, load)) / 2
            own["leakage"] += self._leakage(gate.cell)
            for pin, net in gate.inputs.items():
                if rates[net] and gate.cell.pins[pin].internal_power:
                    own["internal"] += float(rates[net]) * sum(self._edges(gate.cell, pin, {}, 0.0)) / 2

    def _leakage(self, cell: LibraryCell) -> float:
        return cell.leakage_nw * self._period_ns * _FJ_PER_NW_NS

    def _edges(self, cell: LibraryCell, pin: str, known: Mapping[str, bool], load_ff: float) -> tuple[float, float]:
        """Internal energy of a rising and of a falling edge: means over the conditions that the known pins allow."""
        key = cell.name, pin, load_ff, *known.items()
        if key not in self._known_edges:
            powers = cell.pins[pin].internal_power
            if cell.flip_flop is not None and cell.pins[pin].direction == "output":
                powers = [power for power in powers if power.related_pin == cell.flip_flop.clocked_on]
            chosen = [power for power in powers if power.when and _possible(power.when, known)]
            chosen = chosen or [power for power in powers if not power.when]
            rises = [power.rise_power for power in chosen if power.rise_power is not None]
            falls = [power.fall_power for power in chosen if power.fall_power is not None]
            self._known_edges[key] = self._mean(rises, load_ff), self._mean(falls, load_ff)
        return self._known_edges[key]

    def _registers(self, sums: dict[str, _Sums], rates: NDArray[np.float64], activity: Activity) -> None:
        edges = activity.clocked / max(activity.cycles, 1)
        for number, register in enumerate(self._circuit.registers):
            own, cell, tied = _of(sums, register.path), register.cell, _tied(register)
            own["leakage"] += self._leakage(cell)
            for pin, net, _ in register.outputs:
                load, rate = float(self.loads_ff[net]), float(rates[net])
                own["switching"] += rate * self._half_cv2(load)
                own["internal"] += rate * sum(self._edges(cell, pin, {}, load)) / 2
            # the clock of a gated register mostly rests at 0
            resting = {register.clock_pin: False} if register.enable != ONE else {}
            own["internal"] += (
                float(rates[register.data]) * sum(self._edges(cell, register.data_pin, tied | resting, 0.0)) / 2
            )
            charge = 2 * self._half_cv2(cell.pins[register.clock_pin].capacitance_ff)
            for following, present in product((False, True), repeat=2):
                if rate := float(edges[number, int(following), int(present)]):
                    state = tied | {register.data_pin: following} | _outputs(register, present)
                    own["clock"] += rate * (charge + sum(self._edges(cell, register.clock_pin, state, 0.0)))
        self._clock_gates(sums, rates, edges)

    def _clock_gates(self, sums: dict[str, _Sums], rates: NDArray[np.float64], edges: NDArray[np.float64]) -> None:
        if self._gate is None:
            return
        cell = self._gate
        clock, enable, out = (_role(cell, role) for role in ("clock", "enable", "out"))
        always = 2 * self._half_cv2(clock.capacitance_ff) + sum(self._edges(cell, clock.name, {}, 0.0))
        each_enable = sum(self._edges(cell, enable.name, {}, 0.0)) / 2
        for (path, net), members in self._groups.items():
            own = _of(sums, path)
            registers = [self._circuit.registers[number] for number in members]
            load = sum(item.cell.pins[item.clock_pin].capacitance_ff for item in registers)
            passed = float(edges[members[0]].sum())
            own["clock"] += always + passed * sum(self._edges(cell, out.name, {}, load))
            own["clock"] += float(rates[net]) * each_enable
            own["leakage"] += self._leakage(cell)

    def _ports(self, sums: dict[str, _Sums], rates: NDArray[np.float64]) -> None:
        for net in self._circuit.sources:
            sums[""]["switching"] += float(rates[net]) * self._half_cv2(float(self.loads_ff[net]))


def _of(sums: dict[str, _Sums], path: str) -> _Sums:
    """Sums of the innermost known instance on a path."""
    while path not in sums:
        path = path.rpartition(".")[0]
    return sums[path]


def _role(gate: LibraryCell, role: str) -> Pin:
    return next(pin for pin in gate.pins.values() if pin.clock_gate == role)


def _possible(when: str, known: Mapping[str, bool]) -> bool:
    """Return whether a condition can hold with the known pins."""
    parsed = expression(when)
    free = [name for name in parsed.inputs if name not in known]
    return any(parsed.evaluate({**known, **values}) for values in _assignments(free))


def _assignments(names: Sequence[str]) -> Iterator[dict[str, bool]]:
    for values in product((False, True), repeat=len(names)):
        yield dict(zip(names, values, strict=True))


def _outputs(register: Register, state: bool) -> dict[str, bool]:
    return {
        pin.name: state != (expression(pin.function).inputs[0] == register.cell.flip_flop.state_inverse)
        for pin in register.cell.outputs
        if register.cell.flip_flop is not None
    }


def _tied(register: Register) -> dict[str, bool]:
    """Values of the asynchronous inputs, which are tied off."""
    state = register.cell.flip_flop
    assert state is not None
    values: dict[str, bool] = {}
    for text in filter(None, (state.clear, state.preset)):
        parsed = expression(text)
        values |= next(v for v in _assignments(parsed.inputs) if not parsed.evaluate(v))
    return values
