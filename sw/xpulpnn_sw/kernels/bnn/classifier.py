"""The function of the binarised classifier with its data in memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import TEXT_BASE
from xpulpnn_sw.kernels.bnn import crumbs, network, window
from xpulpnn_sw.kernels.bnn.code import HIDDEN_WORDS, MAP_SIDE, STRIP_ROWS, TOGETHER, ClassifierCode
from xpulpnn_sw.kernels.bnn.crumbs import CrumbClassifierCode
from xpulpnn_sw.kernels.bnn.network import Weights
from xpulpnn_sw.kernels.bnn.window import WindowClassifierCode
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.kernel import Function, finished_function
from xpulpnn_sw.kernels.layout import ImageBuilder, OutputLayout, Words, pack_words
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS

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
    chosen = crumbs.VARIANT
    filters = network.crumb_filters(weights, chosen.nch, chosen.weight_streams, crumbs.STREAM_WORDS)
    # around the map are -1
    empty = np.full(MAP_SIDE * MAP_SIDE * crumbs.PIXEL_WORDS, _MINUS_ONES, np.uint32)
    return CrumbClassifierCode(), {
        "strips": memory.reserve("strips", STRIP_ROWS * network.POOLED * WORD),
        "filters1": memory.place("filters1", network.first_filters(weights)),
        "map1": memory.place("map1", empty),
        "filters2": memory.place("filters2", filters, spare=chosen.nch),
        "buffer": memory.reserve("buffer", cores * crumbs.BUFFER_WORDS * WORD),
    }


_MINUS_ONES = 0xFFFF_FFFF  # A word of crumbs that are -1

_WRITERS: Mapping[str, Callable[[ImageBuilder, Weights, bool, int], _Operands]] = {
    "window": _window,
    "dense": _dense,
    "crumbs": _crumbs,
}
