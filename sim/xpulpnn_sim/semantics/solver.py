"""Words of gates that are equal under assumptions, by the equivalence checker of ABC."""

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.formal.gate_graph import FALSE, TRUE, GateGraph, GateKind

PROVED, REFUTED, UNDECIDED = "proved", "REFUTED", "time is up"
"""Verdicts."""

_COMMANDS = "read_aiger miter.aig; strash; iprove; write_cex -s example.txt"


def difference(graph: GateGraph, assumed: Sequence[int], pairs: Sequence[tuple[int, int, int]]) -> int:
    """Literal that is 1 where all assumptions hold, but two literals of a pair differ although its condition holds.

    Parameters
    ----------
    graph : GateGraph
        Gets the gates.
    assumed : sequence of int
        Literals.
    pairs : sequence of (int, int, int)
        Condition, and two literals.
    """
    found = FALSE
    for condition, one, other in pairs:
        found = graph.or_(found, graph.and_(condition, graph.xor(one, other)))
    for literal in assumed:
        found = graph.and_(found, literal)
    return found


def solve(graph: GateGraph, wrong: int, abc: str, timeout_s: float) -> tuple[str, frozenset[int]]:
    """Whether a literal can be 1: :data:`PROVED` if it cannot, else with the inputs that are 1 then.

    Raises
    ------
    ToolError
        If ABC says neither.
    """
    if wrong == FALSE:
        return PROVED, frozenset()
    if wrong == TRUE:
        return REFUTED, frozenset()
    content, inputs = _aiger(graph, wrong)
    with tempfile.TemporaryDirectory(prefix="xpulpnn-semantics-") as name:
        folder = Path(name)
        (folder / "miter.aig").write_bytes(content)
        try:
            done = subprocess.run(
                [abc, "-c", _COMMANDS],
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return UNDECIDED, frozenset()
        text = done.stdout + done.stderr
        if "UNSATISFIABLE" in text:
            return PROVED, frozenset()
        if "SATISFIABLE" in text:
            bits = (folder / "example.txt").read_text().split("#")[0].strip()
            return REFUTED, frozenset(node << 1 for node, bit in zip(inputs, bits, strict=True) if bit == "1")
    if "UNDECIDED" in text:
        return UNDECIDED, frozenset()
    raise ToolError(f"abc must decide an equality, not end with {text.strip().splitlines()[-1:]}")


def _aiger(graph: GateGraph, wanted: int) -> tuple[bytes, list[int]]:
    """A binary AIGER file whose output is a literal, and the nodes of its inputs."""
    cone = graph.cone([wanted])
    inputs = [node for node in cone if graph.nodes[node].kind is GateKind.INPUT]
    literals = {0: 0} | {node: 2 * number for number, node in enumerate(inputs, 1)}
    gates: list[tuple[int, int]] = []

    def both(x: int, y: int) -> int:
        gates.append((max(x, y), min(x, y)))
        return 2 * (len(inputs) + len(gates))

    for node in cone:
        kind, operands, _ = graph.nodes[node]
        if kind in (GateKind.CONSTANT, GateKind.INPUT):
            continue
        x, y, *rest = (literals[operand >> 1] ^ operand & 1 for operand in operands)
        if kind is GateKind.AND:
            literals[node] = both(x, y)
        elif kind is GateKind.XOR:
            literals[node] = both(both(x, y) ^ 1, both(x ^ 1, y ^ 1) ^ 1)
        else:
            one_of_both = both(x ^ 1, y ^ 1) ^ 1
            literals[node] = both(both(x, y) ^ 1, both(one_of_both, rest[0]) ^ 1) ^ 1
    header = f"aig {len(inputs) + len(gates)} {len(inputs)} 0 1 {len(gates)}\n{literals[wanted >> 1] ^ wanted & 1}\n"
    packed = bytearray()
    for number, (x, y) in enumerate(gates, len(inputs) + 1):
        for delta in (2 * number - x, x - y):
            while delta >= 0x80:
                packed.append(delta & 0x7F | 0x80)
                delta >>= 7
            packed.append(delta)
    return header.encode() + bytes(packed), inputs
