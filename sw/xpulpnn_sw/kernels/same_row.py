"""im2col of a group whose pixels lie in one row of the output, inputs as wide as the rows: bounds are tested once.

Where all fields lie inside the input, nothing but their words is copied. At a border whole runs are copied as well,
also of pixels that lie beside the input, where the words are those of the rows above or below; then what does not
belong to the field is replaced by what lies around the map. Filter rows outside are not copied at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder, Held, Label, Value
from xpulpnn_sw.kernels.frame import Frame
from xpulpnn_sw.kernels.row_words import RowWords
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term, positive

_UNROLLED_PAIRS = 5
"""Up to so many pairs of words are copied without a loop, if their number is known."""

KEPT = ("pairs", "row_gap", "overrun", "kernel_height", "target_gap", "stride_x_bytes")
"""What every pixel needs; kept in registers as far as there are any."""


LOST = 11
"""Registers of the copy, besides those with the state, the target and the words."""


def group_terms(npx: int, *, interleaved: bool, inside: bool) -> dict[str, Term]:
    """What the copy of a group needs, of arguments and of names of the copy pixel by pixel."""
    stride_x, stride_x_bytes = Name("stride_x"), Name("stride_x_bytes")
    kernel_width, pixel_bytes = Argument("kernel_width"), Argument("pixel_bytes")
    # left of row_end all pixels are in the same row
    moves: dict[str, Term] = {"row_end": Name("x_end") - stride_x * (npx - 1), "group_x": stride_x * npx}
    if inside:
        return moves
    return moves | {
        "group_columns": positive(Name("columns") - stride_x * (npx - 1)),
        "group_source": stride_x_bytes * npx,
        "input": Argument("input"),
        "input_end": Argument("input") + Name("height") * Name("line_bytes"),
        "reach": stride_x_bytes * (npx - 1) + kernel_width * pixel_bytes,
        "last_column": Argument("width") - kernel_width,
        "pixel_words": pixel_bytes // WORD,
        "written_run": kernel_width * Name("written_pixel"),
        "pixel_gap": Number(WORD) if interleaved else Argument("row_stride"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Registers of the copy.

    Parameters
    ----------
    y, x, source : int
        Row, column and address at which the first field starts; moved to those of the next group.
    target : int
        Where the first row begins; lost.
    free : list of int
        :data:`LOST` that are lost.
    """

    y: int
    x: int
    source: int
    target: int
    free: list[int]


