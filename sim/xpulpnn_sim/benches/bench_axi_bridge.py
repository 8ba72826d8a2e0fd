"""Bench of the bridges to AXI4: what is read and written, in which order it is answered, and the rules of AXI."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

import cocotb
import numpy as np
import numpy.typing as npt
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from cocotbext.axi import AxiReadBus, AxiSlaveRead, AxiSlaveWrite, AxiWriteBus

from xpulpnn.isa.cluster import L2_BASE
from xpulpnn_sim.benches.cadence import Dut, Stepwise, Together, pulse_reset, sample, start
from xpulpnn_sim.benches.handover import bench_data
from xpulpnn_sim.benches.obi import ANY_NUMBER, ObiInitiator, Transfer

BOUNDARY = 4096  # No burst crosses a multiple of it

_FIELDS = {
    "aw": ("awid", "awaddr", "awlen", "awsize", "awburst", "awlock", "awcache", "awprot"),
    "w": ("wdata", "wstrb", "wlast"),
    "ar": ("arid", "araddr", "arlen", "arsize", "arburst", "arlock", "arcache", "arprot"),
}
_INCREMENTING = 1
_DEEP = 64  # Bursts, or transfers, that wait in a channel at most: more than a manager may have under way
Burst = tuple[int, int]  # Address and number of transfers


class Stalls(NamedTuple):
    """Cycles in which a channel stands still and goes on, each at most; none if the first is 0."""

    still: int = 0
    going: int = 1

    def cycles(self, rng: Random) -> Iterator[bool]:
        """True in each cycle in which it stands still."""
        while True:
            yield from (True for _ in range(rng.randint(0, self.still)))
            yield from (False for _ in range(rng.randint(1, self.going)))


class AxiMemory:
    """Bytes that an AXI port reads and writes, by the subordinate of cocotbext-axi."""

    def __init__(
        self,
        dut: Dut,
        port: str,
        content: npt.NDArray[np.uint8],
        base: int,
        stalls: Stalls,
        rng: Random,
        failing: range = range(0),
    ) -> None:
        self._content, self._base, self._failing = content, base, failing
        prefix = f"{port}_"
        reads = AxiSlaveRead(AxiReadBus.from_prefix(dut, prefix), dut.clk, target=self)
        self.channels = [reads.ar_channel, reads.r_channel]
        if hasattr(dut, f"{port}__awvalid"):
            writes = AxiSlaveWrite(AxiWriteBus.from_prefix(dut, prefix), dut.clk, target=self)
            self.channels += [writes.aw_channel, writes.w_channel, writes.b_channel]
        for channel in self.channels:
            channel.queue_occupancy_limit = _DEEP
            channel.log.setLevel("WARNING")
            if stalls.still:
                channel.set_pause_generator(stalls.cycles(Random(rng.getrandbits(32))))

    def _place(self, address: int, size: int) -> slice:
        place = address - self._base
        if address in self._failing or not 0 <= place <= len(self._content) - size:
            raise LookupError(f"nothing at {address:#x}")
        return slice(place, place + size)

    async def read(self, address: int, length: int) -> bytes:
        """Bytes from there on; raises ``LookupError`` for an address that fails."""
        return self._content[self._place(address, length)].tobytes()

    async def write(self, address: int, data: bytes) -> None:
        """Change it; raises ``LookupError`` for what fails."""
        self._content[self._place(address, len(data))] = np.frombuffer(data, np.uint8)


class AxiRules(Stepwise):
    """Checks in every cycle that a manager's bursts keep their promises and stay as they are until taken."""

    def __init__(self, dut: Dut, port: str, longest: dict[str, int]) -> None:
        super().__init__(dut)
        self._rst, self._longest = dut.rst, longest
        self.addresses: set[int] = set()
        self.bursts: dict[str, list[Burst]] = {"aw": [], "ar": []}
        channels = [name for name in _FIELDS if hasattr(dut, f"{port}__{name}valid")]
        self._handles = {
            channel: {
                name: getattr(dut, f"{port}__{name}")
                for name in (*_FIELDS[channel], f"{channel}valid", f"{channel}ready")
            }
            for channel in channels
        }
        self._bytes = len(getattr(dut, f"{port}__rdata")) // 8
        self._writes: deque[int] = deque()
        self._written = 0
        self._waiting: dict[str, dict[str, int]] = {}

    def see(self) -> None:
        """Check all channels; in a reset nothing waits."""
        if sample(self._rst):
            self._waiting = {}
            return
        for channel, handles in self._handles.items():
            before = self._waiting.pop(channel, None)
            if not sample(handles[f"{channel}valid"]):
                assert before is None, f"{channel}valid falls before {before} is taken"
                continue
            shown = {name: sample(handles[name]) for name in _FIELDS[channel]}
            assert before in (None, shown), f"{channel}: {before} becomes {shown} before it is taken"
            taken = sample(handles[f"{channel}ready"])
            if not taken:
                self._waiting[channel] = shown
            if before is None and channel != "w":
                self._burst(channel, shown)
            if channel == "w" and taken:
                self._data(shown["wlast"])

    def _burst(self, channel: str, shown: dict[str, int]) -> None:
        address, transfers = shown[f"{channel}addr"], shown[f"{channel}len"] + 1
        size = transfers * self._bytes
        what = f"{channel}: {shown}"
        assert 1 << shown[f"{channel}size"] == self._bytes, what
        assert shown[f"{channel}burst"] == _INCREMENTING, what
        assert address % self._bytes == 0, what
        assert size <= self._longest[channel], what
        assert address // BOUNDARY == (address + size - 1) // BOUNDARY, what
        self.bursts[channel].append((address, transfers))
        if channel == "ar":
            self.addresses.add(address)
        else:
            self._writes.append(transfers)

    def _data(self, last: int) -> None:
        """The data of a burst come with its address or later, in the order of the addresses."""
        assert self._writes, "w: data of no burst"
        self._written += 1
        assert last == (self._written == self._writes[0]), f"wlast is {last} at {self._written} of {self._writes[0]}"
        if last:
            self._writes.popleft()
            self._written = 0


