"""Inner loops of the MatMul, one per :class:`~xpulpnn_sw.kernels.variants.LoopStyle`.

Each loop multiplies ``nch`` weight rows with ``npx`` activation rows, scheduled without load-use stalls. The weight
rows that a pointer reads follow each other in memory. The pointer and the word fetched ahead therefore stay valid from
block to block of a pixel group. If rows are interleaved, their words alternate in the order of use, and one pointer
serves several rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder, Value
from xpulpnn_sw.kernels.frame import FreeRegisters
from xpulpnn_sw.kernels.variants import Variant
from xpulpnn_sw.layers.precision import Precision

LoopInstruction = tuple[str, *tuple[int, ...]]  # an instruction: mnemonic and operands


class InnerLoop(ABC):
    """Base of the inner loops of a MatMul block; the accumulators must have been initialised."""

    end: int | None = None  # register with the end of the first activation row, if it ends the loop

    def __init__(self, variant: Variant, precision: Precision, registers: FreeRegisters) -> None:
        self.variant, self.bits, self.is_signed = variant, precision.w, precision.w_signed
        if not variant.counts(precision):
            self.suffix = ElemFmt.of_width(variant.row_bits(precision)).suffix
        self.acc = self._take_accumulators(registers)
        self.accumulators = [register for row in self.acc for register in row]
        self.lanes = list(range(variant.weight_streams))
        self.weights: list[int] = registers.take(len(self.lanes))
        self.activations = registers.take(variant.npx)
        self.temporaries: list[int] = []
        self.expansion = variant.row_bits(precision) // self.bits  # words of activations for a packed word of weights
        # instructions that fetch ahead once per pixel group, and once per block
        self.group_prefetch: list[LoopInstruction] = []
        self.block_prefetch: list[LoopInstruction] = []

    def _take_accumulators(self, registers: FreeRegisters) -> list[list[int]]:
        return [registers.take(self.variant.nch) for _ in range(self.variant.npx)]

    @cached_property
    def length(self) -> int:
        probe = Builder(0, xpulp=self.variant.xpulp)
        self.body(probe, signed=False)
        return probe.position

    @abstractmethod
    def body(self, b: Builder, *, signed: bool) -> None:
        """Write the products of :attr:`Variant.unrolled` words of each weight row with the activation rows."""

    def emit(self, b: Builder, count: Value, *, signed: bool) -> None:
        with b.inner_loop(count, self.length, self.temporaries[0]):
            self.body(b, signed=signed)

    def _dot(self, accumulator: int, x: int, w: int, *, signed: bool) -> LoopInstruction:
        if signed != self.is_signed:
            # the unsigned factor comes first
            factors = (w, x) if signed else (x, w)
            return f"pv.sdotusp.{self.suffix}", accumulator, *factors
        return f"pv.sdot{'sp' if signed else 'up'}.{self.suffix}", accumulator, x, w

    def _products(self, w: list[int], x: list[int]) -> Iterator[tuple[int, int, int]]:
        for accumulators, activation in zip(self.acc, x, strict=True):
            for accumulator, weight in zip(accumulators, w, strict=True):
                yield accumulator, activation, weight


class SimdLoop(InnerLoop):
    """Loop with all operands in the register file: ``nch + npx`` loads, ``nch * npx`` sdotp."""

    def __init__(self, variant: Variant, precision: Precision, registers: FreeRegisters) -> None:
        super().__init__(variant, precision, registers)
        self._w, self._x = registers.take(variant.nch), registers.take(variant.npx)
        self.temporaries = self._w + self._x

    def body(self, b: Builder, *, signed: bool) -> None:
        loads = [*zip(self._w, self.weights, strict=True), *zip(self._x, self.activations, strict=True)]
        if self.variant.npx == 1:
            # a single activation comes first, as it is needed at once
            loads = [loads[-1], *loads[:-1]]
        for register, pointer in loads:
            b("p.lw", register, WORD, pointer)
        for accumulator, x, w in self._products(self._w, self._x):
            self._multiply(b, accumulator, x, w, signed=signed)

    def _multiply(self, b: Builder, accumulator: int, x: int, w: int, *, signed: bool) -> None:
        b(*self._dot(accumulator, x, w, signed=signed))


class CountLoop(SimdLoop):
    """Loop of XpulpV2 for products of -1 and +1, which counts the bits in which weights and activations differ."""

    def __init__(self, variant: Variant, precision: Precision, registers: FreeRegisters) -> None:
        super().__init__(variant, precision, registers)
        self._different = registers.take_one()
        self.temporaries = [*self.temporaries, self._different]

    def _multiply(self, b: Builder, accumulator: int, x: int, w: int, *, signed: bool) -> None:
        b("xor", self._different, x, w)
        b("p.cnt", self._different, self._different)
        b("add", accumulator, accumulator, self._different)


class UnpackLoop(SimdLoop):
    """Loop of XpulpV2 for packed 4- or 2-bit weights, which extracts every weight to a byte."""

    def __init__(self, variant: Variant, precision: Precision, registers: FreeRegisters) -> None:
        super().__init__(variant, precision, registers)
        self._bytes = registers.take(XLEN // BYTE_BITS)
        self.temporaries = [*self.temporaries, *self._bytes]

    def body(self, b: Builder, *, signed: bool) -> None:
        for lane, register in enumerate(self._w):
            b("p.lw", register, WORD, self.weights[lane])
        for part in range(self.expansion):
            for pixel, register in enumerate(self._x):
                b("p.lw", register, WORD, self.activations[pixel])
            for channel, word in enumerate(self._w):
                vector, first = self._bytes[0], part * len(self._bytes) * self.bits
                b.to_bytes(vector, word, first, self.bits, self._bytes, signed=self.is_signed)
                for pixel, x in enumerate(self._x):
                    b(*self._dot(self.acc[pixel][channel], x, vector, signed=signed))


class _BranchLoop(InnerLoop):
    """Loop of RV32IM, which ends when the pointer of the first activation row reaches the end of this row."""

    def _prepare(self, b: Builder) -> None:
        pass

    def emit(self, b: Builder, count: Value, *, signed: bool) -> None:
        assert self.end is not None
        self._prepare(b)
        with b.branch_loop(self.activations[0], self.end):
            self.body(b, signed=signed)

    def _move(self, b: Builder, weights: int, activations: int) -> None:
        for lane in range(self.variant.nch):
            b("addi", self.weights[lane], self.weights[lane], weights)
        for pixel in range(self.variant.npx):
            b("addi", self.activations[pixel], self.activations[pixel], activations)


class ScalarLoop(_BranchLoop):
    """Loop of RV32IM by byte loads, mul and add; sub-byte weights are shifted out of a packed word."""

    def __init__(self, variant: Variant, precision: Precision, registers: FreeRegisters) -> None:
        super().__init__(variant, precision, registers)
        self._w, self._x = registers.take(variant.nch), registers.take(variant.npx)
        self._packed, self._product = registers.take(variant.nch), registers.take_one()
        self.end = registers.take_one()
        self.temporaries = [*self._w, *self._x, *self._packed, self._product]
        # elements per iteration: those of a packed word of weights, one at 8 bit
        self._elements = 1 if self.bits == BYTE_BITS else XLEN // self.bits

    def body(self, b: Builder, *, signed: bool) -> None:
        elements, load = self._elements, "lb" if signed else "lbu"
        is_early = elements == self.variant.npx == 1
        if is_early:
            b(load, self._x[0], 0, self.activations[0])
        loaded = "lw" if elements > 1 else "lb" if self.is_signed else "lbu"
        for lane, register in enumerate(self._packed if elements > 1 else self._w):
            b(loaded, register, 0, self.weights[lane])
        for element in range(elements):
            for pixel, register in enumerate([] if is_early else self._x):
                b(load, register, element, self.activations[pixel])
            if elements > 1:
                self._extract(b, element)
            for accumulator, x, w in self._products(self._w, self._x):
                b("mul", self._product, w, x)
                b("add", accumulator, accumulator, self._product)
        self._move(b, 1 if elements == 1 else WORD, elements)

    def _extract(self, b: Builder, element: int) -> None:
        for packed, register in zip(self._packed, self._w, strict=True):
            b("slli", register, packed, XLEN - (element + 1) * self.bits)
            b("srai" if self.is_signed else "srli", register, register, XLEN - self.bits)


class ScalarCountLoop(_BranchLoop):
    """Loop of RV32IM for binary operands, which counts the differing bits of words by masks and a multiplication."""

    def __init__(self, variant: Variant, precision: Precision, registers: FreeRegisters) -> None:
        super().__init__(variant, precision, registers)
        self._w, self._x = registers.take(variant.nch), registers.take(variant.npx)
        self._different, self._part = registers.take(2)
        self._masks = registers.take(4)
        self.end = registers.take_one()
        self.temporaries = [*self._w, *self._x, self._different, self._part, *self._masks]

    def _prepare(self, b: Builder) -> None:
        for register, value in zip(self._masks, (0x5555_5555, 0x3333_3333, 0x0F0F_0F0F, 0x0101_0101), strict=True):
            b.li(register, value)

    def body(self, b: Builder, *, signed: bool) -> None:
        for pixel, register in enumerate(self._x):
            b("lw", register, 0, self.activations[pixel])
        for lane, register in enumerate(self._w):
            b("lw", register, 0, self.weights[lane])
        bits, part, (halves, quarters, nibbles, ones) = self._different, self._part, self._masks
        for accumulator, x, w in self._products(self._w, self._x):
            b("xor", bits, x, w)
            b.chain(part, bits, ("srli", 1), ("and", halves))
            b("sub", bits, bits, part)
            b.chain(part, bits, ("srli", 2), ("and", quarters))
            b.chain(bits, bits, ("and", quarters), ("add", part))
            b("srli", part, bits, 4)
            b.chain(bits, bits, ("add", part), ("and", nibbles), ("mul", ones), ("srli", XLEN - BYTE_BITS))
            b("add", accumulator, accumulator, bits)
        self._move(b, WORD, WORD)


class ComputeUpdateLoop(InnerLoop):
    """Loop of Compute&Update: each product also loads a word of the weight row two rows ahead into the NN-RF."""

    AHEAD = 2  # weight rows fetched ahead: as many as a pixel has entries

    def __init__(self, variant: Variant, precision: Precision, registers: FreeRegisters) -> None:
        super().__init__(variant, precision, registers)
        self.lanes *= variant.npx
        self.weights += registers.take(variant.nch * (variant.npx - 1))
        self._x = registers.take(variant.npx * variant.unrolled)
        self.temporaries = list(self._x)
        fetched = [(pixel, entry) for pixel in range(variant.npx) for entry in range(self.AHEAD)]
        self.group_prefetch = [self._product(pixel, entry, entry, ZERO, ZERO) for pixel, entry in fetched]

    def _product(
        self, pixel: int, entry: int, following: int, accumulator: int, x: int, *, signed: bool = False
    ) -> LoopInstruction:
        number = pixel * self.AHEAD + entry
        pointer = self.weights[pixel * self.variant.nch + following]
        signs = ("sp" if signed else "usp") if self.is_signed else "up"
        return f"pv.cusdot{signs}.{self.suffix}.{number}", accumulator, pointer, x

    def body(self, b: Builder, *, signed: bool) -> None:
        pixels = [*range(self.variant.npx)] * self.variant.unrolled
        for pixel, register in zip(pixels, self._x, strict=True):
            b("p.lw", register, WORD, self.activations[pixel])
        for pixel, register in zip(pixels, self._x, strict=True):
            for channel in range(self.variant.nch):
                following, accumulator = (channel + self.AHEAD) % self.variant.nch, self.acc[pixel][channel]
                b(*self._product(pixel, channel % self.AHEAD, following, accumulator, register, signed=signed))
