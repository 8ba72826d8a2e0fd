"""Tensors of narrow elements in memory: element j of a byte occupies bits ``[j*b, (j+1)*b)``, little end first."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sim.reference.golden.effects import I32

Bytes = NDArray[np.uint8]
AnyInt = NDArray[np.integer[Any]]

ELEMENT_BITS = (1, 2, 4, 8, 16, 32)  # widths that divide a byte or are whole bytes


def element_range(bits: int, *, signed: bool) -> tuple[int, int]:
    """Least and greatest value of a ``bits``-bit element."""
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def _check_bits(bits: int) -> None:
    if bits not in ELEMENT_BITS:
        raise LayerError(f"`bits` must be one of {', '.join(map(str, ELEMENT_BITS))}, not {bits}")


def pack(values: AnyInt, bits: int, *, signed: bool) -> Bytes:
    """Bytes of ``values``, packed along the last axis, which must fill whole bytes. Raises :class:`LayerError` for a
    width or row length that cannot be packed and for values out of range."""
    _check_bits(bits)
    least, greatest = element_range(bits, signed=signed)
    if values.size and not least <= int(values.min()) <= int(values.max()) <= greatest:
        offender = int(values.min()) if int(values.min()) < least else int(values.max())
        raise LayerError(f"`values` must be in [{least}, {greatest}], not {offender}")
    row = values.shape[-1]
    if row * bits % BYTE_BITS:
        raise LayerError(f"`values` must fill whole bytes, not {row} elements of {bits} bits")
    planes = (values.astype(np.int64)[..., None] >> np.arange(bits)) & 1
    return np.packbits(planes.astype(np.uint8).reshape(*values.shape[:-1], row * bits), axis=-1, bitorder="little")


def unpack(data: Bytes, bits: int, *, signed: bool) -> I32:
    """Elements of packed bytes; the last axis grows by ``8 / bits``. The inverse of :func:`pack`."""
    _check_bits(bits)
    row = data.shape[-1] * BYTE_BITS
    if row % bits:
        raise LayerError(f"`data` must hold whole elements, not {data.shape[-1]} bytes of {bits}-bit elements")
    planes = np.unpackbits(data, axis=-1, bitorder="little").reshape(*data.shape[:-1], row // bits, bits)
    weights = np.int64(1) << np.arange(bits, dtype=np.int64)
    if signed:
        weights[-1] = -weights[-1]
    return (planes * weights).sum(axis=-1).astype(np.int32)
