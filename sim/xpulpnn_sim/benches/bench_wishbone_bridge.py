"""Bench of the bridges to Wishbone: what is read and written, when, and the rules of Wishbone."""

from random import Random
from typing import NamedTuple

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.cadence import Driven, Dut, Stepwise, Together, drive, sample, start
from xpulpnn_sim.benches.handover import bench_data
from xpulpnn_sim.benches.obi import ALL_BYTES, ANY_NUMBER, ObiInitiator, Transfer, WordMemory

_CLASSIC, _INCREMENTING, _END = 0, 2, 7
_FIELDS = ("adr", "we", "sel", "cti", "bte")
_SPAN = 1024  # bytes of the memory: addresses come again
_TRANSFERS = 150


class Timing(NamedTuple):
    """Probability that a transfer ends in a cycle, and that it fails by ``err`` alone, without ``ack``."""

    ends: float
    alone: float


class Cycle(NamedTuple):
    """A transfer at Wishbone, and the cycles from its request to its end."""

    address: int
    writes: int
    enables: int
    first: int
    last: int


class WishboneMemory(Stepwise):
    """Memory on the port ``bus`` that ends transfers after any number of cycles, and checks the rules."""

    settles = True

    def __init__(self, dut: Dut, memory: WordMemory, timing: Timing, rng: Random, words: int) -> None:
        super().__init__(dut)
        self.log: list[Cycle] = []
        self._memory, self._timing, self._rng, self._words = memory, timing, rng, words
        self._driven = Driven(dut, "bus__")
        self._seen = {name: getattr(dut, f"bus__{name}") for name in (*_FIELDS, "cyc", "stb", "dat_w")}
        self._waiting: tuple[int, dict[str, int]] | None = None  # first cycle and attributes of a transfer
        self._next: int | None = None  # address of the next transfer of a burst
        self._word, self._cycle, self._ends = 0, 0, False

    def show(self) -> None:
        """End nothing, with any data."""
        self._driven.drive(ack=0, err=0, dat_r=self._rng.getrandbits(32))

    def settle(self) -> None:
        """End the transfer, or not; while there is none, transfers of others may end."""
        there = sample(self._seen["stb"]) > 0
        self._ends = there and self._rng.random() < self._timing.ends
        if not there:
            self._driven.drive(ack=self._rng.getrandbits(1), err=self._rng.getrandbits(1))
        if self._ends:
            address = sample(self._seen["adr"]) * WORD_BYTES
            fails = self._memory.fails(address)
            self._driven.drive(ack=int(not fails or self._rng.random() >= self._timing.alone), err=int(fails))
            if not fails and not sample(self._seen["we"]):
                self._driven.drive(dat_r=self._memory[address])

    def see(self) -> None:
        """Check the transfer, and do it if it ends."""
        cycle, stb = self._cycle, sample(self._seen["stb"])
        self._cycle += 1
        assert sample(self._seen["cyc"]) == stb, "cyc without stb, or stb without cyc"
        if not stb:
            assert self._waiting is None, "a transfer is withdrawn"
            assert self._next is None, "a burst breaks off"
            return
        shown = {name: sample(self._seen[name]) for name in (*_FIELDS, "dat_w")}
        if not shown["we"]:
            del shown["dat_w"]
        if self._waiting is None:
            self._begins(shown)
            self._waiting = (cycle, shown)
        assert self._waiting[1] == shown, f"{self._waiting[1]} becomes {shown} before it ends"
        if self._ends:
            self._end(self._waiting[0], cycle, shown)

    def _begins(self, shown: dict[str, int]) -> None:
        last = self._word == self._words - 1
        kind = _CLASSIC if self._words == 1 else _END if last else _INCREMENTING
        assert (shown["cti"], shown["bte"]) == (kind, 0), shown
        assert self._next in (None, shown["adr"]), f"{shown} does not follow in its burst"
        self._next = None if last else shown["adr"] + 1

    def _end(self, first: int, cycle: int, shown: dict[str, int]) -> None:
        address = shown["adr"] * WORD_BYTES
        if shown["we"] and not self._memory.fails(address):
            self._memory.write(address, shown["sel"], shown["dat_w"])
        self.log.append(Cycle(address, shown["we"], shown["sel"], first, cycle))
        self._waiting, self._word = None, (self._word + 1) % self._words

    def rest(self) -> None:
        """End nothing."""
        self._driven.drive(ack=0, err=0)


