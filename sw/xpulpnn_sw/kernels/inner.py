"""Inner loops of the MatMul, one per :class:`~xpulpnn_sw.kernels.variants.Style`.

Each multiplies ``nch`` weight rows with ``npx`` activation rows. They are scheduled so that no instruction uses what
the one before loads. Rows are streams: the weight rows a pointer serves follow each other in memory, so neither the
pointer nor the word fetched ahead is renewed between the blocks of a pixel group. Where rows are interleaved, their
words alternate in the order in which they are needed, and a pointer serves several.
"""

from abc import ABC, abstractmethod

from xpulpnn.isa.formats import ElemFmt
from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder, Value
from xpulpnn_sw.kernels.frame import Registers
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS, Variant
from xpulpnn_sw.precision import Precision

Operation = tuple[str, *tuple[int, ...]]
"""An instruction: mnemonic and operands."""

PAIRS = ((0, "pv.packlo.b"), (2, "pv.packhi.b"))
"""How four values become the bytes of a word: position of the lower of two, instruction."""


class InnerLoop(ABC):
    """One MatMul block after its accumulators are initialised."""

    def __init__(self, variant: Variant, precision: Precision, registers: Registers) -> None:
        self.variant, self.bits, self.is_signed = variant, precision.w, precision.w_signed
        if not variant.counts(precision):
            self.suffix = ElemFmt.of_width(variant.row_bits(self.bits)).suffix
        self.acc = [registers.take(variant.nch) for _ in range(variant.npx)]
        self.lanes = list(range(variant.weight_streams))
        self.weights = registers.take(len(self.lanes))
        self.activations = registers.take(variant.npx)
        self.temporaries: list[int] = []

    @property
    def expansion(self) -> int:
        """Words of activations for a packed word of weights."""
        return self.variant.row_bits(self.bits) // self.bits

    @property
    @abstractmethod
    def length(self) -> int:
        """Instructions of the body, without those of the loop itself."""

    @property
    def group_prefetch(self) -> list[Operation]:
        """Instructions that fetch ahead once per pixel group."""
        return []

    @property
    def block_prefetch(self) -> list[Operation]:
        """Instructions that fetch ahead once per block."""
        return []

    @abstractmethod
    def emit(self, b: Builder, count: Value, *, signed: bool) -> None:
        """The loop over ``count`` times :attr:`Variant.unrolled` words of a weight row, and ``signed`` activations."""

    def _dot(self, accumulator: int, x: int, w: int, *, signed: bool) -> Operation:
        """Sum of the products of words in registers."""
        if signed != self.is_signed:
            # the unsigned factor comes first
            factors = (w, x) if signed else (x, w)
            return f"pv.sdotusp.{self.suffix}", accumulator, *factors
        return f"pv.sdot{'sp' if signed else 'up'}.{self.suffix}", accumulator, x, w

    def _loads(self, weights: list[int], activations: list[int]) -> list[tuple[int, int]]:
        """Registers and their pointers, in an order in which the first product need not wait."""
        rows = [(register, self._weight(lane)) for lane, register in enumerate(weights)]
        pixels = [(register, self._activation(pixel)) for pixel, register in enumerate(activations)]
        # a single activation comes first, as it is needed at once
        return pixels + rows if self.variant.npx == 1 else rows + pixels

    def _weight(self, lane: int) -> int:
        return self.weights[lane]

    def _activation(self, pixel: int) -> int:
        return self.activations[pixel]


