"""Begin and end of a depthwise convolution: copy the rows of a channel, convert its accumulators to results.

The copy fills a buffer that contains the padding; its elements are bytes whatever the width of the inputs. Words are
copied two at a time; surplus bytes of a row are overwritten by the padding right of it or by the next row.

The parameters of the results are kept in registers. By the rule ``bn32``, lambda includes the bias. By exact
requantisation in hardware, lambda is the bias. By all other rules, accumulators start with the bias.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn_sw.kernels.builder import THRESHOLD_BYTES, WORD, ZERO, Held
from xpulpnn_sw.kernels.channelwise.maps import INTERLEAVED, UPPER_HALVES, ElementBuilder, interleave_words
from xpulpnn_sw.kernels.frame import Frame
from xpulpnn_sw.kernels.layout import Placement, banked_words, repeated
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.terms import Argument, Name, Term, given
from xpulpnn_sw.layers.layer import DepthwiseLayer
from xpulpnn_sw.layers.precision import Precision

COPY_REGISTERS = 19  # registers a copy needs
SPARE_BYTES = 32  # bytes behind the last row of the buffer that may be written and read
_SHORT = 4  # most pairs of words copied without a loop
_CONSTANTS = 4  # registers of constants for inputs narrower than bytes


@dataclass(frozen=True, slots=True)
class RowCopy:
    b: ElementBuilder
    bits: int  # width of the inputs
    signed: bool  # whether the inputs are two's complement
    valued: bool = False  # whether an argument `outside` holds the padding value, which is 0 otherwise

    def terms(self) -> dict[str, Term]:
        left, right, width = Argument("pad_left"), Argument("pad_right"), Argument("width")
        pitch_words = (left + right + width + (WORD - 1)) // WORD
        # elements loaded at a time
        unit = 2 * XLEN // self.bits if self.bits == BYTE_BITS else XLEN // self.bits
        loads = (width + (unit - 1)) // unit if self.b.xpulp else (width * self.bits + (BYTE_BITS - 1)) // BYTE_BITS
        return {
            "pitch_words": pitch_words,
            "pitch": Name("pitch_words") * WORD,
            **given("row_bytes", "height"),
            "left_words": (left + (WORD - 1)) // WORD,
            "right_words": (right + (WORD - 1)) // WORD,
            **given("pad_left", "pad_top"),
            "loads": loads,
            "data_end": left + width,
            **({"outside": (Argument("outside") & 0xFF) * repeated(1, BYTE_BITS)} if self.valued else {}),
        }

    def emit(self, frame: Frame, registers: list[int]) -> None:
        """Copy rows of a channel into the buffer: ``inputs`` rows from ``first_y`` on, which the frame defines."""
        b = self.b
        source, row, y, rows, read, write, counter, work, *others = registers
        self._begin(others)
        frame.load_all(inputs=rows, first_y=y, buffer=row)
        b("mul", source, y, frame.register("row_bytes", work))
        b("add", source, source, frame.register("channel_source", work))

        def fill(count: str, start: str | None = None) -> None:
            b.mv(write, row)
            if start is not None:
                b.add(write, frame.value(start, work), counter)
            self._fill_outside(frame, count, write, counter, others)

        with b.loop(Held(rows), rows):
            b.set_below(work, y, frame.value("height", work))
            with b.replaced("beq", work, ZERO, partial(fill, "pitch_words")):
                if not self._copy_short(frame, source, row, others):
                    fill("left_words")
                    b.mv(write, row)
                    b.add(write, frame.value("pad_left", work), counter)
                    b.mv(read, source)
                    b.repeat(frame.value("loads", counter), counter, lambda: self._copy(read, write, others), level=0)
                    fill("right_words", "data_end")
            b.add(row, frame.value("pitch", work), counter)
            b.add(source, frame.value("row_bytes", work), counter)
            b("addi", y, y, 1)

    def _copy_short(self, frame: Frame, source: int, row: int, registers: list[int]) -> bool:
        names = ("left_words", "right_words", "loads", "pad_left", "data_end")
        sizes = [size for name in names if (size := frame.constants.get(name)) is not None]
        if not self.b.xpulp or self.bits < BYTE_BITS or len(sizes) < len(names) or max(sizes[:3]) > _SHORT:
            return False
        b, (left_words, right_words, loads, pad_left, data_end) = self.b, sizes
        first, second, outside, *_ = registers
        if self.valued:
            frame.load("outside", outside)
        else:
            outside = ZERO
        for word in range(left_words):
            b("sw", outside, word * WORD, row)
        for pair in range(0, 2 * loads, 2):
            for number, register in enumerate((first, second), pair):
                b("lw", register, number * WORD, source)
            for number, register in enumerate((first, second), pair):
                b("sw", register, pad_left + number * WORD, row)
        for word in range(right_words):
            b("sw", outside, data_end + word * WORD, row)
        return True

    def _fill_outside(self, frame: Frame, count: str, write: int, counter: int, registers: list[int]) -> None:
        outside = ZERO
        if self.valued:
            outside = registers[_CONSTANTS if self.b.xpulp and self.bits < BYTE_BITS else 0]
            frame.load("outside", outside)

        def word() -> None:
            if self.b.xpulp:
                self.b.store(outside, write, WORD)
                return
            # the address may be unaligned
            for number in range(WORD):
                self.b("sb", outside, number, write)
            self.b("addi", write, write, WORD)

        self.b.repeat(frame.value(count, counter), counter, word, level=0)

    def _begin(self, registers: list[int]) -> None:
        if self.b.xpulp and self.bits < BYTE_BITS:
            mask, low, high, halves = registers[:_CONSTANTS]
            self.b.li(mask, repeated((1 << self.bits) - 1, BYTE_BITS))
            self.b.li(low, INTERLEAVED[0])
            self.b.li(high, INTERLEAVED[1])
            if BYTE_BITS // self.bits > len(INTERLEAVED):
                self.b.li(halves, UPPER_HALVES)

    def _copy(self, read: int, write: int, registers: list[int]) -> None:
        if not self.b.xpulp:
            self._copy_byte(read, write, registers)
            return
        if self.bits == BYTE_BITS:
            words: list[int] = registers[:2]
            for word in words:
                self.b.load(word, read, WORD)
        else:
            _, low, high, halves, word, *rest = registers
            self.b.load(word, read, WORD)
            fields = rest[: BYTE_BITS // self.bits]
            spare = rest[len(fields) :]
            for number, field in enumerate(fields):
                self._field(field, word, number, registers[0])
            words = interleave_words(self.b, fields, spare, [word, fields[1]], (low, high, halves))
        for register in words:
            self.b.store(register, write, WORD)

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
            b.chain(rd, word, ("srli", place), ("and", mask))
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


def rows_stride(layer: DepthwiseLayer, rows: int, placement: Placement) -> int:
    """Return the distance in bytes between the row buffers of neighbouring cores, each of ``rows`` rows."""
    _, _, left, right = layer.padding
    pitch_words = -(-(left + layer.width + right) // WORD)
    return banked_words(rows * pitch_words + SPARE_BYTES // WORD, placement) * WORD


# words of a channel's parameters, without the table of thresholds
_WORDS = {Rule.BN32: 2, Rule.BN64: 5, Rule.EXACT: 3, Rule.MULTIPLY: 2, Rule.SHIFT: 1, Rule.THRESHOLDS: 1}
PARAMETER_REGISTERS = _WORDS | {Rule.EXACT: 1, Rule.THRESHOLDS: 2}


def parameter_bytes(rule: Rule, bits: int) -> int:
    return _WORDS[rule] * WORD + (THRESHOLD_BYTES << bits if rule is Rule.THRESHOLDS else 0)


@dataclass(eq=False)
class ChannelResults:
    b: ElementBuilder
    rule: Rule
    precision: Precision
    shift: int  # register of the shift
    parameters: list[int]  # registers of the parameters
    temporaries: list[int]  # free registers

    def __post_init__(self) -> None:
        self._is_exact = self.rule is Rule.EXACT
        self.requantises = self.rule in (Rule.BN32, Rule.EXACT) and self.b.level.requantises
        if self._is_exact:
            self.shift = self.parameters[0]

    @property
    def start(self) -> int:
        return ZERO if self.requantises or self.rule is Rule.BN32 else self.parameters[0]

    def load(self, pointer: int) -> None:
        """Load the parameters at ``pointer``, which is clobbered."""
        if self.requantises:
            self.b("pv.rqld", 1, pointer)
            if self._is_exact:
                self.b("p.lw", self.shift, WORD, pointer)
            self.b("pv.rqld", 0, pointer)
            return
        for number, register in enumerate(self.parameters[: _WORDS[self.rule]]):
            self.b("lw", register, number * WORD, pointer)
        if self.rule is Rule.THRESHOLDS:
            self.b("addi", self.parameters[1], pointer, WORD)

    def multiply(self, accumulator: int, words: Sequence[int], weights: Sequence[int]) -> None:
        is_empty = self.start == ZERO
        if not is_empty:
            self.b.mv(accumulator, self.start)
        for number, (word, weight) in enumerate(zip(words, weights, strict=True)):
            self.dot(accumulator, word, weight, adds=number > 0 or not is_empty)

    def dot(self, rd: int, word: int, weights: int, *, adds: bool) -> None:
        x_signed, w_signed = self.precision.x_signed, self.precision.w_signed
        signs = "sp" if x_signed and w_signed else "usp" if x_signed or w_signed else "up"
        # the unsigned factor comes first
        factors = (weights, word) if x_signed and not w_signed else (word, weights)
        self.b(f"pv.{'s' if adds else ''}dot{signs}.b", rd, *factors)

    def scale(self, results: list[int], accumulators: list[int]) -> None:
        """Begin to requantise the accumulators, which are clobbered; :meth:`finish` completes the results."""
        b, precision = self.b, self.precision
        pairs = list(zip(results, accumulators, strict=True))
        if self.requantises:
            for result, total in pairs:
                b.requantise(result, total, self.shift, 0, precision.y, signed=precision.y_signed, exact=self._is_exact)
            return
        match self.rule:
            case Rule.BN32:
                lam, kappa = self.parameters
                for result, accumulator in pairs:
                    b("mul", result, accumulator, kappa)
                for result in results:
                    b.add_shifted(result, lam, Held(self.shift))
            case Rule.BN64:
                _, lam, lam_high, kappa, kappa_high = self.parameters
                work = (self.temporaries[0], self.temporaries[1])
                for result, accumulator in pairs:
                    b.upper_word(result, accumulator, (lam, lam_high), (kappa, kappa_high), work, Held(self.shift))
            case Rule.MULTIPLY:
                for result, accumulator in pairs:
                    b("mul", result, accumulator, self.parameters[1])
            case Rule.SHIFT:
                for result, accumulator in pairs:
                    b("sra", result, accumulator, self.shift)
            case _:
                self._search(pairs)

    def finish(self, results: list[int], work: int) -> None:
        """Complete the results of :meth:`scale` by shifting and clipping; without XpulpV2 ``work`` is clobbered."""
        if self.rule is Rule.THRESHOLDS or self.requantises:
            return
        if self.rule is Rule.MULTIPLY:
            for result in results:
                self.b("sra", result, result, self.shift)
        for result in results:
            self.b.clip(result, result, self.precision.y, work, signed=self.precision.y_signed)

    def _search(self, pairs: list[tuple[int, int]]) -> None:
        b, table, places = self.b, self.parameters[1], [place for place, _ in pairs]
        for place in places:
            b.mv(place, table)
        b.search(places, [accumulator for _, accumulator in pairs], self.temporaries, self.precision.y)
        for place in places:
            b("sub", place, place, table)
            b("srli", place, place, THRESHOLD_BYTES.bit_length() - 1)
            if self.precision.y_signed:
                b("xori", place, place, 1 << self.precision.y - 1)


def merge(b: ElementBuilder, byte: int, result: int, bits: int, position: int, temporaries: tuple[int, int]) -> None:
    """Insert ``result`` into ``byte``; ``position`` holds the bit number, and the other registers are clobbered."""
    if b.xpulp:
        b("p.insert", byte, result, position)
        return
    mask, others = temporaries
    assert bits < BYTE_BITS
    b.li(mask, (1 << bits) - 1)
    b.chain(result, result, ("and", mask), ("sll", position))
    b.chain(others, mask, ("sll", position), ("xori", -1))
    b.chain(byte, byte, ("and", others), ("or", result))
