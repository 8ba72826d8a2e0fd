"""Gate graphs with registers as files for ABC (AIGER), and the inputs with which ABC makes an output 1."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, GateGraph, GateKind

Latches = Mapping[int, tuple[int, int]]
"""Literals of the next value and the reset value, 0 or 1, of each register, by the variable that stands for it."""


class Aiger(NamedTuple):
    """A binary file, and the literals of its inputs in the graph that it is of."""

    content: bytes
    inputs: Sequence[int]


def to_aiger(graph: GateGraph, outputs: Sequence[int], latches: Latches | None = None) -> Aiger:
    """Return what some literals depend on, with the inputs and registers among that."""
    registers = latches or {}
    kept: dict[int, None] = {}
    cone: set[int] = set()
    waiting = [*outputs]
    while waiting:
        added = set(graph.cone(waiting)) - cone
        cone |= added
        found = [node << 1 for node in sorted(added) if node << 1 in registers]
        kept.update(dict.fromkeys(found))
        waiting = [registers[literal][0] for literal in found]
    order = sorted(cone)
    inputs = [node << 1 for node in order if graph.nodes[node].kind is GateKind.INPUT and node << 1 not in kept]
    body = _Conjunctions([*inputs, *kept])
    for node in order:
        kind, operands = graph.nodes[node]
        if operands:
            body.gate(node, kind, operands)
    counts = (len(inputs), len(kept), len(outputs), body.top - len(inputs) - len(kept))
    lines = [f"aig {body.top} {' '.join(map(str, counts))}"]
    lines += [f"{body.literal(registers[literal][0])} {registers[literal][1]}" for literal in kept]
    lines += [str(body.literal(one)) for one in outputs]
    return Aiger("\n".join([*lines, ""]).encode() + body.packed, inputs)


class _Conjunctions:
    """Gates of a graph as conjunctions, each after its operands, as a binary file has them."""

    def __init__(self, variables: Sequence[int]) -> None:
        self.top = len(variables)  # the last variable
        self.packed = bytearray()
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
        self.top += 1
        for distance in (2 * self.top - max(x, y), abs(x - y)):
            while distance >= 0x80:
                self.packed.append(distance & 0x7F | 0x80)
                distance >>= 7
            self.packed.append(distance)
        return 2 * self.top


def cycles_from_reset(
    graph: GateGraph, latches: Latches, frames: Iterable[Collection[int]]
) -> Iterator[dict[int, int]]:
    """Values of inputs and registers in each cycle from reset, given the inputs that are 1 in it."""
    state = {literal: reset for literal, (_, reset) in latches.items()}
    for ones in frames:
        given = state | dict.fromkeys(ones, 1)
        yield given
        following = graph.evaluate(given, [literal for literal, _ in latches.values()])
        state = dict(zip(latches, following, strict=True))


def read_outputs(path: Path) -> list[int]:
    """Literals of the outputs in a binary file: 0 is an output that is never 1."""
    header, *lines = path.read_bytes().split(b"\n")
    latches, outputs = map(int, header.split()[3:5])
    return list(map(int, lines[latches : latches + outputs]))


def read_witness(text: str, inputs: Sequence[int]) -> list[frozenset[int]]:
    """Inputs that are 1 in each cycle of a counterexample of ABC: the state at reset, then a line for each cycle.

    Raises :class:`ToolError` if it has another number of inputs.
    """
    _state, *lines = text.splitlines() or [""]
    frames: list[frozenset[int]] = []
    for line in lines:
        bits = line.partition("#")[0].strip()
        if not bits or bits.startswith("."):
            break
        if len(bits) != len(inputs):
            raise ToolError(f"the counterexample must have {len(inputs)} inputs in each cycle, not {len(bits)}")
        frames.append(frozenset(literal for literal, bit in zip(inputs, bits, strict=True) if bit == "1"))
    return frames
