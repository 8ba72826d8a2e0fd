"""A compiled model as Python sees it: the C interface of ``native/model.cpp``."""

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import ToolError
from xpulpnn.isa.machine import HALF_BYTES
from xpulpnn_sim.cosimulation.model.schema import (
    ACTIVITY,
    CHECK_ERROR,
    CHECK_INSN,
    CHECK_SETTINGS,
    GRANT,
    HART_STATUS,
    INTERRUPT,
    KEPT_ERRORS,
    SETTINGS,
    STALLS,
    STATUS,
    VALUE_FIELDS,
    Event,
)
from xpulpnn_sim.reference.programs.trace import RETIREMENT, Records

Windows = Mapping[int, NDArray[np.uint8]]  # memory by base address; bases and sizes are multiples of 4

Lines = NDArray[np.uint32]  # Interrupt lines of each retirement of a block

U32 = NDArray[np.uint32]

_POINTER, _U32, _U64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
_SIGNATURES: Mapping[str, tuple[Any, list[Any]]] = {
    "model_create": (_POINTER, [_POINTER]),
    "model_destroy": (None, [_POINTER]),
    "model_open_wave": (ctypes.c_int, [_POINTER, ctypes.c_char_p]),
    "model_add_memory": (None, [_POINTER, _U32, _U32, _POINTER]),
    "model_add_errors": (None, [_POINTER, _U32, _U32]),
    "model_add_interrupts": (None, [_POINTER, _POINTER, _U64]),
    "model_account": (None, [_POINTER, _U32, _U32, _U32, _POINTER]),
    "model_set_program": (None, [_POINTER, _POINTER, _U32]),
    "model_add_pokes": (None, [_POINTER, _POINTER, _U64]),
    "model_feed": (None, [_POINTER, _POINTER, _U64, _U64]),
    "model_collect": (None, [_POINTER, _U32, _POINTER, _POINTER, _U32, _POINTER, _U32]),
    "model_activities": (_U64, [_POINTER, _POINTER]),
    "model_advance": (None, [_POINTER, _U64, _U32, _POINTER, _POINTER]),
    "check_create": (_POINTER, [_POINTER]),
    "check_destroy": (None, [_POINTER]),
    "check_add_memory": (None, [_POINTER, _U32, _U32, _POINTER]),
    "check_add_errors": (None, [_POINTER, _U32, _U32]),
    "check_add_csrs": (None, [_POINTER, _U32, _POINTER, _U32]),
    "check_add_insns": (None, [_POINTER, _POINTER, _U32]),
    "check_find": (_U32, [_POINTER, _U32, _POINTER, _U32, _POINTER]),
    "check_distribute": (None, [_POINTER, _U32, _U32, _POINTER, _POINTER]),
    "check_transfers": (None, [_POINTER, _U32, _POINTER, _POINTER, _POINTER]),
    "check_block": (_U32, [_POINTER, _POINTER, _U32, _POINTER]),
    "check_finish": (None, [_POINTER]),
}


