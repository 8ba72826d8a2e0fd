"""Bench of the instruction caches of several cores: words, counters, flushes and errors, with any memory timing."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import product
from random import Random
from typing import NamedTuple

from cocotb.triggers import ClockCycles, RisingEdge, gather

from xpulpnn.isa.cluster import BLOCK_BYTES, ICACHE_LINE_BYTES, Icache, IcacheCounter
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK, XLEN
from xpulpnn_sim.benches.agents.base import AgentGroup, Dut, background, drive, pulse_reset
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import PROMPT, ObiManager, ObiTiming, ObiTransfer
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.bench_private_cache import PART_BYTES, ChangingCode, CodeMemory, Fetcher, wandering
from xpulpnn_sim.benches.launcher_data import bench_data, configuration
from xpulpnn_sim.reference.golden.tcdm import CacheLevel
from xpulpnn_sim.reference.stimuli import near_offsets

_FETCHES = 150
_MOST_IDLE = 0.6  # probability that a core pauses between fetches
_LATE = 4  # cycles until an event is counted
_TIMINGS = [PROMPT, ObiTiming(1.0, 20, 20), ObiTiming(0.5, 1, 40)]
_WARM_LATENCY = 3  # cycles from the grant of a fetch to its answer if only the shared cache has its line


class Counts(NamedTuple):
    hits: int
    transactions: int
    misses: int
    congestion: int


class CacheEnv:
    """The caches of all cores, the code that they hold, and models of the caches."""

    def __init__(self, dut: Dut, rng: Random, failing: float = 0.0) -> None:
        self.dut, self.rng, self.board, self.code = dut, rng, Scoreboard(), ChangingCode(rng, failing)
        config = self.config = configuration()
        self.private = [CacheLevel(config.icache_private, config.icache_ways) for _ in range(config.cores)]
        self.shared = CacheLevel(config.icache_shared, config.icache_ways)

    async def access(self, register: int, value: int | None = None, *, fails: bool = False) -> int:
        with ObiManager(self.dut, "port") as software:
            access = await software.run([ObiTransfer(register, int(value is not None), value=value or 0)])
            await RisingEdge(self.dut.clk)
        assert access.answered == access.granted + 1, "registers answer in the next cycle"
        assert access.failed == fails, f"error at {register:#x} must be {fails}"
        return access.data

    async def counters(self) -> tuple[Counts, Counts]:
        """Return the counters of the cores' caches, and those of the shared cache."""
        order = (IcacheCounter.HITS, IcacheCounter.TRANSACTIONS, IcacheCounter.MISSES, IcacheCounter.CONGESTION)
        levels = (Icache.PRIVATE_COUNTERS, Icache.SHARED_COUNTERS)
        words = [[await self.access(first + WORD_BYTES * counter) for counter in order] for first in levels]
        return Counts(*words[0]), Counts(*words[1])

    async def _flush(self, fetchers: Sequence[Fetcher]) -> None:
        rng, code = self.rng, self.code
        while True:
            await ClockCycles(self.dut.clk, rng.choice((1, 300, 600)))
            code.generation += 1
            fetches = rng.choice(fetchers).completed
            if rng.random() < 0.5 and fetches:
                address = fetches[-1].address
                await self.access(Icache.FLUSH_ADDRESS, address)
                code.settle(address)
            else:
                await self.access(rng.choice((Icache.FLUSH, Icache.ENABLE)), 1)
                code.settle()

    async def fetch(
        self,
        *streams: Sequence[int],
        timing: ObiTiming = PROMPT,
        first: int = 0,
        flush: bool = False,
        idle: float = 0.0,
    ) -> tuple[list[Fetcher], list[int]]:
        """Fetch streams of addresses, one by each core from ``first`` on; return fetchers and requests to memory."""
        dut, rng, code = self.dut, self.rng, self.code
        rates = [min(idle * at, _MOST_IDLE) for at in range(len(streams))]
        fetchers = [Fetcher(dut, f"cores__{first + at}", code, rng, idle=rate) for at, rate in enumerate(rates)]
        limit = 2 * self.config.icache_shared_banks
        memory = CodeMemory(dut, "refill", code, timing, rng, size=PART_BYTES, outstanding=limit)
        with AgentGroup(dut, [memory, *fetchers]), background(self._flush(fetchers)) if flush else nullcontext():
            await gather(*(fetcher.fetch(stream) for fetcher, stream in zip(fetchers, streams, strict=True)))
            await ClockCycles(dut.clk, 4 * timing.slowest + 100)
        return fetchers, memory.requests

    def _is_whole(self, address: int) -> bool:
        line = address & -ICACHE_LINE_BYTES
        return not any(self.code.fails(line + part) for part in range(0, ICACHE_LINE_BYTES, PART_BYTES))

    def predict(self, core: int, addresses: Iterable[int]) -> None:
        """Look up addresses in the models of a core's and the shared cache, and fill these as the caches do."""
        for address in addresses:
            for cache in (self.private[core], self.shared):
                if cache.look_up(address):
                    break
                if self._is_whole(address):
                    cache.fill(address)

    def check_hits(self, label: str, private: Counts, shared: Counts | None = None) -> None:
        expected = sum(cache.hits for cache in self.private), sum(cache.misses for cache in self.private)
        self.board.equal((private.hits, private.misses), expected, f"hits, misses of the cores' caches, {label}")
        if shared is not None:
            expected = self.shared.hits, self.shared.misses
            self.board.equal((shared.hits, shared.misses), expected, f"hits, misses of the shared cache, {label}")


