"""ReLU, a word of elements at a time."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.arguments import Field, Structure
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.channelwise.code import ARGUMENT_REGISTERS, Code
from xpulpnn_sw.kernels.channelwise.levels import PLAIN_LEVELS, ElementLevel
from xpulpnn_sw.kernels.channelwise.packed import Packed
from xpulpnn_sw.kernels.channelwise.run import Maps, Options, finished, piece
from xpulpnn_sw.kernels.frame import Registers
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.program import Program
from xpulpnn_sw.kernels.terms import Argument, Name
from xpulpnn_sw.layers.channelwise import ReluLayer
from xpulpnn_sw.layout import ImageBuilder, Ints, Placement
from xpulpnn_sw.precision import Precision

RELU_ARGUMENTS = Structure(
    "xp_relu_arguments",
    (
        Field("input", "feature map", pointer=True),
        Field("output", "results, may be the input", pointer=True),
        Field("words", "words of the map"),
    ),
)
"""Of a ReLU."""

_UNROLLED = 4
"""Words of one turn of the loop, so that none waits for its load."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ReluTensors:
    """What a ReLU computes with."""

    activations: Ints  # Signed, `[height][width][channel]`


def relu_precision(bits: int) -> Precision:
    """Signed elements of one width."""
    return Precision(bits, bits, bits, x_signed=True, y_signed=True)


def check_relu(_: ReluLayer, precision: Precision) -> Precision:
    """The precision; raises :class:`LayerError` unless a ReLU can have it."""
    if not precision.x_signed or (precision.x, precision.x_signed) != (precision.y, precision.y_signed):
        raise LayerError(f"precision of relu must be signed inputs and outputs of one width, not {precision}")
    return precision


def random_relu(layer: ReluLayer, precision: Precision, rng: np.random.Generator) -> ReluTensors:
    """Elements over their whole range, one quarter of them negative so that the results spread over theirs."""
    half = 1 << (precision.x - 1)
    shape = (layer.height, layer.width, layer.channels)
    values = np.minimum(rng.integers(0, half, shape, endpoint=True), half - 1)
    return ReluTensors(activations=np.where(rng.random(shape) < 1 / 4, -1 - values, values))


def relu_kernel(
    layer: ReluLayer,
    precision: Precision,
    name: str,
    tensors: ReluTensors,
    *,
    cores: int = 1,
    specialise: bool = False,
    placement: Placement = "padded",
) -> KernelRun:
    """The ReLU of ``tensors`` for the level ``name``, with stacks for ``cores`` cores.

    Memory symbols: ``input`` and ``output`` (HWC), ``arguments``, ``stack``.
    """
    level = PLAIN_LEVELS[name]
    level.check_precision(precision)
    check_relu(layer, precision)
    memory = ImageBuilder()
    maps = Maps(memory, layer.channels, precision.x)
    pixels = layer.height * layer.width
    arguments = {
        "input": maps.place("input", tensors.activations, precision.x),
        "output": maps.reserve("output", pixels, precision.y),
        "words": pixels * maps.pixel_bytes(precision.x) // WORD,
    }
    return finished(
        layer,
        precision,
        level,
        Options(name="relu", cores=cores, specialise=specialise, placement=placement),
        RELU_ARGUMENTS,
        memory,
        arguments,
        maps.pixel_bytes(precision.y),
        lambda known: _write(level, precision.x, known),
    )


def _write(level: ElementLevel, bits: int, known: Mapping[str, int]) -> Program:
    code, registers = Code(level), Registers()
    registers.take(len(ARGUMENT_REGISTERS))
    source, target, turns, rest = registers.take(4)
    words = registers.take(_UNROLLED)
    packed = Packed(code, bits, registers, signed=True)
    # what is loaded first is there when it is needed
    terms = {
        "words": Argument("words"),
        "input": Argument("input"),
        "output": Argument("output"),
        **piece(Name("words")),
        "offset": Name("begin") * WORD,
        "source": Name("input") + Name("offset"),
        "target": Name("output") + Name("offset"),
        "turns": Name("count") // _UNROLLED,
        "rest": Name("count") & (_UNROLLED - 1),
    }
    homes = {"source": source, "target": target, "turns": turns, "rest": rest, "input": source, "output": target}
    # not needed in the loop
    homes |= dict(zip(("words", "piece", "begin", "count"), words, strict=True))
    frame = code.frame(RELU_ARGUMENTS, known, terms, homes, registers, ("offset",))

    def several(count: int) -> None:
        for word in words[:count]:
            code.load(word, source, WORD)
        for word in words[:count]:
            packed.relu(word, word)
        for word in words[:count]:
            code.store(word, target, WORD)

    frame.begin()
    with code.b.region("body"):
        packed.begin()
        code.repeat(frame.value("turns", turns), turns, lambda: several(_UNROLLED), level=0)
        code.repeat(frame.value("rest", rest), rest, lambda: several(1), level=0)
    frame.end()
    return code.b.finish()
