"""Bench of the back end: dependent pairs and random sequences against the sequential machine, and their cycle costs."""

from random import Random

import cocotb
from cocotb.triggers import RisingEdge

from xpulpnn.config import CoreConfig, preset
from xpulpnn_sim.bench.costs import PipelineTiming
from xpulpnn_sim.bench.obi import IDEAL, SLOW, ObiMemory, Timing
from xpulpnn_sim.bench.parts import Dut, Scoreboard, bench_data, pulse_reset, start
from xpulpnn_sim.bench.programs import dependent_pairs, filling, random_words
from xpulpnn_sim.bench.retirement import RetirementMonitor, check_retirement
from xpulpnn_sim.bench.runner import seed_from_environment
from xpulpnn_sim.bench.stream import Executed, Reference, StreamDriver

PAUSE = 0.15
RESET_AFTER = 40


def configuration() -> CoreConfig:
    """The preset under test."""
    return preset(bench_data()["preset"])


async def run_stream(dut: Dut, words: list[int], timing: Timing, pause: float, rng: Random) -> None:
    """Feed ``words`` to a freshly reset back end and check every retirement, the memory, and the costs if ideal."""
    config, board = configuration(), Scoreboard("backend")
    reference = Reference(config)
    stream = list(reference.stream(words))
    memory, driver, monitor = ObiMemory(dut, timing, rng), StreamDriver(dut, rng, pause), RetirementMonitor(dut)
    memory.start()
    sampling = cocotb.start_soon(monitor.run())
    await driver.run(stream)
    await driver.drain()
    sampling.cancel()
    check_retirement(stream, monitor.records, board.seed)
    board.equal(dict(memory.words), dict(reference.memory.words), "memory at the end")
    if timing is IDEAL and not pause:
        check_costs(stream, driver.accepted, board)
    memory.stop()
    await pulse_reset(dut)


def check_costs(stream: list[Executed], accepted: list[int], board: Scoreboard) -> None:
    """Compare the distance of every two instructions with the documented costs."""
    wanted = PipelineTiming().accept_cycles(stream)
    for number in range(1, len(stream)):
        before, item = stream[number - 1], stream[number]
        name = " -> ".join("illegal" if x.insn is None else f"{x.insn.mnemonic} {x.word:#010x}" for x in (before, item))
        got, want = (times[number] - times[number - 1] for times in (accepted, wanted))
        board.equal(got, want, f"cycles of instruction {number - 1}: {name}")


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(timing=[IDEAL, SLOW])
async def dependent_pairs_are_sequential(dut: Dut, timing: Timing) -> None:
    """All pairs of instruction classes times dependences, back to back."""
    rng = Random(seed_from_environment())
    await start(dut)
    pairs = dependent_pairs(configuration(), bench_data()["pairs"], rng)
    words = filling(rng)
    for number, pair in enumerate(pairs):
        words += pair
        if number % 8 == 0:
            words += filling(rng)[: rng.randrange(8)]
    await run_stream(dut, words, timing, 0.0, rng)


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize((("timing", "pause"), [(IDEAL, 0.0), (SLOW, PAUSE)]))
async def random_sequences_are_sequential(dut: Dut, timing: Timing, pause: float) -> None:
    """Every row of the configuration in random order, with fetch pauses."""
    rng = Random(seed_from_environment())
    await start(dut)
    words = filling(rng) + random_words(configuration(), bench_data()["words_per_row"], rng)
    await run_stream(dut, words, timing, pause, rng)


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def reset_in_flight_clears_everything(dut: Dut) -> None:
    """A reset in the middle of a stream, memory accesses outstanding; the next stream finds a clean machine."""
    rng = Random(seed_from_environment())
    await start(dut)
    for _ in range(4):
        words = filling(rng) + random_words(configuration(), 1, rng)
        memory, driver = ObiMemory(dut, SLOW, rng), StreamDriver(dut, rng, 0.0)
        memory.start()
        feeding = cocotb.start_soon(driver.run(Reference(configuration()).stream(words)))
        for _ in range(RESET_AFTER + rng.randrange(RESET_AFTER)):
            await RisingEdge(dut.clk)
        feeding.cancel()
        memory.stop()
        dut.insn__valid.value = 0
        await pulse_reset(dut)
        # Without filling, so that a register that kept its value shows.
        await run_stream(dut, random_words(configuration(), 1, rng)[:RESET_AFTER], SLOW, 0.0, rng)
