"""Finds registers that are elements of one array: numbered, alike, and each doing what its number says."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

MIN_ELEMENTS = 8  # number of registers from which on an array with a loop reads better than each by itself

_NUMBERED = re.compile(r"(.*?)(\d+)")
_TOKEN = re.compile(r"\d+'h[0-9a-f]+|\w+|\W")
_LITERAL = re.compile(r"(\d+)'h([0-9a-f]+)")


@dataclass(frozen=True, slots=True)
class Element:
    """One register."""

    name: str
    # what elements of one array must have in common: width, reset value, clock edge and reset
    alike: tuple[object, ...]
    lines: tuple[str, ...]  # what it does at a clock edge


@dataclass(frozen=True, slots=True)
class ArrayOfRegisters:
    """An array that stands for registers."""

    name: str  # what the names of the elements begin with
    first: int  # numbers of the elements
    last: int  # numbers of the elements
    lines: tuple[str, ...]  # what element `{index}` does at a clock edge

    def element(self, number: int) -> str:
        """The name of an element."""
        return f"{self.name}{number}"


def arrays(elements: Sequence[Element], index: str) -> list[ArrayOfRegisters]:
    """The arrays among some registers; ``index`` is the variable of their loops."""
    numbered = [(match, element) for element in elements if (match := _NUMBERED.fullmatch(element.name))]
    found: list[ArrayOfRegisters] = []
    for name, run in groupby(numbered, key=lambda pair: pair[0][1]):
        members = {int(match[2]): element for match, element in run}
        first, last = min(members), max(members)
        if len(members) < MIN_ELEMENTS or last - first + 1 != len(members):
            continue
        if len({element.alike for element in members.values()}) > 1:
            continue
        lines = _common(name, members, index)
        if lines is not None:
            found.append(ArrayOfRegisters(name, first, last, lines))
    return found


def _common(name: str, members: dict[int, Element], index: str) -> tuple[str, ...] | None:
    """The lines of all elements as those of element ``index``; None if they differ otherwise."""
    texts = {number: "\n".join(element.lines) for number, element in members.items()}
    tokens = {number: _TOKEN.findall(text) for number, text in texts.items()}
    if len({len(row) for row in tokens.values()}) > 1:
        return None
    result = []
    for column in zip(*(row for row in tokens.values()), strict=True):
        token = _generic(name, list(zip(tokens, column, strict=True)), index)
        if token is None:
            return None
        result.append(token)
    return tuple("".join(result).split("\n"))


def _generic(name: str, column: list[tuple[int, str]], index: str) -> str | None:
    """One token of all elements in terms of ``index``."""
    if len({token for _, token in column}) == 1:
        return column[0][1]
    if all(token == f"{name}{number}" for number, token in column):
        return f"{name}[{index}]"
    literals = [(number, _LITERAL.fullmatch(token)) for number, token in column]
    if all(match is not None and int(match[2], 16) == number for number, match in literals):
        widths = {match[1] for _, match in literals if match is not None}
        return f"{index}[{int(widths.pop()) - 1}:0]" if len(widths) == 1 else None
    return None
