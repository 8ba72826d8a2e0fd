"""Element-wise sum of two feature maps, and ReLU, a word of elements at a time.

The sum scales both summands and clips them to 8 bits first. As an element has few values, a table for each map holds
the scaled values, so that any scaling is possible. The alternative, a shifted sum, multiplies each map by a factor,
adds both products and a summand, and shifts the total.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn_sw.kernels.builder import WORD, ZERO
from xpulpnn_sw.kernels.channelwise import maps as map_kernels
from xpulpnn_sw.kernels.channelwise.maps import ARGUMENT_REGISTERS, ElementBuilder, Packed, PlacedMaps
from xpulpnn_sw.kernels.frame import FreeRegisters
from xpulpnn_sw.kernels.kernel import ArgumentField, KernelRequest, KernelRun, Known, argument_structure
from xpulpnn_sw.kernels.layout import Ints, Program, Words, pack_words
from xpulpnn_sw.kernels.terms import Argument, Name, even_share, given
from xpulpnn_sw.kernels.variants import PLAIN_LEVELS, ElementLevel
from xpulpnn_sw.layers.layer import AddLayer, ReluLayer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.layers.text import random_sizes

_UNROLLED = 4  # words per iteration, enough to avoid load-use stalls

RELU_ARGUMENTS = argument_structure(
    "relu",
    ArgumentField("input", "feature map", pointer=True),
    ArgumentField("output", "results, may be the input", pointer=True),
    ArgumentField("words", "words of the map"),
    notes="Elements are signed; the output may be the input.",
)


def relu_kernel(request: KernelRequest) -> KernelRun:
    layer, precision, tensors, level = request.layer, request.precision, request.tensors, request.level
    maps = PlacedMaps(request, precision.x)
    pixels = layer.height * layer.width
    arguments = {
        "input": maps.place("input", tensors.activations, precision.x),
        "output": maps.reserve("output", pixels, precision.y),
        "words": pixels * maps.pixel_bytes(precision.x) // WORD,
    }
    return request.finish("relu", RELU_ARGUMENTS, arguments, lambda known: _write(level, precision.x, known))


def _write(level: ElementLevel, bits: int, known: Known) -> Program:
    b, registers = ElementBuilder(level), FreeRegisters()
    registers.take(len(ARGUMENT_REGISTERS))
    source, target, turns, rest = registers.take(4)
    words = registers.take(_UNROLLED)
    packed = Packed(b, bits, registers, signed=True)
    # arguments are loaded first to avoid load-use stalls
    terms = {
        **given("words", "input", "output"),
        **even_share(Name("words")),
        "offset": Name("begin") * WORD,
        "source": Name("input") + Name("offset"),
        "target": Name("output") + Name("offset"),
        "turns": Name("count") // _UNROLLED,
        "rest": Name("count") & (_UNROLLED - 1),
    }
    homes = {"source": source, "target": target, "turns": turns, "rest": rest, "input": source, "output": target}
    # these numbers are dead in the loop
    homes |= dict(zip(("words", "piece", "begin", "count"), words, strict=True))
    frame = b.frame(RELU_ARGUMENTS, known, terms, homes, registers, ("offset",))

    def several(count: int) -> None:
        for word in words[:count]:
            b.load(word, source, WORD)
        for word in words[:count]:
            packed.relu(word, word)
        for word in words[:count]:
            b.store(word, target, WORD)

    with frame.function(), b.region("body"):
        packed.begin()
        b.repeat(frame.value("turns", turns), turns, lambda: several(_UNROLLED), level=0)
        b.repeat(frame.value("rest", rest), rest, lambda: several(1), level=0)
    return b.finish()


_MAPS = (
    ArgumentField("first", "one feature map", pointer=True),
    ArgumentField("second", "the other feature map", pointer=True),
    ArgumentField("output", "results", pointer=True),
)
_STEPS = ArgumentField("steps", "elements of a map, divided by the elements of a word of the widest map")
ADD_ARGUMENTS = argument_structure(
    "add",
    *_MAPS,
    ArgumentField("first_table", "scaled values of the first map's elements, a byte each", pointer=True),
    ArgumentField("second_table", "scaled values of the second map's elements, a byte each", pointer=True),
    _STEPS,
    notes="""\