class Initiator(ObiInitiator):
    """Makes accesses, and checks data and errors with a memory of its own."""

    def __init__(self, dut: Dut, memory: WordMemory, rng: Random, pause: float) -> None:
        super().__init__(dut, "port", under_way=ANY_NUMBER, pause=pause, rng=rng)
        self._memory, self._words = memory, bench_data()["words"]
        self._error_bits = len(self._seen["err"])
        self.failures = 0

    def _fields(self, request: Transfer) -> dict[str, int]:
        if not bench_data()["writes"]:
            return {"addr": request.address >> bench_data()["shift"]}
        return super()._fields(request)

    def _look(self, answered: Transfer | None) -> None:
        if answered is None:
            return
        places = [answered.address + WORD_BYTES * word for word in range(self._words)]
        failing = [self._memory.fails(place) for place in places]
        share = self._words // self._error_bits
        errors = sum(any(failing[part * share : (part + 1) * share]) << part for part in range(self._error_bits))
        assert sample(self._seen["err"]) == errors, f"{answered}: errors must be {errors:b}"
        self.failures += errors > 0
        data = sample(self._seen["rdata"])
        for word, (place, fails) in enumerate(zip(places, failing, strict=True)):
            if answered.write and not fails:
                enables = answered.enables >> WORD_BYTES * word & ALL_BYTES
                self._memory.write(place, enables, answered.value >> 32 * word & WORD_MASK)
            elif not answered.write and not fails:
                assert data >> 32 * word & WORD_MASK == self._memory[place], f"{answered}: {data:#x}"


async def _reset_under_way(dut: Dut, rng: Random) -> None:
    """Reset while an access is under way, before its first transfer, or when one of them ends."""
    words, shift = bench_data()["words"], bench_data()["shift"]
    for ended in range(words + 1):
        before = max(0, ended - 1)
        address = rng.getrandbits(32) & -words * WORD_BYTES
        drive(dut, {"port__req": 1, "port__addr": address >> shift})
        await RisingEdge(dut.clk)
        drive(dut, {"port__req": 0, "bus__ack": int(ended > 0)})
        await ClockCycles(dut.clk, before)
        dut.rst.value = 1
        await FallingEdge(dut.clk)
        assert sample(dut.bus__cyc), "nothing is under way"
        assert sample(dut.bus__adr) == address // WORD_BYTES + before, "another word is under way"
        await RisingEdge(dut.clk)
        drive(dut, {"rst": 0, "bus__ack": 0})
        await FallingEdge(dut.clk)
        assert not sample(dut.bus__cyc), "an access is under way after reset"
        assert not sample(dut.port__rvalid), "an access is answered after reset"
        await RisingEdge(dut.clk)


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(timing=[Timing(1.0, 0.5), Timing(0.5, 1.0), Timing(0.15, 0.0)], pause=[0.0, 0.5])
async def accesses_are_those_of_the_port(dut: Dut, timing: Timing, pause: float) -> None:
    """Random accesses, with errors: data, the memory afterwards, and every cycle of the handshakes."""
    rng, words = await start(dut), bench_data()["words"]
    size = words * WORD_BYTES
    # in two places, so that each bit of the address is 0 and 1
    base = rng.getrandbits(32) & -_SPAN
    bases = base, base ^ -_SPAN & WORD_MASK
    # any words of an access
    failing = ((at, word) for at in range(64 // words) for word in range(words) if at >> word & 1)
    hole = tuple((base + at * size + word * WORD_BYTES, WORD_BYTES) for at, word in failing)
    there, expected = WordMemory(hole), WordMemory(hole)
    for place in (first + offset for first in bases for offset in range(0, _SPAN, WORD_BYTES)):
        there[place] = expected[place] = rng.getrandbits(32)
    memory = WishboneMemory(dut, there, timing, rng, words)
    initiator = Initiator(dut, expected, rng, pause)
    traffic = [
        Transfer(
            rng.choice(bases) + rng.randrange(_SPAN // size) * size,
            int(bench_data()["writes"] and rng.random() < 0.5),
            rng.getrandbits(size) if bench_data()["writes"] else (1 << size) - 1,
            rng.getrandbits(8 * size),
        )
        for _ in range(_TRANSFERS)
    ]
    await _reset_under_way(dut, rng)
    with Together(dut, [memory, initiator]):
        await initiator.make(traffic)
    assert dict(there) == dict(expected), "the memory differs"
    assert initiator.failures, "nothing has failed"
    assert initiator.most == 1, f"{initiator.most} accesses under way"
    assert len(memory.log) == words * len(traffic)
    free = 0
    for number, access in enumerate(initiator.done):
        bursts = memory.log[words * number : words * (number + 1)]
        assert access.granted == max(access.requested, free), f"{access} is not granted at once"
        last = access.answered - bench_data()["late"]
        assert (bursts[0].first, bursts[-1].last) == (access.granted + 1, last), f"{access}: {bursts}"
        assert [one[:3] for one in bursts] == [
            (access.address + WORD_BYTES * word, access.write, access.enables >> WORD_BYTES * word & ALL_BYTES)
            for word in range(words)
        ]
        free = access.answered
