"""Blocks of retirements and of granted accesses, as arrays, and the lines of a trace for them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sim.reference.programs.trace import RECORD_FIELDS, WIDE_FIELDS, WORD_FIELDS, line_of

RETIREMENT = np.dtype([(name, np.uint64) for name in WIDE_FIELDS] + [(name, np.uint32) for name in WORD_FIELDS])
"""Data type of a retirement, whose fields are in the order of the driver, without padding."""

GRANT = np.dtype(
    [("cycle", np.uint64)] + [(name, np.uint32) for name in ("hart", "address", "we", "be", "wdata", "unused")]
)
"""Data type of a granted access of a data bus or bank. ``hart`` is the number of the master: that of a hart, or a
greater one for DMA engine and host."""

Records = NDArray[Any]  # a block of retirements: an array of `RETIREMENT`


def lines(records: Records) -> Iterator[str]:
    for values in records.tolist():
        yield line_of(dict(zip(RECORD_FIELDS, values, strict=True)))


def lines_of_cores(blocks: Sequence[Records]) -> Iterator[str]:
    """Yield lines that start with the number of the core, in order of cycles."""
    rows = [(record["cycle"], core, record) for core, block in enumerate(blocks) for record in block]
    for _cycle, core, record in sorted(rows, key=lambda row: row[:2]):
        yield f"{core:>4} {line_of(dict(zip(RECORD_FIELDS, record.tolist(), strict=True)))}"
