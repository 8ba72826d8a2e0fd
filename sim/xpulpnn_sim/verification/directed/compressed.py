"""Directed programs of compressed instructions: every register in its field, and words that are reserved."""

from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn_sim.verification.directed.case import directed
from xpulpnn_sim.verification.random.layout import FRAME, SIGNATURE
from xpulpnn_sim.verification.random.program import CONSTANTS
from xpulpnn_sw.assembly.registers import ABI_NAMES

_SLOT = 3 * WORD_BYTES
_SP = ABI_NAMES[2]


def _all_forms(name: str) -> str:
    """Lines of all forms whose field can be any register but x0; the last one brings back what is in the slot."""
    if name == _SP:
        return f"c.swsp {name}, {_SLOT}({_SP}); c.lwsp {name}, {_SLOT}({_SP})"
    return f"""
    c.swsp {name}, {_SLOT}({_SP})
    c.lui {name}, 31; c.addi {name}, -7; c.slli {name}, 3; c.add {name}, {name}
    c.mv {name}, {_SP}; c.li {name}, 9; c.add {name}, {_SP}
    c.lwsp {name}, {_SLOT}({_SP})
    """


def _jumps(name: str) -> str:
    """Lines that jump through a register and put back what it was."""
    return f"""
    c.swsp {name}, {_SLOT}({_SP})
    la {name}, 1f; c.jr {name}; c.addi s1, 1
    1:
    la {name}, 2f; c.jalr {name}; c.addi s1, 2
    2: c.lwsp {name}, {_SLOT}({_SP})
    """


_NAMES = [ABI_NAMES[number] for number in range(1, XLEN)]
_EVERY_FORM = "\n".join(map(_all_forms, _NAMES))
_EVERY_JUMP = "".join(_jumps(name) for name in _NAMES if name != _SP)
_REGISTERS = directed(
    "compressed: every register in every form",
    f"""
    c.li s1, 0
    {_EVERY_FORM}
    {_EVERY_JUMP}
    {"; ".join(f"li {ABI_NAMES[register]}, 0x{value:x}" for register, value in CONSTANTS)}
    li s11, 0x{SIGNATURE:x}
    li a0, -0x{FRAME:x}; add a0, a0, {_SP} => a0 0, s1 0
    """,
)

_RESERVED_WORDS = {
    "c.addi4spn, c.lui and c.addi16sp of 0": (0x0000, 0x0004, 0x6081, 0x6781, 0x6101),
    "c.lwsp and c.jr of x0": (0x4002, 0x5002, 0x8002),
    "shifts by 32 and more": (0x1082, 0x1FFE, 0x9001, 0x9401),
    "subtractions and additions of half a double word, and what is behind": (0x9C01, 0x9C21, 0x9C41, 0x9C61),
    "floating point": (0x2000, 0x6000, 0xA000, 0xE000, 0x2002, 0x6002, 0xA002, 0xE002),
    "the fifth group of quadrant 0": (0x8000, 0x9C7C),
}
"""16-bit words that are no instructions of RV32IMC, by what they would be."""

_WORDS = [word for words in _RESERVED_WORDS.values() for word in words]
_TRAPS = (f".half 0x{word:x}; csrrs a1, mcause, zero; add a0, a0, a1; csrrwi zero, mcause, 0\n" for word in _WORDS)
_RESERVED = directed(
    "compressed: reserved words",
    f"""
    li a0, 0
    {"".join(_TRAPS)}
    => a0 {2 * len(_WORDS)}
    """,
)

COMPRESSED = (_REGISTERS, _RESERVED)