RUN_BYTES = 256
BLOCK_BYTES = 64  # No other request comes between writes of a run to such an aligned block


def masked(before: npt.NDArray[np.uint8], request: Transfer) -> npt.NDArray[np.uint8]:
    """Bytes at the address of a write afterwards."""
    size = len(before)
    chosen = np.array([request.enables >> byte & 1 for byte in range(size)], np.bool_)
    return np.where(chosen, np.frombuffer(request.value.to_bytes(size, "little"), np.uint8), before)


Run = deque[Transfer]  # transfers to consecutive addresses


def run_of_transfers(rng: Random, base: int, reach: int, size: int, *, write: bool, single: bool) -> Run:
    """A run within an aligned block of 256 bytes, somewhere in ``reach`` bytes from ``base``."""
    block = base + rng.randrange(0, reach, RUN_BYTES)
    windows = RUN_BYTES // size
    first = rng.randrange(windows)
    count = 1 if single else rng.choice((windows - first, rng.randint(1, windows - first)))
    whole = (1 << size) - 1
    requests = Run()
    for number in range(count):
        enables = whole if 0 < number < count - 1 else rng.randrange(1, whole + 1)
        value, address = rng.getrandbits(8 * size), block + (first + number) * size
        requests.append(Transfer(address, int(write), enables, value, beats=count - number))
    return requests


def _ends(transfer: Transfer) -> bool:
    """Return whether a write is the last one of its run to an aligned block."""
    return transfer.beats == 1 or (transfer.address + _size()) % BLOCK_BYTES == 0


def interleaved(rng: Random, kinds: Sequence[Sequence[Run]]) -> list[Transfer]:
    """Runs of several kinds, which take turns at random, but not within writes to an aligned block."""
    waiting = [Run(request for one in runs for request in one) for runs in kinds]
    made: list[Transfer] = []
    while left := [kind for kind in waiting if kind]:
        choice = rng.choice(left)
        made.append(choice.popleft())
        while made[-1].write and not _ends(made[-1]):
            made.append(choice.popleft())
    return made


