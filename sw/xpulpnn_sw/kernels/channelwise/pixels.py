"""Kernels that normalise each pixel of a map of bytes: ``softmax`` and ``layernorm``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn_sw.kernels.builder import WORD, ZERO, Held, Label
from xpulpnn_sw.kernels.channelwise.maps import ElementBuilder, MapTensors, PlacedMaps, element_kernel, random_maps
from xpulpnn_sw.kernels.channelwise.moves import LookupTensors, shared_loop
from xpulpnn_sw.kernels.kernel import ArgumentField, KernelRequest, KernelRun, Structure, argument_structure
from xpulpnn_sw.kernels.layout import Ints, pack_words
from xpulpnn_sw.kernels.variants import TRANSPOSE_LEVELS
from xpulpnn_sw.layers.layer import LayerNormLayer, SoftmaxLayer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.layers.text import random_sizes

SHARE_PLACES = 5  # left shift of exponentials before they are divided
LEAST_DIVISOR = 2  # of exponentials, so that quotients have 31 bits
_GREATEST = (1 << BYTE_BITS) - 1  # difference of two elements
# places behind the point of gains, beyond those of results; of roots, which have 1 or 2 in front of it; first root
GAIN_PLACES, _ROOT_PLACES, _ROOT = 6, 30, 0x5A00_0000
EPSILON_BITS = 24  # with which the greatest variance times the square of the channels has 32 bits
_DIFFERENCE_PLACES = 10  # left shift of differences from means
_ROOT_STEPS = 6  # of Newton's method, from 1.4 to roots of 29 bits between 1 and 2

_MAPS = (ArgumentField("input", "feature map", pointer=True), ArgumentField("output", "results", pointer=True))
_SIZES = (
    ArgumentField("channels", "channels of a pixel"),
    ArgumentField("gap", "bytes between the channels of two pixels"),
    ArgumentField("steps", "pixels"),
)
SOFTMAX_ARGUMENTS = argument_structure(
    "softmax",
    *_MAPS,
    ArgumentField("table", "exponentials of the differences -255..0 from a pixel's greatest element", pointer=True),
    ArgumentField("factor", "the factor of the sums of exponentials"),
    ArgumentField("summand", "the summand"),
    *_SIZES,
    notes="""\
clip(((exponential << 5) + (divisor >> 1)) / divisor + summand), where the divisor is sum * factor >> 32, 2 at least, of
the sum of a pixel's exponentials, which has 31 bits.""",
)
LAYERNORM_ARGUMENTS = argument_structure(
    "layernorm",
    *_MAPS,
    ArgumentField("gains", "factor of each channel, with six places more than the results", pointer=True),
    ArgumentField("offsets", "summand of each channel", pointer=True),
    ArgumentField("epsilon", "added to the variance times the square of the channels times 4 ** places"),
    ArgumentField("shift", "right shift of the results"),
    ArgumentField("places", "9 less the bits of the last channel's number"),
    *_SIZES,
    notes="""\
clip((gain * (a - mean) / sqrt(variance + epsilon) + offset) >> shift) of a pixel's mean and variance, of up to 512
channels.""",
)


@dataclass(frozen=True, eq=False, kw_only=True)
class SoftmaxTensors(LookupTensors):
    factor: int  # of the sums of exponentials, whose upper words are the divisors
    summand: int


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerNormTensors(MapTensors):
    gains: Ints  # factor of each channel
    offsets: Ints  # summand of each channel
    epsilon: int
    shift: int


def exponential_bits(channels: int) -> int:
    """Return the width of unsigned exponentials, so many of which can be added in 31 bits."""
    return min(XLEN - 1 - SHARE_PLACES, XLEN - 1 - (channels - 1).bit_length())


