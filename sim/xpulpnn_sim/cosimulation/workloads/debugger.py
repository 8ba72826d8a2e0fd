"""Runs under a debugger: the socket of the test access port, and the conditions that end the run."""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.cosimulation.model.schema import Event
from xpulpnn_sim.cosimulation.model.session import CHUNK_CYCLES, RESTING
from xpulpnn_sim.reference.programs.exits import RUNTIME_CODES, Exit, Reason
from xpulpnn_sim.reference.programs.failures import EXCEPTION

Config = TypeVar("Config", CoreConfig, ClusterConfig, CoreConfig | ClusterConfig)

CONFIGURATION = Path(__file__).with_name("openocd.cfg")
GDB_SCRIPT = Path(__file__).with_name("debug.gdb")

_HOST = "127.0.0.1"
_LINGERING_CYCLES = 1 << 16  # after which a program that goes on where it has ended is halted
_HALTING_CHUNKS = 16  # of these cycles, that pass until a debugger has halted it
_LOOP_BYTES = 64  # distance from the end of a program within which it loops
_FEW = 256  # instructions: more than a debugger steps in a chunk of cycles


@dataclass(slots=True)
class Debugger:
    listener: socket.socket
    holds: bool = False  # whether the program does not start before the debugger has halted it once
    tell: Callable[[str], None] | None = None  # reports the end of the program while a debugger is connected
    halt: Callable[[], None] = lambda: None  # halts a program that has ended, also when it goes on there
    closing: bool = False  # whether to end the run as soon as possible
    end: Exit | None = None  # end of the program
    chunk: int = CHUNK_CYCLES  # cycles until the next call of `ended`
    _connected: bool = False
    _text: str = ""  # on the end
    _patience: int = 0  # chunks in which the program may not have been halted yet
    _retired: int = 0  # instructions at the last call of `ended`

    @property
    def port(self) -> int:
        return self.listener.getsockname()[1]

    def settings(self, harts: int) -> dict[str, int]:
        """Return fields of ``SETTINGS``."""
        return {"jtag": self.listener.fileno() + 1, "held": (harts + 1) * self.holds}

    def ended(self, events: Event, end: Exit | None, why: Mapping[str, str], harts: NDArray[Any]) -> Exit | None:
        """Return the end of the program; None while a debugger is connected, for which the run goes on. ``why``
        explains an end that is not a good one; ``harts`` is the state of the harts."""
        self._connected |= Event.DEBUGGER_CAME in events
        self._connected &= Event.DEBUGGER_LEFT not in events
        lingers = self._lingers(events, harts)
        if events & RESTING and (self.tell is None or self._patience > 0):
            end = None  # nobody is told, or the program is being halted
        if end is not None:
            self.end, self._text, self.chunk = end, end_text(end, why), _LINGERING_CYCLES
        if end is not None or lingers:
            if self._connected and self.tell is not None:
                self.tell(self._text)
            self.halt()
            self._patience = _HALTING_CHUNKS
        if self.closing:
            return self.end or Exit(Reason.DEBUGGER, 0, 0, None, "the debugger has left before the end")
        return None if self._connected else self.end

    def _lingers(self, events: Event, harts: NDArray[Any]) -> bool:
        """Return whether the program loops where it has ended, and has not begun anew."""
        executed, self._retired = int(harts["retired"].sum()) - self._retired, int(harts["retired"].sum())
        self._patience = 0 if Event.DEBUGGER_RESTS in events else self._patience - 1
        if self.end is None or Event.CYCLE_LIMIT not in events or executed < _FEW or self._patience > 0:
            return False
        pcs = [int(hart[name]) for hart in harts for name in ("pc", "previous_pc", "next_pc")]
        return any(abs(pc - self.end.pc) < _LOOP_BYTES for pc in pcs)


def end_text(end: Exit, why: Mapping[str, str]) -> str:
    # the code of an exception says no more than the exception
    ended = why.get(EXCEPTION, end.text) if end.code // RUNTIME_CODES == 1 else end.text
    others = (f"{what}: {text}" for what, text in why.items() if text != ended)
    return "\n".join([f"the program has ended: {ended}", *others])


def debugged(config: Config) -> Config:
    if isinstance(config, ClusterConfig):
        if config.icache_private:
            raise InputError("icache_private must be 0 for a debugger, whose breakpoints no cache sees, not more")
        return replace(config, core=replace(config.core, debug=True))
    return replace(config, debug=True)


@contextmanager
def serving(port: int, *, holds: bool = False, tell: Callable[[str], None] | None = None) -> Iterator[Debugger]:
    """Listen at a TCP port, or at any free one for 0. Raises :class:`InputError` if the port is in use."""
    try:
        listener = socket.create_server((_HOST, port), backlog=1)
    except OSError as error:
        raise InputError(f"port must be a free one, not {port}: {error.strerror}") from None
    with listener:
        yield Debugger(listener, holds, tell)
