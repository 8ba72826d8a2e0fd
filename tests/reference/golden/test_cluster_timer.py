"""The timer against one that steps cycle by cycle."""

import random
from dataclasses import dataclass, field

import pytest

from xpulpnn.isa.cluster import Timer, TimerConfig
from xpulpnn_sim.reference.golden.cluster_timer import ClusterTimerModel

pytestmark = pytest.mark.unit

SEED = 5
ROUNDS = 300
NEAR_END = 0xFFFF_FFF0


@dataclass
class Stepped:
    """Both timers, one cycle at a time."""

    config: list[int] = field(default_factory=lambda: [0, 0])
    count: list[int] = field(default_factory=lambda: [0, 0])
    compare: list[int] = field(default_factory=lambda: [0, 0])
    divider: list[int] = field(default_factory=lambda: [0, 0])

    def cycle(self) -> list[int]:
        events = []
        if self.config[0] >> 31:
            self._ticks(1)
            if self._ticks(0):
                whole = self.count[0] + (self.count[1] << 32)
                ends = whole == self.compare[0] + (self.compare[1] << 32)
                whole = (0 if ends and self.config[0] >> 4 & 1 else whole + 1) % 2**64
                self.count = [whole % 2**32, whole >> 32]
                events += self._ended(0) if ends else []
            return events
        for number in (0, 1):
            if self._ticks(number):
                ends = self.count[number] == self.compare[number]
                clears = ends and self.config[number] >> 4 & 1
                self.count[number] = 0 if clears else (self.count[number] + 1) % 2**32
                events += self._ended(number) if ends else []
        return events

    def _ticks(self, number: int) -> bool:
        config = self.config[number]
        if not config & 1:
            return False
        is_end = self.divider[number] == config >> 8 & 255 or not config >> 6 & 1
        self.divider[number] = 0 if is_end else (self.divider[number] + 1) % 256
        return is_end

    def _ended(self, number: int) -> list[int]:
        raised = [number] if self.config[number] >> 2 & 1 else []
        if self.config[number] >> 5 & 1:
            self.config[number] &= ~1
        return raised


def settings(rng: random.Random, *, low: bool) -> int:
    bits = rng.choice([TimerConfig.ENABLE, 0]) | rng.choice([TimerConfig.EVENT, 0])
    bits |= rng.choice([TimerConfig.CLEAR, 0]) | rng.choice([TimerConfig.ONE_SHOT, 0, 0])
    bits |= rng.choice([TimerConfig.PRESCALER, 0]) | rng.randrange(5) << 8
    return int(bits) | (1 << 31 if low and rng.random() < 0.3 else 0)


def test_equal_to_a_timer_that_steps():
    rng = random.Random(SEED)
    timer, stepped = ClusterTimerModel(), Stepped()
    foreseen = 0
    for number in range(ROUNDS):
        where = f"seed {SEED}, round {number}"
        for half, name in enumerate(("LOW", "HIGH")):
            if number % 3 == 0:
                stepped.config[half] = settings(rng, low=half == 0)
                timer.write(Timer[f"CONFIG_{name}"], stepped.config[half])
            stepped.count[half] = rng.choice([rng.randrange(20), rng.randrange(NEAR_END, 2**32)])
            stepped.compare[half] = rng.choice([rng.randrange(20), rng.randrange(NEAR_END, 2**32)])
            timer.write(Timer[f"COUNT_{name}"], stepped.count[half])
            timer.write(Timer[f"COMPARE_{name}"], stepped.compare[half])
        if stepped.config[0] >> 31:
            stepped.compare[1] = stepped.count[1] = number
            timer.write(Timer.COUNT_HIGH, number)
            timer.write(Timer.COMPARE_HIGH, number)
        until, cycles = timer.until_event(), rng.randrange(1, 80)
        passed = [stepped.cycle() for _ in range(cycles)]
        first = next((at for at, events in enumerate(passed, 1) if events), None)
        if until is not None and until <= cycles:
            foreseen += 1
            assert first == until, where
        else:
            assert first is None, where
        assert sorted(timer.advance(cycles)) == sorted(number for events in passed for number in events), where
        found = [timer.read(Timer[f"{what}_{name}"]) for what in ("COUNT", "CONFIG") for name in ("LOW", "HIGH")]
        assert found == [*stepped.count, *stepped.config], where
    assert foreseen > ROUNDS // 20


def test_start_and_reset():
    timer = ClusterTimerModel()
    timer.advance(10)
    assert timer.read(Timer.COUNT_LOW) == 0
    timer.write(Timer.START_LOW, 0)
    timer.advance(10)
    assert (timer.read(Timer.COUNT_LOW), timer.read(Timer.CONFIG_LOW)) == (10, 1)
    timer.write(Timer.CONFIG_LOW, TimerConfig.ENABLE | TimerConfig.RESET)
    assert (timer.read(Timer.COUNT_LOW), timer.read(Timer.CONFIG_LOW)) == (0, 1)
    timer.advance(3)
    timer.write(Timer.RESET_LOW, 0)
    assert timer.read(Timer.COUNT_LOW) == 0
    timer.write(0x28, 7)
    assert timer.read(0x28) == 0
