"""The record of one retired instruction, as blocks of it travel between simulator, checkers and traces.

Field names are those of the core's retirement port (``rvfi_<name>``); ``cycle`` is added by whoever samples it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDE_FIELDS = ("order", "cycle")
"""64-bit fields: number of the retirement and the clock cycle it happened in."""

WORD_FIELDS = (
    "insn",
    "trap",
    "halt",
    "intr",
    "mode",
    "ixl",
    "rs1_addr",
    "rs2_addr",
    "rs1_rdata",
    "rs2_rdata",
    "rd_addr",
    "rd_wdata",
    "pc_rdata",
    "pc_wdata",
    "mem_addr",
    "mem_rmask",
    "mem_wmask",
    "mem_rdata",
    "mem_wdata",
    "rd_rdata",
    "rd_we",
    "base_we",
    "base_addr",
    "base_wdata",
    "nn_act_rdata",
    "nn_wgt_rdata",
    "nn_we",
    "nn_addr",
    "nn_wdata",
    "cause",
)
"""32-bit fields; narrower ports are zero-extended."""

RETIREMENT = np.dtype([(name, np.uint64) for name in WIDE_FIELDS] + [(name, np.uint32) for name in WORD_FIELDS])
"""One retirement, fields packed without gaps.

``insn`` is the raw word, compressed instructions zero-extended. Memory masks and data count from the byte address
``mem_addr``; loaded data is raw and zero above its size. ``rd_*`` is the write of the register in field rd, ``base_*``
that of an incremented base; ``rd_rdata`` the old register in field rd. ``nn_*`` are the NN-RF factors and the reloaded
entry. ``cause`` is {interrupt, code[4:0]} of a trap, or of the interrupt whose handler starts here (``intr`` = 1).
"""

CAUSE_INTERRUPT = 1 << 5
"""Interrupt bit of ``cause``."""

CAUSE_CODE = CAUSE_INTERRUPT - 1
"""Code bits of ``cause``."""

Records = NDArray[Any]
"""A block of retirements: an array of :data:`RETIREMENT`."""
