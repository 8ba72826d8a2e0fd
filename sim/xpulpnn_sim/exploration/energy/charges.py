"""Count the transitions of every net, 64 clock cycles per word operation, and compute energies from Liberty tables."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.energy.gate_model import Circuit, Gate, Register
from xpulpnn_sim.exploration.liberty import Expression, Liberty, LibraryCell, Pin, Table, expression
from xpulpnn_sim.exploration.results import ENERGY_PARTS, ModuleEnergy
from xpulpnn_sim.tools.netlists import ONE, ZERO

NetWords = NDArray[np.uint64]  # values of a net, one bit per clock cycle, the first cycle in the least significant bit
BITS = 64
BLOCK_WORDS = 64  # words evaluated at a time, so that waveforms stay in the processor's cache
_ONES = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_ONE = np.uint64(1)
_TOP = np.uint64(BITS - 1)


def pack_cycles(states: NDArray[np.uint8]) -> NetWords:
    """Pack an array of bits [cycles, nets] into 64-bit words [nets, cycles / 64]; cycles must be a multiple of 64."""
    packed = np.packbits(states.T, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view(np.uint64)


def ones(words: NetWords) -> int:
    return int(np.bitwise_count(words).sum(dtype=np.int64))


class Activity:
    """Transitions of every net in chunks (consecutive cycles); with glitches unless all gate ``delays`` are 0."""

    def __init__(
        self, circuit: Circuit, sources: NetWords, states: NetWords, chunk_cycles: int, delays: NDArray[np.int64]
    ) -> None:
        self._circuit, self._chunk, self._delays = circuit, chunk_cycles // BITS, delays
        self._functions = [expression(gate.cell.pins[gate.pin].function) for gate in circuit.gates]
        self.cycles = states.shape[1] * BITS  # clock cycles seen
        # pairs of consecutive cycles in which transitions were counted
        self.transitions = self.cycles - states.shape[1] // self._chunk
        self.toggles = np.zeros(circuit.net_count, np.int64)  # transitions of each net
        # cycles in which the clock reached a register, by its next and its current state
        self.clocked = np.zeros((len(circuit.registers), 2, 2), np.int64)
        # cycles in which a clock gate of the design let the clock through, by its enable
        self.opened = Counter[int]({ONE: self.cycles})
        step = max(BLOCK_WORDS // self._chunk, 1) * self._chunk
        for first in range(0, states.shape[1], step):
            self._add(sources[:, first : first + step], states[:, first : first + step])

    def _add(self, sources: NetWords, states: NetWords) -> None:
        values = self._settle(sources, states)
        self._check(values, states)
        previous = np.empty_like(values)
        for net, words in enumerate(values):
            previous[net] = self._delayed(words, words)
        self._glitches(values, previous)

    def _settle(self, sources: NetWords, states: NetWords) -> NetWords:
        circuit = self._circuit
        values = np.zeros((circuit.net_count, states.shape[1]), np.uint64)
        values[ONE] = _ONES
        values[circuit.sources] = sources
        for register, state in zip(circuit.registers, states, strict=True):
            for _, net, inverted in register.outputs:
                values[net] = ~state if inverted else state
        for gate, function in zip(circuit.gates, self._functions, strict=True):
            values[gate.output] = function.evaluate({pin: values[net] for pin, net in gate.inputs.items()}, _ONES)
        return values

    def _delayed(self, words: NetWords, first: NetWords) -> NetWords:
        """Delay packed values by one cycle; the first cycle of a chunk, which none precedes, is that of ``first``."""
        delayed = words << _ONE
        delayed[1:] |= words[:-1] >> _TOP
        delayed[:: self._chunk] = delayed[:: self._chunk] & ~_ONE | first[:: self._chunk] & _ONE
        return delayed

    def _check(self, values: NetWords, states: NetWords) -> None:
        """Compare computed next states with the recorded states, and count the clock edges of each register."""
        self.opened.update({net: ones(values[net]) for net in self._circuit.clock_gates})
        for number, (register, state) in enumerate(zip(self._circuit.registers, states, strict=True)):
            data, enable = values[register.data], values[register.enable] & values[register.clock]
            following = data & enable | state & ~enable
            if (self._delayed(following, state) != state).any():
                names = " ".join(filter(None, (register.path, str(number))))
                raise ToolError(f"next state of register {names} must be what the simulation did next, not another")
            high, low = ones(enable & data & state), ones(enable & state)
            both = ones(enable & data)
            self.clocked[number] += [[ones(enable) - low - both + high, low - high], [both - high, high]]

    def _glitches(self, values: NetWords, previous: NetWords) -> None:
        """Count transitions, glitches included; in each clock cycle, registers and inputs change at time 0."""
        circuit = self._circuit
        uses = Counter(net for gate in circuit.gates for net in set(gate.inputs.values()))
        waves: dict[int, tuple[int, NetWords]] = {}
        for net in {*circuit.sources, *(net for item in circuit.registers for _, net, _ in item.outputs)}:
            if changes := ones(values[net] ^ previous[net]):
                waves[net] = (0, values[net : net + 1])
                self.toggles[net] += changes
        for gate, function, delay in zip(circuit.gates, self._functions, self._delays.tolist(), strict=True):
            wave, changes = _gate_wave(gate, function, delay, waves, values, previous)
            if wave is not None:
                waves[gate.output] = wave
                self.toggles[gate.output] += changes
            for net in set(gate.inputs.values()):
                uses[net] -= 1
                if not uses[net]:
                    waves.pop(net, None)


def _gate_wave(
    gate: Gate,
    function: Expression,
    delay: int,
    waves: dict[int, tuple[int, NetWords]],
    values: NetWords,
    previous: NetWords,
) -> tuple[tuple[int, NetWords] | None, int]:
    """Return the waveform of a gate's output (None if it is constant) and the number of transitions in it."""
    input_waves = [waves[net] for net in gate.inputs.values() if net in waves]
    if not input_waves:
        return None, 0
    start = min(first for first, _ in input_waves)
    end = max(first + len(rows) for first, rows in input_waves)
    pin_values = {
        pin: _stretched(waves[net], previous[net], start, end) if net in waves else values[net]
        for pin, net in gate.inputs.items()
    }
    rows = _inertial(function.evaluate(pin_values, _ONES), previous[gate.output], delay)
    changes = np.empty_like(rows)
    changes[0] = rows[0] ^ previous[gate.output]
    np.bitwise_xor(rows[1:], rows[:-1], out=changes[1:])
    moves = np.flatnonzero(changes.any(axis=1))
    if not len(moves):
        return None, 0
    first, last = int(moves[0]), int(moves[-1])
    return (start + delay + first, rows[first : last + 1]), ones(changes[first : last + 1])


