"""Gates that never change although their operands do, such as the carry out of a sum that always fits."""

import random
from collections.abc import Sequence

from xpulpnn_sim.proofs.engine.decision_diagrams import Diagrams, TooLargeError
from xpulpnn_sim.proofs.engine.gate_graph import GateGraph, GateKind

_CASES = 1 << 16
_MOST_GATES = 128


def constant_gates(graph: GateGraph, bits: Sequence[int]) -> dict[int, int]:
    """Nodes below ``bits`` that are proved to have the same value for all inputs, and those values.

    Random inputs leave few nodes over, decision diagrams prove those of them that depend on few gates. Other nodes may
    be constant as well.
    """
    cone = graph.cone(bits)
    generator = random.Random(1)
    given = {one: generator.getrandbits(_CASES) for one in graph.variables(bits)}
    gates = [node for node in cone if graph.nodes[node].operands]
    mask = (1 << _CASES) - 1
    values = graph.evaluate(given, [node << 1 for node in gates], mask)
    likely = {node: value & 1 for node, value in zip(gates, values, strict=True) if value in (0, mask)}
    return {node: value for node, value in likely.items() if _is_always(graph, node, value)}


def _is_always(graph: GateGraph, wanted: int, value: int) -> bool:
    cone = graph.cone([wanted << 1])
    if len(cone) > _MOST_GATES:
        return False
    diagrams = Diagrams()
    known = {0: 0}
    try:
        for node in cone:
            kind, operands = graph.nodes[node]
            for one in operands:
                if graph.nodes[one >> 1].kind is GateKind.INPUT:
                    known[one >> 1] = diagrams.variable(one >> 1)
            if operands:
                known[node] = diagrams.gate(kind, [diagrams.inverted(known[one >> 1], one & 1) for one in operands])
    except TooLargeError:
        return False
    return known[wanted] == value
