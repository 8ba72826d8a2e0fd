"""Python bindings of the C interface of compiled models, ``native/model.cpp``."""

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import ToolError, require
from xpulpnn.isa.machine import HALF_BYTES
from xpulpnn_sim.cosimulation.model import schema
from xpulpnn_sim.reference.programs.retirements import RETIREMENT, Records

Windows = Mapping[int, NDArray[np.uint8]]  # memory by base address; bases and sizes are multiples of 4

U32 = NDArray[np.uint32]


@cache
def _load(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
        library.model_create.restype = ctypes.c_void_p
    except (OSError, AttributeError) as error:
        raise ToolError(f"{path.name} must be a loadable model, not one that fails with: {error}") from None
    return library


def struct(dtype: np.dtype[np.void], **values: int) -> NDArray[Any]:
    array = np.zeros(1, dtype)
    for name, value in values.items():
        array[name] = value
    return array


def _windows(memory: Windows, errors: Sequence[tuple[int, int]]) -> NDArray[Any]:
    rows = [(content.ctypes.data, base, content.size) for base, content in memory.items()]
    return np.array([*rows, *((0, base, size) for base, size in errors)], schema.WINDOW)


class Block:
    """Buffers for the retirements of all harts and for their bus accesses, between two stops of the model."""

    def __init__(self, harts: int, size: int) -> None:
        self.size = size
        self._records = [np.empty(size, RETIREMENT) for _ in range(harts)]
        self._lines = [np.empty(size, np.uint32) for _ in range(harts)]
        self._waits: list[NDArray[Any]] = [np.empty(size, schema.WAITS) for _ in range(harts)]
        # an access takes at most two grants, or one and the mark of a test&set; the rest is for instructions in flight
        # and for the grants of one cycle
        self._grants = np.empty(harts * (2 * size + 64) + 128, schema.GRANT)
        self.filled = [0] * harts
        self.granted = 0

    def destination(self, hart: int) -> tuple[Any, ...]:
        places = self._records[hart], self._lines[hart], self._waits[hart]
        return *places, self.size, self._grants, len(self._grants)

    def records(self, hart: int = 0) -> Records:
        return self._records[hart][: self.filled[hart]]

    def lines(self, hart: int = 0) -> U32:
        """Return the interrupt lines at each retirement; for the first instruction of a handler, those at its entry."""
        return self._lines[hart][: self.filled[hart]]

    def waits(self, hart: int = 0) -> U32:
        return self._waits[hart][: self.filled[hart]]

    @property
    def grants(self) -> NDArray[Any]:
        return self._grants[: self.granted]


class Model:
    """A design under simulation with its memory, interrupt lines and instruction stream."""

    def __init__(
        self,
        path: Path,
        harts: int,
        settings: Mapping[str, int],
        memory: Windows,
        irqs: Sequence[tuple[int, int]] = (),
        wave: Path | None = None,
        errors: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._buffers: list[Any] = [memory]
        self._status = np.zeros(1, schema.STATUS)
        self.harts = np.zeros(harts, schema.HART_STATUS)
        windows, rising = _windows(memory, errors), np.array([(*irq, 0) for irq in sorted(irqs)], schema.INTERRUPT)
        file = None if wave is None else str(wave).encode()
        self._library = _load(path)
        self._own: tuple[int, ...] = ()
        given = struct(schema.SETTINGS, **settings), windows, len(windows), rising, len(rising), file
        handle = self._call("create", *given)
        require(handle, f"{wave} must be a file that can be written, not one that cannot", ToolError)
        self._own = (handle,)

    def _call(self, function: str, *arguments: Any) -> int:
        """Call a function of the library, which takes 64-bit integers and addresses of arrays."""
        call = getattr(self._library, f"model_{function}")
        return call(
            *(
                ctypes.c_uint64(argument) if isinstance(argument, int) else getattr(argument, "ctypes", argument)
                for argument in (*self._own, *arguments)
            )
        )

    def close(self) -> None:
        if self._own:
            self._call("destroy")
            self._own = ()

    @property
    def status(self) -> Any:
        return self._status[0]

    @property
    def events(self) -> schema.Event:
        return schema.Event(int(self.status["events"]))

    @property
    def cycles(self) -> int:
        return int(self.status["cycles"])

    def account(self, hart: int, base: int, size: int) -> NDArray[np.uint64]:
        """Start to count the cycles of a hart."""
        rows = np.zeros((size // HALF_BYTES + 1, len(schema.STALLS)), np.uint64)
        self._buffers.append(rows)
        self._call("account", hart, base, size, rows)
        return rows

    def set_stream(self, program: NDArray[Any], sequence: U32, pokes: NDArray[Any] | None = None) -> None:
        """Set the instructions of a stream (an array of ``STREAM_INSN``), the order in which they are executed, and the
        memory words that change at positions of that order (an array of ``POKE``, ascending)."""
        pokes = np.zeros(0, schema.POKE) if pokes is None else pokes
        self._buffers.append(sequence)
        self._call("set_stream", program, len(program), sequence, len(sequence), pokes, len(pokes))

    def collect(self, block: Block) -> None:
        self._block = block
        block.filled, block.granted = [0] * len(self.harts), 0
        for hart in range(len(self.harts)):
            self._call("collect", hart, *block.destination(hart))

    def advance(self, limit: int) -> schema.Event:
        """Run until an event, the cycle ``limit`` or the end of the stream; return the events that stopped the run."""
        self._call("advance", limit, self._status, self.harts)
        self._block.filled = self.harts["records"].tolist()
        self._block.granted = int(self.status["grants"])
        return self.events

    def activities(self) -> NDArray[Any]:
        activities = np.zeros(self._call("activities", None), schema.ACTIVITY)
        self._call("activities", activities)
        return activities