@cache
def _load(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise ToolError(f"{path.name} must be a loadable model, not one that fails with: {error}") from None
    return library


def _place(array: NDArray[Any]) -> int:
    return array.ctypes.data


def struct(dtype: np.dtype[np.void], **values: int) -> NDArray[Any]:
    """One struct as an array of one element; fields left out are 0."""
    array = np.zeros(1, dtype)
    for name, value in values.items():
        array[name] = value
    return array


class Block:
    """Room for what all harts report between two stops, and for the bus accesses that go with it."""

    def __init__(self, harts: int, size: int) -> None:
        self.size = size
        self._records = [np.empty(size, RETIREMENT) for _ in range(harts)]
        self._lines = [np.empty(size, np.uint32) for _ in range(harts)]
        # an access takes at most two grants, or one and the mark of a test&set; those of instructions still under way,
        # and what fits into a cycle, come on top
        self._grants = np.empty(harts * (2 * size + 64) + 128, GRANT)
        self.filled = [0] * harts
        self.granted = 0

    def destination(self, hart: int) -> tuple[Any, ...]:
        """Addresses and capacities of the buffers, as ``model_collect`` takes them."""
        return (
            _place(self._records[hart]),
            _place(self._lines[hart]),
            self.size,
            _place(self._grants),
            len(self._grants),
        )

    def records(self, hart: int = 0) -> Records:
        """The retirements of a hart."""
        return self._records[hart][: self.filled[hart]]

    def lines(self, hart: int = 0) -> Lines:
        """The interrupt lines at each: at its retirement; of the first instruction of an interrupt handler, when the
        interrupt was taken."""
        return self._lines[hart][: self.filled[hart]]

    @property
    def grants(self) -> NDArray[Any]:
        """The accesses, an array of GRANT in the order of the buses."""
        return self._grants[: self.granted]


class Model:
    """A simulated design with its memory, interrupt lines and instruction stream."""

    def __init__(
        self,
        path: Path,
        harts: int,
        settings: Mapping[str, int],
        windows: Windows,
        irqs: Sequence[tuple[int, int]] = (),
        wave: Path | None = None,
        errors: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._library = _load(path)
        self._kept: list[Any] = [windows]
        self._status = np.zeros(1, STATUS)
        self.harts = np.zeros(harts, HART_STATUS)
        self._handle: Any = self._library.model_create(_place(struct(SETTINGS, **settings)))
        for base, memory in windows.items():
            self._library.model_add_memory(self._handle, base, memory.size, _place(memory))
        for base, size in errors:
            self._library.model_add_errors(self._handle, base, size)
        if irqs:
            rising = np.array([(cycle, line, 0) for cycle, line in sorted(irqs)], INTERRUPT)
            self._library.model_add_interrupts(self._handle, _place(rising), len(rising))
        if wave is not None and not self._library.model_open_wave(self._handle, str(wave).encode()):
            self.close()
            raise ToolError(f"{wave} must be a file that can be written, not one that cannot")

    @property
    def status(self) -> Any:
        """State after the last :meth:`advance`."""
        return self._status[0]

    @property
    def events(self) -> Event:
        """The reasons why the last :meth:`advance` ended."""
        return Event(int(self.status["events"]))

    @property
    def cycles(self) -> int:
        """Clock cycles since reset."""
        return int(self.status["cycles"])

    def account(self, hart: int, base: int, size: int) -> NDArray[np.uint64]:
        """Count the cycles of a hart: an array of (half words of text and one for everything else, STALLS)."""
        rows = np.zeros((size // HALF_BYTES + 1, len(STALLS)), np.uint64)
        self._kept.append(rows)
        self._library.model_account(self._handle, hart, base, size, _place(rows))
        return rows

    def set_program(self, program: NDArray[Any]) -> None:
        """The text of the stream: an array of STREAM_INSN."""
        self._library.model_set_program(self._handle, _place(program), len(program))

    def add_pokes(self, pokes: NDArray[Any]) -> None:
        """Words that change in memory at stream positions: an array of POKE, ascending."""
        self._library.model_add_pokes(self._handle, _place(pokes), len(pokes))

    def feed(self, indices: U32, lookahead: int) -> None:
        """The next positions of the stream, the last ``lookahead`` (0 or 1) of them only to be foreseen."""
        self._fed = indices
        self._library.model_feed(self._handle, _place(indices), len(indices) - lookahead, lookahead)

    def collect(self, block: Block) -> None:
        """Record retirements and accesses in ``block`` from now on."""
        self._block = block
        block.filled, block.granted = [0] * len(self.harts), 0
        for hart in range(len(self.harts)):
            self._library.model_collect(self._handle, hart, *block.destination(hart))

    def advance(self, limit: int, *, drain: bool = False) -> Event:
        """Run to an event, to the cycle ``limit``, or to the end of what was fed; returns why it stopped."""
        self._library.model_advance(self._handle, limit, drain, _place(self._status), _place(self.harts))
        self._block.filled = self.harts["records"].tolist()
        self._block.granted = int(self.status["grants"])
        return self.events

    def activities(self) -> NDArray[Any]:
        """When a DMA engine has moved data from or to the memory outside so far: an array of ACTIVITY."""
        found = np.zeros(self._library.model_activities(self._handle, None), ACTIVITY)
        self._library.model_activities(self._handle, _place(found))
        return found

    def close(self) -> None:
        """Free the model and finish its waveform."""
        if self._handle is not None:
            self._library.model_destroy(self._handle)
            self._handle = None


class RetirementChain:
    """The compiled checker of the state that retirements leave to later ones, and of the order of memory accesses. For
    each block and hart :meth:`find`, :meth:`distribute` and :meth:`transfers`; then :meth:`check` follows all."""

    def __init__(
        self,
        path: Path,
        settings: Mapping[str, int],
        memory: Windows,
        csrs: Sequence[NDArray[Any]],
        errors: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._library, self._kept = _load(path), (memory, csrs)
        self._handle = handle = self._library.check_create(_place(struct(CHECK_SETTINGS, **settings)))
        weakref.finalize(self, self._library.check_destroy, handle)
        for base, content in memory.items():
            self._library.check_add_memory(handle, base, content.size, _place(content))
        for base, size in errors:
            self._library.check_add_errors(handle, base, size)
        for hart, rows in enumerate(csrs):
            self._library.check_add_csrs(handle, hart, _place(rows), len(rows))

    def add(self, insns: NDArray[Any]) -> None:
        """Make instructions known: an array of CHECK_INSN."""
        assert insns.dtype == CHECK_INSN
        self._library.check_add_insns(self._handle, _place(insns), len(insns))

    def find(self, hart: int, records: Records) -> U32:
        """The distinct words of a block that are not known; the block is looked up if there is none."""
        unknown = np.empty(len(records), np.uint32)
        count = self._library.check_find(self._handle, hart, _place(records), len(records), _place(unknown))
        return np.unique(unknown[:count])

    def distribute(self, hart: int, count: int, groups: int) -> tuple[U32, dict[str, U32]]:
        """Starts of the groups, and the arrays :data:`VALUE_FIELDS` of the values of ``count`` records by group."""
        starts = np.empty(groups + 1, np.uint32)
        values = np.empty((len(VALUE_FIELDS), count), np.uint32)
        self._library.check_distribute(self._handle, hart, groups, _place(starts), _place(values))
        return starts, dict(zip(VALUE_FIELDS, values, strict=True))

    def transfers(self, hart: int, lines: Lines | None, taken: NDArray[np.bool_], targets: U32) -> None:
        """Interrupt lines, and where control is transferred, of each retirement of a block."""
        self._block = [*getattr(self, "_block", []), lines, taken, targets]
        self._library.check_transfers(
            self._handle, hart, None if lines is None else _place(lines), _place(taken), _place(targets)
        )

    def check(self, grants: NDArray[Any]) -> tuple[int, NDArray[Any]]:
        """Number of differences, and the first of them as an array of CHECK_ERROR."""
        errors = np.empty(KEPT_ERRORS, CHECK_ERROR)
        count = self._library.check_block(self._handle, _place(grants), len(grants), _place(errors))
        self._block = []
        return count, errors[:count]

    def finish(self) -> None:
        """Apply the accesses that belong to no retirement: the run is over."""
        self._library.check_finish(self._handle)