Pixels of both maps and the result have as many channels as the narrowest needs for whole words. Width and sign of
weights in the name are those of the second map. A table has a byte for each bit pattern of an element.""",
)
ADD_SHIFT_ARGUMENTS = argument_structure(
    "add_shift",
    *_MAPS,
    ArgumentField("first_factor", "factor of the first map"),
    ArgumentField("second_factor", "factor of the second map"),
    ArgumentField("summand", "added to both products"),
    ArgumentField("shift", "right shift of the sum"),
    _STEPS,
    notes="clip((first_factor * a + second_factor * b + summand) >> shift); otherwise as add.",
)

# largest random factor of bytes, with which sums reach the ends of their range
_GREATEST_FACTOR = (1 << BYTE_BITS) * 4 // 3


@dataclass(frozen=True, slots=True)
class Scale:
    factor: int
    summand: int
    shift: int


@dataclass(frozen=True, eq=False, kw_only=True)
class AddTensors:
    first: Ints  # one map, `[height][width][channel]`
    second: Ints  # the other map
    # scales of both maps; scaled elements are clipped to 8 bits with the sign of the results
    scales: tuple[Scale, Scale]
    factors: tuple[int, int]  # factors of the elements if the sum is shifted
    shift: int  # right shift of the shifted sum
    summand: int = 0
    grouped: bool = False  # whether all maps are interleaved groups of pixels
    from_groups: bool = False


def random_add(layer: AddLayer, precision: Precision, rng: np.random.Generator) -> AddTensors:
    operands = ((precision.x, precision.x_signed), (precision.w, precision.w_signed))
    maps: list[Ints] = []
    scales: list[Scale] = []
    factors: list[int] = []
    # a sum of two elements has half a bit more than an element; the factors compensate different widths
    shift = 2 * BYTE_BITS - precision.y
    for bits, signed in operands:
        maps.append(map_kernels.random_elements(layer, bits, rng, signed=signed))
        factor = int(rng.integers(1 << BYTE_BITS, _GREATEST_FACTOR)) << (BYTE_BITS - bits)
        quarter = 1 << shift + precision.y - 1
        offset = {(True, False): quarter // 2, (False, True): -quarter // 2}.get((signed, precision.y_signed), 0)
        scales.append(Scale(factor, offset + int(rng.integers(1 << shift, 2 << shift)), shift + 1))
        factors.append(factor)
    return AddTensors(
        first=maps[0],
        second=maps[1],
        scales=(scales[0], scales[1]),
        factors=(factors[0], factors[1]),
        shift=shift + 1,
        # rounding, plus or minus half a step
        summand=int(rng.integers(-1 << shift, 2 << shift)),
    )


def add_table(scale: Scale, bits: int, *, signed: bool, result_signed: bool) -> Words:
    """Return the scaled values of all elements of ``bits`` bits, indexed by bit pattern and packed into words."""
    patterns: NDArray[np.int64] = np.arange(1 << bits)
    elements = np.where(patterns >> (bits - 1) > 0, patterns - (1 << bits), patterns) if signed else patterns
    least = -(1 << (BYTE_BITS - 1)) if result_signed else 0
    results = np.clip(elements * scale.factor + scale.summand >> scale.shift, least, least + (1 << BYTE_BITS) - 1)
    return pack_words(results, BYTE_BITS)


def add_kernel(request: KernelRequest) -> KernelRun:
    layer, precision, tensors, level = request.layer, request.precision, request.tensors, request.level
    memory = request.memory
    widths = (precision.x, precision.w, precision.y)
    maps = PlacedMaps(request, *widths)
    pixels = layer.height * layer.width
    arguments = {
        "first": maps.place("first", tensors.first, precision.x),
        "second": maps.place("second", tensors.second, precision.w),
        "output": maps.reserve("output", pixels, precision.y),
        "steps": pixels * maps.padded * max(widths) // XLEN,
    }
    if layer.shifted:
        arguments |= zip(("first_factor", "second_factor"), tensors.factors, strict=True)
        arguments |= {"summand": tensors.summand, "shift": tensors.shift}
    else:
        for operand, scale, bits, signed in (
            ("first_table", tensors.scales[0], precision.x, precision.x_signed),
            ("second_table", tensors.scales[1], precision.w, precision.w_signed),
        ):
            table = add_table(scale, bits, signed=signed, result_signed=precision.y_signed)
            arguments[operand] = memory.place(operand, table)
    name, structure = ("add_shift", ADD_SHIFT_ARGUMENTS) if layer.shifted else ("add", ADD_ARGUMENTS)
    run = request.finish(name, structure, arguments, _Addition(level, precision, shifted=layer.shifted).write)
    return replace(run, output=replace(run.output, grouped=tensors.grouped))


class _Addition:
    def __init__(self, level: ElementLevel, precision: Precision, *, shifted: bool) -> None:
        self._b, self._precision, self._shifted = ElementBuilder(level), precision, shifted
        self._registers = FreeRegisters()
        self._registers.take(len(ARGUMENT_REGISTERS))
        take = self._registers.take
        self._pointers, self._words, self._count = take(3), take(2), take(1)[0]
        self._scales, self._shift, self._out = take(2), take(1)[0], take(1)[0]
        self._firsts, self._seconds, self._work = take(2), take(2), take(1)[0]
        self._summand: int | None = None
        self._requantises = level.requantises

    def write(self, known: Known) -> Program:
        b, precision = self._b, self._precision
        lanes = XLEN // max(precision.x, precision.w, precision.y)
        parts = [lanes * bits for bits in (precision.x, precision.w, precision.y)]
        names = ("first", "second", "output")
        terms = even_share(Argument("steps"))
        terms |= {
            name: Argument(name) + Name("begin") * (part // BYTE_BITS) for name, part in zip(names, parts, strict=True)
        }
        homes = dict(zip(names, self._pointers, strict=True)) | {"count": self._count}
        scales = ("first_factor", "second_factor") if self._shifted else ("first_table", "second_table")
        homes |= dict(zip(scales, self._scales, strict=True))
        terms |= given(*scales)
        if self._shifted:
            terms |= given("summand", "shift")
            homes["shift"] = self._shift
            if not self._requantises and known.get("summand") != 0:
                self._summand = homes["summand"] = self._registers.take_one()
        structure = ADD_SHIFT_ARGUMENTS if self._shifted else ADD_ARGUMENTS
        # each core copies tables of one word to its stack to avoid bank conflicts
        tables = zip(scales, self._scales, (precision.x, precision.w), strict=True)
        small = {name: table for name, table, bits in tables if BYTE_BITS << bits == XLEN and not self._shifted}
        terms |= {f"own_{name}": Argument(name) for name in small}
        frame = b.frame(structure, known, terms, homes, self._registers)
        with frame.function():
            for name, table in small.items():
                b.load(self._work, table)
                frame.store(f"own_{name}", self._work)
                frame.address(f"own_{name}", table)
            if self._requantises:
                summand = frame.value("summand", self._out) if self._shifted else 0
                b.set_requantiser(1, summand, self._work)
            with b.region("body"):
                b.repeat(frame.value("count", self._count), self._count, lambda: self._step(parts, lanes), level=0)
        return b.finish()

    def _step(self, parts: list[int], lanes: int) -> None:
        b, precision = self._b, self._precision
        first_part, second_part, out_part = parts
        for word, pointer, part in zip(self._words, self._pointers, (first_part, second_part), strict=False):
            b.load(word, pointer, part // BYTE_BITS, bits=part)
        pairs = [*zip(self._firsts, self._seconds, strict=True)]
        for lane in range(0, lanes, 2):
            self._elements(lane)
            for value, other in pairs:
                if self._shifted:
                    b("mul", value, value, self._scales[0])
                if not self._requantises:
                    self._sum(value, other)
            # with ``pv.rq`` sums follow later, apart from the instructions that compute their operands
            for number, (value, other) in enumerate(pairs, lane):
                if self._requantises:
                    self._sum(value, other)
                    shift = self._shift if self._shifted else ZERO
                    b.requantise(self._out, value, shift, number, precision.y, signed=precision.y_signed)
                    continue
                target = value if number else self._out
                b.clip(target, value, precision.y, self._work, signed=precision.y_signed)
                b.insert(self._out, target, precision.y, number * precision.y)
        b.store(self._out, self._pointers[2], out_part // BYTE_BITS, bits=out_part)

    def _elements(self, lane: int) -> None:
        b, precision = self._b, self._precision
        maps = (
            (self._words[0], self._firsts, precision.x, precision.x_signed),
            (self._words[1], self._seconds, precision.w, precision.w_signed),
        )
        for number in range(2):
            for word, values, bits, signed in maps:
                b.extract(values[number], word, bits, (lane + number) * bits, signed=signed and self._shifted)
        for table, (_, values, _, _) in zip(self._scales, maps if not self._shifted else (), strict=False):
            for value in values:
                b.load_at(value, table, value, self._work, bits=BYTE_BITS, signed=precision.y_signed)

    def _sum(self, value: int, other: int) -> None:
        if not self._shifted:
            self._b("add", value, value, other)
            return
        self._b.accumulate(value, other, self._scales[1], self._work)
        if self._summand is not None:
            self._b("add", value, value, self._summand)
        if not self._requantises:
            self._b("sra", value, value, self._shift)


RELU = map_kernels.same_kernel(
    name="relu",
    help="negative elements become 0",
    layer=ReluLayer,
    usual="16x16x32",
    write=relu_kernel,
    variants=PLAIN_LEVELS,
    uniform=lambda bits: Precision(bits, bits, bits, x_signed=True, y_signed=True),
    random=map_kernels.random_maps,
    structures=(RELU_ARGUMENTS,),
)

ADD = map_kernels.element_kernel(
    name="add",
    help="sum of two feature maps, each scaled",
    layer=AddLayer,
    usual="16x16x32",
    write=add_kernel,
    random=random_add,
    random_text=lambda rng: random_sizes(rng, 5, 5, 2 * map_kernels.MOST_CHANNELS) + rng.choice(("", ":shift")),
    structures=(ADD_ARGUMENTS, ADD_SHIFT_ARGUMENTS),
    samples=("4x4x4", "4x4x4:shift"),
)
