"""Bench of the core: a program with traps, interrupts, sleep and loops, every retirement against the simulator."""

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from xpulpnn.config import CoreConfig, preset
from xpulpnn.isa.machine import DATA_BASE, ENTRY, IRQ_PRIORITY, MACHINE_MODE, WORD_BYTES
from xpulpnn.isa.retirement import CAUSE_CODE
from xpulpnn_sim.benches.cadence import Background, Dut, Together, drive, pulse_reset, sample, start
from xpulpnn_sim.benches.core_program import DATA_WORDS, DONE_ADDRESS, FAILING, program
from xpulpnn_sim.benches.handover import bench_data
from xpulpnn_sim.benches.obi import PROMPT, ObiResponder, ObiTiming, WordMemory
from xpulpnn_sim.benches.retirement import RetirementMonitor, check_retirements
from xpulpnn_sim.benches.scoreboard import Scoreboard
from xpulpnn_sim.reference.iss.lockstep import Lockstep
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.reference.programs.retirement import Records

HART_ID = 0x0000_03E5
IDLE_CYCLES = 8  # cycles that the core sleeps, or waits for `fetch_enable`, before the bench goes on
_CYCLE_LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Memories of a run and the probability per cycle that an interrupt line rises."""

    fetch: ObiTiming
    data: ObiTiming
    interrupts: float


QUIET = Surroundings(PROMPT, PROMPT, 0.0)
BUSY = Surroundings(PROMPT, PROMPT, 0.03)
STALLING = Surroundings(ObiTiming(0.4, 1, 6), ObiTiming(0.5, 1, 4), 0.005)


class Acknowledged(NamedTuple):
    """An acknowledged interrupt and all lines that were high."""

    line: int
    lines: int


class InterruptDriver(Background):
    """Raises lines at random, and one whenever the core sleeps; a line falls when it is acknowledged."""

    def __init__(self, dut: Dut, rate: float, rng: Random) -> None:
        self.taken: list[Acknowledged] = []
        self._dut, self._rate, self._rng = dut, rate, rng

    async def _run(self) -> None:
        dut, rng = self._dut, self._rng
        lines = asleep = 0
        while True:
            if rng.random() < self._rate or asleep >= IDLE_CYCLES:
                lines |= 1 << rng.choice(IRQ_PRIORITY)
            dut.irq.value = lines
            await FallingEdge(dut.clk)
            asleep = asleep + 1 if sample(dut.core_sleep) else 0
            if sample(dut.irq_ack):
                line = sample(dut.irq_id)
                self.taken.append(Acknowledged(line, lines))
                lines &= ~(1 << line)
            await RisingEdge(dut.clk)


def _configuration() -> CoreConfig:
    """The preset under test."""
    return preset(bench_data()["preset"])


async def boot(dut: Dut) -> None:
    """Nothing is fetched before ``fetch_enable``, which need not stay and is ignored once it has been seen."""
    drive(dut, {"boot_addr": ENTRY | 1, "hart_id": HART_ID})
    for _ in range(IDLE_CYCLES):
        await FallingEdge(dut.clk)
        assert not sample(dut.instr__req), "an instruction is fetched before fetch_enable"
        await RisingEdge(dut.clk)
    for _ in range(2):
        dut.fetch_enable.value = 1
        await RisingEdge(dut.clk)
        dut.fetch_enable.value = 0
        await ClockCycles(dut.clk, IDLE_CYCLES)


def interrupt_lines(records: Records, sampled: list[int], taken: list[Acknowledged], board: Scoreboard) -> list[int]:
    """The lines at every retirement, of the first instruction of a handler those when the interrupt was taken."""
    lines, first = list(sampled), np.flatnonzero(records["intr"])
    # the last one may have been acknowledged after the last record
    assert len(taken) - len(first) in (0, 1), f"{len(taken)} interrupts acknowledged, {len(first)} taken"
    for at, interrupt in zip(first, taken, strict=False):
        lines[at] = interrupt.lines
        if not records["trap"][at]:
            board.equal(records["cause"][at] & CAUSE_CODE, interrupt.line, f"acknowledged interrupt, retirement {at}")
    return lines


async def run_program(dut: Dut, around: Surroundings, rng: Random, *, reset_after: int | None = None) -> None:
    """Run a freshly drawn program to its end and check it, or reset the core on the way.

    No access is under way while the core sleeps: its answer would be lost without a clock.
    """
    config, board, memory = _configuration(), Scoreboard(), WordMemory((FAILING,))
    executable = program(config, rng)
    memory.update(words_of(executable))
    data = ObiResponder(dut, "data", memory, around.data, rng, asleep=dut.core_sleep)
    code = ObiResponder(dut, "instr", memory, around.fetch, rng, asleep=dut.core_sleep)
    with (
        Together(dut, [data, code]),
        InterruptDriver(dut, around.interrupts, rng) as interrupts,
        RetirementMonitor(dut, "rvfi_", extra=["irq"]) as monitor,
    ):
        await boot(dut)
        done = False
        for cycle in range(_CYCLE_LIMIT):
            await RisingEdge(dut.clk)
            done = bool(data.log) and data.log[-1].address == DONE_ADDRESS
            if done or cycle == reset_after:
                break
        # the store at the end has yet to retire
        await ClockCycles(dut.clk, IDLE_CYCLES)
    dut.irq.value = 0
    if reset_after is None:
        lockstep = Lockstep(executable, config, hart_id=HART_ID, boot_address=ENTRY, errors=(FAILING,))
        records = monitor.records()
        lines = interrupt_lines(records, [row[-1] for row in monitor.rows], interrupts.taken, board)
        # first the records: where they differ tells more than that the end was not reached
        # an access that fails wholly is in no record
        succeeded = [grant for grant in data.log if not memory.fails(grant.address)]
        check_retirements(lockstep, records, succeeded, board, lines)
        for name, value in (("halt", 0), ("mode", MACHINE_MODE), ("ixl", 1)):
            board.compare({name: np.full(len(records), value)}, {name: records[name]})
        assert done, f"no end within {_CYCLE_LIMIT} cycles (seed {board.seed})"
        places = [DATA_BASE + WORD_BYTES * index for index in range(DATA_WORDS)]
        want = [lockstep.iss.memory.read(address, WORD_BYTES) for address in places]
        board.compare({"memory": want}, {"memory": [memory[address] for address in places]}, {"address": places})
    await pulse_reset(dut)


def words_of(executable: Executable) -> dict[int, int]:
    """The content of memory by aligned address."""
    return {
        segment.address + at: int.from_bytes(segment.data[at : at + WORD_BYTES], "little")
        for segment in executable.segments
        for at in range(0, segment.size, WORD_BYTES)
    }


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(around=[QUIET, BUSY, STALLING])
async def programs_match_the_simulator(dut: Dut, around: Surroundings) -> None:
    """With ideal and slow memories, with and without interrupts at random times."""
    rng = await start(dut)
    for _ in range(bench_data()["programs"]):
        await run_program(dut, around, rng)


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def a_reset_in_flight_starts_again(dut: Dut) -> None:
    """Resets at random times, accesses under way; the next program finds a clean core."""
    rng = await start(dut)
    for _ in range(3):
        await run_program(dut, STALLING, rng, reset_after=rng.randrange(20, 300))
    await run_program(dut, QUIET, rng)
