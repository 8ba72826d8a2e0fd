"""The classifier whose second convolution multiplies crumbs: +1 and -1 of two bits each, by Mac&Load.

The first map holds a pixel's even channels in one word and the odd ones in the next. The four pixels of a pooling
window are those of an ``nn_4x4`` block: their receptive fields become rows whose words alternate, one core's after the
other's, and the largest of the four sums gives the bit.
"""

from xpulpnn_sw.kernels.bnn.code import FIELDS, MAP_SIDE, ClassifierCode
from xpulpnn_sw.kernels.bnn.network import CHANNELS, LAST, POOL, TAPS, WINDOW
from xpulpnn_sw.kernels.builder import WORD, ZERO, Label
from xpulpnn_sw.kernels.frame import FreeRegisters
from xpulpnn_sw.kernels.layout import Placement, banked_words
from xpulpnn_sw.kernels.loops import NnLoop
from xpulpnn_sw.kernels.terms import Argument, Term
from xpulpnn_sw.kernels.variants import WORD_BITS, variant
from xpulpnn_sw.layers.precision import Precision

CRUMBS = Precision(2, 2, 32, x_signed=True, y_signed=True)
VARIANT = variant("nn_4x4")
PIXEL_WORDS = 2  # words of a pixel's crumbs
ROW_WORDS = TAPS * PIXEL_WORDS
_PLACEMENT: Placement = "padded"
_SPARE_WORDS = 2  # words behind the rows that are fetched ahead
# words from one core's rows to the next one's
BUFFER_WORDS = banked_words(VARIANT.npx * ROW_WORDS + _SPARE_WORDS, _PLACEMENT)
# words from one stream of filters to the next
STREAM_WORDS = banked_words(CHANNELS // VARIANT.weight_streams * ROW_WORDS, _PLACEMENT)
_REACH = POOL + WINDOW - 1
_LINE = _REACH * PIXEL_WORDS  # words of a line of the four receptive fields
_HALVES = 0x5555_5555


class CrumbClassifierCode(ClassifierCode):
    """Writes the function."""

    fields = (*FIELDS, "buffer")
    map_pixel = PIXEL_WORDS * WORD

    def __init__(self) -> None:
        super().__init__(software=False)

    def _terms(self) -> dict[str, Term]:
        rows = Argument("buffer") + Argument("core") * (BUFFER_WORDS * WORD)
        return super()._terms() | {"rows": rows}

    def _put(self, result: int, target: int, work: int, other: int) -> None:
        b = self._b
        b.li(other, _HALVES)
        for channel in range(PIXEL_WORDS):
            if channel:
                b("srli", result, result, 1)
            b("and", work, result, other)
            b("pv.add.c", work, work, work)
            b("pv.sub.c", work, work, other)
            b("p.sw", work, WORD, target)

    def _second_convolution(self, registers: FreeRegisters) -> None:
        b, frame = self._b, self._frame
        source, target, start, end = self._rows("conv2", registers)
        loop = NnLoop(VARIANT, CRUMBS, registers)
        result, *spare = registers.rest()
        sums = loop.accumulators
        (row,), work = loop.activations, loop.temporaries[0]
        pixels = Label()
        b.place(pixels)
        self._fields(source, row, loop.temporaries[0], [*sums, *loop.weights, *loop.temporaries[1:], result, *spare])
        b("addi", source, source, POOL * self.map_pixel)
        frame.load("filters2", loop.weights[0])
        b("addi", loop.weights[1], loop.weights[0], 0)
        b.add(loop.weights[1], STREAM_WORDS * WORD, work)
        for operation in loop.group_prefetch:
            b(*operation)
        with b.loop(CHANNELS // VARIANT.nch, work, level=1):
            frame.load("rows", row)
            b.clear(sums)
            for operation in loop.block_prefetch:
                b(*operation)
            loop.emit(b, ROW_WORDS, signed=True)
            b("srli", result, result, VARIANT.nch)
            for channel, pooled in enumerate(zip(*loop.acc, strict=True)):
                first, *others = pooled
                for register in others:
                    b("p.max", first, first, register)
                b("slt", first, ZERO, first)
                b("p.inserti", result, first, 0, WORD_BITS - VARIANT.nch + channel)
        b("p.sw", result, WORD, target)
        self._next_pixels(source, target, sums, (pixels, start, end), LAST * WORD)

    def _fields(self, source: int, place: int, pointer: int, words: list[int]) -> None:
        """The receptive fields of four pixels, word by word one of each; lines are read once."""
        b = self._b
        upper, lower = words[:_LINE], words[_LINE : 2 * _LINE]
        self._frame.load("rows", place)
        b.mv(pointer, source)
        for number, line in enumerate([upper, *[lower, upper] * WINDOW][: WINDOW + 1]):
            b.load_words(line, pointer)
            b("addi", pointer, pointer, (MAP_SIDE - _REACH) * self.map_pixel)
            if number:
                above = upper if line is lower else lower
                for word in range(WINDOW * PIXEL_WORDS):
                    for fields in (above, line):
                        for column in range(POOL):
                            b("p.sw", fields[word + column * PIXEL_WORDS], WORD, place)
