"""Layers of elements by themselves: ``gather`` by a table of indices, ``lookup`` by a table of values, ``multiply``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.channelwise import maps as map_kernels
from xpulpnn_sw.kernels.channelwise.maps import ARGUMENT_REGISTERS, ElementBuilder, MapTensors, PlacedMaps
from xpulpnn_sw.kernels.frame import FreeRegisters
from xpulpnn_sw.kernels.kernel import ArgumentField, KernelRequest, KernelRun, Known, Structure, argument_structure
from xpulpnn_sw.kernels.layout import Ints, Program, pack_words, pad_axis, padded_channels
from xpulpnn_sw.kernels.terms import Argument, Name, Term, even_share, given
from xpulpnn_sw.kernels.variants import TRANSPOSE_LEVELS, ElementLevel
from xpulpnn_sw.layers.layer import GatherLayer, LookupLayer, MultiplyLayer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.layers.text import random_sizes

PRODUCT_BITS = 24  # a product and its factor are shifted right by so many bits
_AT_ONCE = 4  # elements whose loads follow each other, to avoid load-use stalls
_SHORT, _LONG = 16, 32  # bits of an index
_FACTORS = ("first_zero", "second_zero", "factor", "summand", "shift")

_OUTPUT = ArgumentField("output", "results", pointer=True)
_STEPS = ArgumentField("steps", "elements of the results, divided by the elements of a word of the widest map")
GATHER_ARGUMENTS = argument_structure(
    "gather",
    ArgumentField("input", "feature map", pointer=True),
    _OUTPUT,
    ArgumentField("indices", "number of the input element for each result, with those that fill words", pointer=True),
    ArgumentField("start", "word of the results to which the first result belongs"),
    _STEPS,
    notes="Indices have 16 bits if the input has up to 65536 elements, with those that fill words, else 32 bits.",
)
LOOKUP_ARGUMENTS = argument_structure(
    "lookup",
    ArgumentField("input", "feature map", pointer=True),
    _OUTPUT,
    ArgumentField("table", "result for each bit pattern of an element, a byte each", pointer=True),
    _STEPS,
    notes="Pixels of the map and the results have as many channels as the narrower needs for whole words.",
)
MULTIPLY_ARGUMENTS = argument_structure(
    "multiply",
    ArgumentField("first", "one feature map", pointer=True),
    ArgumentField("second", "the other feature map", pointer=True),
    _OUTPUT,
    *(ArgumentField(name, f"the {name.replace('_', ' ')}") for name in _FACTORS),
    _STEPS,
    notes="""\
