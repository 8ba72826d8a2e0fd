"""Transfers of the DMA engine, byte by byte."""

import random

import numpy as np
import pytest

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import L2_BASE, TCDM_BASE, Dma, DmaCommand
from xpulpnn_sim.reference.golden.dma import DmaModel, Moves, moves, word_count

pytestmark = pytest.mark.unit

INCREMENT, IN = int(DmaCommand.INCREMENT), int(DmaCommand.FROM_EXTERNAL)
EXT_2D, TCDM_2D = int(DmaCommand.EXTERNAL_2D), int(DmaCommand.TCDM_2D)


def walk(base: int, length: int, count: int, stride: int, fixed: bool) -> list[int]:
    """Addresses of one side, one after the other."""
    found: list[int] = []
    line, address, left = base, base, count or length
    for _ in range(length):
        found.append(address)
        left -= 1
        address += 1
        if fixed and address % 8 == 0:
            address = line
        if left == 0:
            line, left = line + stride, count or length
            address = line
    return found


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
    found = moves(words)
    assert (found.sources.tolist(), found.targets.tolist()) == expected
    joined = [(source + i, target + i) for source, target, size in found.pieces() for i in range(size)]
    assert joined == list(zip(*expected, strict=True))


def test_an_external_address_in_the_tcdm_is_inside():
    found = moves([IN | INCREMENT | 3, 0x0000_0010, TCDM_BASE + 0xF_FFFE])
    assert found.sources.tolist() == [TCDM_BASE + 0xF_FFFE, TCDM_BASE + 0xF_FFFF, TCDM_BASE]
    assert found.targets.tolist() == [TCDM_BASE + 0x10, TCDM_BASE + 0x11, TCDM_BASE + 0x12]


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
    told = {
        (1, DmaCommand.EVENT): (0b010, 0),
        (2, DmaCommand.INTERRUPT): (0, 0b100),
        (1, DmaCommand.EVENT | DmaCommand.BROADCAST): (0b111, 0),
        (3, DmaCommand.EVENT | DmaCommand.INTERRUPT): (0, 0),
        (0, 0): (0, 0),
    }
    for (port, flags), cores in told.items():
        words = [first | int(flags), TCDM_BASE, L2_BASE]
        assert [model.write(port, Dma.COMMAND, word) for word in words] == [(0, 0), (0, 0), cores]
    assert len(made) == len(told)
    assert np.array_equal(made[0].targets, L2_BASE + np.arange(4))
