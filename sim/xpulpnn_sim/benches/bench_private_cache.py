"""Bench of a core's instruction cache: words, hits and misses, their timing, errors, and flushes at any moment."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from random import Random
from typing import Any

from cocotb.triggers import ClockCycles, RisingEdge

from xpulpnn.isa.cluster import ICACHE_LINE_BYTES
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.agents.base import Agent, AgentGroup, Dut, PortDriver, PortMonitor, drive, pulse_reset
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import OUTSTANDING_LIMIT, PROMPT, ObiManager, ObiSubordinate, ObiTiming, ObiTransfer
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.launcher_data import bench_data, configuration
from xpulpnn_sim.reference.golden.tcdm import CacheLevel, Request

PART_BYTES = 8  # unit of memory errors
_SPREAD, _CHANGE = 0x9E37_79B1, 0x85EB_CA6B


class ChangingCode:
    """Words that depend on their address and on the number of code changes."""

    def __init__(self, rng: Random, failing: float = 0.0) -> None:
        self.generation = 0
        self._failures = defaultdict[int, bool](lambda: rng.random() < failing)
        self._settled = 0
        self._settled_lines: dict[int, int] = {}

    def settle(self, address: int | None = None) -> None:
        """From now on accept only the current generation of code, at all addresses or in the line at ``address``."""
        if address is None:
            self._settled = self.generation
        else:
            self._settled_lines[address // ICACHE_LINE_BYTES] = self.generation

    def oldest(self, address: int) -> int:
        return max(self._settled, self._settled_lines.get(address // ICACHE_LINE_BYTES, 0))

    def word(self, address: int, generation: int) -> int:
        """Return the aligned word at ``address`` in a generation; every bit is 0 and 1 in some generation."""
        return (address // WORD_BYTES * _SPREAD ^ generation * _CHANGE) & WORD_MASK

    def read(self, address: int, size: int) -> int:
        words = [self.word(address + offset, self.generation) for offset in range(0, size, WORD_BYTES)]
        return sum(word << WORD_BYTES * BYTE_BITS * number for number, word in enumerate(words))

    def fails(self, address: int) -> bool:
        return self._failures[address // PART_BYTES]


class CodeMemory(ObiSubordinate):
    def __init__(
        self, dut: Dut, port: str, code: ChangingCode, timing: ObiTiming, rng: Random, **transfers: Any
    ) -> None:
        super().__init__(dut, port, timing, rng, **transfers)
        self._code = code

    @property
    def requests(self) -> list[int]:
        return [grant.address for grant in self.log]

    def _serve(self, request: Request) -> tuple[int, int]:
        parts = enumerate(range(request.address, request.address + self._size, PART_BYTES))
        errors = sum(self._code.fails(part) << number for number, part in parts)
        return self._code.read(request.address, self._size), errors


class Fetcher(ObiManager):
    """Fetches as a core; each word must be of a code generation between the grant and the answer of its fetch."""

    def __init__(self, dut: Dut, port: str, code: ChangingCode, rng: Random, *, idle: float = 0.0) -> None:
        super().__init__(dut, port, outstanding=OUTSTANDING_LIMIT["instr"], pause=idle, rng=rng)
        self._code = code
        self._oldest: deque[int] = deque()

    def _on_grant(self, transfer: ObiTransfer) -> None:
        self._oldest.append(self._code.oldest(transfer.address))

    def _on_answer(self, transfer: ObiTransfer) -> None:
        failing, allowed = self._code.fails(transfer.address), range(self._oldest.popleft(), self._code.generation + 1)
        assert transfer.failed == failing, f"{transfer}: error must be {failing}"
        words = [self._code.word(transfer.address, generation) for generation in allowed]
        assert failing or transfer.data in words, f"{transfer}: word must be of {words}"

    async def fetch(self, addresses: Iterable[int]) -> None:
        await self.run(map(ObiTransfer, addresses))
        await RisingEdge(self._clk)


def wandering(rng: Random, count: int, *, spread: int = 4) -> list[int]:
    """Return addresses of a random program: straight code, short loops, jumps within ``spread`` regions."""
    stretches = [rng.randrange(1 << 20) * ICACHE_LINE_BYTES * 8 + at for at in range(0, spread * 256, 256)]
    stretches.append(WORD_MASK & -64)
    addresses: list[int] = []
    while len(addresses) < count:
        first = rng.choice(stretches) + rng.randrange(64) * WORD_BYTES
        length, turns = rng.randint(1, 40), rng.choice((1, 1, 3))
        addresses += [(first + at * WORD_BYTES) & WORD_MASK for at in range(length)] * turns
    return addresses[:count]


def requested_lines(
    cache: CacheLevel,
    fetches: Sequence[ObiTransfer],
    requests: Sequence[ObiTransfer],
    flushes: Mapping[int, int | None],
    *,
    prefetch: bool,
) -> list[tuple[int, int]]:
    """Return cycle and address of every expected line request; ``cache`` counts hits and misses of the fetches.

    One line is outstanding at a time. A fetch that misses requests its line, unless that is outstanding already.
    Otherwise the line after the last fetch is requested, if it was not cached when that fetch was granted, and was not
    the last one requested; after a flush not before the next fetch. A line is stored if all of it could be read,
    without a flush meanwhile.
    """
    grants = {fetch.granted: fetch for fetch in fetches}
    requested: list[tuple[int, int]] = []
    # lines to request for the last fetch: its own until its answer, then the next one
    missing: int | None = None
    prefetched: int | None = None
    until, last_line, answered, failed = -1, -1, -1, False
    for cycle in range(fetches[-1].answered + 1):
        line = missing if cycle <= until and missing is not None else prefetched
        if cycle > answered and line is not None and (line == missing or line != last_line):
            request = requests[len(requested)] if len(requested) < len(requests) else ObiTransfer(line)
            last_line, failed = line, request.failed
            answered = _NEVER if request.answered < 0 else request.answered
            requested.append((cycle, line))
        if (fetch := grants.get(cycle)) is not None:
            line = fetch.address & -ICACHE_LINE_BYTES
            next_line = line + ICACHE_LINE_BYTES & WORD_MASK
            missing, until = None if cache.look_up(line) else line, fetch.answered
            prefetched = next_line if prefetch and not cache.holds(next_line) else None
        if cycle in flushes:
            address = flushes[cycle]
            if address is None:
                cache.flush()
            else:
                cache.flush_address(address)
            last_line, prefetched = -1, None
        elif cycle == answered and last_line >= 0 and not failed:
            cache.fill(last_line)
    return requested


_FETCHES = 250
_NEVER = 1 << 30  # cycle of an answer that does not come
_SLOW = 20  # fewer words are fetched from memories with at least this latency
_NEXT_LEVEL = ObiTiming(1.0, 2, 2)  # timing of a hit in the shared cache
_PREFETCHES = [0, 1] if configuration().prefetch else [0]
_TIMINGS = [PROMPT, _NEXT_LEVEL, ObiTiming(0.5, 1, 12), ObiTiming(0.2, 20, 40)]


class Flusher(Agent):
    def __init__(
        self, dut: Dut, code: ChangingCode, rng: Random, fetcher: Fetcher, flushes: dict[int, int | None]
    ) -> None:
        super().__init__(dut)
        self.flushes = flushes  # gets the address of a line, or None for all, by cycle
        self._code, self._rng, self._fetcher, self._cycle = code, rng, fetcher, 0
        self._control = PortDriver(dut, "control__")

    def drive(self) -> None:
        rng = self._rng
        if self._cycle - 1 in self.flushes:
            self._code.settle(self.flushes[self._cycle - 1])
        self.release()
        if rng.random() < 0.01:
            recent = self._fetcher.completed[-1].address if self._fetcher.completed else 0
            address = (recent + rng.choice((0, ICACHE_LINE_BYTES))) & WORD_MASK if rng.random() < 0.5 else None
            self._code.generation += 1
            self.flushes[self._cycle] = address
            self._control.drive(**{"flush" if address is None else "flush_line": 1})
            self._control.drive(line=(address or 0) // ICACHE_LINE_BYTES)
        self._cycle += 1

    def release(self) -> None:
        self._control.drive(flush=0, flush_line=0)


class CacheEnv:
    """A core's cache, which prefetches or not, with the core and the next level."""

    def __init__(self, dut: Dut, rng: Random, prefetch: int = 0) -> None:
        self.dut, self.rng, self.board, self.late = dut, rng, Scoreboard(), int(bench_data()["late"])
        drive(dut, {"control__enable": 1, "control__prefetch": prefetch})

    @cached_property
    def first(self) -> int:
        """Address of a line, drawn by the tests that use it."""
        return 0x1C00_0000 + self.rng.randrange(64) * ICACHE_LINE_BYTES

    async def fetch(
        self,
        addresses: Iterable[int],
        timing: ObiTiming = PROMPT,
        *,
        failing: float = 0.0,
        idle: float = 0.0,
        others: Callable[[ChangingCode, Fetcher], Sequence[Agent]] = lambda _code, _fetcher: (),
    ) -> tuple[Fetcher, CodeMemory]:
        """Fetch words of new code, while the agents that ``others`` makes are active."""
        dut, rng, code = self.dut, self.rng, ChangingCode(self.rng, failing)
        fetcher = Fetcher(dut, "core", code, rng, idle=idle)
        line = CodeMemory(dut, "line", code, timing, rng, size=ICACHE_LINE_BYTES, shift=4, outstanding=1)
        with AgentGroup(dut, [line, fetcher, *others(code, fetcher)]):
            await fetcher.fetch(addresses)
            await ClockCycles(dut.clk, 2 * timing.slowest)
        return fetcher, line

    def check_flow(self, fetcher: Fetcher, skipped: int) -> None:
        flow = fetcher.completed[skipped:]
        grants = [fetch.granted for fetch in flow]
        self.board.equal(grants, [*range(grants[0], grants[0] + len(flow))], "grants")
        self.board.equal({fetch.answered - fetch.granted for fetch in flow}, {1}, "answers")


