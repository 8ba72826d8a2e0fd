"""Bench of what leads several initiators to few ports: the bus of the peripherals, and the port to the outside.

Each initiator has words of its own in every place, so that whatever the order, what it reads is what it wrote last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import cocotb
from cocotb.task import Task
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn_sim.benches import obi
from xpulpnn_sim.benches.cadence import Dut, Scoreboard, Stepwise, Together, pulse_reset, sample, start
from xpulpnn_sim.benches.handover import bench_data
from xpulpnn_sim.benches.obi import ObiInitiator, ObiResponder, ObiTiming, Transfer, WordMemory
from xpulpnn_sim.reference.golden.tcdm import Queue

_TRANSFERS = 40
_WORDS = 12
_QUIET = 4
_TIMINGS = (ObiTiming(), ObiTiming(0.6, 1, 3), ObiTiming(1.0, 20, 20), ObiTiming(0.3, 2, 30))


@dataclass(frozen=True, slots=True)
class _Words:
    """Addresses that are accessed."""

    own: Sequence[Sequence[Sequence[int]]]  # addresses of the words of each initiator in each place
    failing: set[int]  # those of which every access fails, one of each initiator in each place
    holes: Sequence[int]  # addresses where nothing is, each a bit away from a place

    def memory(self) -> WordMemory:
        """Words that nobody has written yet."""
        return WordMemory(tuple((address, WORD_BYTES) for address in self.failing))

    def transfers(self, initiator: int, rng: Random, part: int) -> list[Transfer]:
        """Accesses of an initiator: to its words at random, and to a part of the holes, one for each timing."""
        eager = rng.getrandbits(1)
        addresses = [rng.choice(rng.choice(self.own[initiator])) for _ in range(_TRANSFERS)]
        addresses += self.holes[part :: len(_TIMINGS)]
        rng.shuffle(addresses)
        return [
            Transfer(
                address,
                rng.getrandbits(1),
                rng.choice((obi.ALL_BYTES, rng.getrandbits(4))),
                rng.getrandbits(32),
                0 if eager else rng.choice((0, 0, 1, 5)),
            )
            for address in addresses
        ]


def _blocks() -> list[range]:
    return [range(place["base"], place["base"] + place["size"]) for place in bench_data()["places"]]


def _words(initiators: int, rng: Random) -> _Words:
    """Words anywhere in every place."""
    pools = [rng.sample(block[::WORD_BYTES], initiators * _WORDS) for block in _blocks()]
    own = [[pool[number::initiators] for pool in pools] for number in range(initiators)]
    failing = {words[0] for places in own for words in places}
    away = [
        rng.choice(block[::WORD_BYTES]) ^ 1 << bit
        for block in _blocks()
        for bit in range(len(block).bit_length() - 1, XLEN)
    ]
    return _Words(own, failing, [address for address in away if not any(address in block for block in _blocks())])


class Turns(Stepwise):
    """Checks in every cycle that nobody is granted but the one whose turn it is."""

    def __init__(self, dut: Dut, initiators: Sequence[str]) -> None:
        super().__init__(dut)
        self._queue, self._board = Queue("counter", len(initiators)), Scoreboard()
        self._ports = [(getattr(dut, f"{name}__req"), getattr(dut, f"{name}__gnt")) for name in initiators]

    def see(self) -> None:
        """Compare who is granted with whose turn it is."""
        granted = [number for number, (_, gnt) in enumerate(self._ports) if sample(gnt)]
        if granted:
            asking = {number for number, (req, _) in enumerate(self._ports) if sample(req)}
            self._board.equal(granted, [self._queue.next(asking)] if asking else [], f"grant among {asking}")


class Bus:
    """Initiators with something to do, memories that answer, and a check of whose turn it is."""

    def __init__(self, dut: Dut, timing: int, rng: Random) -> None:
        data = bench_data()
        names: list[str] = data["initiators"]
        places: list[dict[str, Any]] = data["places"]
        self.words = _words(len(names), rng)
        self.ports = {
            place["port"]: ObiResponder(
                dut, place["port"], self.words.memory(), _TIMINGS[timing], rng, outstanding=data["outstanding"]
            )
            for place in places
        }
        self.initiators = [ObiInitiator(dut, name) for name in names]
        self.plans = [self.words.transfers(number, rng, timing) for number in range(len(names))]
        self.running = Together(dut, [*self.ports.values(), *self.initiators, Turns(dut, names)])

    def begin(self) -> list[Task[Transfer]]:
        """Let every initiator follow its plan."""
        pairs = zip(self.initiators, self.plans, strict=True)
        return [cocotb.start_soon(initiator.make(plan)) for initiator, plan in pairs]


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(timing=range(len(_TIMINGS)))
async def everybody_gets_the_own_answer(dut: Dut, timing: int) -> None:
    """Every access arrives once, unchanged, at its place, and its answer at its initiator."""
    rng, board = await start(dut), Scoreboard()
    bus = Bus(dut, timing, rng)
    with bus.running:
        for task in bus.begin():
            await task
        await ClockCycles(dut.clk, 2)
    everything = [transfer for plan in bus.plans for transfer in plan]
    for block, (port, responder) in zip(_blocks(), bus.ports.items(), strict=True):
        wanted = [transfer.grant for transfer in everything if transfer.address in block]
        board.equal(sorted(responder.log), sorted(wanted), f"accesses of {port}")
    for number, (initiator, plan) in enumerate(zip(bus.initiators, bus.plans, strict=True)):
        memory = bus.words.memory()
        expected = [obi.expected_data(one, memory, absent=one.address in bus.words.holes) for one in plan]
        board.equal([transfer.data for transfer in initiator.done], expected, f"data of initiator {number}")
        failing = [t.address in bus.words.failing or t.address in bus.words.holes for t in plan]
        board.equal([transfer.failed for transfer in initiator.done], failing, f"errors of initiator {number}")
    if _TIMINGS[timing] == ObiTiming():
        quickest = min(transfer.answered - transfer.granted for transfer in everything)
        board.equal(quickest, bench_data()["latency"], "cycles from grant to answer at least")


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_forgets_what_is_under_way(dut: Dut) -> None:
    """After a cycle of reset in the middle of traffic nothing is asked for and nothing is answered."""
    rng, board = await start(dut), Scoreboard()
    watched = [f"{name}__rvalid" for name in bench_data()["initiators"]]
    watched += [f"{place['port']}__req" for place in bench_data()["places"]]
    for _ in range(30):
        bus = Bus(dut, 1, rng)
        with bus.running:
            tasks = bus.begin()
            await ClockCycles(dut.clk, rng.randint(2, 12))
            await pulse_reset(dut, 1)
        for task in tasks:
            task.cancel()
        for _ in range(_QUIET):
            await FallingEdge(dut.clk)
            board.equal([name for name in watched if sample(getattr(dut, name))], [], "high after reset")
            await RisingEdge(dut.clk)
