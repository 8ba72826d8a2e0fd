"""Transfers and identifiers of the DMA engine; the timer, which may take any number of cycles at once."""

import random

import numpy as np
import pytest

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import L2_BASE, TCDM_BASE, Dma, DmaCommand, Timer, TimerConfig
from xpulpnn.isa.machine import Clint
from xpulpnn_sim.reference.golden.clint import ClintModel
from xpulpnn_sim.reference.golden.cluster_timer import ClusterTimerModel
from xpulpnn_sim.reference.golden.dma import Access, DmaModel, Moves, accesses, moves, word_count

INCREMENT, IN = int(DmaCommand.INCREMENT), int(DmaCommand.FROM_EXTERNAL)
EXT_2D, TCDM_2D = int(DmaCommand.EXTERNAL_2D), int(DmaCommand.TCDM_2D)


@pytest.mark.parametrize("seed", range(20))
def test_pieces_are_all_moves(seed: int):
    """The bench of the engine compares the moves themselves."""
    rng = random.Random(seed)
    flags = sum(flag for flag in (INCREMENT, IN, EXT_2D, TCDM_2D) if rng.random() < 0.5)
    words = [flags | rng.randrange(0, 90), rng.getrandbits(32), L2_BASE + rng.randrange(1 << 16)]
    for flag in (EXT_2D, TCDM_2D):
        words += [rng.randrange(0, 30), rng.randrange(-100, 100) % (1 << 32)] if flags & flag else []
    assert len(words) == word_count(words[0])
    transfer = moves(words)
    joined = [(source + i, target + i) for source, target, size in transfer.pieces() for i in range(size)]
    assert joined == list(zip(*(side.tolist() for side in transfer), strict=True))


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


def settings(rng: random.Random, *, low: bool) -> int:
    bits = rng.choice([TimerConfig.ENABLE, 0]) | rng.choice([TimerConfig.EVENT, 0])
    bits |= rng.choice([TimerConfig.CLEAR, 0]) | rng.choice([TimerConfig.ONE_SHOT, 0, 0])
    bits |= rng.choice([TimerConfig.PRESCALER, 0]) | rng.randrange(5) << 8
    return int(bits) | (1 << 31 if low and rng.random() < 0.3 else 0)


def test_any_number_of_cycles_is_as_many_steps():
    """The bench of the timer compares steps; here others begin in the same state."""
    rng = random.Random(SEED)
    timer, stepped = ClusterTimerModel(), ClusterTimerModel()
    foreseen = 0
    for number in range(ROUNDS):
        where = f"seed {SEED}, round {number}"
        writes = {}
        for half, name in enumerate(("LOW", "HIGH")):
            if number % 3 == 0:
                writes[f"CONFIG_{name}"] = settings(rng, low=half == 0)
            for what in ("COUNT", "COMPARE"):
                writes[f"{what}_{name}"] = rng.choice([rng.randrange(20), rng.randrange(NEAR_END, 2**32)])
        if timer.read(Timer.CONFIG_LOW) & TimerConfig.CASCADE:
            writes |= {"COUNT_HIGH": number, "COMPARE_HIGH": number}
        for register, value in writes.items():
            timer.write(Timer[register], value)
            stepped.write(Timer[register], value)
        until, cycles = timer.until_event(), rng.randrange(1, 80)
        passed = [stepped.advance(1) for _ in range(cycles)]
        first = next((at for at, events in enumerate(passed, 1) if events), None)
        assert first == (until if until is not None and until <= cycles else None), where
        foreseen += first is not None
        assert sorted(timer.advance(cycles)) == sorted(number for events in passed for number in events), where
        assert [timer.read(register) for register in Timer] == [stepped.read(register) for register in Timer], where
    assert foreseen > ROUNDS // 20


def test_clint_of_any_number_of_cycles():
    """The bench compares steps; here writes of the time, its carries and what is foreseen are compared."""
    rng = random.Random(SEED)
    for number in range(ROUNDS):
        where, time = f"seed {SEED}, round {number}", rng.choice([rng.getrandbits(64), 2**32 - 20, 2**64 - 20])
        clint, compares = ClintModel(2), [(time + rng.randrange(1, 60)) % 2**64 for _ in range(2)]
        clint.advance(rng.randrange(100))
        for base, value in ((Clint.MTIME, time), (0x4000, compares[0]), (0x4008, compares[1])):
            clint.write(base + 4, value >> 32)
            clint.write(base, value & 0xFFFF_FFFF)
        ahead = [compare - time for compare in compares if compare > time]
        assert clint.until_event() == (min(ahead) if ahead else None), where
        cycles = rng.randrange(80)
        clint.advance(cycles)
        now = (time + cycles) % 2**64
        assert clint.read(0xBFF8) | clint.read(0xBFFC) << 32 == now, where
        assert [clint.lines(hart) for hart in range(2)] == [(now >= compare) << 7 for compare in compares], where
    clint = ClintModel(2)
    clint.write(4, 3)
    assert (clint.lines(0) & 8, clint.lines(1) & 8, clint.read(4)) == (0, 8, 1)
    for offset in (8, 0x4010, 0xBFF4):
        with pytest.raises(LookupError):
            clint.write(offset, 0)


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
