"""The instruction sets these kernels are written for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xpulpnn.isa.formats import Extension
from xpulpnn_sw.kernels.variants import BYTE_BITS, Level
from xpulpnn_sw.precision import SIGN_BITS, Precision

_NARROW = frozenset({8, 4, 2})
_XPULPNN = frozenset({Extension.XPULPV2, Extension.XPULPNN})


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementLevel(Level):
    """What the core must have for a kernel whose vectors are elements of the feature maps."""

    def has_vectors(self, bits: int) -> bool:
        """Whether there are SIMD instructions on elements of so many bits."""
        if bits == SIGN_BITS:
            return False
        return self.xpulp if bits >= BYTE_BITS else Extension.XPULPNN in self.extensions

    @property
    def requantises(self) -> bool:
        """Whether ``pv.rqu`` and ``pv.rqs`` may be used."""
        return Extension.XPULPRQ in self.extensions

    def vectors(self, precision: Precision) -> frozenset[int]:
        """Element widths of the SIMD instructions in the kernel, which the core must have."""
        narrow = {bits for bits in (precision.x, precision.w, precision.y) if self.has_vectors(bits)}
        return frozenset(narrow | {BYTE_BITS, 2 * BYTE_BITS} if self.xpulp else ())


LEVELS: Mapping[str, ElementLevel] = {
    level.name: level
    for level in (
        ElementLevel(name="rv32im", extensions=frozenset(), widths=_NARROW),
        ElementLevel(name="xpulpv2", extensions=frozenset({Extension.XPULPV2}), widths=_NARROW),
        ElementLevel(name="xpulpnn", extensions=_XPULPNN, widths=_NARROW),
        ElementLevel(name="xpulpnn2", extensions=_XPULPNN | {Extension.XPULPRQ}, widths=_NARROW),
    )
}
"""All by name, slowest first."""

PLAIN_LEVELS: Mapping[str, ElementLevel] = {name: level for name, level in LEVELS.items() if not level.requantises}
"""Those of kernels whose results are elements of their inputs: nothing is requantised."""

POOL_LEVELS: Mapping[str, ElementLevel] = {
    name: replace(level, widths=level.widths | {SIGN_BITS}) for name, level in PLAIN_LEVELS.items()
}
"""Those of maximum pooling, which also takes the greater of single bits."""
