"""Matrix products from packed operands: the function, and its operands in memory."""

from dataclasses import dataclass

import numpy as np

from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.kernel import STACK_STRIDE, Function
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS
from xpulpnn_sw.layout import ImageBuilder, Ints, OutputLayout, Words, pack_words, pad_axis
from xpulpnn_sw.ulppack.gemm_code import FIELDS, GemmCode
from xpulpnn_sw.ulppack.plan import Plan


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes in memory."""

    plan: Plan  # what is computed and how

    @property
    def channels(self) -> int:
        """Channels, those of the last block filled up."""
        return -(-self.plan.layer.out_channels // self.plan.block.nch) * self.plan.block.nch

    @property
    def groups(self) -> int:
        """Pixel groups, the last one filled up."""
        return -(-self.plan.layer.pixels // self.plan.block.npx)

    @property
    def pixels(self) -> int:
        """Pixels of all groups."""
        return self.groups * self.plan.block.npx

    @property
    def source_bytes(self) -> int:
        """Bytes of a row of activations before packing: whole packed words, and whole words of memory."""
        return -(-self.plan.words * self.plan.packing.elements // WORD) * WORD

    @property
    def row_bytes(self) -> int:
        """Bytes of a packed row of activations."""
        if self.plan.packing.is_bytes:
            return self.source_bytes
        return self.plan.words * self.plan.method.operand_bytes

    @property
    def weight_bytes(self) -> int:
        """Bytes of all packed weights."""
        return self.channels * self.plan.words * self.plan.method.operand_bytes

    @property
    def out_stride(self) -> int:
        """Bytes from the results of one pixel to those of the next."""
        return self.channels * WORD


def gemm(plan: Plan, weights: Ints, activations: Ints, *, signed: bool = False, cores: int = 1) -> Function:
    """The product of ``weights`` [channel][k] and ``activations`` [pixel][k], int32 [pixel][channel].

    The function packs the activations, which lie as bytes, and then multiplies. Where packed activations are bytes
    nothing is packed. Weights are packed beforehand; ``signed`` ones, in two's complement, are stored with an offset
    of half their range, and the function takes the offset times the sum of the activations from each result.

    Memory symbols: ``input``, ``packed``, ``weights``, ``corrections``, ``output``, ``arguments``, ``stack``.
    """
    geometry = Geometry(plan)
    layer, packing = plan.layer, plan.packing
    offset = 1 << packing.w - 1 if signed else 0
    memory = ImageBuilder()
    source = pad_axis(pad_axis(activations, 0, geometry.pixels), 1, geometry.source_bytes)
    stored = pad_axis(weights.astype(np.int64) + offset, 0, geometry.channels)
    is_free = packing.is_bytes
    addresses = {"input": memory.place("input", pack_words(source, BYTE_BITS))}
    room = 0 if is_free else geometry.pixels * geometry.row_bytes
    addresses |= {
        "packed": addresses["input"] if is_free else memory.reserve("packed", room),
        "weights": memory.place("weights", _interleaved(plan, packing.pack_weights(stored))),
        "corrections": memory.reserve("corrections", geometry.pixels * WORD),
        "output": memory.reserve("output", geometry.pixels * geometry.out_stride),
    }
    memory.place("arguments", np.array([addresses[name] for name in FIELDS], dtype=np.uint32))
    memory.reserve("stack", cores * STACK_STRIDE)
    name = f"ulppack_w{packing.w}a{packing.a}_{plan.method.isa}_{packing.name}_{packing.depth}_{plan.iterations}"
    return Function(
        name=name,
        function=GemmCode(plan, geometry, signed=signed).write(),
        extensions=plan.method.extensions,
        image=memory.finish(),
        output=OutputLayout(
            symbol="output",
            bits=WORD_BITS,
            shape=(layer.pixels, layer.out_channels),
            pixel_bytes=geometry.out_stride,
        ),
        macs=layer.macs,
    )


def _interleaved(plan: Plan, rows: Words) -> Words:
    """Weight rows in the order in which they are loaded, as words of memory."""
    blocks = rows.reshape(-1, plan.block.nch, plan.words).swapaxes(1, 2).reshape(1, -1)
    return pack_words(blocks, plan.method.operand_bytes * BYTE_BITS)
