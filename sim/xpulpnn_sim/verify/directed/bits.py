"""Directed programs of bits: counts, fields and limits for every place of a bit."""

from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK, XLEN
from xpulpnn_sim.verify.directed.case import Directed, stored
from xpulpnn_sim.verify.layout import SIGNATURE
from xpulpnn_sw.registers import ABI_NAMES


def _counted(word: int) -> int:
    """Places of the first and of the last bit of ``word`` that is 1, and how many are, added up."""
    ones = [place for place in range(XLEN) if word >> place & 1]
    return (ones[0] + ones[-1] if ones else 2 * XLEN) + len(ones)


_WORDS = tuple(
    word & WORD_MASK for place in range(XLEN) for word in (1 << place, ~(1 << place), -(1 << place), (1 << place) - 1)
)


def _counts(register: str) -> str:
    """Lines that add the counts of a register to a5; other results are checked where they retire."""
    lines = [f"p.{name} a2, {register}\n add a5, a5, a2" for name in ("ff1", "fl1", "cnt")]
    return "\n".join([*lines, f"p.clb a2, {register}"])


_COUNTS = Directed(
    "bits: counts and limits of one bit, all others, and runs to either end",
    f"""
    li a0, 1
    li a5, 0
    li s2, 0x80000000
    1: xori a1, a0, -1
    sub a3, zero, a0
    addi a4, a0, -1
    {_counts("a0")}
    {_counts("a1")}
    {_counts("a3")}
    {_counts("a4")}
    or s3, a0, s2
    p.clipr a2, a0, a1
    p.clipr a2, a1, a0
    p.clipr a2, a3, s3
    p.clipr a2, s3, a4
    p.clipur a2, a0, a4
    p.clipur a2, a4, a0
    p.clipur a2, zero, s3
    p.clipur a2, a0, s3
    p.clipur a2, a0, a3
    p.clipur a2, a3, s3
    p.clipur a2, s2, a3
    add a0, a0, a0
    bne a0, zero, 1b
    {stored("a5")}
    """,
    (sum(_counted(word) for word in _WORDS),),
    ("xpulpv2",),
)

_FIELD_OPS = ("extract", "extractu", "insert", "bclr", "bset")


def _fields(register: str) -> str:
    """Lines of all operations on fields of a register; results are checked where they retire."""
    return "\n".join(f"p.{name}r a2, {register}, {field}" for name in _FIELD_OPS for field in ("a3", "a4", "a0"))


_WORD = 0x27D8_B14E
_LIMITS = ("clip", "clipu")

_FIELDS = Directed(
    "bits: fields of all lengths from every place on",
    f"""
    li a0, 0
    li a1, 0xa5c3960f
    xori a5, a1, -1
    li a6, 0
    1: li a3, 31
    sub a3, a3, a0
    slli a3, a3, 5
    or a3, a3, a0
    slli a4, a0, 5
    {_fields("a1")}
    {_fields("a5")}
    addi a6, a6, 1
    addi a0, a0, 1
    addi a2, a0, -32
    bne a2, zero, 1b
    {stored("a6")}
    """,
    (XLEN,),
    ("xpulpv2",),
)

_CLIPS = Directed(
    "bits: limits of all lengths",
    "\n".join(
        [
            *("li a0, 0x7fffffff", "li a1, 0x80000000", f"li a3, 0x{_WORD:x}", "xori a4, a3, -1"),
            *(f"p.{name}r a2, {value}, a0" for name in _LIMITS for value in ("a3", "a4")),
            *(
                f"p.{name} a2, {value}, {places}"
                for places in range(XLEN)
                for name in _LIMITS
                for value in ("a0", "a1")
            ),
            stored("a2"),
        ]
    ),
    # the last one is that of the lowest number to 31 bits without sign; each is compared where it retires
    (0,),
    ("xpulpv2",),
)

_REGISTERS = [ABI_NAMES[number] for number in range(1, XLEN)]


def _kept(name: str, first: int) -> list[str]:
    """Lines that put a word, its complement and what a load brings into a register, and look at it each time."""
    low = f"{WORD_BYTES * first}(zero)"
    values = (f"li {name}, {_WORD}", f"xori {name}, {name}, -1", f"sw {name}, {low}", f"lw {name}, {low}")
    return [line for value in values for line in (value, f"addi {name}, {name}, 0")]


_KEPT = Directed(
    "bits: every register, after reset and afterwards",
    "\n".join(
        [
            *(line for number, name in enumerate(_REGISTERS) for line in _kept(name, number)),
            *(f"lw {name}, 0(zero)\n xori {name}, {name}, -1\n sw {name}, 0(zero)" for name in _REGISTERS),
            *(f"li s11, 0x{SIGNATURE:x}", "lw a0, 0(zero)", stored("a0 zero")),
        ]
    ),
    # the word has gone through all 31 registers
    (_WORD, 0),
    first=tuple(f"addi {name}, {name}, 0" for name in _REGISTERS),
)

BITS = (_COUNTS, _FIELDS, _CLIPS, _KEPT)
"""The programs of this module."""
