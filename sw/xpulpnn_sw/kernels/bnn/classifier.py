"""The function of the binarised classifier with its data in memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import TEXT_BASE
from xpulpnn_sw.kernels.bnn import network, window
from xpulpnn_sw.kernels.bnn.code import FIELDS, HIDDEN_WORDS, MAP_SIDE, STRIP_ROWS, TOGETHER, ClassifierCode
from xpulpnn_sw.kernels.bnn.network import CHANNELS, LAST, POOL, TAPS, WINDOW, Weights
from xpulpnn_sw.kernels.bnn.window import WindowClassifierCode
from xpulpnn_sw.kernels.builder import WORD, ZERO, Label
from xpulpnn_sw.kernels.frame import FreeRegisters
from xpulpnn_sw.kernels.kernel import Function, finished_function
from xpulpnn_sw.kernels.layout import ImageBuilder, OutputLayout, Placement, Words, banked_words, pack_words
from xpulpnn_sw.kernels.loops import NnLoop
from xpulpnn_sw.kernels.terms import Argument, Term
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS, variant
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


# where the weights of the first fully connected layer lie, which no usual TCDM has room for
_OUTSIDE = TEXT_BASE + (1 << 20)

CLASSIFIER_VARIANTS: Mapping[str, frozenset[Extension]] = {
    "window": frozenset({Extension.XPULPV2}),
    "dense": frozenset({Extension.XPULPV2}),
    "crumbs": frozenset({Extension.XPULPV2, Extension.XPULPNN, Extension.XPULPML_NN}),
}
"""Order of bits in words, and the core it needs: a window of one channel to a word, as in the paper; 32
channels to a word; the same, and in the second convolution 16 channels of two bits."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Classifier:
    """The classifier of one image."""

    function: Function  # code and data
    outside: Words  # more data
    outside_base: int


def classifier(
    weights: Weights, image: NDArray[np.uint8], *, variant: str = "dense", software: bool = False, cores: int = 1
) -> Classifier:
    """The function that computes the four results of an image.

    ``variant`` is out of :data:`CLASSIFIER_VARIANTS`; that of windows is for one core. ``software`` counts bits by
    shifts and masks instead of ``p.cnt``, not with crumbs. Memory symbols are those of the fields of the argument
    structure, ``arguments`` and ``stack``.
    """
    memory = ImageBuilder()
    code, addresses = _WRITERS[variant](memory, weights, software, cores)
    addresses |= {
        "input": memory.place("input", pack_words(image.reshape(1, -1), BYTE_BITS)),
        "map2": memory.reserve("map2", network.LAST * network.LAST * WORD),
        "rows1": _OUTSIDE,
        "hidden1": memory.reserve("hidden1", HIDDEN_WORDS * WORD_BITS * WORD),
        "rows2": memory.place("rows2", network.dense(weights.fc2, 1)),
        "hidden2": memory.reserve("hidden2", HIDDEN_WORDS * WORD_BITS * WORD),
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
        extensions=CLASSIFIER_VARIANTS[variant],
        output=OutputLayout(
            symbol="output", bits=WORD_BITS, shape=(1, network.CLASSES), pixel_bytes=network.CLASSES * WORD
        ),
        macs=network.MACS,
    )
    return Classifier(function=function, outside=network.dense(weights.fc1, 4), outside_base=_OUTSIDE)


_Operands = tuple[ClassifierCode, dict[str, int]]  # the code of a variant and where what only it has lies


def _window(memory: ImageBuilder, weights: Weights, software: bool, cores: int) -> _Operands:
    del cores
    return WindowClassifierCode(software=software), {
        "strips": memory.reserve("strips", window.FRAME_ROWS * window.FRAME_ROW),
        "filters1": memory.place("filters1", network.window_filters(weights.conv1, 1)),
        "map1": memory.reserve("map1", MAP_SIDE * MAP_SIDE * network.CHANNELS),
        "filters2": memory.place("filters2", network.window_filters(weights.conv2, TOGETHER)),
        "windows": memory.reserve("windows", window.WINDOW_BUFFER_WORDS * WORD),
        "sums": memory.reserve("sums", network.FEATURES * 2),
    }


def _dense(memory: ImageBuilder, weights: Weights, software: bool, cores: int) -> _Operands:
    del cores
    return ClassifierCode(software=software), {
        "strips": memory.reserve("strips", STRIP_ROWS * network.POOLED * WORD),
        "filters1": memory.place("filters1", network.first_filters(weights)),
        "map1": memory.reserve("map1", MAP_SIDE * MAP_SIDE * WORD),
        "filters2": memory.place("filters2", network.second_filters(weights, 1 if software else TOGETHER)),
    }


def _crumbs(memory: ImageBuilder, weights: Weights, software: bool, cores: int) -> _Operands:
    assert not software
    chosen = VARIANT
    filters = network.crumb_filters(weights, chosen.nch, chosen.weight_streams, STREAM_WORDS)
    # around the map are -1
    empty = np.full(MAP_SIDE * MAP_SIDE * PIXEL_WORDS, _MINUS_ONES, np.uint32)
    return CrumbClassifierCode(), {
        "strips": memory.reserve("strips", STRIP_ROWS * network.POOLED * WORD),
        "filters1": memory.place("filters1", network.first_filters(weights)),
        "map1": memory.place("map1", empty),
        "filters2": memory.place("filters2", filters, spare=chosen.nch),
        "buffer": memory.reserve("buffer", cores * BUFFER_WORDS * WORD),
    }


_MINUS_ONES = 0xFFFF_FFFF  # A word of crumbs that are -1

_WRITERS: Mapping[str, Callable[[ImageBuilder, Weights, bool, int], _Operands]] = {
    "window": _window,
    "dense": _dense,
    "crumbs": _crumbs,
}
