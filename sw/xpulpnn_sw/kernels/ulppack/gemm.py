"""Matrix products of packed operands and bit-serial ones: code generators and operands in memory.

A block of ``nch`` weight rows and ``npx`` activation rows is multiplied word by word. Only one bit field of each
accumulator is the dot product. It is extracted and added to a sum after so many words (a chunk) that it cannot
overflow. The weight rows of a block alternate word by word, so that one pointer serves all.

Bit-serial products, which serve for comparison, are ``sum(popcount(w[i] & a[j]) << i + j)`` over the bits of the
operands. Words hold one bit of 32 elements each. The pairs of bits are computed from the highest ``i + j`` down, and
the accumulators are doubled at each step down.
"""

import numpy as np

from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, XLEN
from xpulpnn_sw.kernels.builder import MAX_COUNT_IMMEDIATE, MAX_SHORT_BODY, WORD, ZERO, Held, Label, fits_immediate
from xpulpnn_sw.kernels.frame import FREE, FreeRegisters
from xpulpnn_sw.kernels.kernel import Function
from xpulpnn_sw.kernels.layout import Ints, Words, pack_words, pad_axis
from xpulpnn_sw.kernels.ulppack.activations import ActivationRows
from xpulpnn_sw.kernels.ulppack.packing import METHODS, ResultBlock, Scheme
from xpulpnn_sw.kernels.ulppack.plan import SCALAR_WORDS, BlockedProduct, PackedPlan, ProductCode, packed_function
from xpulpnn_sw.layers.layer import MatmulLayer

SERIAL_BLOCK = ResultBlock(4, 2)  # results computed together
_NIBBLE = 0x0804_0201  # factors that combine four bytes of 0 or 1 into four bits
_LOOPED_PAIRS = 36  # most pairs of bits whose instructions fit into a hardware loop


def _planes(rows: Ints, bits: int) -> Words:
    return np.stack([pack_words(rows >> bit & 1, 1) for bit in range(bits)], axis=1)


