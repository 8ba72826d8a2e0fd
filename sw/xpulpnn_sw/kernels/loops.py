"""The inner loop of a kernel."""

from xpulpnn_sw.kernels.counting import CountLoop, ScalarCountLoop
from xpulpnn_sw.kernels.cross import CrossLoop
from xpulpnn_sw.kernels.frame import Registers
from xpulpnn_sw.kernels.inner import ComputeUpdateLoop, InnerLoop, NnLoop, ScalarLoop, SimdLoop, UnpackLoop
from xpulpnn_sw.kernels.variants import Style, Variant
from xpulpnn_sw.precision import Precision

_LOOPS: dict[Style, type[InnerLoop]] = {
    Style.SCALAR: ScalarLoop,
    Style.XPULPV2: SimdLoop,
    Style.SIMD: SimdLoop,
    Style.CU: ComputeUpdateLoop,
    Style.NN: NnLoop,
    Style.CROSS: CrossLoop,
}


def inner_loop(variant: Variant, precision: Precision, registers: Registers) -> InnerLoop:
    """The inner loop of a variant at a precision."""
    if variant.counts(precision):
        return (CountLoop if variant.xpulp else ScalarCountLoop)(variant, precision, registers)
    unpacks = variant.style is Style.XPULPV2 and variant.row_bits(precision.w) != precision.w
    return (UnpackLoop if unpacks else _LOOPS[variant.style])(variant, precision, registers)
