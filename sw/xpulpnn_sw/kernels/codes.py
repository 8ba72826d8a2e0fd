"""The function around the blocks of a MatMul that a blocking asks for."""

from xpulpnn_sw.kernels.code import KernelCode
from xpulpnn_sw.kernels.fresh_code import FreshCode
from xpulpnn_sw.kernels.one_factor_code import OneFactorCode
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.requantised_code import RequantisedCode


def code_of(blocking: Blocking) -> type[KernelCode]:
    """What writes the function for a blocking."""
    if blocking.has_one_factor:
        return OneFactorCode
    if blocking.requantises:
        return RequantisedCode
    return FreshCode if blocking.is_fresh else KernelCode
