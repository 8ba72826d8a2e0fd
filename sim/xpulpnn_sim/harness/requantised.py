"""What accumulators become by each rule, by numpy."""

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sim.golden import layers
from xpulpnn_sw.kernels.requantisation import (
    AnyRequantisation,
    Multiplication,
    Requantisation,
    Shifting,
    Thresholds,
    WideRequantisation,
)
from xpulpnn_sw.precision import SIGN_BITS, Precision

Results = NDArray[np.int32]


def requantised(accumulators: Results, after: AnyRequantisation | None, precision: Precision) -> Results:
    """The results that become of accumulators, ``int32[..., channel]``; without a rule they are the results."""
    bits, signed = precision.y, precision.y_signed
    match after:
        case None:
            return accumulators
        case Requantisation(kappa=kappa, lam=lam, shift=shift):
            return layers.quantise_bn(accumulators, kappa, lam, shift, bits, signed)
        case WideRequantisation(kappa=kappa, lam=lam, shift=shift):
            return layers.quantise_bn64(accumulators, kappa, lam, shift, bits, signed)
        case Multiplication(factor=factor, shift=shift):
            return layers.quantise_multiply(accumulators, factor, shift, bits, signed)
        case Shifting(shift=shift):
            return layers.quantise_shift(accumulators, shift, bits, signed)
        case Thresholds(values=values) if bits == SIGN_BITS:
            return layers.quantise_sign(accumulators, values[:, 0])
        case Thresholds(values=values):
            return layers.quantise_thresholds(accumulators, values, signed)