@unit_test(env=CacheEnv, timing=_TIMINGS, prefetch=_PREFETCHES, failing=[0.0, 0.1], flushing=[False, True])
async def words_are_right(env: CacheEnv, timing: ObiTiming, prefetch: int, failing: float, flushing: bool) -> None:
    """Random programs over a memory that stalls, fails and changes: all hits and requested lines are predicted."""
    dut, equal, config = env.dut, env.board.equal, configuration()
    number = _FETCHES if timing.slowest < _SLOW else _FETCHES // 4
    for idle in (0.0, 0.3):
        monitor, flushes = PortMonitor(dut, ("hit", "miss", "waits")), dict[int, int | None]()

        def others(code: ChangingCode, fetcher: Fetcher, monitor=monitor, flushes=flushes) -> Sequence[Agent]:
            return [monitor, *[Flusher(dut, code, env.rng, fetcher, flushes)] * flushing]

        fetcher, line = await env.fetch(wandering(env.rng, number), timing, failing=failing, idle=idle, others=others)
        fetches = fetcher.completed
        hits, misses, waits = (sum(column) for column in zip(*monitor.rows, strict=True))
        equal(hits + misses, len(fetches), "hits and misses")
        equal(waits, sum(fetch.granted - fetch.requested for fetch in fetches), "waits")
        cache = CacheLevel(config.icache_private, config.icache_ways)
        expected = requested_lines(cache, fetches, line.transfers, flushes, prefetch=bool(prefetch))
        equal((hits, misses), (cache.hits, cache.misses), "hits, misses")
        requested = [(request.requested - env.late, request.address) for request in line.transfers]
        observed = [(cycle, address) for cycle, address in requested if cycle <= fetches[-1].answered]
        equal(observed, expected, "lines asked for")
        await pulse_reset(dut)


