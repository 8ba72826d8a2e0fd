"""Variants of kernels: their blocks, the extensions they need, and the precisions they compute."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from xpulpnn.errors import LayerError
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import BYTE_BITS, HALF_BITS
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision

# most output channels any variant computes together; channel counts in memory are multiples of it
CHANNELS_PER_BLOCK = 4


class LoopStyle(Enum):
    SCALAR = "one element per load, mul and add"
    XPULPV2 = "packed 8-bit words; narrower weights are unpacked in the loop"
    SIMD = "packed words of the layer's width"
    CU = "Compute&Update: weights in the NN-RF"
    NN = "both factors in the NN-RF"
    CROSS = "the same, every word loaded by a product; the core requantises"
    PAIR = "the same, two products at a time"
    BLOCKS = "words loaded by the core, products and sums in a coprocessor"
    STEPS = "words loaded by the coprocessor too"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Instructions that a kernel may use, and the element widths it then computes."""

    name: str  # name on the command line
    extensions: frozenset[Extension]  # extensions needed in addition to the base set
    widths: frozenset[int]  # operand widths in bits

    @property
    def xpulp(self) -> bool:
        return Extension.XPULPV2 in self.extensions

    def check_precision(self, precision: Precision) -> None:
        self._check_widths(precision, (precision.x, precision.w, precision.y))

    def _check_widths(self, precision: Precision, widths: tuple[int, ...]) -> None:
        if {*widths} - self.widths:
            known = ",".join(map(str, sorted(self.widths, reverse=True)))
            raise LayerError(f"precision of {self.name} must be widths out of {known}, not {precision}")

    def computes(self, precision: Precision) -> bool:
        try:
            self.check_precision(precision)
        except LayerError:
            return False
        return True

    def computed_precision(self, precision: Precision) -> Precision:
        return precision

    def vectors(self, precision: Precision) -> frozenset[int]:
        """Return the element widths for which the core must have SIMD instructions."""
        return frozenset({precision.x, precision.y} if self.xpulp else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant(Level):
    """A variant of the MatMul, named by its family and the channels x pixels of a block."""

    nch: int  # output channels computed together
    npx: int  # output pixels computed together
    style: LoopStyle  # kind of inner loop
    in_place: bool = False  # whether activation rows are the pixels of a feature map, which are never interleaved
    splits: bool = False  # whether cores may split the channels of a group of pixels

    @property
    def interleaved(self) -> bool:
        """True if the im2col rows of a pixel group alternate word by word, so that one pointer serves all."""
        least = {LoopStyle.NN: 2 * _PAIR, LoopStyle.CROSS: _PAIR, LoopStyle.PAIR: _PAIR}.get(self.style)
        if self.has_coprocessor:
            least = 2 * _PAIR
        return least is not None and self.npx >= least and not self.in_place

    @property
    def has_coprocessor(self) -> bool:
        """True if the accumulators are in a coprocessor."""
        return self.style in (LoopStyle.BLOCKS, LoopStyle.STEPS)

    @property
    def weight_streams(self) -> int:
        """Number of weight pointers; several avoid waiting for a pointer that the Mac&Load before has moved."""
        if self.style is LoopStyle.PAIR or self.has_coprocessor:
            return 1
        if self.style is LoopStyle.CROSS and self.npx > 1:
            return 1 if self.npx > _PAIR else _PAIR
        return _PAIR if self.style is LoopStyle.NN and self.npx > _PAIR else self.nch

    @property
    def turns_around(self) -> int:
        """Iterations peeled off an inner loop if the first products set the accumulators instead of adding to them."""
        if self.has_coprocessor:
            return 0
        return 1 if self.npx == 1 or (self.style is LoopStyle.PAIR and self.in_place) else 2

    @property
    def unrolled(self) -> int:
        """Words of each row in an iteration; two for Compute&Update with one pixel, to avoid load-use stalls."""
        return 2 if self.npx == 1 and self.style is LoopStyle.CU else 1

    @property
    def unpacks(self) -> bool:
        """True if operands are unpacked to bytes, for cores without sub-byte products."""
        return self.style in (LoopStyle.SCALAR, LoopStyle.XPULPV2)

    def counts(self, precision: Precision) -> bool:
        """Return whether the variant computes binary products by counting differing bits, 32 at a time."""
        return self.unpacks and precision.w == SIGN_BITS

    def computed_precision(self, precision: Precision) -> Precision:
        """Return the precision of the products: binary weights are held in two bits unless the variant counts bits."""
        return replace(precision, w=2) if precision.w == SIGN_BITS and not self.unpacks else precision

    def row_bits(self, precision: Precision) -> int:
        """Return the element width in activation rows: the weight width, or the input width if the core mixes both."""
        bits = precision.w
        if self.unpacks:
            return max(bits, BYTE_BITS) if bits != SIGN_BITS else bits
        return precision.x if self.mixes(precision) else bits

    def mixes(self, precision: Precision) -> bool:
        """Return whether the core itself widens weights to the width of the inputs."""
        narrow = precision.x // precision.w in (_PAIR, 2 * _PAIR) and SIGN_BITS < precision.w
        return narrow and precision.x <= BYTE_BITS and not _MIXED.isdisjoint(self.extensions)

    def expansion(self, precision: Precision) -> int:
        """Return how many words of an activation row come from one word of narrower inputs."""
        return max(1, self.row_bits(precision) // precision.x)

    def planes(self, precision: Precision) -> int:
        """Return the number of planes: rows that hold some bits of each input if inputs are wider than weights."""
        return max(1, precision.x // self.row_bits(precision))

    def vectors(self, precision: Precision) -> frozenset[int]:
        """Return the element widths for which the core must have dot products."""
        if self.counts(precision):
            return frozenset()
        return frozenset({self.row_bits(self.computed_precision(precision))} if self.xpulp else ())

    def check_precision(self, precision: Precision) -> None:
        results = (precision.y,) if precision.requantised else ()
        self._check_widths(precision, (precision.x, precision.w, *results))
        if precision.x != precision.w and HALF_BITS in (precision.x, precision.w):
            raise LayerError(f"inputs and weights must both be {HALF_BITS} bits wide or neither, not {precision}")
        if self.unpacks and precision.x != precision.w and SIGN_BITS in (precision.x, precision.w):
            raise LayerError(f"inputs and weights of {self.name} must both have one bit or neither, not {precision}")
        if self.style is LoopStyle.CU and precision.x_negative and not precision.w_signed:
            raise LayerError(f"weights of {self.name} must be signed where inputs are, not {precision}")


_PAIR = 2
_MIXED = {Extension.XPULPML_MIXED, Extension.XIF_MIXED}
_BYTES = frozenset({8, 4, 2})
_NARROW = _BYTES | {SIGN_BITS}
_ALL = _NARROW | {HALF_BITS}
_V2 = frozenset({Extension.XPULPV2})
_NN = _V2 | {Extension.XPULPNN}
_X2 = _NN | {Extension.XPULPML_NN, Extension.XPULPML_CROSS, Extension.XPULPML_DOT, Extension.XPULPRQ}
_X3 = _X2 | {Extension.XPULPML_PAIR, Extension.XPULPML_MIXED}
_XIF = frozenset({Extension.XIF, Extension.XIF_MIXED, Extension.XIF_SIMD, Extension.XIF_PULP})
_RQ, _STEP = frozenset({Extension.XIF_RQ}), frozenset({Extension.XIF_STEP})

# by family: style, extensions, operand widths
_FAMILIES = {
    "rv32im": (LoopStyle.SCALAR, frozenset[Extension](), _NARROW),
    "xpulpv2": (LoopStyle.XPULPV2, _V2, _NARROW),
    "simd": (LoopStyle.SIMD, _NN, _ALL),
    "cu": (LoopStyle.CU, _NN | {Extension.XPULPML_CU}, _ALL),
    "nn": (LoopStyle.NN, _NN | {Extension.XPULPML_NN}, _ALL),
    "x2": (LoopStyle.CROSS, _X2, _ALL),
    "x3": (LoopStyle.PAIR, _X3, _ALL),
    "blk": (LoopStyle.BLOCKS, _XIF, _BYTES),
    "blkq": (LoopStyle.BLOCKS, _XIF | _RQ, _BYTES),
    "step": (LoopStyle.STEPS, _XIF | _STEP, _BYTES),
    "stepq": (LoopStyle.STEPS, _XIF | _STEP | _RQ, _BYTES),
}


def _named(names: str) -> dict[str, Variant]:
    variants: dict[str, Variant] = {}
    for name in names.split():
        family, _, blocking = name.partition("_")
        style, extensions, widths = _FAMILIES[family]
        nch, npx = map(int, blocking.split("x"))
        variants[name] = Variant(name=name, nch=nch, npx=npx, style=style, extensions=extensions, widths=widths)
    return variants


VARIANTS = _named("rv32im_2x2 xpulpv2_1x2 xpulpv2_2x2 xpulpv2_4x2 simd_4x2 cu_4x2 nn_4x2 nn_4x4 x2_4x2 x2_4x4 x3_4x4")
"""All variants of the MatMul by name, slowest first."""

XIF_VARIANTS = _named("blk_4x4 blkq_4x4 step_4x4 stepq_4x4")
"""Variants for a core with RV32IMC and the coprocessor; those with a q requantise in it."""

_AT_ONCE = (LoopStyle.PAIR, LoopStyle.BLOCKS, LoopStyle.STEPS)
_ONE_PIXEL = [family for family, (style, _, _) in _FAMILIES.items() if style not in _AT_ONCE]
ONE_PIXEL = _named(" ".join(f"{family}_{nch}x1" for family in _ONE_PIXEL for nch in (2, CHANNELS_PER_BLOCK)))
"""Variants for layers with a single pixel, by name, slowest first; those with two channels suit layers with few
channels."""

XIF_ONE_PIXEL = _named("blk_4x1 blkq_4x1")


def for_pixels(requested: Variant, pixels: int) -> Variant:
    """Return ``requested`` or, for a single pixel, the fastest of :data:`ONE_PIXEL` that needs no other extensions."""
    if pixels > 1:
        return requested
    known = (ONE_PIXEL | XIF_ONE_PIXEL).values()
    able = [variant for variant in known if variant.extensions <= requested.extensions]
    return next(variant for variant in reversed(able) if variant.nch == CHANNELS_PER_BLOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementLevel(Level):
    def has_vectors(self, bits: int) -> bool:
        if bits == SIGN_BITS:
            return False
        return self.xpulp if bits >= BYTE_BITS else Extension.XPULPNN in self.extensions

    @property
    def requantises(self) -> bool:
        return Extension.XPULPRQ in self.extensions

    def vectors(self, precision: Precision) -> frozenset[int]:
        narrow = {bits for bits in (precision.x, precision.w, precision.y) if self.has_vectors(bits)}
        return frozenset(narrow | {BYTE_BITS, 2 * BYTE_BITS} if self.xpulp else ())


_ELEMENT_EXTENSIONS = {"rv32im": frozenset[Extension](), "xpulpv2": _V2, "xpulpnn": _NN}
# all instruction levels of element-wise kernels, slowest first
ELEMENT_LEVELS: Mapping[str, ElementLevel] = {
    name: ElementLevel(name=name, extensions=extensions, widths=frozenset({8, 4, 2}))
    for name, extensions in (_ELEMENT_EXTENSIONS | {"xpulpnn2": _NN | {Extension.XPULPRQ}}).items()
}
# levels of kernels without requantisation, whose results are elements of their inputs
PLAIN_LEVELS = {name: level for name, level in ELEMENT_LEVELS.items() if not level.requantises}
# levels of maximum pooling, which also computes single bits
POOL_LEVELS = {name: replace(level, widths=level.widths | {SIGN_BITS}) for name, level in PLAIN_LEVELS.items()}
# levels of transpositions, to which xpulpnn adds no useful instruction
TRANSPOSE_LEVELS: Mapping[str, ElementLevel] = {name: ELEMENT_LEVELS[name] for name in ("rv32im", "xpulpv2")}
