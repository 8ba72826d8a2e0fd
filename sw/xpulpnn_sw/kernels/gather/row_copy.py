"""im2col of a group whose pixels lie in one output row, for inputs as wide as the elements of the buffer.

The bounds of the input are tested once for the whole group. Neighbouring pixels share most of their fields: with stride
1 a word is read once and written to the rows of all pixels whose fields contain it, column by column in pairs of words.
Otherwise each row is copied run by run.

At a border whole runs are copied as well, also for pixels beside the input, where they contain words of the rows above
or below; then everything outside the input is replaced by the value around the map. Filter rows outside the input are
not copied.
"""

from functools import partial
from itertools import pairwise

from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder, Held, Label, Value
from xpulpnn_sw.kernels.frame import Frame
from xpulpnn_sw.kernels.gather.row_format import PAIR, RowFormat, RowWriter
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term, positive

STATE = ("y", "x", "source")  # row, column and address at which the next pixel's receptive field starts
# most pairs of words copied without a loop, if constant and not converted; more without hardware loops
_UNROLLED_PAIRS, _UNROLLED_SCALAR = 5, 12
_NO_BORDER = -1  # stands for the number of filter rows above the input


def group_terms(form: RowFormat) -> dict[str, Term]:
    npx = form.variant.npx
    stride_x, stride_x_bytes, line_bytes = Name("stride_x"), Name("stride_x_bytes"), Name("line_bytes")
    kernel_width, pixel_bytes = Argument("kernel_width"), Argument("pixel_bytes")
    terms: dict[str, Term] = {
        # groups left of row_end lie in one row
        "row_end": Name("x_end") - stride_x * (npx - 1),
        "group_x": stride_x * npx,
        "group_source": stride_x_bytes * npx,
        "pixel_gap": Number(WORD) if form.variant.interleaved else Argument("row_stride"),
    }
    if form.inside:
        return terms
    pixel_words, beside = Name("pixel_words"), Argument("stride_x") - 1
    return terms | {
        "pixel_words": pixel_bytes // WORD,
        # 0 if pixels share columns, which are whole pairs of words
        "apart": positive(Number(npx - 1) - kernel_width) + beside * beside + (pixel_words & 1),
        "column_pairs": pixel_words // PAIR,
        "middle_pairs": (kernel_width - (npx - 1)) * Name("column_pairs"),
        "shared_gap": line_bytes - (kernel_width + (npx - 1)) * pixel_bytes,
        "group_columns": positive(Name("columns") - stride_x * (npx - 1)),
        "input": Argument("input"),
        "input_end": Argument("input") + Name("height") * line_bytes,
        "reach": stride_x_bytes * (npx - 1) + kernel_width * pixel_bytes,
        "last_column": Argument("width") - kernel_width,
        "written_run": kernel_width * Name("written_pixel"),
    }


