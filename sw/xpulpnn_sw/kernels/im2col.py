"""im2col: the receptive fields of the pixels of a group become rows of the im2col buffer.

A pixel whose field lies inside the input copies one run of ``kernel_width`` pixels per kernel row; any other pixel
tests every position and writes zeros for those outside. Loads are grouped before stores, so that no store waits for
its data.
"""

from collections.abc import Callable
from dataclasses import dataclass

from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder
from xpulpnn_sw.kernels.inner import PAIRS
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS, Variant
from xpulpnn_sw.layer import ConvLayer
from xpulpnn_sw.stream import Env

WORDS_PER_STEP = 4
"""Most words copied or cleared in one iteration of a copy loop."""

STATE_WORDS = 3
"""Words kept in memory between pixel groups: row and column of the receptive field, address of its corner."""

_UNROLLED_STEPS = 2
"""Up to so many iterations are written out."""

_BYTES = WORD_BITS // BYTE_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Im2col:
    """The copy for one pixel group.

    Parameters
    ----------
    layer : ConvLayer
        Geometry.
    variant : Variant
        Pixels per group, layout and element width of the rows.
    bits : int
        Width of the input.
    pixel_words : int
        Words of an input pixel.
    buffer, state : int
        Addresses of the im2col rows and of the state.
    registers : list of int
        Registers free to use.
    """

    layer: ConvLayer
    variant: Variant
    bits: int
    pixel_words: int
    buffer: int
    state: int
    registers: list[int]

    @property
    def expansion(self) -> int:
        """Words written for a word read."""
        return self.variant.row_bits(self.bits) // self.bits

    @property
    def step(self) -> int:
        """Distance in bytes of the words of a row."""
        return WORD * self.variant.npx if self.variant.interleaved else WORD

    @property
    def row_words(self) -> int:
        """Words of a row."""
        return self.layer.kernel_height * self.layer.kernel_width * self.pixel_words * self.expansion

    def corner(self, pixel: int) -> tuple[int, int]:
        """Row and column at which the receptive field of an output pixel starts."""
        y, x = divmod(pixel, self.layer.out_width)
        top, _, left, _ = self.layer.padding
        return y * self.layer.stride[0] - top, x * self.layer.stride[1] - left

    def initial_state(self, data_address: int) -> tuple[int, int, int]:
        """State before pixel 0 of an input at ``data_address``."""
        y, x = self.corner(0)
        return y, x, data_address + (y * self.layer.width + x) * self.pixel_words * WORD

    def emit(self, b: Builder) -> None:
        """Fill the rows of the pixels ``group * npx ...``, where ``group`` comes from the loop around."""
        y, x, source, target, pixels, *scratch = self.registers
        with b.region("im2col"):
            work = scratch[0]
            b.address(work, "state", 0, self.state)
            for number, register in enumerate((y, x, source)):
                b("lw", register, number * WORD, work)
            b.address(target, "im2col", 0, self.buffer)
            copy = _Pixel(self, b, y, x, source, target, scratch)
            with b.loop(self.variant.npx, pixels, index="pixel"):
                copy.emit()
                self._next_pixel(b, y, x, source, work)
                if self.variant.interleaved:
                    b.advance(target, WORD - self.row_words * self.step, work)
            b.address(work, "state", 0, self.state)
            for number, register in enumerate((y, x, source)):
                b("sw", register, number * WORD, work)

    def _next_pixel(self, b: Builder, y: int, x: int, source: int, work: int) -> None:
        stride_y, stride_x = self.layer.stride
        pixel_bytes = self.pixel_words * WORD
        width = self.layer.out_width
        b.advance(x, stride_x, work)
        b.advance(source, stride_x * pixel_bytes, work)

        def new_row() -> None:
            b.advance(x, -width * stride_x, work)
            b.advance(y, stride_y, work)
            b.advance(source, (stride_y * self.layer.width - width * stride_x) * pixel_bytes, work)

        b.li(work, self.corner(0)[1] + width * stride_x)
        b.select(("bne", x, work), lambda env: (self.number(env) + 1) % width != 0, _nothing, new_row)

    def number(self, env: Env) -> int:
        """Output pixel being copied; those past the last fill up the last group."""
        return env["group"] * self.variant.npx + env["pixel"]

    def is_inside(self, pixel: int) -> bool:
        """Whether the receptive field of a pixel holds no padding."""
        y, x = self.corner(pixel)
        layer = self.layer
        return 0 <= y <= layer.height - layer.kernel_height and 0 <= x <= layer.width - layer.kernel_width


def _nothing() -> None:
    """The empty continuation."""


