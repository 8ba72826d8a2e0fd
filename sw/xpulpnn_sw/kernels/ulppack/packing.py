"""Arithmetic of several narrow operands packed into a wide one, so that a multiplication gives their dot product.

Element ``i`` of the activations is at bit ``i * pitch``, element ``i`` of the weights at ``(depth - 1 - i) * pitch``.
All products of the same ``i`` then add up at bit ``(depth - 1) * pitch`` of the product, in a field ``pitch`` bits
wide; the fields below hold fewer products and never overflow into it. Operands are unsigned.

Activations are bytes, four to a word of memory. Where it saves instructions, an operand takes its elements from the
same byte of several words (:attr:`Packing.columns`), as one instruction then moves the elements of two or four
operands; packed weights have the same order.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from xpulpnn.errors import LayerError, require
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import BYTE_BITS, HALF_BITS, WORD_BYTES, XLEN
from xpulpnn_sw.kernels.layout import Ints, Words, pad_axis

_WIDEST = 8  # most bits of an element


class Scheme(Enum):
    BYTES = "bytes"  # no packing: each element has a byte; for comparison
    P1 = "P1"  # elements at equal intervals; the lower half of the product contains the result
    P2 = "P2"  # elements at wider intervals, the last at the top; the result needs the whole product


def largest(bits: int) -> int:
    return (1 << bits) - 1


def pitch(scheme: Scheme, register: int, depth: int, w: int, a: int) -> int:
    """Return the distance in bits between neighbouring elements, ``depth`` >= 2 of which fill ``register`` bits."""
    if scheme is Scheme.BYTES:
        return register
    if scheme is Scheme.P1:
        return register // depth
    return max(register - max(w, a), 0) // (depth - 1)


def most_iterations(scheme: Scheme, register: int, depth: int, w: int, a: int) -> int:
    """Return how many products can be added before the bit field of their sum overflows; 0 if a single one can."""
    field = XLEN if scheme is Scheme.BYTES else pitch(scheme, register, depth, w, a)
    return largest(field) // (depth * largest(w) * largest(a))


def legal_depths(scheme: Scheme, register: int, w: int, a: int, lanes: int = 1) -> tuple[int, ...]:
    depths = range(1, 2) if scheme is Scheme.BYTES else range(2, register + 1)
    return tuple(d for d in depths if most_iterations(scheme, register, d, w, a) >= lanes)


def most_depth(scheme: Scheme, register: int, w: int, a: int, lanes: int = 1) -> int:
    return max(legal_depths(scheme, register, w, a, lanes), default=1)


class Packing:
    """A packing of ``depth`` elements into an operand of ``register`` bits; a word holds ``lanes`` operands."""

    def __init__(self, *, scheme: Scheme, register: int, depth: int, w: int, a: int, lanes: int = 1) -> None:
        self.scheme, self.register, self.depth, self.w, self.a, self.lanes = scheme, register, depth, w, a, lanes
        # scheme and register, such as P1-32, or bytes
        self.name = scheme.value if scheme is Scheme.BYTES else f"{scheme.value}-{register}"
        for name, bits in (("weights", w), ("activations", a)):
            require(1 <= bits <= _WIDEST, f"{name} must be 1..{_WIDEST} bits, not {bits}", LayerError)
        legal = legal_depths(scheme, register, w, a, lanes)
        if depth not in legal:
            shown = ", ".join(map(str, legal)) or "left out: nothing fits"
            many = f" in {lanes} lanes" if lanes > 1 else ""
            raise LayerError(f"depth of {self.name}{many} at W{w}A{a} must be {shown}, not {depth}")
        # bits from one element to the next, and of the result's field
        self.pitch = pitch(scheme, register, depth, w, a)
        # multiplying instructions that may be accumulated before the result is taken out
        self.iterations = most_iterations(scheme, register, depth, w, a) // lanes
        # bits by which weights are shifted up, so that the field ends with the word
        self.raised = XLEN - depth * self.pitch if register == XLEN else 0
        # lowest bit of the result's field in the sum of products
        self.position = (depth - 1) * self.pitch + self.raised
        # elements of a word, or of a narrower operand that is loaded alone
        self.elements = depth * lanes
        # whether packed activations are the bytes they came from
        self.is_bytes = self.pitch == _WIDEST and self.elements * _WIDEST == register * lanes
        # words of memory of which an operand takes one byte each; 0 if its elements are consecutive
        self.columns = depth
        if self.is_bytes or (register, lanes, depth) == (HALF_BITS, 2, 2):
            # half-words of two bytes each need no mask
            self.columns = 0
        elif register == XLEN:
            # two bytes of each word, so that the depth must be even
            fits = (depth // 2 - 1) * self.pitch + a <= HALF_BITS
            self.columns = 0 if depth % 2 or not fits else depth // 2

    @property
    def order(self) -> Ints:
        """Indices of the elements in each operand, ``[operand][i]``, for the fewest operands that fill whole words."""
        if not self.columns:
            return np.arange(self.elements).reshape(-1, self.depth)
        memory = np.arange(self.columns * WORD_BYTES).reshape(self.columns, WORD_BYTES)
        if self.register == BYTE_BITS:
            return memory.T
        # bytes 0 and 2 are the halves of one word, bytes 1 and 3 those of another
        halves = [memory[:, [parity, parity + 2]] for parity in range(2)]
        if self.register == XLEN:
            return np.stack([half.T.reshape(-1) for half in halves])
        return np.concatenate([half.T for half in halves])

    def words(self, reduction: int) -> int:
        group = self.order.size
        return -(-reduction // group) * (group // self.elements)

    def pack_weights(self, rows: Ints) -> Words:
        shifts = (self.depth - 1 - np.arange(self.depth)) * self.pitch + self.raised
        words = self.words(rows.shape[1])
        padded = pad_axis(rows, 1, words * self.elements).astype(np.int64)
        grouped = padded.reshape(-1, self.order.size)[:, self.order].reshape(-1, words, self.lanes, self.depth)
        operands = (grouped << shifts).sum(axis=3) & largest(self.register)
        return (operands << np.arange(self.lanes) * self.register).sum(axis=2).astype(np.uint32)


ISAS = ("rv32im", "xpulpv2")  # instruction sets, the smaller first


@dataclass(frozen=True, slots=True)
class ResultBlock:
    nch: int  # channels, a power of two
    npx: int  # pixels, a power of two

    @property
    def size(self) -> int:
        return self.nch * self.npx

    def __str__(self) -> str:
        return f"{self.nch}x{self.npx}"


@dataclass(frozen=True, slots=True)
class Method:
    isa: str
    register: int  # bits of a packed operand
    lanes: int  # packed operands that one instruction multiplies and adds up
    first: str  # instruction that sets an accumulator to a product
    accumulating: str | None  # instruction that adds a product to an accumulator; None if it takes a separate addition
    load: str  # instruction that loads the operands of one product
    blocks: tuple[ResultBlock, ...]
    schemes: tuple[Scheme, ...]  # schemes whose result the product holds

    @property
    def product(self) -> str:
        return self.accumulating or self.first

    @property
    def xpulp(self) -> bool:
        return self.isa != ISAS[0]

    @property
    def extensions(self) -> frozenset[Extension]:
        return frozenset({Extension.XPULPV2}) if self.xpulp else frozenset()

    @property
    def operand_bytes(self) -> int:
        return self.register * self.lanes // BYTE_BITS


_BOTH = (Scheme.P1, Scheme.P2)
_SCALAR, _SIMD = (ResultBlock(2, 2), ResultBlock(4, 2)), (ResultBlock(4, 2), ResultBlock(4, 4))
METHODS: tuple[Method, ...] = (
    Method("rv32im", BYTE_BITS, 1, "mul", None, "lbu", _SCALAR, (Scheme.BYTES,)),
    # P2 needs the upper half of the product: mulhu takes five cycles
    Method("rv32im", XLEN, 1, "mul", None, "lw", _SCALAR, (Scheme.P1,)),
    Method("rv32im", HALF_BITS, 1, "mul", None, "lhu", _SCALAR, _BOTH),
    Method("xpulpv2", XLEN, 1, "mul", "p.mac", "p.lw", _SIMD, (Scheme.P1,)),
    Method("xpulpv2", HALF_BITS, 2, "pv.dotup.h", "pv.sdotup.h", "p.lw", _SIMD, _BOTH),
    Method("xpulpv2", BYTE_BITS, 4, "pv.dotup.b", "pv.sdotup.b", "p.lw", _SIMD, (*_BOTH, Scheme.BYTES)),
)
"""All methods; each has an instruction set, a register width and schemes of packing."""


def methods(isa: str) -> tuple[Method, ...]:
    require(isa in ISAS, f"isa must be one of {', '.join(ISAS)}, not {isa}", LayerError)
    return tuple(method for method in METHODS if method.isa == isa)
