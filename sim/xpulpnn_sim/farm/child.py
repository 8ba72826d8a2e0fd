"""A function in a process of its own, which can be ended at any time with all the tools it started.

The process leads a process group. The group is killed when its time is up, when whoever started it asks for that, and
when whoever started it is gone, however that came about.
"""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic, sleep
from typing import Any

LOG = "log.txt"
"""File in the folder of a process that gets its output and that of its tools."""

SCRATCH = ".scratch"
"""Folder inside that of a process for what its tools would leave behind if they were killed."""

_CALL = "call.pickle"
_GRACE_S = 5.0
"""Time in which a process that has said all ends by itself."""

_BOOTSTRAP = "import sys; sys.path[:] = {path!r}; from xpulpnn_sim.farm.child import serve; serve({call!r}, {ends!r})"

Tell = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class _Told:
    message: Any


@dataclass(frozen=True, slots=True)
class _Returned:
    value: Any


class Child:
    """A process that calls a function."""

    def __init__(
        self,
        function: Callable[..., Any],
        parts: tuple[bytes, ...],
        folder: Path,
        timeout_s: float,
        *,
        inside: bool = False,
    ) -> None:
        self.folder = folder
        self.timeout_s = timeout_s
        self.returned = False
        self.value: Any = None
        scratch = folder.resolve() / SCRATCH
        scratch.mkdir(parents=True, exist_ok=True)
        (scratch / _CALL).write_bytes(pickle.dumps((function, parts)))
        theirs_alive, self._alive = os.pipe()
        ours, theirs = os.pipe()
        self.receiver = Connection(ours, writable=False)
        command = _BOOTSTRAP.format(
            path=[str(Path(place).resolve()) for place in sys.path],
            call=str(scratch / _CALL),
            ends=(theirs_alive, theirs),
        )
        try:
            with (folder / LOG).open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", command],
                    cwd=folder if inside else None,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "TMPDIR": str(scratch)},
                    pass_fds=(theirs_alive, theirs),
                    process_group=0,
                )
        except BaseException:
            os.close(self._alive)
            self.receiver.close()
            raise
        finally:
            os.close(theirs_alive)
            os.close(theirs)
        self.deadline = monotonic() + timeout_s

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return monotonic() >= self.deadline

    def receive(self) -> tuple[Any, bool]:
        """Wait for one message; returns it and whether it is one: there are no more if not."""
        try:
            message = self.receiver.recv()
        except (EOFError, OSError):
            return None, False
        if isinstance(message, _Told):
            self.deadline = monotonic() + self.timeout_s
            return message.message, True
        self.returned, self.value = True, message.value
        return None, False

    def end(self, *, kill: bool = False) -> int | None:
        """Kill the group; returns the exit code of a process that had ended by itself, else None."""
        until = monotonic() + (0.0 if kill else _GRACE_S)
        # its number stays its own as long as nobody has asked for its exit code
        while not (ended := self._has_ended()) and monotonic() < until:
            sleep(0.01)
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._process.kill()
        code = self._process.wait()
        self.receiver.close()
        os.close(self._alive)
        shutil.rmtree(self.folder / SCRATCH, ignore_errors=True)
        return code if ended else None

    def _has_ended(self) -> bool:
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def why(self, code: int | None) -> str:
        """Why there is no value, by what :meth:`end` returned."""
        if code is None:
            return f"must end within {self.timeout_s:g} s, not be stopped then"
        if code < 0:
            return f"its process must end by itself, not be killed by {signal.Signals(-code).name}"
        return f"its process must end with a result, not with exit code {code} (see {LOG})"


def serve(call: str, ends: tuple[int, int]) -> None:
    """What a process does; ends at once with whoever started it."""
    alive, sender = ends
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    # tools must not inherit what tells that this process has ended
    for end in ends:
        os.set_inheritable(end, False)
    with Connection(sender, readable=False) as connection:
        function, parts = pickle.loads(Path(call).read_bytes())
        value = function(lambda message: connection.send(_Told(message)), *map(pickle.loads, parts))
        connection.send(_Returned(value))


def _end_with(alive: int) -> None:
    os.read(alive, 1)
    os.killpg(0, signal.SIGKILL)
