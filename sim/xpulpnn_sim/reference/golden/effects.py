"""Operands and results of the golden models of instructions, and immediates of instruction words.

Everything is an array over N executions of the same instruction, so that a million executions in a kernel take a few
hundred numpy calls. Values are 32-bit patterns (``uint32``), signed or not by operation. Immediates (guide, "Operand
fields") are independent of ``xpulpnn.isa.fields`` on purpose, so that mistakes there are detected.
"""

from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.machine import WORD_BYTES, XLEN

U32 = NDArray[np.uint32]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Bits = NDArray[np.bool_]

_ABSENT = np.zeros(0, np.uint32)


@dataclass(slots=True, kw_only=True)
class Sources:
    """Operands of N executions of the same instruction. Omitted fields are read as zero."""

    word: U32  # instruction words, expanded to 32 bits; registers and immediates may differ between the executions
    rs1: U32 = field(default_factory=lambda: _ABSENT)  # old values of the registers in the fields
    rs2: U32 = field(default_factory=lambda: _ABSENT)
    rd: U32 = field(default_factory=lambda: _ABSENT)
    pc: U32 = field(default_factory=lambda: _ABSENT)
    # of loads and Mac&Load: little-endian word at the access address, which may be misaligned
    loaded: U32 = field(default_factory=lambda: _ABSENT)
    # NN-RF entries read: activation (or factor of a requantisation) and weight (or entry of Compute&Update, or summand)
    act: U32 = field(default_factory=lambda: _ABSENT)
    wgt: U32 = field(default_factory=lambda: _ABSENT)
    act2: U32 = field(default_factory=lambda: _ABSENT)  # second activation of a pair, whose sum is added to rs2
    length: int = WORD_BYTES  # bytes in memory, 2 if compressed; determines the link address

    def __post_init__(self) -> None:
        zeros = np.zeros(len(self.word), np.uint32)
        for name in ("rs1", "rs2", "rd", "pc", "loaded", "act", "wgt", "act2"):
            if getattr(self, name) is _ABSENT:
                setattr(self, name, zeros)


@dataclass(slots=True, kw_only=True)
class Effects:
    """Results of N executions of the same instruction; ``None`` where the instruction has no such effect. If ``base``
    and ``rd`` are the same register, ``rd`` wins (guide, "Loads and stores of XpulpV2" and "Rules of both forms"):
    apply ``base`` first. Writes of x0 must be dropped."""

    rd: U32 | None = None
    rd2: U32 | None = None  # new value of the register after rd, of a Mac&Load of two products
    base: U32 | None = None  # new value of the base register of post-increment and Mac&Load instructions
    address: U32 | None = None  # byte address of the memory access
    accessed: Bits | None = None  # whether memory is accessed, and base and NN-RF change
    store: U32 | None = None  # stored value, zero above `size` bytes
    size: int | None = None  # bytes accessed: 1, 2 or 4
    # NN-RF entry that takes `Sources.loaded`: 0, 1 and 8, 9 activations, 2..5 weights, 6 factor, 7 summand
    nn_index: U32 | None = None
    taken: Bits | None = None  # whether a branch or jump is taken
    target: U32 | None = None  # its target


def _bits(word: U32, high: int, low: int, to: int = 0) -> U32:
    return ((word >> np.uint32(low)) & np.uint32((1 << (high - low + 1)) - 1)) << np.uint32(to)


def sign_extend(value: U32, width: int) -> U32:
    """Sign-extend the low ``width`` bits to a 32-bit pattern."""
    unused = XLEN - width
    return ((value << np.uint32(unused)).view(np.int32) >> np.int32(unused)).view(np.uint32)


IMMEDIATES: dict[str, tuple[int, tuple[tuple[int, int, int], ...]]] = {
    "imm12": (12, ((31, 20, 0),)),
    "stimm12": (12, ((31, 25, 5), (11, 7, 0))),
    "uimm20": (0, ((31, 12, 12),)),  # at its place in bits 31:12
    "boff13": (13, ((31, 31, 12), (7, 7, 11), (30, 25, 5), (11, 8, 1))),
    "joff21": (21, ((31, 31, 20), (19, 12, 12), (20, 20, 11), (30, 21, 1))),
    "uimm5": (0, ((24, 20, 0),)),  # shift amounts, `Is2`, `nnimm5`
    "simm5": (5, ((24, 20, 0),)),
    "is3": (0, ((29, 25, 0),)),
    "t": (0, ((30, 29, 2), (24, 23, 0))),  # entry that a Mac&Load of two products loads
    "uimm6": (0, ((24, 20, 1), (25, 25, 0))),  # bit 25 of the instruction is the least significant one
    "imm6": (6, ((24, 20, 1), (25, 25, 0))),
}
"""Encoding of immediates by name: the width from which they are sign-extended (0: unsigned), and their parts, each with
first and last bit in the instruction and position in the immediate."""


def immediate(name: str, word: U32) -> U32:
    """Return the immediate of every word; offsets are in bytes."""
    width, parts = IMMEDIATES[name]
    value = reduce(np.bitwise_or, (_bits(word, *part) for part in parts))
    return sign_extend(value, width) if width else value
