"""The frame of the program for the core: its memory, and assembly that stores results beside what they must be."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import TEXT_BASE, WORD_BYTES, WORD_MASK
from xpulpnn.isa.table import enabled

MEMORY_BASE = TEXT_BASE
MEMORY_WORDS = 1 << 15
OPERANDS_AT, SCRATCH_AT, RESULTS_AT, EXPECTED_AT = 0x1_0000, 0x1_0800, 0x1_1000, 0x1_8000
"""Places in memory, in bytes from its start; the code comes first."""

NOWHERE = 0x4000_0000  # an address outside the memory and the device

DEVICE_BASE = 0x8000_0000  # registers of the testbench: end of the program, interrupt lines now, interrupt lines later


def places() -> Mapping[str, int]:
    """Addresses that programs know by name."""
    return {
        "memory": MEMORY_BASE,
        "operands": MEMORY_BASE + OPERANDS_AT,
        "scratch": MEMORY_BASE + SCRATCH_AT,
        "results": MEMORY_BASE + RESULTS_AT,
        "expected": MEMORY_BASE + EXPECTED_AT,
        "stack": MEMORY_BASE + MEMORY_WORDS * WORD_BYTES,
        "nowhere": NOWHERE,
        "device": DEVICE_BASE,
        "lines": DEVICE_BASE + WORD_BYTES,
        "lines_later": DEVICE_BASE + 2 * WORD_BYTES,
    }


_RESULT = "gp"  # register that walks through the results

OPERANDS = 0x400  # bytes of operands that the program may read; copied from nowhere, random

SCRATCH = 0x80  # bytes that the program may write

CORNERS = (0, 1, WORD_MASK, 0x8000_0000, 0x7FFF_FFFF, 0x8000_8000, 0x7F80_FF01)  # operands that carry, borrow or wrap

Expected = int | Callable[[dict[str, int]], int]  # a word, or how it follows from the labels of the program


@dataclass(frozen=True, slots=True)
class Check:
    """A result of the program."""

    expected: Expected  # what the program must store
    text: str  # what it is, for the listing of the expected words


@dataclass(slots=True)
class Checks:
    """The program under construction."""

    config: CoreConfig  # instructions and CSRs that it may use
    random: random.Random
    operands: bytes = b""  # contents of the memory at the label `operands`
    lines: list[str] = field(default_factory=list[str])
    results: list[Check] = field(default_factory=list[Check])
    insns: tuple[Insn, ...] = ()

    def __post_init__(self) -> None:
        self.operands = self.random.randbytes(OPERANDS)
        self.insns = tuple(enabled(self.config.extensions, self.config.widths))

    def word(self) -> int:
        """An operand: a corner or a random word."""
        return self.random.choice(CORNERS) if self.random.random() < 1 / 4 else self.random.getrandbits(32)

    def title(self, text: str) -> None:
        """A comment line."""
        self.lines.append(f"    # {text}")

    def code(self, text: str) -> None:
        """Lines of assembly."""
        self.lines += [line.rstrip() for line in text.strip("\n").splitlines()]

    def expect(self, register: str, expected: Expected, text: str) -> None:
        """Store ``register``; it must hold ``expected``."""
        self.lines.append(f"    sw {register}, 0({_RESULT}); addi {_RESULT}, {_RESULT}, {WORD_BYTES}")
        self.stored(expected, text)

    def stored(self, expected: Expected, text: str) -> None:
        """A result that other code, such as a trap handler, stores next."""
        self.results.append(Check(expected if callable(expected) else expected & WORD_MASK, text))
