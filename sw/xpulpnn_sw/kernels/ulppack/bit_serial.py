"""Bit-serial matrix products, the rival: ``sum(popcount(w[i] & a[j]) << i + j)`` over the bits of the operands.

Words hold one bit of 32 elements each. The pairs of bits are computed from the highest ``i + j`` down, and the
accumulators doubled wherever it falls by one.
"""

import numpy as np

from xpulpnn_sw.kernels.builder import WORD, Held, Label
from xpulpnn_sw.kernels.frame import FreeRegisters
from xpulpnn_sw.kernels.kernel import Function
from xpulpnn_sw.kernels.layout import Ints, Words, pack_words, pad_axis
from xpulpnn_sw.kernels.ulppack.packing import METHODS, ResultBlock
from xpulpnn_sw.kernels.ulppack.plan import BlockedProduct, ProductCode, packed_function
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS
from xpulpnn_sw.layers.convolution import MatmulLayer

BLOCK = ResultBlock(4, 2)  # results computed together
_FIELDS = ("input", "packed", "weights", "output")
_NIBBLE = 0x0804_0201  # factors that make four bytes of 0 or 1 four bits
_LOOPED_PAIRS = 36  # most pairs of bits whose instructions a hardware loop reaches around
_LOWEST = 0x0101_0101
_WORD_BYTES = WORD_BITS // BYTE_BITS


def _planes(rows: Ints, bits: int) -> Words:
    return np.stack([pack_words(rows >> bit & 1, 1) for bit in range(bits)], axis=1)


def bit_serial_gemm(
    layer: MatmulLayer, w: int, a: int, weights: Ints, activations: Ints, *, cores: int = 1
) -> Function:
    """The product of unsigned ``weights`` [channel][k] and ``activations`` [pixel][k], int32 [pixel][channel].

    The function splits the activations, which lie as bytes, into words of one bit each, and then multiplies.
    """
    words = -(-layer.reduction // WORD_BITS)
    product = BlockedProduct(
        layer,
        BLOCK,
        source_bytes=words * WORD_BITS,
        row_bytes=words * a * WORD,
        weight_row_bytes=words * w * WORD,
    )
    planes = _planes(pad_axis(weights, 0, product.channels), w)
    blocks = planes.reshape(-1, BLOCK.nch, w, words).transpose(0, 2, 3, 1)
    return packed_function(
        product,
        _Code(product, words, w, a),
        np.ascontiguousarray(blocks).reshape(1, -1),
        activations,
        cores,
        name=f"bit_serial_w{w}a{a}",
        extensions=METHODS[-1].extensions,
    )


class _Code(ProductCode):
    def __init__(self, product: BlockedProduct, words: int, w: int, a: int) -> None:
        self._words, self._bits, self._planes = words, w, a
        registers = FreeRegisters()
        self._acc = [registers.take(BLOCK.nch) for _ in range(BLOCK.npx)]
        self._w, self._x = registers.take(BLOCK.nch), registers.take(BLOCK.npx)
        self._weights, self._rows = registers.one(), registers.take(BLOCK.npx)
        self._block, self._starts = registers.one(), registers.take(BLOCK.npx)
        out, self._bits_set = registers.one(), registers.one()
        super().__init__(product, out, self._w, xpulp=True)

    def _blocks(self) -> None:
        b, frame, (temporary, end, *_) = self._b, self._frame, self._w
        frame.load_all(weights=self._block, row0=self._starts[0])
        b.mv(self._starts[1], self._starts[0])
        b.add(self._starts[1], self._sizes.row_bytes, end)
        step = self._words * self._bits * BLOCK.nch * WORD
        if self._bits * self._planes <= _LOOPED_PAIRS:
            with b.loop(self._sizes.channels // BLOCK.nch, temporary, level=1):
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
            b("addi", self._out, self._out, BLOCK.nch * WORD)

    def _pair(self, i: int, j: int) -> None:
        b = self._b
        b.mv(self._weights, self._block)
        b.add(self._weights, i * self._words * BLOCK.nch * WORD, self._bits_set)
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
        """The activations of all groups of a core, four at a time, into words of one bit of 32 of them."""
        b, frame = self._b, self._frame
        planes = [register for accumulators in self._acc for register in accumulators][: self._planes]
        value, ahead, part, nibble, lowest, count = *self._w, *self._x
        source, target, words = *self._rows, self._weights
        b.li(nibble, _NIBBLE)
        b.li(lowest, _LOWEST)
        frame.load_all(source=source, row0=target, group=count)
        b.li(words, BLOCK.npx * self._words)
        b("mul", count, count, words)
        with b.loop(Held(count), count, level=0):
            b("p.lw", value, _WORD_BYTES, source)
            for four in range(BYTE_BITS):
                current, following = (value, ahead) if four % 2 == 0 else (ahead, value)
                if four < BYTE_BITS - 1:
                    b("p.lw", following, _WORD_BYTES, source)
                for bit, plane in enumerate(planes):
                    chosen = current
                    if bit:
                        b("pv.srl.sci.b", part, current, bit)
                        chosen = part
                    if bit < len(planes) - 1:
                        b("and", part, chosen, lowest)
                        chosen = part
                    b("pv.dotup.b", part, chosen, nibble)
                    b("p.inserti", plane, part, _WORD_BYTES - 1, four * _WORD_BYTES)
            b.store_words(planes, target)