class OneRowCopy:
    def __init__(self, b: Builder, frame: Frame, form: RowFormat, registers: list[int]) -> None:
        self._b, self._frame, self._form, self._inside = b, frame, form, form.inside
        self._npx, self._interleaved, self._step = form.variant.npx, form.variant.interleaved, form.step
        registers = list(registers)
        self._y, self._x, self._source = (frame.home(name) or registers.pop(0) for name in STATE)
        self._target, self._pixels, *registers = registers
        self._pointer, self._place, self._rows, self._above, self._first, self._start, *registers = registers
        self._work, self._counter, *registers = registers
        self._spare, registers = registers[: form.spare], registers[form.spare :]
        self._words = RowWriter(b, form, registers[: form.temporaries])
        self._unused, self._outside = registers[form.temporaries :], ZERO

    def _in_one_row(self, other: Label) -> None:
        """Copy the group as a whole if possible; otherwise go to ``other`` with all state unchanged."""
        b, frame = self._b, self._frame
        border, ready, replace, moved = Label(), Label(), Label(), Label()
        end = frame.register("row_end", self._work)
        if not self._inside:
            rows, columns = frame.value("rows", self._rows), frame.value("group_columns", self._above)
            b.branch("bge", self._x, end, other)
            b.below(self._rows, self._y, rows)
            b.below(self._above, self._x, columns)
            b("and", self._above, self._rows, self._above)
            frame.load("kernel_height", self._rows)
            b.branch("beq", self._above, ZERO, border)
            b.li(self._above, _NO_BORDER)
        else:
            frame.load("kernel_height", self._rows)
            b.branch("bge", self._x, end, other)
        b.mv(self._first, self._source)
        b.mv(self._start, self._target)
        b.place(ready)
        self._copy()
        if not self._inside:
            b.branch("bge", self._above, ZERO, replace)

            def write_border() -> None:
                b.place(border)
                self._border(other)
                b.jump(ready)
                b.place(replace)
                self._replace()
                b.jump(moved)

            b.aside(write_border)
            b.place(moved)
        self._move()

    def _move(self) -> None:
        moves = ((self._x, "x_back"), (self._y, "stride_y"), (self._source, "line_step"))
        temporaries = (self._rows, self._first, self._start)

        def write_next_row() -> None:
            values = [self._frame.value(name, register) for (_, name), register in zip(moves, temporaries, strict=True)]
            for (register, _), value in zip(moves, values, strict=True):
                self._b.add(register, value, self._work)

        steps = [(self._x, "group_x"), (self._source, "group_source")]
        values = [self._frame.value(name, register) for (_, name), register in zip(steps, temporaries, strict=False)]
        end = self._frame.register("x_end", self._start)
        for (register, _), value in zip(steps, values, strict=True):
            self._b.add(register, value, self._work)
        with self._b.replaced("beq", self._x, end, write_next_row):
            pass

    def _copy(self) -> None:
        """Copy ``_rows`` filter rows of all pixels from ``_first`` to ``_start``; both pointers are clobbered."""
        if self._inside:
            self._copy_apart()
            return
        is_apart = self._frame.value("apart", self._counter)
        if isinstance(is_apart, int):
            (self._copy_apart if is_apart else self._copy_shared)()
            return
        gap = self._frame.value("shared_gap", self._pixels)
        with self._b.replaced("bne", is_apart.register, ZERO, self._copy_apart):
            self._copy_shared(gap)

    def _copy_apart(self) -> None:
        b, frame = self._b, self._frame
        pairs, stride = frame.value("pairs", self._counter), frame.value("stride_x_bytes", self._pixels)
        overrun, gap = (
            frame.value(name, register) for name, register in zip(("overrun", "row_gap"), self._spare, strict=True)
        )
        for pixel in range(self._npx):
            b.mv(self._pointer, self._first)
            b.mv(self._place, self._start)
            self._copy_runs(Held(self._rows), pairs, self._place, (gap, overrun))
            if pixel < self._npx - 1:
                b.add(self._first, stride, self._work)
                b.add(self._start, frame.value("pixel_gap", self._work), self._work)

    def _copy_runs(self, rows: Value, pairs: Value, place: int, steps: tuple[Value, Value]) -> None:
        """Copy ``rows`` runs of words; ``steps`` are the gaps between runs in the input and in the buffer."""
        b, (gap, overrun), is_plain = self._b, steps, self._form.is_plain
        with b.loop(rows, self._rows, level=1):
            unrolled = _UNROLLED_PAIRS if b.xpulp else _UNROLLED_SCALAR
            if isinstance(pairs, int) and pairs <= unrolled and is_plain:
                self._words.copy(pairs, self._pointer, place)
            else:
                with b.loop(pairs, self._counter, level=0, short=is_plain):
                    self._words.copy(1, self._pointer, place)
            b.add(place, overrun, self._work)
            b.add(self._pointer, gap, self._work)

    def _copy_shared(self, gap: Value | None = None) -> None:
        """Copy each input column once, to the rows of all pixels whose fields contain it."""
        b, frame, last = self._b, self._frame, self._npx - 1
        gap = frame.value("shared_gap", self._pixels) if gap is None else gap
        pairs = frame.value("column_pairs", self._counter)
        rest = frame.value("middle_pairs", self._work)
        rows = [self._place, self._pointer, *self._spare][: self._npx]
        distance = frame.value("pixel_gap", rows[-1])
        b.mv(rows[0], self._start)
        for before, row in pairwise(rows):
            if isinstance(distance, Held):
                b("add", row, before, distance.register)
            else:
                b("addi", row, before, distance)
        with b.loop(Held(self._rows), self._rows, level=1):
            for column in range(last):
                self._column(pairs, rows[: column + 1])
            if isinstance(rest, Held):
                with b.replaced("bne", rest.register, ZERO, partial(self._column, rest, rows)):
                    pass
            elif rest:
                self._column(rest, rows)
            for column in range(last):
                self._column(pairs, rows[column + 1 :])
            b.add(self._first, gap, self._work)

    def _column(self, pairs: Value, rows: list[int]) -> None:
        with self._b.loop(pairs, self._counter, level=0, short=True):
            self._words.spread(self._first, rows)

    def _border(self, other: Label) -> None:
        b, frame = self._b, self._frame
        first, rows, above, work, end = self._first, self._rows, self._above, self._work, self._counter
        height, line_bytes = frame.register("height", work), frame.register("line_bytes", self._place)
        # filter rows above the input, and those inside
        b.chain(above, ZERO, ("sub", self._y), ("p.max", ZERO))
        b("sub", end, height, self._y)
        b.chain(rows, rows, ("p.min", end), ("sub", above))
        b.branch("bge", ZERO, rows, other)
        # all reads must lie in the input
        bound, reach = frame.register("input", work), frame.value("reach", self._pointer)
        b.chain(first, above, ("mul", line_bytes), ("add", self._source))
        b.branch("bltu", first, bound, other)
        bound = frame.register("input_end", self._pixels)
        b.chain(end, rows, ("addi", -1), ("mul", line_bytes), ("add", first))
        b.add(end, reach, work)
        b.branch("bltu", bound, end, other)
        self._set_start()

    def _set_start(self) -> None:
        run = self._frame.register("written_run", self._start)
        self._b.chain(self._start, self._above, ("mul", run), ("add", self._target))

    def _replace(self) -> None:
        """Overwrite everything in the rows that lies outside the input by the value around the map."""
        b, frame, x = self._b, self._frame, self._first
        # no later copy clobbers it
        self._outside = self._words.outside(frame)
        columns = frame.value("group_columns", self._work)
        self._set_start()
        b.below(self._work, self._x, columns)
        with b.skipped("bne", self._work, ZERO):
            b.mv(x, self._x)
            with b.loop(self._npx, self._pixels):
                self._replace_columns(x)
                for register, name in ((x, "stride_x"), (self._start, "pixel_gap")):
                    b.add(register, frame.value(name, self._counter), self._work)
        self._replace_rows()

    def _replace_columns(self, x: int) -> None:
        b, frame, work = self._b, self._frame, self._work

        def write_left() -> None:
            b("sub", work, ZERO, x)
            self._fill_columns(are_last=False)
            frame.load("last_column", self._counter)

        def write_right() -> None:
            b("sub", work, x, frame.register("last_column", work))
            self._fill_columns(are_last=True)

        last = frame.register("last_column", self._counter)
        with b.replaced("blt", x, ZERO, write_left):
            pass
        with b.replaced("blt", last, x, write_right):
            pass

    def _fill_columns(self, *, are_last: bool) -> None:
        """Overwrite the first or last ``_work`` pixels of each run of a row by the value around the map."""
        b, frame, gap = self._b, self._frame, self._work
        bound, words = frame.register("kernel_width", self._pointer), frame.register("pixel_words", self._place)
        b("p.min", gap, gap, bound)
        b("mul", self._counter, gap, words)
        run = frame.register("written_run", self._pointer)
        b("slli", gap, self._counter, self._step.bit_length() - 1)
        b("sub", gap, run, gap)
        if are_last:
            b("add", self._place, self._start, gap)
        else:
            b.mv(self._place, self._start)
        with b.loop(Held(self._rows), self._rows, level=1):
            with b.loop(Held(self._counter), self._counter, level=0):
                b("p.sw", self._outside, self._step, self._place)
            b("add", self._place, self._place, gap)

    def _replace_rows(self) -> None:
        b, frame = self._b, self._frame
        below, begin, count = self._pointer, self._pixels, self._counter
        kernel_height, run = frame.register("kernel_height", below), frame.register("written_run", self._start)
        b.chain(below, kernel_height, ("sub", self._rows), ("sub", self._above))
        with b.skipped("beq", below, ZERO):
            b("mul", count, below, run)
            b.chain(begin, self._above, ("add", self._rows), ("mul", run), ("add", self._target))
            self._fill(begin)
        with b.skipped("beq", self._above, ZERO):
            b("mul", count, self._above, run)
            self._fill(self._target)

    def _fill(self, begin: int) -> None:
        """Overwrite ``_counter`` bytes at ``begin`` in the rows of all pixels; ``begin`` is clobbered."""
        b, count, place = self._b, self._counter, self._place
        b("srli", count, count, WORD.bit_length() - 1)
        for pixel in range(1 if self._interleaved else self._npx):
            if pixel:
                b.add(begin, self._frame.value("pixel_gap", self._first), self._work)
            b.mv(place, begin)
            with b.loop(Held(count), count, level=0):
                b("p.sw", self._outside, WORD, place)
