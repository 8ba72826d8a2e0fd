"""im2col of the pixels of a group, which are side by side or at the end of one row and the beginning of the next.

A group whose pixels lie in one output row is copied as a whole if inputs are as wide as the elements of the buffer. The
bounds of the input are tested once. Receptive fields of neighbouring pixels overlap: with stride 1 a word is read once
and written to the rows of all pixels that need it, column by column in pairs of words. Otherwise each row is copied in
runs, one run of ``kernel_width`` pixels per kernel row. At a border whole runs are copied as well, which may contain
words of the rows above or below; then everything outside the input is replaced by the padding value.

Other groups are copied pixel by pixel. A receptive field inside the input is copied in runs. For any other field the
buffer row is cleared first, then the rectangle inside the input is copied. Words are copied in pairs, loads before
stores, to avoid load-use stalls.
"""

from functools import partial
from itertools import pairwise

from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder, Held, Label, Value
from xpulpnn_sw.kernels.frame import Frame
from xpulpnn_sw.kernels.gather.row_format import PAIR, RowFormat, RowWriter

STATE = ("y", "x", "source")  # row, column and address at which the next pixel's receptive field starts
# numbers that every pixel needs, which are in registers as far as possible
_PER_PIXEL = (
    *("pairs", "row_gap", "overrun", "kernel_height", "rows", "columns"),
    *("stride_x", "stride_x_bytes", "x_end", "target_gap"),
)
PREFERRED = (*STATE, *_PER_PIXEL)  # numbers to keep in registers, by decreasing benefit
# most pairs of words copied without a loop, if constant and not converted; more without hardware loops
_UNROLLED_PAIRS, _UNROLLED_SCALAR = 5, 12
_NO_BORDER = -1  # stands for the number of filter rows above the input


