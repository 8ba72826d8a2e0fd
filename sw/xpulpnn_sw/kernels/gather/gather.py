"""im2col of all pixel groups of a core, in the order of rows or of columns."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext

from xpulpnn_sw.kernels.builder import ZERO, Builder, Label
from xpulpnn_sw.kernels.frame import Frame
from xpulpnn_sw.kernels.gather.im2col import GroupCopy, Im2colFormat, take_next
from xpulpnn_sw.kernels.gather.row_reuse import GroupOrder, RowReuseCopy


class Gather:
    def __init__(self, b: Builder, frame: Frame, form: Im2colFormat, registers: Sequence[int], out: list[int]) -> None:
        self._b, self._frame, self._registers, self._out = b, frame, list(registers), out
        self._npx = form.variant.npx
        self._along = None if form.order is GroupOrder.DOWN_COLUMNS else GroupCopy(b, frame, form, self._registers)
        self._down = None if form.order is GroupOrder.ALONG_ROWS else RowReuseCopy(b, frame, form, registers)
        self._strip, self._copy_along, self._copied = Label(), Label(), Label()

    @property
    def is_down(self) -> bool:
        return self._along is None

    def begin(self, flag: int) -> None:
        """Write the jump to the first strip, if groups may go down the columns; register ``flag`` may be clobbered."""
        if self._down is None:
            return
        with self._skipped_along(flag):
            self._b.jump(self._strip)
            # within reach of the branches to it
            with self._b.region("im2col"):
                self._down.write_slow_paths()
                if self._along is not None:
                    self._b.place(self._copy_along)
                    self._along.emit()
                    self._b.jump(self._copied)
            self._b.put_asides()

    def emit(self) -> None:
        with self._b.region("im2col"):
            if self._down is None:
                assert self._along is not None
                self._along.emit()
                return
            if self._along is not None:
                flag = self._frame.register("strips", self._registers[0])
                self._b.branch("beq", flag, ZERO, self._copy_along)
            self._down.emit()
            self._b.place(self._copied)

    def take_next(self, start: Label) -> None:
        """Prepare the core's next group and branch to ``start``; fall through if there is none."""
        b, end = self._b, Label()
        if self._down is not None:
            with self._skipped_along(self._registers[0]):
                b.place(self._strip)
                self._down.begin(self._out, start, end)
        if self._along is not None:
            take_next(b, self._frame, self._npx, self._out, start, self._registers)
        b.place(end)

    @contextmanager
    def _skipped_along(self, flag: int) -> Generator[None]:
        """Skip the instructions written in the context if groups go along the rows."""
        is_by_arguments = self._along is not None
        skips = self._b.skipped("beq", self._frame.register("strips", flag), ZERO) if is_by_arguments else nullcontext()
        with skips:
            yield
