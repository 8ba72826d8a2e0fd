"""im2col: the receptive fields of the pixels of a group become rows of the im2col buffer.

The pixels of a group are copied together where possible (:class:`OneRowCopy`), otherwise one by one. A field inside the
input is copied as one run of ``kernel_width`` pixels per kernel row; for any other field the row is cleared first, then
the rectangle of the field inside the input is copied. Words are copied in pairs, loads before stores, to avoid load-use
stalls.
"""

from collections.abc import Collection, Mapping

from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder, Held, Label, Value
from xpulpnn_sw.kernels.frame import Alternatives, Frame
from xpulpnn_sw.kernels.gather.row_copy import STATE, OneRowCopy, group_terms
from xpulpnn_sw.kernels.gather.row_format import RowFormat
from xpulpnn_sw.kernels.gather.row_reuse import FIRST, REGISTERS, GroupOrder, group_order, reuse_terms
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term, given, group_turns, positive
from xpulpnn_sw.kernels.variants import Variant
from xpulpnn_sw.layers.precision import Precision

SPARE_WORDS = 16  # words after the rows of a buffer that may be written: copies and clears overrun the last row

_PER_PIXEL = (
    *("pairs", "row_gap", "overrun", "kernel_height", "rows", "columns"),
    *("stride_x", "stride_x_bytes", "x_end", "target_gap"),
)
"""Numbers that every pixel needs, which are in registers as far as possible."""

PREFERRED = (*STATE, *_PER_PIXEL)  # numbers to keep in registers, by decreasing benefit
_SHARED = (
    *("line_bytes", "y", "x", "source", "height", "width", "kernel_height", "kernel_width", "pixel_bytes", "row_words"),
    *("stride_x", "stride_y", "stride_x_bytes", "input", "pad_top", "out_height", "outside0"),
)
"""Numbers that the copies in both orders need."""
# between its groups in consecutive turns a core skips so many groups fewer than there are cores
_PASSED = 2


