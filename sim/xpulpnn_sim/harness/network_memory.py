"""Whether networks fit into the memory that there is for them: of a core alone, or outside a cluster."""

from xpulpnn.errors import InputError
from xpulpnn_sim.harness.network_case import NetworkCase
from xpulpnn_sw.kernels.variants import BYTE_BITS


def require_weights(case: NetworkCase) -> None:
    """Raise :class:`InputError` if the weights alone take too many bytes, before anything is made of them."""
    bits = sum(stage.tensors.weights.size * stage.precision.w for stage in case.network.stages if stage.multiplies)
    _require(case, bits // BYTE_BITS, "weights")


def require_memory(case: NetworkCase, needed: int) -> None:
    """Raise :class:`InputError` if code and data take too many bytes."""
    _require(case, needed, "code and data")


def _require(case: NetworkCase, needed: int, what: str) -> None:
    most = case.machine.l2_bytes
    if needed > most:
        raise InputError(f"{what} of {case.network.name} must be at most the memory's {most} bytes, not {needed}")
