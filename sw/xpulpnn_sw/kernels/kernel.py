"""What all kernels share: the pixel-group loop around MatMul blocks, and the result handed to the harness."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from xpulpnn.isa.machine import TEXT_BASE
from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder, Relocation
from xpulpnn_sw.kernels.inner import InnerLoop, Registers, inner_loop
from xpulpnn_sw.kernels.quant import Store
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS, Variant
from xpulpnn_sw.layer import Layer
from xpulpnn_sw.layout import (
    Image,
    ImageBuilder,
    Ints,
    OutputLayout,
    Words,
    pack_words,
    pad_axis,
    padded_channels,
)
from xpulpnn_sw.stream import Program, Stream

_MASK = 0xFFFF_FFFF


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelRun:
    """A kernel ready to execute.

    Parameters
    ----------
    layer : ConvLayer or MatmulLayer
        What it computes.
    bits : int
        Width of activations, weights and requantised results.
    variant : Variant
        How.
    stream : Stream
        The instructions; entry is the first of them, all registers are free on entry.
    image : Image
        Initial data memory.
    output : OutputLayout
        Where the results are afterwards.
    relocations : mapping of int to Relocation
        Text positions that hold addresses of the image's symbols.
    """

    layer: Layer
    bits: int
    variant: Variant
    stream: Stream
    image: Image
    output: OutputLayout
    relocations: Mapping[int, Relocation]

    @property
    def program(self) -> Program:
        """The static text."""
        return self.stream.program


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """Sizes of the loops around the MatMul block.

    Parameters
    ----------
    variant : Variant
        Size of a block.
    bits : int
        Width of a requantised result.
    out_channels, pixels : int
        Size of the output.
    requantised : bool
        Whether results are requantised, not stored as 32-bit accumulators.
    """

    variant: Variant
    bits: int
    out_channels: int
    pixels: int
    requantised: bool

    @property
    def channel_step(self) -> int:
        """Output channels between two byte boundaries of the output, at least one block."""
        per_byte = max(1, BYTE_BITS // self.bits) if self.requantised else 1
        return max(self.variant.nch, per_byte)

    @property
    def steps(self) -> int:
        """Channel steps."""
        return -(-self.out_channels // self.channel_step)

    @property
    def computed_channels(self) -> int:
        """Channels including those that fill up the last step."""
        return self.steps * self.channel_step

    @property
    def groups(self) -> int:
        """Pixel groups."""
        return -(-self.pixels // self.variant.npx)

    @property
    def out_bits(self) -> int:
        """Bits of a result in memory."""
        return self.bits if self.requantised else WORD_BITS

    @property
    def pixel_bytes(self) -> int:
        """Distance of two output pixels."""
        return padded_channels(self.out_channels, self.bits) * self.out_bits // BYTE_BITS

    @property
    def step_bytes(self) -> int:
        """Output bytes of a pixel and channel step."""
        return self.channel_step * self.out_bits // BYTE_BITS


@dataclass(frozen=True, eq=False)
class Operands:
    """Addresses of what every kernel has in memory."""

    weights: list[int]
    parameters: int
    output: int


def place_operands(memory: ImageBuilder, blocking: Blocking, tensors: LayerTensors, rows: Words) -> Operands:
    """Lay out weights, parameters and output.

    ``rows`` are the packed filter rows. Row ``block * nch + lane`` belongs to stream ``lane``; the rows of a stream
    follow each other, with a word to spare after the last stream for the words fetched ahead.
    """
    nch, channels = blocking.variant.nch, blocking.computed_channels
    padded = pad_axis(rows, 0, channels)
    streams = padded.reshape(channels // nch, nch, -1).swapaxes(0, 1)
    stream_bytes = streams[0].size * WORD
    base = memory.place("weights", pack_words(streams, WORD_BITS), spare=1)
    return Operands(
        weights=[base + lane * stream_bytes for lane in range(nch)],
        parameters=memory.place("parameters", _parameters(tensors, channels, nch)),
        output=memory.reserve("output", blocking.groups * blocking.variant.npx * blocking.pixel_bytes),
    )


def _parameters(tensors: LayerTensors, channels: int, nch: int) -> Words:
    """Per block the biases of its channels, then lambda and kappa of each; whichever there are."""
    fields: list[Ints] = []
    if tensors.bias is not None:
        fields.append(_per_block(tensors.bias, channels, nch))
    if tensors.requantisation is not None:
        lam = _per_block(tensors.requantisation.lam, channels, nch)
        kappa = _per_block(tensors.requantisation.kappa, channels, nch)
        fields.append(np.stack([lam, kappa], axis=-1).reshape(channels // nch, -1))
    if not fields:
        return np.zeros(0, dtype=np.uint32)
    return (np.concatenate(fields, axis=1).astype(np.int64) & _MASK).astype(np.uint32)


def _per_block(values: Ints, channels: int, nch: int) -> Ints:
    return pad_axis(values, 0, channels).reshape(-1, nch)


class KernelCode:
    """Writes the loops: pixel groups, channel steps, blocks.

    Parameters
    ----------
    blocking : Blocking
        Loop sizes.
    words : int
        Packed words of a filter row.
    operands : Operands
        Addresses.
    activations : list of int
        Address of the activation row of each pixel of the first group.
    tensors : LayerTensors
        Decide whether there are biases and a requantisation.
    """

    def __init__(
        self, blocking: Blocking, words: int, operands: Operands, activations: list[int], tensors: LayerTensors
    ) -> None:
        """Assign the registers."""
        self.relocations: Mapping[int, Relocation] = {}
        self.blocking, self.operands, self._rows = blocking, operands, activations
        self._has_bias = tensors.bias is not None
        requantisation = tensors.requantisation
        variant = blocking.variant
        registers = Registers()
        self.inner: InnerLoop = inner_loop(variant, blocking.bits, words, registers)
        self._parameters, self._group = registers.take(2)
        self._out = registers.take(variant.npx)
        self._step = self._group if variant.xpulp else registers.one()
        partial = registers.take(variant.npx) if blocking.channel_step > variant.nch else []
        temporaries = list(self.inner.temporaries)
        self._store_temporaries = 3 if variant.xpulp else 4
        temporaries += registers.take(max(0, self._store_temporaries - len(temporaries)))
        self._temporary = temporaries[0]
        self.scratch = [r for accumulators in self.inner.acc for r in accumulators] + temporaries + registers.rest()
        self._store = Store(
            bits=blocking.bits,
            shift=None if requantisation is None else requantisation.shift,
            xpulp=variant.xpulp,
            acc=self.inner.acc,
            out=self._out,
            parameters=self._parameters,
            temporaries=temporaries,
            skipped=variant.nch * WORD if self._has_bias else 0,
            partial=partial,
        )

    def write(self, fill_rows: Callable[[Builder], None] | None, group_bytes: int) -> Stream:
        """The whole kernel.

        Parameters
        ----------
        fill_rows : callable, optional
            Writes the im2col of a group into the activation rows.
        group_bytes : int
            Distance of the activation rows of successive groups; 0 if they are filled anew.
        """
        b = Builder(TEXT_BASE, hardware_loops=self.blocking.variant.xpulp)
        inner, blocking = self.inner, self.blocking
        weights, rows = self.operands.weights, self._rows
        for register, lane, _ in inner.weights:
            b.address(register, "weights", weights[lane] - weights[0], weights[0])
        for (register, _), address in zip(inner.activations, rows, strict=False):
            b.address(register, "im2col" if fill_rows else "input", address - rows[0], rows[0])
        b.address(self._parameters, "parameters", 0, self.operands.parameters)
        for pixel, register in enumerate(self._out):
            b.address(register, "output", pixel * blocking.pixel_bytes, self.operands.output)
        inner.constants(b)
        with b.loop(blocking.groups, self._group, index="group"):
            if fill_rows is not None:
                fill_rows(b)
            with b.region("matmul"):
                for operation in inner.group_prefetch:
                    b(*operation)
                self._channels(b)
                self._rewind(b)
                for register in inner.group_pointers:
                    b.advance(register, group_bytes, self._temporary)
            with b.region("quant"):
                distance = blocking.variant.npx * blocking.pixel_bytes - blocking.steps * blocking.step_bytes
                for register in self._out:
                    b.advance(register, distance, self._temporary)
        self.relocations = b.relocations
        return b.finish()

    def _channels(self, b: Builder) -> None:
        nch = self.blocking.variant.nch
        # the counter of a hardware loop is free after its set-up, that of a branching loop is not
        counter = self._temporary if self.blocking.variant.xpulp else self._step
        with b.loop(self.blocking.steps, counter, level=1):
            for first in range(0, self.blocking.channel_step, nch):
                self._block(b)
                with b.region("quant"):
                    self._store.emit(b, first)

    def _block(self, b: Builder) -> None:
        inner = self.inner
        first, *others = inner.acc
        if self._has_bias:
            for number, accumulator in enumerate(first):
                if self.blocking.variant.xpulp:
                    b("p.lw", accumulator, WORD, self._parameters)
                else:
                    b("lw", accumulator, number * WORD, self._parameters)
        else:
            for accumulator in first:
                b.mv(accumulator, ZERO)
        for operation in inner.block_prefetch:
            b(*operation)
        for accumulators in others:
            for source, accumulator in zip(first, accumulators, strict=True):
                b.mv(accumulator, source if self._has_bias else ZERO)
        inner.emit(b)
        for register, moved in inner.activations:
            b.advance(register, -moved * WORD, self._temporary)

    def _rewind(self, b: Builder) -> None:
        """Pointers that moved through all channels go back to the first."""
        blocks = self.blocking.computed_channels // self.blocking.variant.nch
        scratch, constant = self.scratch[:2]
        loaded: int | None = None
        for register, _, ahead in self.inner.weights:
            distance = (blocks * self.inner.words + ahead) * WORD
            if distance != loaded:
                b.li(constant, distance)
                loaded = distance
            b("sub", register, register, constant)
        per_channel = int(self._has_bias) + 2 * int(self._store.shift is not None)
        b.advance(self._parameters, -self.blocking.computed_channels * per_channel * WORD, scratch)


def output_layout(blocking: Blocking, shape: tuple[int, ...]) -> OutputLayout:
    """Where and how the results lie."""
    return OutputLayout(symbol="output", bits=blocking.out_bits, shape=shape, pixel_bytes=blocking.pixel_bytes)
