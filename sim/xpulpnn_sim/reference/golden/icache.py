"""Golden model of the instruction caches: which lines a level keeps."""

from collections import deque

from xpulpnn.isa.cluster import ICACHE_LINE_BYTES


class CacheLevel:
    """Lines of a set-associative cache that replaces the oldest line of a set; banks are no matter."""

    def __init__(self, size: int, ways: int) -> None:
        self.hits = self.misses = 0
        self._sets = size // ICACHE_LINE_BYTES // ways
        self._ways = ways
        self.flush()

    def flush(self) -> None:
        """Forget all lines."""
        self._kept: dict[int, deque[int]] = {}

    def flush_address(self, address: int) -> None:
        """Forget the line with the byte at ``address``, and all of its set."""
        self._kept.pop(self._set_of(address), None)

    def look_up(self, address: int) -> bool:
        """Return whether the byte at ``address`` is there; counts a hit or a miss."""
        hit = self.holds(address)
        self.hits += hit
        self.misses += not hit
        return hit

    def holds(self, address: int) -> bool:
        """Return whether the byte at ``address`` is there; counts nothing."""
        return address // ICACHE_LINE_BYTES in self._kept.get(self._set_of(address), ())

    def keep(self, address: int) -> None:
        """Keep the line with the byte at ``address``, in place of the oldest of a full set."""
        kept = self._kept.setdefault(self._set_of(address), deque(maxlen=self._ways))
        kept.append(address // ICACHE_LINE_BYTES)

    def _set_of(self, address: int) -> int:
        return address // ICACHE_LINE_BYTES % self._sets