clip(((((a - first_zero) * (b - second_zero) << 8) * factor >> 32) + summand) >> shift); pixels as of add. Width and
sign of weights in the name are those of the second map.""",
)


@dataclass(frozen=True, eq=False, kw_only=True)
class GatherTensors(MapTensors):
    indices: Ints  # number of the input element of each result, `[row][column][channel]`


@dataclass(frozen=True, eq=False, kw_only=True)
class LookupTensors(MapTensors):
    table: Ints  # result for each bit pattern of an element


@dataclass(frozen=True, eq=False, kw_only=True)
class MultiplyTensors:
    first: Ints  # one map, `[height][width][channel]`
    second: Ints  # the other map
    zeros: Ints  # subtracted from the elements of both maps
    factor: int  # less than 2^31
    summand: int
    shift: int
    twice: int = 0  # of matrix products: not 0 if upper words are rounded by a bit first, and halves away from zero


def _random_gather(layer: GatherLayer, precision: Precision, rng: np.random.Generator) -> GatherTensors:
    activations = map_kernels.random_elements(layer, precision.x, rng, signed=precision.x_signed)
    return GatherTensors(
        activations=activations, indices=rng.integers(0, activations.size, (*layer.out_shape, layer.out_channels))
    )


def _random_lookup(layer: LookupLayer, precision: Precision, rng: np.random.Generator) -> LookupTensors:
    least = -(1 << (precision.y - 1)) if precision.y_signed else 0
    table = rng.integers(least, least + (1 << precision.y), 1 << precision.x)
    return LookupTensors(activations=map_kernels.random_maps(layer, precision, rng).activations, table=table)


def random_product(layer: Any, precision: Precision, rng: np.random.Generator) -> MultiplyTensors:
    maps = ((precision.x, precision.x_signed), (precision.w, precision.w_signed))
    first, second = (map_kernels.random_elements(layer, bits, rng, signed=signed) for bits, signed in maps)
    shift = int(rng.integers(4, 14))
    # results reach the ends of their range
    most = 1 << PRODUCT_BITS + min(shift - (precision.x + precision.w - precision.y), 6)
    numbers = {"factor": int(rng.integers(most // 2, most)), "summand": int(rng.integers(1 << shift)), "shift": shift}
    return MultiplyTensors(first=first, second=second, zeros=rng.integers(-3, 4, 2), **numbers)


def shared_loop(
    level: ElementLevel,
    structure: Structure,
    moved: Mapping[str, int | Term],
    held: Sequence[str],
    work: int,
    step: Callable[..., None],
    known: Known,
    more: dict[str, Term] | None = None,
) -> Program:
    """Return a function that repeats ``step`` with registers by name, or the frame of ``more``, and ``work`` others."""
    b, registers = ElementBuilder(level), FreeRegisters()
    registers.take(len(ARGUMENT_REGISTERS))
    names = (*moved, *held, "count")
    homes = dict(zip(names, registers.take(len(names)), strict=True))
    others = registers.take(work)
    starts = {name: Name("begin") * size if isinstance(size, int) else size for name, size in moved.items()}
    terms = even_share(Argument("steps")) | {name: Argument(name) + start for name, start in starts.items()}
    frame = b.frame(structure, known, terms | given(*held) | (more or {}), homes, registers)
    count, body = frame.value("count", homes["count"]), partial(step, b, frame if more else homes, *others)
    with frame.function(), b.region("body"):
        b.repeat(count, homes["count"], body, level=None if more else 1)
    return b.finish()


def gather_kernel(request: KernelRequest) -> KernelRun:
    layer, bits, tensors = request.layer, request.precision.x, request.tensors
    maps, outputs = PlacedMaps(request, bits), padded_channels(layer.out_channels, bits)
    rows, elements = np.divmod(tensors.indices, layer.channels)
    places = pad_axis(rows * maps.padded + elements, 2, outputs)
    size = _SHORT if layer.height * layer.width * maps.padded <= 1 << _SHORT else _LONG
    lanes, pack = XLEN // bits, BYTE_BITS // bits
    arguments = {
        "input": maps.place("input", tensors.activations, bits),
        "output": request.memory.reserve("output", places.size * bits // BYTE_BITS),
        "indices": request.memory.place("indices", pack_words(places.reshape(-1), size)),
        "start": 0,
        "steps": places.size // lanes,
    }

    def step(b: ElementBuilder, own: Mapping[str, int], word: int, work: int, *values: int) -> None:
        indices = values[_AT_ONCE:]
        for first in range(0, lanes, _AT_ONCE):
            for index in indices:
                b.load(index, own["indices"], size // BYTE_BITS, bits=size)
            for index, value in zip(indices, values, strict=False):
                if pack > 1:
                    b("srli", value, index, pack.bit_length() - 1)
                b.load_at(value, own["input"], index if pack == 1 else value, work, bits=BYTE_BITS)
            for number, (index, value) in enumerate(zip(indices, values, strict=False), first):
                if pack > 1:
                    b.chain(index, index, ("andi", pack - 1), ("slli", bits.bit_length() - 1))
                    b("srl", value, value, index)
                b.insert(word, value, bits, number * bits)
        b.store(word, own["output"], WORD)

    table = (Name("begin") + Argument("start")) * (lanes * size // BYTE_BITS)
    pieces = {"output": WORD, "indices": table}
    write = partial(shared_loop, request.level, GATHER_ARGUMENTS, pieces, ("input",), 2 * _AT_ONCE + 2, step)
    return request.finish(f"gather_{size}", GATHER_ARGUMENTS, arguments, write)


def lookup_kernel(request: KernelRequest) -> KernelRun:
    layer, precision, tensors = request.layer, request.precision, request.tensors
    maps, pixels = PlacedMaps(request, precision.x, precision.y), layer.height * layer.width
    lanes = XLEN // max(precision.x, precision.y)
    read, written = lanes * precision.x, lanes * precision.y
    arguments = {
        "input": maps.place("input", tensors.activations, precision.x),
        "output": maps.reserve("output", pixels, precision.y),
        "table": request.memory.place("table", pack_words(tensors.table, BYTE_BITS)),
        "steps": pixels * maps.padded // lanes,
    }

    def step(b: ElementBuilder, own: Mapping[str, int], word: int, out: int, work: int, *values: int) -> None:
        b.load(word, own["input"], read // BYTE_BITS, bits=read)
        for first in range(0, lanes, _AT_ONCE):
            for number, value in enumerate(values, first):
                b.extract(value, word, precision.x, number * precision.x, signed=False)
            for value in values:
                b.load_at(value, own["table"], value, work, bits=BYTE_BITS)
            for number, value in enumerate(values, first):
                b.insert(out, value, precision.y, number * precision.y)
        b.store(out, own["output"], written // BYTE_BITS, bits=written)

    pieces = {"input": read // BYTE_BITS, "output": written // BYTE_BITS}
    write = partial(shared_loop, request.level, LOOKUP_ARGUMENTS, pieces, ("table",), _AT_ONCE + 3, step)
    return request.finish("lookup", LOOKUP_ARGUMENTS, arguments, write)


def multiply_kernel(request: KernelRequest) -> KernelRun:
    layer, precision, tensors = request.layer, request.precision, request.tensors
    widths = {"first": precision.x, "second": precision.w, "output": precision.y}
    maps, pixels = PlacedMaps(request, *widths.values()), layer.height * layer.width
    lanes = XLEN // max(widths.values())
    arguments = {name: maps.place(name, getattr(tensors, name), widths[name]) for name in ("first", "second")}
    arguments["output"] = maps.reserve("output", pixels, precision.y)
    numbers = (*map(int, tensors.zeros), tensors.factor, tensors.summand, tensors.shift)
    arguments |= dict(zip(_FACTORS, numbers, strict=True)) | {"steps": pixels * maps.padded // lanes}
    signs = (precision.x_signed, precision.w_signed)

    def step(b: ElementBuilder, own: Mapping[str, int], out: int, work: int, *registers: int) -> None:
        words, pairs = registers[:2], (registers[2:4], registers[4:])
        for word, (name, bits) in zip(words, widths.items(), strict=False):
            b.load(word, own[name], lanes * bits // BYTE_BITS, bits=lanes * bits)
        for lane in range(0, lanes, 2):
            for word, values, (name, bits), signed in zip(words, pairs, widths.items(), signs, strict=False):
                for number, value in enumerate(values, lane):
                    b.extract(value, word, bits, number * bits, signed=signed)
                    b("sub", value, value, own[f"{name}_zero"])
            for number, (value, other) in enumerate(zip(*pairs, strict=True), lane):
                b.chain(value, value, ("mul", other), ("slli", XLEN - PRODUCT_BITS), ("mulh", own["factor"]))
                b.chain(value, value, ("add", own["summand"]), ("sra", own["shift"]))
                target = value if number else out
                b.clip(target, value, precision.y, work, signed=precision.y_signed)
                b.insert(out, target, precision.y, number * precision.y)
        b.store(out, own["output"], lanes * precision.y // BYTE_BITS, bits=lanes * precision.y)

    pieces = {name: lanes * bits // BYTE_BITS for name, bits in widths.items()}
    write = partial(shared_loop, request.level, MULTIPLY_ARGUMENTS, pieces, _FACTORS, 8, step)
    return request.finish("multiply", MULTIPLY_ARGUMENTS, arguments, write)


_MOST = map_kernels.MOST_CHANNELS
_element = partial(
    map_kernels.element_kernel,
    variants=TRANSPOSE_LEVELS,
    usual_variants=tuple(TRANSPOSE_LEVELS),
    usual="16x16x32",
    random_text=lambda rng: random_sizes(rng, 5, 5, 2 * _MOST),
)
GATHER = _element(
    name="gather",
    help="elements of a map in another order, some of them or some several times",
    layer=GatherLayer,
    usual="16x16x32:16x16x32",
    write=gather_kernel,
    precision=map_kernels.same_elements,
    random=_random_gather,
    random_text=lambda rng: f"{random_sizes(rng, 5, 5, _MOST)}:{random_sizes(rng, 5, 5, _MOST)}",
    structures=(GATHER_ARGUMENTS,),
    samples=("4x4x4:4x4x4", "256x257x1:1x1x4"),
)
LOOKUP = _element(
    name="lookup",
    help="any function of each element, by a table",
    layer=LookupLayer,
    write=lookup_kernel,
    random=_random_lookup,
    structures=(LOOKUP_ARGUMENTS,),
)
MULTIPLY = _element(
    name="multiply",
    help="product of two feature maps without their zero points",
    layer=MultiplyLayer,
    write=multiply_kernel,
    random=random_product,
    structures=(MULTIPLY_ARGUMENTS,),
)
