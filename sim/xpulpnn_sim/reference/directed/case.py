"""Directed programs and the notation of their instructions and expected results.

In each line instructions are followed by ``=>`` and the values that registers must have at the end of the program:
``sra a4, a0, a1 => a4 -1``. With ``a4!`` the register is stored at once and may be used again. Without a value, the
result is that of the simulator, whose arithmetic the golden models confirm. A line without results prepares the next
ones; a line that starts with ``#`` is a comment. The head of a program is ``NAME [NEEDS]``: fields of the configuration
that must be true, and ``interrupts`` if they may occur. In a table of programs ``==`` precedes each head.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import VECTORS, WORD_BYTES, WORD_MASK
from xpulpnn_sim.reference.bare.layout import SIGNATURE
from xpulpnn_sim.reference.bare.program import Handlers, ProgramBlock, RandomProgram

HANDLERS = Handlers(("j interrupt",) * (VECTORS - 1))
_ENABLE = ("li t6, -1", "csrrw zero, mie, t6", "csrrsi zero, mstatus, 8")
_DISABLE = ("csrrci zero, mstatus, 8",)


@dataclass(frozen=True, slots=True)
class Directed:
    """A program that stores its results, and their expected values. The default exception handler skips instructions
    that trap, so that `mcause` and `mepc` hold the cause and the address afterwards."""

    name: str  # group and content
    lines: tuple[str, ...]  # after the usual prologue
    expected: tuple[int | None, ...]  # words stored from `s11` on; None: those of the simulator
    needs: tuple[str, ...]  # fields of the configuration that must be true
    interrupts: bool  # whether interrupts are enabled
    handlers: Handlers
    first: tuple[str, ...]  # lines before any register is written

    def program(self) -> RandomProgram:
        enable, disable = (_ENABLE, _DISABLE) if self.interrupts else ((), ())
        body = (f"li s11, 0x{SIGNATURE:x}", *enable, *self.lines, *disable)
        return RandomProgram((ProgramBlock(self.name, body),), (), self.handlers, None, self.name, self.first)

    def runs_on(self, config: CoreConfig) -> bool:
        return all(getattr(config, name) for name in self.needs)

    def problems(self, read: Callable[[int, int], bytes]) -> list[str]:
        content = read(SIGNATURE, WORD_BYTES * len(self.expected))
        words = [int.from_bytes(content[at : at + WORD_BYTES], "little") for at in range(0, len(content), WORD_BYTES)]
        return [
            f"{self.name}: result {index} must be 0x{expected & WORD_MASK:08x}, not 0x{got:08x}"
            for index, (expected, got) in enumerate(zip(self.expected, words, strict=True))
            if expected is not None and expected & WORD_MASK != got
        ]


def directed(head: str, text: str, *, handlers: Handlers = HANDLERS, first: Sequence[str] = ()) -> Directed:
    """Build a program from a head such as ``NAME [NEEDS]`` and lines in the notation that the module describes."""
    lines: list[str] = []
    final: dict[str, int | None] = {}
    expected: list[int | None] = []
    for line in text.splitlines():
        code, _, results = line.partition("=>")
        if code.lstrip().startswith("#"):
            continue
        lines += filter(None, map(str.strip, code.split(";")))
        for register, *values in map(str.split, filter(None, results.split(","))):
            value = int(values[0], 0) if values else None
            if register.endswith("!"):
                lines.append(f"sw {register[:-1]}, {WORD_BYTES * len(expected)}(s11)")
                expected.append(value)
            else:
                final[register] = value
    lines += [f"sw {register}, {WORD_BYTES * at}(s11)" for at, register in enumerate(final, len(expected))]
    name, _, words = head.partition(" [")
    needs = words.removesuffix("]").split()
    return Directed(
        name,
        tuple(lines),
        (*expected, *final.values()),
        tuple(need for need in needs if need != "interrupts"),
        "interrupts" in needs,
        handlers,
        tuple(first),
    )


def programs(table: str) -> tuple[Directed, ...]:
    parts = (part.partition("\n") for part in table.split("\n== ")[1:])
    return tuple(directed(head, text) for head, _, text in parts)


def words_at(address: int, words: Sequence[int]) -> str:
    """Emit lines that store ``words`` from ``address`` on and overwrite t1 and t2."""
    lines = [f"li t1, 0x{address:x}"]
    for at, word in enumerate(words):
        lines += [f"li t2, 0x{word & WORD_MASK:x}", f"sw t2, {WORD_BYTES * at}(t1)"]
    return "\n".join(lines)


def scattered(count: int, first: int, factor: int = 0x61C8_8647) -> list[int]:
    """Return ``count`` words that look random: multiples of an odd number, from the multiple ``first`` on."""
    return [factor * number & WORD_MASK for number in range(first, first + count)]
