"""Blocks of retirements as numpy arrays, as they travel between simulator, checkers and traces."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.retirement import CYCLE, ORDER_BITS, RETIREMENT_FIELDS

WIDE_FIELDS = (*(field.name for field in RETIREMENT_FIELDS if field.width == ORDER_BITS), CYCLE.name)
"""64-bit fields: number of the retirement and the clock cycle it happened in."""

WORD_FIELDS = tuple(field.name for field in RETIREMENT_FIELDS if field.width < ORDER_BITS)
"""32-bit fields; narrower ports are zero-extended."""

RETIREMENT = np.dtype([(name, np.uint64) for name in WIDE_FIELDS] + [(name, np.uint32) for name in WORD_FIELDS])
"""One retirement, the fields of :data:`~xpulpnn.isa.retirement.RETIREMENT_FIELDS` in their order, without gaps."""

Records = NDArray[Any]  # a block of retirements: an array of `RETIREMENT`
