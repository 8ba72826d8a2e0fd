"""Assembly that stores results beside what they must be: the frame of the program for the core."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn.isa.table import enabled

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
