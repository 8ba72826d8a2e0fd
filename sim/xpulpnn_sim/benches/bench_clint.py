"""Bench of the core-local interruptor: random settings and reads against a cycle-accurate model."""

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles

from xpulpnn.isa.cluster import CLINT
from xpulpnn.isa.machine import CLINT_SPACE, WORD_BYTES, WORD_MASK, Clint, Interrupt
from xpulpnn_sim.benches.agents.base import Dut, PortMonitor, pulse_reset, start
from xpulpnn_sim.benches.agents.obi import ENABLED, ObiManager, ObiTransfer, register_words
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.launcher_data import bench_data
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


def _words(registers: Sequence[int], rng: Random) -> Iterator[ObiTransfer]:
    """Write words and bytes to every register; access offsets one bit away, where there is none."""
    yield from register_words(CLINT, registers, rng)
    for offset, bit in product(registers, _OFFSET_BITS):
        if (bad := offset ^ 1 << bit) not in registers:
            yield from (_store(offset, 0), ObiTransfer(CLINT + bad), _store(bad, WORD_MASK))
            yield ObiTransfer(CLINT + offset)


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


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def time_is_arithmetic(dut: Dut) -> None:
    """Every value read and every line are determined by the cycles and writes since the reset."""
    rng, board, harts = await start(dut), Scoreboard(), bench_data()["harts"]
    risen, registers = 0, _registers(harts)
    # before the second reset nothing is as after it
    changes = [*_words(registers, rng), *_rises(harts, rng), *(_store(offset, WORD_MASK) for offset in registers)]
    for transfers in (changes, [ObiTransfer(CLINT + offset) for offset in registers]):
        await pulse_reset(dut)
        with ObiManager(dut, "port") as software, PortMonitor(dut, ["timer", "software"]) as monitor:
            await software.run(transfers)
            await ClockCycles(dut.clk, 2)
        risen += _compare(board, transfers, monitor.rows, harts)
    assert risen > _ROUNDS // 2, f"{risen} interrupts are too few to have tested anything"


def _levels(model: ClintModel, harts: int, line: Interrupt) -> int:
    return sum((model.lines(hart) >> line & 1) << hart for hart in range(harts))


def _compare(board: Scoreboard, transfers: Sequence[ObiTransfer], rows: Sequence[Any], harts: int) -> int:
    model, known, timer, risen = ClintModel(harts), _registers(harts), 0, 0
    granted = {transfer.granted: transfer for transfer in transfers}
    for cycle, row in enumerate(rows):
        board.equal(tuple(row), (timer, _levels(model, harts, Interrupt.SOFTWARE)), f"lines in cycle {cycle}")
        before, timer = timer, _levels(model, harts, Interrupt.TIMER)
        transfer = granted.get(cycle)
        offset = -1 if transfer is None else transfer.address - CLINT
        old = model.read(offset) if offset in known else 0
        # bytes of a word that are not written hold their value; the other word of the time counts on
        model.advance(1)
        if transfer is not None:
            where = f"transfer of offset 0x{offset:x} in cycle {cycle}"
            board.equal((transfer.failed, transfer.answered), (offset not in known, cycle + 1), f"{where}: answer")
            if transfer.write and offset in known:
                mask = ENABLED[transfer.enables]
                model.write(offset, old & ~mask | transfer.value & mask)
                if Clint.MTIMECMP <= offset < Clint.MTIME:
                    timer &= ~(1 << (offset - Clint.MTIMECMP) // (2 * WORD_BYTES))
            elif not transfer.write:
                board.equal(transfer.data, old, where)
        risen += (timer & ~before).bit_count()
    return risen
