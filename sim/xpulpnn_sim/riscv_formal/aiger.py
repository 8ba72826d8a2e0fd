"""And-inverter graphs in the AIGER format, version 1.9: reading, and evaluation cycle by cycle."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xpulpnn.errors import ToolError

_NAMED = re.compile(r"^(input|output) (\d+) (\d+) (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aiger:
    """A graph. Literals are twice a variable, plus 1 if inverted; variables are inputs, latches, gates, in this order.

    Parameters
    ----------
    inputs : int
        Number of inputs.
    latches : sequence of (int, int)
        Next value as a literal and reset value of each latch.
    outputs, bad, constraints : sequence of int
        Literals: of outputs, of what must not become 1, of what is assumed to be 1.
    gates : sequence of (int, int)
        Literals of the inputs of each gate.
    packed : bytes
        The gates as in the file.
    """

    inputs: int
    latches: Sequence[tuple[int, int]]
    outputs: Sequence[int]
    bad: Sequence[int]
    constraints: Sequence[int]
    gates: Sequence[tuple[int, int]]
    packed: bytes

    def run(self, frames: Sequence[Sequence[int]]) -> list[list[int]]:
        """Values of the outputs in each cycle from reset, for the inputs of each cycle."""
        first_latch = 1 + self.inputs
        first_gate = first_latch + len(self.latches)
        values = bytearray(first_gate + len(self.gates))
        for index, (_, reset) in enumerate(self.latches, first_latch):
            values[index] = reset
        shown: list[list[int]] = []
        for frame in frames:
            values[1:first_latch] = bytes(frame)
            for index, (left, right) in enumerate(self.gates, first_gate):
                values[index] = (values[left >> 1] ^ left & 1) & (values[right >> 1] ^ right & 1)
            shown.append([values[literal >> 1] ^ literal & 1 for literal in self.outputs])
            following = bytes(values[literal >> 1] ^ literal & 1 for literal, _ in self.latches)
            values[first_latch:first_gate] = following
        return shown

    def without_outputs(self) -> bytes:
        """The file with nothing but what is to be shown and what is assumed."""
        sizes = (self.inputs + len(self.latches) + len(self.gates), self.inputs, len(self.latches), 0, len(self.gates))
        header = f"aig {' '.join(map(str, sizes))} {len(self.bad)} {len(self.constraints)}\n"
        latches = "".join(f"{literal}\n" if not reset else f"{literal} {reset}\n" for literal, reset in self.latches)
        rest = "".join(f"{literal}\n" for literal in (*self.bad, *self.constraints))
        return (header + latches + rest).encode() + self.packed


def read_aiger(path: Path) -> Aiger:
    """Read a binary file; raises :class:`ToolError` if it is none."""
    content = path.read_bytes()
    header, _, rest = content.partition(b"\n")
    fields = header.split()
    if not fields or fields[0] != b"aig" or len(fields) < 6:
        raise ToolError(f"{path.name} must be a binary AIGER file, not begin with {header[:20]!r}")
    _, inputs, latch_count, output_count, gate_count, *more = map(int, fields[1:])
    bad_count, constraint_count = (*more, 0, 0)[:2]

    def line() -> list[int]:
        nonlocal rest
        text, _, rest = rest.partition(b"\n")
        return [int(each) for each in text.split()]

    latches = [(each[0], each[1] if len(each) > 1 else 0) for each in (line() for _ in range(latch_count))]
    outputs, bad, constraints = (
        [line()[0] for _ in range(count)] for count in (output_count, bad_count, constraint_count)
    )
    gates: list[tuple[int, int]] = []
    position = 0

    def delta() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = rest[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    for variable in range(inputs + latch_count + 1, inputs + latch_count + 1 + gate_count):
        left = 2 * variable - delta()
        gates.append((left, left - delta()))
    return Aiger(
        inputs=inputs,
        latches=latches,
        outputs=outputs,
        bad=bad,
        constraints=constraints,
        gates=gates,
        packed=rest[:position],
    )


def output_bits(text: str) -> Mapping[str, Mapping[int, int]]:
    """Which output is which bit of a signal, by the signal's name: from the map that Yosys writes beside a file."""
    found: dict[str, dict[int, int]] = {}
    for kind, index, bit, name in _NAMED.findall(text):
        if kind == "output":
            found.setdefault(name.lstrip("\\"), {})[int(bit)] = int(index)
    return found


def read_witness(text: str, inputs: int) -> list[list[int]]:
    """Inputs of each cycle of an example as ABC writes it: a line with the state at reset, then one for each cycle.

    Raises :class:`ToolError` if it has another number of inputs.
    """
    _state, *lines = text.splitlines() or [""]
    frames: list[list[int]] = []
    for line in lines:
        bits = line.partition("#")[0].strip()
        if not bits or bits.startswith("."):
            break
        if len(bits) != inputs:
            raise ToolError(f"the example must have {inputs} inputs in each cycle, not {len(bits)}")
        frames.append([int(bit == "1") for bit in bits])
    return frames
