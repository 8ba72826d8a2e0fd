"""Choice of the fastest packing for a matrix product, and the chunks of its row of packed words."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.frame import FREE
from xpulpnn_sw.kernels.ulppack.packing import Method, Packing, ResultBlock, Scheme, legal_depths
from xpulpnn_sw.kernels.ulppack.product import BlockedProduct
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS
from xpulpnn_sw.layers.convolution import MatmulLayer

MOST_UNROLLED = 256  # most instructions of a chunk without a loop of its own
SCALAR_WORDS = 8  # words of an iteration where every loop costs a branch
_FACTORS = 2  # activation words held at a time
_BRANCH_CYCLES = 3
_BLOCK_CYCLES = 8  # loops and pointers around a block, about


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPlan:
    """A way to compute a matrix product."""

    layer: MatmulLayer
    method: Method  # with which instructions
    packing: Packing  # from which operands
    iterations: int  # products accumulated before the result is taken out, at most; at least 1 and legal
    block: ResultBlock  # results computed together

    def __post_init__(self) -> None:
        if not 1 <= self.iterations <= self.packing.iterations:
            raise LayerError(
                f"iter of {self.packing.name} at depth {self.packing.depth} must be 1..{self.packing.iterations}, "
                f"not {self.iterations}"
            )

    # -- chunks

    @property
    def words(self) -> int:
        """Packed words of a row."""
        return self.packing.words(self.layer.reduction)

    @property
    def chunks(self) -> int:
        """Times a result is taken out; of bytes the accumulator is the result."""
        if self.packing.scheme is Scheme.BYTES:
            return 1
        return -(-self.words // self.iterations)

    @property
    def chunk(self) -> int:
        """Words of every chunk but the first."""
        return -(-self.words // self.chunks)

    @property
    def first_chunk(self) -> int:
        """Words of the first chunk, 1 at least."""
        return self.words - (self.chunks - 1) * self.chunk

    @property
    def sizes(self) -> BlockedProduct:
        """Sizes in memory, where rows of activations are whole packed words and whole words of memory."""
        source_bytes = -(-self.words * self.packing.elements // WORD) * WORD
        packed = self.words * self.method.operand_bytes
        return BlockedProduct(
            layer=self.layer,
            block=self.block,
            source_bytes=source_bytes,
            row_bytes=source_bytes if self.packing.is_bytes else packed,
            weight_row_bytes=packed,
            in_place=self.packing.is_bytes,
        )

    # -- schedule

    @property
    def factors(self) -> int:
        """Registers for activation words; they are loaded by turns."""
        return min(self.block.npx, _FACTORS)

    @property
    def word_cycles(self) -> int:
        """Cycles to multiply one packed word of each row of a block; none of the instructions waits."""
        block = self.block
        return block.nch + block.npx + block.size * (1 if self.method.accumulating else 2)

    @property
    def is_unrolled(self) -> bool:
        """Tell whether the words of a chunk have no loop."""
        return self.chunk * self.word_cycles <= MOST_UNROLLED

    @property
    def unrolled(self) -> "PackedPlan":
        """The same with as many iterations as need no loop."""
        return replace(self, iterations=min(self.iterations, MOST_UNROLLED // self.word_cycles))

    @property
    def sums_in_memory(self) -> bool:
        """Tell whether the sums of the chunks wait in memory, as the results will."""
        return self.chunks > 1 and self.block.npx > _FACTORS

    @property
    def is_lane(self) -> bool:
        """Tell whether the result's field is a byte or half-word, which one dot product with 0 and 1 adds to a sum."""
        packing = self.packing
        aligned = packing.pitch in (BYTE_BITS, 2 * BYTE_BITS) and packing.position % packing.pitch == 0
        return self.method.xpulp and aligned and packing.scheme is not Scheme.BYTES

    @property
    def is_top(self) -> bool:
        """Tell whether nothing stands above the result's field."""
        return self.packing.position + self.packing.pitch == WORD_BITS

    @property
    def has_unit(self) -> bool:
        """Tell whether a register holds the 1 of that dot product."""
        return self.is_lane and self.chunks > 1 and not self.sums_in_memory

    @property
    def word_counter(self) -> bool:
        """Tell whether a register counts words; hardware loops count by themselves."""
        return not self.method.xpulp and not self.is_unrolled

    @property
    def chunk_counter(self) -> bool:
        """Tell whether a register counts chunks."""
        return not self.method.xpulp and self.chunks > _FACTORS

    @property
    def registers(self) -> int:
        """Registers of the loops: accumulators, sums, operands, pointers, product, unit, counters."""
        block = self.block
        sums = block.size if self.chunks > 1 and not self.sums_in_memory else 0
        product = 0 if self.method.accumulating else 1
        others = product + self.has_unit + self.word_counter + self.chunk_counter
        return block.size + sums + block.nch + self.factors + block.npx + len(("weights", "out")) + others

    @property
    def cycles(self) -> int:
        """Estimated cycles, packing of the activations left out."""
        size, more = self.block.size, self.chunks - 1
        multiply = self.words * self.word_cycles - (0 if self.method.accumulating else self.chunks * size)
        take_out = size * (self.packing.scheme is not Scheme.BYTES)
        again = size * ((1 if self.is_lane else 2) + (2 if self.sums_in_memory else 0))
        loops = self.chunks * self._chunk_cycles
        blocks = self.sizes.channels // self.block.nch * self.sizes.groups
        return blocks * (multiply + take_out + more * again + loops + size + _BLOCK_CYCLES)

    @property
    def _chunk_cycles(self) -> int:
        """Set-up of a loop of words; pointers, counters and taken branches where there are no hardware loops."""
        if self.method.xpulp:
            return 0 if self.is_unrolled else 2
        pointers = 1 + self.block.npx
        rounds = 0 if self.is_unrolled else (self.chunk - 1) // SCALAR_WORDS
        return (pointers + 1 + _BRANCH_CYCLES) * (rounds + (self.chunks > 1))


