"""Python side of the C interface in ``native/core_model.cpp``: structures, events and the loaded library."""

import ctypes
from enum import IntFlag, auto
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import ToolError
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
        *((name, ctypes.c_uint32) for name in ("grant_stall", "response_latency", "fetch_grant_stall", "fetch_latency")),
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


IRQ = np.dtype([("cycle", "<u8"), ("line", "<u4"), ("unused", "<u4")])


class CoreLibrary:
    """A compiled core model.

    Parameters
    ----------
    path : Path
        Shared library made by :func:`xpulpnn_sim.harness.build.build_core`.
    """

    def __init__(self, path: Path) -> None:
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            raise ToolError(f"{path.name} must be a loadable model, not one that fails with: {error}") from None
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
        self.advance.argtypes = [pointer, u64, pointer, u32, ctypes.POINTER(CoreStatus)]
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

    def advance(self, limit: int, buffer: Records) -> Records:
        """Run to an event or to the cycle ``limit``; returns the retirements recorded, a part of ``buffer``."""
        self._library.advance(self._handle, limit, buffer.ctypes.data, len(buffer), self.status)
        return buffer[: self.status.records]

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
