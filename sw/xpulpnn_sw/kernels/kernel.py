"""What all kernels share: the function around MatMul blocks, and the result handed to the harness."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from xpulpnn.isa.machine import TEXT_BASE
from xpulpnn_sw.kernels.arguments import Structure
from xpulpnn_sw.kernels.builder import MAX_SHORT_BODY, WORD, ZERO, Builder, Label
from xpulpnn_sw.kernels.frame import STACK_ALIGNMENT, Argument, Frame, Name, Number, Registers, Term
from xpulpnn_sw.kernels.im2col import WANTED, Im2col
from xpulpnn_sw.kernels.inner import ScalarLoop, inner_loop
from xpulpnn_sw.kernels.program import Program
from xpulpnn_sw.kernels.quant import TEMPORARIES, Store
from xpulpnn_sw.kernels.share import pieces, take_next, turns
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS, Level, Variant
from xpulpnn_sw.layer import Layer, ProductLayer
from xpulpnn_sw.layout import (
    Image,
    ImageBuilder,
    Ints,
    OutputLayout,
    Placement,
    Words,
    banked_words,
    pack_words,
    pad_axis,
    padded_channels,
)
from xpulpnn_sw.precision import Precision

STACK_BYTES = 2048
"""Of a core, for the frame of the function and those of interrupt handlers."""

_STACK_STRIDES: Mapping[Placement, int] = {"padded": STACK_BYTES + STACK_ALIGNMENT, "aligned": STACK_BYTES}
"""Bytes from one core's stack to the next one's."""

_MASK = 0xFFFF_FFFF


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelRun:
    """A kernel function with a layer to call it for.

    Parameters
    ----------
    name : str
        Of the function.
    layer : Layer
        What it computes.
    precision : Precision
        Widths of inputs, weights and results.
    variant : Level
        How; a :class:`~xpulpnn_sw.kernels.variants.Variant` if it is a MatMul.
    specialised : bool
        Whether the function is for this layer only.
    function : Program
        ``void (const ARGUMENTS *arguments, unsigned core, unsigned cores)`` by the ilp32 calling convention. It is
        reentrant and may be interrupted at any time; ``gp`` and ``tp`` are never touched and ``sp`` always points
        below everything in use. Hardware loops and the NN-RF are not kept for the caller, and a handler must keep
        them. Entry is its first instruction.
    structure : Structure
        Its argument structure.
    arguments : mapping of str to int
        The values of the fields for the layer; those that are no addresses are constants of a specialised function.
    image : Image
        Initial data memory: operands, ``arguments``, a ``stack`` per core.
    output : OutputLayout
        Where the results are afterwards.
    placement : "padded" or "aligned"
        Of the weight streams, and of what each core has for itself.
    """

    name: str
    layer: Layer
    precision: Precision
    variant: Level
    specialised: bool
    function: Program
    structure: Structure
    arguments: Mapping[str, int]
    image: Image
    output: OutputLayout
    placement: Placement

    @property
    def stack_stride(self) -> int:
        """Bytes from one core's stack to the next one's."""
        return _STACK_STRIDES[self.placement]

    def stack_top(self, core: int = 0) -> int:
        """Stack pointer of the caller on a core."""
        top = self.image.symbols["stack"].address + STACK_BYTES + core * self.stack_stride
        return top & -STACK_ALIGNMENT


@dataclass(frozen=True, slots=True)
class Blocking:
    """Sizes of the loops around the MatMul block.

    Parameters
    ----------
    variant : Variant
        Size of a block.
    precision : Precision
        Of the layer.
    """

    variant: Variant
    precision: Precision

    @property
    def channel_step(self) -> int:
        """Output channels between two byte boundaries of the output, at least one block."""
        return max(self.variant.nch, BYTE_BITS // self.precision.y)

    @property
    def step_bytes(self) -> int:
        """Output bytes of a pixel and channel step."""
        return self.channel_step * self.precision.y // BYTE_BITS

    @property
    def store_bytes(self) -> int:
        """Output bytes of a pixel written at a time."""
        return max(self.precision.y, BYTE_BITS) // BYTE_BITS


def place_operands(
    memory: ImageBuilder,
    blocking: Blocking,
    layer: ProductLayer,
    tensors: LayerTensors,
    rows: Words,
    placement: Placement,
) -> dict[str, int]:
    """Lay out weights, parameters and output; returns the arguments that say where and how.

    ``rows`` are the packed filter rows. Row ``block * nch + channel`` belongs to stream ``channel % streams``, where
    the rows of a block, if there are several, alternate word by word, and the blocks follow each other. There are
    words to spare at the end for those fetched ahead. ``placement`` is that of the streams.
    """
    nch, npx, count = blocking.variant.nch, blocking.variant.npx, blocking.variant.weight_streams
    channels = -(-layer.out_channels // blocking.channel_step) * blocking.channel_step
    blocks = pad_axis(rows, 0, channels).reshape(channels // nch, nch // count, count, -1)
    streams = blocks.transpose(2, 0, 3, 1).reshape(count, -1)
    stream_words = banked_words(streams.shape[1], placement)
    # padded like an input of as many channels
    pixel_bytes = padded_channels(layer.out_channels, blocking.precision.w) * blocking.precision.y // BYTE_BITS
    requantisation = tensors.requantisation
    return {
        "weights": memory.place("weights", pack_words(pad_axis(streams, 1, stream_words), WORD_BITS), spare=nch),
        "parameters": memory.place("parameters", _parameters(tensors, layer.out_channels, channels, nch)),
        "output": memory.reserve("output", -(-layer.pixels // npx) * npx * pixel_bytes),
        "out_channels": layer.out_channels,
        "out_stride": pixel_bytes,
        "weight_stride": stream_words * WORD,
        "shift": 0 if requantisation is None else requantisation.shift,
    }


def _parameters(tensors: LayerTensors, out_channels: int, channels: int, nch: int) -> Words:
    """Per block the biases of its channels, then, unless the results are accumulators, lambda and kappa of each."""
    bias = np.zeros(out_channels, np.int64) if tensors.bias is None else tensors.bias
    fields: list[Ints] = [_per_block(bias, channels, nch)]
    if tensors.requantisation is not None:
        lam = _per_block(tensors.requantisation.lam, channels, nch)
        kappa = _per_block(tensors.requantisation.kappa, channels, nch)
        fields.append(np.stack([lam, kappa], axis=-1).reshape(channels // nch, -1))
    return (np.concatenate(fields, axis=1).astype(np.int64) & _MASK).astype(np.uint32)


def _per_block(values: Ints, channels: int, nch: int) -> Ints:
    return pad_axis(values, 0, channels).reshape(-1, nch)


class KernelCode:
    """Writes the function: pixel groups, channel steps, blocks.

    Parameters
    ----------
    blocking : Blocking
        Block and step sizes.
    structure : Structure
        Of the arguments.
    known : mapping of str to int
        Arguments that are constants.
    im2col : Im2col, optional
        How the activation rows of a group are filled; without it they lie ready.
    """

    def __init__(
        self, blocking: Blocking, structure: Structure, known: Mapping[str, int], im2col: Im2col | None
    ) -> None:
        """Assign the registers."""
        variant, precision = blocking.variant, blocking.precision
        self._blocking, self._im2col = blocking, im2col
        self._b = b = Builder(TEXT_BASE, xpulp=variant.xpulp)
        registers = Registers()
        self._inner = inner = inner_loop(variant, precision.w, registers)
        needed = TEMPORARIES + (0 if variant.xpulp else 2)
        self._temporaries = inner.temporaries + registers.take(max(0, needed - len(inner.temporaries)))
        self._parameters = registers.one()
        # one output pointer that walks through the pixels saves registers where there are many
        self._walks = variant.npx > len(("out_stride", "out_back"))
        self._out = registers.take(1 if self._walks else variant.npx)
        steps = registers.take(2) if self._walks else []
        self._step = ZERO if variant.xpulp else registers.one()
        partial = registers.take(variant.npx) if blocking.channel_step > variant.nch else []
        homes = {f"out{pixel}": register for pixel, register in enumerate(self._out)}
        homes |= dict(zip(("out_stride", "out_back"), steps, strict=False))
        if isinstance(inner, ScalarLoop):
            homes["row_end"] = inner.end
        self._scratch = [register for accumulators in inner.acc for register in accumulators]
        self._scratch += [*inner.weights, *inner.activations, *self._temporaries, self._parameters]
        missing = 0 if im2col is None else max(0, im2col.registers - len(self._scratch))
        self._scratch += registers.take(missing)
        spare = registers.rest()
        if spare and variant.xpulp and inner.length > MAX_SHORT_BODY:
            homes["iterations"] = spare.pop(0)
        wanted = ["iterations", "shift", "group"] if variant.xpulp else ["shift", "group"]
        wanted += [] if im2col is None else WANTED
        names = [field.name for field in structure.fields]
        self._frame = Frame(b, names, known, self._terms(), homes, wanted, spare)
        self._scratch += spare
        self._store = Store(
            bits=precision.y,
            requantised=precision.requantised,
            xpulp=variant.xpulp,
            acc=inner.acc,
            out=self._out,
            steps=[*steps[:1] * (variant.npx - 1), *steps[1:]],
            parameters=self._parameters,
            temporaries=self._temporaries,
            skipped=variant.nch * WORD,
            partial=partial,
        )

    def _terms(self) -> dict[str, Term]:
        """All numbers of the kernel, from its arguments."""
        blocking, variant, inner = self._blocking, self._blocking.variant, self._inner
        npx = variant.npx
        if self._im2col is None:
            pixels, row_words = Argument("pixels"), Argument("row_words")
            rows = Argument("input") + Name("first_pixel") * Argument("row_stride")
        else:
            pixels = Argument("out_height") * Argument("out_width")
            row_words = Argument("kernel_height") * Argument("kernel_width") * (Argument("pixel_bytes") // WORD)
            rows = Argument("buffer") + Argument("core") * Argument("buffer_stride")
        out_stride, steps = Argument("out_stride"), Name("steps")
        terms: dict[str, Term] = {
            "groups": (pixels + (npx - 1)) // npx,
            **(pieces() if self._im2col is None else turns()),
            "first_pixel": Name("first_group") * npx,
            "row_words": row_words,
            "row0": rows,
        }
        if variant.xpulp:
            terms["iterations"] = Name("row_words")
        else:
            terms["row_end"] = Name("row0") + Name("row_words") * (inner.expansion * WORD)
        for pixel in range(1, len(inner.activations)):
            terms[f"row{pixel}"] = Name(f"row{pixel - 1}") + Argument("row_stride")
        if self._im2col is None:
            terms["group_bytes"] = Argument("row_stride") * npx
        for lane in sorted(set(inner.lanes)):
            terms[f"weights{lane}"] = Argument("weights") + Argument("weight_stride") * lane
        for pixel in range(len(self._out)):
            terms[f"out{pixel}"] = Argument("output") + (Name("first_pixel") + pixel) * out_stride
        terms |= {
            "parameters": Argument("parameters"),
            "shift": Argument("shift"),
            "steps": (Argument("out_channels") + (blocking.channel_step - 1)) // blocking.channel_step,
            "out_gap": out_stride * npx - steps * blocking.step_bytes,
        }
        if self._walks or self._im2col is not None:
            terms["out_stride"] = out_stride
        if self._walks:
            terms["out_back"] = Number(blocking.store_bytes) - out_stride * (npx - 1)
        return terms | ({} if self._im2col is None else self._im2col.terms())

    def write(self) -> Program:
        """The whole function."""
        b, frame, inner = self._b, self._frame, self._inner
        frame.begin()
        group, end, start = frame.register("group", self._temporaries[0]), Label(), Label()
        b.far_branch("beq", group, ZERO, end)
        b.place(start)
        if self._im2col is not None:
            self._im2col.emit(b, frame, self._scratch)
        with b.region("matmul"):
            for register, lane in zip(inner.weights, inner.lanes, strict=True):
                frame.load(f"weights{lane}", register)
            frame.load("parameters", self._parameters)
            for operation in inner.group_prefetch:
                b(*operation)
            self._channels()
            if self._im2col is None:
                self._next_rows()
        temporary, other, counter = self._temporaries[:3]
        # here, so that nothing waits for it
        group = frame.register("group", counter)
        with b.region("quant"):
            gap = frame.value("out_gap", temporary)
            for register in self._out:
                b.add(register, gap, other)
        b("addi", group, group, -1)
        frame.store("group", group)
        b.far_branch("bne", group, ZERO, start)
        if self._im2col is not None:
            take_next(b, frame, self._blocking.variant.npx, self._out, start, self._scratch)
        b.place(end)
        frame.end()
        return b.finish()

    def _channels(self) -> None:
        blocking, b = self._blocking, self._b
        # the counter of a hardware loop is free after its set-up, that of a branching loop is not
        counter = self._temporaries[0] if blocking.variant.xpulp else self._step
        with b.loop(self._frame.value("steps", counter), counter, level=1):
            for first in range(0, blocking.channel_step, blocking.variant.nch):
                self._block()
                with b.region("quant"):
                    is_needed = blocking.precision.requantised
                    shift = self._frame.value("shift", self._temporaries[-1]) if is_needed else 0
                    self._store.emit(b, first, shift)

    def _block(self) -> None:
        inner, frame, b = self._inner, self._frame, self._b
        first, *others = inner.acc
        count = frame.value("iterations", self._temporaries[0]) if b.xpulp else 0
        for number, accumulator in enumerate(first):
            if self._blocking.variant.xpulp:
                b("p.lw", accumulator, WORD, self._parameters)
            else:
                b("lw", accumulator, number * WORD, self._parameters)
            if number == 0:
                # here, so that nothing waits for them, nor for the biases
                for pixel, register in enumerate(inner.activations):
                    frame.load(f"row{pixel}", register)
        for operation in inner.block_prefetch:
            b(*operation)
        for accumulators in others:
            for source, accumulator in zip(first, accumulators, strict=True):
                b.mv(accumulator, source)
        inner.emit(b, count)

    def _next_rows(self) -> None:
        """The rows of the next group."""
        frame, (distance, temporary, *_) = self._frame, self._temporaries
        moved = frame.value("group_bytes", distance)
        names = [f"row{pixel}" for pixel in range(len(self._inner.activations))]
        for name in names if self._blocking.variant.xpulp else [*names, "row_end"]:
            register = frame.register(name, temporary)
            self._b.add(register, moved, self._inner.acc[0][0])
            frame.store(name, register)


def kernel_run(
    layer: ProductLayer,
    blocking: Blocking,
    structure: Structure,
    memory: ImageBuilder,
    arguments: Mapping[str, int],
    *,
    im2col: Im2col | None = None,
    cores: int,
    specialise: bool,
    placement: Placement,
) -> KernelRun:
    """The function for operands laid out in ``memory``, which takes the argument structure and stacks besides."""
    variant, precision = blocking.variant, blocking.precision
    memory.place("arguments", np.array([arguments[field.name] for field in structure.fields], dtype=np.uint32))
    memory.reserve("stack", cores * _STACK_STRIDES[placement])
    known = {field.name: arguments[field.name] for field in structure.fields if not field.pointer and specialise}
    name = f"{'conv' if im2col else 'matmul'}_{precision}_{variant.name}"
    return KernelRun(
        name=f"{name}_{re.sub('[^0-9a-z]', '_', str(layer))}" if specialise else name,
        layer=layer,
        precision=precision,
        variant=variant,
        specialised=specialise,
        function=KernelCode(blocking, structure, known, im2col).write(),
        structure=structure,
        arguments=arguments,
        image=memory.finish(),
        output=OutputLayout(
            symbol="output",
            bits=precision.y,
            shape=(*layer.out_shape, layer.out_channels),
            pixel_bytes=arguments["out_stride"],
        ),
        placement=placement,
    )
