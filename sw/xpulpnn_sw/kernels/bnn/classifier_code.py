"""Code generator of the binarised classifier.

Each core computes some rows of every layer, and all cores meet at a barrier after each layer. Six neighbouring pixels
of an image row make a strip, one word. Both convolutions compute the four pixels of a pooling window at once and keep
the smallest number of differing bits, from which the sign of the pooled result follows.
"""

from xpulpnn.isa.cluster import PRIVATE_EVENT_UNIT, Barrier, EventRegister
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import TEXT_BASE, XLEN
from xpulpnn_sw.kernels.bnn import network
from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder, Label
from xpulpnn_sw.kernels.frame import Frame, FreeRegisters
from xpulpnn_sw.kernels.layout import ImageBuilder, Program
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term, given

FIELDS = (
    *("input", "strips", "filters1", "map1", "filters2", "map2"),
    *("rows1", "hidden1", "rows2", "hidden2", "rows3", "output"),
)
"""Fields of the argument structure, all pointers. ``input`` is the image, ``map1`` and ``map2`` are the outputs of the
convolutions, ``rows`` the weights of the fully connected layers, ``hidden`` and ``output`` their results, a word
each."""

CONV_NCH = 2  # channels of the second convolution computed together
STRIP_ROWS = network.SIDE + 2 * network.BORDER
MAP_SIDE = network.POOLED + 2 * network.BORDER
HIDDEN_WORDS = -(-network.HIDDEN // XLEN)
_REACH = network.POOL + network.WINDOW - 1  # rows and columns that the windows of four pixels cover
_GROUP = 4  # results of the first fully connected layer computed together
_PAIR_BITS = network.POOL * network.COLOURS
_MASKS = (0x5555_5555, 0x3333_3333, 0x0F0F_0F0F)
# units of each layer that the cores share: rows, or groups of results
_SHARED = {"pack": network.SIDE, "conv1": network.POOLED, "conv2": network.LAST, "fc1": network.HIDDEN // _GROUP}


class ClassifierCode:
    fields = FIELDS
    map_pixel = WORD
    strip_row = network.POOLED * WORD
    extensions = frozenset({Extension.XPULPV2})

    def __init__(self, *, software: bool) -> None:
        self._software = software
        self._b = Builder(TEXT_BASE, xpulp=True)
        self._frame = Frame(self._b, self.fields, self._terms())
        self._masks: list[int] = []
        self._words: list[int] = []
        self._part = ZERO

    def operands(self, memory: ImageBuilder, weights: network.Weights, cores: int) -> dict[str, int]:
        del cores
        return {
            "strips": memory.reserve("strips", STRIP_ROWS * network.POOLED * WORD),
            "filters1": memory.place("filters1", network.first_filters(weights)),
            "map1": memory.reserve("map1", MAP_SIDE * MAP_SIDE * WORD),
            "filters2": memory.place("filters2", network.second_filters(weights, 1 if self._software else CONV_NCH)),
        }

    def _terms(self) -> dict[str, Term]:
        terms, core, cores = given("core", "cores"), Argument("core"), Argument("cores")
        for name, count in _SHARED.items():
            terms[f"{name}_first"] = Number(count) * core // cores
            terms[f"{name}_left"] = Number(count) * (core + 1) // cores - Name(f"{name}_first")
        row, strip_row, map_row = network.SIDE * network.COLOURS, self.strip_row, MAP_SIDE * self.map_pixel
        return terms | {
            "pack_from": Argument("input") + Name("pack_first") * row,
            "pack_to": Argument("strips") + (Name("pack_first") + network.BORDER) * strip_row,
            "conv1_from": Argument("strips") + Name("conv1_first") * (network.POOL * strip_row),
            "conv1_to": Argument("map1")
            + (Name("conv1_first") + network.BORDER) * map_row
            + network.BORDER * self.map_pixel,
            "conv2_from": Argument("map1") + Name("conv2_first") * (network.POOL * map_row),
            "conv2_to": Argument("map2") + Name("conv2_first") * (network.LAST * WORD),
            "fc1_from": Argument("rows1") + Name("fc1_first") * (_GROUP * network.FEATURES // XLEN * WORD),
            "fc1_to": Argument("hidden1") + Name("fc1_first") * (_GROUP * WORD),
            **given("filters1", "filters2", "map2", "hidden1", "rows2", "hidden2", "rows3", "output"),
        }

    def write(self) -> Program:
        b, frame = self._b, self._frame
        with frame.function():
            for name, layer in (
                ("pack", self._pack),
                ("conv1", self._first_convolution),
                ("conv2", self._second_convolution),
                ("fc1", self._first_dense),
            ):
                with b.region(name):
                    layer(FreeRegisters())
                    self._barrier()
            frame.load("core", core := FreeRegisters().take_one())
            with b.skipped("bne", core, ZERO, is_far=True):
                with b.region("fc2"):
                    self._pack_results("hidden1", registers := FreeRegisters())
                    self._small_dense("rows2", "hidden2", network.HIDDEN, registers, is_last=False)
                with b.region("fc3"):
                    self._pack_results("hidden2", registers := FreeRegisters())
                    self._small_dense("rows3", "output", network.CLASSES, registers, is_last=True)
        return b.finish()

    def _barrier(self) -> None:
        b, alone = self._b, Label()
        cores, event = FreeRegisters().take(2)
        self._frame.load("cores", cores)
        b.li(event, 1)
        b.branch("beq", cores, event, alone)
        b.li(event, PRIVATE_EVENT_UNIT + EventRegister.BARRIER + Barrier.TRIGGER_WAIT_CLEAR)
        b("p.elw", event, 0, event)
        b.place(alone)

    def _rows(self, name: str, registers: FreeRegisters) -> tuple[int, int, Label, Label]:
        source, target = registers.take(2)
        start, end = Label(), Label()
        self._frame.load(f"{name}_left", source)
        self._b.far_branch("beq", source, ZERO, end)
        self._frame.load(f"{name}_from", source)
        self._frame.load(f"{name}_to", target)
        self._load_masks(registers)
        self._b.place(start)
        return source, target, start, end

    def _load_masks(self, registers: FreeRegisters) -> None:
        if self._software:
            self._masks, self._part = registers.take(len(_MASKS)), registers.take_one()
            for register, value in zip(self._masks, _MASKS, strict=True):
                self._b.li(register, value)

    def _next_row(self, name: str, start: Label, end: Label, temporary: int) -> None:
        self._frame.advance(f"{name}_left", -1, temporary, temporary)
        self._b.far_branch("bne", temporary, ZERO, start)
        self._b.place(end)

    def _count(self, target: int, bits: int) -> None:
        b = self._b
        if not self._software:
            b("p.cnt", target, bits)
            return
        part, (ones, pairs, nibbles) = self._part, self._masks
        b.chain(part, bits, ("srli", 1), ("and", ones))
        b("sub", bits, bits, part)
        b("and", part, bits, pairs)
        b.chain(bits, bits, ("srli", 2), ("and", pairs), ("add", part))
        b("srli", part, bits, 4)
        b.chain(bits, bits, ("add", part), ("and", nibbles))
        b("srli", part, bits, 8)
        b("add", bits, bits, part)
        b("srli", part, bits, 16)
        b("add", bits, bits, part)
        b("andi", target, bits, 0x3F)

    def _count_differences(self, total: int, left: int, right: int, different: int, *, is_first: bool) -> None:
        self._b("xor", different, left, right)
        if is_first:
            self._count(total, different)
        else:
            self._count(different, different)
            self._b("add", total, total, different)

    def _pack(self, registers: FreeRegisters) -> None:
        b = self._b
        limits = registers.take(network.COLOURS)
        for register, value in zip(limits, network.THRESHOLDS, strict=True):
            b.li(register, value)
        strip, counter, *bytes_ = registers.take(2 + _PAIR_BITS)
        source, target, start, end = self._rows("pack", registers)

        def pair() -> None:
            for register in bytes_:
                b("p.lbu", register, 1, source)
            for number, register in enumerate(bytes_):
                b("sltu", register, limits[number % network.COLOURS], register)
                b("p.inserti", strip, register, 0, network.POOL * _PAIR_BITS + number)

        b.li(strip, 0)
        pair()
        with b.loop(network.POOLED - 1, counter, level=0):
            b("srli", strip, strip, _PAIR_BITS)
            pair()
            b("p.sw", strip, WORD, target)
        b("srli", strip, strip, _PAIR_BITS)
        b("p.sw", strip, WORD, target)
        self._next_row("pack", start, end, counter)

    def _first_convolution(self, registers: FreeRegisters) -> None:
        b = self._b
        source, target, start, end = self._rows("conv1", registers)
        words = [registers.take(_REACH) for _ in range(network.POOL)]
        filters = registers.take(network.WINDOW // 2 + 1)
        pointer, least, total, different, result = registers.take(5)
        pixels, channels = Label(), filters[0]
        b.place(pixels)
        for row in range(_REACH):
            b("lw", words[0][row], row * network.POOLED * WORD, source)
        b("addi", source, source, WORD)
        for row in range(_REACH):
            b("srli", words[1][row], words[0][row], network.COLOURS)
        for side in words:
            for row in range(_REACH):
                b("p.extractui", side[row], side[row], network.ROW_BITS - 1, 0)
            for row in range(_REACH - 2):
                b("p.inserti", side[row], side[row + 1], network.ROW_BITS - 1, network.ROW_BITS)
        self._frame.load("filters1", pointer)
        b.li(result, 0)
        with b.loop(network.CHANNELS, channels, level=0):
            b.load_words(filters, pointer)
            for number, (row, side) in enumerate((row, side) for row in range(network.POOL) for side in words):
                into = total if number else least
                for part, register in enumerate(filters):
                    self._count_differences(into, side[row + 2 * part], register, different, is_first=part == 0)
                if number:
                    b("p.min", least, least, total)
            self._append(result, least, network.TAPS * network.COLOURS)
        self._put(result, target, total, different)
        self._frame.load("conv1_to", different)
        b("addi", total, different, network.POOLED * self.map_pixel)
        b.far_branch("bne", target, total, pixels)
        b("addi", different, different, MAP_SIDE * self.map_pixel)
        self._frame.store("conv1_to", different)
        b.mv(target, different)
        b("addi", source, source, (network.POOL - 1) * network.POOLED * WORD)
        self._next_row("conv1", start, end, total)

    def _put(self, result: int, target: int, work: int, other: int) -> None:
        del work, other
        self._b("p.sw", result, WORD, target)

    def _append(self, result: int, count: int, inputs: int) -> None:
        self._b("slti", count, count, (inputs + 1) // 2)
        self._b.chain(result, result, ("add", result), ("add", count))

    def _second_convolution(self, registers: FreeRegisters) -> None:
        b, group = self._b, 1 if self._software else CONV_NCH
        source, target, start, end = self._rows("conv2", registers)
        totals = [registers.take(network.POOL * network.POOL) for _ in range(group)]
        rows = [registers.take(_REACH) for _ in range(network.POOL)]
        filters = registers.take(group)
        pointer, different, result = registers.take(3)
        pixels = Label()
        b.place(pixels)
        self._frame.load("filters2", pointer)
        b.li(result, 0)
        with b.loop(network.CHANNELS // group, different, level=0):
            for y in range(network.WINDOW):
                for row in range(network.POOL) if y == 0 else (network.POOL - 1,):
                    for column in range(_REACH):
                        place = ((y + row) * MAP_SIDE + column) * WORD
                        b("lw", rows[(y + row) % network.POOL][column], place, source)
                for x in range(network.WINDOW):
                    b.load_words(filters, pointer)
                    for register, counts in zip(filters, totals, strict=True):
                        for number, total in enumerate(counts):
                            word = rows[(y + number // network.POOL) % network.POOL][x + number % network.POOL]
                            self._count_differences(total, word, register, different, is_first=x == y == 0)
            for least, *others in totals:
                for total in others:
                    b("p.min", least, least, total)
                self._append(result, least, network.TAPS * network.CHANNELS)
        b("addi", source, source, network.POOL * WORD)
        b("p.sw", result, WORD, target)
        self._next_pixels(source, target, totals[0], (pixels, start, end), network.LAST * WORD)

    def _next_pixels(
        self, source: int, target: int, work: list[int], labels: tuple[Label, Label, Label], row_bytes: int
    ) -> None:
        b, (limit, moved, *_), (pixels, start, end) = self._b, work, labels
        self._frame.load("conv2_to", limit)
        b("addi", limit, limit, row_bytes)
        b.far_branch("bne", target, limit, pixels)
        self._frame.store("conv2_to", limit)
        b.add(source, (network.POOL * MAP_SIDE - network.LAST * network.POOL) * self.map_pixel, moved)
        self._next_row("conv2", start, end, moved)

    def _first_dense(self, registers: FreeRegisters) -> None:
        source, target, start, end = self._rows("fc1", registers)
        totals, rows = registers.take(_GROUP), registers.take(_GROUP)
        pointer, word, different = registers.take(3)
        self._frame.load("map2", pointer)
        self._b.clear(totals)
        with self._b.loop(network.FEATURES // XLEN, different, level=0):
            self._b("p.lw", word, WORD, pointer)
            self._b.load_words(rows, source)
            for total, register in zip(totals, rows, strict=True):
                self._count_differences(total, word, register, different, is_first=False)
        for total in totals:
            self._b.set_below(different, total, network.FEATURES // 2)
            self._b("p.sw", different, WORD, target)
        self._next_row("fc1", start, end, different)

    def _pack_results(self, name: str, registers: FreeRegisters) -> None:
        words = registers.take(HIDDEN_WORDS)
        pointer, counter, bit = registers.take(3)
        self._frame.load(name, pointer)
        for word in words:
            self._b.li(word, 0)
            with self._b.loop(XLEN, counter, level=0):
                self._b("p.lw", bit, WORD, pointer)
                self._b("srli", word, word, 1)
                self._b("slli", bit, bit, XLEN - 1)
                self._b("or", word, word, bit)
        self._words = words

    def _small_dense(self, rows: str, output: str, count: int, registers: FreeRegisters, *, is_last: bool) -> None:
        b = self._b
        pointer, target, counter, total, different = registers.take(5)
        parts = registers.take(HIDDEN_WORDS)
        self._load_masks(registers)
        self._frame.load(rows, pointer)
        self._frame.load(output, target)
        with b.loop(count, counter, level=0):
            b.load_words(parts, pointer)
            for number, (word, register) in enumerate(zip(self._words, parts, strict=True)):
                self._count_differences(total, word, register, different, is_first=number == 0)
            if is_last:
                b("slli", total, total, 1)
                b.li(different, network.HIDDEN)
                b("sub", total, different, total)
            else:
                b("slti", total, total, network.HIDDEN // 2)
            b("p.sw", total, WORD, target)
