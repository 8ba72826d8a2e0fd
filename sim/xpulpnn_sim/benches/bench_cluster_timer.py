"""Bench of the cluster's timer: random settings and reads against a cycle-accurate model."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from random import Random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from xpulpnn.isa.cluster import BLOCK_BYTES, TIMER, TIMER_PRESCALE_BITS, TIMER_PRESCALE_LSB, Timer, TimerConfig
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK, XLEN
from xpulpnn_sim.benches.agents.base import Dut, PortMonitor, pulse_reset, start
from xpulpnn_sim.benches.agents.obi import ALL_BYTES, ENABLED, ObiManager, ObiTransfer, register_words
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.reference.golden.cluster_timer import ClusterTimerModel
from xpulpnn_sim.reference.stimuli import separating_words

_TRANSFERS = 400
_LONGEST_GAP = 30
_NEAR_WRAP = 0xFFFF_FFF0
_STRETCH = 25
_SLOW = 0.3
_NOWHERE = BLOCK_BYTES - WORD_BYTES  # offset without a register
_WHOLE = (1 << TIMER_PRESCALE_BITS) - 1
_STORED = [register for register in Timer if not register.name.startswith(("START", "RESET"))]
_CHOICES = [flag for flag in TimerConfig if flag not in (TimerConfig.ENABLE, TimerConfig.CASCADE)]


def _config(rng: Random, *, slow: bool) -> int:
    value = sum(flag for flag in _CHOICES if rng.random() < 0.4) | TimerConfig.EVENT * (rng.random() < 0.9)
    value |= TimerConfig.ENABLE * (rng.random() < 0.9) | TimerConfig.CASCADE * (rng.random() < 0.2)
    period = rng.getrandbits(TIMER_PRESCALE_BITS) if slow else rng.randrange(4)
    return value | period << TIMER_PRESCALE_LSB


def _transfer(base: int, rng: Random, *, slow: bool) -> ObiTransfer:
    """Return a read, or a write of a count or comparison value close to ``base``, so that an event follows soon."""
    register = rng.choice(list(Timer))
    gap = rng.choice((0, 1, rng.randrange(_LONGEST_GAP), rng.randrange(_LONGEST_GAP)))
    if slow and rng.random() < 0.1:
        gap = rng.randrange(2 << TIMER_PRESCALE_BITS)
    if rng.random() < 0.4:
        return ObiTransfer(TIMER + (_NOWHERE if rng.random() < 0.1 else register), gap=gap)
    if register in (Timer.CONFIG_LOW, Timer.CONFIG_HIGH):
        value = _config(rng, slow=slow)
    elif register in (Timer.COUNT_HIGH, Timer.COMPARE_HIGH) and rng.random() < 0.5:
        value = rng.randrange(3)
    else:
        value = base + rng.randrange(_LONGEST_GAP) & WORD_MASK
    enables = ALL_BYTES if rng.random() < 0.9 else rng.randrange(1 << WORD_BYTES)
    return ObiTransfer(TIMER + register, 1, enables=enables, value=value, gap=gap)


def _shorten_period(rng: Random) -> Iterator[ObiTransfer]:
    """Shorten the period of a prescaler that has already counted further, so that the prescaler wraps."""
    config, count = rng.choice(((Timer.CONFIG_LOW, Timer.COUNT_LOW), (Timer.CONFIG_HIGH, Timer.COUNT_HIGH)))
    for period, gap in ((_WHOLE, 0), (rng.randrange(_WHOLE // 8), rng.randint(_WHOLE // 2, _WHOLE))):
        value = TimerConfig.ENABLE | TimerConfig.PRESCALER | period << TIMER_PRESCALE_LSB
        yield ObiTransfer(TIMER + config, 1, value=value, gap=gap)
    yield ObiTransfer(TIMER + count, gap=_WHOLE + rng.randrange(_WHOLE))


def _ends(rng: Random) -> Iterator[ObiTransfer]:
    """Count up to compare values among which any two bits differ, and past counts one bit away from them."""
    for half in ("LOW", "HIGH"):
        config, count, compare = (TIMER + Timer[f"{name}_{half}"] for name in ("CONFIG", "COUNT", "COMPARE"))
        yield ObiTransfer(config, 1, value=TimerConfig.ENABLE | TimerConfig.EVENT)
        words = separating_words(rng)
        for place in range(XLEN):
            word = words[place % len(words)]
            yield ObiTransfer(compare, 1, value=word)
            yield ObiTransfer(count, 1, value=word - 2 & WORD_MASK)
            yield ObiTransfer(count, 1, value=word ^ 1 << place, gap=4)
        # prescaler periods that tell any two bits apart
        for period in (_WHOLE, *{word & _WHOLE for word in words} - {0, _WHOLE}):
            slow = TimerConfig.ENABLE | TimerConfig.PRESCALER | TimerConfig.RESET | period << TIMER_PRESCALE_LSB
            yield ObiTransfer(config, 1, value=slow)
            yield ObiTransfer(count, gap=max(period - 6, 0))
            yield from (ObiTransfer(count) for _ in range(12))
        yield ObiTransfer(config, 1)
    yield from _carries(rng)


def _carries(rng: Random) -> Iterator[ObiTransfer]:
    """Cascade the timers: the upper half counts when the lower half wraps; only both halves together raise an event."""
    low, high = ({name: TIMER + Timer[f"{name}_{half}"] for name in ("COUNT", "COMPARE")} for half in ("LOW", "HIGH"))
    word = rng.getrandbits(XLEN)
    yield ObiTransfer(TIMER + Timer.CONFIG_LOW, 1, value=TimerConfig.ENABLE | TimerConfig.EVENT | TimerConfig.CASCADE)
    for half in (low, high):
        yield ObiTransfer(half["COMPARE"], 1, value=word)
    for place in range(XLEN):
        yield ObiTransfer(low["COUNT"], 1, value=WORD_MASK ^ 1 << place)
        yield ObiTransfer(high["COUNT"], gap=1)
        yield ObiTransfer(low["COUNT"], 1, value=WORD_MASK - 1)
        yield ObiTransfer(high["COUNT"], gap=3)
        for half, flipped in product((low, high), (1 << place, 0)):
            yield ObiTransfer(half["COUNT"], 1, value=word ^ flipped)
    yield ObiTransfer(TIMER + Timer.CONFIG_LOW, 1)


def _transfers(rng: Random) -> Iterator[ObiTransfer]:
    """Yield directed transfers, then random ones with counts close to 0 and to the wrap, then writes of ones."""
    yield from register_words(TIMER, _STORED, rng)
    yield from _ends(rng)
    for _ in range(_TRANSFERS // _STRETCH):
        base, slow = rng.choice((0, _NEAR_WRAP, rng.getrandbits(XLEN))), rng.random() < _SLOW
        for register in (Timer.COUNT_LOW, Timer.COUNT_HIGH, Timer.COMPARE_LOW, Timer.COMPARE_HIGH):
            yield ObiTransfer(TIMER + register, 1, value=base + rng.randrange(_LONGEST_GAP) & WORD_MASK)
        if rng.random() < 0.5:
            # both halves reach their comparison values soon
            for register in (Timer.COUNT_HIGH, Timer.COMPARE_HIGH):
                yield ObiTransfer(TIMER + register, 1, value=base)
            yield ObiTransfer(TIMER + Timer.COMPARE_LOW, 1, value=base + _LONGEST_GAP & WORD_MASK)
            config = _config(rng, slow=False) | TimerConfig.CASCADE | TimerConfig.ENABLE
            yield ObiTransfer(TIMER + Timer.CONFIG_LOW, 1, value=config & ~TimerConfig.RESET)
            yield ObiTransfer(TIMER + Timer.COUNT_LOW, 1, value=base + rng.randrange(_LONGEST_GAP) & WORD_MASK)
            yield ObiTransfer(TIMER + Timer.COUNT_LOW, gap=2 * _LONGEST_GAP)
        if rng.random() < 0.3:
            yield from _shorten_period(rng)
        yield from (_transfer(base, rng, slow=slow) for _ in range(_STRETCH))
    # no register is 0 before the reset
    yield from (ObiTransfer(TIMER + register, 1, value=WORD_MASK & ~TimerConfig.RESET) for register in _STORED)
    yield ObiTransfer(TIMER + Timer.COUNT_LOW, gap=rng.randrange(_WHOLE // 2))


def _written(timer: ClusterTimerModel, transfer: ObiTransfer) -> int:
    written = ENABLED[transfer.enables]
    return timer.read(transfer.address - TIMER) & ~written | transfer.value & written


def _armed(timer: ClusterTimerModel) -> int:
    required = TimerConfig.ENABLE | TimerConfig.EVENT
    configs = [timer.read(register) for register in (Timer.CONFIG_LOW, Timer.CONFIG_HIGH)]
    return sum((config & required == required) << place for place, config in enumerate(configs))


def _after_reset() -> Iterator[ObiTransfer]:
    """Read all registers, then both counts around the end of the first period of the longest prescaler."""
    yield from (ObiTransfer(TIMER + register) for register in _STORED)
    value = TimerConfig.ENABLE | TimerConfig.PRESCALER | _WHOLE << TIMER_PRESCALE_LSB
    yield from (ObiTransfer(TIMER + config, 1, value=value) for config in (Timer.CONFIG_LOW, Timer.CONFIG_HIGH))
    yield ObiTransfer(TIMER + Timer.COUNT_LOW, gap=_WHOLE - 8)
    yield from (ObiTransfer(TIMER + count) for count in (Timer.COUNT_LOW, Timer.COUNT_HIGH) * 8)


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def time_is_arithmetic(dut: Dut) -> None:
    """Every value read and every event is determined by the number of cycles since the last write or reset."""
    rng, board = await start(dut), Scoreboard()
    raised = 0
    for life in (_transfers(rng), _after_reset()):
        await pulse_reset(dut)
        transfers = list(life)
        with ObiManager(dut, "port") as software, PortMonitor(dut, ["events", "armed"]) as monitor:
            await software.run(transfers)
            await RisingEdge(dut.clk)
            await RisingEdge(dut.clk)
        raised += _compare(board, transfers, monitor.rows)
    assert raised > _TRANSFERS // 20, f"{raised} events are too few to have tested anything"


def _compare(board: Scoreboard, transfers: Sequence[ObiTransfer], rows: Sequence[Any]) -> int:
    timer, now, raised = ClusterTimerModel(), 0, 0
    for number, transfer in enumerate(transfers):
        where = f"transfer {number} in cycle {transfer.granted}"
        expected = timer.advance(transfer.granted - now)
        board.equal(rows[transfer.granted][1], _armed(timer), f"{where}: armed")
        if not transfer.write:
            board.equal(transfer.data, timer.read(transfer.address - TIMER), f"{where}: register read")
        # bytes that are not written hold the value before this cycle's count
        written = _written(timer, transfer)
        expected += timer.advance(1)
        if transfer.write:
            timer.write(transfer.address - TIMER, written)
        seen = [events for events, _ in rows[now : transfer.granted + 1]]
        observed = [bit for events in seen for bit in (0, 1) if events >> bit & 1]
        board.equal(Counter(observed), Counter(expected), f"{where}: events since the one before")
        raised += len(observed)
        now = transfer.granted + 1
        board.equal(transfer.failed, transfer.address == TIMER + _NOWHERE, f"{where}: error")
        board.equal(transfer.answered, now, f"{where}: cycle of the answer")
    return raised
