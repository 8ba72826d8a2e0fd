"""Forks of this single-threaded process, which share its state, and interrupts that let a run clean up."""

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Generic, TypeVar

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def single_interrupt() -> Generator[None]:
    """Turn the first Ctrl-C, SIGTERM or SIGHUP that is not ignored into a :class:`KeyboardInterrupt`; ignore later ones
    until the block ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    numbers = [number for number in _NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]

    def interrupt(number: int, frame: object) -> None:
        for signal_number in numbers:
            signal.signal(signal_number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


Tag = TypeVar("Tag")


class Forks(Generic[Tag]):
    """At most ``jobs`` forks at a time; ``on_exit`` is called with the tag and the exit code of each fork."""

    def __init__(self, jobs: int, on_exit: Callable[[Tag, int], None] | None = None) -> None:
        self._jobs, self._on_exit = jobs, on_exit
        self._running: dict[int, Tag] = {}

    def start(self, tag: Tag) -> bool:
        """Fork once fewer than ``jobs`` forks run; return True in the child, which must end with :func:`os._exit`."""
        while len(self._running) >= self._jobs:
            self._wait()
        child = os.fork()
        if child:
            self._running[child] = tag
        return not child

    def wait(self) -> list[int]:
        return [self._wait() for _ in range(len(self._running))]

    def _wait(self) -> int:
        child, status = os.wait()
        while child not in self._running:
            child, status = os.wait()
        tag, code = self._running.pop(child), os.waitstatus_to_exitcode(status)
        if self._on_exit is not None:
            self._on_exit(tag, code)
        return code


def silence() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def limit_computing(seconds: float) -> None:
    """Let the signal SIGPROF end this process once it has used ``seconds`` of CPU time."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
