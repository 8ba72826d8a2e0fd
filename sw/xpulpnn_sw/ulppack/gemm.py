"""Matrix products from packed operands: the function, its operands in memory.

A block of ``nch`` weight rows and ``npx`` activation rows is multiplied word by word. After every chunk of words the
field with the result is taken out of each accumulator and added to a sum. The weight rows of a block alternate word by
word, so that one pointer walks through them.
"""

from dataclasses import dataclass

import numpy as np

from xpulpnn.isa.machine import TEXT_BASE
from xpulpnn_sw.kernels.builder import MAX_COUNT_IMMEDIATE, MAX_SHORT_BODY, WORD, ZERO, Builder, Label, fits_immediate
from xpulpnn_sw.kernels.frame import FREE, Argument, Frame, Name, Number, Registers, Term
from xpulpnn_sw.kernels.kernel import STACK_BYTES
from xpulpnn_sw.kernels.program import Program
from xpulpnn_sw.kernels.share import pieces
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS
from xpulpnn_sw.layout import ImageBuilder, Ints, OutputLayout, Words, pack_words, pad_axis
from xpulpnn_sw.ulppack.activations import Rows
from xpulpnn_sw.ulppack.function import Function
from xpulpnn_sw.ulppack.plan import Plan

FIELDS = ("input", "packed", "weights", "corrections", "output")
"""The argument structure, a pointer per word: activations as bytes, room for packed ones and for a word per pixel,
packed weights, results."""

_UNROLLED = 256
"""Most instructions of a chunk without a loop of its own."""

