"""Which packing computes a matrix product soonest, and how its row of packed words is cut into chunks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS
from xpulpnn_sw.layer import MatmulLayer
from xpulpnn_sw.ulppack.methods import Method, methods
from xpulpnn_sw.ulppack.packing import Packing, Scheme, legal_depths

_BLOCK_CYCLES = 8
"""Loops and pointers around a block, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a matrix product is computed.

    Parameters
    ----------
    layer : MatmulLayer
        What.
    method : Method
        With which instructions.
    packing : Packing
        From which operands.
    iterations : int
        Products accumulated before the result is taken out, at most; at least 1 and legal.
    """

    layer: MatmulLayer
    method: Method
    packing: Packing
    iterations: int

    def __post_init__(self) -> None:
        """Reject what overflows, raising :class:`LayerError`."""
        if not 1 <= self.iterations <= self.packing.iterations:
            raise LayerError(
                f"iter of {self.packing.name} at depth {self.packing.depth} must be 1..{self.packing.iterations}, "
                f"not {self.iterations}"
            )

    @property
    def words(self) -> int:
        """Packed words of a row."""
        return self.packing.words(self.layer.reduction)

    @property
    def chunks(self) -> int:
        """Times a result is taken out."""
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
    def is_lane(self) -> bool:
        """Whether the result's field is a byte or half-word, which one dot product with 0 and 1 adds to a sum."""
        packing = self.packing
        aligned = packing.pitch in (BYTE_BITS, 2 * BYTE_BITS) and packing.position % packing.pitch == 0
        return self.method.xpulp and aligned

    @property
    def is_top(self) -> bool:
        """Whether nothing stands above the result's field."""
        return self.packing.position + self.packing.pitch == WORD_BITS

    @property
    def cycles(self) -> int:
        """Estimated cycles, packing of the activations left out."""
        method, size = self.method, self.method.block_size
        multiply = self.words * method.word_cycles - (0 if method.accumulating else self.chunks * size)
        take_out = size * (1 + (self.chunks - 1) * (1 if self.is_lane else 2))
        # pointers are moved and branches taken once a chunk
        loops = 0 if method.xpulp else self.chunks * (method.npx + 1 + _LOOP_CYCLES)
        blocks = -(-self.layer.out_channels // method.nch) * -(-self.layer.pixels // method.npx)
        return blocks * (multiply + take_out + loops + size + _BLOCK_CYCLES)


_LOOP_CYCLES = 4
"""A counter and a taken branch."""


def plans(
    layer: MatmulLayer,
    w: int,
    a: int,
    candidates: Iterable[Method],
    *,
    scheme: str | None = None,
    depth: int | None = None,
    iterations: int | None = None,
) -> Iterator[Plan]:
    """Every legal scheme and depth, each with as many iterations as it can.

    Parameters
    ----------
    layer : MatmulLayer
        What is computed.
    w, a : int
        Bits of a weight and of an activation.
    candidates : iterable of Method
        What may multiply.
    scheme : str or None
        Only this: ``P1``, ``P2``, or with the register, such as ``P2-16``.
    depth, iterations : int or None
        Only this depth; only so many iterations, for those that can.
    """
    for method in candidates:
        for one in method.schemes:
            if scheme not in (None, one.value, f"{one.value}-{method.register}"):
                continue
            for d in legal_depths(one, method.register, w, a, method.lanes):
                if depth not in (None, d):
                    continue
                packing = Packing(
                    scheme=one, register=method.register, depth=d, w=w, a=a, lanes=method.lanes
                )
                if iterations is None or iterations <= packing.iterations:
                    yield Plan(
                        layer=layer,
                        method=method,
                        packing=packing,
                        iterations=packing.iterations if iterations is None else iterations,
                    )


def best_plan(
    layer: MatmulLayer, w: int, a: int, candidates: Iterable[Method], *, scheme: str | None = None
) -> Plan | None:
    """The plan estimated to take the fewest cycles, the smaller depth first; None if nothing is legal."""
    return min(plans(layer, w, a, candidates, scheme=scheme), key=lambda plan: plan.cycles, default=None)
