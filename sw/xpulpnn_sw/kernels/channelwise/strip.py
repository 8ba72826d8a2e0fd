"""Copies rows of one channel, with what lies around them, as bytes into a buffer.

From there on neither the width of the inputs nor the padding matters. Words are copied two at a time, and what a row
has too much of is replaced by the padding right of it or by the next row.
"""

from dataclasses import dataclass
from functools import partial

from xpulpnn_sw.kernels.builder import WORD, ZERO, Held
from xpulpnn_sw.kernels.channelwise.code import INTERLEAVED, UPPER_HALVES, ElementBuilder, interleave, repeated
from xpulpnn_sw.kernels.frame import Frame
from xpulpnn_sw.kernels.terms import Argument, Name, Term
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS

STRIP_REGISTERS = 19  # registers a copy needs
SPARE_BYTES = 32  # bytes behind the last row of the buffer that may be written and read
_CONSTANTS = 4  # registers with constants where inputs are narrower than bytes
_BYTE = (1 << BYTE_BITS) - 1


@dataclass(frozen=True, slots=True)
class Strip:
    """The copy."""

    b: ElementBuilder  # takes the instructions
    bits: int  # width of the inputs
    signed: bool  # whether they are two's complement
    valued: bool = False  # whether there is an argument `outside`, the value around the map; else zeros lie there

    def terms(self) -> dict[str, Term]:
        """Numbers that the copy derives from the arguments."""
        left, right, width = Argument("pad_left"), Argument("pad_right"), Argument("width")
        pitch_words = (left + right + width + (WORD - 1)) // WORD
        # what is loaded at a time
        unit = 2 * WORD_BITS // self.bits if self.bits == BYTE_BITS else WORD_BITS // self.bits
        loads = (width + (unit - 1)) // unit if self.b.xpulp else (width * self.bits + (BYTE_BITS - 1)) // BYTE_BITS
        return {
            "pitch_words": pitch_words,
            "pitch": Name("pitch_words") * WORD,
            "row_bytes": Argument("row_bytes"),
            "height": Argument("height"),
            "left_words": (left + (WORD - 1)) // WORD,
            "right_words": (right + (WORD - 1)) // WORD,
            "pad_left": left,
            "pad_top": Argument("pad_top"),
            "loads": loads,
            "data_end": left + width,
            **({"outside": (Argument("outside") & _BYTE) * repeated(1, BYTE_BITS)} if self.valued else {}),
        }

    def emit(self, frame: Frame, registers: list[int]) -> None:
        """Fill the buffer with ``inputs`` rows from row ``first_y`` on, of the channel at ``source``."""
        b = self.b
        source, row, y, rows, read, write, counter, work, *others = registers
        self._begin(others)
        frame.load_all(inputs=rows, first_y=y, buffer=row)
        b("mul", source, y, frame.register("row_bytes", work))
        b("add", source, source, frame.register("channel_source", work))

        def around(count: str, start: str | None = None) -> None:
            b.mv(write, row)
            if start is not None:
                b.add(write, frame.value(start, work), counter)
            self._around(frame, count, write, counter, others)

        with b.loop(Held(rows), rows):
            b.below(work, y, frame.value("height", work))
            with b.replaced("beq", work, ZERO, partial(around, "pitch_words")):
                around("left_words")
                b.mv(write, row)
                b.add(write, frame.value("pad_left", work), counter)
                b.mv(read, source)
                b.repeat(frame.value("loads", counter), counter, lambda: self._copy(read, write, others), level=0)
                around("right_words", "data_end")
            b.add(row, frame.value("pitch", work), counter)
            b.add(source, frame.value("row_bytes", work), counter)
            b("addi", y, y, 1)

    def _around(self, frame: Frame, count: str, write: int, counter: int, registers: list[int]) -> None:
        """Write so many words of what lies around the map.

        They are written byte by byte where an address may be no multiple of four without XpulpV2. Of the registers one
        is lost that :meth:`_begin` does not load.
        """
        outside = ZERO
        if self.valued:
            outside = registers[_CONSTANTS if self.b.xpulp and self.bits < BYTE_BITS else 0]
            frame.load("outside", outside)

        def word() -> None:
            if self.b.xpulp:
                self.b.store(outside, write, WORD)
                return
            for number in range(WORD):
                self.b("sb", outside, number, write)
            self.b("addi", write, write, WORD)

        self.b.repeat(frame.value(count, counter), counter, word, level=0)

    def _begin(self, registers: list[int]) -> None:
        b = self.b
        if self.b.xpulp and self.bits < BYTE_BITS:
            mask, low, high, halves = registers[:_CONSTANTS]
            b.li(mask, repeated((1 << self.bits) - 1, BYTE_BITS))
            b.li(low, INTERLEAVED[0])
            b.li(high, INTERLEAVED[1])
            if BYTE_BITS // self.bits > len(INTERLEAVED):
                b.li(halves, UPPER_HALVES)

    def _copy(self, read: int, write: int, registers: list[int]) -> None:
        b = self.b
        if not b.xpulp:
            self._copy_byte(read, write, registers)
            return
        if self.bits == BYTE_BITS:
            words: list[int] = registers[:2]
            for word in words:
                b.load(word, read, WORD)
        else:
            _, low, high, halves, word, *rest = registers
            b.load(word, read, WORD)
            fields = rest[: BYTE_BITS // self.bits]
            spare = rest[len(fields) :]
            for number, field in enumerate(fields):
                self._field(field, word, number, registers[0])
            pairs = [
                interleave(b, fields[first], fields[first + 1], copy, (low, high))
                for first, copy in zip(range(0, len(fields), 2), spare[: len(fields) // 2], strict=True)
            ]
            words = pairs[0]
            if len(pairs) > 1:
                # the upper halves in place, the lower ones in what is no longer needed
                free = [word, fields[1]]
                words = list[int]()
                for ab, cd, lower in zip(*pairs, free, strict=True):
                    b("pv.pack.h", lower, cd, ab)
                    b("pv.shuffle2.h", ab, cd, halves)
                    words += [lower, ab]
        for register in words:
            b.store(register, write, WORD)

    def _field(self, rd: int, word: int, number: int, mask: int) -> None:
        b, above = self.b, BYTE_BITS - self.bits
        place = number * self.bits
        if self.signed:
            if place < above:
                b("pv.sll.sci.b", rd, word, above - place)
            b("pv.sra.sci.b", rd, rd if place < above else word, above)
        elif place == above:
            b("pv.srl.sci.b", rd, word, place)
        elif place:
            b("srli", rd, word, place)
            b("and", rd, rd, mask)
        else:
            b("and", rd, word, mask)

    def _copy_byte(self, read: int, write: int, registers: list[int]) -> None:
        byte, element, *_ = registers
        self.b.load(byte, read, 1, bits=BYTE_BITS)
        count = BYTE_BITS // self.bits
        for number in range(count):
            source = byte
            if self.bits < BYTE_BITS:
                self.b.extract(element, byte, self.bits, number * self.bits, signed=self.signed)
                source = element
            self.b("sb", source, number, write)
        self.b("addi", write, write, count)


def row_pitch(width: int, left: int, right: int) -> int:
    """Bytes of a row in the buffer."""
    return -(-(left + width + right) // WORD) * WORD


def copied_bytes(rows: int, pitch: int) -> int:
    """Bytes of the buffer for so many rows."""
    return rows * pitch + SPARE_BYTES
