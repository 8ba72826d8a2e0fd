"""Random code to fetch, and how its consumer behaves."""

from dataclasses import dataclass
from random import Random

from xpulpnn.isa.machine import BYTE_BITS, HALF_BITS, HALF_BYTES, HALF_MASK, LENGTH_MASK, WORD_BYTES, WORD_MASK
from xpulpnn.isa.table import INSNS
from xpulpnn_sim.benches.obi import PROMPT, ObiTiming, WordMemory

SLOWEST = ObiTiming(0.25, 1, 6)
FETCH_TIMINGS = (PROMPT, ObiTiming(1.0, 1, 6), ObiTiming(0.4, 1, 1), ObiTiming(0.6, 5, 6), SLOWEST)
"""From ideal to slow: late answers, late grants, both."""

SILENCE_LIMIT = 120
"""Cycles without an instruction that count as a hang: several times the slowest answer to two stalled requests."""

_FULL_LENGTH_PROBABILITY = 0.5
_ROW_PROBABILITY = 0.5
_COMPRESSED = [insn for insn in INSNS if insn.size == HALF_BYTES]


@dataclass(frozen=True, slots=True)
class FetchHabits:
    """Probability per cycle of a redirect, that what is offered is taken, and of the end of a hardware loop."""

    redirect: float
    take: float
    loop_back: float = 0.0


class RandomCode(WordMemory):
    """Code made when first looked at: compressed instructions are any row of the table as often as any half-word,
    some of the rows with all operands 0 or all their bits 1.
    """

    def __init__(self, rng: Random, full_length: float = _FULL_LENGTH_PROBABILITY, failing: float = 0.0) -> None:
        super().__init__()
        self._failing = failing
        self._failures: dict[int, bool] = {}
        self._rng = rng
        self._full_length = full_length

    def __missing__(self, address: int) -> int:
        """Draw the word."""
        self[address] = self._half() | self._half() << HALF_BITS
        return self[address]

    def _half(self) -> int:
        half = self._rng.getrandbits(HALF_BITS)
        if self._rng.random() < self._full_length:
            return half | LENGTH_MASK
        if self._rng.random() < _ROW_PROBABILITY:
            row = self._rng.choice(_COMPRESSED)
            return self._rng.choice((half, half, 0, HALF_MASK)) & ~row.mask | row.match
        return half & ~LENGTH_MASK | self._rng.randrange(LENGTH_MASK)

    def fails(self, address: int) -> bool:
        """Drawn when first asked for."""
        if address not in self._failures:
            self._failures[address] = self._rng.random() < self._failing
        return self._failures[address]

    def error_at(self, address: int) -> bool:
        """Return whether a word that the instruction at ``address`` lies in is answered with an error."""
        word = address & ~(WORD_BYTES - 1)
        return self.fails(word) or (self.words_of(address) > 1 and self.fails((word + WORD_BYTES) & WORD_MASK))

    def size_at(self, address: int) -> int:
        """Bytes of the instruction at ``address``."""
        return WORD_BYTES if self.load(address) & LENGTH_MASK == LENGTH_MASK else HALF_BYTES

    def instruction_at(self, address: int) -> int:
        """The instruction at ``address``, upper half 0 if it is compressed."""
        return self.load(address) & (1 << BYTE_BITS * self.size_at(address)) - 1

    def after(self, address: int) -> int:
        """Address of the instruction behind that at ``address``."""
        return (address + self.size_at(address)) & WORD_MASK

    def words_of(self, address: int) -> int:
        """Memory words that the instruction at ``address`` lies in: 1, or 2 across a word boundary."""
        return 1 + (address % WORD_BYTES + self.size_at(address) > WORD_BYTES)


def random_target(rng: Random) -> int:
    """An address in one of a few short stretches, one of them around the end of the address space; bit 0 random."""
    base = rng.choice((0x100, 0x1C00_0080, 0xFFFF_FFE0))
    return (base + rng.randrange(64)) & WORD_MASK
