"""Requests for the bridges: runs of transfers to consecutive addresses, of several kinds in turn."""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

RUN_BYTES = 256
BLOCK_BYTES = 64  # No other request comes between writes of a run to such an aligned block


class Request(NamedTuple):
    """A transfer: aligned address, whether it writes, bytes, data, transfers left of its run."""

    address: int
    write: int
    enables: int
    value: int
    beats: int


def masked(before: npt.NDArray[np.uint8], request: Request) -> npt.NDArray[np.uint8]:
    """Bytes at the address of a write afterwards."""
    size = len(before)
    chosen = np.array([request.enables >> byte & 1 for byte in range(size)], np.bool_)
    return np.where(chosen, np.frombuffer(request.value.to_bytes(size, "little"), np.uint8), before)


def run(rng: Random, base: int, reach: int, size: int, *, write: bool, single: bool) -> deque[Request]:
    """A run within an aligned block of 256 bytes, somewhere in ``reach`` bytes from ``base``."""
    block = base + rng.randrange(0, reach, RUN_BYTES)
    windows = RUN_BYTES // size
    first = rng.randrange(windows)
    count = 1 if single else rng.choice((windows - first, rng.randint(1, windows - first)))
    whole = (1 << size) - 1
    requests = deque[Request]()
    for number in range(count):
        enables = whole if 0 < number < count - 1 else rng.randrange(1, whole + 1)
        value = rng.getrandbits(8 * size)
        requests.append(Request(block + (first + number) * size, int(write), enables, value, count - number))
    return requests


def line(address: int, size: int) -> deque[Request]:
    """A line of instructions, two reads."""
    whole = (1 << size) - 1
    return deque([Request(address, 0, whole, 0, 2), Request(address + size, 0, whole, 0, 1)])


class Traffic:
    """Runs of several kinds, which take turns at random."""

    def __init__(self, rng: Random, kinds: Sequence[Sequence[deque[Request]]], size: int) -> None:
        self._rng, self._size = rng, size
        self._kinds = [deque(request for one in runs for request in one) for runs in kinds]
        self._within: deque[Request] | None = None
        self.made: list[Request] = []

    @property
    def ended(self) -> bool:
        """Return whether there is nothing more to be made."""
        return not any(self._kinds)

    def next(self) -> Request | None:
        """The next request, if there is one."""
        choice = self._within or self._rng.choice([kind for kind in self._kinds if kind] or [deque[Request]()])
        if not choice:
            return None
        request = choice.popleft()
        self._within = choice if request.write and not self.ends(request) else None
        self.made.append(request)
        return request

    def ends(self, request: Request) -> bool:
        """Return whether a write is the last one of its run to an aligned block."""
        return request.beats == 1 or (request.address + self._size) % BLOCK_BYTES == 0
