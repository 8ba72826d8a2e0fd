"""Rows of the instruction table that reach every operation."""

from collections.abc import Sequence
from random import Random

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
