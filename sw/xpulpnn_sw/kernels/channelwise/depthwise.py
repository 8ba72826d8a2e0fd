"""Depthwise convolution kernels and their random operands, and code without a row buffer.

The code without a buffer is for one layer, whose map ``[channel][row][column]`` holds bytes. Words of four columns are
loaded from even columns of the map. If a receptive field begins one column after its words or left of the map, the
weights are shifted by a byte. Weights right of the map are cleared, and rows above and below it are skipped. If the
value around the map is not 0, it is inserted into the words instead, and is a word of the rows above and below. Results
are computed down the columns, two columns together if they use the same words, and words that the result above has
loaded are reused. Each core computes some of the channels.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, WORD_MASK
from xpulpnn_sw.kernels import kernel
from xpulpnn_sw.kernels import requantisation as rules
from xpulpnn_sw.kernels.builder import WORD, ZERO, Held, fits_immediate
from xpulpnn_sw.kernels.channelwise.depthwise_channel import ChannelResults, parameter_bytes, rows_stride
from xpulpnn_sw.kernels.channelwise.depthwise_code import DepthwiseCode
from xpulpnn_sw.kernels.channelwise.maps import ElementBuilder, PlacedMaps, map_kernel, random_window_text
from xpulpnn_sw.kernels.frame import FreeRegisters
from xpulpnn_sw.kernels.kernel import ArgumentField, KernelRequest, KernelRun, Known, Structure
from xpulpnn_sw.kernels.layout import GROUPED_PIXELS, Program, pack_words, repeated
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.tensors import random_tensors
from xpulpnn_sw.kernels.terms import Argument, Name, Term, even_share, given
from xpulpnn_sw.kernels.variants import Level
from xpulpnn_sw.layers.layer import DepthwiseLayer
from xpulpnn_sw.layers.precision import Precision

_ROWS = _COLUMNS = 3  # size of the filters; narrower ones are padded with zeros
_STEP = 2  # longest step, and bytes between neighbouring words
_MOST_IDLE = 2  # fewest channels for each that cores compute in vain


class _Column(NamedTuple):
    place: int  # first column of the words that it uses
    weight_shift: int  # bytes by which weights are shifted, left if positive
    is_cut: bool  # whether the filter reaches beyond the map


def _columns(layer: DepthwiseLayer) -> list[list[_Column]]:
    columns: list[_Column] = []
    for x in range(layer.out_width):
        first = x * layer.stride[1] - layer.padding[2]
        place = max(first, 0) // _STEP * _STEP
        columns.append(_Column(place, first - place, first + _COLUMNS > layer.width))
    return [list(group) for _, group in groupby(columns, lambda column: (column.place, column.weight_shift < 0))]


def computes_in_place(layer: DepthwiseLayer, precision: Precision, level: Level, rule: Rule | None) -> bool:
    """Return whether :class:`InPlaceCode` can compute a layer: bytes, filters of three rows, padding of at most 1."""
    if not getattr(level, "requantises", False) or rule not in (Rule.BN32, Rule.EXACT):
        return False
    top, _, left, _ = layer.padding
    sides = zip((layer.height, layer.width), layer.out_shape, layer.stride, (top, left), strict=True)
    overhang = [(count - 1) * step - before + _ROWS - size for size, count, step, before in sides]
    return (
        precision.x == precision.y == BYTE_BITS
        and layer.kernel_height == _ROWS
        and layer.kernel_width <= _COLUMNS
        and max(layer.stride) <= _STEP
        and max(top, left, *overhang) <= 1
        and fits_immediate(-(-layer.width // WORD) * WORD)
    )


class InPlaceCode:
    def __init__(self, request: KernelRequest, structure: Structure, known: Known, rule: Rule) -> None:
        self._layer: DepthwiseLayer = request.layer
        self._b, self._precision = ElementBuilder(request.level), request.precision
        self._row_bytes = known["row_bytes"]
        self._channel_bytes = -(-self._layer.height * self._row_bytes // WORD) * WORD
        self._pixel, self._in_groups = known["out_pixel_bytes"], request.tensors.grouped
        self._period = GROUPED_PIXELS if self._in_groups else 1
        registers = FreeRegisters()
        self._work, self._pointer, self._out, parameter, *self._spare = registers.take(7)
        self._outside = registers.take_one() if "outside" in structure.names else None
        self._steps: dict[int, Held] = {}
        self._first, self._moved, self._words = (registers.take(_ROWS) for _ in range(3))
        self._acc, self._results = registers.take(2), registers.take(2)
        self._column, self._target, self._source, self._weights, self._parameters, self._begin = registers.take(6)
        homes = {"source": self._source, "weights": self._weights, "parameters": self._parameters, "out": self._begin}
        begin, filter_bytes = Name("begin"), _ROWS * WORD
        terms: dict[str, Term] = {
            **even_share(Argument("channels")),
            "source": Argument("input") + begin * self._channel_bytes,
            "weights": Argument("weights") + begin * filter_bytes,
            "parameters": Argument("parameters") + begin * parameter_bytes(rule, BYTE_BITS),
            "out": Argument("output") + begin,
        }
        if self._in_groups:
            terms["out"] += begin // WORD * ((GROUPED_PIXELS - 1) * WORD)
        if rule is not Rule.EXACT:
            homes["shift"] = parameter
            terms |= given("shift")
        self._frame = self._b.frame(structure, known, terms, homes, registers, intermediates=("piece", "begin"))
        self._finishing = ChannelResults(self._b, rule, self._precision, parameter, [parameter], [])

    def write(self) -> Program:
        b, frame = self._b, self._frame
        with frame.function(), b.skipped("beq", frame.register("count", self._work), ZERO, is_far=True):
            self._hold_steps()
            if self._outside is not None:
                b.li(self._outside, repeated(self._precision.padding_value(self._layer.outside) & 0xFF, BYTE_BITS))
            with frame.repeated("count", self._work), b.region("body"):
                for register in self._first:
                    b.load(register, self._weights, WORD)
                self._finishing.load(self._parameters)
                b.mv(self._column, self._source)
                b.mv(self._target, self._begin)
                self._channel()
                b.add(self._source, self._channel_bytes, self._work)
                b("addi", self._begin, self._begin, 1)
                if self._in_groups:
                    b("andi", self._work, self._begin, WORD - 1)
                    with b.skipped("bne", self._work, ZERO):
                        b("addi", self._begin, self._begin, (GROUPED_PIXELS - 1) * WORD)
        return b.finish()

    def _place(self, x: int, y: int) -> int:
        groups, pixels = divmod(y * self._layer.out_width + x, self._period)
        return groups * self._period * self._pixel + pixels * WORD

    def _distances(self, x: int, y: int, count: int) -> list[int]:
        places = [*(self._place(x + number, y) for number in range(count)), self._place(x, y + 1)]
        return [after - before for before, after in pairwise(places)]

    def _hold_steps(self) -> None:
        steps, x = Counter[int](), 0
        for group in _columns(self._layer):
            for y in range(self._layer.out_height):
                steps.update(self._distances(x, y, len(group)))
            x += len(group)
        large = [step for step, _ in steps.most_common() if not fits_immediate(step)]
        for step, register in zip(large, self._spare, strict=False):
            self._b.li(register, step)
            self._steps[step] = Held(register)

    def _channel(self) -> None:
        runs = [list(run) for _, run in groupby(_columns(self._layer), lambda group: [column[1:] for column in group])]
        x = 0
        for run, following in pairwise([*runs, None]):
            assert run is not None
            together = run[0]
            weights, width = [self._weights_of(column) for column in together], len(together)

            def write(first: int, count: int, weights: Any = weights, width: int = width, own: Any = together) -> None:
                for left in range(first, first + count * width, width):
                    self._b.mv(self._pointer, self._column)
                    self._b.mv(self._out, self._target)
                    self._down(weights, left, own[0])
                    self._b("addi", self._column, self._column, _STEP)
                    self._b.add(self._target, self._place(left + width, 0) - self._place(left, 0), self._work)

            # groups of columns until results lie in the same place of a group of pixels
            period = self._period // gcd(self._period, width)
            turns = len(run) // period
            if turns > 1:
                with self._b.loop(turns, self._work, level=1):
                    write(x, period)
            looped = turns * period if turns > 1 else 0
            write(x + looped * width, len(run) - looped)
            x += len(run) * width
            if following is not None:
                self._b.add(self._column, following[0][0].place - run[-1][0].place - _STEP, self._work)

    def _weights_of(self, column: _Column) -> list[int]:
        valued = self._outside is not None
        is_cut, shifts = column.is_cut and not valued, max(column.weight_shift, 0 if valued else -1)
        if not shifts and not is_cut:
            return self._first
        for moved, weights in zip(self._moved, self._first, strict=True):
            if is_cut:
                self._b("p.exthz", moved, weights)
            if shifts:
                self._b("slli" if shifts > 0 else "srli", moved, moved if is_cut else weights, BYTE_BITS)
        return self._moved

    def _load(self, word: int, column: _Column) -> None:
        b, outside = self._b, self._outside
        b.load(word, self._pointer, self._row_bytes)
        if outside is None:
            return
        if column.weight_shift < 0:
            b("slli", word, word, BYTE_BITS)
            b("p.inserti", word, outside, BYTE_BITS - 1, 0)
        place = self._layer.width - column.place + (column.weight_shift < 0)
        if place < WORD:
            b("p.inserti", word, outside, BYTE_BITS - 1, place * BYTE_BITS)

    def _down(self, weights: Sequence[list[int]], x: int, column: _Column) -> None:
        b, layer = self._b, self._layer
        results = self._results[: len(weights)]

        def scale() -> None:
            self._finishing.scale(results, self._acc[: len(results)])

        def store(y: int) -> None:
            for result, step in zip(results, self._distances(x, y, len(results)), strict=True):
                is_near = fits_immediate(step) or step in self._steps
                b.store(result, self._out, self._steps.get(step, step) if is_near else 0, bits=BYTE_BITS)
                if not is_near:
                    b.add(self._out, step, self._work)

        def row(y: int) -> None:
            first = y * layer.stride[0] - layer.padding[0]
            inside, rows = range(layer.height), range(first, first + _ROWS)
            for number in rows:
                # other words are those of the result above
                if number in inside and (not y or number >= first + _ROWS - layer.stride[0]):
                    self._load(self._words[number % _ROWS], column)
            rows = [number for number in rows if number in inside or self._outside is not None]
            words = [self._words[number % _ROWS] if number in inside else self._outside or ZERO for number in rows]
            # requantised some instructions after the products, which avoids a stall
            if y:
                scale()
            for accumulator, factors in zip(self._acc, weights, strict=False):
                self._finishing.multiply(accumulator, words, [factors[number - first] for number in rows])
            if y:
                store(y - 1)

        # rows with complete filters repeat in turns, after which words are in the same registers again and results in
        # the same place of a group of pixels
        last = layer.out_height
        is_short = (last - 1) * layer.stride[0] - layer.padding[0] + _ROWS > layer.height
        period = _ROWS * (self._period // gcd(self._period, layer.out_width))
        turns = (last - 1 - is_short) // period
        turns = turns if turns > 1 else 0
        row(0)
        if turns:
            with b.loop(turns, self._work, level=0):
                for y in range(1, 1 + period):
                    row(y)
        for y in range(1 + turns * period, last):
            row(y)
        scale()
        store(last - 1)


_MOST_HELD = 3  # largest height and width of filters held in registers
_LONGEST_STEP = 2  # longest step of filters of so many rows
_READ_AHEAD = 2  # words behind the input that may be read

DEPTHWISE_ARGUMENTS = kernel.argument_structure(
    "depthwise",
    ArgumentField("input", "activations, a feature map channel by channel", pointer=True),
    ArgumentField("weights", "filter rows, each of whole words of bytes", pointer=True),
    ArgumentField(
        "parameters",
        "for each channel lambda, which includes the bias, and kappa; by rules other than bn32, with pv.rq other than "
        "bn32, multiply and shift, the bias and the parameters of the rule",
        pointer=True,
    ),
    ArgumentField("output", "results", pointer=True),
    ArgumentField("buffer", "row buffers of all cores, core 0 first", pointer=True),
    ArgumentField("buffer_stride", "bytes between the row buffers of two cores"),
    ArgumentField("channels", "channels"),
    ArgumentField("row_bytes", "bytes from one input row to the next"),
    ArgumentField("out_pixel_bytes", "bytes of an output pixel"),
    kernel.SHIFT,
    *kernel.SIZES,
    *kernel.OUT_SIZES,
    *kernel.WINDOW,
    ArgumentField("pad_right", "zero columns right of the input"),
    notes="""\
