"""Directed programs of operands: words without a pattern, which random programs with their few registers soon lose.

Results are compared where they retire.
"""

from collections.abc import Iterable
from random import Random

from xpulpnn.config import PRESETS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.table import enabled
from xpulpnn_sim.verification.directed.case import Directed, directed
from xpulpnn_sim.verification.random.draw import Draw, Group, group_of

_PINS = {"rd": 12, "rs1": 10, "rs2": 11}  # registers of operands: a2, a0 and a1
_NEXT = "mul s4, s4, s5; addi s4, s4, 1013; srli a2, s4, 15"  # lines that make a word in s4, and its upper half in a2
_ROUNDS = 24


def _rows(preset: str, *groups: Group) -> Iterable[str]:
    """All arithmetic of these groups that a configuration has, in assembly."""
    config = PRESETS[preset]
    draw = Draw(Random(1), config)

    def text(insn: Insn) -> str:
        names = {token.field.name for token in insn.tokens}
        pins = {name: register for name, register in _PINS.items() if name in names}
        return draw.text(insn, draw.values(insn, pins=pins))

    rows = enabled(config.extensions, config.widths)
    return (text(insn).partition("#")[0] for insn in rows if not insn.alias and group_of(insn) in groups)


def _repeated(name: str, rows: Iterable[str], *needs: str) -> Directed:
    """All rows several times, each time with other words in a0 and a1."""
    return directed(
        f"operands: {name}",
        f"""
        li s4, 0x2b7e1517; li s5, 1664525; li s3, {_ROUNDS}
        1: {_NEXT}; xor a0, s4, a2
        {_NEXT}; xor a1, s4, a2
        {"; ".join(rows)}
        addi s3, s3, -1; beq s3, zero, 2f; jal zero, 1b
        2: => s3 0
        """,
        *needs,
    )


_SHIFTING = [
    f"p.{kind}{half}{sign}N{end}"
    for kind in ("mul", "mac")
    for half in ("", "hh")
    for sign in "su"
    for end in ("", "R")
]


def _shifted(places: int) -> str:
    """Lines of all products that are shifted by so many places."""
    products = "; ".join(f"{name} a2, a0, a1, {places}" for name in _SHIFTING)
    return f"p.ror a0, a0, a1; {products}; add a1, a1, a2"


def _divided(name: str) -> str:
    """Lines of divisions by both divisors."""
    return "; ".join(f"{name} a3, {dividend}, {divisor}" for dividend in ("s4", "a2") for divisor in ("a1", "s3"))


OPERANDS = (
    _repeated("integer, multiplication and division", _rows("ri5cy", Group.INTEGER, Group.MULDIV)),
    _repeated("scalar DSP", _rows("ri5cy", Group.SCALAR), "xpulpv2"),
    _repeated("packed", _rows("ri5cy", Group.SIMD), "xpulpv2"),
    _repeated("packed, narrow", _rows("xpulpnn", Group.NARROW), "xpulpnn"),
    directed(
        "operands: products shifted by every number of places",
        f"""
        li a0, 0x9e3779b9; li a1, 0x85ebca6b
        {"; ".join(map(_shifted, range(XLEN)))}
        => zero 0
        """,
        "xpulpv2",
    ),
    directed(
        "operands: divisors whose highest bit is in every place",
        # a divisor in a1 whose highest bit is that of a0, and its complement in s3
        f"""
        li a0, 1; li s4, 0x2b7e1517; li s5, 1664525
        1: {_NEXT}
        addi t1, a0, -1; and a1, s4, t1; or a1, a1, a0; xori s3, a1, -1
        {"; ".join(map(_divided, ("div", "divu", "rem", "remu")))}
        add a0, a0, a0; bne a0, zero, 1b
        => a0 0
        """,
    ),
)
