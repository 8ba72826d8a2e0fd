"""The binarised classifier with its data in memory, and two alternative layouts of its bits in words.

In the layout ``crumbs``, the second convolution packs 16 channels of two bits into a word. In the layout ``window``,
that of the paper, a word holds a 5x5 window of one channel, 25 bits of 32: each window is collected bit by bit from the
image or from the sums of the previous layer and compared with each filter once. Maps then hold sums instead of signs:
bytes after the first convolution, half-words after the second.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import BYTE_BITS, TEXT_BASE, WORD_MASK, XLEN
from xpulpnn_sw.kernels.bnn import network
from xpulpnn_sw.kernels.bnn.classifier_code import CONV_NCH, FIELDS, HIDDEN_WORDS, MAP_SIDE, STRIP_ROWS, ClassifierCode
from xpulpnn_sw.kernels.builder import WORD, ZERO, Label
from xpulpnn_sw.kernels.frame import FreeRegisters
from xpulpnn_sw.kernels.kernel import Function, finished_function
from xpulpnn_sw.kernels.layout import ImageBuilder, OutputLayout, Placement, Words, banked_words, pack_words
from xpulpnn_sw.kernels.nn_loops import NnLoop
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term, given
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.precision import Precision

LEFT = 2 * WORD  # bytes of a padded row before the row of the image
FRAME_ROW = (
    LEFT + (network.SIDE + network.BORDER) * network.COLOURS + network.BORDER
)  # bytes of a row of the padded image, whole words
FRAME_ROWS = network.SIDE + 2 * network.BORDER
_PIXELS = network.POOL * network.POOL
WINDOW_BUFFER_WORDS = _PIXELS * network.CHANNELS
_HALF = 2
_MAP_ROW = MAP_SIDE * network.CHANNELS


class WindowClassifierCode(ClassifierCode):
    """Code of the classifier for words that hold a window of one channel; it runs on one core only."""

    fields = (*FIELDS, "windows", "sums")
    map_pixel = network.CHANNELS
    strip_row = FRAME_ROW

    def operands(self, memory: ImageBuilder, weights: network.Weights, cores: int) -> dict[str, int]:
        return {
            "strips": memory.reserve("strips", FRAME_ROWS * FRAME_ROW),
            "filters1": memory.place("filters1", network.window_filters(weights.conv1, 1)),
            "map1": memory.reserve("map1", MAP_SIDE * MAP_SIDE * network.CHANNELS),
            "filters2": memory.place("filters2", network.window_filters(weights.conv2, CONV_NCH)),
            "windows": memory.reserve("windows", WINDOW_BUFFER_WORDS * WORD),
            "sums": memory.reserve("sums", network.FEATURES * 2),
        }

    def _terms(self) -> dict[str, Term]:
        # the padded image takes the place of the strips; the first window begins in the left border
        before = LEFT - network.BORDER * network.COLOURS
        terms = super()._terms()
        return terms | {
            "pack_to": terms["pack_to"] + LEFT,
            "conv1_from": terms["conv1_from"] + before,
            "conv2_to": Argument("sums") + Name("conv2_first") * (network.LAST * network.CHANNELS * _HALF),
            **given("windows", "sums"),
            "words": Number(network.LAST * network.LAST),
        }

    def _pack(self, registers: FreeRegisters) -> None:
        counter, first, second = registers.take(3)
        source, target, start, end = self._rows("pack", registers)
        with self._b.loop(network.SIDE * network.COLOURS // (2 * WORD), counter, level=0):
            self._b.load_words((first, second), source)
            self._b.store_words((first, second), target)
        self._b("addi", target, target, FRAME_ROW - network.SIDE * network.COLOURS)
        self._next_row("pack", start, end, counter)

    def _collect(self, word: int, bits: list[tuple[int, int, int]], limit: int, temporaries: list[int]) -> None:
        b, first = self._b, 0
        while first < len(bits):
            pair = [*zip(temporaries, bits[first:], strict=False)]
            for register, (is_signed, offset, base) in pair:
                b("lb" if is_signed else "lbu", register, offset, base)
            for place, (register, (is_signed, _, _)) in enumerate(pair, first):
                b("slt" if is_signed else "sltu", register, limit, register)
                b("p.inserti", word, register, 0, place)
            first += len(pair)

    def _first_convolution(self, registers: FreeRegisters) -> None:
        b, frame = self._b, self._frame
        source, target, start, end = self._rows("conv1", registers)
        words = registers.take(_PIXELS * network.COLOURS)
        filters, totals = registers.take(network.COLOURS), registers.take(_PIXELS)
        pointer, different = registers.take(2)
        pixels = Label()
        b.place(pixels)
        limits, (place, word, counter, *temporaries) = filters, words[:5]
        for register, value in zip(limits, network.THRESHOLDS, strict=True):
            b.li(register, value)
        frame.load("windows", place)
        b.mv(pointer, source)
        with b.loop(network.POOL, counter):
            with b.loop(network.POOL, different, level=0):
                for colour, limit in enumerate(limits):
                    taps = [
                        (y * FRAME_ROW + x * network.COLOURS + colour)
                        for y in range(network.WINDOW)
                        for x in range(network.WINDOW)
                    ]
                    b.li(word, 0)
                    self._collect(word, [(0, tap, pointer) for tap in taps], limit, temporaries)
                    b("p.sw", word, WORD, place)
                b("addi", pointer, pointer, network.COLOURS)
            b("addi", pointer, pointer, FRAME_ROW - network.POOL * network.COLOURS)
        frame.load("windows", pointer)
        b.load_words(words, pointer)
        frame.load("filters1", pointer)
        with b.loop(network.CHANNELS, different, level=0):
            b.load_words(filters, pointer)
            for pixel, total in enumerate(totals):
                for colour, register in enumerate(filters):
                    self._count_differences(
                        total, words[pixel * network.COLOURS + colour], register, different, is_first=colour == 0
                    )
            self._pool(totals, different, network.TAPS * network.COLOURS)
            b("p.sb", totals[0], 1, target)
        b("addi", source, source, network.POOL * network.COLOURS)
        frame.load("conv1_to", different)
        b.li(totals[0], network.POOLED * network.CHANNELS)
        b("add", totals[0], totals[0], different)
        b.far_branch("bne", target, totals[0], pixels)
        b("addi", different, different, _MAP_ROW)
        frame.store("conv1_to", different)
        b.mv(target, different)
        b("addi", source, source, network.POOL * FRAME_ROW - network.SIDE * network.COLOURS)
        self._next_row("conv1", start, end, totals[0])

    def _pool(self, totals: list[int], work: int, inputs: int) -> None:
        b, (first, *others) = self._b, totals
        b.li(work, inputs)
        for register in totals:
            b("slli", register, register, 1)
            b("sub", register, work, register)
        for register in others:
            b("p.max", first, first, register)

    def _second_convolution(self, registers: FreeRegisters) -> None:
        b, frame = self._b, self._frame
        source, target, start, end = self._rows("conv2", registers)
        totals = [registers.take(_PIXELS) for _ in range(CONV_NCH)]
        words, filters = registers.take(_PIXELS), registers.take(CONV_NCH)
        pointer, different, place, counter = registers.take(4)
        pixels = Label()
        b.place(pixels)
        self._windows(source, [*totals[0], *totals[1], *words, *filters, pointer])
        frame.load("filters2", pointer)
        with b.loop(network.CHANNELS // CONV_NCH, counter, level=1):
            frame.load("windows", place)
            b.clear([*totals[0], *totals[1]])
            with b.loop(network.CHANNELS, different, level=0):
                b.load_words(filters, pointer)
                b.load_words(words, place)
                for register, counts in zip(filters, totals, strict=True):
                    for word, total in zip(words, counts, strict=True):
                        self._count_differences(total, word, register, different, is_first=False)
            for counts in totals:
                self._pool(counts, different, network.TAPS * network.CHANNELS)
                b("p.sh", counts[0], _HALF, target)
        b("addi", source, source, network.POOL * network.CHANNELS)
        self._next_pixels(source, target, totals[0], (pixels, start, end), network.LAST * network.CHANNELS * _HALF)

    def _windows(self, source: int, registers: list[int]) -> None:
        b = self._b
        lines, registers = registers[: network.WINDOW], registers[network.WINDOW :]
        place, word, counter, *temporaries = registers[:5]
        for pixel in range(_PIXELS):
            self._frame.load("windows", place)
            b("addi", place, place, pixel * WORD)
            b.mv(lines[0], source)
            b.add(lines[0], pixel // network.POOL * _MAP_ROW + pixel % network.POOL * network.CHANNELS, word)
            for above, line in pairwise(lines):
                b("addi", line, above, _MAP_ROW)
            with b.loop(network.CHANNELS, counter, level=0):
                bits = [(1, x * network.CHANNELS, line) for line in lines for x in range(network.WINDOW)]
                b.li(word, 0)
                self._collect(word, bits, ZERO, temporaries)
                b("p.sw", word, _PIXELS * WORD, place)
                for line in lines:
                    b("addi", line, line, 1)

    def _first_dense(self, registers: FreeRegisters) -> None:
        b, taken = self._b, FreeRegisters()
        source, target, word, counter, *bits = taken.take(6)
        self._frame.load_all(sums=source, map2=target)
        with b.loop(network.LAST * network.LAST, counter, level=0):
            for place in range(0, XLEN, len(bits)):
                for number, register in enumerate(bits):
                    b("lh", register, (place + number) * _HALF, source)
                for number, register in enumerate(bits):
                    b("slt", register, ZERO, register)
                    b("p.inserti", word, register, 0, place + number)
            b("addi", source, source, network.CHANNELS * _HALF)
            b("p.sw", word, WORD, target)
        super()._first_dense(registers)


CRUMBS = Precision(2, 2, 32, x_signed=True, y_signed=True)
VARIANT = VARIANTS["nn_4x4"]
PIXEL_WORDS = 2  # words of a pixel's crumbs
ROW_WORDS = network.TAPS * PIXEL_WORDS
_PLACEMENT: Placement = "padded"
_SPARE_WORDS = 2  # words after the rows that are fetched ahead
# words between the rows of neighbouring cores
BUFFER_WORDS = banked_words(VARIANT.npx * ROW_WORDS + _SPARE_WORDS, _PLACEMENT)
# words between neighbouring streams of filters
STREAM_WORDS = banked_words(network.CHANNELS // VARIANT.weight_streams * ROW_WORDS, _PLACEMENT)
_REACH = network.POOL + network.WINDOW - 1
_LINE = _REACH * PIXEL_WORDS  # words of a line of the four receptive fields


class CrumbClassifierCode(ClassifierCode):
    fields = (*FIELDS, "buffer")
    map_pixel = PIXEL_WORDS * WORD
    extensions = ClassifierCode.extensions | {Extension.XPULPNN, Extension.XPULPML_NN}

    def operands(self, memory: ImageBuilder, weights: network.Weights, cores: int) -> dict[str, int]:
        filters = network.crumb_filters(weights, VARIANT.nch, VARIANT.weight_streams, STREAM_WORDS)
        # the border of the map is -1
        empty = np.full(MAP_SIDE * MAP_SIDE * PIXEL_WORDS, WORD_MASK, np.uint32)
        return {
            "strips": memory.reserve("strips", STRIP_ROWS * network.POOLED * WORD),
            "filters1": memory.place("filters1", network.first_filters(weights)),
            "map1": memory.place("map1", empty),
            "filters2": memory.place("filters2", filters, spare=VARIANT.nch),
            "buffer": memory.reserve("buffer", cores * BUFFER_WORDS * WORD),
        }

    def _terms(self) -> dict[str, Term]:
        rows = Argument("buffer") + Argument("core") * (BUFFER_WORDS * WORD)
        return super()._terms() | {"rows": rows}

    def _put(self, result: int, target: int, work: int, other: int) -> None:
        self._b.li(other, 0x5555_5555)
        for channel in range(PIXEL_WORDS):
            if channel:
                self._b("srli", result, result, 1)
            self._b.chain(work, result, ("and", other), ("pv.add.c", work), ("pv.sub.c", other))
            self._b("p.sw", work, WORD, target)

    def _second_convolution(self, registers: FreeRegisters) -> None:
        b, frame = self._b, self._frame
        source, target, start, end = self._rows("conv2", registers)
        loop = NnLoop(VARIANT, CRUMBS, registers)
        result, *spare = registers.rest()
        sums = loop.accumulators
        (row,), work = loop.activations, loop.temporaries[0]
        pixels = Label()
        b.place(pixels)
        self._write_fields(source, row, work, [*sums, *loop.weights, *loop.temporaries[1:], result, *spare])
        b("addi", source, source, network.POOL * self.map_pixel)
        frame.load("filters2", loop.weights[0])
        b("addi", loop.weights[1], loop.weights[0], 0)
        b.add(loop.weights[1], STREAM_WORDS * WORD, work)
        for operation in loop.group_prefetch:
            b(*operation)
        with b.loop(network.CHANNELS // VARIANT.nch, work, level=1):
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
                b("p.inserti", result, first, 0, XLEN - VARIANT.nch + channel)
        b("p.sw", result, WORD, target)
        self._next_pixels(source, target, sums, (pixels, start, end), network.LAST * WORD)

    def _write_fields(self, source: int, place: int, pointer: int, words: list[int]) -> None:
        upper, lower = words[:_LINE], words[_LINE : 2 * _LINE]
        self._frame.load("rows", place)
        self._b.mv(pointer, source)
        for number, line in enumerate([upper, *[lower, upper] * network.WINDOW][: network.WINDOW + 1]):
            self._b.load_words(line, pointer)
            self._b("addi", pointer, pointer, (MAP_SIDE - _REACH) * self.map_pixel)
            if number:
                above = upper if line is lower else lower
                for word in range(network.WINDOW * PIXEL_WORDS):
                    for fields in (above, line):
                        for column in range(network.POOL):
                            self._b("p.sw", fields[word + column * PIXEL_WORDS], WORD, place)


# address of the weights of the first fully connected layer, which exceed the usual TCDM
_OUTSIDE = TEXT_BASE + (1 << 20)

_CODES = {"window": WindowClassifierCode, "dense": ClassifierCode, "crumbs": CrumbClassifierCode}
CLASSIFIER_VARIANTS: Mapping[str, frozenset[Extension]] = {name: code.extensions for name, code in _CODES.items()}
"""Layouts of bits in words, with the extensions that each layout needs. ``window``: a word holds a window of one
channel, as in the paper. ``dense``: a word holds 32 channels. ``crumbs``: as ``dense``, but a word holds 16 channels of
two bits in the second convolution."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Classifier:
    function: Function  # code, and data in TCDM
    outside: Words  # weights of the first fully connected layer
    outside_base: int  # address of these weights


