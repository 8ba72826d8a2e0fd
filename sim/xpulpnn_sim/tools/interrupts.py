"""An interrupt that lets a run tidy up."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def single_interrupt() -> Generator[None]:
    """Turn the first Ctrl-C or SIGTERM into :class:`KeyboardInterrupt`; ignore all others until the block is left."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        for one in _NUMBERS:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = [signal.signal(number, interrupt) for number in _NUMBERS]
    try:
        yield
    finally:
        for number, handler in zip(_NUMBERS, before, strict=True):
            signal.signal(number, handler)
