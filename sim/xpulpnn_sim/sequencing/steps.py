"""A graph of gates that starts in any state: the step of an induction over clock cycles."""

from collections.abc import Collection

from xpulpnn_sim.riscv_formal.aiger import Aiger
from xpulpnn_sim.riscv_formal.graph import FALSE, TRUE, Graph


def from_any_state(graph: Aiger, wrong: int, *, found: int | None = None, zero: Collection[int] = ()) -> Aiger:
    """The same from any state in which nothing is wrong."""
    made = Graph()
    inputs = [made.input() for _ in range(graph.inputs)]
    later, began_well = made.latch(0), made.latch(0)
    latches = [made.latch(0) for _ in graph.latches]
    begins = [made.input() for _ in latches]
    state = [
        made.choose(later, latch, FALSE if number in zero else begin)
        for number, (latch, begin) in enumerate(zip(latches, begins, strict=True))
    ]
    copied = made.copy(graph, [*inputs, *state])

    def there(literal: int) -> int:
        return copied[literal >> 1] ^ literal & 1

    for latch, (following, _) in zip(latches, graph.latches, strict=True):
        made.follow(latch, there(following))
    made.follow(later, TRUE)
    made.follow(began_well, made.choose(later, began_well, there(wrong) ^ 1))
    shown = [there(literal) for literal in graph.outputs]
    return made.aiger(bad=[], outputs=[made.both(began_well, there(wrong if found is None else found)), *shown])
