"""Rows of the instruction table that reach every operation, and tests of many rows."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.semantics import statements


def covering(rows: Sequence[Insn]) -> list[Insn]:
    """Rows of any formats that have all statements, all forms of operands and every dot product in each format."""
    chosen: list[Insn] = []
    seen: set[object] = set()
    for row in Random(1).sample(rows, len(rows)):
        # narrower weights differ by their slice only
        meaning = statements(row) if row.wgt_fmt is None else (row.fmt, row.wgt_fmt, row.entry)
        choices = {(row.op, meaning), row.operands, (row.mode, row.fmt), (row.uses_dotp and row.op, row.fmt)}
        if not seen.issuperset(choices):
            chosen.append(row)
            seen |= choices
    return chosen


def in_groups(
    rows: Sequence[Any], size: int = 24, name: Callable[[Any], str] = lambda row: row.mnemonic
) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """Makes a test of so many rows at a time from a check of one: a test of its own takes longer than most checks."""
    groups = [rows[first : first + size] for first in range(0, len(rows), size)]

    def decorate(check: Callable[[Any], None]) -> Callable[..., None]:
        @pytest.mark.parametrize("group", groups, ids=lambda group: f"{name(group[0])}..{name(group[-1])}")
        def test(group: Sequence[Any]) -> None:
            for row in group:
                check(row)

        return test

    return decorate
