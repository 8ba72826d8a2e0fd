"""And-inverter graphs in the AIGER format, version 1.9: made, written, read with names, evaluated cycle by cycle."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, GateGraph, GateKind

_NAMED = re.compile(r"^(input|output) (\d+) (\d+) (.+)$", re.MULTILINE)

UNKNOWN = 2  # a value that a constant does not fix


@dataclass(frozen=True, slots=True, kw_only=True)
class Aiger:
    """A graph; literal = 2 * variable + inverted, variables in the order inputs, latches, gates."""

    inputs: int
    # next value as a literal and reset value of each latch, which is 0, 1 or UNKNOWN
    latches: Sequence[tuple[int, int]]
    outputs: Sequence[int]  # literals
    bad: Sequence[int] = ()  # literals of what must not become 1
    constraints: Sequence[int] = ()  # literals of what is assumed to be 1
    gates: Sequence[tuple[int, int]]  # literals of the inputs of each gate
    origins: Sequence[int] = ()  # of a graph made here: literal of each input in the gate graph

    @property
    def first_latch(self) -> int:
        """Variable of the first latch."""
        return 1 + self.inputs

    @property
    def first_gate(self) -> int:
        """Variable of the first gate."""
        return self.first_latch + len(self.latches)

    def run(self, frames: Sequence[Sequence[int]]) -> list[list[int]]:
        """Values of the outputs in each cycle from reset, for the inputs of each cycle; no reset value is unknown."""
        values = bytearray(self.first_gate + len(self.gates))
        for index, (_, reset) in enumerate(self.latches, self.first_latch):
            values[index] = reset
        shown: list[list[int]] = []
        for frame in frames:
            values[1 : self.first_latch] = bytes(frame)
            for index, (left, right) in enumerate(self.gates, self.first_gate):
                values[index] = (values[left >> 1] ^ left & 1) & (values[right >> 1] ^ right & 1)
            shown.append([values[literal >> 1] ^ literal & 1 for literal in self.outputs])
            following = bytes(values[literal >> 1] ^ literal & 1 for literal, _ in self.latches)
            values[self.first_latch : self.first_gate] = following
        return shown

    def after(self, inputs: Mapping[int, int]) -> list[int]:
        """Return what the latches are after a cycle from any state, with some inputs fixed: 0, 1 or :data:`UNKNOWN`."""
        made = ClockedGraph()
        given = [inputs[index] if index in inputs else made.input() for index in range(self.inputs)]
        copied = made.copy(self, [*given, *made.inputs(len(self.latches))])
        return [min(at(copied, literal), UNKNOWN) for literal, _ in self.latches]

    def binary(self) -> bytes:
        """The graph as a binary file."""
        counts = (self.inputs, len(self.latches), len(self.outputs), len(self.gates))
        top = self.inputs + len(self.latches) + len(self.gates)
        header = " ".join(map(str, (top, *counts, len(self.bad), len(self.constraints))))
        lines = [f"aig {header}"]
        for index, (literal, reset) in enumerate(self.latches, self.first_latch):
            shown = "" if not reset else f" {2 * index if reset == UNKNOWN else reset}"
            lines.append(f"{literal}{shown}")
        lines += [str(literal) for literal in (*self.outputs, *self.bad, *self.constraints)]
        packed = bytearray()
        for index, pair in enumerate(self.gates, self.first_gate):
            high, low = max(pair), min(pair)
            for distance in (2 * index - high, high - low):
                rest = distance
                while rest >= 0x80:
                    packed.append(rest & 0x7F | 0x80)
                    rest >>= 7
                packed.append(rest)
        return "\n".join([*lines, ""]).encode() + bytes(packed)


Latches = Mapping[int, tuple[int, int]]
"""Literals of the next value and the reset value, 0 or 1, of each register, by the variable that stands for it."""


class ClockedGraph(GateGraph):
    """A gate graph with registers."""

    def __init__(self) -> None:
        super().__init__()
        self.latches: dict[int, tuple[int, int]] = {}

    def latch(self, reset: int) -> int:
        """Return a new register, 0 or 1 at first; :meth:`follow` says what comes then."""
        literal = self.input()
        self.latches[literal] = (FALSE, reset)
        return literal

    def follow(self, latch: int, following: int) -> None:
        """Set what a register takes at the end of each cycle."""
        self.latches[latch] = (following, self.latches[latch][1])

    def copy(self, source: Aiger, leaves: Sequence[int]) -> list[int]:
        """Put the gates of another graph here, on literals for its inputs and latches; return all its variables."""
        found = [FALSE, *leaves]
        and_ = self.and_
        for left, right in source.gates:
            found.append(and_(found[left >> 1] ^ left & 1, found[right >> 1] ^ right & 1))
        return found

    def aiger(self, outputs: Sequence[int] = (), *, bad: Sequence[int] = ()) -> Aiger:
        """Return what some literals depend on; all inputs stay, in the order in which they were made."""
        inputs = [
            node << 1
            for node, gate in enumerate(self.nodes)
            if gate.kind is GateKind.INPUT and node << 1 not in self.latches
        ]
        return to_aiger(self, outputs, bad=bad, latches=self.latches, inputs=inputs)


def at(variables: Sequence[int], literal: int) -> int:
    """Return what a literal of a graph became where its variables were copied to."""
    return variables[literal >> 1] ^ literal & 1


def to_aiger(
    graph: GateGraph,
    outputs: Sequence[int],
    *,
    bad: Sequence[int] = (),
    latches: Latches | None = None,
    inputs: Sequence[int] | None = None,
) -> Aiger:
    """Return what some literals depend on, with the inputs and registers among that, or all of ``inputs``."""
    registers = latches or {}
    kept: dict[int, None] = {}
    cone: set[int] = set()
    waiting = [*outputs, *bad]
    while waiting:
        added = set(graph.cone(waiting)) - cone
        cone |= added
        found = [node << 1 for node in sorted(added) if node << 1 in registers]
        kept.update(dict.fromkeys(found))
        waiting = [registers[literal][0] for literal in found]
    order = sorted(cone)
    if inputs is None:
        inputs = [node << 1 for node in order if graph.nodes[node].kind is GateKind.INPUT and node << 1 not in kept]
    body = _Conjunctions([*inputs, *kept])
    for node in order:
        kind, operands = graph.nodes[node]
        if operands:
            body.gate(node, kind, operands)
    return Aiger(
        inputs=len(inputs),
        latches=[(body.literal(registers[literal][0]), registers[literal][1]) for literal in kept],
        outputs=[body.literal(one) for one in outputs],
        bad=[body.literal(one) for one in bad],
        gates=body.gates,
        origins=inputs,
    )


class _Conjunctions:
    """Gates of a graph as conjunctions, each after its operands."""

    def __init__(self, variables: Sequence[int]) -> None:
        self._start = 1 + len(variables)
        self.gates: list[tuple[int, int]] = []
        self._known = {0: FALSE} | {literal >> 1: 2 * place for place, literal in enumerate(variables, 1)}

    def literal(self, one: int) -> int:
        return self._known[one >> 1] ^ one & 1

    def gate(self, node: int, kind: GateKind, operands: Sequence[int]) -> None:
        x, y, *more = map(self.literal, operands)
        if kind is GateKind.AND:
            self._known[node] = self._and(x, y)
        elif kind is GateKind.XOR:
            self._known[node] = self._and(self._and(x, y) ^ 1, self._and(x ^ 1, y ^ 1) ^ 1)
        else:
            either = self._and(x ^ 1, y ^ 1) ^ 1
            self._known[node] = self._and(self._and(x, y) ^ 1, self._and(more[0], either) ^ 1) ^ 1

    def _and(self, x: int, y: int) -> int:
        self.gates.append((max(x, y), min(x, y)))
        return 2 * (self._start + len(self.gates) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A graph whose inputs and outputs have names."""

    graph: Aiger
    # by the name of a signal, the number of the input or output for each of its bits
    inputs: Mapping[str, Mapping[int, int]]
    outputs: Mapping[str, Mapping[int, int]]

    def replay(self, witness: Sequence[Sequence[int]]) -> list[dict[str, int]]:
        """Values of the outputs in each cycle of a counterexample."""
        return [
            {name: sum(values[index] << bit for bit, index in bits.items()) for name, bits in self.outputs.items()}
            for values in self.graph.run(witness)
        ]


