"""A run that a debugger looks at: the socket at which it is served, and when the run ends."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from xpulpnn.errors import InputError
from xpulpnn_sim.cosimulation.model.schema import Event
from xpulpnn_sim.reference.programs.exits import Exit

_HOST = "127.0.0.1"
_REQUESTS = 2  # to halt, before a program that is held starts


@dataclass(slots=True)
class Debugger:
    """OpenOCD's end of a test access port, by its protocol remote_bitbang."""

    listener: socket.socket
    holds: bool = False  # whether the program starts when the debugger halts it for the first time, and not before
    _here: bool = False
    _end: Exit | None = None  # what the program has ended with, while a debugger still looks at it

    @property
    def port(self) -> int:
        """Number of the port at which it is served."""
        return self.listener.getsockname()[1]

    def settings(self) -> dict[str, int]:
        """The same as fields of SETTINGS."""
        return {"jtag": self.listener.fileno() + 1, "held": _REQUESTS * self.holds}

    def ended(self, events: Event, end: Exit | None) -> Exit | None:
        """The end of the run, behind an end of the program: that, but not while a debugger is there."""
        if Event.DEBUGGER_CAME in events:
            self._here = True
        if Event.DEBUGGER_LEFT in events:
            self._here = False
        self._end = end or self._end
        return None if self._here else self._end


@contextmanager
def serving(port: int, *, holds: bool = False) -> Iterator[Debugger]:
    """Listen at a port of this machine, or at any free one for 0; raises :class:`InputError` if it is taken."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, port))
        except OSError as error:
            raise InputError(f"port must be a free one, not {port}: {error.strerror}") from None
        listener.listen(1)
        yield Debugger(listener, holds)
