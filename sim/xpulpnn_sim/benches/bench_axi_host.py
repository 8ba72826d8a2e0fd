"""Bench of the AXI4 subordinate of a host: bursts of every kind, the accesses of their transfers, answers, turns."""

from dataclasses import dataclass
from random import Random

from cocotb.triggers import ClockCycles, FallingEdge

from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sim.benches.agents.axi import AxiManager, Stalls
from xpulpnn_sim.benches.agents.base import Dut, drive, pulse_reset, sample
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import ALL_BYTES, PROMPT, SLOW, ObiMemory, ObiTiming, WordMemory

_FIXED, _INCREMENTING, _WRAPPING = range(3)  # kinds of bursts
_BURSTS, _SPAN = 60, 1 << 8  # bursts of each direction; bytes of the memory, so few that addresses repeat
_TIMINGS = [(PROMPT, Stalls()), (SLOW, Stalls(3, 3)), (PROMPT, Stalls(12, 2))]
_FAILURE = 2  # response
_IDLE_AFTER_RESET = ("rvalid", "bvalid", "awready", "arready", "wready")


@dataclass(frozen=True, slots=True)
class _Burst:
    write: int
    identifier: int
    address: int
    transfers: int
    size: int  # logarithm of the bytes of a transfer
    kind: int
    words: tuple[tuple[int, int], ...]  # data and enabled bytes of each transfer

    @property
    def places(self) -> list[int]:
        """The addresses of the accesses to words."""
        width, bytes_ = 1 << self.size, self.transfers << self.size
        low = self.address // bytes_ * bytes_
        places = {
            _FIXED: [self.address] * self.transfers,
            _INCREMENTING: [self.address // width * width + width * at for at in range(self.transfers)],
            _WRAPPING: [low + (self.address + width * at) % bytes_ for at in range(self.transfers)],
        }
        return [place & -WORD_BYTES for place in places[self.kind]]


def _burst(rng: Random, bases: tuple[int, int], write: int) -> _Burst:
    size, kind = rng.randrange(3), rng.randrange(3)
    most = {_FIXED: 16, _INCREMENTING: 80 >> size, _WRAPPING: 16}[kind]
    transfers = rng.choice((2, 4, 8, 16)) if kind == _WRAPPING else rng.choice((1, most, rng.randint(1, most)))
    address = rng.choice(bases) + rng.randrange(_SPAN)
    if kind == _WRAPPING:
        address &= -(1 << size)
    words = tuple((rng.getrandbits(32), rng.getrandbits(WORD_BYTES)) for _ in range(transfers))
    return _Burst(write, rng.getrandbits(4), address, transfers, size, kind, words)


def _send(manager: AxiManager, burst: _Burst) -> None:
    fields = {"id": burst.identifier, "addr": burst.address, "len": burst.transfers - 1, "size": burst.size}
    manager.send("aw" if burst.write else "ar", burst=burst.kind, **fields)
    for at, (word, enables) in enumerate(burst.words if burst.write else (), start=1):
        manager.send("w", data=word, strb=enables, last=int(at == burst.transfers))


async def _reset_under_way(dut: Dut, write: int) -> None:
    """Reset during a burst of which a transfer is requested; nothing is accepted in the cycle after reset."""
    channel = "aw" if write else "ar"
    drive(dut, {f"axi__{channel}valid": 1, f"axi__{channel}len": 3, "axi__wvalid": write})
    await ClockCycles(dut.clk, 2)
    drive(dut, {f"axi__{channel}valid": 0})
    await ClockCycles(dut.clk, 2)
    await FallingEdge(dut.clk)
    assert sample(dut.port__req), "nothing is under way"
    drive(dut, {"axi__wvalid": 0})
    await pulse_reset(dut, 1)
    drive(dut, {f"axi__{channel}valid": 1})
    await FallingEdge(dut.clk)
    outputs = (getattr(dut, name) for name in ("port__req", *(f"axi__{name}" for name in _IDLE_AFTER_RESET)))
    assert not any(map(sample, outputs)), "a burst is under way after reset, or accepted"
    drive(dut, {f"axi__{channel}valid": 0})


@unit_test(timing=_TIMINGS, timeout_us=2000)
async def bursts_are_their_accesses(dut: Dut, rng: Random, timing: tuple[ObiTiming, Stalls]) -> None:
    """Random bursts of both directions, some failing: each access, all answers, and the order of bursts."""
    for write in (0, 1):
        await _reset_under_way(dut, write)
    # two places, so that each bit of the address is 0 and 1
    base = rng.getrandbits(32) & -_SPAN
    bases = base, base ^ -_SPAN & WORD_MASK
    failing = tuple((first + _SPAN // 2, 2 * WORD_BYTES) for first in bases)
    expected = WordMemory(failing)
    waiting = [[_burst(rng, bases, write) for _ in range(_BURSTS)] for write in (0, 1)]
    memory = ObiMemory(dut, "port", WordMemory(failing), timing[0], rng)
    manager = AxiManager(dut, "axi", timing[1], rng)
    for burst in (burst for bursts in waiting for burst in bursts):
        _send(manager, burst)
    failures, kinds, places = [0, 0], list[int](), iter(enumerate(memory.log))
    with memory:
        reads = {burst: [await manager.channels["r"].recv() for _ in burst.words] for burst in waiting[0]}
        answers = {burst: await manager.channels["b"].recv() for burst in waiting[1]}
    for at, first in places:
        burst = waiting[first.write].pop(0)
        log = [first, *(request for _, (_, request) in zip(burst.words[1:], places, strict=False))]
        data = [expected[place] for place in burst.places]
        fails = [expected.fails(place) for place in burst.places]
        kinds.append(burst.write)
        if burst.write:
            written = list(zip(burst.places, burst.words, strict=True))
            assert log == [(place, 1, enables, word) for place, (word, enables) in written], f"{burst}: {log}"
            answer = answers[burst]
            assert (answer.bid, answer.bresp) == (burst.identifier, _FAILURE * any(fails)), f"{burst}: {answer}"
            for place, (word, enables) in written:
                if not expected.fails(place):
                    expected.write(place, enables, word)
        else:
            assert [access[:3] for access in log] == [(place, 0, ALL_BYTES) for place in burst.places], f"{burst}"
            told = [(each.rid, each.rresp, each.rlast) for each in reads[burst]]
            last = burst.transfers - 1
            assert told == [(burst.identifier, _FAILURE * bad, at == last) for at, bad in enumerate(fails)], f"{burst}"
            right = [bad or word == each.rdata for word, bad, each in zip(data, fails, reads[burst], strict=True)]
            assert all(right), f"{burst}: {data} {reads[burst]}"
        failures[burst.write] += any(fails)
        cycles = [transfer.requested for transfer in memory.transfers[at : at + burst.transfers]]
        if timing == _TIMINGS[0]:
            assert cycles == list(range(cycles[0], cycles[0] + burst.transfers)), f"{burst} is slow: {cycles}"
    assert not any(waiting), "a burst is lost"
    assert all(failures), "nothing has failed"
    if timing == _TIMINGS[0]:
        assert kinds == [0, 1] * _BURSTS or kinds == [1, 0] * _BURSTS, "reads and writes take no turns"
