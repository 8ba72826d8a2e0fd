"""Claims that words of gates are equal under assumptions, for all values of the variables."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xpulpnn_sim.proofs.engine import solvers
from xpulpnn_sim.proofs.engine.gate_graph import GateGraph
from xpulpnn_sim.proofs.units.unit_proof import shown


class Equality(NamedTuple):
    """Two words that must be equal."""

    name: str  # what they are
    found: Sequence[int]  # Literals, lowest bit first: by the unit, and by its definition
    wanted: Sequence[int]  # Literals, lowest bit first: by the unit, and by its definition


def unequal(
    graph: GateGraph,
    assumed: int,
    equalities: Sequence[Equality],
    ports: Mapping[str, Sequence[int]],
    timeout_s: float,
) -> str:
    """Empty if all are proved to be equal where a literal is 1, else a case in which one is not."""
    pairs = [pair for one in equalities for pair in zip(one.found, one.wanted, strict=True) if pair[0] != pair[1]]
    words = tuple([graph.and_(assumed, pair[side]) for pair in pairs] for side in (0, 1))
    different = solvers.prove_equal(graph, (words[0], words[1]), timeout_s=int(timeout_s), sweep=True)
    if different is None:
        return ""
    for name, *both in equalities:
        found, wanted = (graph.number(different.ones, word) for word in both)
        if found != wanted:
            return f"{shown(graph, ports, different.ones)}: {name} must be {wanted:#x}, not {found:#x}"
    return shown(graph, ports, different.ones)
