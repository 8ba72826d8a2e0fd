"""Python side of the C interface in ``native/core_model.cpp``: structures, and the library that runs and checks."""

import ctypes
import weakref
from enum import IntEnum, IntFlag, auto
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import ToolError
from xpulpnn_sim.harness.abi import KEPT_ERRORS, RECORD_FIELDS, STATIC_INSN
from xpulpnn_sim.retirement import RETIREMENT, Records


class Event(IntFlag):
    """Why the compiled loop came back."""

    CYCLE_LIMIT = auto()
    RECORDS_FULL = auto()
    TOHOST = auto()
    BAD_ACCESS = auto()
    BAD_FETCH = auto()
    TRAP_LOOP = auto()
    ENDLESS_LOOP = auto()
    STUCK = auto()


class CoreSettings(ctypes.Structure):
    """``CoreSettings`` of native/core_driver.hpp."""

    _fields_ = [
        *(
            (name, ctypes.c_uint32)
            for name in ("grant_stall", "response_latency", "fetch_grant_stall", "fetch_latency")
        ),
        *((name, ctypes.c_uint32) for name in ("irq_rate", "seed", "boot_addr", "hart_id", "tohost", "collect")),
        *((name, ctypes.c_uint32) for name in ("watchdog", "unused")),
        ("dump_from", ctypes.c_uint64),
        ("dump_to", ctypes.c_uint64),
    ]


