"""Gates of Yosys's word operators, the same ones for the same operands.

What Yosys leaves undefined becomes a new variable, so that nothing is proved that depends on it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from xpulpnn.errors import ToolError
from xpulpnn_sim.formal.gate_graph import FALSE, TRUE, GateGraph, extended
from xpulpnn_sim.netlist import NetlistCell

Word = list[int]
"""Literals, lowest bit first."""


def result(graph: GateGraph, cell: NetlistCell, pins: Mapping[str, Sequence[int]]) -> Word:
    """Literals of a cell's output ``Y``."""
    width = len(cell.pins["Y"])
    a, b, select = (list(pins.get(pin, ())) for pin in "ABS")
    signed_a, signed_b = (_flag(cell, f"{pin}_SIGNED") for pin in "AB")
    if cell.type in _MOVES:
        return _MOVES[cell.type](graph, a, b, select)
    if cell.type in _TESTS:
        return extended([_TESTS[cell.type](graph, a, b)], width)
    if cell.type in _RELATIONS:
        # a further bit makes numbers without and with sign comparable alike
        common = max(len(a), len(b)) + 1
        x, y = extended(a, common, signed=signed_a), extended(b, common, signed=signed_b)
        return extended([_RELATIONS[cell.type](graph, x, y)], width)
    if cell.type in _SHIFTS:
        if signed_b:
            raise ToolError(f"shift by a signed amount must not occur in what is proved, but {cell.name} is one")
        return _shifted(graph, cell.type, (a, signed_a), b, width)
    if cell.type == "$shiftx" and not signed_b:
        return _shiftx(graph, a, b, width)
    if cell.type in _WORDS:
        x, y = extended(a, width, signed=signed_a), extended(b, width, signed=signed_b)
        return _WORDS[cell.type](graph, x, y)
    raise ToolError(f"netlist must consist of operators and registers to be proved, not {cell.type}")


def _flag(cell: NetlistCell, name: str) -> bool:
    return int(cell.parameters.get(name, "0"), 2) == 1


def conjunction(graph: GateGraph, word: Sequence[int]) -> int:
    """All bits, as a balanced tree."""
    level = list(word)
    while len(level) > 1:
        odd = level[len(level) & ~1 :]
        level = [graph.and_(level[index], level[index + 1]) for index in range(0, len(level) - 1, 2)] + odd
    return level[0] if level else TRUE


def _any(graph: GateGraph, word: Sequence[int]) -> int:
    return conjunction(graph, [bit ^ 1 for bit in word]) ^ 1


def _parity(graph: GateGraph, word: Sequence[int]) -> int:
    return reduce(graph.xor, word, FALSE)


def _less(graph: GateGraph, x: Word, y: Word) -> int:
    """Whether x < y, numbers with sign: the sign of their difference, which fits."""
    return graph.add(x, [bit ^ 1 for bit in y], TRUE)[-1]


def _equal(graph: GateGraph, x: Word, y: Word) -> int:
    return conjunction(graph, [graph.xor(one, other) ^ 1 for one, other in zip(x, y, strict=True)])


def _mux(graph: GateGraph, a: Word, b: Word, select: Word) -> Word:
    return [graph.mux(select[0], low, high) for low, high in zip(a, b, strict=True)]


def _pmux(graph: GateGraph, a: Word, b: Word, select: Word) -> Word:
    """Word i of b if bit i of the selector is set, of which Yosys sets no two; a if none is."""
    choices = [b[start : start + len(a)] for start in range(0, len(b), len(a))]
    none = _any(graph, select) ^ 1
    found: Word = []
    for place, low in enumerate(a):
        chosen = [graph.and_(bit, word[place]) for bit, word in zip(select, choices, strict=True)]
        found.append(_any(graph, [graph.and_(none, low), *chosen]))
    return found


