"""Python side of the C interface in ``native/model.cpp``: structures, constants and the loaded library."""

import ctypes
from enum import IntEnum, IntFlag, auto
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import ToolError

IN_FLIGHT = 16
"""Instructions that may be between acceptance and retirement."""

KEPT_ERRORS = 64
"""Errors of the compiled checker whose details are kept."""


class Property(IntFlag):
    """Properties of a static instruction."""

    READS_RS1 = auto()
    READS_RS2 = auto()
    READS_RD = auto()
    WRITES_RD = auto()
    WRITES_BASE = auto()
    LOADS = auto()
    STORES = auto()
    BRANCHES = auto()
    JUMPS = auto()
    LOOP_END = auto()
    READS_ACT = auto()
    READS_WGT = auto()
    WRITES_NN = auto()
    MULTICYCLE = auto()


STATIC_INSN = np.dtype(
    [("word", "<u4"), ("pc", "<u4"), ("properties", "<u4")]
    + [(name, "u1") for name in ("length", "rs1", "rs2", "rd", "access", "act", "wgt", "reloaded")]
)
POKE = np.dtype([("position", "<u8"), ("address", "<u4"), ("word", "<u4")])
ERROR = np.dtype(
    [("position", "<u8"), ("cycle", "<u8"), ("kind", "<u4"), ("expected", "<u4"), ("got", "<u4"), ("unused", "<u4")]
)


class Kind(IntEnum):
    """What the compiled driver and checker compare; from JUMP_MISSING on the stream cannot go on."""

    WORD = 0
    PC = auto()
    RS1 = auto()
    RS2 = auto()
    RD_OLD = auto()
    ACT = auto()
    WGT = auto()
    RMASK = auto()
    WMASK = auto()
    LOADED = auto()
    RD_WE = auto()
    RD_ADDR = auto()
    BASE_WE = auto()
    BASE_ADDR = auto()
    NN_WE = auto()
    NN_ADDR = auto()
    NN_WDATA = auto()
    EXTRA_RETIREMENT = auto()
    FAULT = auto()
    TRAP = auto()
    JUMP_MISSING = auto()
    JUMP_UNEXPECTED = auto()
    JUMP_TARGET = auto()
    BRANCH_UNEXPECTED = auto()
    BRANCH_TARGET = auto()
    DISCONTINUITY = auto()
    STUCK = auto()


KIND_TEXT = {
    Kind.WORD: "retired instruction word",
    Kind.PC: "retired pc",
    Kind.RS1: "value read from rs1",
    Kind.RS2: "value read from rs2",
    Kind.RD_OLD: "old value of rd",
    Kind.ACT: "activation entry of the NN-RF",
    Kind.WGT: "weight entry of the NN-RF",
    Kind.RMASK: "bytes loaded",
    Kind.WMASK: "bytes stored",
    Kind.LOADED: "loaded data",
    Kind.RD_WE: "write enable of rd",
    Kind.RD_ADDR: "number of rd",
    Kind.BASE_WE: "write enable of the base register",
    Kind.BASE_ADDR: "number of the base register",
    Kind.NN_WE: "write enable of the NN-RF",
    Kind.NN_ADDR: "NN-RF entry written",
    Kind.NN_WDATA: "word written to the NN-RF",
    Kind.EXTRA_RETIREMENT: "retirement of an instruction never issued",
    Kind.FAULT: "access outside the memory, address",
    Kind.TRAP: "exception, cause",
    Kind.JUMP_MISSING: "jump not taken, target",
    Kind.JUMP_UNEXPECTED: "jump taken by another instruction, target",
    Kind.JUMP_TARGET: "jump target",
    Kind.BRANCH_UNEXPECTED: "branch taken that should fall through, target",
    Kind.BRANCH_TARGET: "branch target",
    Kind.DISCONTINUITY: "stream leaves the sequence without a control transfer, pc",
    Kind.STUCK: "no progress (expected 1: a branch that should be taken has not been)",
}

STALLS = ("jump", "branch", "load_use", "misaligned", "grant", "response", "multicycle", "other")
"""Causes of cycles without an accepted instruction, in the order of the compiled counters."""


class Stats(ctypes.Structure):
    """Counters of a run."""

    _fields_ = [
        ("cycles", ctypes.c_uint64),
        ("accepted", ctypes.c_uint64),
        ("retired", ctypes.c_uint64),
        ("mismatches", ctypes.c_uint64),
        ("faults", ctypes.c_uint64),
        ("stalls", ctypes.c_uint64 * len(STALLS)),
    ]


class Settings(ctypes.Structure):
    """Parameters of the memory and of the waveform window."""

    _fields_ = [
        ("grant_stall", ctypes.c_uint32),
        ("response_latency", ctypes.c_uint32),
        ("seed", ctypes.c_uint32),
        ("sparse", ctypes.c_uint32),
        ("dump_instructions", ctypes.c_uint32),
        ("watchdog", ctypes.c_uint32),
        ("dump_from", ctypes.c_uint64),
        ("dump_to", ctypes.c_uint64),
    ]


RECORD_FIELDS = ("rs1", "rs2", "rd_old", "act", "wgt", "loaded", "rd", "base", "address", "store")
"""Values of a retirement record; see ``native/records.hpp``."""


class RecordPointers(ctypes.Structure):
    """Addresses of the arrays that take the records."""

    _fields_ = [(name, ctypes.c_void_p) for name in RECORD_FIELDS]


class RecordBuffer:
    """Arrays for up to ``capacity`` retirement records, one per field."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.fields = {name: np.zeros(capacity, np.uint32) for name in RECORD_FIELDS}
        self.pointers = RecordPointers(*(array.ctypes.data for array in self.fields.values()))


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "cosim_create": (ctypes.c_void_p, [ctypes.POINTER(Settings)]),
    "cosim_destroy": (None, [ctypes.c_void_p]),
    "cosim_open_wave": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
    "cosim_set_program": (None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]),
    "cosim_add_memory": (
        None,
        [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p],
    ),
    "cosim_add_pokes": (None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64]),
    "cosim_run": (
        ctypes.c_uint32,
        [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.POINTER(RecordPointers)],
    ),
    "cosim_stats": (None, [ctypes.c_void_p, ctypes.POINTER(Stats), ctypes.c_void_p]),
    "cosim_errors": (ctypes.c_uint32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32)]),
}


def load(library: Path) -> ctypes.CDLL:
    """The compiled model with its function signatures; raises :class:`ToolError` if it cannot be loaded."""
    try:
        loaded = ctypes.CDLL(str(library))
    except OSError as error:
        raise ToolError(f"model must be a loadable library, not {library} ({error})") from None
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def contiguous(indices: NDArray[Any]) -> NDArray[np.uint32]:
    """``indices`` as the driver takes them."""
    return np.ascontiguousarray(indices, dtype=np.uint32)
