"""Words of literals, lowest bit first: arithmetic by which definitions are written, and cells of netlists."""

from collections.abc import Callable, Sequence

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, OPERATIONS, TRUE, GateGraph, extended
from xpulpnn_sim.tools.netlists import NetlistCell

Word = list[int]  # Literals, lowest bit first


def constant(value: int, width: int) -> Word:
    """The bits of a number."""
    return [TRUE if value >> bit & 1 else FALSE for bit in range(width)]


def choose(graph: GateGraph, condition: int, word: Sequence[int], other: Sequence[int]) -> Word:
    """One word if a literal is 1, else another one."""
    return [graph.mux(condition, low, high) for high, low in zip(word, other, strict=True)]


def minus(graph: GateGraph, x: Sequence[int], y: Sequence[int]) -> Word:
    """The difference of two words of the same width, modulo it."""
    return graph.add(x, [bit ^ 1 for bit in y], TRUE)


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


def of_cell(graph: GateGraph, cell: NetlistCell, literal: Callable[[int], int]) -> Word:
    """Literals of the output of a gate, an adder or a multiplier of Yosys, given those of nets."""
    if cell.type in OPERATIONS:
        pins, operation = OPERATIONS[cell.type]
        return [operation(graph, *(literal(cell.pins[pin][0]) for pin in pins))]
    width = len(cell.pins["Y"])
    x, y = (
        extended(
            [literal(net) for net in cell.pins.get(pin, [])],
            width,
            signed=int(cell.parameters.get(f"{pin}_SIGNED", "0"), 2) == 1,
        )
        for pin in "AB"
    )
    match cell.type:
        case "$pos":
            return x
        case "$add":
            return graph.add(x, y)
        case "$sub":
            return minus(graph, x, y)
        case "$neg":
            return minus(graph, [FALSE] * width, x)
        case "$mul":
            return graph.multiply(_trimmed(x), _trimmed(y), width)
        case kind:
            raise ToolError(f"netlist must consist of gates, adders and multipliers to be proved, not {kind}")


def _trimmed(word: Sequence[int]) -> Word:
    end = len(word)
    while end and word[end - 1] == FALSE:
        end -= 1
    return list(word[:end])
