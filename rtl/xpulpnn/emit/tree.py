"""Trees of the ``if`` and ``case`` statements of RTLIL processes, and merging of trees with the same conditions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from xpulpnn.emit.rtlil import Assign, Statement
from xpulpnn.emit.values import Sig, Slice, bits, runs, sig_width

Patterns = tuple[str, ...]


@dataclass(slots=True)
class ChoiceNode:
    """A ``case``, whose first arm with a matching pattern runs, else the default; without selector an ``if`` chain."""

    selector: Sig | None
    arms: "list[tuple[Any, list[Node]]]"  # patterns, or without a selector the tested bit, and the body
    default: "list[Node]" = field(default_factory=list)

    def with_bodies(self, new: "Callable[[list[Node]], list[Node]]") -> "ChoiceNode":
        return ChoiceNode(self.selector, [(test, new(body)) for test, body in self.arms], new(self.default))

    def bodies(self) -> "list[list[Node]]":
        return [*(body for _, body in self.arms), self.default]


Node = Assign | ChoiceNode


def is_empty(nodes: Sequence[Node]) -> bool:
    return all(not isinstance(node, Assign) and all(map(is_empty, node.bodies())) for node in nodes)


def without_repeats(nodes: Sequence[Node], width: int, known: Sig | None = None) -> list[Node]:
    """Drop assignments that repeat the value which the net already has."""
    remaining: list[Node] = []
    for node in nodes:
        if isinstance(node, Assign):
            value = node.value if node.target.width == width else None
            if value is None or value != known:
                remaining.append(node)
            known = value
            continue
        inner = node.with_bodies(partial(without_repeats, width=width, known=known))
        if not is_empty([inner]):
            remaining.append(inner)
            known = None
    return remaining


def tree(statements: Sequence[Statement]) -> list[Node]:
    """Convert the statements of an RTLIL process to nodes, without empty choices.

    Assignments in a choice that a later unconditional statement overwrites are dropped too: Yosys 0.70 executes that
    statement before the choice.
    """
    return _without_overwritten(_tree(statements), ())


def _tree(statements: Sequence[Statement]) -> list[Node]:
    nodes = [node for statement in statements for node in _node(statement)]
    return [node for node in nodes if not is_empty([node])]


def _without_overwritten(nodes: Sequence[Node], later: Sequence[Slice]) -> list[Node]:
    """Drop assignments of bits that the slices in ``later`` always overwrite."""
    remaining: list[Node] = []
    later_targets = list(later)
    for node in reversed(nodes):
        if isinstance(node, Assign):
            remaining += reversed(_pieces(node, later))
            later_targets.append(node.target)
            continue
        inner = node.with_bodies(partial(_without_overwritten, later=later_targets))
        if not is_empty([inner]):
            remaining.append(inner)
    return remaining[::-1]


def _pieces(node: Assign, later: Sequence[Slice]) -> list[Node]:
    target = node.target
    free = set(range(target.low, target.low + target.width))
    free.difference_update(*(range(other.low, other.low + other.width) for other in later))
    return [
        Assign(Slice(target.wire, target.low + first, width), bits(node.value, first, width))
        for is_free, first, width in runs(target.width, lambda place: target.low + place in free)
        if is_free
    ]


def _node(statement: Statement) -> list[Node]:
    if isinstance(statement, Assign):
        return [statement]
    selector, default = statement.selector, []
    arms: list[tuple[Patterns, list[Node]]] = []
    for patterns, body in statement.cases:
        if not patterns or any(set(pattern) == {"-"} for pattern in patterns):
            default = _tree(body)
            break
        arms.append((patterns, _tree(body)))
    if not arms:
        return default
    if all(len(patterns) == 1 and patterns[0].count("1") == 1 and "0" not in patterns[0] for patterns, _ in arms):
        tests = [bits(selector, len(pattern) - 1 - pattern.index("1"), 1) for (pattern,), _ in arms]
        return [ChoiceNode(None, [(test, body) for test, (_, body) in zip(tests, arms, strict=True)], default)]
    if sig_width(selector) > 1:
        return [ChoiceNode(selector, arms, default)]
    chosen = {value: body for patterns, body in reversed(arms) for value in patterns}
    return [ChoiceNode(None, [(selector, chosen.get("1", default))], chosen.get("0", default))]


def overlap(left: str, right: str) -> bool:
    return all(a == b or "-" in (a, b) for a, b in zip(left, right, strict=True))


def merged(left: Sequence[Node], right: Sequence[Node]) -> list[Node] | None:
    """Merge the trees of two processes where they test the same conditions; None if they have no test in common."""
    if _questions(left) == 0 and _questions(right) == 0:
        return [*left, *right]
    nodes = _merge(left, right)
    return nodes if _questions(nodes) < _questions(left) + _questions(right) else None


def _questions(nodes: Sequence[Node]) -> int:
    return sum(not isinstance(node, Assign) for node in nodes)


def _merge(left: Sequence[Node], right: Sequence[Node]) -> list[Node]:
    nodes, place = list(left), 0
    for node in right:
        if isinstance(node, Assign):
            while place < len(nodes) and isinstance(nodes[place], Assign):
                place += 1
            nodes.insert(place, node)
            place += 1
            continue
        for index in range(place, len(nodes)):
            both = _merge_choices(nodes[index], node)
            if both is not None:
                nodes[index], place = both, index + 1
                break
        else:
            nodes.append(node)
            place = len(nodes)
    return nodes


def _merge_choices(left: Node, right: Node) -> Node | None:
    """Merge two choices whose cases are equal or compatible; None if that is impossible."""
    if isinstance(left, Assign) or isinstance(right, Assign) or left.selector != right.selector:
        return None
    shorter, longer = sorted((left, right), key=lambda choice: len(choice.arms))
    same = [test for test, _ in shorter.arms] == [test for test, _ in longer.arms[: len(shorter.arms)]]
    if same and (len(shorter.arms) == len(longer.arms) or (left.selector is None and is_empty(shorter.default))):
        arms = []
        for index, (test, body) in enumerate(longer.arms):
            parts = [choice.arms[index][1] for choice in (left, right) if index < len(choice.arms)]
            arms.append((test, _merge(*parts) if len(parts) > 1 else body))
        return ChoiceNode(left.selector, arms, _merge(left.default, right.default))
    if left.selector is None or not is_empty(left.default) or not is_empty(right.default):
        return None
    # cases in any order are equivalent only if their patterns are disjoint
    table = dict(left.arms)
    for patterns, body in right.arms:
        if any(_collide(known, patterns) for known in table if known != patterns):
            return None
        table[patterns] = _merge(table[patterns], body) if patterns in table else body
    return ChoiceNode(left.selector, list(table.items()))


Case = tuple[Patterns, list[str]]  # patterns and the lines that they select

PRIORITY_WIDTH = 17
"""Smallest selector width for which a case may rely on the order of its patterns; linters require disjoint patterns,
which are short enough for narrower selectors."""


def _subtract(pattern: str, taken: str) -> list[str]:
    if not overlap(pattern, taken):
        return [pattern]
    rest = []
    for place, (own, other) in enumerate(zip(pattern, taken, strict=True)):
        if own == "-" and other != "-":
            rest.append(f"{pattern[:place]}{'10'[int(other)]}{pattern[place + 1 :]}")
            pattern = f"{pattern[:place]}{other}{pattern[place + 1 :]}"
    return rest


def disjoint(cases: Sequence[Case]) -> list[Case]:
    """Make the patterns of a choice disjoint; cases that no word reaches are dropped."""
    result: list[Case] = []
    taken: list[str] = []
    for patterns, lines in cases:
        left: list[str] = []
        for pattern in patterns:
            rest = [pattern]
            for earlier in (*taken, *left):
                rest = [piece for part in rest for piece in _subtract(part, earlier)]
            left += rest
        taken += left
        if left:
            result.append((tuple(left), lines))
    return result


def _collide(patterns: Sequence[str], others: Sequence[str]) -> bool:
    return any(overlap(pattern, other_pattern) for pattern in patterns for other_pattern in others)


def grouped(cases: Sequence[Case], default: list[str]) -> list[Case]:
    """Put cases with the same lines under one label where the order allows it.

    Cases with the lines of the default are dropped unless a later case matches their words.
    """
    groups: list[tuple[list[str], list[str]]] = []
    for patterns, lines in cases:
        for index, (known, known_lines) in enumerate(groups):
            if known_lines == lines and not any(_collide(patterns, later) for later, _ in groups[index + 1 :]):
                known.extend(patterns)
                break
        else:
            groups.append((list(patterns), lines))
    for index in reversed(range(len(groups))):
        patterns, lines = groups[index]
        if lines == default and not any(_collide(patterns, later) for later, _ in groups[index + 1 :]):
            del groups[index]
    return [(tuple(patterns), lines) for patterns, lines in groups]


def covers_all(cases: Sequence[Case], width: int) -> bool:
    return sum(1 << pattern.count("-") for patterns, _ in cases for pattern in patterns) == 1 << width
