"""Bench of the core: a program with traps, interrupts, sleep and loops, every retirement against the simulator."""

from dataclasses import dataclass
from random import Random

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn.config import CoreConfig, preset
from xpulpnn_sim.bench.core_fetch import FetchTiming, InstructionMemory
from xpulpnn_sim.bench.core_program import BOOT_ADDRESS, DATA_BASE, DATA_WORDS, DONE_ADDRESS, WORD_BYTES, program
from xpulpnn_sim.bench.core_retirement import CoreMonitor, Hart, Interrupt
from xpulpnn_sim.bench.obi import IDEAL, ObiMemory, Timing
from xpulpnn_sim.bench.parts import Dut, Scoreboard, bench_data, pulse_reset, sample, start
from xpulpnn_sim.bench.runner import seed_from_environment

USABLE_LINES = (3, 7, 11, *range(16, 32))
HART_ID = 0x0000_03E5
IDLE_CYCLES = 8
"""Cycles that the core sleeps, or waits for ``fetch_enable``, before the bench goes on."""
CYCLE_LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Memories of a run and the probability per cycle that an interrupt line rises."""

    fetch: FetchTiming
    data: Timing
    interrupts: float


QUIET = Surroundings(FetchTiming(), IDEAL, 0.0)
BUSY = Surroundings(FetchTiming(), IDEAL, 0.03)
SLOW = Surroundings(FetchTiming(0.4, 1, 6), Timing(0.5, 3), 0.005)


class InterruptDriver:
    """Raises lines at random, and one whenever the core sleeps; a line falls when it is acknowledged."""

    def __init__(self, dut: Dut, rate: float, rng: Random) -> None:
        self.dut = dut
        self.rate = rate
        self.rng = rng
        self.taken: list[Interrupt] = []

    async def run(self) -> None:
        """Drive until cancelled."""
        dut, rng = self.dut, self.rng
        lines = asleep = 0
        while True:
            if rng.random() < self.rate or asleep >= IDLE_CYCLES:
                lines |= 1 << rng.choice(USABLE_LINES)
            dut.irq.value = lines
            await FallingEdge(dut.clk)
            asleep = asleep + 1 if sample(dut.core_sleep) else 0
            assert not (asleep and sample(dut.data__req)), "a sleeping core accesses data"
            if sample(dut.irq_ack):
                line = sample(dut.irq_id)
                self.taken.append(Interrupt(line, lines))
                lines &= ~(1 << line)
            await RisingEdge(dut.clk)


def configuration() -> CoreConfig:
    """The preset under test."""
    return preset(bench_data()["preset"])


async def boot(dut: Dut) -> None:
    """Nothing is fetched before ``fetch_enable``, which need not stay and is ignored once it has been seen."""
    dut.boot_addr.value = BOOT_ADDRESS | 1
    dut.hart_id.value = HART_ID
    for _ in range(IDLE_CYCLES):
        await FallingEdge(dut.clk)
        assert not sample(dut.instr__req), "an instruction is fetched before fetch_enable"
        await RisingEdge(dut.clk)
    for _ in range(2):
        dut.fetch_enable.value = 1
        await RisingEdge(dut.clk)
        dut.fetch_enable.value = 0
        for _ in range(IDLE_CYCLES):
            await RisingEdge(dut.clk)


async def run_program(
    dut: Dut, around: Surroundings, rng: Random, *, reset_after: int | None = None, gated: bool = False
) -> None:
    """Run a freshly drawn program to its end and check it, or reset the core on the way.

    With ``gated`` the clock could be stopped while the core sleeps: then nothing may be fetched either.
    """
    config, board = configuration(), Scoreboard("core")
    words = program(config, rng)
    data = ObiMemory(dut, around.data, rng)
    data.words.update(words)
    asleep = dut.core_sleep if gated else None
    fetch = InstructionMemory(dut, around.fetch, lambda address: data.words[address], rng, asleep=asleep)
    interrupts, monitor = InterruptDriver(dut, around.interrupts, rng), CoreMonitor(dut)
    fetch.start()
    data.start()
    tasks = [cocotb.start_soon(interrupts.run()), cocotb.start_soon(monitor.run())]
    await boot(dut)
    for cycle in range(CYCLE_LIMIT):
        await RisingEdge(dut.clk)
        if monitor.stored(DONE_ADDRESS) or cycle == reset_after:
            break
    for task in tasks:
        task.cancel()
    fetch.stop()
    data.stop()
    dut.irq.value = 0
    if reset_after is None:
        # first the records: where they differ tells more than that the end was not reached
        hart = Hart(config, BOOT_ADDRESS, HART_ID, words)
        hart.check(monitor.records, interrupts.taken, board)
        assert monitor.stored(DONE_ADDRESS), f"no end within {CYCLE_LIMIT} cycles (seed {board.seed})"
        places = [DATA_BASE + WORD_BYTES * index for index in range(DATA_WORDS)]
        want = [hart.iss.memory.read(address, WORD_BYTES) for address in places]
        board.compare({"memory": want}, {"memory": [data.words[address] for address in places]}, {"address": places})
    await pulse_reset(dut)


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(around=[QUIET, BUSY, SLOW])
async def programs_match_the_simulator(dut: Dut, around: Surroundings) -> None:
    """With ideal and slow memories, with and without interrupts at random times."""
    rng = Random(seed_from_environment())
    await start(dut)
    for _ in range(bench_data()["programs"]):
        await run_program(dut, around, rng)


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def a_reset_in_flight_starts_again(dut: Dut) -> None:
    """Resets at random times, accesses under way; the next program finds a clean core."""
    rng = Random(seed_from_environment())
    await start(dut)
    for _ in range(3):
        await run_program(dut, SLOW, rng, reset_after=rng.randrange(20, 300))
    await run_program(dut, QUIET, rng)


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(around=[QUIET, SLOW])
async def nothing_is_under_way_in_a_sleeping_core(dut: Dut, around: Surroundings) -> None:
    """No fetch is requested or awaited with ``core_sleep``: its answer would be lost without a clock."""
    rng = Random(seed_from_environment())
    await start(dut)
    await run_program(dut, around, rng, gated=True)
