"""A run that a debugger looks at: the socket at which it is served, and when the run ends."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.cosimulation.model.schema import Event
from xpulpnn_sim.reference.programs.exits import Exit, Reason

Config = TypeVar("Config", CoreConfig, ClusterConfig, CoreConfig | ClusterConfig)

CONFIGURATION = Path(__file__).with_name("openocd.cfg")
"""Configuration of OpenOCD for cores behind the test access port."""

_HOST = "127.0.0.1"


@dataclass(slots=True)
class Debugger:
    """OpenOCD's end of a test access port, by its protocol remote_bitbang."""

    listener: socket.socket
    holds: bool = False  # whether the program starts when the debugger halts it for the first time, and not before
    tell: Callable[[str], None] | None = None  # takes the end of the program while a debugger looks at it
    closing: bool = False  # whether the run is to end soon, whatever the program does
    _here: bool = False
    _end: Exit | None = None  # what the program has ended with

    @property
    def port(self) -> int:
        """Number of the port at which it is served."""
        return self.listener.getsockname()[1]

    def settings(self, harts: int) -> dict[str, int]:
        """The same as fields of SETTINGS; a program that is held starts when each of the harts has been asked to halt
        alone, as debuggers do to look at it, and then all are."""
        return {"jtag": self.listener.fileno() + 1, "held": (harts + 1) * self.holds}

    def ended(self, events: Event, end: Exit | None) -> Exit | None:
        """The end of the run, behind an end of the program: that, but not while a debugger is there."""
        if Event.DEBUGGER_CAME in events:
            self._here = True
        if Event.DEBUGGER_LEFT in events:
            self._here = False
        if end is not None and self._here and self.tell is not None:
            self.tell(f"the program has ended: {end.text}")
        self._end = end or self._end
        if self.closing:
            return self._end or Exit(Reason.DEBUGGER, 0, 0, None, "the debugger has left before the end")
        return None if self._here else self._end


def debugged(config: Config) -> Config:
    """The design with debug mode."""
    if isinstance(config, ClusterConfig):
        if config.icache_private:
            raise InputError("icache_private must be 0 for a debugger, whose breakpoints no cache sees, not more")
        return replace(config, core=replace(config.core, debug=True))
    return replace(config, debug=True)


@contextmanager
def serving(port: int, *, holds: bool = False, tell: Callable[[str], None] | None = None) -> Iterator[Debugger]:
    """Listen at a port of this machine, or at any free one for 0; raises :class:`InputError` if it is taken."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, port))
        except OSError as error:
            raise InputError(f"port must be a free one, not {port}: {error.strerror}") from None
        listener.listen(1)
        yield Debugger(listener, holds, tell)
