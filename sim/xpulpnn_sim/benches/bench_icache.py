"""Bench of the instruction caches of several cores: words, counters, flushes and errors, with any memory timing."""

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import product
from random import Random
from typing import NamedTuple

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, gather

from xpulpnn.isa.cluster import BLOCK_BYTES, ICACHE_LINE_BYTES, Icache, IcacheCounter
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK, XLEN
from xpulpnn_sim.benches.agents.base import AgentGroup, Dut, background, drive, pulse_reset, start
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


async def _access(dut: Dut, register: int, value: int | None = None, *, fails: bool = False) -> int:
    with ObiManager(dut, "port") as software:
        access = await software.run([ObiTransfer(register, int(value is not None), value=value or 0)])
        await RisingEdge(dut.clk)
    assert access.answered == access.granted + 1, "registers answer in the next cycle"
    assert access.failed == fails, f"error at {register:#x} must be {fails}"
    return access.data


async def counters(dut: Dut, first: int) -> Counts:
    order = (IcacheCounter.HITS, IcacheCounter.TRANSACTIONS, IcacheCounter.MISSES, IcacheCounter.CONGESTION)
    return Counts(*[await _access(dut, first + WORD_BYTES * counter) for counter in order])


async def _flush(dut: Dut, code: ChangingCode, rng: Random, fetchers: Sequence[Fetcher]) -> None:
    while True:
        await ClockCycles(dut.clk, rng.choice((1, 300, 600)))
        code.generation += 1
        fetches = rng.choice(fetchers).completed
        if rng.random() < 0.5 and fetches:
            address = fetches[-1].address
            await _access(dut, Icache.FLUSH_ADDRESS, address)
            code.settle(address)
        else:
            await _access(dut, rng.choice((Icache.FLUSH, Icache.ENABLE)), 1)
            code.settle()


async def fetch_all(
    dut: Dut,
    rng: Random,
    code: ChangingCode,
    streams: Sequence[Sequence[int]],
    timing: ObiTiming = PROMPT,
    *,
    first: int = 0,
    flush: bool = False,
    idle: float = 0.0,
) -> tuple[list[Fetcher], CodeMemory]:
    rates = [min(idle * at, _MOST_IDLE) for at in range(len(streams))]
    fetchers = [Fetcher(dut, f"cores__{first + at}", code, rng, idle=rate) for at, rate in enumerate(rates)]
    limit = 2 * configuration().icache_shared_banks
    memory = CodeMemory(dut, "refill", code, timing, rng, size=PART_BYTES, outstanding=limit)
    with AgentGroup(dut, [memory, *fetchers]), background(_flush(dut, code, rng, fetchers)) if flush else nullcontext():
        await gather(*(fetcher.fetch(stream) for fetcher, stream in zip(fetchers, streams, strict=True)))
        await ClockCycles(dut.clk, 4 * timing.slowest + 100)
    return fetchers, memory


def _words_of_lines(base: int, number: int) -> list[int]:
    return [base + at for at in range(0, number * ICACHE_LINE_BYTES, WORD_BYTES)]


def whole(code: ChangingCode, address: int) -> bool:
    line = address & -ICACHE_LINE_BYTES
    return not any(code.fails(line + part) for part in range(0, ICACHE_LINE_BYTES, PART_BYTES))


def walk(streams: list[list[int]], code: ChangingCode, shared: CacheLevel | None = None) -> tuple[int, int]:
    hits, misses, config = 0, 0, configuration()
    for stream in streams:
        private = CacheLevel(config.icache_private, config.icache_ways)
        for address in stream:
            if private.look_up(address):
                continue
            if whole(code, address):
                private.fill(address)
            if shared is not None and not shared.look_up(address) and whole(code, address):
                shared.fill(address)
        hits, misses = hits + private.hits, misses + private.misses
    return hits, misses


