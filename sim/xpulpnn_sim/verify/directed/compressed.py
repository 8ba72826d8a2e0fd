"""Directed programs of compressed instructions: every register in its field, and words that are reserved."""

from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn_sim.verify.directed.case import Directed, stored
from xpulpnn_sim.verify.layout import FRAME, SIGNATURE
from xpulpnn_sim.verify.program import CONSTANTS
from xpulpnn_sw.registers import ABI_NAMES

_SLOT = 3 * WORD_BYTES
_SP = ABI_NAMES[2]


def _all_forms(name: str) -> list[str]:
    """Lines of all forms whose field can be any register but x0; the last one brings back what is in the slot."""
    lines = [f"c.swsp {name}, {_SLOT}({_SP})"]
    if name != _SP:
        lines += [f"c.lui {name}, 31", f"c.addi {name}, -7", f"c.slli {name}, 3", f"c.add {name}, {name}"]
        lines += [f"c.mv {name}, {_SP}", f"c.li {name}, 9", f"c.add {name}, {_SP}"]
    return [*lines, f"c.lwsp {name}, {_SLOT}({_SP})"]


def _jumps(name: str) -> list[str]:
    """Lines that jump through a register and put back what it was."""
    to_first = [f"c.swsp {name}, {_SLOT}({_SP})", f"la {name}, 1f", f"c.jr {name}", "c.addi s1, 1", "1:"]
    return [*to_first, f"la {name}, 2f", f"c.jalr {name}", "c.addi s1, 2", f"2: c.lwsp {name}, {_SLOT}({_SP})"]


_NAMES = [ABI_NAMES[number] for number in range(1, XLEN)]
_REGISTERS = Directed(
    "compressed: every register in every form",
    "\n".join(
        [
            "c.li s1, 0",
            *(line for name in _NAMES for line in _all_forms(name)),
            *(line for name in _NAMES if name != _SP for line in _jumps(name)),
            *(f"li {ABI_NAMES[register]}, 0x{value:x}" for register, value in CONSTANTS),
            *(f"li s11, 0x{SIGNATURE:x}", f"li a0, -0x{FRAME:x}", f"add a0, a0, {_SP}", stored("a0 s1")),
        ]
    ),
    (0, 0),
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

_RESERVED = Directed(
    "compressed: reserved words",
    "\n".join(
        [
            "li a0, 0",
            *(
                f".half 0x{word:x}\n csrrs a1, mcause, zero\n add a0, a0, a1\n csrrwi zero, mcause, 0"
                for words in _RESERVED_WORDS.values()
                for word in words
            ),
            stored("a0"),
        ]
    ),
    (2 * sum(len(words) for words in _RESERVED_WORDS.values()),),
)

COMPRESSED = (_REGISTERS, _RESERVED)
"""The programs of this module."""
