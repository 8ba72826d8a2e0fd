"""Patterns of ``case`` statements: which overlap, and how to tell them apart."""

from collections.abc import Sequence

from xpulpnn.emit.tree import Patterns, overlap

Case = tuple[Patterns, list[str]]  # Patterns (none: default) and the lines they select

PRIORITY_WIDTH = 17
"""Width of a selector from which on a case may rely on the order of its patterns; in narrower ones, where the text
stays short, patterns exclude each other, as linters want it."""


def _subtract(pattern: str, taken: str) -> list[str]:
    """Disjoint patterns that cover ``pattern`` without ``taken``."""
    if not overlap(pattern, taken):
        return [pattern]
    rest = []
    for place, (own, other) in enumerate(zip(pattern, taken, strict=True)):
        if own == "-" and other != "-":
            rest.append(f"{pattern[:place]}{'10'[int(other)]}{pattern[place + 1 :]}")
            pattern = f"{pattern[:place]}{other}{pattern[place + 1 :]}"
    return rest


def disjoint(cases: Sequence[Case]) -> list[Case]:
    """The same choice with patterns that exclude each other; a default stays last, unreachable cases vanish."""
    result: list[Case] = []
    taken: list[str] = []
    for patterns, lines in cases:
        if not patterns:
            result.append(((), lines))
            break
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
    return any(overlap(one, other) for one in patterns for other in others)


def grouped(cases: Sequence[Case], default: list[str]) -> list[Case]:
    """The same choice, cases with the same lines under one label where the order allows it, default apart.

    Cases that do what the default does are left out unless a later one would take their words.
    """
    groups: list[tuple[list[str], list[str]]] = []
    for patterns, lines in cases:
        for index, (known, kept) in enumerate(groups):
            if kept == lines and not any(_collide(patterns, later) for later, _ in groups[index + 1 :]):
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
    """Return whether disjoint patterns match every word."""
    return sum(1 << pattern.count("-") for patterns, _ in cases for pattern in patterns) == 1 << width
