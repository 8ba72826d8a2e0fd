"""A graph of gates that starts in any state: the step of an induction over clock cycles."""

from collections.abc import Collection

from xpulpnn_sim.proofs.engine.aiger import Aiger, ClockedGraph, at
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, TRUE


def from_any_state(graph: Aiger, wrong: int, *, found: int | None = None, zero: Collection[int] = ()) -> Aiger:
    """The same from any state in which nothing is wrong."""
    made = ClockedGraph()
    inputs = [made.input() for _ in range(graph.inputs)]
    later, began_well = made.latch(0), made.latch(0)
    latches = [made.latch(0) for _ in graph.latches]
    begins = [made.input() for _ in latches]
    state = [
        made.mux(later, FALSE if number in zero else begin, latch)
        for number, (latch, begin) in enumerate(zip(latches, begins, strict=True))
    ]
    copied = made.copy(graph, [*inputs, *state])

    for latch, (following, _) in zip(latches, graph.latches, strict=True):
        made.follow(latch, at(copied, following))
    made.follow(later, TRUE)
    made.follow(began_well, made.mux(later, at(copied, wrong) ^ 1, began_well))
    shown = [at(copied, literal) for literal in graph.outputs]
    return made.aiger([made.and_(began_well, at(copied, wrong if found is None else found)), *shown])
