"""Compute the energy of a netlist from its activity and the Liberty tables of its cells."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sim.exploration.energy.gate_model import Activity, Circuit, Register
from xpulpnn_sim.exploration.liberty import LibraryCell, Pin, Table, expression
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.results import ENERGY_PARTS, PERIOD_NS, ModuleEnergy
from xpulpnn_sim.tools.netlists import ONE, ZERO

SLEW_FO4 = 1.5  # transition time assumed at every pin, in FO4 delays of the library
STEP_FO4 = 0.5  # time step of the glitch simulation, in FO4 delays
_FJ_PER_NW_NS = 1e-3
_Sums = dict[str, float]  # energy of an instance per cycle, fJ, by component


class Charges:
    """Energies of a netlist whose nets have wires with the capacitances ``wires_ff``."""

    def __init__(self, circuit: Circuit, library: Library, wires_ff: Mapping[int, float] | None = None) -> None:
        self.circuit, self._voltage, self._fo4_ns = circuit, library.liberty.voltage, library.fo4_ps / 1e3
        self._gate = library.cells.get(library.clock_gate)
        self._known_edges: dict[tuple[object, ...], tuple[float, float]] = {}
        self._wires_ff = wires_ff or {}
        self.loads_ff = np.zeros(circuit.net_count)
        for net, load_ff in self._wires_ff.items():
            self.loads_ff[net] += load_ff
        # registers with a clock gate of their own, by instance, enable, and enable of the clock gate before it
        self._groups: defaultdict[tuple[str, int, int], list[int]] = defaultdict(list)
        for number, register in enumerate(circuit.registers):
            if register.enable != ONE:
                self._groups[register.path, register.enable, register.clock].append(number)
        for gate in circuit.gates:
            self.loads_ff[gate.output] += gate.cell.pins[gate.pin].capacitance_ff
            for pin, net in gate.inputs.items():
                self.loads_ff[net] += gate.cell.pins[pin].capacitance_ff
        for register in circuit.registers:
            self.loads_ff[register.data] += register.cell.pins[register.data_pin].capacitance_ff
        if self._gate is not None:
            for enable in (*(enable for _, enable, _ in self._groups), *circuit.clock_gates):
                self.loads_ff[enable] += _role(self._gate, "enable").capacitance_ff

    @property
    def clock_gates(self) -> int:
        return len(self._groups) + len(self.circuit.clock_gates) if self._gate else 0

    @property
    def area(self) -> float:
        gates = sum(gate.cell.area for gate in self.circuit.gates)
        registers = sum(register.cell.area for register in self.circuit.registers)
        return gates + registers + (self._gate.area * self.clock_gates if self._gate else 0.0)

    def delays(self) -> NDArray[np.uint32]:
        """Return the delay of each gate at its load in steps, averaged over all timing arcs and both edges."""

        @cache
        def delay_ns(cell: LibraryCell, pin: str, load_ff: float) -> float:
            tables = [table for arc in cell.pins[pin].timing for table in (arc.cell_rise, arc.cell_fall)]
            return self._mean([table for table in tables if table is not None], load_ff)

        delays = [delay_ns(gate.cell, gate.pin, float(self.loads_ff[gate.output])) for gate in self.circuit.gates]
        return np.maximum(np.rint(np.array(delays) / (STEP_FO4 * self._fo4_ns)), 1).astype(np.uint32)

    def modules(self, activity: Activity, names: Mapping[str, str]) -> list[ModuleEnergy]:
        top = self.circuit.top
        paths = {"", *("" if path == top else path.removeprefix(f"{top}.") for path in names)}
        sums: dict[str, _Sums] = {path: dict.fromkeys((*ENERGY_PARTS, "wires"), 0.0) for path in paths}
        rates = activity.toggles / max(activity.transitions, 1)
        self._gates(sums, rates)
        self._registers(sums, rates, activity)
        for net in self.circuit.sources:
            self._switch(sums[""], net, float(rates[net]))
        ordered = sorted(sums, key=lambda path: path.split(".") if path else [])
        return [
            ModuleEnergy(
                path=path or top,
                module=names.get(f"{top}.{path}" if path else top, path.rpartition(".")[2] or top),
                **sums[path],
            )
            for path in ordered
        ]

    def _switch(self, own: _Sums, net: int, rate: float) -> None:
        own["switching"] += rate * self._half_cv2(float(self.loads_ff[net]))
        own["wires"] += rate * self._half_cv2(self._wires_ff.get(net, 0.0))

    def _half_cv2(self, load_ff: float) -> float:
        return 0.5 * load_ff * self._voltage**2

    def _mean(self, tables: Sequence[Table], load_ff: float) -> float:
        return sum(table.value_at(SLEW_FO4 * self._fo4_ns, load_ff) for table in tables) / max(len(tables), 1)

    def _gates(self, sums: dict[str, _Sums], rates: NDArray[np.float64]) -> None:
        for gate in self.circuit.gates:
            own, net = _innermost_sums(sums, gate.path), gate.output
            load, rate = float(self.loads_ff[net]), float(rates[net])
            if rate:
                tied = {pin: bool(net) for pin, net in gate.inputs.items() if net in (ZERO, ONE)}
                self._switch(own, net, rate)
                own["internal"] += rate * sum(self._edges(gate.cell, gate.pin, tied, load)) / 2
            own["leakage"] += self._leakage(gate.cell)
            for pin, net in gate.inputs.items():
                if rates[net] and gate.cell.pins[pin].internal_power:
                    own["internal"] += float(rates[net]) * sum(self._edges(gate.cell, pin, {}, 0.0)) / 2

    def _leakage(self, cell: LibraryCell) -> float:
        return cell.leakage_nw * PERIOD_NS * _FJ_PER_NW_NS

    def _edges(self, cell: LibraryCell, pin: str, fixed: Mapping[str, bool], load_ff: float) -> tuple[float, float]:
        """Return internal energies of a rising and a falling edge: means over the tables whose condition can hold."""
        key = cell.name, pin, load_ff, *fixed.items()
        if key not in self._known_edges:
            powers = cell.pins[pin].internal_power
            if cell.flip_flop is not None and cell.pins[pin].direction == "output":
                powers = [power for power in powers if power.related_pin == cell.flip_flop.clocked_on]
            chosen = [power for power in powers if power.when and _can_hold(power.when, fixed)]
            chosen = chosen or [power for power in powers if not power.when]
            rises = [power.rise_power for power in chosen if power.rise_power is not None]
            falls = [power.fall_power for power in chosen if power.fall_power is not None]
            self._known_edges[key] = self._mean(rises, load_ff), self._mean(falls, load_ff)
        return self._known_edges[key]

    def _registers(self, sums: dict[str, _Sums], rates: NDArray[np.float64], activity: Activity) -> None:
        edges = activity.clocked / max(activity.cycles, 1)
        for number, register in enumerate(self.circuit.registers):
            own, cell, tied = _innermost_sums(sums, register.path), register.cell, _inactive_values(register)
            own["leakage"] += self._leakage(cell)
            for pin, net, _ in register.outputs:
                load, rate = float(self.loads_ff[net]), float(rates[net])
                self._switch(own, net, rate)
                own["internal"] += rate * sum(self._edges(cell, pin, {}, load)) / 2
            # the clock of a gated register rests at 0 most of the time
            resting = {register.clock_pin: False} if register.enable != ONE else {}
            own["internal"] += (
                float(rates[register.data]) * sum(self._edges(cell, register.data_pin, tied | resting, 0.0)) / 2
            )
            charge = 2 * self._half_cv2(cell.pins[register.clock_pin].capacitance_ff)
            for following, present in product((False, True), repeat=2):
                if rate := float(edges[number, int(following), int(present)]):
                    state = tied | {register.data_pin: following} | _outputs(register, present)
                    own["clock"] += rate * (charge + sum(self._edges(cell, register.clock_pin, state, 0.0)))
        self._clock_gates(sums, rates, activity)

    def _clock_gates(self, sums: dict[str, _Sums], rates: NDArray[np.float64], activity: Activity) -> None:
        if self._gate is None:
            return
        cell, cycles = self._gate, max(activity.cycles, 1)
        clock, enable, out = (_role(cell, role) for role in ("clock", "enable", "out"))
        always = 2 * self._half_cv2(clock.capacitance_ff) + sum(self._edges(cell, clock.name, {}, 0.0))
        each_enable = sum(self._edges(cell, enable.name, {}, 0.0)) / 2
        loads = dict.fromkeys(self.circuit.clock_gates, 0.0)
        for register in self.circuit.registers:
            if register.clock in loads and register.enable == ONE:
                loads[register.clock] += register.cell.pins[register.clock_pin].capacitance_ff
        gates: list[tuple[str, int, int, float, float]] = []  # path, enable, enable before it, load, pulses per cycle
        for (path, net, before), members in self._groups.items():
            registers = [self.circuit.registers[number] for number in members]
            load = sum(item.cell.pins[item.clock_pin].capacitance_ff for item in registers)
            gates.append((path, net, before, load, float(activity.clocked[members[0]].sum()) / cycles))
            if before in loads:
                loads[before] += clock.capacitance_ff
        opened = dict(zip(self.circuit.clock_gates, (activity.opened / cycles).tolist(), strict=True)) | {ONE: 1.0}
        gates += [(path, net, ONE, loads[net], opened[net]) for net, path in self.circuit.clock_gates.items()]
        for path, net, before, load, passed in gates:
            own = _innermost_sums(sums, path)
            own["clock"] += opened[before] * always + passed * sum(self._edges(cell, out.name, {}, load))
            own["clock"] += float(rates[net]) * each_enable
            own["leakage"] += self._leakage(cell)


def _innermost_sums(sums: dict[str, _Sums], path: str) -> _Sums:
    while path not in sums:
        path = path.rpartition(".")[0]
    return sums[path]


def _role(gate: LibraryCell, role: str) -> Pin:
    return next(pin for pin in gate.pins.values() if pin.clock_gate == role)


def _can_hold(condition: str, fixed: Mapping[str, bool]) -> bool:
    parsed = expression(condition)
    free = [name for name in parsed.inputs if name not in fixed]
    return any(parsed.evaluate({**fixed, **values}) for values in _assignments(free))


def _assignments(names: Sequence[str]) -> Iterator[dict[str, bool]]:
    for values in product((False, True), repeat=len(names)):
        yield dict(zip(names, values, strict=True))


def _outputs(register: Register, state: bool) -> dict[str, bool]:
    return {
        pin.name: state != (expression(pin.function).inputs[0] == register.cell.flip_flop.state_inverse)
        for pin in register.cell.outputs
        if register.cell.flip_flop is not None
    }


def _inactive_values(register: Register) -> dict[str, bool]:
    state = register.cell.flip_flop
    assert state is not None
    values: dict[str, bool] = {}
    for text in filter(None, (state.clear, state.preset)):
        parsed = expression(text)
        values |= next(v for v in _assignments(parsed.inputs) if not parsed.evaluate(v))
    return values