def bursts_of(traffic: Iterable[Transfer]) -> dict[str, list[Burst]]:
    """One burst for each run of reads, and for each aligned block of a run of writes."""
    bursts: dict[str, list[Burst]] = {"ar": [], "aw": []}
    left = {"ar": 0, "aw": 0}
    for one in traffic:
        channel = "aw" if one.write else "ar"
        if not left[channel]:
            in_block = (BLOCK_BYTES - one.address % BLOCK_BYTES) // _size()
            left[channel] = min(one.beats, in_block) if one.write else one.beats
            bursts[channel].append((one.address, left[channel]))
        left[channel] -= 1
    return bursts


ADDRESSES = 1 << 32
_BYTES = 1 << 14
_HALF = _BYTES // 2
"""Reads are in the lower half, writes in the upper one: AXI does not order the ones among the others."""

_STALLS = {"prompt": (Stalls(), 0.6), "slow": (Stalls(3, 3), 0.2), "jerky": (Stalls(40, 40), 0.0)}
"""Stalls of the memory, and the probability of a cycle in which the initiator pauses."""

_RUNS = 30
_LIMIT = 16  # transfers that the bridge lets under way at most; the initiator would have any number


def _size() -> int:
    """Bytes of a transfer."""
    return bench_data()["bits"] // 8


class Initiator(ObiInitiator):
    """Makes transfers, and follows the answers of AXI."""

    def __init__(self, dut: Dut, rng: Random, pause: float = 0.0) -> None:
        super().__init__(dut, "port", under_way=ANY_NUMBER, pause=pause, rng=rng)
        self._dut = dut

    def _fields(self, request: Transfer) -> dict[str, int]:
        fields = super()._fields(request) if bench_data()["writes"] else {"addr": request.address}
        return fields | ({"beats": request.beats} if bench_data()["runs"] else {})

    def _look(self, answered: Transfer | None) -> None:
        """Answers come from AXI in this cycle, and those of AXI are taken with the last transfer that they answer."""
        dut, channels = self._dut, ["r"] + ["b"] * bench_data()["writes"]
        there = {name for name in channels if sample(getattr(dut, f"axi__{name}valid"))}
        taken = {name for name in there if sample(getattr(dut, f"axi__{name}ready"))}
        if answered is None:
            assert not taken, f"the answer of {taken} is lost"
            return
        channel = "b" if answered.write else "r"
        assert channel in there, f"{answered} is answered before AXI answers"
        ends = not answered.write or not bench_data()["runs"] or _ends(answered)
        assert taken == ({channel} if ends else set()), f"{taken} taken with the answer to {answered}"


def longest() -> dict[str, int]:
    """Bytes of a burst at most."""
    size = _size()
    if not bench_data()["writes"]:
        return {"ar": 2 * size}
    return {"ar": RUN_BYTES, "aw": 64} if bench_data()["runs"] else {"ar": size, "aw": size}


def random_traffic(rng: Random, runs: int, first: int) -> list[Transfer]:
    """Runs of reads and writes, where there are such, in a memory from the address ``first`` on."""
    size = _size()

    def one(*, write: bool) -> Run:
        base = first + _HALF * write
        if not bench_data()["writes"]:
            # a line of instructions, two reads
            address = base + rng.randrange(0, _HALF, 2 * size)
            return Run((Transfer(address, beats=2), Transfer(address + size)))
        return run_of_transfers(rng, base, _HALF, size, write=write, single=not bench_data()["runs"])

    kinds = (False, True) if bench_data()["writes"] else (False,)
    number = runs if bench_data()["runs"] else 8 * runs
    return interleaved(rng, [[one(write=write) for _ in range(number)] for write in kinds])


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(stalls=list(_STALLS))
async def traffic_is_that_of_the_port(dut: Dut, stalls: str) -> None:
    """Random runs, with errors in the middle: data, answers and the memory afterwards."""
    # the memory is in three places; of two of them, where addresses wait, one has a 1 where the other has a 0
    rng = await start(dut)
    anywhere = rng.getrandbits(32) & -_BYTES
    places = (L2_BASE, anywhere, anywhere ^ ADDRESSES - _BYTES)
    first = places[list(_STALLS).index(stalls)]
    hole = range(first + _HALF - 512, first + _HALF + 512)
    content = np.frombuffer(rng.randbytes(_BYTES), np.uint8).copy()
    expected = content.copy()
    timing, pause = _STALLS[stalls]
    AxiMemory(dut, "axi", content, first, timing, rng, hole)
    rules = AxiRules(dut, "axi", longest())
    traffic, size = random_traffic(rng, _RUNS, first), _size()
    initiator = Initiator(dut, rng, pause)
    with Together(dut, [initiator, rules]):
        await initiator.make(traffic)
    assert initiator.most <= _LIMIT, f"{initiator.most} transfers under way"
    assert stalls != "jerky" or initiator.most == _LIMIT, f"never more than {initiator.most} transfers under way"
    assert initiator.done == traffic, "not every request is answered"
    for made in traffic:
        place = made.address - first
        if not made.write:
            word = int.from_bytes(expected[place : place + size].tobytes(), "little")
            assert made.failed == (made.address in hole), made
            assert made.failed or made.data == word, f"{made}: {made.data:#x}, must be {word:#x}"
            continue
        # one failing transfer fails the whole burst
        block = made.address & -longest()["aw"]
        assert made.failed == (block in hole), made
        if made.address not in hole:
            expected[place : place + size] = masked(expected[place : place + size], made)
    assert (content == expected).all(), "the memory differs"
    assert rules.bursts == bursts_of(traffic), "other bursts"
    if bench_data()["runs"]:
        most = {channel: max(transfers for _, transfers in made) for channel, made in rules.bursts.items()}
        assert most["ar"] * size > longest()["ar"] // 2, "no long burst of reads"
        assert most["aw"] * size == longest()["aw"], "no whole block of writes"