def _stretched(wave: tuple[int, NetWords], previous: NetWords, start: int, end: int) -> NetWords:
    first, rows = wave
    if first == start and first + len(rows) == end:
        return rows
    stretched = np.empty((end - start, rows.shape[1]), np.uint64)
    stretched[: first - start] = previous
    stretched[first - start : first - start + len(rows)] = rows
    stretched[first - start + len(rows) :] = rows[-1]
    return stretched


def _inertial(rows: NetWords, previous: NetWords, delay: int) -> NetWords:
    if delay == 1 or len(rows) == 1:
        return rows
    passed = rows.copy()
    unstable = np.zeros_like(rows)
    for distance in range(1, min(delay, len(rows))):
        unstable[:-distance] |= rows[distance:] ^ rows[:-distance]
    for row in np.flatnonzero(unstable.any(axis=1)).tolist():
        held = passed[row - 1] if row else previous
        passed[row] ^= (passed[row] ^ held) & unstable[row]
    return passed


def quantised(delays_ns: Sequence[float], step_ns: float) -> NDArray[np.int64]:
    return np.maximum(np.rint(np.asarray(delays_ns) / step_ns), 1).astype(np.int64)


_FJ_PER_NW_NS = 1e-3
_Sums = dict[str, float]  # energy of an instance per cycle, fJ, by component


class Charges:
    def __init__(
        self,
        circuit: Circuit,
        liberty: Liberty,
        clock_gate: str,
        wires_ff: Mapping[int, float] | None = None,  # capacitance of the wire of each net
        *,
        slew_ns: float,
        period_ns: float,
    ) -> None:
        self._circuit, self._voltage = circuit, liberty.voltage
        self._slew_ns, self._period_ns = slew_ns, period_ns
        self._gate = liberty.cells.get(clock_gate)
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
        return len(self._groups) + len(self._circuit.clock_gates) if self._gate else 0

    @property
    def area(self) -> float:
        gates = sum(gate.cell.area for gate in self._circuit.gates)
        registers = sum(register.cell.area for register in self._circuit.registers)
        return gates + registers + (self._gate.area * self.clock_gates if self._gate else 0.0)

    def delays_ns(self) -> list[float]:
        """Return the delay of each gate at its load, averaged over all timing arcs and both edges."""
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
        top = self._circuit.top
        paths = {"", *("" if path == top else path.removeprefix(f"{top}.") for path in names)}
        sums: dict[str, _Sums] = {path: dict.fromkeys((*ENERGY_PARTS, "wires"), 0.0) for path in paths}
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

    def _switch(self, own: _Sums, net: int, rate: float) -> None:
        own["switching"] += rate * self._half_cv2(float(self.loads_ff[net]))
        own["wires"] += rate * self._half_cv2(self._wires_ff.get(net, 0.0))

    def _half_cv2(self, load_ff: float) -> float:
        return 0.5 * load_ff * self._voltage**2

    def _mean(self, tables: Sequence[Table], load_ff: float) -> float:
        return sum(table.value_at(self._slew_ns, load_ff) for table in tables) / max(len(tables), 1)

    def _gates(self, sums: dict[str, _Sums], rates: NDArray[np.float64]) -> None:
        for gate in self._circuit.gates:
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
        return cell.leakage_nw * self._period_ns * _FJ_PER_NW_NS

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
        for number, register in enumerate(self._circuit.registers):
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
        loads = dict.fromkeys(self._circuit.clock_gates, 0.0)
        for register in self._circuit.registers:
            if register.clock in loads and register.enable == ONE:
                loads[register.clock] += register.cell.pins[register.clock_pin].capacitance_ff
        gates: list[tuple[str, int, int, float, float]] = []  # path, enable, enable before it, load, pulses per cycle
        for (path, net, before), members in self._groups.items():
            registers = [self._circuit.registers[number] for number in members]
            load = sum(item.cell.pins[item.clock_pin].capacitance_ff for item in registers)
            gates.append((path, net, before, load, float(activity.clocked[members[0]].sum()) / cycles))
            if before in loads:
                loads[before] += clock.capacitance_ff
        opened = {net: count / cycles for net, count in activity.opened.items()}
        gates += [(path, net, ONE, loads[net], opened[net]) for net, path in self._circuit.clock_gates.items()]
        for path, net, before, load, passed in gates:
            own = _innermost_sums(sums, path)
            own["clock"] += opened[before] * always + passed * sum(self._edges(cell, out.name, {}, load))
            own["clock"] += float(rates[net]) * each_enable
            own["leakage"] += self._leakage(cell)

    def _ports(self, sums: dict[str, _Sums], rates: NDArray[np.float64]) -> None:
        for net in self._circuit.sources:
            self._switch(sums[""], net, float(rates[net]))


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