def _words_of_lines(base: int, number: int) -> list[int]:
    return [base + at for at in range(0, number * ICACHE_LINE_BYTES, WORD_BYTES)]


async def counting(dut: Dut, rng: Random, *, prefetch: int = 0, failing: float = 0.0) -> CacheEnv:
    """Return caches that count, and prefetch or not."""
    env = CacheEnv(dut, rng, failing)
    await env.access(Icache.PREFETCH, prefetch)
    await env.access(Icache.COUNT, 1)
    return env


def _first_line(rng: Random) -> int:
    return rng.getrandbits(XLEN) & -BLOCK_BYTES


def _visits(rng: Random, number: int) -> list[int]:
    """Return addresses of two words in each of ``number`` lines, in two regions whose addresses differ in every bit."""
    first, config = _first_line(rng), configuration()
    firsts = (first, ~first & -BLOCK_BYTES & WORD_MASK)
    spans = [config.icache_shared // ICACHE_LINE_BYTES, 3 * config.icache_private // 4 // ICACHE_LINE_BYTES]
    words = range(0, ICACHE_LINE_BYTES, WORD_BYTES)
    lines = [rng.choice(firsts) + rng.randrange(rng.choice(spans)) * ICACHE_LINE_BYTES for _ in range(number)]
    return [(line + at) & WORD_MASK for line in lines for at in rng.sample(words, 2)]


@unit_test(env=partial(counting, failing=0.02))
async def a_core_alone_is_predicted(env: CacheEnv) -> None:
    """One core after the other fetches more than the shared cache holds; all hits and misses are predicted."""
    for core in range(env.config.cores):
        stream = _visits(env.rng, 3 * env.config.icache_shared // ICACHE_LINE_BYTES // env.config.cores)
        await env.fetch(stream, timing=ObiTiming(0.7, 1, 5), first=core)
        env.predict(core, stream)
        private, shared = await env.counters()
        env.check_hits(f"core {core}", private, shared)
        env.board.equal(shared.congestion, 0, "a core alone waits for no other")


def replacing(rng: Random, way_bytes: int, ways: int) -> list[list[int]]:
    """Return groups of lines that each fill a cache set; each line differs from the previous one in another tag bit."""
    line, first = _first_line(rng) + rng.randrange(way_bytes) & -ICACHE_LINE_BYTES, way_bytes.bit_length() - 1
    runs, bits, apart = list[list[int]](), XLEN - first, max(2, (XLEN - first) // ways)
    for run in range(bits):
        changes = [1 << first + (run + way * apart) % bits for way in range(ways)]
        runs.append([line := line ^ change for change in changes])
    return runs


@unit_test(env=counting, level=["icache_private", "icache_shared"])
async def no_line_is_taken_for_another(env: CacheEnv, level: str) -> None:
    """Lines miss whose tags differ in one bit from those of cached lines; the cached lines hit, in all ways."""
    config, ways = env.config, env.config.icache_ways
    for run in replacing(env.rng, getattr(config, level) // ways, ways):
        stream = [line ^ bank * ICACHE_LINE_BYTES for line in run for bank in range(config.icache_shared_banks)]
        for core in range(2):
            await env.fetch(stream * 2, first=core)
            env.predict(core, stream * 2)
    env.check_hits(level, *await env.counters())


@unit_test(env=partial(counting, prefetch=1))
async def every_core_fetches_ahead(env: CacheEnv) -> None:
    """Straight code flows from the shared cache; a loop that fits into a private cache is read once."""
    config = env.config
    first_block, sets = _first_line(env.rng), config.icache_private_sets
    # the blocks begin in the middle of the sets, so that tags differ between them
    middle = max(1, sets // 2 - 1) * ICACHE_LINE_BYTES
    for core, block in product(range(config.cores), (first_block, ~first_block & -BLOCK_BYTES & WORD_MASK)):
        first = block + middle
        where = f"core {core} at {first:#x}"
        # the shared cache holds the lines and the one after them, which is prefetched
        size = min(config.icache_private, config.icache_shared // 2)
        straight = _words_of_lines(first, size // ICACHE_LINE_BYTES)
        await env.fetch(straight, first=core)
        await env.access(Icache.FLUSH_PRIVATE, 1)
        [fetcher], _ = await env.fetch(straight, first=core)
        # the second line is requested when the first one arrives
        flow = [fetch.granted for fetch in fetcher.completed[2 * ICACHE_LINE_BYTES // WORD_BYTES :]]
        env.board.equal(flow, list(range(flow[0], flow[0] + len(flow))), f"grants of straight code, {where}")
        await env.access(Icache.FLUSH_PRIVATE, 1)
        await env.access(Icache.CLEAR_COUNTERS, 0)
        # the line after the loop is prefetched too
        loop = straight[: -2 * ICACHE_LINE_BYTES // WORD_BYTES]
        await env.fetch(loop * 2, first=core)
        lines = len(loop) * WORD_BYTES // ICACHE_LINE_BYTES + 1
        _, shared = await env.counters()
        env.board.equal(shared.transactions, lines, f"lines of a loop that are asked for, {where}")


def _lines(env: CacheEnv, size: int) -> list[int]:
    first = _first_line(env.rng)
    return [first + at & WORD_MASK for at in range(0, size, ICACHE_LINE_BYTES)]


@unit_test(env=counting)
async def every_line_is_kept(env: CacheEnv) -> None:
    """The shared cache holds as many lines as fit; flushing a line invalidates the set of the line only."""
    config, way_bytes = env.config, env.config.icache_shared // env.config.icache_ways
    lines = _lines(env, config.icache_shared)
    flushed = env.rng.choice(lines)
    gone = [part for line in lines if (line - flushed) % way_bytes == 0 for part in (line, line + PART_BYTES)]
    for expected in ([part for line in lines for part in (line, line + PART_BYTES)], [], gone):
        _, requests = await env.fetch(*(lines[core :: config.cores] for core in range(config.cores)))
        env.board.equal(sorted(requests), sorted(expected), "reads of memory")
        await env.access(Icache.FLUSH_PRIVATE, 1)
        if not expected:
            await env.access(Icache.FLUSH_ADDRESS, flushed)


@unit_test(env=counting, forgets=["reset", "flush", "enable"])
async def all_lines_are_forgotten(env: CacheEnv, forgets: str) -> None:
    """After a reset, a flush or disabling, no line of any set hits."""
    lines = _lines(env, env.config.icache_shared // env.config.icache_ways)
    for stream in (lines, lines[::-1]):
        await env.fetch(*[stream] * env.config.cores)
        if forgets == "reset":
            await pulse_reset(env.dut)
        else:
            # disabling invalidates all lines, which shows when the cache is enabled again
            await env.access(Icache[forgets.upper()], int(forgets == "flush"))
            await env.access(Icache.ENABLE, 1)
        env.code.generation += 1
        env.code.settle()


@unit_test(env=counting)
async def arbitration_rotates(env: CacheEnv) -> None:
    """Which core wins a bank, and which bank the memory port, depends on the number of previous requests."""
    cores, banks = env.config.cores, env.config.icache_shared_banks
    lines = _lines(env, (3 + banks) * banks * ICACHE_LINE_BYTES)
    for bank in range(banks):
        first_line, second_line = lines[bank], lines[bank + banks]
        await env.fetch([first_line, second_line])
        for core in range(cores):
            await env.access(Icache.FLUSH_PRIVATE, 1)
            await env.fetch([first_line], first=core)
            await env.access(Icache.FLUSH_PRIVATE, 1)
            fetchers, _ = await env.fetch(*[[second_line]] * cores)
            order = sorted(range(cores), key=lambda core: fetchers[core].completed[0].answered)
            before = 2 + (1 + cores) * core + 1
            expected = [(before + place) % cores for place in range(cores)]
            env.board.equal(order, expected, f"order of the cores at bank {bank} after {before}")
    # after each single line, one line of each bank is requested at once
    for before in range(2 * banks + 1, len(lines), banks + 1):
        await env.fetch([lines[before - 1]])
        _, requests = await env.fetch(*([line] for line in lines[before : before + banks]))
        order = [line // ICACHE_LINE_BYTES % banks for line in requests[::2]]
        env.board.equal(order, [(before + place) % banks for place in range(banks)], f"banks after {before} lines")


@unit_test(env=counting)
async def a_line_is_read_once_for_all(env: CacheEnv) -> None:
    """All cores fetch the same lines at once: memory is read once for each line."""
    equal, cores, lines = env.board.equal, env.config.cores, _words_of_lines(0x1C00_0000, 4)
    _, requests = await env.fetch(*[lines] * cores, timing=ObiTiming(1.0, 20, 20))
    equal(sorted(requests), lines[::2], "each line once, in two parts")
    await env.access(Icache.FLUSH_PRIVATE, 1)
    [fetcher], requests = await env.fetch(lines)
    equal(requests, [], "reads of lines that are in the shared cache")
    delays = [fetch.answered - fetch.granted for fetch in fetcher.completed]
    equal(delays, [_WARM_LATENCY, 1, 1, 1] * 4, "answers from the shared cache and the core's own")
    await env.access(Icache.FLUSH_ADDRESS, lines[0] + 5)
    _, requests = await env.fetch(*[lines] * cores)
    equal(sorted(requests), lines[:4:2], "the flushed line alone")


@unit_test(env=CacheEnv)
async def registers_read_as_written(env: CacheEnv) -> None:
    """Registers have their reset values and implemented bits; a disabled cache holds no lines."""
    equal = env.board.equal
    for register, value in ((Icache.ENABLE, 1), (Icache.COUNT, 0), (Icache.PREFETCH, 1), (Icache.FLUSH, 0)):
        equal(await env.access(register), value, f"{register.name} after reset")
        await env.access(register, 0xFFFF_FFFE)
        equal(await env.access(register), 0, f"{register.name} written 0")
    lines = _words_of_lines(0x1C00_0000, 2)
    for _ in range(2):
        _, requests = await env.fetch(lines)
        equal(len(requests), 2 * len(lines), "reads of memory while disabled")
    await env.access(Icache.ENABLE, 1)
    _, requests = await env.fetch(lines)
    equal(len(requests), len(lines) // 2, "reads of memory while enabled")
    equal(await env.counters(), (Counts(0, 0, 0, 0), Counts(0, 0, 0, 0)), "counters that were not started")


@unit_test(env=counting)
async def nothing_else_is_a_register(env: CacheEnv) -> None:
    """Accesses one address bit away from a register fail, and change neither settings nor caches."""
    lines, levels = _words_of_lines(0x1C00_0000, 2), (Icache.PRIVATE_COUNTERS, Icache.SHARED_COUNTERS)
    registers = set(Icache) | {first + WORD_BYTES * counter for first in levels for counter in IcacheCounter}
    await env.fetch(lines)
    await env.access(Icache.COUNT, 0)
    before = [await env.access(register) for register in sorted(registers)]
    for offset in near_offsets(registers):
        for value in (lines[0], lines[0] + 1):
            await env.access(offset, value, fails=True)
        env.board.equal(await env.access(offset, fails=True), 0, f"{offset:#x}, where no register is")
    env.board.equal([await env.access(register) for register in sorted(registers)], before, "registers")
    _, requests = await env.fetch(lines)
    env.board.equal(requests, [], "reads of lines that are kept")


@unit_test(env=counting)
async def counters_count_far(env: CacheEnv) -> None:
    """The counters count hits of all cores in every cycle, and then stalls, up to large numbers."""
    dut, equal, cores, far = env.dut, env.board.equal, env.config.cores, bench_data()["far"]
    line = _first_line(env.rng)
    await env.fetch(*[[line]] * cores)
    await env.access(Icache.CLEAR_COUNTERS, 0)
    requests = [f"cores__{core}__req" for core in range(cores)]
    drive(dut, {f"cores__{core}__addr": line for core in range(cores)})
    drive(dut, dict.fromkeys(requests, 1))
    await ClockCycles(dut.clk, far)
    drive(dut, dict.fromkeys(requests, 0))
    await ClockCycles(dut.clk, _LATE)
    hits = cores * far
    equal((await env.counters())[0], Counts(hits, hits, 0, 0), "hits in every cycle")
    # memory grants no request
    await env.access(Icache.FLUSH, 1)
    drive(dut, dict.fromkeys(requests, 1))
    await ClockCycles(dut.clk, far)
    private, shared = await env.counters()
    equal(private[:3], Counts(hits, hits + cores, cores, 0)[:3], "one miss of each core")
    late = range(far - _LATE, far + 4 * _LATE)
    equal(private.congestion // cores in late, True, f"{private.congestion} waits in every cycle")
    # one core has requested a line, the others wait
    equal(shared.congestion in late, cores > 1, f"{shared.congestion} waits for the shared cache")


@unit_test(env=counting, timing=_TIMINGS, prefetch=[0, 1], failing=[0.0, 0.1])
async def words_and_counters_are_right(env: CacheEnv, timing: ObiTiming, prefetch: int) -> None:
    """All cores run through the same code; without prefetching the hits of the private caches are predicted."""
    fetchers, requests = await env.fetch(*[wandering(env.rng, _FETCHES)] * env.config.cores, timing=timing, idle=0.3)
    (private, shared), equal = await env.counters(), env.board.equal
    fetches = [fetch for fetcher in fetchers for fetch in fetcher.completed]
    equal(private.transactions, len(fetches), "fetches")
    equal(private.congestion, sum(fetch.granted - fetch.requested for fetch in fetches), "waits of fetches")
    equal(private.hits + private.misses, private.transactions, "transactions of the cores' caches")
    equal(shared.hits + shared.misses, shared.transactions, "transactions of the shared cache")
    equal(len(requests), 2 * shared.misses, "reads of memory")
    if not prefetch:
        for core, fetcher in enumerate(fetchers):
            env.predict(core, (fetch.address for fetch in fetcher.completed))
        env.check_hits("together", private)
        equal(shared.transactions, private.misses, "lines that the shared cache is asked for")
    await env.access(Icache.CLEAR_COUNTERS, 0)
    equal(await env.counters(), (Counts(0, 0, 0, 0), Counts(0, 0, 0, 0)), "cleared counters")


@unit_test(prefetch=[0, 1], timing=_TIMINGS[::2])
async def flushed_code_is_not_seen_again(dut: Dut, rng: Random, prefetch: int, timing: ObiTiming) -> None:
    """The code changes and is flushed while it is read: all later fetches return new code."""
    for _ in range(2):
        env = await counting(dut, rng, prefetch=prefetch, failing=0.05)
        streams = [wandering(rng, _FETCHES, spread=1) for _ in range(env.config.cores)]
        await env.fetch(*streams, timing=timing, flush=True, idle=0.1)
        await pulse_reset(dut)
