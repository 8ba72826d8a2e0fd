"""Packed elements of 32-bit words as numbers, lane-major: lane i of word j is ``lanes[i, j]``."""

import numpy as np

from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.reference.golden.effects import I32, U32


def _lsbs(fmt: ElemFmt) -> U32:
    """Position of each lane's lowest bit, as a column."""
    return np.arange(0, XLEN, fmt.width, dtype=np.uint32)[:, None]


def unpack(words: U32, fmt: ElemFmt, *, signed: bool) -> I32:
    """Elements of ``words``: shifted up against bit 31, then down again with or without their sign."""
    unused = XLEN - fmt.width
    at_top = words << (unused - _lsbs(fmt))
    return at_top.view(np.int32) >> unused if signed else (at_top >> unused).view(np.int32)


def pack(lanes: I32, fmt: ElemFmt) -> U32:
    """Words of the low bits of the elements; the inverse of :func:`unpack`."""
    elements = lanes.view(np.uint32) & np.uint32((1 << fmt.width) - 1)
    return np.bitwise_or.reduce(elements << _lsbs(fmt), axis=0)
