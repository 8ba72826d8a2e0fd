"""Bench of what leads several initiators to few ports: the bus of the peripherals, and the port to the outside.

Each initiator has words of its own in every place, so that whatever the order, what it reads is what it wrote last.
"""

from bisect import bisect_left
from contextlib import ExitStack
from random import Random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.bench.cadence import Dut, start
from xpulpnn_sim.bench.handover import bench_data
from xpulpnn_sim.bench.obi import ALL_BYTES, Grant, ObiResponder, ObiTiming, WordMemory
from xpulpnn_sim.bench.obi_initiator import ObiInitiator, Transfer
from xpulpnn_sim.bench.scoreboard import Scoreboard

_TRANSFERS = 40
_WORDS = 4
_BAD_BYTES = 16
_CYCLE_LIMIT = 20_000
_TIMINGS = (ObiTiming(), ObiTiming(0.6, 1, 3), ObiTiming(1.0, 20, 20), ObiTiming(0.3, 2, 30))


def _transfers(initiator: int, number: int, bases: list[int], rng: Random) -> list[Transfer]:
    """Accesses of an initiator to its own words."""
    return [
        Transfer(
            rng.choice(bases) + WORD_BYTES * (rng.randrange(_WORDS) * number + initiator),
            rng.getrandbits(1),
            rng.choice((ALL_BYTES, rng.getrandbits(4))),
            rng.getrandbits(32),
            0 if eager else rng.choice((0, 0, 1, 5)),
        )
        for eager in [rng.getrandbits(1)]
        for _ in range(_TRANSFERS)
    ]


def _failing(places: list[dict[str, Any]]) -> list[range]:
    """Accesses that fail: to the second group of words of each place."""
    return [range(place["base"] + _BAD_BYTES, place["base"] + 2 * _BAD_BYTES) for place in places]


def _most_overtaken(plans: list[list[Transfer]]) -> int:
    """Grants to others while a request waited, at most."""
    grants = sorted(transfer.granted for plan in plans for transfer in plan)
    return max(
        bisect_left(grants, transfer.granted) - bisect_left(grants, transfer.requested)
        for plan in plans
        for transfer in plan
    )


def _expected(transfer: Transfer, memory: WordMemory, holes: list[range]) -> int:
    """What a transfer reads, with what does not matter as it was seen."""
    hole = any(transfer.address in hole for hole in holes)
    if memory.fails(transfer.address):
        return transfer.data
    if transfer.write:
        if not hole:
            memory.write(transfer.address, transfer.enables, transfer.value)
        return 0
    mask = sum(0xFF << 8 * byte for byte in range(WORD_BYTES) if transfer.enables >> byte & 1)
    return (0 if hole else memory[transfer.address]) & mask | transfer.data & ~mask


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(timing=range(len(_TIMINGS)))
async def everybody_gets_the_own_answer(dut: Dut, timing: int) -> None:
    """Every access arrives once, unchanged, at its place, and its answer at its initiator."""
    data = bench_data()
    rng, board = await start(dut), Scoreboard()
    names: list[str] = data["initiators"]
    places: list[dict[str, Any]] = data["places"]
    holes = [range(base, base + size) for base, size in data["holes"]]
    bases = [place["base"] for place in places] + [hole.start for hole in holes]
    plans = [_transfers(number, len(names), bases, rng) for number in range(len(names))]
    with ExitStack() as stack:
        ports = {
            place["port"]: stack.enter_context(
                ObiResponder(
                    dut,
                    place["port"],
                    WordMemory(((place["base"] + _BAD_BYTES, _BAD_BYTES),)),
                    _TIMINGS[timing],
                    rng,
                    outstanding=data["outstanding"],
                )
            )
            for place in places
        }
        initiators = [stack.enter_context(ObiInitiator(dut, name)) for name in names]
        for initiator, plan in zip(initiators, plans, strict=True):
            initiator.put(plan)
        for initiator in initiators:
            await initiator.finish(_CYCLE_LIMIT)
        await RisingEdge(dut.clk)
    everything = [transfer for plan in plans for transfer in plan]
    for place in places:
        here = range(place["base"], place["base"] + place["size"])
        wanted = [Grant(t.address, t.write, t.enables, t.value) for t in everything if t.address in here]
        board.equal(sorted(ports[place["port"]].log), sorted(wanted), f"accesses of {place['port']}")
    for number, (initiator, plan) in enumerate(zip(initiators, plans, strict=True)):
        memory = WordMemory(tuple((bad.start, len(bad)) for bad in _failing(places)))
        expected = [_expected(transfer, memory, holes) for transfer in plan]
        board.equal([transfer.data for transfer in initiator.done], expected, f"data of initiator {number}")
        failing = [any(t.address in bad for bad in (*holes, *_failing(places))) for t in plan]
        board.equal([transfer.failed for transfer in initiator.done], failing, f"errors of initiator {number}")
    # the arbiter's promise
    assert _most_overtaken(plans) < len(names), f"{_most_overtaken(plans)} grants to others while a request waited"
    if _TIMINGS[timing] == ObiTiming():
        quickest = min(transfer.answered - transfer.granted for transfer in everything)
        board.equal(quickest, data["latency"], "cycles from grant to answer at least")
