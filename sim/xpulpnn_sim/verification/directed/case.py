"""Directed programs, and the notation in which they are written.

A line is one case: instructions, and behind ``=>`` the registers that must hold a result at the end of the program,
with their values: ``sra a4, a0, a1 => a4 -1``. Lines that only prepare something have no result. In a table a program
begins with a line ``== NAME [NEEDS]``: fields of the configuration that must be true, ``interrupts`` if they may come.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import VECTORS, WORD_BYTES, WORD_MASK
from xpulpnn_sim.verification.random.layout import SIGNATURE
from xpulpnn_sim.verification.random.program import Handlers, ProgramBlock, RandomProgram

HANDLERS = Handlers(("j interrupt",) * (VECTORS - 1))
_ENABLE = ("li t6, -1", "csrrw zero, mie, t6", "csrrsi zero, mstatus, 8")
_DISABLE = ("csrrci zero, mstatus, 8",)
_RESULT = "=>"


@dataclass(frozen=True, slots=True)
class Directed:
    """A program that stores its results and the results it must have."""

    # the text runs after the usual prologue; `s11` points to the results. Exceptions are skipped by the usual handler,
    # so `mcause` and `mepc` tell afterwards what happened

    name: str  # group and content
    text: str
    expected: tuple[int, ...]  # words stored from `s11` on
    needs: tuple[str, ...] = ()  # fields of the configuration that must be true
    interrupts: bool = False  # interrupts are enabled and may come at any time
    handlers: Handlers = HANDLERS  # vector tables
    first: tuple[str, ...] = ()  # lines before any register is written

    def program(self) -> RandomProgram:
        """The program as simulators load it."""
        lines = [part.strip() for line in self.text.splitlines() for part in line.split(";") if part.strip()]
        enable, disable = (_ENABLE, _DISABLE) if self.interrupts else ((), ())
        body = (f"li s11, 0x{SIGNATURE:x}", *enable, *lines, *disable)
        return RandomProgram((ProgramBlock(self.name, body),), (), self.handlers, None, self.name, self.first)

    def runs_on(self, config: CoreConfig) -> bool:
        """Return whether the configuration has all it needs."""
        return all(getattr(config, name) for name in self.needs)

    def problems(self, read: Callable[[int, int], bytes]) -> list[str]:
        """Results that are wrong in the memory of a finished run."""
        found = read(SIGNATURE, WORD_BYTES * len(self.expected))
        words = [int.from_bytes(found[at : at + WORD_BYTES], "little") for at in range(0, len(found), WORD_BYTES)]
        return [
            f"{self.name}: result {index} must be 0x{expected & WORD_MASK:08x}, not 0x{got:08x}"
            for index, (expected, got) in enumerate(zip(self.expected, words, strict=True))
            if expected & WORD_MASK != got
        ]


def directed(
    name: str,
    text: str,
    *needs: str,
    interrupts: bool = False,
    handlers: Handlers = HANDLERS,
    first: Sequence[str] = (),
) -> Directed:
    """A program of which every result is named in the line of its case."""
    lines: list[str] = []
    results: dict[str, int] = {}
    for line in text.splitlines():
        code, _, told = line.partition(_RESULT)
        lines.append(code.rstrip())
        for result in filter(None, told.split(",")):
            register, value = result.split()
            results[register] = int(value, 0)
    lines.append(stored(" ".join(results)))
    return Directed(name, "\n".join(lines), tuple(results.values()), needs, interrupts, handlers, tuple(first))


def programs(table: str) -> tuple[Directed, ...]:
    """The programs of a table; lines that begin with ``#`` are remarks."""
    found: list[Directed] = []
    lines = "\n".join(line for line in table.splitlines() if not line.lstrip().startswith("#"))
    for part in lines.split("\n== ")[1:]:
        head, _, text = part.partition("\n")
        name, _, words = head.partition(" [")
        needs = words.removesuffix("]").split()
        plain = [need for need in needs if need != "interrupts"]
        found.append(directed(name, text, *plain, interrupts="interrupts" in needs))
    return tuple(found)


def stored(registers: str, first: int = 0) -> str:
    """Lines that store the registers as consecutive results from number ``first`` on."""
    return "\n".join(f"sw {name}, {WORD_BYTES * (first + at)}(s11)" for at, name in enumerate(registers.split()))


def words_at(address: int, words: Sequence[int]) -> str:
    """Lines that store ``words`` from ``address`` on, using t1 and t2."""
    lines = [f"li t1, 0x{address:x}"]
    for at, word in enumerate(words):
        lines += [f"li t2, 0x{word & WORD_MASK:x}", f"sw t2, {WORD_BYTES * at}(t1)"]
    return "\n".join(lines)
