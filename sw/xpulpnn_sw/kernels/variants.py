"""The MatMul variants: their blocking, what the core must have, and what one inner iteration does."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from xpulpnn.errors import LayerError
from xpulpnn.isa.formats import Extension
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision

WORD_BITS = 32
BYTE_BITS = 8
# most output channels any variant computes together; channel counts in memory are multiples of it
CHANNELS_PER_BLOCK = 4


class LoopStyle(Enum):
    """Source of the operands of the products (KERNELS of the papers, one inner loop each)."""

    SCALAR = "one element per load, mul and add"
    XPULPV2 = "packed 8-bit words; narrower weights are unpacked in the loop"
    SIMD = "packed words of the layer's width"
    CU = "Compute&Update: weights in the NN-RF"
    NN = "both factors in the NN-RF"
    CROSS = "the same, every word loaded by a product; the core requantises"
    PAIR = "the same, two products at a time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A way to write a kernel, by what the core must have."""

    name: str  # name on the command line
    extensions: frozenset[Extension]  # what the core needs besides the base set
    widths: frozenset[int]  # operand widths in bits

    @property
    def xpulp(self) -> bool:
        """Tell whether post-increment access, hardware loops and p.mac may be used."""
        return Extension.XPULPV2 in self.extensions

    def check_precision(self, precision: Precision) -> None:
        """Raise :class:`LayerError` unless all widths are among those of the kernel."""
        self._check_widths(precision, (precision.x, precision.w, precision.y))

    def _check_widths(self, precision: Precision, widths: tuple[int, ...]) -> None:
        if {*widths} - self.widths:
            known = ",".join(map(str, sorted(self.widths, reverse=True)))
            raise LayerError(f"precision of {self.name} must be widths out of {known}, not {precision}")

    def computes(self, precision: Precision) -> bool:
        """Tell whether there is a kernel of this precision."""
        try:
            self.check_precision(precision)
        except LayerError:
            return False
        return True

    def computed(self, precision: Precision) -> Precision:
        return precision

    def vectors(self, precision: Precision) -> frozenset[int]:
        """Element widths of the SIMD instructions in the kernel, which the core must have."""
        return frozenset({precision.x, precision.y} if self.xpulp else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant(Level):
    """A MatMul variant, named by family and channels x pixels."""

    nch: int  # output channels computed together
    npx: int  # output pixels computed together
    style: LoopStyle  # kind of inner loop
    # whether activation rows are those of a feature map, one after the other, whatever the style prefers
    in_place: bool = False

    @property
    def interleaved(self) -> bool:
        """Tell whether the im2col rows of a pixel group alternate word by word, so that one pointer walks through all.

        With four pixels each activation is reloaded in a fixed order, which makes their words one sequential stream;
        where none is loaded by itself also with two.
        """
        least = {LoopStyle.NN: 2 * _PAIR, LoopStyle.CROSS: _PAIR, LoopStyle.PAIR: _PAIR}.get(self.style)
        return least is not None and self.npx >= least and not self.in_place

    @property
    def weight_streams(self) -> int:
        """Weight pointers per pixel group. Where four pixels take turns, two serve for all rows, which take turns too.

        A pointer moved by a Mac&Load is not ready for the next instruction. One serves for all if there is always
        another between two that move it, which four pixels leave room for.
        """
        if self.style is LoopStyle.PAIR:
            return 1
        if self.style is LoopStyle.CROSS and self.npx > 1:
            return 1 if self.npx > _PAIR else _PAIR
        return _PAIR if self.style is LoopStyle.NN and self.npx > _PAIR else self.nch

    @property
    def turns_around(self) -> int:
        """Turns of an inner loop whose sums begin with products that do not accumulate, which are not in its body."""
        return 1 if self.npx == 1 or (self.style is LoopStyle.PAIR and self.in_place) else 2

    @property
    def unrolled(self) -> int:
        """Words of a row per inner iteration: with one pixel and C&U two, so that none waits for its activation."""
        return 2 if self.npx == 1 and self.style is LoopStyle.CU else 1

    @property
    def unpacks(self) -> bool:
        """Tell whether all operands become bytes: without sub-byte products."""
        return self.style in (LoopStyle.SCALAR, LoopStyle.XPULPV2)

    def counts(self, precision: Precision) -> bool:
        """Tell whether products are those of single bits: what differs is counted, in words of 32 of both factors."""
        return self.unpacks and precision.w == SIGN_BITS

    def computed(self, precision: Precision) -> Precision:
        """Variants that do not count hold single bits as crumbs."""
        return replace(precision, w=_CRUMB_BITS) if precision.w == SIGN_BITS and not self.unpacks else precision

    def row_bits(self, precision: Precision) -> int:
        """Width of elements in an activation row: that of the weights, or of inputs that meet slices of them."""
        bits = precision.w
        if self.unpacks:
            return max(bits, BYTE_BITS) if bits != SIGN_BITS else bits
        return precision.x if self.mixes(precision) else bits

    def mixes(self, precision: Precision) -> bool:
        """Tell whether the core widens slices of weights to the width of the inputs."""
        narrow = precision.x // precision.w in (_PAIR, 2 * _PAIR) and SIGN_BITS < precision.w
        return narrow and precision.x <= BYTE_BITS and Extension.XPULPML_MIXED in self.extensions

    def expansion(self, precision: Precision) -> int:
        """Words of an activation row for a word of the input: inputs narrower than the rows are widened."""
        return max(1, self.row_bits(precision) // precision.x)

    def planes(self, precision: Precision) -> int:
        """Activation rows for a row of the input: wider inputs are cut into parts, each worth a power of two."""
        return max(1, precision.x // self.row_bits(precision))

    def vectors(self, precision: Precision) -> frozenset[int]:
        """Element widths of the dot products, which the core must have."""
        if self.counts(precision):
            return frozenset()
        return frozenset({self.row_bits(self.computed(precision))} if self.xpulp else ())

    def check_precision(self, precision: Precision) -> None:
        """Raise :class:`LayerError` if the variant has no kernel of this precision."""
        results = (precision.y,) if precision.requantised else ()
        self._check_widths(precision, (precision.x, precision.w, *results))
        if precision.x != precision.w and _HALF_BITS in (precision.x, precision.w):
            raise LayerError(f"inputs and weights must both be {_HALF_BITS} bits wide or neither, not {precision}")
        if self.unpacks and precision.x != precision.w and SIGN_BITS in (precision.x, precision.w):
            raise LayerError(f"inputs and weights of {self.name} must both have one bit or neither, not {precision}")
        if self.style is LoopStyle.CU and precision.x_negative and not precision.w_signed:
            raise LayerError(f"weights of {self.name} must be signed where inputs are, not {precision}")


_PAIR = 2
_HALF_BITS = 16
_CRUMB_BITS = 2
_NARROW = frozenset({8, 4, 2, SIGN_BITS})
_ALL = _NARROW | {_HALF_BITS}
_V2 = frozenset({Extension.XPULPV2})
_NN = _V2 | {Extension.XPULPNN}
_X2 = _NN | {Extension.XPULPML_NN, Extension.XPULPML_CROSS, Extension.XPULPML_DOT, Extension.XPULPRQ}
_X3 = _X2 | {Extension.XPULPML_PAIR, Extension.XPULPML_MIXED}


# by family: style, what the core must have, operand widths
_FAMILIES = {
    "rv32im": (LoopStyle.SCALAR, frozenset[Extension](), _NARROW),
    "xpulpv2": (LoopStyle.XPULPV2, _V2, _NARROW),
    "simd": (LoopStyle.SIMD, _NN, _ALL),
    "cu": (LoopStyle.CU, _NN | {Extension.XPULPML_CU}, _ALL),
    "nn": (LoopStyle.NN, _NN | {Extension.XPULPML_NN}, _ALL),
    "x2": (LoopStyle.CROSS, _X2, _ALL),
    "x3": (LoopStyle.PAIR, _X3, _ALL),
}


def _variants(names: str) -> Mapping[str, Variant]:
    variants: dict[str, Variant] = {}
    for name in names.split():
        family, _, blocking = name.partition("_")
        style, extensions, widths = _FAMILIES[family]
        nch, npx = map(int, blocking.split("x"))
        variants[name] = Variant(name=name, nch=nch, npx=npx, style=style, extensions=extensions, widths=widths)
    return variants


VARIANTS = _variants(
    "rv32im_2x2 xpulpv2_1x2 xpulpv2_2x2 xpulpv2_4x2 simd_4x2 cu_4x2 nn_4x2 nn_4x4 x2_4x2 x2_4x4 x3_4x4"
)
"""All variants by name, slowest first."""

ONE_PIXEL = _variants(
    " ".join(
        f"{family}_{nch}x1"
        for family, (style, _, _) in _FAMILIES.items()
        for nch in (2, CHANNELS_PER_BLOCK)
        if style is not LoopStyle.PAIR
    )
)
"""Variants of layers with a single pixel, by name, slowest first; with blocks of two channels cores share few of them
more evenly."""


def for_pixels(requested: Variant, pixels: int) -> Variant:
    """The variant, or with a single pixel the fastest of :data:`ONE_PIXEL` that needs no more of the core."""
    if pixels > 1:
        return requested
    able = [variant for variant in ONE_PIXEL.values() if variant.extensions <= requested.extensions]
    return next(variant for variant in reversed(able) if variant.nch == CHANNELS_PER_BLOCK)


_ELEMENT_WIDTHS = frozenset({8, 4, 2})
_XPULPNN = frozenset({Extension.XPULPV2, Extension.XPULPNN})


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementLevel(Level):
    """Instructions that a kernel needs whose vectors are elements of the feature maps."""

    def has_vectors(self, bits: int) -> bool:
        """Tell whether there are SIMD instructions on elements of so many bits."""
        if bits == SIGN_BITS:
            return False
        return self.xpulp if bits >= BYTE_BITS else Extension.XPULPNN in self.extensions

    @property
    def requantises(self) -> bool:
        """Tell whether ``pv.rqu`` and ``pv.rqs`` may be used."""
        return Extension.XPULPRQ in self.extensions

    def vectors(self, precision: Precision) -> frozenset[int]:
        """Element widths of the SIMD instructions in the kernel, which the core must have."""
        narrow = {bits for bits in (precision.x, precision.w, precision.y) if self.has_vectors(bits)}
        return frozenset(narrow | {BYTE_BITS, 2 * BYTE_BITS} if self.xpulp else ())


ELEMENT_LEVELS: Mapping[str, ElementLevel] = {
    level.name: level
    for level in (
        ElementLevel(name="rv32im", extensions=frozenset(), widths=_ELEMENT_WIDTHS),
        ElementLevel(name="xpulpv2", extensions=frozenset({Extension.XPULPV2}), widths=_ELEMENT_WIDTHS),
        ElementLevel(name="xpulpnn", extensions=_XPULPNN, widths=_ELEMENT_WIDTHS),
        ElementLevel(name="xpulpnn2", extensions=_XPULPNN | {Extension.XPULPRQ}, widths=_ELEMENT_WIDTHS),
    )
}
"""All by name, slowest first."""

# those of kernels whose results are elements of their inputs: nothing is requantised
PLAIN_LEVELS: Mapping[str, ElementLevel] = {
    name: level for name, level in ELEMENT_LEVELS.items() if not level.requantises
}

POOL_LEVELS: Mapping[str, ElementLevel] = {
    name: replace(level, widths=level.widths | {SIGN_BITS}) for name, level in PLAIN_LEVELS.items()
}
"""Levels of maximum pooling, which also takes the greater of single bits."""

# those of transpositions: no instruction that xpulpnn adds is of use
TRANSPOSE_LEVELS: Mapping[str, ElementLevel] = {name: ELEMENT_LEVELS[name] for name in ("rv32im", "xpulpv2")}
