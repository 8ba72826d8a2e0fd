"""A process that answers one call after the other, and is killed together with all tools of the calls.

The process leads a process group, which is killed when a call exceeds its time limit, when the process ends, on
request, and when the parent process dies.
"""

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any

from xpulpnn.errors import ToolError, XpulpnnError

_GRACE_S = 5.0  # time for a silent process to end by itself
_LOOK_S = 0.5  # polling interval for cancelled calls

_BOOTSTRAP = (
    "import sys; sys.path[:] = {path!r}; from xpulpnn_sim.tools.worker_process import serve; "
    "serve({alive}, {calls}, {shared!r})"
)


class CallError(ToolError):
    """The process of a call was killed, crashed or timed out."""


@dataclass(frozen=True, slots=True)
class Shared:
    """An argument of many calls, which each process reads once from a file in the folder of shared arguments."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAnswer:
    value: Any = None
    error: Exception | None = None  # exception of the call, or a CallError
    output: str = ""  # output of the process and its tools


class WorkerProcess:
    """A new interpreter, without the threads and the main script of the parent process."""

    def __init__(self, folder: Path, shared: Path) -> None:
        # for output of the process and temporary files of its tools
        self._output = folder / "output"
        self._lock = Lock()
        self._code: int | None = None
        self._calls, theirs = Pipe()
        alive, self._alive = os.pipe()
        bootstrap = _BOOTSTRAP.format(
            path=[str(Path(place).absolute()) for place in sys.path],
            alive=alive,
            calls=theirs.fileno(),
            shared=str(shared),
        )
        try:
            with self._output.open("ab") as output:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", bootstrap],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, "TMPDIR": str(folder)},
                    pass_fds=(alive, theirs.fileno()),
                    process_group=0,
                )
        except BaseException:
            os.close(self._alive)
            self._calls.close()
            raise
        finally:
            os.close(alive)
            theirs.close()

    @property
    def has_ended(self) -> bool:
        return self._code is not None

    def call(self, call: bytes, timeout_s: float, is_wanted: Callable[[], bool] | None = None) -> WorkerAnswer:
        """Let the process answer a call packed by :func:`pack_object`; kill it if it does not answer in time."""
        began = self._output.stat().st_size
        deadline = monotonic() + timeout_s
        answer = None
        try:
            self._calls.send_bytes(call)
            while answer is None and monotonic() < deadline and (is_wanted is None or is_wanted()):
                if self._calls.poll(_LOOK_S if is_wanted else min(deadline - monotonic(), 3600.0)):
                    answer = self._calls.recv_bytes()
        except (OSError, EOFError):
            why = _why(self._end(_GRACE_S))
        else:
            why = f"must end within {timeout_s:g} s, not be stopped then"
        if answer is None:
            self.kill()
        with self._output.open("rb") as file:
            file.seek(began)
            output = file.read().decode(errors="replace")
        if answer is None:
            return WorkerAnswer(error=CallError(why), output=output)
        value, error = pickle.loads(answer)
        return WorkerAnswer(value=value, error=error, output=output)

    def kill(self) -> None:
        self._end(0.0)

    def _end(self, grace_s: float) -> int | None:
        """Kill the process group; return the exit code, or None if the process was killed after ``grace_s``."""
        with self._lock:
            if self._code is not None:
                return self._code
            until = monotonic() + grace_s
            # the pid is not reused before the exit status is collected
            arguments = os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
            while not (ended := os.waitid(*arguments) is not None) and monotonic() < until:
                sleep(0.01)
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                self._process.kill()
            self._code = self._process.wait()
            os.close(self._alive)
            return self._code if ended else None


def _why(code: int | None) -> str:
    if code is None or code == -signal.SIGKILL:
        return "its process must end by itself, not be killed by SIGKILL"
    if code < 0:
        return f"its process must end by itself, not be killed by {signal.Signals(-code).name}"
    return f"its process must end with a result, not with exit code {code}"


def pack_object(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> bytes:
    """Pickle a call; when it runs, :class:`Shared` arguments are replaced by the contents of their files."""
    return pickle.dumps((function, arguments, named))


def serve(alive: int, calls: int, shared: str) -> None:
    """Answer calls until there are no more; end when the parent process ends. ``shared`` has the shared arguments."""
    for end in (alive, calls):
        # tools must not inherit the pipes by which the parent notices the end
        os.set_inheritable(end, False)
    Thread(target=_end_with, args=(alive,), daemon=True).start()
    with Connection(calls) as connection:
        while True:
            try:
                call = connection.recv_bytes()
            except EOFError:
                return
            answer = _answer(call, Path(shared))
            sys.stdout.flush()
            sys.stderr.flush()
            connection.send_bytes(answer)


def _end_with(alive: int) -> None:
    os.read(alive, 1)
    os.killpg(0, signal.SIGKILL)


def _answer(call: bytes, shared: Path) -> bytes:
    try:
        function, arguments, named = pickle.loads(call)
        value = function(
            *(_loaded(shared / argument.name) if isinstance(argument, Shared) else argument for argument in arguments),
            **named,
        )
        return pickle.dumps((value, None))
    except Exception as error:
        if not isinstance(error, XpulpnnError):
            error.add_note("".join(traceback.format_exception(error)))
        try:
            answer = pickle.dumps((None, error))
            pickle.loads(answer)
        except Exception:  # an exception that cannot be pickled
            return pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}")))
        return answer


@lru_cache(8)
def _loaded(path: Path) -> Any:
    return pickle.loads(path.read_bytes())