class SameRow:
    """Writes the copy of a group.

    Parameters
    ----------
    b : Builder
        Takes the instructions.
    frame : Frame
        With the terms of :func:`group_terms` and those that they are made of.
    words : RowWords
        Copies words.
    npx : int
        Pixels of a group.
    interleaved : bool
        Whether their rows alternate word by word.
    inside : bool
        Whether all fields lie inside the input.
    places : Places
        Registers.
    held : mapping of str to Value
        Of :data:`KEPT` what is in registers.
    """

    def __init__(
        self,
        b: Builder,
        frame: Frame,
        words: RowWords,
        npx: int,
        *,
        interleaved: bool,
        inside: bool,
        places: Places,
        held: Mapping[str, Value],
    ) -> None:
        self._b, self._frame, self._words, self._npx = b, frame, words, npx
        self._interleaved, self._inside, self._held = interleaved, inside, held
        self._y, self._x, self._source, self._target = places.y, places.x, places.source, places.target
        self._pointer, self._place, self._rows, self._missing, self._first, self._start, *rest = places.free
        self._work, self._counter, self._pixels, *self._spare = rest
        self._step = WORD * npx if interleaved else WORD

    def emit(self, apart: Label) -> None:
        """Copy the group; go to ``apart`` with everything as before if it must be done pixel by pixel."""
        b, frame = self._b, self._frame
        border, moved = Label(), Label()
        end = frame.register("row_end", self._work)
        if not self._inside:
            rows, columns = frame.value("rows", self._rows), frame.value("group_columns", self._missing)
        b.branch("bge", self._x, end, apart)
        if not self._inside:
            b.below(self._rows, self._y, rows)
            b.below(self._missing, self._x, columns)
            b("and", self._rows, self._rows, self._missing)
            b.branch("beq", self._rows, ZERO, border)

            def write_border() -> None:
                b.place(border)
                self._border(apart)
                b.jump(moved)

            b.aside(write_border)
        rows = self._value("kernel_height", self._rows)
        for pixel in range(self._npx):
            b.mv(self._pointer, self._source)
            self._copy(rows, self._target, (self._counter, self._first, self._start))
            b.add(self._source, self._value("stride_x_bytes", self._missing), self._work)
            if pixel < self._npx - 1:
                b.add(self._target, self._value("target_gap", self._missing), self._work)
        distance = frame.value("group_x", self._missing)
        b.add(self._x, distance, self._work)
        b.place(moved)
        self._wrap()

    def _value(self, name: str, temporary: int) -> Value:
        return self._held.get(name) or self._frame.value(name, temporary)

    def _wrap(self) -> None:
        """Go on to the next row if this one is complete."""
        b, frame, next_row, same_row = self._b, self._frame, Label(), Label()

        def write_next_row() -> None:
            b.place(next_row)
            moves = ((self._x, "x_back"), (self._y, "stride_y"), (self._source, "line_step"))
            values = [
                frame.value(name, temporary)
                for (_, name), temporary in zip(moves, (self._missing, self._first, self._start), strict=True)
            ]
            for (register, _), value in zip(moves, values, strict=True):
                b.add(register, value, self._work)
            b.jump(same_row)

        end = frame.register("x_end", self._rows)
        b.branch("beq", self._x, end, next_row)
        b.aside(write_next_row)
        b.place(same_row)

    def _copy(self, rows: Value, place: int, temporaries: tuple[int, int, int]) -> None:
        """Copy runs from ``_pointer`` on to a row at ``place``, which is moved behind them."""
        b, names = self._b, ("pairs", "overrun", "row_gap")
        pairs, overrun, gap = (self._value(name, one) for name, one in zip(names, temporaries, strict=True))
        with b.loop(rows, self._rows, level=1):
            if isinstance(pairs, int) and pairs <= _UNROLLED_PAIRS:
                self._words.copy(pairs, self._pointer, place)
            else:
                with b.loop(pairs, self._counter, level=0, short=True):
                    self._words.copy(1, self._pointer, place)
            b.add(place, overrun, self._work)
            b.add(self._pointer, gap, self._work)

    def _border(self, apart: Label) -> None:
        """A group some of whose fields reach beyond the input."""
        b, frame = self._b, self._frame
        first, start, rows, missing = self._first, self._start, self._rows, self._missing
        kernel_height = frame.register("kernel_height", self._pointer)
        height, line_bytes = frame.register("height", rows), frame.register("line_bytes", self._place)
        # filter rows above the input, and those inside
        b("sub", missing, ZERO, self._y)
        b("p.max", missing, missing, ZERO)
        b("sub", rows, height, self._y)
        b("p.min", rows, rows, kernel_height)
        b("sub", rows, rows, missing)
        b.branch("bge", ZERO, rows, apart)
        b("mul", first, missing, line_bytes)
        b("add", first, first, self._source)
        # what is read must be the input's
        bound = frame.register("input", self._work)
        b.branch("bltu", first, bound, apart)
        b("addi", self._counter, rows, -1)
        b("mul", self._counter, self._counter, line_bytes)
        b("add", self._counter, self._counter, first)
        b.add(self._counter, frame.value("reach", self._work), self._work)
        bound = frame.register("input_end", self._work)
        b.branch("bltu", bound, self._counter, apart)
        # the rows begin behind those above
        run = frame.register("written_run", self._work)
        b("mul", start, missing, run)
        b("add", start, start, self._target)
        with b.loop(self._npx, self._pixels):
            self._border_pixel()
        self._clear_rows()
        b.add(self._source, frame.value("group_source", self._first), self._work)

    def _border_pixel(self) -> None:
        """Copy the rows that are inside, replace columns that are not, and go on to the next pixel."""
        b, frame, work = self._b, self._frame, self._work
        left, left_done, right, right_done = Label(), Label(), Label(), Label()

        def write_left() -> None:
            b.place(left)
            b("sub", work, ZERO, self._x)
            self._clear_columns(are_last=False)
            b.jump(left_done)

        def write_right() -> None:
            b.place(right)
            b("sub", work, self._x, frame.register("last_column", work))
            self._clear_columns(are_last=True)
            b.jump(right_done)

        b.mv(self._pointer, self._first)
        b.mv(self._place, self._start)
        self._copy(Held(self._rows), self._place, (self._counter, *self._spare))
        last = frame.register("last_column", work)
        b.branch("blt", self._x, ZERO, left)
        b.aside(write_left)
        b.place(left_done)
        b.branch("blt", last, self._x, right)
        b.aside(write_right)
        b.place(right_done)
        for register, name in ((self._x, "stride_x"), (self._first, "stride_x_bytes"), (self._start, "pixel_gap")):
            b.add(register, frame.value(name, self._counter), work)

    def _clear_columns(self, *, are_last: bool) -> None:
        """Replace the first or last pixels, ``_work`` but no more than there are, of each run of a row."""
        b, frame, gap = self._b, self._frame, self._work
        b("p.min", gap, gap, frame.register("kernel_width", self._pointer))
        b("mul", self._counter, gap, frame.register("pixel_words", self._pointer))
        b("slli", gap, self._counter, self._step.bit_length() - 1)
        b("sub", gap, frame.register("written_run", self._pointer), gap)
        if are_last:
            b("add", self._place, self._start, gap)
        else:
            b.mv(self._place, self._start)
        with b.loop(Held(self._rows), self._rows, level=1):
            with b.loop(Held(self._counter), self._counter, level=0):
                b("p.sw", self._words.outside, self._step, self._place)
            b("add", self._place, self._place, gap)

    def _clear_rows(self) -> None:
        """Replace the filter rows below the input, and those above it."""
        b, frame = self._b, self._frame
        none_below, none_above = Label(), Label()
        below, begin, count = self._pointer, self._pixels, self._counter
        kernel_height, run = frame.register("kernel_height", below), frame.register("written_run", self._start)
        b("sub", below, kernel_height, self._rows)
        b("sub", below, below, self._missing)
        b.branch("beq", below, ZERO, none_below)
        b("mul", count, below, run)
        b("add", begin, self._missing, self._rows)
        b("mul", begin, begin, run)
        b("add", begin, begin, self._target)
        self._fill(begin)
        b.place(none_below)
        b.branch("beq", self._missing, ZERO, none_above)
        b("mul", count, self._missing, run)
        self._fill(self._target)
        b.place(none_above)

    def _fill(self, begin: int) -> None:
        """Replace ``_counter`` bytes of rows at ``begin``, which is lost, of all pixels."""
        b, count, place = self._b, self._counter, self._place
        b("srli", count, count, WORD.bit_length() - 1)
        for pixel in range(1 if self._interleaved else self._npx):
            if pixel:
                b.add(begin, self._frame.value("pixel_gap", self._first), self._work)
            b.mv(place, begin)
            with b.loop(Held(count), count, level=0):
                b("p.sw", self._words.outside, WORD, place)
