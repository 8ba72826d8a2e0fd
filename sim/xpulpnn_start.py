"""Starts the command line. Ctrl-C ends it in one line also while Python loads the modules."""

import os

_signal = __import__("_signal")  # built in, unlike signal, which loads others; type checkers do not know it


def main() -> int:
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _end)
    from xpulpnn_sim.__main__ import main as run_command

    return run_command()


def _end(*_: object) -> None:
    os.write(2, b"error: interrupted\n")
    os._exit(130)
