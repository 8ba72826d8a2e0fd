"""All mutants of a unit at once through what a bench did with the unit: a bit of every machine word for each mutant.

The inputs are those of the unit itself, so that what follows a wrong output holds only while the bench does not depend
on it: a mutant is killed if a value that the bench compares is wrong before one is that it may decide by.
"""

import ctypes
import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import ToolError
from xpulpnn_sim.tools.netlists import DONT_CARE, GATES, ZERO, NetlistCell, NetlistModule, in_order
from xpulpnn_sim.verification.mutants.units.mutants import SELECT

KILLED, SAME, OPEN = "killed", "same", "open"
"""The bench must find it; the bench cannot find it; only the bench itself can tell."""

_CODES = {name: code for code, name in enumerate(GATES)}
_REGISTER = "$_DFF_P_"
_NEVER = 1 << 30
_USES = 2

_SOURCE = """
#include <cstdint>
#include <cstring>
#include <vector>

extern "C" void replay(
    int words, int gates, const int32_t *gate, int registers, const int32_t *reg, int inputs, const int32_t *input,
    int frames, const uint8_t *kind, const uint8_t *given, int looks, const int32_t *look,
    uint64_t *value, int lanes, int32_t *first)
{
    std::vector<uint64_t> after((size_t)registers * words);
    int next = 0;
    for (int frame = 0; frame < frames; frame++) {
        for (int i = 0; i < inputs; i++)
            for (int w = 0; w < words; w++)
                value[(size_t)input[i] * words + w] = given[(size_t)frame * inputs + i] ? ~0ull : 0ull;
        for (int g = 0; g < gates; g++) {
            const int32_t *one = gate + 5 * (size_t)g;
            const uint64_t *a = value + (size_t)one[1] * words, *b = value + (size_t)one[2] * words;
            const uint64_t *s = value + (size_t)one[3] * words;
            uint64_t *y = value + (size_t)one[4] * words;
            for (int w = 0; w < words; w++) switch (one[0]) {
                case 0: y[w] = a[w] & b[w]; break;
                case 1: y[w] = ~(a[w] & b[w]); break;
                case 2: y[w] = a[w] | b[w]; break;
                case 3: y[w] = ~(a[w] | b[w]); break;
                case 4: y[w] = a[w] ^ b[w]; break;
                case 5: y[w] = ~(a[w] ^ b[w]); break;
                case 6: y[w] = a[w] & ~b[w]; break;
                case 7: y[w] = a[w] | ~b[w]; break;
                case 8: y[w] = (a[w] & ~s[w]) | (b[w] & s[w]); break;
                case 9: y[w] = ~((a[w] & ~s[w]) | (b[w] & s[w])); break;
                case 10: y[w] = ~a[w]; break;
                default: y[w] = a[w];
            }
        }
        for (; next < looks && look[4 * (size_t)next] == frame; next++) {
            const int32_t *one = look + 4 * (size_t)next;
            const uint64_t *net = value + (size_t)one[1] * words;
            const uint64_t unit = one[3] ? ~0ull : 0ull;
            for (int w = 0; w < words; w++) {
                uint64_t wrong = net[w] ^ unit;
                while (wrong) {
                    int lane = 64 * w + __builtin_ctzll(wrong);
                    wrong &= wrong - 1;
                    if (lane < lanes && first[2 * lane + one[2]] > frame) first[2 * lane + one[2]] = frame;
                }
            }
        }
        if (kind[frame]) {
            for (int r = 0; r < registers; r++)
                memcpy(&after[(size_t)r * words], value + (size_t)reg[2 * r] * words, 8 * words);
            for (int r = 0; r < registers; r++)
                memcpy(value + (size_t)reg[2 * r + 1] * words, &after[(size_t)r * words], 8 * words);
        }
    }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Record of a test on the unit."""

    test: str
    kind: NDArray[np.uint8]  # 1 for each frame at a rising edge of the clock
    inputs: NDArray[np.uint8]  # bits of the input ports in each frame
    # by output port, rows of a frame and what the bench does with the value: 0 compares, 1 may depend on it
    looks: Mapping[int, NDArray[np.int32]]
    bits: Mapping[int, NDArray[np.uint8]]  # by output port, a row of bits for each look


def read_trace(path: Path) -> Trace:
    """A file of the recording bench."""
    with np.load(path) as found:
        ports = [int(name.removeprefix("bits")) for name in found if name.startswith("bits")]
        return Trace(
            test=str(found["test"]),
            kind=found["kind"],
            inputs=found["inputs"],
            looks={port: found[f"looks{port}"] for port in ports},
            bits={port: found[f"bits{port}"] for port in ports},
        )


