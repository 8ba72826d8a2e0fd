"""Packing of activations that take their elements from the same byte of several words."""

from dataclasses import dataclass

from xpulpnn_sw.kernels.builder import WORD, Builder
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS

_HALF_BITS = WORD_BITS // 2


@dataclass(frozen=True, slots=True)
class Column:
    """Words of memory that become one packed word, or two."""

    words: int  # words of memory, from the lowest elements to the highest
    pitch: int  # bits from the elements of one word to those of the next
    # whether packed operands are bytes, so that words are put upon each other as they are; else bytes at even and at
    # odd places, which become half-words, apart
    narrow: bool
    mask: int  # register that keeps the bytes at even places
    factor: int  # register with two to the power of the pitch, where there is a multiplication that adds
    # register with the factor that brings the upper half-word, added, to the elements of the lower one; None: they meet
    # as they are
    upper: int | None

    def emit(self, b: Builder, count: int, source: int, target: int, registers: list[int]) -> None:
        """Pack ``count`` groups from ``source`` to ``target``, which move; overwrites ``registers``, seven or more."""
        results = 1 if self.narrow else 2
        for number in range(count):
            packed = self._group(b, number, source, registers)
            for place, register in enumerate(packed):
                if b.xpulp:
                    b("p.sw", register, WORD, target)
                else:
                    b("sw", register, (number * results + place) * WORD, target)
        if not b.xpulp:
            b("addi", source, source, count * self.words * WORD)
            b("addi", target, target, count * results * WORD)

    def _group(self, b: Builder, number: int, source: int, registers: list[int]) -> list[int]:
        """The registers of the packed words; a word is loaded while the one before it is worked on."""
        loaded, (temporary, *free) = registers[:2], registers[2:]
        self._load(b, number, self.words - 1, source, loaded[0])
        sums: list[int] = []
        for turn in range(self.words):
            word = loaded[turn % 2]
            if turn + 1 < self.words:
                self._load(b, number, self.words - 2 - turn, source, loaded[(turn + 1) % 2])
            if self.narrow:
                parts = [word]
            else:
                # two sets of two, by turns
                parts = free[turn % 2 * 2 :][:2]
                b("and", parts[0], word, self.mask)
                if b.xpulp:
                    b("pv.srl.sci.h", parts[1], word, BYTE_BITS)
                else:
                    b("srli", parts[1], word, BYTE_BITS)
                    b("and", parts[1], parts[1], self.mask)
            for part, total in zip(parts, sums, strict=False):
                if b.xpulp:
                    b("p.mac", part, total, self.factor)
                else:
                    b("slli", total, total, self.pitch)
                    b("or", part, part, total)
            sums = parts
        for register in sums if self.upper is not None else ():
            self._join(b, register, temporary)
        return sums

    def _load(self, b: Builder, number: int, place: int, source: int, register: int) -> None:
        """The lowest word comes last, with which the pointer moves."""
        if b.xpulp and place == 0:
            b("p.lw", register, self.words * WORD, source)
        else:
            # where the pointer moves with every group, the group is at it
            first = 0 if b.xpulp else number * self.words
            b("lw", register, (first + place) * WORD, source)

    def _join(self, b: Builder, register: int, temporary: int) -> None:
        """The upper half's elements follow those of the lower half."""
        assert self.upper is not None
        b("srli", temporary, register, _HALF_BITS)
        if b.xpulp:
            b("p.mac", register, temporary, self.upper)
        else:
            b("mul", temporary, temporary, self.upper)
            b("add", register, register, temporary)
