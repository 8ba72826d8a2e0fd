"""Bench of the core-local interruptor: random settings and reads against a cycle-accurate model."""

from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

from xpulpnn.isa.cluster import CLINT
from xpulpnn.isa.machine import CLINT_SPACE, WORD_BYTES, WORD_MASK, Clint, Interrupt
from xpulpnn_sim.benches.agents import Dut, ObiTransfer, unit_test
from xpulpnn_sim.benches.launcher_data import bench_data
from xpulpnn_sim.benches.peripheral_env import near_accesses, register_words, run_transfers
from xpulpnn_sim.reference.golden.clint import ClintModel

_ROUNDS = 60
_LONGEST_GAP = 20
_BEFORE_CARRY = WORD_MASK - 60
_OFFSET_BITS = range(WORD_BYTES.bit_length() - 1, CLINT_SPACE.bit_length() - 1)
_TIME = (Clint.MTIME, Clint.MTIME + WORD_BYTES)


def _registers(harts: int) -> list[int]:
    compares = range(Clint.MTIMECMP, Clint.MTIMECMP + 2 * WORD_BYTES * harts, WORD_BYTES)
    return [*range(Clint.MSIP, Clint.MSIP + WORD_BYTES * harts, WORD_BYTES), *compares, *_TIME]


def _store(offset: int, value: int, gap: int = 0) -> ObiTransfer:
    return ObiTransfer(CLINT + offset, 1, value=value, gap=gap)


def _rises(harts: int, rng: Random) -> Iterator[ObiTransfer]:
    """Set the time, some of it to carry soon, and comparison values that it reaches soon, in both halves."""
    for _ in range(_ROUNDS):
        high = rng.choice((0, WORD_MASK, rng.getrandbits(32)))
        low = rng.choice((0, _BEFORE_CARRY, rng.getrandbits(31)))
        yield from (_store(offset, value) for offset, value in zip(_TIME, (low, high), strict=True))
        for hart in range(harts):
            compare = Clint.MTIMECMP + 2 * WORD_BYTES * hart
            near = (high << 32 | low) + rng.randrange(8 * _LONGEST_GAP)
            near ^= rng.choice((0, 1 << rng.randrange(64)))
            yield _store(compare, near & WORD_MASK, gap=rng.randrange(_LONGEST_GAP))
            yield _store(compare + WORD_BYTES, near >> 32 & WORD_MASK)
            yield _store(Clint.MSIP + WORD_BYTES * rng.randrange(harts), rng.getrandbits(32))
        yield ObiTransfer(CLINT + rng.choice(_TIME), gap=rng.randrange(4 * _LONGEST_GAP))


class _Model(ClintModel):
    """The model with the outputs of the unit: ``timer`` is late by a cycle, unless a comparison value is written."""

    def __init__(self, harts: int) -> None:
        super().__init__(harts)
        self._harts, self._timer = range(harts), 0

    def _levels(self, line: Interrupt) -> int:
        return sum((self.lines(hart) >> line & 1) << hart for hart in self._harts)

    def cycle(self) -> dict[str, int]:
        outputs = {"timer": self._timer, "software": self._levels(Interrupt.SOFTWARE)}
        self._timer = self._levels(Interrupt.TIMER)
        self.advance(1)
        return outputs

    def write(self, offset: int, value: int) -> None:
        super().write(offset, value)
        if Clint.MTIMECMP <= offset < Clint.MTIME:
            self._timer &= ~(1 << (offset - Clint.MTIMECMP) // (2 * WORD_BYTES))


@unit_test()
async def time_is_arithmetic(dut: Dut, rng: Random) -> None:
    """Every value read and every line are determined by the cycles and writes since the reset."""
    harts = bench_data()["harts"]
    registers = _registers(harts)
    changes = [*register_words(CLINT, registers, rng), *near_accesses(CLINT, registers, _OFFSET_BITS)]
    # before the second reset nothing is as after it
    changes += [*_rises(harts, rng), *(_store(offset, WORD_MASK) for offset in registers)]
    rows: list[Any] = []
    for transfers in (changes, [ObiTransfer(CLINT + offset) for offset in registers]):
        rows += await run_transfers(dut, _Model(harts), CLINT, registers, transfers)
    risen = sum((after.timer & ~before.timer).bit_count() for before, after in pairwise(rows))
    assert risen > _ROUNDS // 2, f"{risen} interrupts are too few to have tested anything"