def bit_serial_gemm(
    layer: MatmulLayer, w: int, a: int, weights: Ints, activations: Ints, *, cores: int = 1
) -> Function:
    """Return the function that multiplies unsigned ``weights`` [channel][k] and ``activations`` [pixel][k] bitwise."""
    words = -(-layer.reduction // XLEN)
    row = words * WORD
    product = BlockedProduct(
        layer, SERIAL_BLOCK, source_bytes=words * XLEN, row_bytes=a * row, weight_row_bytes=w * row
    )
    planes = _planes(pad_axis(weights, 0, product.channels), w)
    blocks = planes.reshape(-1, SERIAL_BLOCK.nch, w, words).transpose(0, 2, 3, 1)
    code, stored = _BitSerialCode(product, words, w, a), np.ascontiguousarray(blocks).reshape(1, -1)
    named = {"name": f"bit_serial_w{w}a{a}", "extensions": METHODS[-1].extensions}
    return packed_function(product, code, stored, activations, cores, **named)


class _BitSerialCode(ProductCode):
    def __init__(self, product: BlockedProduct, words: int, w: int, a: int) -> None:
        self._words, self._bits, self._planes = words, w, a
        registers = FreeRegisters()
        self._acc = [registers.take(SERIAL_BLOCK.nch) for _ in range(SERIAL_BLOCK.npx)]
        self._w, self._x = registers.take(SERIAL_BLOCK.nch), registers.take(SERIAL_BLOCK.npx)
        self._weights, self._rows = registers.take_one(), registers.take(SERIAL_BLOCK.npx)
        self._block, self._starts = registers.take_one(), registers.take(SERIAL_BLOCK.npx)
        out, self._bits_set = registers.take_one(), registers.take_one()
        super().__init__(product, out, self._w, xpulp=True)

    def _blocks(self) -> None:
        b, frame, (temporary, end, *_) = self._b, self._frame, self._w
        frame.load_all(weights=self._block, row0=self._starts[0])
        b.mv(self._starts[1], self._starts[0])
        b.add(self._starts[1], self._sizes.row_bytes, end)
        step = self._words * self._bits * SERIAL_BLOCK.nch * WORD
        if self._bits * self._planes <= _LOOPED_PAIRS:
            with b.loop(self._sizes.channels // SERIAL_BLOCK.nch, temporary, level=1):
                self._one_block()
                b.add(self._block, step, temporary)
            return
        start = Label()
        b.place(start)
        self._one_block()
        frame.load("weights_end", end)
        b.add(self._block, step, temporary)
        b.far_branch("bne", self._block, end, start)

    def _one_block(self) -> None:
        b = self._b
        registers = [register for accumulators in self._acc for register in accumulators]
        b.clear(registers)
        for level in range(self._bits + self._planes - 2, -1, -1):
            for i in range(max(0, level - self._planes + 1), min(self._bits, level + 1)):
                self._pair(i, level - i)
            if level:
                for accumulator in registers:
                    b("slli", accumulator, accumulator, 1)
        with b.region("quant"):
            for pixel, accumulators in enumerate(self._acc):
                pointer = self._out
                if pixel:
                    pointer = self._w[0]
                    b.li(pointer, pixel * self._sizes.out_stride)
                    b("add", pointer, pointer, self._out)
                for channel, accumulator in enumerate(accumulators):
                    b("sw", accumulator, channel * WORD, pointer)
            b("addi", self._out, self._out, SERIAL_BLOCK.nch * WORD)

    def _pair(self, i: int, j: int) -> None:
        b = self._b
        b.mv(self._weights, self._block)
        b.add(self._weights, i * self._words * SERIAL_BLOCK.nch * WORD, self._bits_set)
        for row, start in zip(self._rows, self._starts, strict=True):
            b("addi", row, start, j * WORD)
        with b.loop(self._words, self._w[0], level=0):
            b.load_words(self._w, self._weights)
            for register, row in zip(self._x, self._rows, strict=True):
                b("p.lw", register, self._planes * WORD, row)
            for x, accumulators in zip(self._x, self._acc, strict=True):
                for w, accumulator in zip(self._w, accumulators, strict=True):
                    b("and", self._bits_set, w, x)
                    b("p.cnt", self._bits_set, self._bits_set)
                    b("add", accumulator, accumulator, self._bits_set)

    def _pack(self) -> None:
        b, frame = self._b, self._frame
        planes = [register for accumulators in self._acc for register in accumulators][: self._planes]
        value, ahead, part, nibble, lowest, count = *self._w, *self._x
        source, target, words = *self._rows, self._weights
        b.li(nibble, _NIBBLE)
        b.li(lowest, 0x0101_0101)
        frame.load_all(source=source, row0=target, group=count)
        b.li(words, SERIAL_BLOCK.npx * self._words)
        b("mul", count, count, words)
        with b.loop(Held(count), count, level=0):
            b("p.lw", value, WORD_BYTES, source)
            for four in range(BYTE_BITS):
                current, following = (value, ahead) if four % 2 == 0 else (ahead, value)
                if four < BYTE_BITS - 1:
                    b("p.lw", following, WORD_BYTES, source)
                for bit, plane in enumerate(planes):
                    bits = current
                    if bit:
                        b("pv.srl.sci.b", part, current, bit)
                        bits = part
                    if bit < len(planes) - 1:
                        b("and", part, bits, lowest)
                        bits = part
                    b("pv.dotup.b", part, bits, nibble)
                    b("p.inserti", plane, part, WORD_BYTES - 1, four * WORD_BYTES)
            b.store_words(planes, target)


class GemmCode(ProductCode):
    fields = ("input", "packed", "weights", "corrections", "output")
    has_all_rows = True

    def __init__(self, plan: PackedPlan, *, signed: bool) -> None:
        self._plan, self._method, self.is_corrected = plan, plan.method, signed
        nch, npx = plan.block.nch, plan.block.npx
        registers = FreeRegisters()
        self._local = [registers.take(nch) for _ in range(npx)]
        has_sums = plan.chunks > 1 and not plan.sums_in_memory
        self._sums = [registers.take(nch) for _ in range(npx)] if has_sums else self._local
        self._w, self._x = registers.take(nch), registers.take(plan.factors)
        self._weights, self._rows, out = registers.take_one(), registers.take(npx), registers.take_one()
        self._product = ZERO if plan.method.accumulating else registers.take_one()
        self._unit = registers.take_one() if plan.has_unit else ZERO
        self._word_counter = registers.take_one() if plan.word_counter else self._w[0]
        self._chunk_counter = registers.take_one() if plan.chunk_counter else self._w[0]
        # outer loops use the hardware loops that the chunks leave free
        levels = iter((0, 1) if plan.method.xpulp else ())
        self._word_level = None if plan.is_unrolled else next(levels, None)
        self._chunk_level = next(levels, None) if plan.chunks > 2 else None
        self._block_level = next(levels, None)
        super().__init__(plan, out, self._w, xpulp=plan.method.xpulp)

    def _pack(self) -> None:
        activations = ActivationRows(self._plan, signed=self.is_corrected)
        activations.emit(self._b, self._frame, [register for register in FREE if register != self._out])
        if self._unit:
            with self._b.region("setup"):
                self._b.li(self._unit, 1 << self._plan.packing.position)

    def _blocks(self) -> None:
        b, count = self._b, self._sizes.channels // self._plan.block.nch
        self._frame.load("weights", self._weights)
        if self._block_level is not None:
            with b.loop(count, self._w[0], level=self._block_level):
                self._block()
            return
        start, end = Label(), self._w[0]
        b.place(start)
        self._block()
        self._frame.load("weights_end", end)
        # fills the load-use stall
        b("addi", self._out, self._out, self._plan.block.nch * WORD)
        b.far_branch("bne", self._weights, end, start)

    def _block(self) -> None:
        plan, b = self._plan, self._b
        for pixel, row in enumerate(self._rows):
            self._frame.load(f"row{pixel}", row)
        self._chunk(plan.first_chunk)
        self._extract_results(is_first=True)
        if self.is_corrected:
            self._correct()
        if plan.chunks > 1:
            if plan.sums_in_memory:
                self._store()
            with b.loop(plan.chunks - 1, self._chunk_counter, level=self._chunk_level):
                self._chunk(plan.chunk)
                self._extract_results(is_first=False)
        with b.region("quant"):
            if not plan.sums_in_memory:
                self._store()
            if self._block_level is not None:
                b("addi", self._out, self._out, plan.block.nch * WORD)

    def _chunk(self, words: int) -> None:
        if not self._method.xpulp:
            rounds = 0 if self._plan.is_unrolled else (words - 1) // SCALAR_WORDS
            self._scalar_words(words - rounds * SCALAR_WORDS, is_first=True)
            if rounds:
                with self._b.loop(rounds, self._word_counter):
                    self._scalar_words(SCALAR_WORDS, is_first=False)
        elif self._plan.is_unrolled:
            for word in range(words):
                self._word(is_first=word == 0)
        else:
            self._word(is_first=True)
            if words > 1:
                short = self._plan.word_cycles <= MAX_SHORT_BODY and words - 1 <= MAX_COUNT_IMMEDIATE
                with self._b.loop(words - 1, self._w[0], level=self._word_level, short=short):
                    self._word(is_first=False)

    def _word(self, *, is_first: bool) -> None:
        mnemonic = self._method.first if is_first else self._method.product
        for register in self._w:
            self._b(self._method.load, register, self._method.operand_bytes, self._weights)
        ahead = len(self._x)
        for pixel in range(ahead):
            self._factor(pixel)
        for pixel, accumulators in enumerate(self._local):
            for w, accumulator in zip(self._w, accumulators, strict=True):
                self._b(mnemonic, accumulator, w, self._x[pixel % ahead])
            if pixel + ahead < len(self._rows):
                self._factor(pixel + ahead)

    def _factor(self, pixel: int) -> None:
        size = self._method.operand_bytes
        self._b(self._method.load, self._x[pixel % len(self._x)], size, self._rows[pixel])

    def _scalar_words(self, words: int, *, is_first: bool) -> None:
        b, method, size = self._b, self._method, self._method.operand_bytes
        for word in range(words):
            for lane, register in enumerate(self._w):
                b(method.load, register, (word * len(self._w) + lane) * size, self._weights)
            for register, row in zip(self._x, self._rows, strict=True):
                b(method.load, register, word * size, row)
            for x, accumulators in zip(self._x, self._local, strict=True):
                for w, accumulator in zip(self._w, accumulators, strict=True):
                    if is_first and word == 0:
                        b(method.first, accumulator, w, x)
                    else:
                        b(method.first, self._product, w, x)
                        b("add", accumulator, accumulator, self._product)
        b("addi", self._weights, self._weights, words * len(self._w) * size)
        for row in self._rows:
            b("addi", row, row, words * size)

    def _extract_results(self, *, is_first: bool) -> None:
        if self._plan.packing.scheme is Scheme.BYTES:
            return
        if self._plan.sums_in_memory and not is_first:
            self._add_to_memory()
            return
        for accumulators, sums in zip(self._local, self._sums, strict=True):
            for accumulator, total in zip(accumulators, sums, strict=True):
                if is_first:
                    self._field(total, accumulator)
                else:
                    self._add_field(total, accumulator, self._unit)

    def _add_field(self, total: int, accumulator: int, unit: int) -> None:
        if self._plan.is_lane:
            fmt = "b" if self._plan.packing.pitch == BYTE_BITS else "h"
            self._b(f"pv.sdotup.{fmt}", total, accumulator, unit)
        else:
            self._field(accumulator, accumulator)
            self._b("add", total, total, accumulator)

    def _field(self, target: int, accumulator: int) -> None:
        b, packing = self._b, self._plan.packing
        if packing.position + packing.pitch == XLEN:
            b("srli", target, accumulator, packing.position)
        elif self._method.xpulp:
            b("p.extractui", target, accumulator, packing.pitch - 1, packing.position)
        else:
            b("slli", target, accumulator, XLEN - packing.position - packing.pitch)
            b("srli", target, target, XLEN - packing.pitch)

    def _add_to_memory(self) -> None:
        b, (unit, *totals) = self._b, self._w
        temporary, other = self._x
        if self._plan.is_lane:
            b.li(unit, 1 << self._plan.packing.position)
        for pixel, accumulators in enumerate(self._local):
            base, distance = self._place(pixel, temporary)
            # as many at a time as there are registers, to avoid load-use stalls
            registers = [*totals, other]
            for channel, total in enumerate(registers):
                b("lw", total, distance + channel * WORD, base)
            for accumulator, total in zip(accumulators, registers, strict=True):
                self._add_field(total, accumulator, unit)
            for channel, total in enumerate(registers):
                b("sw", total, distance + channel * WORD, base)

    def _correct(self) -> None:
        b, (pointer, *others) = self._b, self._w
        registers = [*others, *self._x][: len(self._sums)]
        self._frame.load("corrections", pointer)
        for pixel, register in enumerate(registers):
            b("lw", register, pixel * WORD, pointer)
        for register, sums in zip(registers, self._sums, strict=True):
            for total in sums:
                b("add", total, total, register)

    def _store(self) -> None:
        for pixel, sums in enumerate(self._sums):
            base, distance = self._place(pixel, self._w[0])
            for channel, total in enumerate(sums):
                self._b("sw", total, distance + channel * WORD, base)

    def _place(self, pixel: int, temporary: int) -> tuple[int, int]:
        distance = pixel * self._sizes.out_stride
        if fits_immediate(distance + self._plan.block.nch * WORD):
            return self._out, distance
        self._b.li(temporary, distance)
        self._b("add", temporary, temporary, self._out)
        return temporary, 0


def packed_gemm(
    plan: PackedPlan, weights: Ints, activations: Ints, *, signed: bool = False, cores: int = 1
) -> Function:
    """Return the function of ``weights`` [channel][k] times ``activations`` [pixel][k], int32 [pixel][channel].

    The function first packs the activations, which are given as bytes, unless packed activations are bytes too; then it
    multiplies. Weights are packed beforehand; ``signed`` ones are stored with an offset of half their range, and the
    function subtracts the offset times the sum of the activations from each result.
    """
    packing = plan.packing
    offset = 1 << packing.w - 1 if signed else 0
    stored = pad_axis(weights.astype(np.int64) + offset, 0, plan.channels)
    # in the order in which they are loaded
    rows = packing.pack_weights(stored).reshape(-1, plan.block.nch, plan.words)
    blocks = pack_words(rows.swapaxes(1, 2).reshape(1, -1), plan.method.operand_bytes * BYTE_BITS)
    name = f"ulppack_w{packing.w}a{packing.a}_{plan.method.isa}_{packing.name}_{packing.depth}_{plan.iterations}"
    named = {"name": name, "extensions": plan.method.extensions}
    return packed_function(plan, GemmCode(plan, signed=signed), blocks, activations, cores, **named)
