"""Gate graphs as binary AIGER files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xpulpnn_sim.formal.gate_graph import FALSE, GateGraph, GateKind


@dataclass(frozen=True, slots=True, kw_only=True)
class AigerText:
    """A graph as a file."""

    content: bytes  # the file, with one output
    inputs: Sequence[int]  # literal in the graph of each input of the file


def write_aiger(graph: GateGraph, output: int, latches: Mapping[int, tuple[int, int]] | None = None) -> AigerText:
    """The gates that a literal depends on."""
    registers = latches or {}
    kept: dict[int, None] = {}
    cone: set[int] = set()
    waiting = [output]
    while waiting:
        added = set(graph.cone(waiting)) - cone
        cone |= added
        found = [node << 1 for node in sorted(added) if node << 1 in registers]
        kept.update(dict.fromkeys(found))
        waiting = [registers[literal][0] for literal in found]
    order = sorted(cone)
    kinds = {node: graph.nodes[node].kind for node in order}
    inputs = [node << 1 for node in order if kinds[node] is GateKind.INPUT and node << 1 not in kept]
    file = _File([*inputs, *kept])
    for node in order:
        if kinds[node] not in (GateKind.INPUT, GateKind.CONSTANT):
            file.gate(node, kinds[node], graph.nodes[node].operands)
    first = len(file.gates)
    header = f"aig {file.start - 1 + first} {len(inputs)} {len(kept)} 1 {first}\n"
    rows = [f"{file.literal(registers[literal][0])} {registers[literal][1]}\n" for literal in kept]
    body = bytearray()
    for place, (high, low) in enumerate(file.gates, file.start):
        for delta in (2 * place - high, high - low):
            while delta > 0x7F:
                body.append(delta & 0x7F | 0x80)
                delta >>= 7
            body.append(delta)
    text = f"{header}{''.join(rows)}{file.literal(output)}\n"
    return AigerText(content=text.encode() + bytes(body), inputs=inputs)


class _File:
    """Gates of the file: conjunctions, each after its operands."""

    def __init__(self, variables: Sequence[int]) -> None:
        self.start = 1 + len(variables)
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
        return 2 * (self.start + len(self.gates) - 1)
