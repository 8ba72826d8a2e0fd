"""Bench of the cluster's timer: random settings and reads against arithmetic on the cycles that pass."""

from collections import Counter
from random import Random

import cocotb
from cocotb.triggers import RisingEdge

from xpulpnn.isa.cluster import TIMER, TIMER_PRESCALE_LSB, Timer, TimerConfig
from xpulpnn_sim.bench.cadence import Dut, PortMonitor, start
from xpulpnn_sim.bench.obi_initiator import ObiInitiator, Transfer
from xpulpnn_sim.bench.scoreboard import Scoreboard
from xpulpnn_sim.golden.cluster_timer import ClusterTimer

_TRANSFERS = 500
_LONGEST_GAP = 30
_CYCLE_LIMIT = 20_000
_NEAR_WRAP = 0xFFFF_FFF0
_CHOICES = [flag for flag in TimerConfig if flag not in (TimerConfig.ENABLE, TimerConfig.CASCADE)]


def _config(rng: Random) -> int:
    """A configuration of an enabled timer, mostly, with a short prescaler period."""
    value = sum(flag for flag in _CHOICES if rng.random() < 0.4) | TimerConfig.EVENT
    value |= TimerConfig.ENABLE * (rng.random() < 0.9) | TimerConfig.CASCADE * (rng.random() < 0.2)
    return value | rng.randrange(4) << TIMER_PRESCALE_LSB


def _transfer(rng: Random) -> Transfer:
    """A write that makes something happen soon, or a read."""
    register = rng.choice(list(Timer))
    gap = rng.choice((0, 1, rng.randrange(_LONGEST_GAP), rng.randrange(_LONGEST_GAP)))
    if rng.random() < 0.4:
        return Transfer(TIMER + register, gap=gap)
    if register in (Timer.CONFIG_LOW, Timer.CONFIG_HIGH):
        value = _config(rng)
    elif register in (Timer.COUNT_HIGH, Timer.COMPARE_HIGH):
        value = rng.randrange(3)
    else:
        value = rng.choice((rng.randrange(_LONGEST_GAP), _NEAR_WRAP + rng.randrange(16)))
    return Transfer(TIMER + register, 1, value=value, gap=gap)


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def time_is_arithmetic(dut: Dut) -> None:
    """Every value read and every event is what the cycles since the last setting give."""
    rng, board = await start(dut), Scoreboard()
    transfers = [_transfer(rng) for _ in range(_TRANSFERS)]
    with ObiInitiator(dut, "port") as software, PortMonitor(dut, ["events"]) as monitor:
        software.put(transfers)
        await software.finish(_CYCLE_LIMIT)
        await RisingEdge(dut.clk)
    timer, now, raised = ClusterTimer(), 0, 0
    for number, transfer in enumerate(transfers):
        where = f"transfer {number} in cycle {transfer.granted}"
        expected = timer.advance(transfer.granted - now)
        if not transfer.write:
            board.equal(transfer.data, timer.read(transfer.address - TIMER), f"{where}: register read")
        expected += timer.advance(1)
        if transfer.write:
            timer.write(transfer.address - TIMER, transfer.value)
        seen = [events for (events,) in monitor.rows[now : transfer.granted + 1]]
        found = [bit for events in seen for bit in (0, 1) if events >> bit & 1]
        board.equal(Counter(found), Counter(expected), f"{where}: events since the one before")
        raised += len(found)
        now = transfer.granted + 1
        board.equal(transfer.answered, now, f"{where}: cycle of the answer")
    assert raised > _TRANSFERS // 10, f"{raised} events are too few to have tested anything"
