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
    body = _Conjunctions()
    known = {0: FALSE} | {literal >> 1: body.input() for literal in (*inputs, *kept)}
    make = {GateKind.AND: body.and_, GateKind.XOR: body.xor, GateKind.MAJORITY: body.majority}

    def literal(one: int) -> int:
        return known[one >> 1] ^ one & 1

    for node in order:
        kind, operands = graph.nodes[node]
        if operands:
            known[node] = make[kind](*map(literal, operands))
    first = 1 + len(inputs) + len(kept)
    counts = (len(body.nodes) - 1, len(inputs), len(kept), len(outputs), len(body.nodes) - first)
    lines = [f"aig {' '.join(map(str, counts))}"]
    lines += [f"{literal(registers[one][0])} {registers[one][1]}" for one in kept]
    lines += [str(literal(one)) for one in outputs]
    packed = bytearray()
    for number, gate in enumerate(body.nodes[first:], first):
        low, high = gate.operands
        for distance in (2 * number - high, high - low):
            while distance >= 0x80:
                packed.append(distance & 0x7F | 0x80)
                distance >>= 7
            packed.append(distance)
    return Aiger("\n".join([*lines, ""]).encode() + packed, inputs)


class _Conjunctions(GateGraph):
    """A graph of conjunctions: its nodes and literals are the variables and literals of a file."""

    def xor(self, x: int, y: int) -> int:
        return self.and_(self.and_(x, y) ^ 1, self.and_(x ^ 1, y ^ 1) ^ 1)

    def majority(self, x: int, y: int, z: int) -> int:
        return self.or_(self.and_(x, y), self.and_(z, self.or_(x, y)))


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