async def _start(dut: Dut, *, prefetch: int) -> tuple[Random, Scoreboard]:
    rng = await start(dut)
    await _access(dut, Icache.PREFETCH, prefetch)
    await _access(dut, Icache.COUNT, 1)
    return rng, Scoreboard()


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


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def a_core_alone_is_predicted(dut: Dut) -> None:
    """One core after the other fetches more than the shared cache holds; all hits and misses are predicted."""
    (rng, board), config = await _start(dut, prefetch=0), configuration()
    code, shared = ChangingCode(rng, 0.02), CacheLevel(config.icache_shared, config.icache_ways)
    for core in range(config.cores):
        stream = _visits(rng, 3 * config.icache_shared // ICACHE_LINE_BYTES // config.cores)
        await _access(dut, Icache.CLEAR_COUNTERS, 0)
        await fetch_all(dut, rng, code, [stream], ObiTiming(0.7, 1, 5), first=core)
        private = await counters(dut, Icache.PRIVATE_COUNTERS)
        counts = await counters(dut, Icache.SHARED_COUNTERS)
        shared.hits = shared.misses = 0
        board.equal((private.hits, private.misses), walk([stream], code, shared), f"hits, misses of core {core}")
        board.equal((counts.hits, counts.misses), (shared.hits, shared.misses), "hits, misses of the shared cache")
        board.equal(counts.congestion, 0, "a core alone waits for no other")


def replacing(rng: Random, way_bytes: int, ways: int) -> list[list[int]]:
    """Return groups of lines that each fill a cache set; each line differs from the previous one in another tag bit."""
    line, first = _first_line(rng) + rng.randrange(way_bytes) & -ICACHE_LINE_BYTES, way_bytes.bit_length() - 1
    runs, bits, apart = list[list[int]](), XLEN - first, max(2, (XLEN - first) // ways)
    for run in range(bits):
        changes = [1 << first + (run + way * apart) % bits for way in range(ways)]
        runs.append([line := line ^ change for change in changes])
    return runs


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(level=["icache_private", "icache_shared"])
async def no_line_is_taken_for_another(dut: Dut, level: str) -> None:
    """Lines miss whose tags differ in one bit from those of cached lines; the cached lines hit, in all ways."""
    (rng, board), config = await _start(dut, prefetch=0), configuration()
    code, shared, ways = ChangingCode(rng), CacheLevel(config.icache_shared, config.icache_ways), config.icache_ways
    own = [CacheLevel(config.icache_private, ways) for _ in range(2)]
    for run in replacing(rng, getattr(config, level) // ways, ways):
        stream = [line ^ bank * ICACHE_LINE_BYTES for line in run for bank in range(config.icache_shared_banks)]
        for core, private in enumerate(own):
            await fetch_all(dut, rng, code, [stream * 2], first=core)
            for line in stream * 2:
                if not private.look_up(line):
                    private.fill(line)
                    if not shared.look_up(line):
                        shared.fill(line)
    private = await counters(dut, Icache.PRIVATE_COUNTERS)
    counts = await counters(dut, Icache.SHARED_COUNTERS)
    expected = sum(cache.hits for cache in own), sum(cache.misses for cache in own)
    board.equal((private.hits, private.misses), expected, "hits, misses of the cores' caches")
    board.equal((counts.hits, counts.misses), (shared.hits, shared.misses), "hits, misses of the shared cache")


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def every_core_fetches_ahead(dut: Dut) -> None:
    """Straight code flows from the shared cache; a loop that fits into a private cache is read once."""
    (rng, board), config = await _start(dut, prefetch=1), configuration()
    first_block, sets = _first_line(rng), config.icache_private_sets
    # the blocks begin in the middle of the sets, so that tags differ between them
    middle = max(1, sets // 2 - 1) * ICACHE_LINE_BYTES
    for core, block in product(range(config.cores), (first_block, ~first_block & -BLOCK_BYTES & WORD_MASK)):
        first = block + middle
        where = f"core {core} at {first:#x}"
        code = ChangingCode(rng)
        # the shared cache holds the lines and the one after them, which is prefetched
        size = min(config.icache_private, config.icache_shared // 2)
        straight = _words_of_lines(first, size // ICACHE_LINE_BYTES)
        await fetch_all(dut, rng, code, [straight], first=core)
        await _access(dut, Icache.FLUSH_PRIVATE, 1)
        fetchers, _ = await fetch_all(dut, rng, code, [straight], first=core)
        # the second line is requested when the first one arrives
        flow = [fetch.granted for fetch in fetchers[0].completed[2 * ICACHE_LINE_BYTES // WORD_BYTES :]]
        board.equal(flow, list(range(flow[0], flow[0] + len(flow))), f"grants of straight code, {where}")
        await _access(dut, Icache.FLUSH_PRIVATE, 1)
        await _access(dut, Icache.CLEAR_COUNTERS, 0)
        # the line after the loop is prefetched too
        loop = straight[: -2 * ICACHE_LINE_BYTES // WORD_BYTES]
        await fetch_all(dut, rng, code, [loop * 2], first=core)
        lines = len(loop) * WORD_BYTES // ICACHE_LINE_BYTES + 1
        counts = await counters(dut, Icache.SHARED_COUNTERS)
        board.equal(counts.transactions, lines, f"lines of a loop that are asked for, {where}")


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def every_line_is_kept(dut: Dut) -> None:
    """The shared cache holds as many lines as fit; flushing a line invalidates the set of the line only."""
    (rng, board), config = await _start(dut, prefetch=0), configuration()
    code, first, way_bytes = ChangingCode(rng), _first_line(rng), config.icache_shared // config.icache_ways
    lines = [first + at & WORD_MASK for at in range(0, config.icache_shared, ICACHE_LINE_BYTES)]
    flushed = rng.choice(lines)
    gone = [part for line in lines if (line - flushed) % way_bytes == 0 for part in (line, line + PART_BYTES)]
    for expected in ([part for line in lines for part in (line, line + PART_BYTES)], [], gone):
        _, memory = await fetch_all(dut, rng, code, [lines[core :: config.cores] for core in range(config.cores)])
        board.equal(sorted(memory.requests), sorted(expected), "reads of memory")
        await _access(dut, Icache.FLUSH_PRIVATE, 1)
        if not expected:
            await _access(dut, Icache.FLUSH_ADDRESS, flushed)


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(forgets=["reset", "flush", "enable"])
async def all_lines_are_forgotten(dut: Dut, forgets: str) -> None:
    """After a reset, a flush or disabling, no line of any set hits."""
    (rng, _), config = await _start(dut, prefetch=0), configuration()
    code, first, way_bytes = ChangingCode(rng), _first_line(rng), config.icache_shared // config.icache_ways
    lines = [first + at & WORD_MASK for at in range(0, way_bytes, ICACHE_LINE_BYTES)]
    for stream in (lines, lines[::-1]):
        await fetch_all(dut, rng, code, [stream] * config.cores)
        if forgets == "reset":
            await pulse_reset(dut)
        else:
            # disabling invalidates all lines, which shows when the cache is enabled again
            await _access(dut, Icache[forgets.upper()], int(forgets == "flush"))
            await _access(dut, Icache.ENABLE, 1)
        code.generation += 1
        code.settle()


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def arbitration_rotates(dut: Dut) -> None:
    """Which core wins a bank, and which bank the memory port, depends on the number of previous requests."""
    (rng, board), config = await _start(dut, prefetch=0), configuration()
    code, first, cores, banks = ChangingCode(rng), _first_line(rng), config.cores, config.icache_shared_banks
    lines = [first + at * ICACHE_LINE_BYTES & WORD_MASK for at in range((3 + banks) * banks)]
    for bank in range(banks):
        first_line, second_line = lines[bank], lines[bank + banks]
        await fetch_all(dut, rng, code, [[first_line, second_line]])
        for core in range(cores):
            await _access(dut, Icache.FLUSH_PRIVATE, 1)
            await fetch_all(dut, rng, code, [[first_line]], first=core)
            await _access(dut, Icache.FLUSH_PRIVATE, 1)
            fetchers, _ = await fetch_all(dut, rng, code, [[second_line]] * cores)
            order = sorted(range(cores), key=lambda core: fetchers[core].completed[0].answered)
            before = 2 + (1 + cores) * core + 1
            expected = [(before + place) % cores for place in range(cores)]
            board.equal(order, expected, f"order of the cores at bank {bank} after {before}")
    # after each single line, one line of each bank is requested at once
    for before in range(2 * banks + 1, len(lines), banks + 1):
        await fetch_all(dut, rng, code, [[lines[before - 1]]])
        _, memory = await fetch_all(dut, rng, code, [[line] for line in lines[before : before + banks]])
        order = [line // ICACHE_LINE_BYTES % banks for line in memory.requests[::2]]
        board.equal(order, [(before + place) % banks for place in range(banks)], f"banks after {before} lines")


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def a_line_is_read_once_for_all(dut: Dut) -> None:
    """All cores fetch the same lines at once: memory is read once for each line."""
    rng, board = await _start(dut, prefetch=0)
    code, cores = ChangingCode(rng), configuration().cores
    lines = _words_of_lines(0x1C00_0000, 4)
    _, memory = await fetch_all(dut, rng, code, [lines] * cores, ObiTiming(1.0, 20, 20))
    board.equal(sorted(memory.requests), lines[::2], "each line once, in two parts")
    await _access(dut, Icache.FLUSH_PRIVATE, 1)
    fetchers, memory = await fetch_all(dut, rng, code, [lines])
    board.equal(memory.requests, [], "reads of lines that are in the shared cache")
    delays = [fetch.answered - fetch.granted for fetch in fetchers[0].completed]
    board.equal(delays, [_WARM_LATENCY, 1, 1, 1] * 4, "answers from the shared cache and the core's own")
    await _access(dut, Icache.FLUSH_ADDRESS, lines[0] + 5)
    _, memory = await fetch_all(dut, rng, code, [lines] * cores)
    board.equal(sorted(memory.requests), lines[:4:2], "the flushed line alone")


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def registers_read_as_written(dut: Dut) -> None:
    """Registers have their reset values and implemented bits; a disabled cache holds no lines."""
    rng, board = await start(dut), Scoreboard()
    code = ChangingCode(rng)
    for register, value in ((Icache.ENABLE, 1), (Icache.COUNT, 0), (Icache.PREFETCH, 1), (Icache.FLUSH, 0)):
        board.equal(await _access(dut, register), value, f"{register.name} after reset")
        await _access(dut, register, 0xFFFF_FFFE)
        board.equal(await _access(dut, register), 0, f"{register.name} written 0")
    lines = _words_of_lines(0x1C00_0000, 2)
    for _ in range(2):
        _, memory = await fetch_all(dut, rng, code, [lines])
        board.equal(len(memory.requests), 2 * len(lines), "reads of memory while disabled")
    await _access(dut, Icache.ENABLE, 1)
    _, memory = await fetch_all(dut, rng, code, [lines])
    board.equal(len(memory.requests), len(lines) // 2, "reads of memory while enabled")
    board.equal(await counters(dut, Icache.PRIVATE_COUNTERS), Counts(0, 0, 0, 0), "counters that were not started")


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def nothing_else_is_a_register(dut: Dut) -> None:
    """Accesses one address bit away from a register fail, and change neither settings nor caches."""
    rng, board = await _start(dut, prefetch=0)
    code, lines = ChangingCode(rng), _words_of_lines(0x1C00_0000, 2)
    levels = (Icache.PRIVATE_COUNTERS, Icache.SHARED_COUNTERS)
    registers = set(Icache) | {first + WORD_BYTES * counter for first in levels for counter in IcacheCounter}
    await fetch_all(dut, rng, code, [lines])
    await _access(dut, Icache.COUNT, 0)
    before = [await _access(dut, register) for register in sorted(registers)]
    for offset in near_offsets(registers):
        for value in (lines[0], lines[0] + 1):
            await _access(dut, offset, value, fails=True)
        board.equal(await _access(dut, offset, fails=True), 0, f"{offset:#x}, where no register is")
    board.equal([await _access(dut, register) for register in sorted(registers)], before, "registers")
    _, memory = await fetch_all(dut, rng, code, [lines])
    board.equal(memory.requests, [], "reads of lines that are kept")


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def counters_count_far(dut: Dut) -> None:
    """The counters count hits of all cores in every cycle, and then stalls, up to large numbers."""
    rng, board = await _start(dut, prefetch=0)
    code, cores, far, line = ChangingCode(rng), configuration().cores, bench_data()["far"], _first_line(rng)
    await fetch_all(dut, rng, code, [[line]] * cores)
    await _access(dut, Icache.CLEAR_COUNTERS, 0)
    requests = [f"cores__{core}__req" for core in range(cores)]
    drive(dut, {f"cores__{core}__addr": line for core in range(cores)})
    drive(dut, dict.fromkeys(requests, 1))
    await ClockCycles(dut.clk, far)
    drive(dut, dict.fromkeys(requests, 0))
    await ClockCycles(dut.clk, _LATE)
    hits = cores * far
    board.equal(await counters(dut, Icache.PRIVATE_COUNTERS), Counts(hits, hits, 0, 0), "hits in every cycle")
    # memory grants no request
    await _access(dut, Icache.FLUSH, 1)
    drive(dut, dict.fromkeys(requests, 1))
    await ClockCycles(dut.clk, far)
    private, shared = [await counters(dut, first) for first in (Icache.PRIVATE_COUNTERS, Icache.SHARED_COUNTERS)]
    board.equal(private[:3], Counts(hits, hits + cores, cores, 0)[:3], "one miss of each core")
    late = range(far - _LATE, far + 4 * _LATE)
    board.equal(private.congestion // cores in late, True, f"{private.congestion} waits in every cycle")
    # one core has requested a line, the others wait
    board.equal(shared.congestion in late, cores > 1, f"{shared.congestion} waits for the shared cache")


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(timing=_TIMINGS, prefetch=[0, 1], failing=[0.0, 0.1])
async def words_and_counters_are_right(dut: Dut, timing: ObiTiming, prefetch: int, failing: float) -> None:
    """All cores run through the same code; without prefetching the hits of the private caches are predicted."""
    rng, board = await _start(dut, prefetch=prefetch)
    code = ChangingCode(rng, failing)
    streams = [wandering(rng, _FETCHES)] * configuration().cores
    fetchers, memory = await fetch_all(dut, rng, code, streams, timing, idle=0.3)
    private, shared = [await counters(dut, first) for first in (Icache.PRIVATE_COUNTERS, Icache.SHARED_COUNTERS)]
    fetches = [fetch for fetcher in fetchers for fetch in fetcher.completed]
    board.equal(private.transactions, len(fetches), "fetches")
    board.equal(private.congestion, sum(fetch.granted - fetch.requested for fetch in fetches), "waits of fetches")
    board.equal(private.hits + private.misses, private.transactions, "transactions of the cores' caches")
    board.equal(shared.hits + shared.misses, shared.transactions, "transactions of the shared cache")
    board.equal(len(memory.requests), 2 * shared.misses, "reads of memory")
    if not prefetch:
        addresses = [[fetch.address for fetch in fetcher.completed] for fetcher in fetchers]
        board.equal((private.hits, private.misses), walk(addresses, code), "hits, misses of the cores' caches")
        board.equal(shared.transactions, private.misses, "lines that the shared cache is asked for")
    await _access(dut, Icache.CLEAR_COUNTERS, 0)
    board.equal(await counters(dut, Icache.PRIVATE_COUNTERS), Counts(0, 0, 0, 0), "cleared counters")


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(prefetch=[0, 1], timing=_TIMINGS[::2])
async def flushed_code_is_not_seen_again(dut: Dut, prefetch: int, timing: ObiTiming) -> None:
    """The code changes and is flushed while it is read: all later fetches return new code."""
    rng, _ = await _start(dut, prefetch=prefetch)
    for _ in range(2):
        code = ChangingCode(rng, 0.05)
        streams = [wandering(rng, _FETCHES, spread=1) for _ in range(configuration().cores)]
        await fetch_all(dut, rng, code, streams, timing, flush=True, idle=0.1)
        await pulse_reset(dut)