def _random_softmax(layer: SoftmaxLayer, precision: Precision, rng: np.random.Generator) -> SoftmaxTensors:
    most, steps = (1 << exponential_bits(layer.channels)) - 1, np.arange(-_GREATEST, 1)
    table = np.rint(most * np.exp(steps * rng.uniform(0.005, 0.2))).astype(np.int64)
    own, factor = random_maps(layer, precision, rng).activations, int(rng.integers(1 << 28, 1 << 31))
    return SoftmaxTensors(activations=own, table=table, factor=factor, summand=int(rng.integers(-99, 100)))


def _random_layernorm(layer: LayerNormLayer, precision: Precision, rng: np.random.Generator) -> LayerNormTensors:
    shift, (gains, offsets) = int(rng.integers(8, 17)), rng.uniform(-99, 99, (2, layer.channels))
    own, epsilon = random_maps(layer, precision, rng).activations, int(rng.integers(1 << EPSILON_BITS))
    gains, offsets = (np.rint(row * (1 << shift)).astype(np.int64) for row in (gains * (1 << GAIN_PLACES), offsets))
    return LayerNormTensors(activations=own, gains=gains, offsets=offsets, epsilon=epsilon, shift=shift)


class _Pixel:
    """The code of a pixel, with passes over its channels."""

    def __init__(self, signs: tuple[bool, bool], b: ElementBuilder, own: Mapping[str, int], *registers: int) -> None:
        self.b, self.own, self._signs = b, own, signs
        self.counter, self._place, self.value, self.work, *self.registers = registers

    def each(self, step: Callable[[], None], *, is_last: bool = False) -> None:
        """Load each channel as ``value`` for ``step``; if ``is_last``, ``value`` is stored then as a result."""
        b, pointer = self.b, self.own["input"] if is_last else self._place

        def channel() -> None:
            b.load(self.value, pointer, 1, bits=BYTE_BITS, signed=self._signs[0])
            step()
            if is_last:
                b.clip(self.value, self.value, BYTE_BITS, self.work, signed=self._signs[1])
                b.store(self.value, self.own["output"], 1, bits=BYTE_BITS)

        if not is_last:
            b.mv(pointer, self.own["input"])
        b.repeat(Held(self.own["channels"]), self.counter, channel, level=0)
        for name in ("input", "output") if is_last else ():
            b("add", self.own[name], self.own[name], self.own["gap"])


def _softmax(pixel: _Pixel) -> None:
    b, own, value, work, (entries, total, half) = pixel.b, pixel.own, pixel.value, pixel.work, pixel.registers

    def negate() -> None:
        b("sub", value, ZERO, value)
        b.at_most(entries, value, half, work)

    def exponential() -> None:
        b("slli", value, value, WORD.bit_length() - 1)
        b.load_at(value, entries, value, work)

    def add() -> None:
        exponential()
        b("add", total, total, value)

    def share() -> None:
        exponential()
        b.chain(value, value, ("slli", SHARE_PLACES), ("add", half), ("divu", total), ("add", own["summand"]))

    b.li(entries, 1 << BYTE_BITS)
    pixel.each(negate)
    # the exponential of the greatest element, which was negated, is the last one of the table
    b.chain(entries, entries, ("addi", _GREATEST), ("slli", WORD.bit_length() - 1), ("add", own["table"]))
    b.li(total, 0)
    pixel.each(add)
    b("mulhu", total, total, own["factor"])
    b("srli", half, total, 1)
    pixel.each(share, is_last=True)


