"""Arithmetic of words of literals, by which definitions are written: lowest bit first."""

from collections.abc import Sequence

from xpulpnn_sim.formal.gate_graph import FALSE, TRUE, GateGraph, extended
from xpulpnn_sim.formal.word_cells import conjunction

Word = list[int]
"""Literals, lowest bit first."""


def constant(value: int, width: int) -> Word:
    """The bits of a number."""
    return [TRUE if value >> bit & 1 else FALSE for bit in range(width)]


def choose(graph: GateGraph, condition: int, word: Sequence[int], other: Sequence[int]) -> Word:
    """One word if a literal is 1, else another one."""
    return [graph.mux(condition, low, high) for high, low in zip(word, other, strict=True)]


def minus(graph: GateGraph, x: Sequence[int], y: Sequence[int]) -> Word:
    """The difference of two words of the same width, modulo it."""
    return graph.add(x, [bit ^ 1 for bit in y], TRUE)


def equal(graph: GateGraph, x: Sequence[int], y: Sequence[int]) -> int:
    """Literal of two words of the same width being equal."""
    return conjunction(graph, [graph.xor(one, other) ^ 1 for one, other in zip(x, y, strict=True)])


def less(graph: GateGraph, x: Sequence[int], y: Sequence[int], *, signed: bool) -> int:
    """Literal of one number being less than another: the sign of their difference, in as many bits as it needs."""
    width = max(len(x), len(y)) + 1
    one, other = (extended(word, width, signed=signed) for word in (x, y))
    return minus(graph, one, other)[-1]


def right(graph: GateGraph, word: Sequence[int], amount: Sequence[int], *, signed: bool) -> Word:
    """A word shifted to the right."""
    found = list(word)
    for place, bit in enumerate(amount):
        moved = extended(found[1 << place :], len(found), signed=False)
        if signed:
            moved = [*found[1 << place :], *[found[-1]] * (1 << place)][: len(found)]
        found = choose(graph, bit, moved, found)
    return found


def left(graph: GateGraph, word: Sequence[int], amount: Sequence[int]) -> Word:
    """A word shifted to the left, with the bits that leave it."""
    found = [*word, *[FALSE] * ((1 << len(amount)) - 1)]
    for place, bit in enumerate(amount):
        found = choose(graph, bit, [*[FALSE] * (1 << place), *found][: len(found)], found)
    return found


def any_of(graph: GateGraph, literals: Sequence[int]) -> int:
    """Literal of at least one being 1."""
    return conjunction(graph, [literal ^ 1 for literal in literals]) ^ 1