class Im2colFormat(RowFormat):
    """Format of the rows that im2col writes, and the order of the groups as far as known arguments determine it."""

    def __init__(
        self, variant: Variant, precision: Precision, names: Collection[str], known: Mapping[str, int], *, inside: bool
    ) -> None:
        super().__init__(variant, precision, names, inside=inside)
        self.order = group_order(self, known, SPARE_WORDS * WORD)
        if self.order is not GroupOrder.ALONG_ROWS:
            self.registers = max(self.registers, REGISTERS)

    @property
    def run_words(self) -> Term:
        pixel_bytes, kernel_width = Argument("pixel_bytes"), Argument("kernel_width")
        if self.inside:
            return (kernel_width * pixel_bytes + (WORD - 1)) // WORD
        return kernel_width * (pixel_bytes // WORD)

    def terms(self) -> dict[str, Term]:
        pixel_bytes, out_width = Argument("pixel_bytes"), Argument("out_width")
        kernel_height, kernel_width = Argument("kernel_height"), Argument("kernel_width")
        stride_y, stride_x = Argument("stride_y"), Argument("stride_x")
        line_bytes, pairs = Name("line_bytes"), Name("pairs")
        tap_bytes, reach = line_bytes, kernel_height
        if self.dilated:
            tap_bytes, reach = Name("tap_bytes"), (kernel_height - 1) * Argument("dilation") + 1
        out_y: Term = Name("first_pixel") // out_width
        out_x = Name("first_pixel") - out_y * out_width
        if self.order is not GroupOrder.ALONG_ROWS:
            out_y, out_x = Name("out_y"), Name("out_x")
        run = self.run_words
        # planes may be padded
        cleared = Name("plane_words") * self.planes if self.planes > 1 else Name("row_words") * self.expansion
        if self.clears_planes:
            cleared = Name("plane_words")
        next_row = Number(WORD) if self.variant.interleaved else Argument("row_stride")
        terms = {
            "line_bytes": Argument("width") * pixel_bytes,
            **({"tap_bytes": line_bytes * Argument("dilation")} if self.dilated else {}),
            **(given("dilation") if self.dilated else {}),
            "y": out_y * stride_y - Argument("pad_top"),
            "x": out_x * stride_x - Argument("pad_left"),
            "source": Argument("input") + Name("y") * line_bytes + Name("x") * pixel_bytes,
            **given("height", "width", "kernel_height", "kernel_width", "pixel_bytes", "stride_x", "stride_y"),
            # fields with corners below these bounds lie inside
            "rows": positive(Argument("height") - reach + 1),
            "columns": positive(Argument("width") - kernel_width + 1),
            "pairs": (run + (self.unit - 1)) // self.unit,
            "overrun": (run - pairs * self.unit) * (self.step * self.expansion) if self.planes == 1 else Number(0),
            "row_gap": tap_bytes - pairs * (self.unit * WORD),
            "written_pixel": self._written(pixel_bytes // WORD),
            "written_row": self._written(Name("row_words")),
            "target_gap": next_row - Name("written_row"),
            "clears": (cleared + (self.cleared - 1)) // self.cleared,
            **{f"plane{n}": Name("plane_words") * (n * self.step) for n in range(1, self.planes)},
            "stride_x_bytes": stride_x * pixel_bytes,
            "x_end": out_width * stride_x - Argument("pad_left"),
            "x_back": Number(0) - out_width * stride_x,
            "line_step": stride_y * line_bytes - out_width * stride_x * pixel_bytes,
            **self.outside_terms(),
            **(group_terms(self) if self.by_groups else {}),
            **reuse_terms(self.order, self),
        }
        if self.order is GroupOrder.DOWN_COLUMNS:
            # only numbers shared with the copy along the rows
            return {name: value for name, value in terms.items() if name in _SHARED or name.startswith("strip")}
        return terms

    def alternatives(self, names: Collection[str]) -> Alternatives | None:
        if self.order is not GroupOrder.BY_ARGUMENTS:
            return None
        along = {*self.terms(), *group_turns()} - {*_SHARED, *FIRST}
        down = [name for name in names if name.startswith("strip") and name not in FIRST]
        return Alternatives("strips", down, [name for name in names if name in along and not name.startswith("strip")])

    def _written(self, words: Term) -> Term:
        written = words * (self.step * self.expansion)
        return written // self.planes if self.planes > 1 else written


class GroupCopy(OneRowCopy):
    def __init__(self, b: Builder, frame: Frame, form: RowFormat, registers: list[int]) -> None:
        super().__init__(b, frame, form, registers)
        self._columns, self._top, self._left = self._above, self._first, self._start
        self._held: dict[str, Held] = {}

    def emit(self) -> None:
        state = dict(zip(STATE, (self._y, self._x, self._source), strict=True))
        self._frame.load_all(**state)
        self._frame.load("row0", self._target)
        self._words.prepare(self._frame)
        for name in () if self._form.by_groups else _PER_PIXEL:
            if self._unused and self._frame.value(name, self._unused[0]) == Held(self._unused[0]):
                self._held[name] = Held(self._unused.pop(0))
        if self._form.variant.npx == 1:
            self._pixel()
            return
        if self._form.by_groups:
            self._by_group()
        else:
            self._one_by_one()
        self._frame.store_all(**state)

    def _by_group(self) -> None:
        """Copy the group as a whole if its pixels are in one row and all reads are in the input, else one by one."""
        b, apart, done = self._b, Label(), Label()

        def write_apart() -> None:
            b.place(apart)
            self._one_by_one()
            b.jump(done)

        self._in_one_row(apart)
        b.aside(write_apart)
        b.place(done)

    def _one_by_one(self) -> None:
        with self._b.loop(self._form.variant.npx, self._pixels):
            self._pixel()
            self._next_pixel()

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
        self._b.below(self._work, self._y, self._value("rows", self._rows))
        self._b.below(self._top, self._x, self._value("columns", self._columns))
        self._b("and", self._work, self._work, self._top)
        with self._b.replaced("beq", self._work, ZERO, self._copy_at_border):
            self._copy_inside()

    def _copy_inside(self) -> None:
        self._b.mv(self._pointer, self._source)
        pairs = self._value("pairs", self._columns)
        steps = self._value("row_gap", self._top), self._value("overrun", self._left)
        self._copy_runs(self._value("kernel_height", self._rows), pairs, self._target, steps)

    def _copy_at_border(self) -> None:
        """Clear the row, then copy the pixels of the receptive field that are inside the input."""
        b, frame, work, counter = self._b, self._frame, self._work, self._counter
        pointer, place, rows, columns, top, left = (
            *(self._pointer, self._place, self._rows),
            *(self._columns, self._top, self._left),
        )
        done = Label()
        b.mv(place, self._target)
        for plane in range(self._form.planes if self._form.clears_planes else 1):
            if plane:
                # overwrites what clearing the plane before has overrun
                b.mv(place, self._target)
                b.add(place, frame.value(f"plane{plane}", rows), work)
            outside = self._words.outside(frame, plane)
            with b.loop(frame.value("clears", rows), counter, level=0, short=True):
                self._words.clear(place, outside)
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
                if self._form.dilated and size == "height":
                    # rows that the dilation skips do not count
                    dilation = frame.register("dilation", counter)
                    b.chain(register, register, ("add", dilation), ("addi", -1), ("divu", dilation))
                b.at_most(register, bound, counter, pointer)
            b("sub", count, count, first)
            b.branch("beq", count, ZERO, done)
        kernel_width = frame.register("kernel_width", work)
        b.chain(place, top, ("mul", kernel_width), ("add", left))
        b.chain(place, place, ("mul", frame.register("written_pixel", counter)), ("add", self._target))
        line_bytes = frame.register("tap_bytes" if self._form.dilated else "line_bytes", counter)
        b.chain(pointer, top, ("mul", line_bytes), ("add", self._source))
        pixel_bytes = frame.register("pixel_bytes", top)
        b("mul", left, left, pixel_bytes)
        b("add", pointer, pointer, left)
        b("sub", left, kernel_width, columns)
        b("mul", columns, columns, pixel_bytes)
        b("mul", left, left, frame.register("written_pixel", top))
        # the run in pairs of words, and the overrun of the last pair
        size = frame.constant("pixel_bytes")
        unit_bytes = self._form.unit * WORD
        is_even = self._form.planes > 1 or (size is not None and size % unit_bytes == 0)
        if not is_even:
            b.chain(work, columns, ("srli", WORD.bit_length() - 1), ("andi", 1))
            b("slli", work, work, (self._form.step * self._form.expansion).bit_length() - 1)
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
                # restore the value around the map behind the run
                outside = self._words.outside(frame)
                for number in range(self._form.expansion):
                    b("sw", outside, number * self._form.step, place)
            b("add", pointer, pointer, top)
            b("add", place, place, left)
        b.place(done)
        b.add(self._target, frame.value("written_row", rows), work)


def take_next(b: Builder, frame: Frame, npx: int, out: list[int], start: Label, registers: list[int]) -> None:
    """Advance to the core's next group and go to ``start``; fall through if there is none."""
    left, turn, passed, cores, work, *others = registers
    done, next_row = Label(), Label()
    frame.load_all(left=left, turn=turn)
    cores = frame.register("cores", cores)
    b("addi", passed, cores, -_PASSED)
    with b.skipped("bne", turn, ZERO):
        b("add", passed, passed, cores)
        b.mv(turn, cores)
    b("addi", turn, turn, -1)
    b.chain(left, left, ("sub", passed), ("addi", -1))
    b.branch("bge", ZERO, left, done)
    frame.store_all(left=left, turn=turn)
    b("slli", passed, passed, npx.bit_length() - 1)
    b("mul", work, passed, frame.register("out_stride", work))
    for register in out:
        b("add", register, register, work)
    x, y, source = (frame.home(name) or others.pop(0) for name in ("x", "y", "source"))
    frame.load_all(x=x, y=y, source=source)
    for register, name in ((x, "stride_x"), (source, "stride_x_bytes")):
        b("mul", work, passed, frame.register(name, work))
        b("add", register, register, work)
    end = frame.register("x_end", left)
    steps = [(x, "x_back", turn), (y, "stride_y", passed), (source, "line_step", cores)]
    moves = [(register, frame.value(name, temporary)) for register, name, temporary in steps]
    with b.skipped("blt", x, end):
        b.place(next_row)
        for register, distance in moves:
            b.add(register, distance, work)
        b.branch("bge", x, end, next_row)
    frame.store_all(x=x, y=y, source=source)
    b.li(work, 1)
    frame.store("group", work)
    b.jump(start)
    b.place(done)
