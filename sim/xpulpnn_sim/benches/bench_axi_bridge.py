"""Bench of the bridges to AXI4: data, order of the answers, bursts, and the rules of AXI."""

from collections import deque
from itertools import chain
from random import Random

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles

from xpulpnn.isa.cluster import L2_BASE
from xpulpnn.isa.machine import BYTE_BITS, XLEN
from xpulpnn_sim.benches.agents.axi import AxiChecker, AxiSubordinate, Stalls
from xpulpnn_sim.benches.agents.base import Agent, AgentGroup, Dut, pulse_reset, sample
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import ANY_NUMBER, ObiManager, ObiTransfer
from xpulpnn_sim.benches.launcher_data import bench_data

RUN_BYTES = 256
BLOCK_BYTES = 64  # aligned block; no other request comes between the writes of a run to it


def _size() -> int:
    """Return the bytes of an access at the port, which may be several transfers at AXI."""
    return bench_data()["bits"] // BYTE_BITS * bench_data()["words"]


Run = deque[ObiTransfer]  # transfers to consecutive addresses


def _ends(transfer: ObiTransfer) -> bool:
    """Return whether a write ends its AXI burst, as the last of its transfers or at the end of an aligned block."""
    return transfer.beats == 1 or (transfer.address + _size()) % BLOCK_BYTES == 0


ADDRESSES = 1 << XLEN
_BYTES = 1 << 14
_HALF = _BYTES // 2
"""Reads use the lower half of the memory and writes the upper half, as AXI does not order reads and writes."""

_STALLS = {"prompt": (Stalls(), 0.6), "slow": (Stalls(3, 3), 0.2), "jerky": (Stalls(40, 40), 0.0)}
"""Stalls of the memory, and the probability of a cycle in which the initiator pauses."""

_RUNS = 20
_RESETS = 20
_INCREMENTING = 1  # kind of burst
_ATTRIBUTES = {(0, 1): (0, 1), (1, 1): (2, 1), (0, 0): (2, 5)}
"""Memory attributes and protection, of accesses that may reach devices, runs, and fetches: by the runs and writes."""

_LIMIT = 16  # largest number of outstanding transfers of the bridge; the manager has no limit


