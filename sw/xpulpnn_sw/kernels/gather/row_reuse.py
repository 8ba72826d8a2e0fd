"""im2col down the columns of the output: a group copies only the input rows that the group above did not need.

A strip is a sequence of pixel groups one below the other. Its buffer holds one input row after the other, each as the
words that all pixels of a group need. The receptive fields of the next group begin ``stride_y`` rows further down. The
first group of a strip copies all its rows, every other group only the rows that are new. The size of the buffer limits
the length of a strip. Rows outside the input are filled with the padding value.

With three filter columns and stride 1, each input word is read once; otherwise, once for each pixel that uses it. Rows
of images, whose pixels are not whole words, are read as words that need not be aligned.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import pairwise

from xpulpnn_sw.kernels.builder import LOAD_BY_REGISTER, WORD, ZERO, Builder, Held, Label
from xpulpnn_sw.kernels.frame import Frame
from xpulpnn_sw.kernels.gather.row_format import PAIR, RowFormat
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term, given, minimum, per_core, positive
from xpulpnn_sw.kernels.variants import LoopStyle
from xpulpnn_sw.layers.layer import ConvLayer

ALONG = "along_pixel"  # name of the core's first pixel if groups follow each other along the rows
FIRST = ("strips", "strip_run", "strip_rows", "strip_first", "first_group")  # numbers for order and first pixel
REGISTERS = 19  # registers that the copy needs
_WIDTH = 3  # columns of the filters whose words are read once
_BUFFER_WORDS = 1024  # words of a core's buffer for several groups
_TAP, _RUN = 6, 3  # instructions for a filter column and for a run of words, in addition to the copy
_STRIP = 60  # instructions for a strip
_FAR = 1 << 20  # more than any number of columns
STATE = ("row0", "strip_place", "y", "source", "x")  # numbers that change with group or strip


class GroupOrder(Enum):
    ALONG_ROWS = "along the rows of the output"
    DOWN_COLUMNS = "down its columns"
    BY_ARGUMENTS = "one or the other, by the arguments"

    def select(self, down: Term, along: Term) -> Term:
        if self is GroupOrder.BY_ARGUMENTS:
            return along + Name("strips") * (down - along)
        return down if self is GroupOrder.DOWN_COLUMNS else along


def _may_go_down(form: RowFormat, out_width: int, columns: int) -> bool:
    variant = form.variant
    is_suited = form.by_groups and variant.interleaved and variant.style is LoopStyle.PAIR
    return is_suited and not out_width % variant.npx and columns >= 0


def reuse_words(form: RowFormat, layer: ConvLayer, pixel_bytes: int, words: int, cores: int) -> int:
    """Return the words by which strips enlarge each core's buffer; a single group needs ``words`` words."""
    if not _may_go_down(form, layer.out_width, layer.width - layer.stride[1] * (form.variant.npx - 1)):
        return 0
    step = form.variant.npx * form.run_words(layer.kernel_width, pixel_bytes) * layer.stride[0]
    share = -(-layer.pixels // form.variant.npx // cores)
    more = min(layer.out_height - 1, share - 1, max(0, _BUFFER_WORDS - words) // step)
    return more * step if _is_faster(form, layer, pixel_bytes, more) else 0


def _is_faster(form: RowFormat, layer: ConvLayer, pixel_bytes: int, more: int) -> bool:
    npx, width, height, words = form.variant.npx, layer.kernel_width, layer.kernel_height, pixel_bytes // WORD
    is_single = layer.stride[1] == 1 and not form.inside
    copied = npx * 2 * form.run_words(width, pixel_bytes)
    down, along = copied + _TAP * (1 if form.inside else width), copied + _RUN * npx
    if is_single and width == _WIDTH:
        down = (_WIDTH + npx - 1 + npx * width) * words + _TAP
    if is_single and width >= npx - 1 and words % PAIR == 0:
        along = (width + npx - 1 + npx * width) * words + _RUN * (width + npx - 1)
    return _STRIP + (height + more * layer.stride[0]) * down <= (more + 1) * height * along


def group_order(form: RowFormat, known: Mapping[str, int], spare_bytes: int) -> GroupOrder:
    """Return the order of groups, which the arguments decide at run time if too few of them are ``known``."""
    variant = form.variant
    columns = known.get("width", _FAR) - known.get("stride_x", 0) * (variant.npx - 1)
    if known.get("out_height") == 1 or not _may_go_down(form, known.get("out_width", 0), columns):
        return GroupOrder.ALONG_ROWS
    needed = (
        *("width", "out_width", "stride_x", "stride_y", "kernel_height", "kernel_width"),
        *("pixel_bytes", "buffer_stride", "row_stride"),
    )
    if any(name not in known for name in needed):
        return GroupOrder.ALONG_ROWS if form.inside else GroupOrder.BY_ARGUMENTS
    run = form.run_words(known["kernel_width"], known["pixel_bytes"]) * WORD * variant.npx * known["stride_y"]
    room = known["buffer_stride"] - variant.npx * known["row_stride"] - spare_bytes
    goes_down = room >= run and known["kernel_height"] > known["stride_y"]
    return GroupOrder.DOWN_COLUMNS if goes_down else GroupOrder.ALONG_ROWS


def order_shares(order: GroupOrder, form: RowFormat | None, spare_bytes: int) -> dict[str, Term]:
    if form is None or order is GroupOrder.ALONG_ROWS:
        return {}
    npx, run_words = form.variant.npx, form.run_words(Argument("kernel_width"), Argument("pixel_bytes"))
    core, groups = Argument("core"), Name("groups")
    kernel_height, stride_y = Argument("kernel_height"), Argument("stride_y")
    room = Argument("buffer_stride") - Argument("row_stride") * npx - spare_bytes
    terms: dict[str, Term] = {
        "strip_run": run_words * (WORD * npx),
        "strip_rows": minimum(room // (Name("strip_run") * stride_y) + 1, Argument("out_height")),
        "strip_first": per_core(groups * core),
        "strip_left": per_core(groups * (core + 1)) - Name("strip_first"),
    }
    if order is GroupOrder.BY_ARGUMENTS:
        is_whole = positive(Number(1) - (Argument("out_width") & (npx - 1)))
        is_shared = minimum(Number(1), positive(kernel_height - stride_y))
        is_wide = minimum(Number(1), positive(Argument("width") - Argument("stride_x") * (npx - 1) + 1))
        terms["strips"] = minimum(is_whole * is_shared * is_wide, Name("strip_rows") - 1)
    return terms


def first_pixel_terms(order: GroupOrder, npx: int) -> dict[str, Term]:
    if order is GroupOrder.ALONG_ROWS:
        return {}
    along, outer, inner, width = Name(ALONG), Name("outer"), Name("inner"), Argument("out_width")
    divisor = order.select(Argument("out_height"), width)
    first = order.select(Name("strip_first"), along)
    terms = {"outer": first // divisor, "inner": first - outer * divisor}
    terms |= {"out_y": order.select(inner, outer), "out_x": order.select(outer * npx, inner)}
    return terms | {"first_pixel": Name("out_y") * width + Name("out_x")}


def reuse_terms(order: GroupOrder, form: RowFormat) -> dict[str, Term]:
    if order is GroupOrder.ALONG_ROWS:
        return {}
    npx, pixel_bytes, kernel_width = form.variant.npx, Argument("pixel_bytes"), Argument("kernel_width")
    excess, stride_x_bytes = kernel_width - _WIDTH, Name("stride_x_bytes")
    return {
        "strip_row": Name("out_y"),
        "strip_start": Name("row0"),
        "strip_place": Name("row0"),
        "strip_field": Name("strip_run") * Argument("kernel_height"),
        "strip_words": form.run_words(kernel_width, pixel_bytes) if form.inside else pixel_bytes // WORD,
        "strip_column": pixel_bytes * npx,
        "strip_step": Argument("stride_x") * npx,
        "strip_back": (Number(npx) - Argument("out_height") * Argument("out_width")) * Name("out_stride"),
        # step back of fast copies, and the last column at which they read only the input; none for other filters
        "strip_return": Number(WORD) - pixel_bytes * (_WIDTH + npx - 2),
        "strip_apart": excess * excess + (Argument("stride_x") - 1),
        "strip_last": Argument("width") - (_WIDTH + npx - 1) - Name("strip_apart") * _FAR,
        "strip_reach": Argument("stride_x") * (npx - 1),
        "strip_end": Argument("width") - kernel_width - Name("strip_reach"),
        "strip_lane": Number(WORD) - stride_x_bytes * (npx - 1),
        **given("out_height", "pad_top", "input"),
    }


class RowReuseCopy:
    def __init__(self, b: Builder, frame: Frame, form: RowFormat, registers: Sequence[int]) -> None:
        self._b, self._frame, self._form, self._npx = b, frame, form, form.variant.npx
        assert len(registers) >= REGISTERS
        self._y, self._source, self._place, self._count, self._height, self._line, *registers = registers
        self._increment, self._return, self._words, self._run, *registers = registers
        self._pointer, self._second, self._third, *registers = registers
        self._columns = _WIDTH + self._npx - 1
        self._data = registers[: self._columns]
        # 0 if the filters allow the fast copy
        apart = frame.constants.get("strip_apart")
        self._is_fast = None if apart is None else apart == 0
        self._left, self._right, self._apart, self._done = Label(), Label(), Label(), Label()
        self._fill = Label(), Label()

    def begin(self, out: Sequence[int], start: Label, end: Label) -> None:
        b, frame, row, x = self._b, self._frame, self._count, self._second
        left, height, step, rows, work, source = *self._data[:4], self._pointer, self._source
        frame.load_all(strip_left=left, strip_row=row, out_height=height, x=x)
        b.far_branch("beq", left, ZERO, end)
        with b.skipped("bne", row, height):
            b.li(row, 0)
            b.add(x, frame.value("strip_step", step), work)
            frame.store("x", x)
            back = frame.value("strip_back", step)
            for register in out:
                b.add(register, back, work)
        b.chain(step, height, ("sub", row), ("p.min", left))
        b("p.min", step, step, frame.register("strip_rows", rows))
        b("sub", left, left, step)
        b("mul", self._y, row, frame.register("stride_y", rows))
        b("sub", self._y, self._y, frame.register("pad_top", rows))
        b("add", row, row, step)
        frame.store_all(strip_left=left, strip_row=row, group=step, y=self._y)
        b("mul", source, self._y, frame.register("line_bytes", rows))
        b("mul", work, x, frame.register("pixel_bytes", rows))
        b("add", source, source, work)
        b("add", source, source, frame.register("input", rows))
        frame.load("strip_start", self._place)
        frame.store_all(source=source, strip_place=self._place)
        b.jump(start)

    def write_slow_paths(self) -> None:
        if self._is_fast is not False and not self._form.inside:
            self._copy_at_sides()
            self._write_fill(*self._fill)
        if not self._form.inside:
            self._copy_other_shapes()
        self._b.emit_deferred()

    def emit(self) -> None:
        b, frame = self._b, self._frame
        x, last, start, height = self._second, self._third, *self._data[:2]
        frame.load_all(strip_place=self._place, stride_y=self._count, x=x, y=self._y, source=self._source)
        start, height = frame.register("strip_start", start), frame.register("kernel_height", height)
        frame.load_all(line_bytes=self._line, height=self._height, strip_words=self._words)
        with b.skipped("bne", self._place, start):
            b.mv(self._count, height)
        if self._form.inside:
            frame.load_all(stride_x_bytes=self._increment, strip_lane=self._return)
            self._rows(self._copy_words)
        elif self._is_fast is False:
            b.jump(self._apart)
        else:
            frame.load_all(strip_last=last, pixel_bytes=self._increment, strip_column=self._run)
            frame.load("strip_return", self._return)
            b.branch("blt", x, ZERO, self._left)
            b.branch("blt", last, x, self._right)
            self._rows(partial(self._copy_columns, range(self._columns)), self._fill)
        b.place(self._done)
        b("sub", self._pointer, self._place, frame.register("strip_field", self._second))
        frame.store_all(row0=self._pointer, y=self._y, source=self._source, strip_place=self._place)

    def _rows(self, copy: Callable[[], None], fill: tuple[Label, Label] | None = None) -> None:
        b, start = self._b, Label()
        fill_start, filled = fill or (Label(), Label())
        if fill is None:
            b.defer(partial(self._write_fill, fill_start, filled))
        b.place(start)
        b.branch("bgeu", self._y, self._height, fill_start)
        copy()
        b.place(filled)
        b("addi", self._y, self._y, 1)
        b("add", self._source, self._source, self._line)
        b("addi", self._count, self._count, -1)
        b.branch("bne", self._count, ZERO, start)

    def _write_fill(self, start: Label, end: Label) -> None:
        b, frame, words, taps = self._b, self._frame, self._pointer, self._third
        b.place(start)
        outside = self._outside_register(self._second)
        count, width = frame.value("strip_words", words), frame.value("kernel_width", taps)
        with b.loop(width, taps), b.loop(count, words, level=0):
            b.store_words([outside] * self._npx, self._place)
        b.jump(end)

    def _outside_register(self, register: int) -> int:
        if not self._form.valued:
            return ZERO
        self._frame.load("outside0", register)
        return register

    def _copy_columns(self, inside: range) -> None:
        b, places = self._b, [self._place, self._second, self._third]
        data, npx = list(self._data), self._npx
        apart = [column for column in range(self._columns) if column not in inside]
        outside = self._outside_register(data[apart[0]]) if apart else ZERO
        words = [outside if column in apart else data[column] for column in range(self._columns)]
        b.mv(self._pointer, self._source)
        if inside.start:
            b("add", self._pointer, self._pointer, self._increment)
        for before, place in pairwise(places):
            b("add", place, before, self._run)
        with b.loop(Held(self._words), self._words, level=0):
            for column in inside:
                step = self._return if column == inside[-1] else self._increment
                b("p.lw", data[column], step, self._pointer, form=LOAD_BY_REGISTER)
            for column, place in enumerate(places):
                b.store_words(words[column : column + npx], place)
        b.mv(self._place, places[-1])

    def _copy_at_sides(self) -> None:
        b, x, last, work = self._b, self._second, self._third, self._pointer
        b.place(self._left)
        b.branch("blt", last, x, self._apart)
        for beyond, edge, inside in ((1, ZERO, range(1, self._columns)), (-1, last, range(self._columns - 1))):
            if edge != ZERO:
                b.place(self._right)
            b("addi", work, x, beyond)
            b.branch("bne", work, edge, self._apart)
            b("add", self._return, self._return, self._increment)
            self._rows(partial(self._copy_columns, inside))
            b.jump(self._done)

    def _copy_other_shapes(self) -> None:
        b, frame, x, last, beside = self._b, self._frame, self._second, self._third, Label()
        b.place(self._apart)
        frame.load_all(x=x, strip_end=last, stride_x_bytes=self._increment, strip_lane=self._return)
        b.branch("blt", x, ZERO, beside)
        b.branch("blt", last, x, beside)
        self._rows(self._copy_words)
        b.jump(self._done)
        b.place(beside)
        self._rows(self._copy_taps)
        b.jump(self._done)

    def _copy_words(self) -> None:
        self._b.mv(self._pointer, self._source)
        taps = 1 if self._form.inside else self._frame.value("kernel_width", self._third)
        with self._b.loop(taps, self._third):
            self._copy_tap(range(self._npx), self._return)

    def _copy_tap(self, inside: range, step: int) -> None:
        b, words = self._b, list(self._data[: self._npx])
        apart = [pixel for pixel in range(self._npx) if pixel not in inside]
        outside = self._outside_register(words[apart[0]]) if apart else ZERO
        for pixel in apart:
            words[pixel] = outside
        words_of_tap = self._frame.constants.get("strip_words", 0) if self._form.inside else 0
        with b.loop(words_of_tap or Held(self._words), self._words, level=0):
            for pixel in inside:
                distance = step if pixel == inside[-1] else self._increment
                b("p.lw", words[pixel], distance, self._pointer, form=LOAD_BY_REGISTER)
            b.store_words(words, self._place)

    def _copy_taps(self) -> None:
        b, frame, x, taps, reach = self._b, self._frame, self._second, self._third, self._run
        *_, width, last = self._data
        frame.load_all(width=width, x=x, strip_reach=reach)
        b.mv(self._pointer, self._source)
        with b.loop(frame.value("kernel_width", taps), taps):
            beside, copied = Label(), Label()
            b("add", last, x, reach)
            b.branch("bgeu", x, width, beside)
            b.branch("bgeu", last, width, beside)
            self._copy_tap(range(self._npx), self._return)
            b.place(copied)
            b("addi", x, x, 1)
            b.defer(partial(self._write_beside, beside, copied))

    def _write_beside(self, start: Label, end: Label) -> None:
        b, x, pointer, right = self._b, self._second, self._pointer, Label()
        column, stride, *_, width, step = self._data
        b.place(start)
        stride = self._frame.register("stride_x", stride)
        b.mv(column, step)
        b.mv(step, self._return)
        b.branch("bge", x, ZERO, right)
        b.mv(column, x)
        for is_left in (True, False):
            labels = [Label() for _ in range(1, self._npx)]
            for label in labels:
                b("add", step, step, self._increment)
                if is_left:
                    b("add", pointer, pointer, self._increment)
                    b("add", column, column, stride)
                    b.branch("bge", column, ZERO, label)
                else:
                    b("sub", column, column, stride)
                    b.branch("blt", column, width, label)
            for pixels, label in enumerate((Label(), *labels)):
                b.place(label)
                inside = range(pixels, self._npx) if is_left else range(self._npx - pixels)
                self._copy_tap(inside if pixels else range(0), step)
                if is_left:
                    b("sub", step, step, self._return)
                    b("sub", pointer, pointer, step)
                if not pixels:
                    b.add(pointer, self._frame.value("pixel_bytes", column), stride)
                b.jump(end)
            if is_left:
                b.place(right)
