"""Transitions of every net, from the states of the registers; 64 clock cycles in each operation."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.energy.model import Circuit, Gate
from xpulpnn_sim.exploration.liberty import Expression, expression
from xpulpnn_sim.tools.netlists import ONE

NetWords = NDArray[np.uint64]  # values of a net, one bit per clock cycle, the first cycle least significant

BITS = 64
BLOCK_WORDS = 64  # words evaluated at a time, so that waveforms stay in the processor's cache

_ONES = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_ONE = np.uint64(1)
_TOP = np.uint64(BITS - 1)


def pack_cycles(states: NDArray[np.uint8]) -> NetWords:
    """Bits [cycles, nets] as words [nets, cycles / 64]; the number of cycles must be a multiple of 64."""
    packed = np.packbits(states.T, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view(np.uint64)


def ones(words: NetWords) -> int:
    """Bits that are 1."""
    return int(np.bitwise_count(words).sum(dtype=np.int64))


class Activity:
    """Transitions of every net, counted in blocks of whole chunks of cycles that follow each other.

    Gates have ``delays`` in steps of time; if all are 0 there are no glitches. Raises :class:`ToolError` unless the
    next states computed here are the states that follow.
    """

    def __init__(
        self, circuit: Circuit, sources: NetWords, states: NetWords, chunk_cycles: int, delays: NDArray[np.int64]
    ) -> None:
        self._circuit, self._chunk, self._delays = circuit, chunk_cycles // BITS, delays
        self._functions = [expression(gate.cell.pins[gate.pin].function) for gate in circuit.gates]
        self.cycles = states.shape[1] * BITS  # clock cycles seen
        # pairs of consecutive cycles among them, in which transitions were counted
        self.transitions = self.cycles - states.shape[1] // self._chunk
        self.toggles = np.zeros(circuit.net_count, np.int64)  # transitions of each net
        # cycles in which the clock reached a register, by its next and its present state
        self.clocked = np.zeros((len(circuit.registers), 2, 2), np.int64)
        step = max(BLOCK_WORDS // self._chunk, 1) * self._chunk
        for first in range(0, states.shape[1], step):
            self._add(sources[:, first : first + step], states[:, first : first + step])

    def _add(self, sources: NetWords, states: NetWords) -> None:
        values = self._settle(sources, states)
        self._check(values, states)
        before = np.empty_like(values)
        for net, words in enumerate(values):
            before[net] = self._delayed(words)
        self._glitches(values, before)

    def _settle(self, sources: NetWords, states: NetWords) -> NetWords:
        """Values at the end of every cycle."""
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

    def _delayed(self, words: NetWords) -> NetWords:
        """Values in the cycle before; those of the cycle itself at the start of a chunk."""
        late = words << _ONE
        late[1:] |= words[:-1] >> _TOP
        late[:: self._chunk] = late[:: self._chunk] & ~_ONE | words[:: self._chunk] & _ONE
        return late

    def _check(self, values: NetWords, states: NetWords) -> None:
        """Compare the states with those that the cycle before computed; count clocked states."""
        for number, (register, state) in enumerate(zip(self._circuit.registers, states, strict=True)):
            data, enable = values[register.data], values[register.enable]
            following = data & enable | state & ~enable
            late = self._delayed(following)
            late[:: self._chunk] = late[:: self._chunk] & ~_ONE | state[:: self._chunk] & _ONE
            if (late != state).any():
                names = " ".join(filter(None, (register.path, str(number))))
                raise ToolError(f"next state of register {names} must be what the simulation did next, not another")
            high, low = ones(enable & data & state), ones(enable & state)
            both = ones(enable & data)
            self.clocked[number] += [[ones(enable) - low - both + high, low - high], [both - high, high]]

    def _glitches(self, values: NetWords, before: NetWords) -> None:
        """Walk through the gates with the waveforms of a clock cycle, in which sources change at time 0."""
        circuit = self._circuit
        uses = Counter(net for gate in circuit.gates for net in set(gate.inputs.values()))
        waves: dict[int, tuple[int, NetWords]] = {}
        for net in {*circuit.sources, *(net for item in circuit.registers for _, net, _ in item.outputs)}:
            if changes := ones(values[net] ^ before[net]):
                waves[net] = (0, values[net : net + 1])
                self.toggles[net] += changes
        for gate, function, delay in zip(circuit.gates, self._functions, self._delays.tolist(), strict=True):
            wave, changes = _gate_wave(gate, function, delay, waves, values, before)
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
    before: NetWords,
) -> tuple[tuple[int, NetWords] | None, int]:
    """Waveform of the output, from its first to its last change, and the number of changes; None if it rests."""
    moving = [waves[net] for net in gate.inputs.values() if net in waves]
    if not moving:
        return None, 0
    start = min(first for first, _ in moving)
    end = max(first + len(rows) for first, rows in moving)
    operands = {
        pin: _stretched(waves[net], before[net], start, end) if net in waves else values[net]
        for pin, net in gate.inputs.items()
    }
    rows = _inertial(function.evaluate(operands, _ONES), before[gate.output], delay)
    changes = np.empty_like(rows)
    changes[0] = rows[0] ^ before[gate.output]
    np.bitwise_xor(rows[1:], rows[:-1], out=changes[1:])
    moves = np.flatnonzero(changes.any(axis=1))
    if not len(moves):
        return None, 0
    first, last = int(moves[0]), int(moves[-1])
    return (start + delay + first, rows[first : last + 1]), ones(changes[first : last + 1])


def _stretched(wave: tuple[int, NetWords], before: NetWords, start: int, end: int) -> NetWords:
    """Values at the times from ``start`` to ``end``."""
    first, rows = wave
    if first == start and first + len(rows) == end:
        return rows
    stretched = np.empty((end - start, rows.shape[1]), np.uint64)
    stretched[: first - start] = before
    stretched[first - start : first - start + len(rows)] = rows
    stretched[first - start + len(rows) :] = rows[-1]
    return stretched


def _inertial(rows: NetWords, before: NetWords, delay: int) -> NetWords:
    """Values without pulses shorter than ``delay``: a value gets through once it has lasted that long."""
    if delay == 1 or len(rows) == 1:
        return rows
    passed = rows.copy()
    unstable = np.zeros_like(rows)
    for distance in range(1, min(delay, len(rows))):
        unstable[:-distance] |= rows[distance:] ^ rows[:-distance]
    for row in np.flatnonzero(unstable.any(axis=1)).tolist():
        held = passed[row - 1] if row else before
        passed[row] ^= (passed[row] ^ held) & unstable[row]
    return passed


def quantised(delays_ns: Sequence[float], step_ns: float) -> NDArray[np.int64]:
    """Delays in whole time steps, at least one."""
    return np.maximum(np.rint(np.asarray(delays_ns) / step_ns), 1).astype(np.int64)