def _layernorm(pixel: _Pixel) -> None:
    b, own, value, work = pixel.b, pixel.own, pixel.value, pixel.work
    total, mean, squares, places, root, gains, offsets = pixel.registers

    def square() -> None:
        b.chain(value, value, ("sub", mean), ("mul", value))
        b("add", squares, squares, value)

    def improve() -> None:
        b.chain(work, root, ("mulhu", root), ("mulhu", squares))
        b("sub", work, value, work)
        b("slli", work, work, 2)
        b.chain(root, root, ("mulhu", work), ("slli", 1))

    def result() -> None:
        b.chain(value, value, ("sub", mean), ("mul", own["channels"]), ("sub", total), ("sll", places))
        b.chain(value, value, ("mulhsu", root), ("slli", 2))
        b.load(work, gains, WORD)
        b("mulh", value, value, work)
        b.load(work, offsets, WORD)
        b.chain(value, value, ("add", work), ("sra", own["shift"]))

    b.clear([total, squares])
    pixel.each(lambda: b("add", total, total, value))
    b("div", mean, total, own["channels"])
    pixel.each(square)
    # what remains of the sum, and the variance times the square of the channels, 1 instead of 0
    b("mul", work, mean, own["channels"])
    b("sub", total, total, work)
    b("mul", squares, squares, own["channels"])
    b("mul", work, total, total)
    b.chain(squares, squares, ("sub", work), *[("sll", own["places"])] * 2, ("add", own["epsilon"]))
    b("sltiu", work, squares, 1)
    b("add", squares, squares, work)
    b("addi", places, own["places"], _DIFFERENCE_PLACES)
    b("srli", work, squares, _ROOT_PLACES)
    with b.skipped("bne", work, ZERO):
        start = Label(b.position)
        b("slli", squares, squares, 2)
        b("addi", places, places, 1)
        b("srli", work, squares, _ROOT_PLACES)
        b.branch("beq", work, ZERO, start)
    b.li(root, _ROOT)
    b.li(value, 3 << _ROOT_PLACES - 2)
    b.repeat(_ROOT_STEPS, pixel.counter, improve, level=0)
    b.mv(gains, own["gains"])
    b.mv(offsets, own["offsets"])
    pixel.each(result, is_last=True)


def pixel_kernel(request: KernelRequest) -> KernelRun:
    layer, precision, maps = request.layer, request.precision, PlacedMaps(request, BYTE_BITS)
    pixels = layer.height * layer.width
    structure, names, code, registers = _KERNELS[type(layer)]
    arguments = {"input": maps.place("input", request.tensors.activations, BYTE_BITS)}
    arguments["output"] = maps.reserve("output", pixels, BYTE_BITS)
    for name in names:
        value: Ints | int = getattr(layer if name == "places" else request.tensors, name)
        arguments[name] = value if isinstance(value, int) else request.memory.place(name, pack_words(value, XLEN))
    arguments |= {"channels": layer.channels, "gap": maps.padded - layer.channels, "steps": pixels}

    def step(b: ElementBuilder, own: Mapping[str, int], *work: int) -> None:
        code(_Pixel((precision.x_signed, precision.y_signed), b, own, *work))

    moved, held = {"input": maps.padded, "output": maps.padded}, (*names, "channels", "gap")
    write = partial(shared_loop, request.level, structure, moved, held, registers, step)
    return request.finish(type(layer).__name__.removesuffix("Layer").lower(), structure, arguments, write)


_KERNELS: Mapping[type, tuple[Structure, tuple[str, ...], Callable[[_Pixel], None], int]] = {
    SoftmaxLayer: (SOFTMAX_ARGUMENTS, ("table", "factor", "summand"), _softmax, 7),
    LayerNormLayer: (LAYERNORM_ARGUMENTS, ("gains", "offsets", "epsilon", "shift", "places"), _layernorm, 11),
}
_element = partial(
    element_kernel,
    usual="4x64x64",
    write=pixel_kernel,
    random_text=lambda rng: random_sizes(rng, 3, 6, 20),
    variants={name: replace(level, widths=frozenset({BYTE_BITS})) for name, level in TRANSPOSE_LEVELS.items()},
    usual_variants=tuple(TRANSPOSE_LEVELS),
    samples=("2x3x5",),
)
SOFTMAX = _element(
    name="softmax",
    help="share of each channel's exponential in the sum of those of its pixel",
    layer=SoftmaxLayer,
    random=_random_softmax,
    structures=(SOFTMAX_ARGUMENTS,),
)
LAYERNORM = _element(
    name="layernorm",
    help="channels of each pixel less their mean, divided by their deviation, scaled",
    layer=LayerNormLayer,
    random=_random_layernorm,
    structures=(LAYERNORM_ARGUMENTS,),
)
