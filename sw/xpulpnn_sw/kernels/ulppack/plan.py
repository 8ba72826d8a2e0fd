"""Choice of the fastest packing for a matrix product, and the code that functions on packed operands have in common.

The common code packs the activations of a core and then loops over its pixel groups; the memory layout is common too.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import BYTE_BITS, TEXT_BASE, XLEN, Cost
from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder
from xpulpnn_sw.kernels.frame import FREE, Frame
from xpulpnn_sw.kernels.kernel import Function, finished_function
from xpulpnn_sw.kernels.layout import ImageBuilder, Ints, OutputLayout, Program, Words, pack_words, pad_axis
from xpulpnn_sw.kernels.terms import Argument, Name, Number, Term, group_shares
from xpulpnn_sw.kernels.ulppack.packing import Method, Packing, ResultBlock, Scheme, legal_depths
from xpulpnn_sw.layers.layer import MatmulLayer


class BlockedProduct:
    """A matrix product computed block by block from packed operands, and the sizes of its rows in memory."""

    in_place = False  # whether packed activations are the bytes they came from

    def __init__(
        self, layer: MatmulLayer, block: ResultBlock, *, source_bytes: int, row_bytes: int, weight_row_bytes: int
    ) -> None:
        self.layer, self.block = layer, block
        self.source_bytes, self.row_bytes, self.weight_row_bytes = source_bytes, row_bytes, weight_row_bytes
        # the last block and the last group of pixels are padded
        self.channels = -(-layer.out_channels // block.nch) * block.nch
        self.groups = -(-layer.pixels // block.npx)
        self.pixels = self.groups * block.npx
        self.out_stride = self.channels * WORD  # bytes between the results of neighbouring pixels


class ProductCode(ABC):
    # fields of the argument structure, all pointers: activations as bytes, packed activations and weights, results
    fields: tuple[str, ...] = ("input", "packed", "weights", "output")
    has_all_rows = False  # whether the frame holds the packed rows of all pixels of a group, not only the first
    is_corrected = False  # whether a word of each pixel corrects its results

    def __init__(self, product: BlockedProduct, out: int, free: list[int], *, xpulp: bool) -> None:
        # registers: pointer to the results of the next block, and two that are free around the blocks
        self._sizes, self._out, self._free = product, out, free[:2]
        self._b = Builder(TEXT_BASE, xpulp=xpulp, is_long=True)
        self._frame = Frame(self._b, self.fields, dict(self._terms()), homes={"out": self._out})

    @abstractmethod
    def _pack(self) -> None:
        pass

    @abstractmethod
    def _blocks(self) -> None:
        pass

    @property
    def _rows_of_group(self) -> list[str]:
        return [f"row{pixel}" for pixel in range(self._sizes.block.npx if self.has_all_rows else 1)]

    def _terms(self) -> Iterator[tuple[str, Term]]:
        sizes, pixel = self._sizes, Name("pixel")
        yield "groups", Number(sizes.groups)
        yield from group_shares().items()
        yield "pixel", Name("first_group") * sizes.block.npx
        yield "source", Argument("input") + pixel * sizes.source_bytes
        yield "row0", Argument("packed") + pixel * sizes.row_bytes
        for before, row in pairwise(self._rows_of_group):
            yield row, Name(before) + sizes.row_bytes
        yield "weights", Argument("weights")
        yield "weights_end", Argument("weights") + sizes.channels * sizes.weight_row_bytes
        if "corrections" in self.fields:
            yield "corrections", Argument("corrections") + pixel * WORD
        yield "out", Argument("output") + pixel * sizes.out_stride

    def write(self) -> Program:
        b, frame, sizes, (temporary, other) = self._b, self._frame, self._sizes, self._free
        with frame.function(), b.skipped("beq", frame.register("group", temporary), ZERO, is_far=True):
            with b.region("im2col"):
                self._pack()
            with frame.repeated("group", temporary):
                with b.region("matmul"):
                    self._blocks()
                for name in self._rows_of_group:
                    frame.advance(name, sizes.block.npx * sizes.row_bytes, temporary, other)
                if self.is_corrected:
                    frame.advance("corrections", sizes.block.npx * WORD, temporary, other)
                b.add(self._out, (sizes.block.npx - 1) * sizes.out_stride, other)
        return b.finish()


def packed_function(
    product: BlockedProduct, code: ProductCode, weights: Words, activations: Ints, cores: int, **known: Any
) -> Function:
    """Return the function of ``code`` with packed ``weights`` and byte ``activations`` [pixel][k] in memory."""
    memory = ImageBuilder()
    source = pad_axis(pad_axis(activations, 0, product.pixels), 1, product.source_bytes)
    addresses = {"input": memory.place("input", pack_words(source, BYTE_BITS))}
    room = product.pixels * product.row_bytes
    addresses["packed"] = addresses["input"] if product.in_place else memory.reserve("packed", room)
    addresses["weights"] = memory.place("weights", weights)
    if "corrections" in code.fields:
        addresses["corrections"] = memory.reserve("corrections", product.pixels * WORD)
    addresses["output"] = memory.reserve("output", product.pixels * product.out_stride)
    layer, shape = product.layer, (product.layer.pixels, product.layer.out_channels)
    output = OutputLayout(symbol="output", bits=XLEN, shape=shape, pixel_bytes=product.out_stride)
    known |= {"function": code.write(), "output": output, "macs": layer.macs}
    return finished_function(memory, code.fields, addresses, cores, **known)


MOST_UNROLLED = 256  # most instructions of a chunk without a loop of its own
SCALAR_WORDS = 8  # words per iteration without hardware loops
_FACTORS = 2  # activation words held at a time
_BRANCH_CYCLES = 1 + Cost.TAKEN_BRANCH.cycles
_BLOCK_CYCLES = 8  # estimated cycles of loops and pointers around a block


class PackedPlan(BlockedProduct):
    """A way to compute a matrix product; up to ``iterations`` products are added before the result is extracted."""

    def __init__(
        self, *, layer: MatmulLayer, method: Method, packing: Packing, iterations: int, block: ResultBlock
    ) -> None:
        if not 1 <= iterations <= packing.iterations:
            raise LayerError(
                f"iter of {packing.name} at depth {packing.depth} must be 1..{packing.iterations}, not {iterations}"
            )
        self.method, self.packing, self.iterations, self.in_place = method, packing, iterations, packing.is_bytes
        xpulp, is_packed = method.xpulp, packing.scheme is not Scheme.BYTES
        # packed words of a row; extractions of a result, one for bytes, whose accumulator is the result
        self.words = packing.words(layer.reduction)
        self.chunks = -(-self.words // iterations) if is_packed else 1
        # words of every chunk but the first, and of the first
        self.chunk = -(-self.words // self.chunks)
        self.first_chunk = self.words - (self.chunks - 1) * self.chunk
        # rows of activations are whole packed words and whole words of memory
        source_bytes = -(-self.words * packing.elements // WORD) * WORD
        packed = self.words * method.operand_bytes
        sizes = {"row_bytes": source_bytes if packing.is_bytes else packed, "weight_row_bytes": packed}
        super().__init__(layer, block, source_bytes=source_bytes, **sizes)
        self.factors = min(block.npx, _FACTORS)  # registers for activation words, loaded alternately
        # cycles to multiply one packed word of each row of a block, without stalls
        self.word_cycles = block.nch + block.npx + block.size * (1 if method.accumulating else 2)
        self.is_unrolled = self.chunk * self.word_cycles <= MOST_UNROLLED  # whether a chunk has no loop of words
        # whether the sums of the chunks are in memory, at the place of the results
        self.sums_in_memory = self.chunks > 1 and block.npx > _FACTORS
        # whether the result's field is a byte or half-word, which one dot product with 0 and 1 adds to a sum, and
        # whether a register holds the 1
        is_aligned = packing.pitch in (BYTE_BITS, 2 * BYTE_BITS) and packing.position % packing.pitch == 0
        self.is_lane = xpulp and is_aligned and is_packed
        self.has_unit = self.is_lane and self.chunks > 1 and not self.sums_in_memory
        # whether registers count words and chunks instead of hardware loops
        self.word_counter = not xpulp and not self.is_unrolled
        self.chunk_counter = not xpulp and self.chunks > _FACTORS

    @property
    def registers(self) -> int:
        block = self.block
        sums = block.size if self.chunks > 1 and not self.sums_in_memory else 0
        product = 0 if self.method.accumulating else 1
        others = product + self.has_unit + self.word_counter + self.chunk_counter
        return block.size + sums + block.nch + self.factors + block.npx + len(("weights", "out")) + others

    @property
    def cycles(self) -> int:
        size, more = self.block.size, self.chunks - 1
        multiply = self.words * self.word_cycles - (0 if self.method.accumulating else self.chunks * size)
        take_out = size * (self.packing.scheme is not Scheme.BYTES)
        again = size * ((1 if self.is_lane else 2) + (2 if self.sums_in_memory else 0))
        chunk = 0 if self.is_unrolled else 2
        if not self.method.xpulp:
            rounds = 0 if self.is_unrolled else (self.chunk - 1) // SCALAR_WORDS
            chunk = (2 + self.block.npx + _BRANCH_CYCLES) * (rounds + (self.chunks > 1))
        blocks = self.channels // self.block.nch * self.groups
        return blocks * (multiply + take_out + more * again + self.chunks * chunk + size + _BLOCK_CYCLES)


def plans(
    layer: MatmulLayer,
    w: int,
    a: int,
    candidates: Iterable[Method],
    *,
    scheme: str | None = None,
    depth: int | None = None,
    iterations: int | None = None,
    block: str | None = None,
) -> Iterator[PackedPlan]:
    """Yield the plans whose block has enough registers, of all schemes, depths and blocks or of the requested ones."""
    for packing, method in _packings(w, a, candidates, scheme):
        if depth not in (None, packing.depth) or (iterations or 1) > packing.iterations:
            continue
        for results in method.blocks:
            plan = partial(PackedPlan, layer=layer, method=method, packing=packing, block=results)
            plans = [plan(iterations=iterations or packing.iterations)]
            if iterations is None and not plans[0].is_unrolled:
                plans.append(plan(iterations=min(packing.iterations, MOST_UNROLLED // plans[0].word_cycles)))
            yield from (plan for plan in plans if block in (None, str(results)) and plan.registers <= len(FREE))


def _packings(w: int, a: int, candidates: Iterable[Method], scheme: str | None) -> Iterator[tuple[Packing, Method]]:
    for method in candidates:
        for form in method.schemes:
            names = (form.value, f"{form.value}-{method.register}")
            if form is Scheme.BYTES if scheme is None else scheme not in names:
                continue
            for depth in legal_depths(form, method.register, w, a, method.lanes):
                packing = Packing(scheme=form, register=method.register, depth=depth, w=w, a=a, lanes=method.lanes)
                yield packing, method


def best_plan(layer: MatmulLayer, w: int, a: int, candidates: Iterable[Method], **requested: Any) -> PackedPlan | None:
    return min(plans(layer, w, a, candidates, **requested), key=lambda plan: plan.cycles, default=None)