class CoreStatus(ctypes.Structure):
    """``CoreStatus`` of native/core_driver.hpp."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("cycles", "retired", "interrupts")),
        *((name, ctypes.c_uint32) for name in ("events", "pc", "previous_pc", "value", "address", "write", "mask")),
        *((name, ctypes.c_uint32) for name in ("cause", "records", "lines")),
    ]


Lines = NDArray[np.uint32]
"""Interrupt lines of each retirement of a block."""

IRQ = np.dtype([("cycle", "<u8"), ("line", "<u4"), ("unused", "<u4")])


def _load(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise ToolError(f"{path.name} must be a loadable model, not one that fails with: {error}") from None


class CoreLibrary:
    """A compiled core model.

    Parameters
    ----------
    path : Path
        Shared library made by :func:`xpulpnn_sim.harness.build.build_core`.
    """

    def __init__(self, path: Path) -> None:
        library = _load(path)
        pointer, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
        self.create = library.core_create
        self.create.argtypes, self.create.restype = [ctypes.POINTER(CoreSettings)], pointer
        self.destroy = library.core_destroy
        self.destroy.argtypes, self.destroy.restype = [pointer], None
        self.open_wave = library.core_open_wave
        self.open_wave.argtypes, self.open_wave.restype = [pointer, ctypes.c_char_p], ctypes.c_int
        self.add_memory = library.core_add_memory
        self.add_memory.argtypes, self.add_memory.restype = [pointer, u32, u32, pointer], None
        self.add_irqs = library.core_add_irqs
        self.add_irqs.argtypes, self.add_irqs.restype = [pointer, pointer, u64], None
        self.advance = library.core_advance
        self.advance.argtypes = [pointer, u64, pointer, pointer, u32, ctypes.POINTER(CoreStatus)]
        self.advance.restype = None


class CoreModel:
    """One simulated core with its memory and interrupt lines.

    Parameters
    ----------
    path : Path
        The compiled model.
    settings : CoreSettings
        Memory timing, boot address and so on.
    windows : dict of int to numpy array of uint8
        Memory by base address; the arrays are used in place.
    irqs : sequence of (int, int)
        Cycle and line of interrupts.
    wave : Path or None
        Waveform to write; only with a model that can.

    Members
    -------
    status : CoreStatus
        State after the last :meth:`advance`.
    """

    def __init__(
        self,
        path: Path,
        settings: CoreSettings,
        windows: dict[int, NDArray[np.uint8]],
        irqs: tuple[tuple[int, int], ...] = (),
        wave: Path | None = None,
    ) -> None:
        self._library = CoreLibrary(path)
        self._windows = windows
        self.status = CoreStatus()
        self._handle: Any = self._library.create(settings)
        for base, memory in windows.items():
            self._library.add_memory(self._handle, base, memory.size, memory.ctypes.data)
        self._irqs = np.array([(cycle, line, 0) for cycle, line in sorted(irqs)], IRQ)
        if irqs:
            self._library.add_irqs(self._handle, self._irqs.ctypes.data, len(self._irqs))
        if wave is not None and not self._library.open_wave(self._handle, str(wave).encode()):
            self.close()
            raise ToolError(f"{wave} must be a file that can be written, not one that cannot")

    def advance(self, limit: int, buffer: Records, lines: Lines) -> int:
        """Run to an event or to the cycle ``limit``; returns the number of retirements recorded.

        Parameters
        ----------
        limit : int
            Cycle.
        buffer : array of RETIREMENT
            Takes the records.
        lines : array of uint32, as long
            Takes the interrupt lines of each: at its retirement; of the first instruction of an interrupt handler,
            when the interrupt was taken.
        """
        status = self.status
        self._library.advance(
            self._handle, limit, buffer.ctypes.data, lines.ctypes.data, min(len(buffer), len(lines)), status
        )
        return status.records

    @property
    def events(self) -> Event:
        """What ended the last :meth:`advance`."""
        return Event(self.status.events)

    def close(self) -> None:
        """Free the model and finish its waveform."""
        if self._handle is not None:
            self._library.destroy(self._handle)
            self._handle = None


def record_buffer(size: int) -> Records:
    """Room for ``size`` retirements."""
    return np.zeros(size, RETIREMENT)


class Action(IntEnum):
    """``CoreAction`` of native/core_checker.hpp."""

    NO_ACTION = 0
    TRANSFER = auto()
    RAISE = auto()
    RETURN = auto()
    CSR_READ = auto()
    CSR_WRITE = auto()
    CSR_SET = auto()
    CSR_CLEAR = auto()
    SET_LOOP_START = auto()
    SET_LOOP_END = auto()
    SET_LOOP_COUNT = auto()
    SET_LOOP = auto()


class CsrFlag(IntFlag):
    """``CoreCsrFlag`` of native/core_checker.hpp."""

    PRESENT = auto()
    READ_ONLY = auto()
    FREE = auto()


NO_GROUP = 2**32 - 1
"""Group of instructions without results to compare."""

CORE_INSN = np.dtype(
    [("insn", STATIC_INSN)]
    + [(name, "<u4") for name in ("raw", "action", "number", "is_constant", "constant", "offset", "group")]
)
"""``CoreInsn`` of native/core_checker.hpp."""

CORE_CSR = np.dtype([(name, "<u4") for name in ("address", "flags", "value", "writable")])
"""``CoreCsr`` of native/core_checker.hpp."""

CORE_ERROR = np.dtype([(name, "<u4") for name in ("position", "field", "expected", "got")])
"""``CoreError`` of native/core_checker.hpp; ``field`` is an offset in :data:`RETIREMENT`."""

VALUE_FIELDS = (*RECORD_FIELDS, "word", "pc", "position")
"""Arrays of ``CoreValues`` of native/core_checker.hpp."""


class _ValuePointers(ctypes.Structure):
    """``CoreValues`` of native/core_checker.hpp."""

    _fields_ = [(name, ctypes.c_void_p) for name in VALUE_FIELDS]


class CoreChain:
    """The compiled checker of the state that retirements leave to later ones.

    A block is looked up with :meth:`find`, then :meth:`distribute` sorts its values into groups, then :meth:`check`
    follows it.

    Parameters
    ----------
    path : Path
        A compiled core model.
    entry, tohost : int
        First instruction; word that the host changes.
    fromhost : int or None
        Another one.
    memory : dict of int to numpy array of uint8
        Memory by base address; stores are applied to the arrays.
    csrs : array of CORE_CSR
        The control and status registers.
    """

    def __init__(
        self,
        path: Path,
        *,
        entry: int,
        tohost: int,
        fromhost: int | None,
        memory: dict[int, NDArray[np.uint8]],
        csrs: NDArray[Any],
    ) -> None:
        pointer, u32 = ctypes.c_void_p, ctypes.c_uint32
        signatures: dict[str, tuple[Any, list[Any]]] = {
            "create": (pointer, [u32, u32, u32]),
            "destroy": (None, [pointer]),
            "add_memory": (None, [pointer, u32, u32, pointer]),
            "add_csrs": (None, [pointer, pointer, u32]),
            "add_insns": (None, [pointer, pointer, u32]),
            "find": (u32, [pointer, pointer, u32, pointer]),
            "distribute": (None, [pointer, pointer, u32, u32, pointer, ctypes.POINTER(_ValuePointers)]),
            "block": (u32, [pointer, pointer, u32, pointer, pointer, pointer, pointer]),
        }
        self._calls: dict[str, Any] = {}
        library = _load(path)
        for name, (result, arguments) in signatures.items():
            call = getattr(library, f"core_check_{name}")
            call.restype, call.argtypes = result, arguments
            self._calls[name] = call
        self._memory = memory
        handle = self._calls["create"](entry, tohost, tohost if fromhost is None else fromhost)
        self._handle = handle
        weakref.finalize(self, self._calls["destroy"], handle)
        for base, content in memory.items():
            self._calls["add_memory"](handle, base, content.size, content.ctypes.data)
        self._calls["add_csrs"](handle, csrs.ctypes.data, len(csrs))

    def add(self, insns: NDArray[Any]) -> None:
        """Make instructions known: an array of :data:`CORE_INSN`."""
        self._calls["add_insns"](self._handle, insns.ctypes.data, len(insns))

    def find(self, records: Records) -> NDArray[np.uint32]:
        """The distinct words of a block that are not known; the block is looked up if there is none."""
        unknown = np.empty(len(records), np.uint32)
        count = self._calls["find"](self._handle, records.ctypes.data, len(records), unknown.ctypes.data)
        return np.unique(unknown[:count])

    def distribute(self, records: Records, groups: int) -> tuple[NDArray[np.uint32], dict[str, NDArray[np.uint32]]]:
        """Where each group starts, and the arrays :data:`VALUE_FIELDS` of the values by group."""
        starts = np.empty(groups + 1, np.uint32)
        values = {name: np.empty(len(records), np.uint32) for name in VALUE_FIELDS}
        pointers = _ValuePointers(*(array.ctypes.data for array in values.values()))
        self._calls["distribute"](self._handle, records.ctypes.data, len(records), groups, starts.ctypes.data, pointers)
        return starts, values

    def check(
        self, records: Records, lines: Lines | None, taken: NDArray[np.bool_], targets: NDArray[np.uint32]
    ) -> tuple[int, NDArray[Any]]:
        """Number of differences, and the first of them as an array of :data:`CORE_ERROR`."""
        errors = np.empty(KEPT_ERRORS, CORE_ERROR)
        arrays = (taken, targets, errors)
        count = self._calls["block"](
            self._handle,
            records.ctypes.data,
            len(records),
            None if lines is None else lines.ctypes.data,
            *(array.ctypes.data for array in arrays),
        )
        return count, errors[:count]
