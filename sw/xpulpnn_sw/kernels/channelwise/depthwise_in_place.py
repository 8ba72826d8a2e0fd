"""Depthwise convolution of a map of bytes ``[channel][row][column]`` without a buffer; the code is for one layer.

Words of four columns are loaded from even columns of the map. The weights of a result one column further, or left of
the map, are shifted by a byte; weights right of the map are cleared, and rows above and below it are skipped. Results
are computed down the columns, two columns together if they use the same words, and words that the result above has
loaded are reused. Each core computes some of the channels.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sw.kernels.builder import WORD, ZERO, Held, Value, fits_immediate
from xpulpnn_sw.kernels.channelwise.depthwise_results import ChannelResults, parameter_bytes
from xpulpnn_sw.kernels.channelwise.elements import ElementBuilder
from xpulpnn_sw.kernels.kernel import KernelRequest, Structure
from xpulpnn_sw.kernels.layout import Program
from xpulpnn_sw.kernels.registers import FreeRegisters
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.terms import Argument, Name, Term, even_share, given
from xpulpnn_sw.layers.layer import DepthwiseLayer

_ROWS = _COLUMNS = 3  # size of the filters; narrower ones are padded with zeros
_STEP = 2  # longest step, and bytes between neighbouring words
_UNROLLED = 2 * _ROWS  # fewest rows of results that are worth a loop
_MOST_IDLE = 4  # fewest channels for each that cores compute in vain


class _Column(NamedTuple):
    place: int  # first column of the words that it uses
    moved: int  # bytes by which weights are shifted, left if positive
    is_cut: bool  # whether the filter reaches beyond the map


def _columns(layer: DepthwiseLayer) -> list[list[_Column]]:
    columns: list[_Column] = []
    for x in range(layer.out_width):
        first = x * layer.stride[1] - layer.padding[2]
        place = max(first, 0) // _STEP * _STEP
        columns.append(_Column(place, first - place, first + _COLUMNS > layer.width))
    return [list(group) for _, group in groupby(columns, lambda column: (column.place, column.moved < 0))]


def computes_in_place(request: KernelRequest, known: Mapping[str, int], rule: Rule) -> bool:
    """Return whether :class:`InPlaceCode` can compute a layer; the padding must be at most 1."""
    layer, precision = request.layer, request.precision
    if not known or known.get("outside", 0) or not request.level.requantises or rule not in (Rule.BN32, Rule.EXACT):
        return False
    top, _, left, _ = layer.padding
    sides = zip((layer.height, layer.width), layer.out_shape, layer.stride, (top, left), strict=True)
    overhang = [(count - 1) * step - before + _ROWS - size for size, count, step, before in sides]
    share = -(-layer.channels // request.cores)
    return (
        precision.x == precision.y == BYTE_BITS
        and layer.kernel_height == _ROWS
        and layer.kernel_width <= _COLUMNS
        and max(layer.stride) <= _STEP
        and max(top, left, *overhang) <= 1
        and fits_immediate(known["row_bytes"])
        and share * request.cores * _MOST_IDLE <= layer.channels * (_MOST_IDLE + 1)
    )


class InPlaceCode:
    def __init__(self, request: KernelRequest, structure: Structure, known: Mapping[str, int], rule: Rule) -> None:
        self._layer: DepthwiseLayer = request.layer
        self._b, self._precision = ElementBuilder(request.level), request.precision
        self._row_bytes = known["row_bytes"]
        self._channel_bytes = self._layer.height * self._row_bytes
        self._pixel = known["out_pixel_bytes"]
        registers = FreeRegisters()
        self._work, self._pointer, self._out, parameter, *self._steps = registers.take(7)
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
        if rule is not Rule.EXACT:
            homes["shift"] = parameter
            terms |= given("shift")
        self._frame = self._b.frame(structure, known, terms, homes, registers, intermediates=("piece", "begin"))
        self._finishing = ChannelResults(self._b, rule, self._precision, parameter, [parameter], [])

    def write(self) -> Program:
        b, frame = self._b, self._frame
        with frame.function(), b.skipped("beq", frame.register("count", self._work), ZERO, is_far=True):
            down = self._layer.out_width * self._pixel
            steps = [
                self._step(*distance)
                for distance in zip((self._pixel, down, down - self._pixel), self._steps, strict=True)
            ]
            with frame.repeated("count", self._work), b.region("body"):
                for register in self._first:
                    b.load(register, self._weights, WORD)
                self._finishing.load(self._parameters)
                b.mv(self._column, self._source)
                b.mv(self._target, self._begin)
                self._channel(*steps)
                b.add(self._source, self._channel_bytes, self._work)
                b("addi", self._begin, self._begin, 1)
        return b.finish()

    def _step(self, size: int, register: int) -> Value:
        if fits_immediate(size):
            return size
        self._b.li(register, size)
        return Held(register)

    def _channel(self, pixel: Value, down: Value, back: Value) -> None:
        runs = [list(run) for _, run in groupby(_columns(self._layer), lambda group: [column[1:] for column in group])]
        for run, following in pairwise([*runs, None]):
            assert run is not None
            together = run[0]
            weights = [self._weights_of(column) for column in together]
            steps = [pixel, back] if len(together) > 1 else [down]

            def write(weights: list[list[int]] = weights, steps: list[Value] = steps, step: int = _STEP) -> None:
                self._b.mv(self._pointer, self._column)
                self._b.mv(self._out, self._target)
                self._down(weights, steps)
                if step:
                    self._b("addi", self._column, self._column, step)
                for _ in steps:
                    self._b.add(self._target, pixel, self._work)

            if len(run) > 1:
                with self._b.loop(len(run), self._work, level=1):
                    write()
            else:
                write(step=0)
            if following is not None:
                end = run[-1][0].place + (_STEP if len(run) > 1 else 0)
                self._b.add(self._column, following[0][0].place - end, self._work)

    def _weights_of(self, column: _Column) -> list[int]:
        if not column.moved and not column.is_cut:
            return self._first
        for moved, weights in zip(self._moved, self._first, strict=True):
            if column.is_cut:
                self._b("p.exthz", moved, weights)
            if column.moved:
                shift = "slli" if column.moved > 0 else "srli"
                self._b(shift, moved, moved if column.is_cut else weights, BYTE_BITS)
        return self._moved

    def _down(self, weights: Sequence[list[int]], steps: Sequence[Value]) -> None:
        """Compute output columns downwards; each row is stored after the products of the next row."""
        b, layer = self._b, self._layer
        results = self._results[: len(weights)]

        def store() -> None:
            for result, step in zip(results, steps, strict=True):
                b.store(result, self._out, step, bits=BYTE_BITS)

        def row(y: int) -> None:
            first = y * layer.stride[0] - layer.padding[0]
            rows = [row for row in range(first, first + _ROWS) if 0 <= row < layer.height]
            for number in rows:
                # other words are those of the result above
                if not y or number >= first + _ROWS - layer.stride[0]:
                    b.load(self._words[number % _ROWS], self._pointer, self._row_bytes)
            words = [self._words[number % _ROWS] for number in rows]
            for accumulator, factors in zip(self._acc, weights, strict=False):
                self._finishing.multiply(accumulator, words, [factors[number - first] for number in rows])
            if y:
                store()
            self._finishing.scale(results, self._acc[: len(results)])

        # rows with complete filters repeat in turns of three, after which words are in the same registers again
        last = layer.out_height
        is_short = (last - 1) * layer.stride[0] - layer.padding[0] + _ROWS > layer.height
        turns = (last - 1 - is_short) // _ROWS
        turns = turns if turns * _ROWS >= _UNROLLED else 0
        row(0)
        if turns:
            with b.loop(turns, self._work, level=0):
                for y in range(1, 1 + _ROWS):
                    row(y)
        for y in range(1 + turns * _ROWS, last):
            row(y)
        store()
