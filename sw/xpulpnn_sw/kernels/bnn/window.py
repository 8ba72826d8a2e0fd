"""The classifier with its bits as in the paper: a word holds a window of one channel, 25 bits of 32.

Every window is collected bit by bit, from the image or from the sums of the layer before, and each of its words meets
that of a filter once. Sums are kept, not their signs: bytes after the first convolution, half-words after the second.
"""

from itertools import pairwise

from xpulpnn_sw.kernels.bnn.code import FIELDS, MAP_SIDE, TOGETHER, ClassifierCode
from xpulpnn_sw.kernels.bnn.network import BORDER, CHANNELS, COLOURS, LAST, POOL, POOLED, SIDE, TAPS, THRESHOLDS, WINDOW
from xpulpnn_sw.kernels.builder import WORD, ZERO, Label
from xpulpnn_sw.kernels.frame import FreeRegisters
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term
from xpulpnn_sw.kernels.variants import WORD_BITS

LEFT = 2 * WORD  # bytes before a row of the image in its frame, which begins with a word
FRAME_ROW = LEFT + (SIDE + BORDER) * COLOURS + BORDER  # bytes of a row of the frame, whole words
FRAME_ROWS = SIDE + 2 * BORDER
_PIXELS = POOL * POOL
WINDOW_BUFFER_WORDS = _PIXELS * CHANNELS
_HALF = 2
_MAP_ROW = MAP_SIDE * CHANNELS


