"""Directed programs of operands: every place of a bit, and words without a pattern, all compared in lock step."""

from collections.abc import Iterable
from random import Random

from xpulpnn.config import PRESETS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK, XLEN
from xpulpnn.isa.table import enabled
from xpulpnn_sim.verification.directed.case import Directed, directed, programs
from xpulpnn_sim.verification.random.draw import Draw, Group, group_of
from xpulpnn_sim.verification.random.layout import SIGNATURE
from xpulpnn_sw.assembly.disasm import ABI_NAMES


def _counted(word: int) -> int:
    """Places of the first and of the last bit of ``word`` that is 1, and how many are, added up."""
    ones = [place for place in range(XLEN) if word >> place & 1]
    return (ones[0] + ones[-1] if ones else 2 * XLEN) + len(ones)


_WORDS = tuple(
    word & WORD_MASK for place in range(XLEN) for word in (1 << place, ~(1 << place), -(1 << place), (1 << place) - 1)
)


def _counts(register: str) -> str:
    """Lines that add the counts of a register to a5; other results are checked where they retire."""
    added = "; ".join(f"p.{name} a2, {register}; add a5, a5, a2" for name in ("ff1", "fl1", "cnt"))
    return f"{added}; p.clb a2, {register}"


_LIMITED = ("a0, a1", "a1, a0", "a3, s3", "s3, a4")
_LIMITED_UNSIGNED = ("a0, a4", "a4, a0", "zero, s3", "a0, s3", "a0, a3", "a3, s3", "s2, a3")
_FIELD_OPS = ("extract", "extractu", "insert", "bclr", "bset")


def _fields(register: str) -> str:
    return "; ".join(f"p.{name}r a2, {register}, {field}" for name in _FIELD_OPS for field in ("a3", "a4", "a0"))


_WORD = 0x27D8_B14E
_LIMITS = ("clip", "clipu")


_BY_REGISTER = (f"p.{name}r a2, {value}, a0" for name in _LIMITS for value in ("a3", "a4"))
_BY_NUMBER = (f"p.{name} a2, {value}, {places}" for places in range(XLEN) for name in _LIMITS for value in ("a0", "a1"))
_REGISTERS = [ABI_NAMES[number] for number in range(1, XLEN)]


def _kept(name: str, first: int) -> str:
    """Lines that put a word, its complement and what a load brings into a register, and look at it each time."""
    low = f"{WORD_BYTES * first}(zero)"
    values = (f"li {name}, {_WORD}", f"xori {name}, {name}, -1", f"sw {name}, {low}", f"lw {name}, {low}")
    return "; ".join(f"{value}; addi {name}, {name}, 0" for value in values)


_KEPT = directed(
    "bits: every register, after reset and afterwards",
    # the word goes through all 31 registers
    f"""
    {"; ".join(_kept(name, number) for number, name in enumerate(_REGISTERS))}
    {"; ".join(f"lw {name}, 0(zero); xori {name}, {name}, -1; sw {name}, 0(zero)" for name in _REGISTERS)}
    li s11, 0x{SIGNATURE:x}; lw a0, 0(zero) => a0 {_WORD}, zero 0
    """,
    first=[f"addi {name}, {name}, 0" for name in _REGISTERS],
)

_BITS = programs(f"""
== bits: counts and limits of one bit, all others, and runs to either end [xpulpv2]
    li a0, 1; li a5, 0; li s2, 0x80000000
    1: xori a1, a0, -1; sub a3, zero, a0; addi a4, a0, -1
    {_counts("a0")}
    {_counts("a1")}
    {_counts("a3")}
    {_counts("a4")}
    or s3, a0, s2
    {"; ".join(f"p.clipr a2, {operands}" for operands in _LIMITED)}
    {"; ".join(f"p.clipur a2, {operands}" for operands in _LIMITED_UNSIGNED)}
    add a0, a0, a0; bne a0, zero, 1b
    => a5 {sum(_counted(word) for word in _WORDS)}
== bits: fields of all lengths from every place on [xpulpv2]
    li a0, 0; li a1, 0xa5c3960f; xori a5, a1, -1; li a6, 0
    1: li a3, 31; sub a3, a3, a0; slli a3, a3, 5; or a3, a3, a0
    slli a4, a0, 5
    {_fields("a1")}
    {_fields("a5")}
    addi a6, a6, 1 => a6 {XLEN}
    addi a0, a0, 1; addi a2, a0, -32; bne a2, zero, 1b
== bits: limits of all lengths [xpulpv2]
    # each is compared where it retires; the last one is that of the lowest number to 31 bits without sign
    li a0, 0x7fffffff; li a1, 0x80000000; li a3, 0x{_WORD:x}; xori a4, a3, -1
    {"; ".join(_BY_REGISTER)}
    {"; ".join(_BY_NUMBER)}
    => a2 0
""")

BITS = (
    *_BITS,
    _KEPT,
)


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
