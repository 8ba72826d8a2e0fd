"""The command line ``xpulpnn``, also as ``python -m xpulpnn_sim``."""

import atexit
import gc
import os
import signal
import sys
from functools import partial
from typing import Any

_LAST_STREAM = 2
_KILLED = 128  # exit code of a signal, less its number
_SOON = 0.01  # seconds
_ALLOCATED = 100_000  # between garbage collections: Python's default searches modules and large graphs too often


def main() -> int:
    gc.set_threshold(_ALLOCATED)
    atexit.register(gc.freeze)  # the process ends without a last search
    _open_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, partial(_end, os.getpid()))
    sys.unraisablehook = _interrupt_again
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    from xpulpnn_sim.cli.main import main as run_command

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # xpulpnn_start has its own while modules load
    return run_command()


def _end(process: int, number: int, _frame: object) -> None:
    """End by an exception, so that temporary files and child processes do not stay; forks end at once."""
    if os.getpid() != process:
        os._exit(_KILLED + number)
    sys.exit(_KILLED + number)


def _interrupt_again(ignored: Any) -> None:
    """Repeat a Ctrl-C a little later that came while an object was deleted, where Python ignores exceptions."""
    if ignored.exc_type is KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, _SOON)
    else:
        sys.__unraisablehook__(ignored)


def _open_streams() -> None:
    """Open closed standard streams on the null device, lest other files take their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= _LAST_STREAM:
        pass
    os.close(number)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


if __name__ == "__main__":
    from xpulpnn_start import main as start

    sys.exit(start())