def classifier(
    weights: network.Weights, image: network.Pixels, *, variant: str = "dense", software: bool = False, cores: int = 1
) -> Classifier:
    """Return the function that classifies an image; with ``software`` it counts bits without ``p.cnt``."""
    memory = ImageBuilder()
    code = _CODES[variant](software=software)
    addresses = code.operands(memory, weights, cores) | {
        "input": memory.place("input", pack_words(image.reshape(1, -1), BYTE_BITS)),
        "map2": memory.reserve("map2", network.LAST * network.LAST * WORD),
        "rows1": _OUTSIDE,
        "hidden1": memory.reserve("hidden1", HIDDEN_WORDS * XLEN * WORD),
        "rows2": memory.place("rows2", network.dense(weights.fc2, 1)),
        "hidden2": memory.reserve("hidden2", HIDDEN_WORDS * XLEN * WORD),
        "rows3": memory.place("rows3", network.dense(weights.fc3, 1)),
        "output": memory.reserve("output", network.CLASSES * WORD),
    }
    function = finished_function(
        memory,
        code.fields,
        addresses,
        cores,
        name=f"bnn_{variant}{'_software' if software else ''}",
        function=code.write(),
        extensions=code.extensions,
        output=OutputLayout(symbol="output", bits=XLEN, shape=(1, network.CLASSES), pixel_bytes=network.CLASSES * WORD),
        macs=network.MACS,
    )
    return Classifier(function=function, outside=network.dense(weights.fc1, 4), outside_base=_OUTSIDE)