class Manager(ObiManager):
    """An OBI manager that checks that each transfer is answered in the cycle in which AXI answers."""

    def __init__(self, dut: Dut, rng: Random, pause: float = 0.0) -> None:
        super().__init__(dut, "port", outstanding=ANY_NUMBER, pause=pause, rng=rng, shift=bench_data()["shift"])
        self._dut, self._arrived = dut, 0
        self.failing = range(0)  # addresses of which the port must report errors

    def _check_cycle(self, answered: ObiTransfer | None) -> None:
        dut, channels = self._dut, ["r"] + ["b"] * bench_data()["writes"]
        valid = {name for name in channels if sample(getattr(dut, f"axi__{name}valid"))}
        taken = {name for name in valid if sample(getattr(dut, f"axi__{name}ready"))}
        self._arrived += bool(taken)
        if answered is None:
            assert self._arrived < bench_data()["words"], f"the answer of {taken} is lost"
            oldest = self._granted[0] if self._granted else None
            assert oldest is None or "rb"[oldest.write] not in valid - taken, f"the answer to {oldest} waits"
            return
        channel = "rb"[answered.write]
        assert channel in valid, f"{answered} is answered before AXI answers"
        ends = not answered.write or not bench_data()["runs"] or _ends(answered)
        assert taken == ({channel} if ends else set()), f"{taken} taken with the answer to {answered}"
        assert self._arrived in (0, bench_data()["words"]), f"{answered} is answered after {self._arrived} transfers"
        self._arrived, parts = 0, len(self._outputs["err"])
        if not answered.write:
            places = range(answered.address, answered.address + _size(), _size() // parts)
            errors = sum((place in self.failing) << part for part, place in enumerate(places))
            assert sample(self._outputs["err"]) == errors, f"{answered}: errors must be {errors:b}"


class BridgeChecker(Agent):
    """Predicts grants and the contents of the AXI channels from the requests, and compares them in every cycle."""

    def __init__(self, dut: Dut, manager: Manager) -> None:
        super().__init__(dut)
        self._rst, self._manager = dut.rst, manager
        channels = ("ar", "aw") if bench_data()["writes"] else ("ar",)
        address = ("addr", "len", "size", "burst", "cache", "prot")
        self._names = {channel: tuple(f"{channel}{name}" for name in address) for channel in channels}
        self._names |= {"w": ("wdata", "wstrb", "wlast")} if bench_data()["writes"] else {}
        known = [(*rest, f"{channel}valid", f"{channel}ready") for channel, rest in self._names.items()]
        self._axi = {name: getattr(dut, f"axi__{name}") for names in known for name in names}
        self._gnt, self._rvalid = dut.port__gnt, dut.port__rvalid
        self._forget()

    def _forget(self) -> None:
        self._shown: dict[str, tuple[int, ...]] = {}  # expected payload by channel
        self._left = {"ar": 0, "aw": 0}  # transfers left in the burst
        self._under_way = 0

    def sample(self) -> None:
        for channel, names in self._names.items():
            valid = sample(self._axi[f"{channel}valid"])
            shown = tuple(sample(self._axi[name]) for name in names) if valid else None
            assert shown == self._shown.get(channel), f"{channel} shows {shown}, not {self._shown.get(channel)}"
            if sample(self._axi[f"{channel}ready"]):
                self._shown.pop(channel, None)
        if sample(self._rst):
            self._forget()
            return
        request, under_way = self._manager.request, self._under_way
        self._under_way -= sample(self._rvalid)
        if request is None:
            return
        channel = "aw" if request.write else "ar"
        needs = ([] if self._left[channel] else [channel]) + ["w"] * request.write
        free = under_way < _LIMIT and not any(name in self._shown for name in needs)
        assert sample(self._gnt) == free, f"{request}: {under_way} under way, {self._shown} waits"
        if free:
            self._granted(channel, request)

    def _granted(self, channel: str, request: ObiTransfer) -> None:
        self._under_way += 1
        if not self._left[channel]:
            in_block = (BLOCK_BYTES - request.address % BLOCK_BYTES) // _size()
            self._left[channel] = min(request.beats, in_block) if request.write else request.beats
            transfers, size = self._left[channel] * bench_data()["words"], bench_data()["bits"] // BYTE_BITS
            constants = (
                size.bit_length() - 1,
                _INCREMENTING,
                *_ATTRIBUTES[bench_data()["runs"], bench_data()["writes"]],
            )
            self._shown[channel] = (request.address, transfers - 1, *constants)
        self._left[channel] -= 1
        if request.write:
            self._shown["w"] = (request.value, request.enables, int(not self._left[channel]))


class ResettingManager(Manager):
    def _next(self) -> ObiTransfer | None:
        return None if self.cycle % 2 else super()._next()

    def drive(self) -> None:
        if self.cycle % 2 == 0:
            self._granted.clear()
        self._dut.rst.value = self.cycle % 2
        super().drive()


def longest() -> dict[str, int]:
    if bench_data()["runs"]:
        return {"ar": RUN_BYTES, "aw": BLOCK_BYTES}
    return dict.fromkeys(("ar", "aw"), bench_data()["reads"] * _size())


def run_of(address: int, count: int, write: int, rng: Random) -> Run:
    """Return transfers to consecutive addresses, of which the first and the last may be of a part of the bytes."""
    size, whole, run = _size(), (1 << _size()) - 1, Run()
    for at in range(count):
        enables = whole if 0 < at < count - 1 else rng.randrange(1, whole + 1)
        run.append(
            ObiTransfer(address + at * size, write, enables, rng.getrandbits(BYTE_BITS * size), beats=count - at)
        )
    return run


def _random_run(rng: Random, base: int, write: int) -> Run:
    size = _size()
    if not bench_data()["runs"]:
        count = bench_data()["reads"]
        return run_of(base + rng.randrange(0, _HALF, count * size), count, write, rng)
    block, windows = base + rng.randrange(0, _HALF, RUN_BYTES), RUN_BYTES // size
    first = rng.randrange(windows)
    count = rng.choice((windows - first, rng.randint(1, windows - first)))
    return run_of(block + first * size, count, write, rng)


def random_traffic(rng: Random, runs: int, first: int) -> list[ObiTransfer]:
    """Return reads and writes in random order, but the writes of one burst (in an aligned block) together."""
    number, waiting, transfers = runs if bench_data()["runs"] else 8 * runs, list[Run](), list[ObiTransfer]()
    for write in range(1 + bench_data()["writes"]):
        made = (_random_run(rng, first + _HALF * write, write) for _ in range(number))
        waiting.append(Run(chain.from_iterable(made)))
    while unfinished := [group for group in waiting if group]:
        choice = rng.choice(unfinished)
        transfers.append(choice.popleft())
        while transfers[-1].write and not _ends(transfers[-1]):
            transfers.append(choice.popleft())
    return transfers


@unit_test(stalls=list(_STALLS), timeout_us=400)
async def traffic_is_that_of_the_port(dut: Dut, rng: Random, stalls: str) -> None:
    """Random runs of transfers, some failing: data, order of the answers and final memory are checked."""
    # three bases of the memory, two of which differ in every address bit
    anywhere = rng.getrandbits(32) & -_BYTES
    places = (L2_BASE, anywhere, anywhere ^ ADDRESSES - _BYTES)
    first = places[list(_STALLS).index(stalls)]
    # of a line that is one access only the second half fails
    begin = _HALF * 3 // 4 + (_size() // 2 if bench_data()["words"] > 1 else 0)
    failing = range(first + begin, first + _HALF * 5 // 4)
    content = np.frombuffer(rng.randbytes(_BYTES), np.uint8).copy()
    expected = content.copy()
    timing, pause = _STALLS[stalls]
    AxiSubordinate(dut, "axi", content, first, timing, rng, failing)
    traffic, size = random_traffic(rng, _RUNS, first), _size()
    manager = Manager(dut, rng, pause)
    manager.failing = failing
    with AgentGroup(dut, [BridgeChecker(dut, manager), AxiChecker(dut, "axi", longest()), manager]):
        await manager.run(traffic)
    assert manager.most_outstanding <= _LIMIT, f"{manager.most_outstanding} transfers under way"
    assert stalls != "jerky" or manager.most_outstanding == _LIMIT, (
        f"never more than {manager.most_outstanding} transfers under way"
    )
    assert manager.completed == traffic, "not every request is answered"
    for made in traffic:
        place = made.address - first
        if not made.write:
            word = int.from_bytes(expected[place : place + size].tobytes(), "little")
            assert made.failed or made.data == word, f"{made}: {made.data:#x}, must be {word:#x}"
            continue
        # one failing transfer fails the whole burst
        block = made.address & -longest()["aw"]
        assert made.failed == (block in failing), made
        if made.address not in failing:
            new = np.frombuffer(made.value.to_bytes(size, "little"), np.uint8)
            enabled = [made.enables >> byte & 1 for byte in range(size)]
            expected[place : place + size] = np.where(enabled, new, expected[place : place + size])
    assert (content == expected).all(), "the memory differs"


@unit_test(timeout_us=60, skip=not bench_data()["runs"])
async def every_burst_has_its_length(dut: Dut, rng: Random) -> None:
    """Bursts begin at each position in a block with each length; each is then ended by a reset."""
    size = _size()
    windows = RUN_BYTES // size
    groups = [
        (first, beats, write)
        for write in (0, 1)
        for first in range(BLOCK_BYTES // size if write else windows)
        for beats in range(1 if write else max(1, windows - first - 2), windows - first + 1)
    ]
    rng.shuffle(groups)
    runs = [run_of((rng.getrandbits(32) & -RUN_BYTES) + at * size, beats, write, rng)[0] for at, beats, write in groups]
    manager = ResettingManager(dut, rng)
    with AgentGroup(dut, [BridgeChecker(dut, manager), manager]):
        cocotb.start_soon(manager.run(runs))
        await ClockCycles(dut.clk, 2 * len(runs))
    assert manager.cycle == 2 * len(runs)


@unit_test(timeout_us=60)
async def reset_forgets_what_is_under_way(dut: Dut, rng: Random) -> None:
    """After a cycle of reset in the middle of traffic the bridge is in its initial state."""
    memory = AxiSubordinate(dut, "axi", np.zeros(_BYTES, np.uint8), L2_BASE, Stalls(8, 4), rng)
    for _ in range(_RESETS):
        manager = Manager(dut, rng)
        with AgentGroup(dut, [BridgeChecker(dut, manager), manager]):
            making = cocotb.start_soon(manager.run(random_traffic(rng, 4, L2_BASE)))
            await ClockCycles(dut.clk, rng.randint(1, 60))
            making.cancel()
        await pulse_reset(dut, 1)
        memory.reset()
