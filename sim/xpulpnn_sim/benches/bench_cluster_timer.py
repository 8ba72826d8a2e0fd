"""Bench of the cluster's timer: random settings and reads against a cycle-accurate model."""

from collections.abc import Iterator
from itertools import product
from random import Random

from xpulpnn.isa.cluster import BLOCK_BYTES, TIMER, TIMER_PRESCALE_BITS, TIMER_PRESCALE_LSB, Timer, TimerConfig
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK, XLEN
from xpulpnn_sim.benches.agents.base import Dut
from xpulpnn_sim.benches.agents.fixtures import unit_test
from xpulpnn_sim.benches.agents.obi import ALL_BYTES, ObiTransfer
from xpulpnn_sim.benches.peripheral_env import register_words, run_transfers
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


class _Model(ClusterTimerModel):
    def cycle(self) -> dict[str, int]:
        configs = [self.read(register) for register in (Timer.CONFIG_LOW, Timer.CONFIG_HIGH)]
        required = TimerConfig.ENABLE | TimerConfig.EVENT
        armed = sum((config & required == required) << half for half, config in enumerate(configs))
        return {"events": sum(1 << half for half in self.advance(1)), "armed": armed}


def _after_reset() -> Iterator[ObiTransfer]:
    """Read all registers, then both counts around the end of the first period of the longest prescaler."""
    yield from (ObiTransfer(TIMER + register) for register in _STORED)
    value = TimerConfig.ENABLE | TimerConfig.PRESCALER | _WHOLE << TIMER_PRESCALE_LSB
    yield from (ObiTransfer(TIMER + config, 1, value=value) for config in (Timer.CONFIG_LOW, Timer.CONFIG_HIGH))
    yield ObiTransfer(TIMER + Timer.COUNT_LOW, gap=_WHOLE - 8)
    yield from (ObiTransfer(TIMER + count) for count in (Timer.COUNT_LOW, Timer.COUNT_HIGH) * 8)


@unit_test()
async def time_is_arithmetic(dut: Dut, rng: Random) -> None:
    """Every value read and every event is determined by the number of cycles since the last write or reset."""
    raised = 0
    for life in (_transfers(rng), _after_reset()):
        rows = await run_transfers(dut, _Model(), TIMER, [*Timer], [*life])
        raised += sum(row.events.bit_count() for row in rows)
    assert raised > _TRANSFERS // 20, f"{raised} events are too few to have tested anything"