_SCALAR_WORDS = 8
"""Words of an iteration where every loop costs a branch."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes in memory.

    Parameters
    ----------
    plan : Plan
        What is computed and how.
    """

    plan: Plan

    @property
    def channels(self) -> int:
        """Channels, those of the last block filled up."""
        return -(-self.plan.layer.out_channels // self.plan.method.nch) * self.plan.method.nch

    @property
    def groups(self) -> int:
        """Pixel groups, the last one filled up."""
        return -(-self.plan.layer.pixels // self.plan.method.npx)

    @property
    def pixels(self) -> int:
        """Pixels of all groups."""
        return self.groups * self.plan.method.npx

    @property
    def source_bytes(self) -> int:
        """Bytes of a row of activations before packing: whole packed words, and whole words of memory."""
        return -(-self.plan.words * self.plan.packing.elements // WORD) * WORD

    @property
    def row_bytes(self) -> int:
        """Bytes of a packed row of activations."""
        return self.plan.words * self.plan.method.operand_bytes

    @property
    def out_stride(self) -> int:
        """Bytes from the results of one pixel to those of the next."""
        return self.channels * WORD


def gemm(plan: Plan, weights: Ints, activations: Ints, *, signed: bool = False, cores: int = 1) -> Function:
    """The product of ``weights`` [channel][k] and ``activations`` [pixel][k], int32 [pixel][channel].

    The function packs the activations, which lie as bytes, and then multiplies. Where packed activations are bytes
    nothing is packed. Weights are packed beforehand; ``signed`` ones, in two's complement, are stored with an offset
    of half their range, and the function takes the offset times the sum of the activations from each result.
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
    memory.reserve("stack", cores * STACK_BYTES)
    name = f"ulppack_w{packing.w}a{packing.a}_{plan.method.isa}_{packing.name}_{packing.depth}_{plan.iterations}"
    return Function(
        name=name,
        function=_Code(geometry, signed=signed).write(),
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
    blocks = rows.reshape(-1, plan.method.nch, plan.words).swapaxes(1, 2).reshape(1, -1)
    return pack_words(blocks, plan.method.operand_bytes * BYTE_BITS)


class _Code:
    """Writes the function."""

    def __init__(self, geometry: Geometry, *, signed: bool) -> None:
        """Assign the registers."""
        self._geometry, self._plan, self._method = geometry, geometry.plan, geometry.plan.method
        self._signed = signed
        method, plan = self._method, self._plan
        self._b = Builder(TEXT_BASE, xpulp=method.xpulp)
        registers = Registers()
        self._local = [registers.take(method.nch) for _ in range(method.npx)]
        self._sums = self._local if plan.chunks == 1 else [registers.take(method.nch) for _ in range(method.npx)]
        self._w, self._x = registers.take(method.nch), registers.take(method.npx)
        self._weights, self._rows, self._out = registers.one(), registers.take(method.npx), registers.one()
        # for the product, and for the counter of the words
        self._product = [] if method.accumulating else registers.take(2)
        self._unit = registers.one() if plan.is_lane and plan.chunks > 1 else ZERO
        # hardware loops that the chunks leave free are those of the loops around them
        self._levels = list(range(2)) if method.xpulp else []
        self._word_level = self._next_level(not self._is_unrolled)
        self._chunk_level = self._next_level(plan.chunks > 2)
        self._block_level = self._next_level(True)
        spare = registers.rest()
        self._chunk_counter = self._w[0] if self._chunk_level is not None or plan.chunks <= 2 else spare.pop(0)
        self._block_counter = self._w[0] if self._block_level is not None else spare.pop(0)
        self._frame = Frame(self._b, FIELDS, {}, self._terms(), {"out": self._out}, [], [])

    def _next_level(self, is_needed: bool) -> int | None:
        return self._levels.pop(0) if is_needed and self._levels else None

    @property
    def _is_unrolled(self) -> bool:
        return self._plan.chunk * self._method.word_cycles <= _UNROLLED

    def _terms(self) -> dict[str, Term]:
        geometry, npx = self._geometry, self._method.npx
        terms: dict[str, Term] = {"groups": Number(geometry.groups), **pieces()}
        terms |= {
            "pixel": Name("first_group") * npx,
            "source": Argument("input") + Name("pixel") * geometry.source_bytes,
            "row0": Argument("packed") + Name("pixel") * geometry.row_bytes,
        }
        for pixel in range(1, npx):
            terms[f"row{pixel}"] = Name(f"row{pixel - 1}") + geometry.row_bytes
        return terms | {
            "weights": Argument("weights"),
            "corrections": Argument("corrections") + Name("pixel") * WORD,
            "out": Argument("output") + Name("pixel") * geometry.out_stride,
        }

    def write(self) -> Program:
        """The whole function."""
        b, frame, geometry = self._b, self._frame, self._geometry
        temporary, other = self._w[0], self._w[1]
        frame.begin()
        start, end = Label(), Label()
        b.far_branch("beq", frame.register("group", temporary), ZERO, end)
        with b.region("im2col"):
            free = [register for register in FREE if register != self._out]
            self._activations().emit(b, frame, free)
        if self._unit:
            b.li(self._unit, 1 << self._plan.packing.position)
        b.place(start)
        with b.region("matmul"):
            frame.load("weights", self._weights)
            count = geometry.channels // self._method.nch
            with b.loop(count, self._block_counter, level=self._block_level):
                self._block()
        for pixel in range(self._method.npx):
            row = frame.register(f"row{pixel}", temporary)
            b.add(row, self._method.npx * geometry.row_bytes, other)
            frame.store(f"row{pixel}", row)
        if self._signed:
            corrections = frame.register("corrections", temporary)
            b.add(corrections, self._method.npx * WORD, other)
            frame.store("corrections", corrections)
        b.add(self._out, (self._method.npx - 1) * geometry.out_stride, other)
        group = frame.register("group", temporary)
        b("addi", group, group, -1)
        frame.store("group", group)
        b.far_branch("bne", group, ZERO, start)
        b.place(end)
        frame.end()
        return b.finish()

    def _activations(self) -> Rows:
        return Rows(
            packing=self._plan.packing,
            words=self._plan.words,
            operand_bytes=self._method.operand_bytes,
            source_bytes=self._geometry.source_bytes,
            group=self._method.npx,
            signed=self._signed,
        )

    def _block(self) -> None:
        """All words of a block: a first chunk, the others, the results."""
        plan, b = self._plan, self._b
        for pixel, row in enumerate(self._rows):
            self._frame.load(f"row{pixel}", row)
        self._chunk(plan.first_chunk)
        self._take_out(is_first=True)
        if plan.chunks > 1:
            with b.loop(plan.chunks - 1, self._chunk_counter, level=self._chunk_level):
                self._chunk(plan.chunk)
                self._take_out(is_first=False)
        with b.region("quant"):
            self._store()

    # -- products

    def _chunk(self, words: int) -> None:
        """Set the accumulators to the products of so many words."""
        if not self._method.xpulp:
            self._scalar_chunk(words)
        elif self._is_unrolled:
            for word in range(words):
                self._word(is_first=word == 0)
        else:
            self._word(is_first=True)
            if words > 1:
                length = self._method.word_cycles
                short = length <= MAX_SHORT_BODY and words - 1 <= MAX_COUNT_IMMEDIATE
                with self._b.loop(words - 1, self._w[0], level=self._word_level, short=short):
                    self._word(is_first=False)

    def _word(self, *, is_first: bool) -> None:
        b, method = self._b, self._method
        assert method.accumulating is not None
        for register in self._w:
            b(method.load, register, method.operand_bytes, self._weights)
        for register, row in zip(self._x, self._rows, strict=True):
            b(method.load, register, method.operand_bytes, row)
        mnemonic = method.first if is_first else method.accumulating
        for x, accumulators in zip(self._x, self._local, strict=True):
            for w, accumulator in zip(self._w, accumulators, strict=True):
                b(mnemonic, accumulator, w, x)

    def _scalar_chunk(self, words: int) -> None:
        """Some words one after the other, the rest in a loop of :data:`_SCALAR_WORDS`."""
        rounds = 0 if words <= 2 * _SCALAR_WORDS else (words - 1) // _SCALAR_WORDS
        self._scalar_words(words - rounds * _SCALAR_WORDS, is_first=True)
        if rounds:
            counter = self._product[1]
            with self._b.loop(rounds, counter):
                self._scalar_words(_SCALAR_WORDS, is_first=False)

    def _scalar_words(self, words: int, *, is_first: bool) -> None:
        b, method, size = self._b, self._method, self._method.operand_bytes
        for word in range(words):
            for lane, register in enumerate(self._w):
                b(method.load, register, (word * method.nch + lane) * size, self._weights)
            for register, row in zip(self._x, self._rows, strict=True):
                b(method.load, register, word * size, row)
            for x, accumulators in zip(self._x, self._local, strict=True):
                for w, accumulator in zip(self._w, accumulators, strict=True):
                    if is_first and word == 0:
                        b(method.first, accumulator, w, x)
                    else:
                        b(method.first, self._product[0], w, x)
                        b("add", accumulator, accumulator, self._product[0])
        b("addi", self._weights, self._weights, words * method.nch * size)
        for row in self._rows:
            b("addi", row, row, words * size)

    # -- results

    def _take_out(self, *, is_first: bool) -> None:
        """Add the results in the accumulators to the sums; the first time the sums are nothing."""
        b, plan, packing = self._b, self._plan, self._plan.packing
        for accumulators, sums in zip(self._local, self._sums, strict=True):
            for accumulator, total in zip(accumulators, sums, strict=True):
                if plan.is_lane and not is_first:
                    fmt = "b" if packing.pitch == BYTE_BITS else "h"
                    b(f"pv.sdotup.{fmt}", total, accumulator, self._unit)
                    continue
                target = total if is_first else accumulator
                if plan.is_top:
                    b("srli", target, accumulator, packing.position)
                elif self._method.xpulp:
                    b("p.extractui", target, accumulator, packing.pitch - 1, packing.position)
                else:
                    b("slli", target, accumulator, WORD_BITS - packing.position - packing.pitch)
                    b("srli", target, target, WORD_BITS - packing.pitch)
                if not is_first:
                    b("add", total, total, accumulator)

    def _store(self) -> None:
        b, geometry = self._b, self._geometry
        if self._signed:
            pointer, correction = self._w[0], self._x
            self._frame.load("corrections", pointer)
            for pixel, register in enumerate(correction):
                b("lw", register, pixel * WORD, pointer)
            for register, sums in zip(correction, self._sums, strict=True):
                for total in sums:
                    b("add", total, total, register)
        step = self._method.nch * WORD
        for pixel, sums in enumerate(self._sums):
            distance, base = pixel * geometry.out_stride, self._out
            if not fits_immediate(distance + step):
                base = self._w[0]
                b.li(base, distance)
                b("add", base, base, self._out)
                distance = 0
            for channel, total in enumerate(sums):
                b("sw", total, distance + channel * WORD, base)
        b("addi", self._out, self._out, step)