def _bmux(graph: GateGraph, a: Word, _b: Word, select: Word) -> Word:
    """Word number ``select`` of a."""
    for bit in reversed(select):
        half = len(a) // 2
        a = _mux(graph, a[:half], a[half:], [bit])
    return a


def _shifted(graph: GateGraph, kind: str, operand: tuple[Word, bool], amount: Word, width: int) -> Word:
    value, signed = operand
    length = max(width, len(value))
    word = extended(value, length, signed=signed)
    for place, bit in enumerate(amount):
        step = min(1 << place, length)
        if kind in ("$shl", "$sshl"):
            moved = [FALSE] * step + word[: length - step]
        else:
            fill = word[-1] if kind == "$sshr" and signed else FALSE
            moved = word[step:] + [fill] * step
        word = _mux(graph, word, moved, [bit])
    return word[:width]


def _shiftx(graph: GateGraph, a: Word, b: Word, width: int) -> Word:
    """``width`` bits of a from bit b up; undefined beyond its end."""
    unknown = graph.inputs(width)
    inside = [a[start : start + width] for start in range(len(a))]
    found = unknown
    for start, word in enumerate(inside):
        known = [*word, *unknown[len(word) :]]
        found = _mux(
            graph, found, known, [_equal(graph, b, [TRUE if start >> bit & 1 else FALSE for bit in range(len(b))])]
        )
    return found


_MOVES: dict[str, Callable[[GateGraph, Word, Word, Word], Word]] = {"$mux": _mux, "$pmux": _pmux, "$bmux": _bmux}
_TESTS: dict[str, Callable[[GateGraph, Word, Word], int]] = {
    "$reduce_and": lambda graph, a, _b: conjunction(graph, a),
    "$reduce_or": lambda graph, a, _b: _any(graph, a),
    "$reduce_bool": lambda graph, a, _b: _any(graph, a),
    "$reduce_xor": lambda graph, a, _b: _parity(graph, a),
    "$reduce_xnor": lambda graph, a, _b: _parity(graph, a) ^ 1,
    "$logic_not": lambda graph, a, _b: _any(graph, a) ^ 1,
    "$logic_and": lambda graph, a, b: graph.and_(_any(graph, a), _any(graph, b)),
    "$logic_or": lambda graph, a, b: graph.or_(_any(graph, a), _any(graph, b)),
}
_RELATIONS: dict[str, Callable[[GateGraph, Word, Word], int]] = {
    "$eq": _equal,
    "$ne": lambda graph, x, y: _equal(graph, x, y) ^ 1,
    "$lt": _less,
    "$ge": lambda graph, x, y: _less(graph, x, y) ^ 1,
    "$gt": lambda graph, x, y: _less(graph, y, x),
    "$le": lambda graph, x, y: _less(graph, y, x) ^ 1,
}
_SHIFTS = ("$shl", "$sshl", "$shr", "$sshr", "$shift")
_WORDS: dict[str, Callable[[GateGraph, Word, Word], Word]] = {
    "$pos": lambda _graph, x, _y: x,
    "$not": lambda _graph, x, _y: [bit ^ 1 for bit in x],
    "$neg": lambda graph, x, _y: graph.add([FALSE] * len(x), [bit ^ 1 for bit in x], TRUE),
    "$and": lambda graph, x, y: [graph.and_(one, other) for one, other in zip(x, y, strict=True)],
    "$or": lambda graph, x, y: [graph.or_(one, other) for one, other in zip(x, y, strict=True)],
    "$xor": lambda graph, x, y: [graph.xor(one, other) for one, other in zip(x, y, strict=True)],
    "$xnor": lambda graph, x, y: [graph.xor(one, other) ^ 1 for one, other in zip(x, y, strict=True)],
    "$add": lambda graph, x, y: graph.add(x, y),
    "$sub": lambda graph, x, y: graph.add(x, [bit ^ 1 for bit in y], TRUE),
    "$mul": lambda graph, x, y: graph.multiply(x, y, len(x)),
}
