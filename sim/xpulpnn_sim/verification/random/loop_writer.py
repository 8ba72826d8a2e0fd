"""Hardware loops for random programs: every way to set one up, every kind of last instruction."""

from dataclasses import dataclass

from xpulpnn_sim.verification.random.blocks import Block, total_bytes
from xpulpnn_sim.verification.random.draw import Draw
from xpulpnn_sim.verification.random.labels import Labels
from xpulpnn_sim.verification.random.layout import POOL, SCRATCH
from xpulpnn_sw.assembly.registers import ABI_NAMES

INNER, OUTER = 0, 1
LONGEST_BODY = 3000  # bytes a body may have: branches and setup instructions reach past it
_NEAR_BYTES = 48  # bodies that lp.setupi can span
_LARGEST_IMMEDIATE = 4095
_X6 = ABI_NAMES[SCRATCH]


def constant(draw: Draw, register: int, value: int) -> list[str]:
    """Lines that put ``value`` into a register: at once, through memory, or as a quotient."""
    name = ABI_NAMES[register]
    lines = [f"li {name}, {value}"]
    match draw.rng.randrange(5):
        case 0:
            lines += draw.through_memory(name)
        case 1:
            divisor = ABI_NAMES[draw.rng.choice([other for other in POOL if other != register])]
            lines += [f"addi {divisor}, zero, 1", f"divu {name}, {name}, {divisor}"]
        case _:
            pass
    return lines


@dataclass(frozen=True, slots=True)
class SharedEndLoop:
    """A loop, number 0, that ends on the same instruction as the one around it."""

    count: int  # iterations asked for
    body: tuple[Block, ...]  # everything but the last instruction


@dataclass(frozen=True, slots=True)
class Loop:
    """A hardware loop to write."""

    number: int  # hardware loop used
    count: int  # iterations asked for
    body: tuple[Block, ...]  # everything but the last instruction
    last: str
    after: str  # label behind the loop
    inner: SharedEndLoop | None = None  # A loop at the end of the body that shares the last instruction


class LoopWriter:
    """Writes hardware loops around given bodies."""

    def __init__(self, draw: Draw, labels: Labels) -> None:
        self._draw = draw
        self._rng = draw.rng
        self._labels = labels

    def loop(self, loop: Loop) -> Block:
        """The loop with its setup, ready to be executed."""
        start, end = (self._labels.new(stem) for stem in ("start", "end"))
        children = loop.body
        if loop.inner is not None:
            setup = tuple(self._plain_setup(INNER, loop.inner.count, end))
            children = (*children, Block("inner loop", setup, loop.inner.body))
        head = self._setup(loop, start, end, total_bytes(children))
        return Block(f"loop {loop.number}", head, children, (f"{end}:", loop.last, f"{loop.after}:"))

    def _plain_setup(self, number: int, count: int, end: str) -> list[str]:
        """lp.setup with the count in a register."""
        register = self._rng.choice((SCRATCH, *POOL))
        return [*constant(self._draw, register, count), f"lp.setup {number}, {ABI_NAMES[register]}, {end}"]

    def _setup(self, loop: Loop, start: str, end: str, size: int) -> tuple[str, ...]:
        """One of the four ways to set up a loop, the label of the start included."""
        draw, rng, number, count = self._draw, self._rng, loop.number, loop.count
        kind = rng.randrange(5)
        fits = count <= _LARGEST_IMMEDIATE
        if kind < 2 and fits and size <= _NEAR_BYTES:
            return (f"lp.setupi {number}, {count}, {end}",)
        if kind < 3:
            return tuple(self._plain_setup(number, count, end))
        by_csr = draw.chance(0.5)
        lines = self._by_csr(number, start, end) if by_csr else self._separate(number, start, end)
        register = rng.choice(POOL)
        if not by_csr and fits and draw.chance(0.5):
            lines.append(f"lp.counti {number}, {count}")
        else:
            lines += constant(draw, register, count)
            write = f"csrrw {self._any()}, lpcount{number}, " if by_csr else f"lp.count {number}, "
            lines.append(write + ABI_NAMES[register])
        if draw.chance(0.3):
            lines.append(draw.arithmetic())
        return (*lines, f"{start}:")

    @staticmethod
    def _separate(number: int, start: str, end: str) -> list[str]:
        return [f"lp.starti {number}, {start}", f"lp.endi {number}, {end}"]

    def _by_csr(self, number: int, start: str, end: str) -> list[str]:
        """Loop CSRs; the lowest bit written to them is dropped."""
        lines: list[str] = []
        for name, label in (("lpstart", start), ("lpend", end)):
            lines.append(f"la {_X6}, {label}")
            if self._draw.chance(0.3):
                lines.append(f"ori {_X6}, {_X6}, 1")
            lines.append(f"csrrw {self._any()}, {name}{number}, {_X6}")
        return lines

    def _any(self) -> str:
        return ABI_NAMES[self._draw.destination()]

    def count(self, limit: int) -> int:
        """A number of iterations: the corners 0, 1 and 2 often, larger ones up to ``limit``."""
        rng = self._rng
        choices = [0, 1, 2, 2, 3, rng.randrange(3, 9), rng.randrange(8, 40), rng.randrange(100, 1000)]
        return rng.choice([count for count in choices if count <= max(limit, 2)])
