"""Transfers of the DMA engine, byte by byte; the timer against one that steps cycle by cycle."""

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import L2_BASE, TCDM_BASE, Dma, DmaCommand, Timer, TimerConfig
from xpulpnn_sim.reference.golden.cluster_timer import ClusterTimerModel
from xpulpnn_sim.reference.golden.dma import Access, DmaModel, Moves, accesses, moves, word_count
from xpulpnn_sim.reference.golden.dma_ports import Answer, PortOutputs, PortsModel
from xpulpnn_sim.reference.golden.tcdm import Request

INCREMENT, IN = int(DmaCommand.INCREMENT), int(DmaCommand.FROM_EXTERNAL)
EXT_2D, TCDM_2D = int(DmaCommand.EXTERNAL_2D), int(DmaCommand.TCDM_2D)


def walk(base: int, length: int, count: int, stride: int, fixed: bool) -> list[int]:
    """Addresses of one side, one after the other."""
    addresses: list[int] = []
    line, address, left = base, base, count or length
    for _ in range(length):
        addresses.append(address)
        left -= 1
        address += 1
        if fixed and address % 8 == 0:
            address = line
        if left == 0:
            line, left = line + stride, count or length
            address = line
    return addresses


@pytest.mark.parametrize("seed", range(40))
def test_moves_are_those_of_a_byte_loop(seed: int):
    rng = random.Random(seed)
    flags = rng.choice([0, INCREMENT]) | rng.choice([0, IN]) | rng.choice([0, EXT_2D]) | rng.choice([0, TCDM_2D])
    length, ext, tcdm = rng.randrange(0, 90), L2_BASE + rng.randrange(1 << 16), rng.randrange(1 << 32)
    words, lines = [flags | length, tcdm, ext], {}
    for flag in (EXT_2D, TCDM_2D):
        lines[flag] = (rng.randrange(0, 30), rng.randrange(-100, 100)) if flags & flag else (0, 0)
        words += [value % (1 << 32) for value in lines[flag]] if flags & flag else []
    assert len(words) == word_count(words[0])
    outside = [address % (1 << 32) for address in walk(ext, length, *lines[EXT_2D], fixed=not flags & INCREMENT)]
    inside = [TCDM_BASE + address % (1 << 20) for address in walk(tcdm, length, *lines[TCDM_2D], fixed=False)]
    expected = (outside, inside) if flags & IN else (inside, outside)
    transfer = moves(words)
    assert (transfer.sources.tolist(), transfer.targets.tolist()) == expected
    joined = [(source + i, target + i) for source, target, size in transfer.pieces() for i in range(size)]
    assert joined == list(zip(*expected, strict=True))


def test_accesses_are_of_windows_and_runs_end_with_a_line_or_a_block():
    copy = [IN | INCREMENT | EXT_2D | 29, 0x0000_0014, L2_BASE + 0xFB, 25, 0x205]
    block = L2_BASE + 0x100
    outside = [(L2_BASE + 0xF8, 0xF8, 1), (block, 0xFF, 3), (block + 8, 0xFF, 2), (block + 16, 0x0F, 1)]
    outside.append((block + 0x200, 0x0F, 1))
    read, written = accesses(copy)
    assert [(address, enables, beats) for _, address, enables, beats in read] == outside
    assert [(address, enables) for _, address, enables, _ in written] == [
        (TCDM_BASE + 0x10, 0xF0),
        (TCDM_BASE + 0x18, 0xFF),
        (TCDM_BASE + 0x20, 0xFF),
        (TCDM_BASE + 0x28, 0xFF),
        (TCDM_BASE + 0x30, 0x01),
    ]
    assert {access.external for access in read} == {True}
    assert {access.external for access in written} == {False}


def test_without_increment_all_accesses_are_to_one_window():
    _, written = accesses([12, 0x0000_0000, L2_BASE + 3])
    assert written == [Access(True, L2_BASE, 0xF8, 1), Access(True, L2_BASE, 0xF8, 1), Access(True, L2_BASE, 0x18, 1)]


def test_command_ports_by_cycles():
    model = PortsModel(ClusterConfig(cores=2, dma_transfers=1), lambda _: [{0}])
    read, command = Request(Dma.COMMAND, 0, 0, 0), IN | INCREMENT | int(DmaCommand.EVENT) | 8
    seen = model.cycle({0: read, 1: read}, 0)
    assert (seen.granted, dict(seen.answers)) == ({0, 1}, {})
    assert dict(model.cycle({}, 0).answers) == {0: Answer(0, failed=False)}
    for word in (command, 0, L2_BASE):
        # the port that waits is granted nothing, the third one no word within a command
        words = {port: Request(Dma.COMMAND, 1, 0, word) for port in (0, 1, 2)}
        assert model.cycle(words if word != command else {0: words[0], 1: words[1]}, 0).granted == {0}
    model.cycle({}, 0, [0])
    assert model.cycle({}, 1) == PortOutputs(set(), {}, (0, 0), busy=True)
    assert model.next_notified == (1, 0)
    model.cycle({2: Request(Dma.STATUS, 1, 0, 1)}, 0)
    seen = model.cycle({2: Request(Dma.STATUS, 0, 0, 0)}, 0)
    assert (seen.notified, seen.busy) == ((1, 0), False)
    assert dict(seen.answers) == {1: Answer(0, failed=False), 2: Answer(0, failed=False)}


def test_an_external_address_in_the_tcdm_is_inside():
    transfer = moves([IN | INCREMENT | 3, 0x0000_0010, TCDM_BASE + 0xF_FFFE])
    assert transfer.sources.tolist() == [TCDM_BASE + 0xF_FFFE, TCDM_BASE + 0xF_FFFF, TCDM_BASE]
    assert transfer.targets.tolist() == [TCDM_BASE + 0x10, TCDM_BASE + 0x11, TCDM_BASE + 0x12]


def test_identifiers_and_who_is_told():
    made: list[Moves] = []
    model = DmaModel(ClusterConfig(cores=3, dma_transfers=2), made.append)
    assert [model.read(port, Dma.COMMAND) for port in (0, 1)] == [0, 1]
    assert model.read(2, Dma.COMMAND) is None
    assert model.waiting(2)
    assert model.read(0, Dma.STATUS) == 0b11 << 16
    assert model.write(0, Dma.STATUS, 0b01) == (0, 0)
    assert not model.waiting(2)
    assert model.answer(2) == 0
    first = INCREMENT | 4
    expected = {
        (1, DmaCommand.EVENT): (0b010, 0),
        (2, DmaCommand.INTERRUPT): (0, 0b100),
        (1, DmaCommand.EVENT | DmaCommand.BROADCAST): (0b111, 0),
        (3, DmaCommand.EVENT | DmaCommand.INTERRUPT): (0, 0),
        (0, 0): (0, 0),
    }
    for (port, flags), cores in expected.items():
        words = [first | int(flags), TCDM_BASE, L2_BASE]
        assert [model.write(port, Dma.COMMAND, word) for word in words] == [(0, 0), (0, 0), cores]
    assert len(made) == len(expected)
    assert np.array_equal(made[0].targets, L2_BASE + np.arange(4))


SEED = 5
ROUNDS = 300
NEAR_END = 0xFFFF_FFF0


@dataclass
class Stepped:
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
        values = [timer.read(Timer[f"{what}_{name}"]) for what in ("COUNT", "CONFIG") for name in ("LOW", "HIGH")]
        assert values == [*stepped.count, *stepped.config], where
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