class WindowClassifierCode(ClassifierCode):
    """Writes the function, for one core."""

    fields = (*FIELDS, "windows", "sums")
    map_pixel = CHANNELS
    strip_row = FRAME_ROW

    def _terms(self) -> dict[str, Term]:
        # the frame takes the place of the strips; the windows' first pixel lies before the row of the image
        before = LEFT - BORDER * COLOURS
        terms = super()._terms()
        return terms | {
            "pack_to": terms["pack_to"] + LEFT,
            "conv1_from": terms["conv1_from"] + before,
            "conv2_to": Argument("sums") + Name("conv2_first") * (LAST * CHANNELS * _HALF),
            "windows": Argument("windows"),
            "sums": Argument("sums"),
            "words": Number(LAST * LAST),
        }

    def _pack(self, registers: FreeRegisters) -> None:
        """Rows of the image in a frame of bytes that are -1."""
        b = self._b
        counter, one, other = registers.take(3)
        source, target, start, end = self._rows("pack", registers)
        with b.loop(SIDE * COLOURS // (2 * WORD), counter, level=0):
            b.load_words((one, other), source)
            b.store_words((one, other), target)
        b("addi", target, target, FRAME_ROW - SIDE * COLOURS)
        self._next_row("pack", start, end, counter)

    def _collect(self, word: int, bits: list[tuple[int, int, int]], limit: int, temporaries: list[int]) -> None:
        """The bits of a word, each 1 for a byte above ``limit``: whether it has a sign, its offset, its base."""
        b, first = self._b, 0
        while first < len(bits):
            pair = [*zip(temporaries, bits[first:], strict=False)]
            for register, (is_signed, offset, base) in pair:
                b("lb" if is_signed else "lbu", register, offset, base)
            for place, (register, (is_signed, _, _)) in enumerate(pair, first):
                b("slt" if is_signed else "sltu", register, limit, register)
                b("p.inserti", word, register, 0, place)
            first += len(pair)

    def _first_convolution(self, registers: FreeRegisters) -> None:
        b, frame = self._b, self._frame
        source, target, start, end = self._rows("conv1", registers)
        words = registers.take(_PIXELS * COLOURS)
        filters, totals = registers.take(COLOURS), registers.take(_PIXELS)
        pointer, different = registers.take(2)
        pixels = Label()
        b.place(pixels)
        limits, (place, word, counter, *temporaries) = filters, words[:5]
        for register, value in zip(limits, THRESHOLDS, strict=True):
            b.li(register, value)
        frame.load("windows", place)
        b.mv(pointer, source)
        with b.loop(POOL, counter):
            with b.loop(POOL, different, level=0):
                for colour, limit in enumerate(limits):
                    taps = [(y * FRAME_ROW + x * COLOURS + colour) for y in range(WINDOW) for x in range(WINDOW)]
                    b.li(word, 0)
                    self._collect(word, [(0, tap, pointer) for tap in taps], limit, temporaries)
                    b("p.sw", word, WORD, place)
                b("addi", pointer, pointer, COLOURS)
            b("addi", pointer, pointer, FRAME_ROW - POOL * COLOURS)
        frame.load("windows", pointer)
        b.load_words(words, pointer)
        frame.load("filters1", pointer)
        with b.loop(CHANNELS, different, level=0):
            b.load_words(filters, pointer)
            for pixel, total in enumerate(totals):
                for colour, register in enumerate(filters):
                    self._differ(total, words[pixel * COLOURS + colour], register, different, is_first=colour == 0)
            self._pool(totals, different, TAPS * COLOURS)
            b("p.sb", totals[0], 1, target)
        b("addi", source, source, POOL * COLOURS)
        frame.load("conv1_to", different)
        b.li(totals[0], POOLED * CHANNELS)
        b("add", totals[0], totals[0], different)
        b.far_branch("bne", target, totals[0], pixels)
        b("addi", different, different, _MAP_ROW)
        frame.store("conv1_to", different)
        b.mv(target, different)
        b("addi", source, source, POOL * FRAME_ROW - SIDE * COLOURS)
        self._next_row("conv1", start, end, totals[0])

    def _pool(self, totals: list[int], work: int, inputs: int) -> None:
        """The largest of the sums, in the place of the first count; the others are lost."""
        b, (first, *others) = self._b, totals
        b.li(work, inputs)
        for register in totals:
            b("slli", register, register, 1)
            b("sub", register, work, register)
        for register in others:
            b("p.max", first, first, register)

    def _second_convolution(self, registers: FreeRegisters) -> None:
        b, frame = self._b, self._frame
        source, target, start, end = self._rows("conv2", registers)
        totals = [registers.take(_PIXELS) for _ in range(TOGETHER)]
        words, filters = registers.take(_PIXELS), registers.take(TOGETHER)
        pointer, different, place, counter = registers.take(4)
        pixels = Label()
        b.place(pixels)
        self._windows(source, [*totals[0], *totals[1], *words, *filters, pointer])
        frame.load("filters2", pointer)
        with b.loop(CHANNELS // TOGETHER, counter, level=1):
            frame.load("windows", place)
            b.clear([*totals[0], *totals[1]])
            with b.loop(CHANNELS, different, level=0):
                b.load_words(filters, pointer)
                b.load_words(words, place)
                for register, counts in zip(filters, totals, strict=True):
                    for word, total in zip(words, counts, strict=True):
                        self._differ(total, word, register, different, is_first=False)
            for counts in totals:
                self._pool(counts, different, TAPS * CHANNELS)
                b("p.sh", counts[0], _HALF, target)
        b("addi", source, source, POOL * CHANNELS)
        self._next_pixels(source, target, totals[0], (pixels, start, end), LAST * CHANNELS * _HALF)

    def _windows(self, source: int, registers: list[int]) -> None:
        """The windows of four pixels, those of a channel side by side."""
        b = self._b
        lines, registers = registers[:WINDOW], registers[WINDOW:]
        place, word, counter, *temporaries = registers[:5]
        for pixel in range(_PIXELS):
            self._frame.load("windows", place)
            b("addi", place, place, pixel * WORD)
            b.mv(lines[0], source)
            b.add(lines[0], pixel // POOL * _MAP_ROW + pixel % POOL * CHANNELS, word)
            for above, line in pairwise(lines):
                b("addi", line, above, _MAP_ROW)
            with b.loop(CHANNELS, counter, level=0):
                bits = [(1, x * CHANNELS, line) for line in lines for x in range(WINDOW)]
                b.li(word, 0)
                self._collect(word, bits, ZERO, temporaries)
                b("p.sw", word, _PIXELS * WORD, place)
                for line in lines:
                    b("addi", line, line, 1)

    def _first_dense(self, registers: FreeRegisters) -> None:
        """The signs of the last map, 32 to a word; then the layer."""
        b, taken = self._b, FreeRegisters()
        source, target, word, counter, *bits = taken.take(6)
        self._frame.load_all(sums=source, map2=target)
        with b.loop(LAST * LAST, counter, level=0):
            for place in range(0, WORD_BITS, len(bits)):
                for number, register in enumerate(bits):
                    b("lh", register, (place + number) * _HALF, source)
                for number, register in enumerate(bits):
                    b("slt", register, ZERO, register)
                    b("p.inserti", word, register, 0, place + number)
            b("addi", source, source, CHANNELS * _HALF)
            b("p.sw", word, WORD, target)
        super()._first_dense(registers)