@dataclass(slots=True)
class _Pixel:
    """Writes the copy of one receptive field."""

    im2col: Im2col
    b: Builder
    y: int
    x: int
    source: int
    target: int
    scratch: list[int]

    def emit(self) -> None:
        layer, work, other = self.im2col.layer, *self.scratch[:2]
        rows, columns = layer.height - layer.kernel_height + 1, layer.width - layer.kernel_width + 1
        if rows <= 0 or columns <= 0:
            self._border()
            return
        self.b.below(work, self.y, rows)
        self.b.below(other, self.x, columns)
        self.b("and", work, work, other)
        im2col = self.im2col
        self.b.select(
            ("beq", work, ZERO), lambda env: not im2col.is_inside(im2col.number(env)), self._border, self._inside
        )

    def _inside(self) -> None:
        b, layer = self.b, self.im2col.layer
        work, pointer, rows = self.scratch[:3]
        run = layer.kernel_width * self.im2col.pixel_words
        b.mv(pointer, self.source)
        with b.loop(layer.kernel_height, rows, level=1):
            self._copy(pointer, run, self.scratch[3:])
            b.advance(pointer, (layer.width * self.im2col.pixel_words - run) * WORD, work)

    def _border(self) -> None:
        b, im2col, layer = self.b, self.im2col, self.im2col.layer
        work, row, rows, line, *scratch = self.scratch
        pixel_words = im2col.pixel_words

        def row_inside(env: Env) -> bool:
            return 0 <= im2col.corner(im2col.number(env))[0] + env["ky"] < layer.height

        b.mv(row, self.source)
        b.mv(line, self.y)
        with b.loop(layer.kernel_height, rows, index="ky"):
            b.below(work, line, layer.height)
            b.select(
                ("beq", work, ZERO),
                lambda env: not row_inside(env),
                lambda: self._clear(layer.kernel_width * pixel_words, scratch),
                lambda: self._border_row(work, row, scratch),
            )
            b("addi", line, line, 1)
            b.advance(row, layer.width * pixel_words * WORD, work)

    def _border_row(self, work: int, row: int, registers: list[int]) -> None:
        b, im2col, layer = self.b, self.im2col, self.im2col.layer
        pointer, columns, column, *scratch = registers
        pixel_words = im2col.pixel_words

        def column_inside(env: Env) -> bool:
            return 0 <= im2col.corner(im2col.number(env))[1] + env["kx"] < layer.width

        def skip() -> None:
            b.advance(pointer, pixel_words * WORD, work)
            self._clear(pixel_words, scratch)

        b.mv(pointer, row)
        b.mv(column, self.x)
        with b.loop(layer.kernel_width, columns, index="kx"):
            b.below(work, column, layer.width)
            b("addi", column, column, 1)
            b.select(
                ("beq", work, ZERO),
                lambda env: not column_inside(env),
                skip,
                lambda: self._copy(pointer, pixel_words, scratch),
            )

    # -- runs of words; scratch[0] counts

    def _steps(self, words: int, per_step: int, counter: int, emit: Callable[[int], None]) -> None:
        """``emit(n)`` for runs of n words, ``per_step`` at a time."""
        steps, rest = divmod(words, per_step)
        if steps <= _UNROLLED_STEPS:
            for _ in range(steps):
                emit(per_step)
        else:
            with self.b.loop(steps, counter, level=0):
                emit(per_step)
        if rest:
            emit(rest)

    def _copy(self, pointer: int, words: int, scratch: list[int]) -> None:
        counter, *temporaries = scratch
        if self.im2col.expansion == 1:
            per_step = min(WORDS_PER_STEP, len(temporaries))
            self._steps(words, per_step, counter, lambda n: self._move(pointer, temporaries[:n]))
        elif self.im2col.variant.xpulp:
            self._steps(words, 2, counter, lambda n: self._unpack(pointer, temporaries[:n], temporaries[2:]))
        else:
            self._steps(words, 1, counter, lambda _: self._unpack_scalar(pointer, temporaries))

    def _move(self, pointer: int, registers: list[int]) -> None:
        for number, register in enumerate(registers):
            if self.im2col.variant.xpulp:
                self.b("p.lw", register, WORD, pointer)
            else:
                self.b("lw", register, number * WORD, pointer)
        if not self.im2col.variant.xpulp:
            self.b("addi", pointer, pointer, len(registers) * WORD)
        self._write(registers)

    def _write(self, registers: list[int]) -> None:
        step = self.im2col.step
        if self.im2col.variant.xpulp:
            for register in registers:
                self.b("p.sw", register, step, self.target)
            return
        for number, register in enumerate(registers):
            self.b("sw", register, number * step, self.target)
        self.b("addi", self.target, self.target, len(registers) * step)

    def _clear(self, words: int, scratch: list[int]) -> None:
        self._steps(words * self.im2col.expansion, WORDS_PER_STEP, scratch[0], lambda n: self._write([ZERO] * n))

    def _unpack(self, pointer: int, packed: list[int], temporaries: list[int]) -> None:
        elements, vector = temporaries[:_BYTES], temporaries[_BYTES]
        for register in packed:
            self.b("p.lw", register, WORD, pointer)
        for register in packed:
            for part in range(self.im2col.expansion):
                for lane, element in enumerate(elements):
                    position = (part * _BYTES + lane) * self.im2col.bits
                    self.b("p.extractui", element, register, self.im2col.bits - 1, position)
                for low, pack in PAIRS:
                    self.b(pack, vector, elements[low + 1], elements[low])
                self._write([vector])

    def _unpack_scalar(self, pointer: int, temporaries: list[int]) -> None:
        packed, element = temporaries[:2]
        bits = self.im2col.bits
        self.b("lw", packed, 0, pointer)
        self.b("addi", pointer, pointer, WORD)
        for position in range(0, WORD_BITS, bits):
            if position:
                self.b("srli", element, packed, position)
            self.b("andi", element, element if position else packed, (1 << bits) - 1)
            self.b("sb", element, position // bits, self.target)
        self.b("addi", self.target, self.target, WORD_BITS // bits)
