"""Loop over the pooling windows of a feature map, common to both pooling kernels.

A unit of work is a word of channels in a row of outputs. Neighbouring units go to different cores, so that the cores
access different words of their pixels, in different banks if possible. Small windows inside the map are computed by an
unrolled loop with a pointer for each window row. Windows at the edges and large windows are clipped and read by two
nested loops.
"""

from abc import ABC, abstractmethod
from functools import partial

from xpulpnn.isa.machine import XLEN
from xpulpnn_sw.kernels.builder import WORD, ZERO, Held, Label
from xpulpnn_sw.kernels.channelwise.maps import ARGUMENT_REGISTERS, ElementBuilder
from xpulpnn_sw.kernels.frame import RA, FreeRegisters
from xpulpnn_sw.kernels.kernel import OUT_SIZES, SIZES, ArgumentField, KernelRequest, Known, Structure, window_arguments
from xpulpnn_sw.kernels.layout import Program
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term, given, per_core, positive, quotient
from xpulpnn_sw.layers.layer import WindowLayer

# distances in bytes to the next pixel, row, output pixel and inner window
_DISTANCES: tuple[str, ...] = ("pixel_bytes", "row_bytes", "out_pixel", "next_window")
_WINDOW = ("kernel_height", "kernel_width", "stride_y", "stride_x")
_UNROLLED = 3  # most rows and columns of unrolled windows
_EDGE_REGISTERS = 7

POOL = (
    ArgumentField("input", "feature map, not changed", pointer=True),
    ArgumentField("output", "results", pointer=True),
    ArgumentField("pixel_bytes", "bytes of an input pixel"),
    ArgumentField("out_pixel_bytes", "bytes of an output pixel"),
    *SIZES,
    *OUT_SIZES,
    ArgumentField("kernel_height", "window rows, as in the function's name"),
    ArgumentField("kernel_width", "window columns, as in the function's name"),
    ArgumentField("stride_y", "step in y, as in the function's name"),
    ArgumentField("stride_x", "step in x, as in the function's name"),
    ArgumentField("pad_top", "rows of a window that may lie above the input"),
    ArgumentField("pad_left", "columns of a window that may lie left of the input"),
)


def window_name(layer: WindowLayer) -> str:
    return f"{layer.kernel_height}x{layer.kernel_width}_s{'x'.join(map(str, layer.stride))}"