def read_named(path: Path, names: Path) -> Named:
    """Read a binary file and the map of names that Yosys writes beside it; raises :class:`ToolError`."""
    text = names.read_text()
    return Named(graph=read_aiger(path), inputs=_places(text, "input"), outputs=_places(text, "output"))


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

    latches: list[tuple[int, int]] = []
    for _ in range(latch_count):
        literal, reset = (*line(), 0)[:2]
        latches.append((literal, reset if reset < UNKNOWN else UNKNOWN))
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
    return Aiger(inputs=inputs, latches=latches, outputs=outputs, bad=bad, constraints=constraints, gates=gates)


def _places(text: str, wanted: str) -> Mapping[str, Mapping[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for kind, index, bit, name in _NAMED.findall(text):
        if kind == wanted:
            found.setdefault(name.lstrip("\\"), {})[int(bit)] = int(index)
    return found


def read_witness(text: str, inputs: int) -> list[list[int]]:
    """Inputs of each cycle of a counterexample of ABC: a line with the state at reset, then one for each cycle.

    Raises :class:`ToolError` if it has another number of inputs.
    """
    _state, *lines = text.splitlines() or [""]
    frames: list[list[int]] = []
    for line in lines:
        bits = line.partition("#")[0].strip()
        if not bits or bits.startswith("."):
            break
        if len(bits) != inputs:
            raise ToolError(f"the counterexample must have {inputs} inputs in each cycle, not {len(bits)}")
        frames.append([int(bit == "1") for bit in bits])
    return frames
