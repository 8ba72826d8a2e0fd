"""Directed programs of operands: words without a pattern, which random programs with their few registers soon lose."""

from collections.abc import Iterable
from random import Random

from xpulpnn.config import PRESETS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.table import enabled
from xpulpnn_sim.verify.directed.case import Directed, stored
from xpulpnn_sim.verify.draw import Draw, Group, group_of

_PINS = {"rd": 12, "rs1": 10, "rs2": 11}
"""Registers of operands: a2, a0 and a1."""
_NEXT = "mul s4, s4, s5\n addi s4, s4, 1013\n srli a2, s4, 15"
"""Lines that make a word in s4, and its upper half in a2."""
_ROUNDS = 24


def _repeated(rows: Iterable[str]) -> str:
    """Lines that go through all rows several times, each time with other words in a0 and a1."""
    words = f"1: {_NEXT}\n xor a0, s4, a2\n {_NEXT}\n xor a1, s4, a2"
    head = f"li s4, 0x2b7e1517\n li s5, 1664525\n li s3, {_ROUNDS}\n {words}"
    body = "\n".join(rows)
    return f"{head}\n {body}\n addi s3, s3, -1\n beq s3, zero, 2f\n jal zero, 1b\n 2: {stored('s3')}"


def _rows(preset: str, *groups: Group) -> list[str]:
    """All arithmetic of these groups that a configuration has, in assembly."""
    config = PRESETS[preset]
    draw = Draw(Random(1), config)

    def text(insn: Insn) -> str:
        names = {token.field.name for token in insn.tokens}
        pins = {name: register for name, register in _PINS.items() if name in names}
        return draw.text(insn, draw.values(insn, pins=pins))

    rows = enabled(config.extensions, config.widths)
    return [text(insn) for insn in rows if not insn.alias and group_of(insn) in groups]


_SHIFTING = [
    f"p.{kind}{half}{sign}N{end}"
    for kind in ("mul", "mac")
    for half in ("", "hh")
    for sign in "su"
    for end in ("", "R")
]

_DIVISORS = """
    addi t1, a0, -1
    and a1, s4, t1
    or a1, a1, a0
    xori s3, a1, -1
    """
"""Lines that make a divisor in a1 whose highest bit is that of a0, and its complement in s3."""


def _divided(name: str) -> str:
    """Lines of divisions by both."""
    return "\n".join(f"{name} a3, {dividend}, {divisor}" for dividend in ("s4", "a2") for divisor in ("a1", "s3"))


OPERANDS = (
    Directed(
        "operands: integer, multiplication and division", _repeated(_rows("ri5cy", Group.INTEGER, Group.MULDIV)), (0,)
    ),
    Directed("operands: scalar DSP", _repeated(_rows("ri5cy", Group.SCALAR)), (0,), ("xpulpv2",)),
    Directed("operands: packed", _repeated(_rows("ri5cy", Group.SIMD)), (0,), ("xpulpv2",)),
    Directed("operands: packed, narrow", _repeated(_rows("xpulpnn", Group.NARROW)), (0,), ("xpulpnn",)),
    Directed(
        "operands: products shifted by every number of places",
        "\n".join(
            [
                *("li a0, 0x9e3779b9", "li a1, 0x85ebca6b"),
                *(
                    line
                    for places in range(XLEN)
                    for line in (
                        "p.ror a0, a0, a1",
                        *(f"{name} a2, a0, a1, {places}" for name in _SHIFTING),
                        "add a1, a1, a2",
                    )
                ),
                stored("zero"),
            ]
        ),
        (0,),
        ("xpulpv2",),
    ),
    Directed(
        "operands: divisors whose highest bit is in every place",
        f"""
        li a0, 1
        li s4, 0x2b7e1517
        li s5, 1664525
        1: {_NEXT}
        {_DIVISORS.strip()}
        {_divided("div")}
        {_divided("divu")}
        {_divided("rem")}
        {_divided("remu")}
        add a0, a0, a0
        bne a0, zero, 1b
        {stored("a0")}
        """,
        (0,),
    ),
)
"""The programs of this module; results are compared where they retire."""