@cocotb.test(timeout_time=60, timeout_unit="us")
async def valid_waits_for_no_ready(dut: Dut) -> None:
    """Every channel shows what it has while nothing is ready; a reset forgets it, and what is under way."""
    rng = await start(dut)
    channels = ["aw", "w", "ar"] if bench_data()["writes"] else ["ar"]
    kinds, several = (0, 1)[: 1 + bench_data()["writes"]], 1 + bench_data()["runs"]

    async def seen() -> list[int]:
        await FallingEdge(dut.clk)
        found = [sample(getattr(dut, f"axi__{channel}valid")) for channel in channels]
        await RisingEdge(dut.clk)
        return found

    # each kind is asked for first, so that it is the oldest one under way when the reset comes
    for order in (kinds, kinds[::-1]):
        for write in order:
            with Initiator(dut, rng) as initiator:
                requests = [Transfer(L2_BASE, write, (1 << _size()) - 1, 1, beats=several)]
                making = cocotb.start_soon(initiator.make(requests))
                await ClockCycles(dut.clk, 6)
                making.cancel()
        assert all(await seen()), f"{channels} wait for ready"
        await pulse_reset(dut)
        assert not any(await seen()), f"{channels} show something after a reset"
    content = np.zeros(_BYTES, np.uint8)
    AxiMemory(dut, "axi", content, L2_BASE, Stalls(), rng)
    traffic, rules = random_traffic(rng, 2, L2_BASE), AxiRules(dut, "axi", longest())
    initiator = Initiator(dut, rng)
    with Together(dut, [initiator, rules]):
        await initiator.make(traffic)
    assert rules.bursts == bursts_of(traffic), "other bursts after a reset"


@cocotb.test(timeout_time=60, timeout_unit="us")
async def nothing_is_lost_between_bursts(dut: Dut) -> None:
    """A prompt memory takes a transfer of a run in every cycle."""
    rng = await start(dut)
    content = np.zeros(_BYTES, np.uint8)
    AxiMemory(dut, "axi", content, L2_BASE, Stalls(), rng)
    size = _size()
    per_run = RUN_BYTES // size if bench_data()["runs"] else 1
    for write in (0, 1)[: 1 + bench_data()["writes"]]:
        places = range(L2_BASE, L2_BASE + BOUNDARY // 2, size)
        requests = [
            Transfer(at, write, (1 << size) - 1, at, beats=per_run - number % per_run)
            for number, at in enumerate(places)
        ]
        with Initiator(dut, rng) as initiator:
            await initiator.make(requests)
            await RisingEdge(dut.clk)
        cycles = initiator.cycle
        cocotb.log.info("%d transfers (write %d) take %d cycles", len(places), write, cycles)
        if bench_data()["runs"]:
            assert cycles < len(places) * bench_data()["slack"], f"{cycles} cycles for {len(places)} transfers"