@unit_test(env=CacheEnv)
async def a_word_per_cycle(env: CacheEnv) -> None:
    """In a loop as large as the cache, a word is fetched in every cycle from the second iteration on."""
    size = configuration().icache_private
    loop = range(env.first, env.first + size, WORD_BYTES)
    fetcher, line = await env.fetch([*loop] * 3)
    env.board.equal(len(line.requests), size // ICACHE_LINE_BYTES, "lines")
    env.check_flow(fetcher, len(loop))


@unit_test(env=CacheEnv)
async def a_miss_is_answered_with_its_line(env: CacheEnv) -> None:
    """A miss takes one cycle more than an access of the next level."""
    for number, latency in enumerate((1, 2, 7, 40)):
        # lines that have not been fetched before
        first = env.first + 128 * number * ICACHE_LINE_BYTES
        fetcher, _ = await env.fetch([first, first + 4 * ICACHE_LINE_BYTES], ObiTiming(1.0, latency, latency))
        latencies = [fetch.answered - fetch.granted for fetch in fetcher.completed]
        env.board.equal(latencies, [1 + latency + env.late] * 2, "latency")


@unit_test(env=partial(CacheEnv, prefetch=1), skip=not configuration().prefetch)
async def straight_code_flows(env: CacheEnv) -> None:
    """Straight code from the next level is fetched with a word in every cycle after the first line."""
    fetcher, line = await env.fetch(range(env.first, env.first + 1024, WORD_BYTES), _NEXT_LEVEL)
    env.check_flow(fetcher, 2 * ICACHE_LINE_BYTES // WORD_BYTES)
    env.board.equal(len(line.requests) - 1024 // ICACHE_LINE_BYTES in (0, 1), True, "one line ahead at most")


@unit_test(env=partial(CacheEnv, prefetch=1))
async def disabled_keeps_nothing(env: CacheEnv) -> None:
    """Every fetch of a disabled cache goes to the next level, and nothing is prefetched."""
    loop = range(env.first, env.first + 64, WORD_BYTES)
    await env.fetch(loop)
    env.dut.control__enable.value = 0
    await RisingEdge(env.dut.clk)
    _, line = await env.fetch(loop)
    env.board.equal(line.requests, [address & -ICACHE_LINE_BYTES for address in loop], "lines")