class Lanes:
    """The netlist of a unit with its mutants as a program."""

    def __init__(
        self, module: NetlistModule, inputs: Sequence[str], outputs: Sequence[str], mutants: int, folder: Path
    ) -> None:
        unknown = {cell.type for cell in module.cells} - {*_CODES, _REGISTER}
        if unknown:
            raise ToolError(f"{module.name} must consist of gates and registers, not of {', '.join(sorted(unknown))}")
        self._mutants = mutants
        self._outputs = [module.outputs[name].nets if name in module.outputs else [] for name in outputs]
        self._inputs = [net for name in inputs for net in module.inputs[name].nets]
        self._select = module.inputs[SELECT].nets if SELECT in module.inputs else []
        gates = in_order(
            [cell for cell in module.cells if cell.type in _CODES], lambda cell: cell.read, lambda cell: cell.driven
        )
        self._gates = np.array([_row(cell) for cell in gates], np.int32).reshape(-1, 5)
        registers = [cell.pins for cell in module.cells if cell.type == _REGISTER]
        self._registers = np.array([(pins["D"][0], pins["Q"][0]) for pins in registers], np.int32).reshape(-1, 2)
        nets = [0, *self._inputs, *self._select, *(net for output in self._outputs for net in output)]
        self._nets = 2 + max(int(self._gates.max(initial=0)), int(self._registers.max(initial=0)), *nets)
        self._initial = {net: value for net, value in module.initial.items() if net < self._nets}
        self._replay = _compiled(folder)

    def judge(self, trace: Trace) -> list[str]:
        """Return what a test finds out about each mutant, from mutant 1 on: see :data:`KILLED`."""
        lanes = self._mutants + 1
        words = -(-lanes // 64)
        values = np.zeros((self._nets, words), np.uint64)
        values[1] = ~np.uint64(0)
        numbers = np.arange(64 * words)
        for place, net in enumerate(self._select):
            bits = ((numbers >> place & 1) * (numbers < lanes)).astype(np.uint8)
            values[net] = np.packbits(bits, bitorder="little").view(np.uint64)
        for net, value in self._initial.items():
            values[net] = ~np.uint64(0) if value else np.uint64(0)
        looks = self._looks(trace)
        first = np.full((lanes, 2), _NEVER, np.int32)
        given = np.ascontiguousarray(trace.inputs, np.uint8)
        inputs = np.array(self._inputs, np.int32)
        arguments: list[Any] = [words, len(self._gates), self._gates, len(self._registers), self._registers]
        arguments += [len(inputs), inputs, len(given), np.ascontiguousarray(trace.kind), given, len(looks), looks]
        arguments += [values, lanes, first]
        self._replay(*(one.ctypes.data if isinstance(one, np.ndarray) else one for one in arguments))
        if first[0].min() < _NEVER:
            raise ToolError(f"the netlist must do what the unit does, but does not in frame {first[0].min()}")
        return [_outcome(compared, decided) for compared, decided in first[1:].tolist()]

    def _looks(self, trace: Trace) -> NDArray[np.int32]:
        """Rows of frame, net, what the bench does and bit, by frame."""
        parts = [np.empty((0, 4), np.int32)]
        for port, looks in trace.looks.items():
            used = looks[:, 1] < _USES
            frame, what = looks[used].T
            for net, bits in zip(self._outputs[port], trace.bits[port][used].T, strict=True):
                parts.append(np.stack([frame, np.full_like(frame, max(net, 0)), what, bits.astype(np.int32)], axis=1))
        rows = np.concatenate(parts)
        return np.ascontiguousarray(rows[np.argsort(rows[:, 0], kind="stable")], np.int32)


def _outcome(compared: int, decided: int) -> str:
    if compared < decided:
        return KILLED
    return SAME if compared == decided == _NEVER else OPEN


def _row(cell: NetlistCell) -> list[int]:
    """Code and nets of a gate; nets without a value are 0."""
    nets = [cell.pins[pin][0] if pin in cell.pins else ZERO for pin in "ABSY"]
    return [_CODES[cell.type], *(ZERO if net == DONT_CARE else net for net in nets)]


def _compiled(folder: Path) -> Any:
    """The function of :data:`_SOURCE`, compiled once."""
    path = folder / f"lanes-{hashlib.sha256(_SOURCE.encode()).hexdigest()[:16]}.so"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["g++", "-std=c++17", "-O2", "-fPIC", "-shared", "-x", "c++", "-", "-o", f"{path}.new"]
        try:
            done = subprocess.run(command, input=_SOURCE, capture_output=True, text=True, check=False)
        except OSError:
            raise ToolError("g++ must be installed: apt-get install g++") from None
        if done.returncode:
            raise ToolError(f"g++ must be able to compile the replay: {done.stderr.splitlines()[0]}")
        path.with_name(f"{path.name}.new").replace(path)
    function = ctypes.CDLL(str(path)).replay
    number, pointer = ctypes.c_int, ctypes.c_void_p
    function.argtypes = [number, *[number, pointer] * 3, number, pointer, pointer, number, pointer, pointer, number]
    function.argtypes = [*function.argtypes, pointer]
    function.restype = None
    return function
