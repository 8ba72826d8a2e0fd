"""im2col: the receptive fields of the pixels of a group become rows of the im2col buffer.

The groups of a core follow each other along the rows of the output (:class:`GroupCopy`) or down its columns
(:class:`RowReuseCopy`).
"""

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, nullcontext

from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder, Label
from xpulpnn_sw.kernels.frame import Alternatives, Frame
from xpulpnn_sw.kernels.gather.group_copy import GroupCopy
from xpulpnn_sw.kernels.gather.row_format import PAIR, RowFormat
from xpulpnn_sw.kernels.gather.row_reuse import FIRST, REGISTERS, GroupOrder, RowReuseCopy, group_order, reuse_terms
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term, given, group_turns, positive
from xpulpnn_sw.kernels.variants import Variant
from xpulpnn_sw.layers.precision import Precision

SPARE_WORDS = 16  # words after the rows of a buffer that may be written: copies and clears overrun the last row

_SHARED = (
    *("line_bytes", "y", "x", "source", "height", "width", "kernel_height", "kernel_width", "pixel_bytes", "row_words"),
    *("stride_x", "stride_y", "stride_x_bytes", "input", "pad_top", "out_height", "outside0"),
)
"""Numbers that the copies in both orders need."""
_PASSED = 2  # between its groups in consecutive turns a core skips so many groups fewer than there are cores


class Im2colFormat(RowFormat):
    """Format of the rows that im2col writes, and the order of the groups as far as known arguments determine it."""

    def __init__(
        self, variant: Variant, precision: Precision, names: Collection[str], known: Mapping[str, int], *, inside: bool
    ) -> None:
        super().__init__(variant, precision, names, inside=inside)
        self.order = group_order(self, known, SPARE_WORDS * WORD)
        if self.order is not GroupOrder.ALONG_ROWS:
            self.registers = max(self.registers, REGISTERS)

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
        run = self.run_words(kernel_width, pixel_bytes)
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
            "pairs": (run + (self.run_unit - 1)) // self.run_unit,
            "overrun": (run - pairs * self.run_unit) * (self.step * self.expansion) if self.planes == 1 else Number(0),
            "row_gap": tap_bytes - pairs * (self.run_unit * WORD),
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
        row_names = {*self.terms(), *group_turns()} - {*_SHARED, *FIRST}
        strip_names = [name for name in names if name.startswith("strip") and name not in FIRST]
        return "strips", strip_names, [name for name in names if name in row_names and not name.startswith("strip")]

    def _written(self, words: Term) -> Term:
        written = words * (self.step * self.expansion)
        return written // self.planes if self.planes > 1 else written


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


class Gather:
    def __init__(self, b: Builder, frame: Frame, form: Im2colFormat, registers: list[int], out: list[int]) -> None:
        self._b, self._frame, self._registers, self._out = b, frame, registers, out
        self._npx = form.variant.npx
        self._row_copy = None if form.order is GroupOrder.DOWN_COLUMNS else GroupCopy(b, frame, form, registers)
        self._column_copy = None if form.order is GroupOrder.ALONG_ROWS else RowReuseCopy(b, frame, form, registers)
        self._strip, self._copy_along, self._copied = Label(), Label(), Label()

    def begin(self, flag: int) -> None:
        """Write the jump to the first strip if groups may go down the columns; register ``flag`` may be clobbered."""
        if self._column_copy is None:
            return
        with self._skipped_along(flag):
            self._b.jump(self._strip)
            # within reach of the branches to it
            with self._b.region("im2col"):
                self._column_copy.write_slow_paths()
                if self._row_copy is not None:
                    self._b.place(self._copy_along)
                    self._row_copy.emit()
                    self._b.jump(self._copied)
            self._b.emit_deferred()

    def emit(self) -> None:
        with self._b.region("im2col"):
            if self._column_copy is None:
                assert self._row_copy is not None
                self._row_copy.emit()
                return
            if self._row_copy is not None:
                flag = self._frame.register("strips", self._registers[0])
                self._b.branch("beq", flag, ZERO, self._copy_along)
            self._column_copy.emit()
            self._b.place(self._copied)

    def take_next(self, start: Label) -> None:
        """Prepare the core's next group and branch to ``start``; fall through if there is none."""
        b, end = self._b, Label()
        if self._column_copy is not None:
            with self._skipped_along(self._registers[0]):
                b.place(self._strip)
                self._column_copy.begin(self._out, start, end)
        if self._row_copy is not None:
            self._take_next_along(start)
        b.place(end)

    @contextmanager
    def _skipped_along(self, flag: int) -> Generator[None]:
        is_by_arguments = self._row_copy is not None
        skips = self._b.skipped("beq", self._frame.register("strips", flag), ZERO) if is_by_arguments else nullcontext()
        with skips:
            yield

    def _take_next_along(self, start: Label) -> None:
        b, frame = self._b, self._frame
        left, turn, passed, cores, work, *others = self._registers
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
        b("slli", passed, passed, self._npx.bit_length() - 1)
        b("mul", work, passed, frame.register("out_stride", work))
        for register in self._out:
            b("add", register, register, work)
        x, y, source = (frame.homes.get(name) or others.pop(0) for name in ("x", "y", "source"))
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
