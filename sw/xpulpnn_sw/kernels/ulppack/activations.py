"""Packing of byte activations into words, and the sums of activations that a weight offset requires."""

from collections.abc import Callable

from xpulpnn.isa.machine import BYTE_BITS, HALF_BITS, XLEN
from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder, Held
from xpulpnn_sw.kernels.frame import Frame
from xpulpnn_sw.kernels.ulppack.plan import PackedPlan

_SCALAR_WORDS = 4  # packed words per iteration without hardware loops
_SCALAR_COLUMNS = 8  # words of memory per iteration without hardware loops
_HALVES = 2  # half-words of a word


class ActivationRows:
    """Code that packs the activation rows of a plan; if ``signed``, weights are stored with an offset."""

    def __init__(self, plan: PackedPlan, *, signed: bool) -> None:
        self.plan, self.signed = plan, signed

    def emit(self, b: Builder, frame: Frame, registers: list[int]) -> None:
        """Pack all rows of a core from ``source`` to ``row0`` and fill ``corrections``; ten registers are clobbered."""
        if self.plan.packing.is_bytes and not self.signed:
            return
        source, target, corrections, count, *others = registers
        frame.load_all(source=source, row0=target)
        if self.signed:
            frame.load("corrections", corrections)
        frame.load("group", count)
        b("slli", count, count, self.plan.block.npx.bit_length() - 1)
        with b.loop(Held(count), count, level=1):
            if self.signed:
                self._sum(b, source, corrections, others)
            if not self.plan.packing.is_bytes:
                self._row(b, source, target, others)
            elif self.signed:
                b.add(source, self.plan.source_bytes, others[0])

    def _row(self, b: Builder, source: int, target: int, registers: list[int]) -> None:
        counter, *rest = registers
        if self.plan.packing.columns:
            self._columns(b, source, target, registers)
        elif b.xpulp and (self.plan.packing.lanes, self.plan.packing.depth) == (_HALVES, _HALVES):
            self._pairs(b, source, target, registers)
        else:
            self._repeat(b, self.plan.words, _SCALAR_WORDS, counter, lambda n: self._words(b, n, source, target, rest))
        b.add(source, self.plan.source_bytes - self.plan.words * self.plan.packing.elements, counter)

    def _pairs(self, b: Builder, source: int, target: int, registers: list[int]) -> None:
        counter, factor, *others = registers
        values, upper = others[:_HALVES], others[_HALVES : 2 * _HALVES]
        b.li(factor, (1 << self.plan.packing.pitch) - (1 << BYTE_BITS))
        for count, length in ((self.plan.words // _HALVES, _HALVES), (self.plan.words % _HALVES, 1)):
            if count:
                with b.loop(count, counter, level=0):
                    b.load_words(values[:length], source)
                    for register, moved in zip(values[:length], upper, strict=False):
                        b("pv.srl.sci.h", moved, register, BYTE_BITS)
                    for register, moved in zip(values[:length], upper, strict=False):
                        b("p.mac", register, moved, factor)
                    b.store_words(values[:length], target)

    @staticmethod
    def _repeat(b: Builder, count: int, unrolled: int, counter: int, write: Callable[[int], None]) -> None:
        rounds, rest = divmod(count, 1 if b.xpulp else unrolled)
        if rest:
            write(rest)
        if rounds:
            with b.loop(rounds, counter, level=0):
                write(1 if b.xpulp else unrolled)

    def _columns(self, b: Builder, source: int, target: int, registers: list[int]) -> None:
        packing, (counter, mask, factor, upper, *others) = self.plan.packing, registers
        narrow, size = packing.register == BYTE_BITS, packing.columns * WORD
        if not narrow:
            b.li(mask, 0x00FF_00FF)
        if b.xpulp:
            b.li(factor, 1 << packing.pitch)
        # elements of the upper half move to where those of the lower half end
        ends = packing.columns * packing.pitch
        is_split = packing.register == XLEN and ends != HALF_BITS
        if is_split:
            b.li(upper, (1 << ends) - (1 << HALF_BITS))
        results = 1 if narrow else 2

        def write(count: int) -> None:
            for number in range(count):
                packed = self._column(b, number, source, (mask, factor, upper if is_split else None), others)
                for place, register in enumerate(packed):
                    b.access("sw", register, WORD, (number * results + place) * WORD, target)
            if not b.xpulp:
                b("addi", source, source, count * size)
                b("addi", target, target, count * results * WORD)

        self._repeat(b, self.plan.source_bytes // size, _SCALAR_COLUMNS // packing.columns or 1, counter, write)

    def _column(
        self, b: Builder, number: int, source: int, factors: tuple[int, int, int | None], registers: list[int]
    ) -> list[int]:
        packing, (mask, factor, upper) = self.plan.packing, factors
        loaded, (temporary, *free), words = registers[:2], registers[2:], packing.columns

        def load(place: int, register: int) -> None:
            # the lowest word is loaded last and moves the pointer
            if b.xpulp and place == 0:
                b("p.lw", register, words * WORD, source)
            else:
                first = 0 if b.xpulp else number * words
                b("lw", register, (first + place) * WORD, source)

        load(words - 1, loaded[0])
        sums: list[int] = []
        for turn in range(words):
            word = loaded[turn % 2]
            if turn + 1 < words:
                load(words - 2 - turn, loaded[(turn + 1) % 2])
            parts = [word]
            if packing.register != BYTE_BITS:
                # two pairs of registers alternate
                parts = free[turn % 2 * 2 :][:2]
                b("and", parts[0], word, mask)
                if b.xpulp:
                    b("pv.srl.sci.h", parts[1], word, BYTE_BITS)
                else:
                    b.chain(parts[1], word, ("srli", BYTE_BITS), ("and", mask))
            for part, total in zip(parts, sums, strict=False):
                if b.xpulp:
                    b("p.mac", part, total, factor)
                else:
                    b("slli", total, total, packing.pitch)
                    b("or", part, part, total)
            sums = parts
        for register in [] if upper is None else sums:
            b("srli", temporary, register, HALF_BITS)
            b.accumulate(register, temporary, upper or ZERO, temporary)
        return sums

    def _words(self, b: Builder, words: int, source: int, target: int, registers: list[int]) -> None:
        packing = self.plan.packing
        word, *elements, shifted = registers[:4]
        positions = [
            lane * packing.register + i * packing.pitch for lane in range(packing.lanes) for i in range(packing.depth)
        ]
        for number in range(words):
            first = number * packing.elements
            for i in range(packing.elements + 1):
                if i < packing.elements:
                    b.access("lbu", elements[i % 2] if i else word, 1, first + i, source)
                if i > 1:
                    b.append_bits(word, elements[(i - 1) % 2], packing.a, positions[i - 1], shifted)
            store = "sw" if self.plan.method.operand_bytes == WORD else "sh"
            b.access(store, word, self.plan.method.operand_bytes, number * self.plan.method.operand_bytes, target)
        if not b.xpulp:
            b("addi", source, source, words * packing.elements)
            b("addi", target, target, words * self.plan.method.operand_bytes)

    def _sum(self, b: Builder, source: int, corrections: int, registers: list[int]) -> None:
        total, pointer, counter, ones, *values = registers
        words, step = self.plan.source_bytes // WORD, 2 if b.xpulp else 1
        b.li(total, 0)
        b.mv(pointer, source)
        if b.xpulp:
            b.li(ones, 0x0101_0101)
        for count, length in ((words // step, step), (words % step, 1)):
            if count:
                with b.loop(count, counter, level=0):
                    self._sum_words(b, length, total, pointer, ones, values)
        b("slli", total, total, self.plan.packing.w - 1)
        b("sub", total, ZERO, total)
        b("sw", total, 0, corrections)
        b("addi", corrections, corrections, WORD)

    def _sum_words(self, b: Builder, words: int, total: int, pointer: int, ones: int, values: list[int]) -> None:
        if b.xpulp:
            b.load_words(values[:words], pointer)
            for register in values[:words]:
                b("pv.sdotup.b", total, register, ones)
            return
        for offset, register in enumerate(values[:WORD]):
            b("lbu", register, offset, pointer)
        for register in values[:WORD]:
            b("add", total, total, register)
        b("addi", pointer, pointer, WORD)