class SimdLoop(InnerLoop):
    """All words through the register file: ``nch + npx`` loads, ``nch * npx`` sdotp."""

    def __init__(self, variant: Variant, precision: Precision, registers: Registers) -> None:
        super().__init__(variant, precision, registers)
        self._w, self._x = registers.take(variant.nch), registers.take(variant.npx)
        self.temporaries = self._w + self._x

    @property
    def length(self) -> int:
        """Instructions of the body."""
        return len(self._w) + len(self._x) + len(self._w) * len(self._x)

    def emit(self, b: Builder, count: Value, *, signed: bool) -> None:
        """The loop over ``count`` packed words of a weight row."""
        with b.inner_loop(count, self.length, self.temporaries[0]):
            for register, pointer in self._loads(self._w, self._x):
                b("p.lw", register, WORD, pointer)
            for accumulators, x in zip(self.acc, self._x, strict=True):
                for accumulator, w in zip(accumulators, self._w, strict=True):
                    b(*self._dot(accumulator, x, w, signed=signed))


class UnpackLoop(InnerLoop):
    """XpulpV2 with packed 4- or 2-bit weights: every weight is extracted and packed again as a byte."""

    def __init__(self, variant: Variant, precision: Precision, registers: Registers) -> None:
        super().__init__(variant, precision, registers)
        self._w, self._x = registers.take(variant.nch), registers.take(variant.npx)
        self._bytes = registers.take(WORD_BITS // BYTE_BITS)
        self.temporaries = [*self._w, *self._x, *self._bytes]

    @property
    def length(self) -> int:
        """Weight loads; then per word of activations its loads and per weight row extraction, packing, products."""
        unpacking = len(self._bytes) + len(PAIRS)
        return len(self._w) + self.expansion * (len(self._x) + len(self._w) * (unpacking + len(self._x)))

    def emit(self, b: Builder, count: Value, *, signed: bool) -> None:
        """The loop over ``count`` packed words of a weight row."""
        with b.inner_loop(count, self.length, self.temporaries[0]):
            for lane, register in enumerate(self._w):
                b("p.lw", register, WORD, self._weight(lane))
            for part in range(self.expansion):
                for pixel, register in enumerate(self._x):
                    b("p.lw", register, WORD, self._activation(pixel))
                for channel, word in enumerate(self._w):
                    vector = self._unpack(b, word, part)
                    for pixel, x in enumerate(self._x):
                        b(*self._dot(self.acc[pixel][channel], x, vector, signed=signed))

    def _unpack(self, b: Builder, word: int, part: int) -> int:
        """Four weights as bytes of the register returned."""
        for lane, register in enumerate(self._bytes):
            extract = "p.extracti" if self.is_signed else "p.extractui"
            b(extract, register, word, self.bits - 1, (part * len(self._bytes) + lane) * self.bits)
        for low, pack in PAIRS:
            b(pack, self._bytes[0], self._bytes[low + 1], self._bytes[low])
        return self._bytes[0]


class ScalarLoop(InnerLoop):
    """RV32IM: byte loads, mul and add; sub-byte weights are shifted out of a packed word."""

    def __init__(self, variant: Variant, precision: Precision, registers: Registers) -> None:
        super().__init__(variant, precision, registers)
        self._w, self._x = registers.take(variant.nch), registers.take(variant.npx)
        self._packed, self._product = registers.take(variant.nch), registers.one()
        self.end = registers.one()
        self.temporaries = [*self._w, *self._x, *self._packed, self._product]

    @property
    def _elements(self) -> int:
        """Elements per iteration: those of a packed word of weights, one at 8 bit."""
        return 1 if self.bits == BYTE_BITS else WORD_BITS // self.bits

    @property
    def _pointers(self) -> int:
        return self.variant.nch + self.variant.npx

    @property
    def length(self) -> int:
        """Loads, multiplications and additions, pointers; below 8 bit two shifts per weight."""
        loads = self._elements * self.variant.npx + self.variant.nch
        shifts = 2 * self._elements * self.variant.nch if self._elements > 1 else 0
        return loads + shifts + 2 * self._elements * self.variant.nch * self.variant.npx + self._pointers

    def emit(self, b: Builder, count: Value, *, signed: bool) -> None:
        """The loop over a weight row; the end of the activation row tells its length."""
        elements, first = self._elements, self._activation(0)
        load = "lb" if signed else "lbu"
        is_early = elements == self.variant.npx == 1
        with b.branch_loop(first, self.end):
            if is_early:
                b(load, self._x[0], 0, first)
            if elements == 1:
                for lane, register in enumerate(self._w):
                    b("lb" if self.is_signed else "lbu", register, 0, self._weight(lane))
            else:
                for lane, register in enumerate(self._packed):
                    b("lw", register, 0, self._weight(lane))
            for element in range(elements):
                for pixel, register in enumerate([] if is_early else self._x):
                    b(load, register, element, self._activation(pixel))
                if elements > 1:
                    self._extract(b, element)
                for accumulators, x in zip(self.acc, self._x, strict=True):
                    for accumulator, w in zip(accumulators, self._w, strict=True):
                        b("mul", self._product, w, x)
                        b("add", accumulator, accumulator, self._product)
            for lane in range(self.variant.nch):
                b("addi", self._weight(lane), self._weight(lane), 1 if elements == 1 else WORD)
            for pixel in range(self.variant.npx):
                b("addi", self._activation(pixel), self._activation(pixel), elements)

    def _extract(self, b: Builder, element: int) -> None:
        for packed, register in zip(self._packed, self._w, strict=True):
            b("slli", register, packed, WORD_BITS - (element + 1) * self.bits)
            b("srai" if self.is_signed else "srli", register, register, WORD_BITS - self.bits)


class ComputeUpdateLoop(InnerLoop):
    """Compute&Update: each product reloads the NN-RF entry it used, so every pixel has its own weight pointers.

    Entry 0 and 1 serve pixel 0, entry 2 and 3 pixel 1, alternating between the weight rows 0, 1 and 2, 3. The pointer
    in an instruction names the row that is loaded next, two rows away from the one being multiplied.
    """

    AHEAD = 2
    """Weight rows fetched ahead: as many as a pixel has entries."""

    def __init__(self, variant: Variant, precision: Precision, registers: Registers) -> None:
        super().__init__(variant, precision, registers)
        self.lanes *= variant.npx
        self.weights += registers.take(variant.nch * (variant.npx - 1))
        self._x = registers.take(variant.npx * variant.unrolled)
        self.temporaries = list(self._x)

    @property
    def length(self) -> int:
        """Instructions of the body."""
        return len(self._x) * (1 + self.variant.nch)

    def _product(
        self, pixel: int, entry: int, following: int, accumulator: int, x: int, *, signed: bool = False
    ) -> Operation:
        number = pixel * self.AHEAD + entry
        pointer = self._weight(pixel * self.variant.nch + following)
        signs = ("sp" if signed else "usp") if self.is_signed else "up"
        return f"pv.cusdot{signs}.{self.suffix}.{number}", accumulator, pointer, x

    @property
    def group_prefetch(self) -> list[Operation]:
        """Instructions that fetch ahead once per pixel group."""
        entries = range(self.AHEAD)
        return [
            self._product(pixel, entry, entry, ZERO, ZERO) for pixel in range(self.variant.npx) for entry in entries
        ]

    def emit(self, b: Builder, count: Value, *, signed: bool) -> None:
        """The loop over ``count`` packed words of a weight row."""
        with b.inner_loop(count, self.length, self.temporaries[0]):
            pixels = [*range(self.variant.npx)] * self.variant.unrolled
            for pixel, register in zip(pixels, self._x, strict=True):
                b("p.lw", register, WORD, self._activation(pixel))
            for pixel, register in zip(pixels, self._x, strict=True):
                for channel in range(self.variant.nch):
                    following, accumulator = (channel + self.AHEAD) % self.variant.nch, self.acc[pixel][channel]
                    entry = channel % self.AHEAD
                    b(*self._product(pixel, entry, following, accumulator, register, signed=signed))


class NnLoop(InnerLoop):
    """Both factors in the NN-RF: one load of the second activation, all other words come with a product.

    Activations alternate between the two entries; the last product of a pixel reloads its entry with the word of the
    pixel after the next, the products of the last pixel reload the weights.
    """

    ACTIVATION_UPDATE, WEIGHT_UPDATE = 1 << 3, 1 << 4
    ENTRIES = 2

    def __init__(self, variant: Variant, precision: Precision, registers: Registers) -> None:
        super().__init__(variant, precision, registers)
        if variant.interleaved:
            # the order of the reloads is the order in memory
            self.activations, self.temporaries = self.activations[:1], self.activations[1:]
        else:
            self.temporaries = registers.take(1)
            if variant.in_place:
                # between two loops they are free; the first register may count words when they are set
                self.temporaries += self.activations

    @property
    def length(self) -> int:
        """Instructions of the body."""
        return (1 + self.variant.nch * self.variant.npx) * self.variant.unrolled

    def _row(self, pixel: int) -> int:
        return self._activation(0 if self.variant.interleaved else pixel % self.variant.npx)

    def _stream(self, channel: int) -> int:
        return self._weight(channel % self.variant.weight_streams)

    def _product(self, accumulator: int, pointer: int, selector: int, *, signed: bool = False) -> Operation:
        signs = "us"[self.is_signed] + "us"[signed] + "p" if signed != self.is_signed else "us"[signed] + "p"
        return f"pv.mlsdot{signs}.{self.suffix}", accumulator, pointer, selector

    @property
    def group_prefetch(self) -> list[Operation]:
        """Instructions that fetch ahead once per pixel group."""
        lanes = range(self.variant.nch)
        return [self._product(ZERO, self._stream(lane), self.WEIGHT_UPDATE | lane << 1) for lane in lanes]

    @property
    def block_prefetch(self) -> list[Operation]:
        """Instructions that fetch ahead once per block."""
        return [self._product(ZERO, self._row(0), self.ACTIVATION_UPDATE)]

    def emit(self, b: Builder, count: Value, *, signed: bool) -> None:
        """The loop over ``count`` packed words of a weight row."""
        with b.inner_loop(count, self.length, self.temporaries[0]):
            if self.variant.npx == 1:
                self._one_pixel(b, signed=signed)
                return
            b(*self._product(ZERO, self._row(1), self.ACTIVATION_UPDATE | 1))
            for pixel, accumulators in enumerate(self.acc):
                for channel, accumulator in enumerate(accumulators):
                    b(*self._product(accumulator, *self._reload(pixel, channel), signed=signed))

    def _one_pixel(self, b: Builder, *, signed: bool) -> None:
        """Every weight is used once: the last product fetches the next activation, and its own weight comes after."""
        for operation in self._products_of_one_pixel(signed=signed):
            b(*operation)

    def _products_of_one_pixel(self, *, signed: bool) -> list[Operation]:
        operations: list[Operation] = []
        last = self.variant.nch - 1
        for channel, accumulator in enumerate(self.acc[0]):
            entry = channel << 1
            reload = (self._stream(channel), entry | self.WEIGHT_UPDATE)
            if channel == last:
                reload = (self._row(0), entry | self.ACTIVATION_UPDATE)
            operations.append(self._product(accumulator, *reload, signed=signed))
        return [*operations, self._product(ZERO, self._stream(last), last << 1 | self.WEIGHT_UPDATE | 1)]

    def _reload(self, pixel: int, channel: int) -> tuple[int, int]:
        """Pointer and selector of a product: what it multiplies and what it fetches."""
        selector = pixel % self.ENTRIES | channel << 1
        if pixel == self.variant.npx - 1:
            return self._stream(channel), selector | self.WEIGHT_UPDATE
        if channel == self.variant.nch - 1:
            return self._row(pixel + self.ENTRIES), selector | self.ACTIVATION_UPDATE
        return ZERO, selector
