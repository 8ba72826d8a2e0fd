"""Bench of the demultiplexer of a core: destinations, answers, events."""

from collections.abc import Sequence
from random import Random

import cocotb
from cocotb.triggers import ClockCycles

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.csr import CLUSTER_EVENTS
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK, XLEN
from xpulpnn_sim.benches.agents import obi
from xpulpnn_sim.benches.agents.base import AgentGroup, Dut, PortMonitor, pulse_reset
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import ObiManager, ObiMemory, ObiTiming, ObiTransfer, WordMemory
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.launcher_data import configuration
from xpulpnn_sim.reference.golden.tcdm import destination, ranges

_TRANSFERS = 600
_NEAR_WORDS = 3
_BAD_OUTSIDE = range(0x1A10_0000, 0x1C00_0000)  # external addresses that fail
_BAD_PART = 8  # the second of so many parts of each internal block fails


def _failing(config: ClusterConfig) -> list[range]:
    parts = [(base, size // _BAD_PART) for base, size, _ in ranges(config)]
    return [_BAD_OUTSIDE, *(range(base + size, base + 2 * size) for base, size in parts)]


def _addresses(config: ClusterConfig, rng: Random) -> list[int]:
    """Return addresses near all borders of the address map, inside its ranges, one bit away from these, and random."""
    borders = [edge for base, size, _ in ranges(config) for edge in (base, base + size)]
    near = [(edge + WORD_BYTES * offset) & WORD_MASK for edge in borders for offset in range(-_NEAR_WORDS, _NEAR_WORDS)]
    near += [rng.choice(_BAD_OUTSIDE[::WORD_BYTES]) for _ in range(_TRANSFERS // 20)]
    near += [
        base + rng.randrange(0, size, WORD_BYTES) ^ 1 << bit
        for base, size, _ in ranges(config)
        for bit in range(2, XLEN)
    ]
    anywhere = [rng.getrandbits(32) & -WORD_BYTES for _ in range(_TRANSFERS // 4)]
    inside = [base + rng.randrange(0, size, WORD_BYTES) for base, size, _ in rng.choices(ranges(config), k=_TRANSFERS)]
    return near + anywhere + inside


def _ports() -> list[str]:
    return ["tcdm", "event_unit", "peripherals", "ext"] + (["dma"] if configuration().dma else [])


class PortMemory(WordMemory):
    def __init__(self, port: str, failing: Sequence[range]) -> None:
        super().__init__(tuple((bad.start, len(bad)) for bad in failing))
        self._port = port

    def __missing__(self, address: int) -> int:
        return (address ^ sum(self._port.encode()) << 16) & WORD_MASK


@unit_test(timing=[obi.PROMPT, obi.SLOW])
async def every_access_has_its_place(dut: Dut, rng: Random, board: Scoreboard, timing: ObiTiming) -> None:
    """Each access reaches only its destination and gets the answer from there; the counts of events are checked."""
    config: ClusterConfig = configuration()
    late = int(config.core.late_results)
    ports = _ports()
    bad = _failing(config)
    memories = {port: PortMemory(port, bad) for port in ports}
    addresses = _addresses(config, rng)
    rng.shuffle(addresses)
    transfers = [
        ObiTransfer(address, int(rng.random() < 0.4), enables, rng.getrandbits(32), rng.choice((0, 0, 0, 1, 3)))
        for address in addresses
        for enables in (rng.choice((obi.ALL_BYTES, rng.getrandbits(4))),)
    ]
    responders = {port: ObiMemory(dut, port, memories[port], timing, rng) for port in ports}
    core = ObiManager(dut, "core")
    monitor = PortMonitor(dut, ["events", "tcdm__req", "tcdm__gnt", *(["claim"] if late else [])])
    with AgentGroup(dut, [*responders.values(), core]), monitor:
        await core.run(transfers)
        await ClockCycles(dut.clk, 2)
    placed = [(transfer, destination(transfer.address, config)) for transfer in transfers]
    for port in ports:
        expected = [transfer.as_request for transfer, place in placed if place == port]
        board.equal(responders[port].log, expected, f"accesses of {port}")
    before = {place: PortMemory(place, bad) for _, place in placed}
    answers = [obi.expected_answer(t, before[place], absent=place == "unmapped") for t, place in placed]
    board.equal([(t.data, t.failed) for t in core.completed], answers, "data read and errors")
    if timing is obi.PROMPT:
        took = {(place == "tcdm", transfer.answered - transfer.requested) for transfer, place in placed}
        board.equal(took, {(True, 1), (False, 1 + late)}, "cycles to the answer")
    _check_events(placed, monitor.rows, board, late)
    if late:
        # `claim` comes with each request, and once with every access to another destination
        board.equal(
            [request for _, request, _, claim in monitor.rows if request and not claim], [], "requests without a claim"
        )
        idle = sum(claim and not request for _, request, _, claim in monitor.rows)
        board.equal(idle, sum(place != "tcdm" for _, place in placed), "claims without a request")


@unit_test()
async def reset_forgets_what_is_under_way(dut: Dut, rng: Random, board: Scoreboard) -> None:
    """After one cycle of reset during an access nothing is requested, answered or counted."""
    ports = _ports()
    watched = ["core__rvalid", "events", *(f"{port}__req" for port in ports)]
    for _ in range(30):
        timing = ObiTiming(0.5, 4, 9)
        responders = [ObiMemory(dut, port, PortMemory(port, []), timing, rng) for port in ports]
        core = ObiManager(dut, "core", rng=rng)
        with AgentGroup(dut, [*responders, core]):
            transfers = [
                ObiTransfer(address, rng.getrandbits(1)) for address in rng.sample(_addresses(configuration(), rng), 9)
            ]
            task = cocotb.start_soon(core.run(transfers))
            await ClockCycles(dut.clk, rng.randint(2, 20))
            await pulse_reset(dut, 1)
        task.cancel()
        await board.stays_low(dut, watched, 3, "high after reset")


def _check_events(placed: list[tuple[ObiTransfer, str]], seen: list[list[int]], board: Scoreboard, late: int) -> None:
    outside = [transfer for transfer, place in placed if place == "ext"]
    loads = [transfer for transfer in outside if not transfer.write]
    stores = [transfer for transfer in outside if transfer.write]
    lost = [request & ~grant & 1 for _, request, grant, *_ in seen]
    expected = {
        "ext_loads": len(loads),
        "ext_stores": len(stores),
        "ext_load_cycles": sum(transfer.answered - transfer.requested - late for transfer in loads),
        "ext_store_cycles": sum(transfer.answered - transfer.requested - late for transfer in stores),
        "tcdm_contention": sum(lost),
    }
    observed = {name: sum(events >> bit & 1 for events, *_ in seen) for bit, name in enumerate(CLUSTER_EVENTS)}
    board.equal(observed, expected, "events")
