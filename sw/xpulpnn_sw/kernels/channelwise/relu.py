"""ReLU, a word of elements at a time."""

from collections.abc import Mapping

import numpy as np

from xpulpnn_sw.kernels.arguments import RELU_ARGUMENTS
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.channelwise.code import ARGUMENT_REGISTERS, ElementBuilder, Packed
from xpulpnn_sw.kernels.channelwise.maps import MapTensors, PlacedMaps
from xpulpnn_sw.kernels.frame import FreeRegisters
from xpulpnn_sw.kernels.kernel import KernelRequest, KernelRun
from xpulpnn_sw.kernels.program import Program
from xpulpnn_sw.kernels.share import even_share
from xpulpnn_sw.kernels.terms import Argument, Name
from xpulpnn_sw.kernels.variants import ElementLevel
from xpulpnn_sw.layers.channelwise import ReluLayer
from xpulpnn_sw.layers.precision import Precision

_UNROLLED = 4  # words of one turn of the loop, so that none waits for its load


def random_relu(layer: ReluLayer, precision: Precision, rng: np.random.Generator) -> MapTensors:
    """Elements over their whole range, one quarter of them negative so that the results spread over theirs."""
    half = 1 << (precision.x - 1)
    shape = (layer.height, layer.width, layer.channels)
    values = np.minimum(rng.integers(0, half, shape, endpoint=True), half - 1)
    return MapTensors(activations=np.where(rng.random(shape) < 1 / 4, -1 - values, values))


def relu_kernel(request: KernelRequest) -> KernelRun:
    """A ReLU of ``input`` to ``output`` (both HWC)."""
    layer, precision, tensors, level = request.layer, request.precision, request.tensors, request.level
    maps = PlacedMaps(request, precision.x)
    pixels = layer.height * layer.width
    arguments = {
        "input": maps.place("input", tensors.activations, precision.x),
        "output": maps.reserve("output", pixels, precision.y),
        "words": pixels * maps.pixel_bytes(precision.x) // WORD,
    }
    return request.finish(
        "relu",
        RELU_ARGUMENTS,
        arguments,
        lambda known: _write(level, precision.x, known),
        pixel_bytes=maps.pixel_bytes(precision.y),
    )


def _write(level: ElementLevel, bits: int, known: Mapping[str, int]) -> Program:
    b, registers = ElementBuilder(level), FreeRegisters()
    registers.take(len(ARGUMENT_REGISTERS))
    source, target, turns, rest = registers.take(4)
    words = registers.take(_UNROLLED)
    packed = Packed(b, bits, registers, signed=True)
    # what is loaded first is there when it is needed
    terms = {
        "words": Argument("words"),
        "input": Argument("input"),
        "output": Argument("output"),
        **even_share(Name("words")),
        "offset": Name("begin") * WORD,
        "source": Name("input") + Name("offset"),
        "target": Name("output") + Name("offset"),
        "turns": Name("count") // _UNROLLED,
        "rest": Name("count") & (_UNROLLED - 1),
    }
    homes = {"source": source, "target": target, "turns": turns, "rest": rest, "input": source, "output": target}
    # not needed in the loop
    homes |= dict(zip(("words", "piece", "begin", "count"), words, strict=True))
    frame = b.frame(RELU_ARGUMENTS, known, terms, homes, registers, ("offset",))

    def several(count: int) -> None:
        for word in words[:count]:
            b.load(word, source, WORD)
        for word in words[:count]:
            packed.relu(word, word)
        for word in words[:count]:
            b.store(word, target, WORD)

    frame.begin()
    with b.region("body"):
        packed.begin()
        b.repeat(frame.value("turns", turns), turns, lambda: several(_UNROLLED), level=0)
        b.repeat(frame.value("rest", rest), rest, lambda: several(1), level=0)
    frame.end()
    return b.finish()