The input is [channel][row][column], each row of whole words; two words behind it may be read. The output is
[row][column][channel]. weights, parameters: as `xpulpnn pack` lays them out. Filters Kx3_s1 are for K rows, at most 3
columns and steps of one column, 3x3_s2 for 3 rows and steps of two columns; functions without either are for all other
filters. Buffer: buffer_stride for each core, a row of whole words for each row of the padded input, and 32 bytes.""",
)
DEPTHWISE_OUTSIDE_ARGUMENTS = kernel.with_outside(DEPTHWISE_ARGUMENTS)


def depthwise_kernel(request: KernelRequest) -> KernelRun:
    """Return a depthwise convolution of ``input`` (CHW) to ``output`` (HWC) with a row ``buffer`` per core."""
    layer, precision, tensors, level = request.layer, request.precision, request.tensors, request.level
    tensors.check(layer, precision)
    if not level.requantises:
        tensors = tensors.in_software(precision)
    outside = precision.padding_value(layer.outside)
    is_valued = outside != precision.outside and any(layer.padding)
    structure = DEPTHWISE_OUTSIDE_ARGUMENTS if is_valued else DEPTHWISE_ARGUMENTS
    memory = request.memory
    maps, group = PlacedMaps(request, precision.y), GROUPED_PIXELS if tensors.grouped else 1
    top, bottom, _, right = layer.padding
    planes = np.ascontiguousarray(tensors.activations.transpose(2, 0, 1))
    rows = pack_words(planes.reshape(layer.channels, -1) if tensors.flat else planes, precision.x)
    rule, requantisation = tensors.rule, tensors.requantisation
    if level.requantises:
        requantisation = rules.with_channel_factors(requantisation, layer.channels)
    bias = np.zeros(layer.channels, np.int64) if tensors.bias is None else tensors.bias.astype(np.int64)
    if isinstance(requantisation, rules.ExactRequantisation):
        parameters = rules.scaled_parameters(bias, requantisation, layer.channels, 1)
    else:
        parameters = rules.block_parameters(bias, requantisation, layer.channels, 1)
    if isinstance(requantisation, rules.Requantisation):
        parameters = np.stack([requantisation.lam + requantisation.kappa * bias, requantisation.kappa], axis=-1)
    buffer_stride = rows_stride(layer, layer.height + top + bottom, request.placement)
    row_bytes = layer.width if tensors.flat else rows.shape[-1] * WORD_BYTES
    idle = -layer.channels % request.cores
    in_place = request.specialise and computes_in_place(layer, precision, level, requantisation.rule)
    in_place = in_place and (tensors.flat or idle * _MOST_IDLE <= layer.channels)
    arguments = {
        "input": memory.place("input", rows, spare=_READ_AHEAD),
        "weights": memory.place("weights", pack_words(tensors.weights, BYTE_BITS)),
        "parameters": memory.place("parameters", (parameters & WORD_MASK).astype(np.uint32)),
        "output": maps.reserve("output", -(-layer.out_height * layer.out_width // group) * group, precision.y),
        "buffer_stride": buffer_stride,
        "channels": layer.channels,
        "row_bytes": row_bytes,
        "out_pixel_bytes": maps.pixel_bytes(precision.y),
        "shift": requantisation.applied_shift,
        **kernel.window_arguments(layer),
        "pad_right": right,
        "outside": outside & WORD_MASK,
    }
    # code without a buffer takes any address
    arguments["buffer"] = arguments["output"] if in_place else memory.reserve("buffer", request.cores * buffer_stride)
    step = layer.stride[1]
    is_small = max(layer.kernel_height, layer.kernel_width) <= _MOST_HELD and level.xpulp
    is_held = is_small and (step == 1 or (step == _LONGEST_STEP and layer.kernel_height == _MOST_HELD))
    held_rows = layer.kernel_height if is_held else None
    function = "depthwise_outside" if is_valued else "depthwise"
    name = function if held_rows is None else f"{function}_{held_rows}x{_MOST_HELD}_s{step}"

    def write(known: Known) -> Program:
        if in_place:
            return InPlaceCode(request, structure, known, requantisation.rule).write()
        return DepthwiseCode(request, structure, known, held_rows, requantisation.rule).write()

    run = request.finish(name, structure, arguments, write, rule)
    return replace(run, output=replace(run.output, pixel_bytes=maps.pixel_bytes(precision.y), grouped=tensors.grouped))


DEPTHWISE = map_kernel(
    name="depthwise",
    help="depthwise convolution",
    layer=DepthwiseLayer,
    usual="16x16x32:3x3",
    write=depthwise_kernel,
    rules=(Rule.BN32, Rule.BN64, Rule.EXACT, Rule.MULTIPLY, Rule.SHIFT, Rule.THRESHOLDS),
    random=random_tensors,
    random_text=lambda rng: random_window_text(rng, 9),
    structures=(DEPTHWISE_ARGUMENTS, DEPTHWISE_OUTSIDE_ARGUMENTS),
    samples=tuple(
        f"8x8x4:{window},v={outside}"
        for outside in range(2)
        for window in ("3x3:s=1", "3x3:s=2", "2x3:s=1", "1x3:p=0x0x1x1", "5x5:p=2")
    ),
)
