"""Several narrow operands in one wide one, so that one multiplication gives their dot product: the arithmetic.

Element ``i`` of the activations stands at bit ``i * pitch``, that of the weights at ``(depth - 1 - i) * pitch``.
All products of the same ``i`` then meet at bit ``(depth - 1) * pitch`` of the product, in a field ``pitch`` bits wide;
the fields below hold fewer products and so never reach it. Operands are unsigned.

Activations come as bytes, four to a word of memory. Where it saves instructions an operand takes its elements from the
same byte of several words (:attr:`Packing.columns`), for then one instruction moves the elements of two or four
operands; weights, packed beforehand, have the same order.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sw.kernels.layout import Ints, Words, pad_axis
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS

_WIDEST = 8  # most bits of an element
_HALF_BITS = 16


class Scheme(Enum):
    """Places of the elements in a register."""

    BYTES = "bytes"
    """Not at all: an element in a byte, what packing is compared with."""
    P1 = "P1"
    """Equal intervals; the low half of the product holds the result."""
    P2 = "P2"
    """The last element at the very top, wider intervals below; needs the product in full."""


def largest(bits: int) -> int:
    """The largest unsigned number of so many bits."""
    return (1 << bits) - 1


def pitch(scheme: Scheme, register: int, depth: int, w: int, a: int) -> int:
    """Bits from one element to the next of ``depth`` >= 2 in a ``register`` of so many bits."""
    if scheme is Scheme.BYTES:
        return register
    if scheme is Scheme.P1:
        return register // depth
    return max(register - max(w, a), 0) // (depth - 1)


def most_iterations(scheme: Scheme, register: int, depth: int, w: int, a: int) -> int:
    """Products that may be added up before the field overflows; 0 if one is already too much."""
    field = WORD_BITS if scheme is Scheme.BYTES else pitch(scheme, register, depth, w, a)
    return largest(field) // (depth * largest(w) * largest(a))


def legal_depths(scheme: Scheme, register: int, w: int, a: int, lanes: int = 1) -> tuple[int, ...]:
    """Depths from 2 on (of bytes: 1) at which the sum of ``lanes`` products does not overflow, ascending."""
    depths = range(1, 2) if scheme is Scheme.BYTES else range(2, register + 1)
    return tuple(d for d in depths if most_iterations(scheme, register, d, w, a) >= lanes)


def most_depth(scheme: Scheme, register: int, w: int, a: int, lanes: int = 1) -> int:
    """The largest legal depth; 1 where there is none."""
    return max(legal_depths(scheme, register, w, a, lanes), default=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """A way to pack, checked to be legal."""

    scheme: Scheme  # where the elements stand
    register: int  # bits of a packed operand: 32, 16 or 8
    depth: int
    w: int  # bits of a weight, 1..8
    a: int  # bits of an activation, 1..8
    lanes: int = 1  # packed operands in a word, whose products one instruction adds up

    def __post_init__(self) -> None:
        for name, bits in (("weights", self.w), ("activations", self.a)):
            if not 1 <= bits <= _WIDEST:
                raise LayerError(f"{name} must be 1..{_WIDEST} bits, not {bits}")
        legal = legal_depths(self.scheme, self.register, self.w, self.a, self.lanes)
        if self.depth not in legal:
            shown = ", ".join(map(str, legal)) or "left out: nothing fits"
            lanes = f" in {self.lanes} lanes" if self.lanes > 1 else ""
            raise LayerError(f"depth of {self.name}{lanes} at W{self.w}A{self.a} must be {shown}, not {self.depth}")

    @property
    def name(self) -> str:
        """Scheme and register, such as ``P1-32``, or ``bytes``."""
        if self.scheme is Scheme.BYTES:
            return self.scheme.value
        return f"{self.scheme.value}-{self.register}"

    @property
    def pitch(self) -> int:
        """Bits from one element to the next, and of the result's field."""
        return pitch(self.scheme, self.register, self.depth, self.w, self.a)

    @property
    def iterations(self) -> int:
        """Multiplying instructions that may be accumulated before the result is taken out."""
        return most_iterations(self.scheme, self.register, self.depth, self.w, self.a) // self.lanes

    @property
    def raised(self) -> int:
        """Bits by which weights are shifted up, so that the field ends with the word and nothing stands above it."""
        return WORD_BITS - self.depth * self.pitch if self.register == WORD_BITS else 0

    @property
    def position(self) -> int:
        """Lowest bit of the result's field in the sum of products."""
        return (self.depth - 1) * self.pitch + self.raised

    @property
    def elements(self) -> int:
        """Elements in a word (in an operand narrower than a word if that is loaded by itself)."""
        return self.depth * self.lanes

    @property
    def is_bytes(self) -> bool:
        """Tell whether packed activations are the bytes they came from."""
        return self.pitch == _WIDEST and self.elements * _WIDEST == self.register * self.lanes

    @property
    def columns(self) -> int:
        """Words of memory that elements of an operand come from, a byte of each; 0 if elements follow one another.

        Operands of 32 bits take two bytes of each word, so their depth is even.
        """
        if self.is_bytes or (self.register, self.lanes, self.depth) == (_HALF_BITS, 2, 2):
            # half-words of two bytes each need no mask
            return 0
        if self.register < WORD_BITS:
            return self.depth
        columns, odd = divmod(self.depth, 2)
        fits = (columns - 1) * self.pitch + self.a <= _HALF_BITS
        return 0 if odd or not fits else columns

    @property
    def order(self) -> Ints:
        """Elements of the shortest row of whole words, ``[operand][i]``."""
        if not self.columns:
            return np.arange(self.elements).reshape(-1, self.depth)
        memory = np.arange(self.columns * WORD_BYTES).reshape(self.columns, WORD_BYTES)
        if self.register == BYTE_BITS:
            return memory.T
        # bytes 0 and 2 are the halves of one word, bytes 1 and 3 those of another
        halves = [memory[:, [parity, parity + 2]] for parity in range(2)]
        if self.register == WORD_BITS:
            return np.stack([half.T.reshape(-1) for half in halves])
        return np.concatenate([half.T for half in halves])

    def words(self, reduction: int) -> int:
        """Packed words (or narrower operands) of a row of ``reduction`` elements."""
        group = self.order.size
        return -(-reduction // group) * (group // self.elements)

    def pack_weights(self, rows: Ints) -> Words:
        """Rows ``[row][k]`` of weights as ``[row][word]``, filled up with zeros."""
        shifts = (self.depth - 1 - np.arange(self.depth)) * self.pitch + self.raised
        return self._packed(rows, shifts)

    def pack_activations(self, rows: Ints) -> Words:
        """Rows ``[row][k]`` of activations as ``[row][word]``, filled up with zeros."""
        return self._packed(rows, np.arange(self.depth) * self.pitch)

    def _packed(self, rows: Ints, shifts: Ints) -> Words:
        words = self.words(rows.shape[1])
        order = self.order
        padded = pad_axis(rows, 1, words * self.elements).astype(np.int64)
        grouped = padded.reshape(-1, order.size)[:, order].reshape(-1, words, self.lanes, self.depth)
        operands = (grouped << shifts).sum(axis=3) & largest(self.register)
        return (operands << np.arange(self.lanes) * self.register).sum(axis=2).astype(np.uint32)


ISAS = ("rv32im", "xpulpv2")  # instruction sets, the poorer first


@dataclass(frozen=True, slots=True)
class ResultBlock:
    """Results computed together."""

    nch: int  # channels, a power of two
    npx: int  # pixels, a power of two

    @property
    def size(self) -> int:
        """Results."""
        return self.nch * self.npx

    def __str__(self) -> str:
        return f"{self.nch}x{self.npx}"


@dataclass(frozen=True, slots=True)
class Method:
    """A way to multiply."""

    isa: str
    register: int  # bits of a packed operand
    lanes: int  # packed operands that one instruction multiplies and adds up
    first: str  # instruction that sets an accumulator to a product
    accumulating: str | None  # instruction that adds a product to an accumulator; None if that takes an addition
    load: str  # what loads the operands of one product
    blocks: tuple[ResultBlock, ...]
    schemes: tuple[Scheme, ...]  # those of which the product holds the result

    @property
    def product(self) -> str:
        """The instruction that stands for the method."""
        return self.accumulating or self.first

    @property
    def xpulp(self) -> bool:
        """Tell whether XpulpV2 is used: hardware loops, post-increment, bit fields."""
        return self.isa != ISAS[0]

    @property
    def extensions(self) -> frozenset[Extension]:
        """Extensions that the core needs besides the base set."""
        return frozenset({Extension.XPULPV2}) if self.xpulp else frozenset()

    @property
    def operand_bytes(self) -> int:
        """Bytes that one load moves."""
        return self.register * self.lanes // BYTE_BITS


_BOTH = (Scheme.P1, Scheme.P2)
_SCALAR, _SIMD = (ResultBlock(2, 2), ResultBlock(4, 2)), (ResultBlock(4, 2), ResultBlock(4, 4))
METHODS: tuple[Method, ...] = (
    Method("rv32im", BYTE_BITS, 1, "mul", None, "lbu", _SCALAR, (Scheme.BYTES,)),
    # P2 needs the upper half of the product: mulhu takes five cycles
    Method("rv32im", WORD_BITS, 1, "mul", None, "lw", _SCALAR, (Scheme.P1,)),
    Method("rv32im", _HALF_BITS, 1, "mul", None, "lhu", _SCALAR, _BOTH),
    Method("xpulpv2", WORD_BITS, 1, "mul", "p.mac", "p.lw", _SIMD, (Scheme.P1,)),
    Method("xpulpv2", _HALF_BITS, 2, "pv.dotup.h", "pv.sdotup.h", "p.lw", _SIMD, _BOTH),
    Method("xpulpv2", BYTE_BITS, 4, "pv.dotup.b", "pv.sdotup.b", "p.lw", _SIMD, (*_BOTH, Scheme.BYTES)),
)
"""All methods; an instruction set has one for each register."""


def methods(isa: str) -> tuple[Method, ...]:
    """The methods of an instruction set; raises :class:`LayerError` for an unknown one."""
    if isa not in ISAS:
        raise LayerError(f"isa must be one of {', '.join(ISAS)}, not {isa}")
    return tuple(method for method in METHODS if method.isa == isa)