class Wishes(TypedDict, total=False):
    """Properties of a plan that a caller asks for; all others are free."""

    scheme: str | None  # with or without the bits of the register
    depth: int | None
    iterations: int | None
    block: str | None


def plans(
    layer: MatmulLayer, w: int, a: int, candidates: Iterable[Method], **wishes: Unpack[Wishes]
) -> Iterator[PackedPlan]:
    """Every legal scheme and depth in every block with enough registers.

    Each comes with as many iterations as it can do, and with as many as need no loop of their own if those are fewer.
    """
    scheme, iterations = wishes.get("scheme"), wishes.get("iterations")
    for packing, method in _packings(w, a, candidates, scheme):
        if wishes.get("depth") not in (None, packing.depth) or (iterations or 1) > packing.iterations:
            continue
        for block in method.blocks:
            most = PackedPlan(
                layer=layer,
                method=method,
                packing=packing,
                iterations=packing.iterations if iterations is None else iterations,
                block=block,
            )
            some = most if iterations is not None or most.is_unrolled else most.unrolled
            for plan in dict.fromkeys((most, some)):
                if wishes.get("block") in (None, str(block)) and plan.registers <= len(FREE):
                    yield plan


def _packings(w: int, a: int, candidates: Iterable[Method], scheme: str | None) -> Iterator[tuple[Packing, Method]]:
    for method in candidates:
        for one in method.schemes:
            names = (one.value, f"{one.value}-{method.register}")
            if one is Scheme.BYTES if scheme is None else scheme not in names:
                continue
            for depth in legal_depths(one, method.register, w, a, method.lanes):
                yield (
                    Packing(scheme=one, register=method.register, depth=depth, w=w, a=a, lanes=method.lanes),
                    method,
                )


def best_plan(
    layer: MatmulLayer, w: int, a: int, candidates: Iterable[Method], **wishes: Unpack[Wishes]
) -> PackedPlan | None:
    """The plan estimated to take the fewest cycles; None if nothing is legal."""
    return min(plans(layer, w, a, candidates, **wishes), key=lambda plan: plan.cycles, default=None)
