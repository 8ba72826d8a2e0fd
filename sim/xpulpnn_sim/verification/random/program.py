"""A bare program: its blocks, its text, and what a simulator loads."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from xpulpnn.isa.machine import DATA_BASE, ENTRY, TEXT_BASE
from xpulpnn_sim.reference.programs.elf import Executable, Segment, functions_of
from xpulpnn_sim.verification.random.blocks import Block, count_statements, indented
from xpulpnn_sim.verification.random.handlers import PLAIN, Handlers
from xpulpnn_sim.verification.random.layout import (
    BASE,
    DATA_SIZE,
    FAR,
    FAR_SIZE,
    FRAME,
    LOW_BASE,
    LOW_SIZE,
    MASK,
    SAVE,
    SAVE_AREA,
    SP,
    TOHOST,
    WINDOW,
    WINDOW_MASK,
)
from xpulpnn_sw.assembly.asm import Assembled, assemble
from xpulpnn_sw.assembly.registers import ABI_NAMES

CONSTANTS = ((SAVE, SAVE_AREA), (SP, FRAME), (MASK, WINDOW_MASK), (BASE, WINDOW))
"""Registers that programs find set, and their values."""
_PADDING = 64  # bytes behind the code that a prefetch may touch
_NAMED = ("_start", "exception", "interrupt", "quick", "main", "finish")


def executable_of(
    name: str, code: Assembled, *, tohost: int, functions: Iterable[str], data: Sequence[Segment], text: int = TEXT_BASE
) -> Executable:
    """A memory image: the code from ``text`` on and the data; a function reaches up to the next one."""
    image = code.to_bytes()
    symbols = {**code.labels, "tohost": tohost}
    segments = [Segment(text, image, len(image) + _PADDING), *data]
    return Executable(
        path=Path(name),
        entry=ENTRY if text == TEXT_BASE else text,
        segments=tuple(sorted(segments, key=lambda segment: segment.address)),
        symbols=symbols,
        functions=functions_of({name: symbols[name] for name in functions}, text + len(image)),
        tohost=tohost,
    )


def names_of(functions: Iterable[Block]) -> set[str]:
    """Labels of functions that a program may call."""
    return {line[:-1] for block in functions for line in block.head[:1]}


class BareProgram(ABC):
    """A program in assembly that owns the whole machine."""

    __slots__ = ()

    @abstractmethod
    def text(self) -> str:
        """The whole program in assembly for :data:`TEXT_BASE`."""

    def listing(self, heading: Sequence[str] = ()) -> str:
        """The text with ``heading`` as comments; only the program itself is indented, labels are not."""
        return "\n".join([*(f"# {line}" for line in heading), *indented(self.text().splitlines())]) + "\n"

    def assembled(self) -> Assembled:
        """The words; raises :class:`xpulpnn.errors.EncodingError` if a shrunk program lacks a label."""
        return assemble(self.text(), TEXT_BASE)


@dataclass(frozen=True, slots=True)
class Program(BareProgram):
    """A program that ends with a store to ``tohost``."""

    main: tuple[Block, ...]
    functions: tuple[Block, ...] = ()  # functions it may call
    handlers: Handlers = PLAIN  # vector tables and handlers
    data_seed: int | None = None  # of the initial data; zeros if None
    name: str = "program"  # where the program came from, for people
    first: tuple[str, ...] = ()  # lines before any register is written

    @property
    def statements(self) -> int:
        """Lines of the program itself, without tables, handlers and prologue."""
        return count_statements((*self.main, *self.functions))

    def text(self) -> str:
        """The whole program in assembly for :data:`TEXT_BASE`."""
        lines = [self.handlers.text("start"), "start:", *self.first]
        lines += [f"li {ABI_NAMES[register]}, 0x{value:x}" for register, value in CONSTANTS]
        lines.append("main:")
        lines += [line for block in self.main for line in block.lines()]
        lines += ["finish:", f"li t1, 0x{TOHOST:x}", "addi t0, zero, 1", "sw t0, 0(t1)", "stop: jal zero, stop"]
        lines += [line for block in self.functions for line in block.lines()]
        return "\n".join(lines) + "\n"

    def executable(self) -> Executable:
        """The memory image with the symbols of the text."""
        code = self.assembled()
        low, data = _initial_data(self.data_seed)
        return executable_of(
            self.name,
            code,
            tohost=TOHOST,
            functions={name for name in _NAMED if name in code.labels} | names_of(self.functions),
            data=(
                Segment(LOW_BASE, low, LOW_SIZE),
                Segment(DATA_BASE, data, DATA_SIZE),
                *(Segment(base, b"", FAR_SIZE) for base in FAR),
            ),
        )


@cache
def _initial_data(seed: int | None) -> tuple[bytes, bytes]:
    """Random contents of the two data segments; tohost starts as zero."""
    if seed is None:
        return bytes(LOW_SIZE), bytes(DATA_SIZE)
    rng = Random(seed)
    data = bytearray(rng.randbytes(DATA_SIZE))
    data[TOHOST - DATA_BASE : TOHOST - DATA_BASE + 8] = bytes(8)
    return rng.randbytes(LOW_SIZE), bytes(data)
