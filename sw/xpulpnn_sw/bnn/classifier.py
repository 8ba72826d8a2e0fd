"""The function of the binarised classifier with its data in memory."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import TEXT_BASE
from xpulpnn_sw.bnn import network
from xpulpnn_sw.bnn.code import FIELDS, HIDDEN_WORDS, MAP_SIDE, STRIP_ROWS, TOGETHER, ClassifierCode
from xpulpnn_sw.bnn.network import Weights
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.function import STACK_STRIDE, Function
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS
from xpulpnn_sw.layout import ImageBuilder, OutputLayout, Words, pack_words

_OUTSIDE = TEXT_BASE + (1 << 20)
"""Where the weights of the first fully connected layer lie, which no usual TCDM has room for."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Classifier:
    """The classifier of one image.

    Parameters
    ----------
    function : Function
        Code and data.
    outside : array of uint32
        More data.
    outside_base : int
        Its address.
    """

    function: Function
    outside: Words
    outside_base: int


def classifier(weights: Weights, image: NDArray[np.uint8], *, software: bool = False, cores: int = 1) -> Classifier:
    """The function that computes the four results of an image.

    ``software`` counts bits by shifts and masks instead of ``p.cnt``. Memory symbols are those of the fields of the
    argument structure, ``arguments`` and ``stack``.
    """
    together = 1 if software else TOGETHER
    memory = ImageBuilder()
    addresses = {
        "input": memory.place("input", pack_words(image.reshape(1, -1), BYTE_BITS)),
        "strips": memory.reserve("strips", STRIP_ROWS * network.POOLED * WORD),
        "filters1": memory.place("filters1", network.first_filters(weights)),
        "map1": memory.reserve("map1", MAP_SIDE * MAP_SIDE * WORD),
        "filters2": memory.place("filters2", network.second_filters(weights, together)),
        "map2": memory.reserve("map2", network.LAST * network.LAST * WORD),
        "rows1": _OUTSIDE,
        "hidden1": memory.reserve("hidden1", HIDDEN_WORDS * WORD_BITS * WORD),
        "rows2": memory.place("rows2", network.dense(weights.fc2, 1)),
        "hidden2": memory.reserve("hidden2", HIDDEN_WORDS * WORD_BITS * WORD),
        "rows3": memory.place("rows3", network.dense(weights.fc3, 1)),
        "output": memory.reserve("output", network.CLASSES * WORD),
    }
    memory.place("arguments", np.array([addresses[name] for name in FIELDS], dtype=np.uint32))
    memory.reserve("stack", cores * STACK_STRIDE)
    function = Function(
        name="bnn_software" if software else "bnn",
        function=ClassifierCode(software=software).write(),
        extensions=frozenset({Extension.XPULPV2}),
        image=memory.finish(),
        output=OutputLayout(
            symbol="output", bits=WORD_BITS, shape=(1, network.CLASSES), pixel_bytes=network.CLASSES * WORD
        ),
        macs=network.MACS,
    )
    return Classifier(function=function, outside=network.dense(weights.fc1, 4), outside_base=_OUTSIDE)