class GroupCopy:
    def __init__(self, b: Builder, frame: Frame, form: RowFormat, registers: list[int]) -> None:
        self._b, self._frame, self._form, self._npx = b, frame, form, form.variant.npx
        registers = list(registers)
        self._y, self._x, self._source = (frame.homes.get(name) or registers.pop(0) for name in STATE)
        self._target, self._pixels, self._pointer, self._place, self._rows, *registers = registers
        # the first three serve two purposes
        self._above, self._first, self._start, self._work, self._counter, *registers = registers
        self._columns, self._top, self._left = self._above, self._first, self._start
        self._spare, registers = registers[: form.spare], registers[form.spare :]
        self._words = RowWriter(b, form, registers[: form.temporaries])
        self._unused, self._outside = registers[form.temporaries :], ZERO
        self._held: dict[str, Held] = {}

    def emit(self) -> None:
        frame = self._frame
        state = dict(zip(STATE, (self._y, self._x, self._source), strict=True))
        frame.load_all(**state, row0=self._target)
        self._words.prepare(frame)
        for name in () if self._form.by_groups else _PER_PIXEL:
            if self._unused and frame.value(name, self._unused[0]) == Held(self._unused[0]):
                self._held[name] = Held(self._unused.pop(0))
        if self._npx == 1:
            # such kernels compute a single pixel
            self._pixel()
            return
        if self._form.by_groups:
            apart, done = Label(), Label()
            self._in_one_row(apart)
            self._b.defer(partial(self._copy_pixels, apart, done))
            self._b.place(done)
        else:
            self._copy_pixels()
        frame.store_all(**state)

    def _copy_runs(self, rows: Value, pairs: Value, place: int, gap: Value, overrun: Value) -> None:
        b, is_plain, unit = self._b, self._form.is_plain, self._form.run_unit
        with b.loop(rows, self._rows, level=1):
            unrolled = _UNROLLED_PAIRS if b.xpulp else _UNROLLED_SCALAR * PAIR // unit
            if isinstance(pairs, int) and pairs <= unrolled and is_plain:
                self._words.copy(pairs, self._pointer, place, unit)
            else:
                with b.loop(pairs, self._counter, level=0, short=is_plain):
                    self._words.copy(1, self._pointer, place, unit)
            b.add(place, overrun, self._work)
            b.add(self._pointer, gap, self._work)

    # -- pixel by pixel

    def _copy_pixels(self, start: Label | None = None, end: Label | None = None) -> None:
        if start is not None:
            self._b.place(start)
        with self._b.loop(self._npx, self._pixels):
            self._pixel()
            self._next_pixel()
        if end is not None:
            self._b.jump(end)

    def _value(self, name: str, temporary: int) -> Value:
        return self._held.get(name) or self._frame.value(name, temporary)

    def _next_pixel(self) -> None:
        b, work = self._b, self._work
        b.add(self._x, self._value("stride_x", self._rows), work)
        b.add(self._source, self._value("stride_x_bytes", self._columns), work)
        held = self._held.get("x_end")
        end = self._frame.register("x_end", self._top) if held is None else held.register
        with b.skipped("bne", self._x, end):
            for register, name in ((self._x, "x_back"), (self._y, "stride_y"), (self._source, "line_step")):
                b.add(register, self._frame.value(name, self._rows), work)
        b.add(self._target, self._value("target_gap", self._rows), work)

    def _pixel(self) -> None:
        if self._form.inside:
            self._copy_inside()
            return
        b = self._b
        b.set_below(self._work, self._y, self._value("rows", self._rows))
        b.set_below(self._top, self._x, self._value("columns", self._columns))
        b("and", self._work, self._work, self._top)
        with b.replaced("beq", self._work, ZERO, self._copy_at_border):
            self._copy_inside()

    def _copy_inside(self) -> None:
        self._b.mv(self._pointer, self._source)
        pairs, gap = self._value("pairs", self._columns), self._value("row_gap", self._top)
        overrun = self._value("overrun", self._left)
        self._copy_runs(self._value("kernel_height", self._rows), pairs, self._target, gap, overrun)

    def _copy_at_border(self) -> None:
        b, frame, form, work, counter = self._b, self._frame, self._form, self._work, self._counter
        pointer, place, rows, columns = self._pointer, self._place, self._rows, self._columns
        top, left, done = self._top, self._left, Label()
        self._clear_row()
        for size, kernel, corner, first, count in (
            ("height", "kernel_height", self._y, top, rows),
            ("width", "kernel_width", self._x, left, columns),
        ):
            # kernel lines before the input's first line, and before its end
            bound = frame.register(kernel, work)
            b("sub", first, ZERO, corner)
            b("sub", count, frame.register(size, count), corner)
            for register in (first, count):
                b.positive(register, counter)
                if form.dilated and size == "height":
                    # rows that the dilation skips do not count
                    dilation = frame.register("dilation", counter)
                    b.chain(register, register, ("add", dilation), ("addi", -1), ("divu", dilation))
                b.at_most(register, bound, counter, pointer)
            b("sub", count, count, first)
            b.branch("beq", count, ZERO, done)
        kernel_width = frame.register("kernel_width", work)
        b.chain(place, top, ("mul", kernel_width), ("add", left))
        b.chain(place, place, ("mul", frame.register("written_pixel", counter)), ("add", self._target))
        line_bytes = frame.register("tap_bytes" if form.dilated else "line_bytes", counter)
        b.chain(pointer, top, ("mul", line_bytes), ("add", self._source))
        pixel_bytes = frame.register("pixel_bytes", top)
        b("mul", left, left, pixel_bytes)
        b("add", pointer, pointer, left)
        b("sub", left, kernel_width, columns)
        b("mul", columns, columns, pixel_bytes)
        b("mul", left, left, frame.register("written_pixel", top))
        # the run in pairs of words, and the overrun of the last pair
        size, unit_bytes = frame.constants.get("pixel_bytes"), form.unit * WORD
        is_even = form.planes > 1 or (size is not None and size % unit_bytes == 0)
        if not is_even:
            b.chain(work, columns, ("srli", WORD.bit_length() - 1), ("andi", 1))
            b("slli", work, work, (form.step * form.expansion).bit_length() - 1)
            b("addi", columns, columns, WORD)
        b("srli", columns, columns, unit_bytes.bit_length() - 1)
        # from the end of a run to the next one: top in the input, left in the buffer
        b("slli", top, columns, unit_bytes.bit_length() - 1)
        b("sub", top, line_bytes, top)
        with b.loop(Held(rows), rows, level=1):
            with b.loop(Held(columns), counter, level=0):
                self._words.copy(1, pointer, place)
            if not is_even:
                b("sub", place, place, work)
                # restore the padding value behind the run
                outside = self._words.load_outside(frame)
                for number in range(form.expansion):
                    b("sw", outside, number * form.step, place)
            b("add", pointer, pointer, top)
            b("add", place, place, left)
        b.place(done)
        b.add(self._target, frame.value("written_row", rows), work)

    def _clear_row(self) -> None:
        b, frame, place, rows = self._b, self._frame, self._place, self._rows
        for plane in range(self._form.planes if self._form.clears_planes else 1):
            # overwrites what clearing the plane before has overrun
            b.mv(place, self._target)
            if plane:
                b.add(place, frame.value(f"plane{plane}", rows), self._work)
            outside = self._words.load_outside(frame, plane)
            with b.loop(frame.value("clears", rows), self._counter, level=0, short=True):
                self._words.clear(place, outside)

    # -- the whole group

    def _in_one_row(self, other: Label) -> None:
        b, frame, inside = self._b, self._frame, self._form.inside
        border, ready, replace, moved = Label(), Label(), Label(), Label()
        end = frame.register("row_end", self._work)
        if not inside:
            rows, columns = frame.value("rows", self._rows), frame.value("group_columns", self._above)
            b.branch("bge", self._x, end, other)
            b.set_below(self._rows, self._y, rows)
            b.set_below(self._above, self._x, columns)
            b("and", self._above, self._rows, self._above)
        frame.load("kernel_height", self._rows)
        if inside:
            b.branch("bge", self._x, end, other)
        else:
            b.branch("beq", self._above, ZERO, border)
            b.li(self._above, _NO_BORDER)
        b.mv(self._first, self._source)
        b.mv(self._start, self._target)
        b.place(ready)
        self._copy()
        if not inside:
            b.branch("bge", self._above, ZERO, replace)

            def write_border() -> None:
                b.place(border)
                self._border(other)
                b.jump(ready)
                b.place(replace)
                self._replace()
                b.jump(moved)

            b.defer(write_border)
            b.place(moved)
        self._move()

    def _move(self) -> None:
        b, frame, moved, place = self._b, self._frame, (self._x, self._source), (self._x, self._y, self._source)

        def values(*names: str) -> list[Value]:
            return list(map(frame.value, names, (self._rows, self._first, self._start)))

        def add(registers: tuple[int, ...], distances: list[Value]) -> None:
            for register, distance in zip(registers, distances, strict=True):
                b.add(register, distance, self._work)

        distances = values("group_x", "group_source")
        end = frame.register("x_end", self._start)
        add(moved, distances)
        with b.replaced("beq", self._x, end, lambda: add(place, values("x_back", "stride_y", "line_step"))):
            pass

    def _copy(self) -> None:
        is_apart = True if self._form.inside else self._frame.value("apart", self._counter)
        if isinstance(is_apart, int):
            (self._copy_apart if is_apart else self._copy_shared)()
            return
        gap = self._frame.value("shared_gap", self._pixels)
        with self._b.replaced("bne", is_apart.register, ZERO, self._copy_apart):
            self._copy_shared(gap)

    def _copy_apart(self) -> None:
        b, frame = self._b, self._frame
        pairs, stride = frame.value("pairs", self._counter), frame.value("stride_x_bytes", self._pixels)
        overrun, gap = map(frame.value, ("overrun", "row_gap"), self._spare)
        for pixel in range(self._npx):
            b.mv(self._pointer, self._first)
            b.mv(self._place, self._start)
            self._copy_runs(Held(self._rows), pairs, self._place, gap, overrun)
            if pixel < self._npx - 1:
                b.add(self._first, stride, self._work)
                b.add(self._start, frame.value("pixel_gap", self._work), self._work)

    def _copy_shared(self, gap: Value | None = None) -> None:
        b, frame, last = self._b, self._frame, self._npx - 1
        gap = frame.value("shared_gap", self._pixels) if gap is None else gap
        pairs, rest = frame.value("column_pairs", self._counter), frame.value("middle_pairs", self._work)
        rows = [self._place, self._pointer, *self._spare][: self._npx]
        distance = frame.value("pixel_gap", rows[-1])
        b.mv(rows[0], self._start)
        for before, row in pairwise(rows):
            b.operate("add", row, before, distance)

        def column(pairs: Value, rows: list[int]) -> None:
            with b.loop(pairs, self._counter, level=0, short=True):
                self._words.spread(self._first, rows)

        with b.loop(Held(self._rows), self._rows, level=1):
            for number in range(last):
                column(pairs, rows[: number + 1])
            if isinstance(rest, Held):
                with b.replaced("bne", rest.register, ZERO, partial(column, rest, rows)):
                    pass
            elif rest:
                column(rest, rows)
            for number in range(last):
                column(pairs, rows[number + 1 :])
            b.add(self._first, gap, self._work)

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
        b, frame, x = self._b, self._frame, self._first
        # no later copy clobbers it
        self._outside = self._words.load_outside(frame)
        columns = frame.value("group_columns", self._work)
        self._set_start()
        b.set_below(self._work, self._x, columns)
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
        b, frame, gap, step = self._b, self._frame, self._work, self._form.step
        bound, words = frame.register("kernel_width", self._pointer), frame.register("pixel_words", self._place)
        b("p.min", gap, gap, bound)
        b("mul", self._counter, gap, words)
        run = frame.register("written_run", self._pointer)
        b("slli", gap, self._counter, step.bit_length() - 1)
        b("sub", gap, run, gap)
        if are_last:
            b("add", self._place, self._start, gap)
        else:
            b.mv(self._place, self._start)
        with b.loop(Held(self._rows), self._rows, level=1):
            with b.loop(Held(self._counter), self._counter, level=0):
                b("p.sw", self._outside, step, self._place)
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
        b, count, place = self._b, self._counter, self._place
        b("srli", count, count, WORD.bit_length() - 1)
        for pixel in range(1 if self._form.variant.interleaved else self._npx):
            if pixel:
                b.add(begin, self._frame.value("pixel_gap", self._first), self._work)
            b.mv(place, begin)
            with b.loop(Held(count), count, level=0):
                b("p.sw", self._outside, WORD, place)