class Pooling(ABC):
    repeats_rows = True  # whether the last row stands in for rows below the map

    def __init__(self, request: KernelRequest, structure: Structure, known: Known) -> None:
        self.b, self.precision, self.layer = ElementBuilder(request.level), request.precision, request.layer
        self._structure, layer = structure, self.layer
        arguments = window_arguments(layer)
        self._known = {**known, **{name: arguments[name] for name in _WINDOW}}
        self.is_unrolled = max(layer.kernel_height, layer.kernel_width) <= _UNROLLED
        self.registers = FreeRegisters()
        self.registers.take(len(ARGUMENT_REGISTERS))
        take = self.registers.take
        self._out, self._x, self._rows, self._row, self._remaining = take(5)
        # the distance to the next window is for the unrolled loop only
        self._distances = dict(zip(_DISTANCES, take(len(_DISTANCES) - (not self.is_unrolled)), strict=False))
        self._pixel, self._row_bytes, self.out_pixel, *_ = self._distances.values()
        self._pointers = take(layer.kernel_height) if self.is_unrolled else []
        # values of the unrolled loop or of a clipped window; the arguments are dead by then
        self.values = [*ARGUMENT_REGISTERS, *take(_EDGE_REGISTERS - len(ARGUMENT_REGISTERS))]
        self.most_columns = max(1, len(self.values) // layer.kernel_height)  # columns that may be loaded together

    @abstractmethod
    def begin(self) -> None:
        pass

    @abstractmethod
    def start(self, pointer: int) -> None:
        """Begin a window clipped at the border; ``pointer`` points to the first word."""

    @abstractmethod
    def take(self, word: int) -> None:
        pass

    @abstractmethod
    def finish(self, out: int, rows: int, columns: int) -> None:
        """Store the results of a clipped window of ``rows`` x ``columns`` at ``out``, and advance ``out``."""

    def prepare(self, pointers: list[int]) -> None:
        del pointers

    @abstractmethod
    def whole_window(self, pointers: list[int], out: int) -> None:
        """Compute a window inside the map and advance the pointers to the next window."""

    @property
    def extra_terms(self) -> dict[str, Term]:
        return {}

    def store(self, word: int, out: int, bits: int = XLEN) -> None:
        self.b.store(word, out, Held(self.out_pixel), bits=bits)

    def load_columns(self, pointers: list[int], count: int, *, skips: bool) -> list[list[int]]:
        """Load the next ``count`` columns and advance the pointers past them or, if ``skips``, to the next window."""
        height = len(pointers)
        columns = [self.values[place * height : (place + 1) * height] for place in range(count)]
        for number, column in enumerate(columns, 1):
            step = self._distances["next_window"] if skips and number == count else self._pixel
            for register, pointer in zip(column, pointers, strict=True):
                self.b.load(register, pointer, Held(step))
        return columns

    def _terms(self) -> dict[str, Term]:
        width, pixel, out_pixel = Argument("width"), Name("pixel_bytes"), Name("out_pixel")
        out_width, pad_left = Argument("out_width"), Argument("pad_left")
        words, oy, word = Name("words"), Name("oy"), Name("word")
        left, inner, core, cores = Name("left_edge"), Name("inner"), Argument("core"), Argument("cores")
        (stride_y, stride_x), precision = self.layer.stride, self.precision
        # output bytes of an input word
        out_step = WORD * precision.y // precision.x
        # columns, from the left padding on, at which windows that end inside may begin
        inside = positive(width + pad_left + (1 - self.layer.kernel_width))
        before = (pad_left + (stride_x - 1)) // stride_x
        distances = {
            "pixel_bytes": Argument("pixel_bytes"),
            "row_bytes": width * pixel,
            "out_pixel": Argument("out_pixel_bytes"),
            "next_window": pixel * (stride_x - self.layer.kernel_width + 1),
        }
        return {
            **{name: distances[name] for name in _DISTANCES},
            "words": pixel // WORD,
            "count": per_core(positive(Argument("out_height") * words - core + cores - 1)),
            "oy": quotient(core, words),
            "word": core - oy * words,
            # rows and words to the core's next unit
            "row_step": quotient(cores, words),
            "word_step": cores - Name("row_step") * words,
            "source_step": Name("word_step") * WORD,
            "target_step": Name("word_step") * out_step + Name("row_step") * (out_width * out_pixel),
            "y_step": Name("row_step") * stride_y,
            **given("height", "width"),
            "stride_y": Number(stride_y),
            "x": Number(0) - pad_left,
            "y": oy * stride_y - Argument("pad_top"),
            "left": words - word,
            "source": Argument("input") + word * WORD,
            "target": Argument("output") + oy * (out_width * out_pixel) + word * out_step,
            "out_row": (out_width - 1) * out_pixel,
            **({} if self.is_unrolled and self.repeats_rows else {"out_width": out_width}),
            "left_edge": out_width - positive(out_width - before),
            "inner": positive((inside + (stride_x - 1)) // stride_x - left),
            "right_edge": out_width - left - inner,
            "inner_offset": (left * stride_x - pad_left) * pixel,
            "inner_x": inner * stride_x,
        }

    def write(self) -> Program:
        b = self.b
        self.frame = frame = b.frame(
            self._structure,
            self._known,
            self._terms() | self.extra_terms,
            self._distances,
            self.registers,
            preferred=(*self.extra_terms, "source", "target", "y", "left", "count", "height", "width"),
            calls=True,
            intermediates=("oy", "word", "row_step"),
        )
        start, self._edge = Label(), Label()
        with frame.function():
            self.begin()
            work = self._remaining
            count = frame.register("count", work)
            with b.skipped("beq", count, ZERO, is_far=True):
                b.place(start)
                with b.region("body"):
                    self._unit()
                self._next_unit()
                b.far_branch("bne", work, ZERO, start)
        b.defer(self._windows_at_edge)
        return b.finish()

    def _unit(self) -> None:
        b, frame = self.b, self.frame
        first, second, third, *_ = self.values
        y = frame.register("y", first)
        b.mv(self._rows, y)
        b.add(self._rows, self.layer.kernel_height, third)
        b.mv(second, y)
        b.positive(second, third)
        b.at_most(self._rows, frame.register("height", third), self._x, self._row)
        b("sub", self._rows, self._rows, second)
        b("mul", second, second, self._row_bytes)
        b("add", self._row, second, frame.register("source", third))
        frame.load_all(x=self._x, target=self._out)
        self._windows()

    def _windows(self) -> None:
        if not self.is_unrolled:
            self._at_edge("out_width")
            return
        if self.repeats_rows:
            self._whole_windows()
            return
        self.b("addi", self.values[0], self._rows, -self.layer.kernel_height)
        with self.b.replaced("bne", self.values[0], ZERO, partial(self._at_edge, "out_width")):
            self._whole_windows()

    def _whole_windows(self) -> None:
        first, second, *_ = self.values
        self._at_edge("left_edge")
        self._row_pointers()
        self.prepare(self._pointers)
        count = self.frame.value("inner", self._remaining)
        self.b.repeat(count, self._remaining, lambda: self.whole_window(self._pointers, self._out), level=0)
        self.b.add(self._x, self.frame.value("inner_x", first), second)
        self._at_edge("right_edge")

    def _row_pointers(self) -> None:
        b, frame = self.b, self.frame
        work, negative, *_ = self.values
        first, *others = self._pointers
        b.mv(first, self._row)
        b.add(first, frame.value("inner_offset", work), work)
        b("sub", negative, ZERO, self._rows)
        for number, pointer in enumerate(others, 1):
            above = self._pointers[number - 1]
            if not self.repeats_rows:
                b("add", pointer, above, self._row_bytes)
                continue
            b.chain(work, negative, ("addi", number), ("srai", XLEN - 1), ("and", self._row_bytes))
            b("add", pointer, above, work)

    def _next_unit(self) -> None:
        b, frame = self.b, self.frame
        source, target, left, work, other, *_ = self.values
        source, target = frame.register("source", source), frame.register("target", target)
        left, count = frame.register("left", left), frame.register("count", self._remaining)
        y = frame.register("y", other)
        b.add(source, frame.value("source_step", work), self._row)
        b.add(target, frame.value("target_step", work), self._row)
        b.add(y, frame.value("y_step", work), self._row)
        b("sub", left, left, frame.register("word_step", work))
        with b.skipped("blt", ZERO, left):
            b("add", left, left, frame.register("words", work))
            b("sub", source, source, self._pixel)
            b.add(target, frame.value("out_row", work), self._row)
            b.add(y, frame.value("stride_y", work), self._row)
        b("addi", self._remaining, count, -1)
        frame.store_all(source=source, target=target, y=y, left=left, count=self._remaining)

    def _at_edge(self, count: str) -> None:
        value, skip = self.frame.value(count, self._remaining), Label()
        if value == 0:
            return
        if value != Held(self._remaining):
            self.b.put(self._remaining, value)
        if isinstance(value, Held):
            self.b.branch("beq", self._remaining, ZERO, skip)
        self.b.jump(self._edge, link=RA)
        self.b.place(skip)

    def _windows_at_edge(self) -> None:
        b, frame = self.b, self.frame
        pointer, columns, word, gap, inner, outer, work = self.values
        b.place(self._edge)
        b.mv(gap, self._x)
        b.positive(gap, work)
        b.mv(columns, self._x)
        b.add(columns, self.layer.kernel_width, work)
        b.at_most(columns, frame.register("width", word), work, inner)
        b("sub", columns, columns, gap)
        b.chain(pointer, gap, ("mul", self._pixel), ("add", self._row))
        b("mul", gap, columns, self._pixel)
        b("sub", gap, self._row_bytes, gap)
        self.start(pointer)
        with b.loop(Held(self._rows), outer, level=1):
            with b.loop(Held(columns), inner, level=0):
                b.load(word, pointer, Held(self._pixel))
                self.take(word)
            b("add", pointer, pointer, gap)
        self.finish(self._out, self._rows, columns)
        b.add(self._x, self.layer.stride[1], work)
        b("addi", self._remaining, self._remaining, -1)
        b.branch("bne", self._remaining, ZERO, self._edge)
        b("jalr", ZERO, 0, RA)
