"""Lines that a core's instruction cache asks for, by cycle: from what was fetched, answered and flushed, by cycle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xpulpnn.isa.cluster import ICACHE_LINE_BYTES
from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.benches.fetching import NEVER, Asked, Fetch
from xpulpnn_sim.reference.golden.icache import CacheLevel


@dataclass(frozen=True, slots=True)
class _Lookup:
    """Result of a fetch: whether its line is there and the next one is, and the cycle in which it was answered."""

    line: int
    hit: bool
    next_line: int
    next_there: bool
    answered: int


def asked_lines(
    cache: CacheLevel,
    fetches: Sequence[Fetch],
    requests: Sequence[Asked],
    flushes: Mapping[int, int | None],
    *,
    prefetch: bool,
) -> list[tuple[int, int]]:
    """Cycle and address of every request for a line, up to the answer of the last fetch; ``cache`` counts the fetches.

    One line is under way at a time. A fetch that does not find its line asks for it, unless it comes already. Otherwise
    the line behind the last fetch is asked for, if it was not there when that fetch was granted, and was not asked for
    last; not behind a flush before the next fetch. A line is kept if all of it could be read, and there was no flush
    meanwhile.
    """
    grants = {fetch.granted: fetch for fetch in fetches}
    found: list[tuple[int, int]] = []
    look: _Lookup | None = None
    asked: int | None = None
    answered, failed, fresh = -1, False, False
    for cycle in range(fetches[-1].answered + 1):
        if cycle > answered and look is not None:
            line: int | None = None
            if not look.hit and cycle <= look.answered:
                line = look.line
            elif prefetch and fresh and not look.next_there and asked != look.next_line:
                line = look.next_line
            if line is not None:
                number, asked = len(found), line
                answered, failed = requests[number].answer if number < len(requests) else (NEVER, False)
                found.append((cycle, line))
        if (fetch := grants.get(cycle)) is not None:
            first = fetch.address & -ICACHE_LINE_BYTES
            behind = first + ICACHE_LINE_BYTES & WORD_MASK
            look = _Lookup(first, cache.look_up(first), behind, cache.holds(behind), fetch.answered)
            fresh = True
        if cycle in flushes:
            address = flushes[cycle]
            if address is None:
                cache.flush()
            else:
                cache.flush_address(address)
            asked, fresh = None, False
        elif cycle == answered and asked is not None and not failed:
            cache.keep(asked)
    return found
