"""Bench of the back end: dependent pairs and random sequences against the simulator, and their cycle costs."""

from collections.abc import Sequence
from random import Random

import cocotb
from cocotb.triggers import ClockCycles

from xpulpnn.config import CoreConfig, preset
from xpulpnn_sim.benches.backend_words import dependent_pairs, filling, words_of_every_row
from xpulpnn_sim.benches.cadence import Dut, pulse_reset, start
from xpulpnn_sim.benches.handover import bench_data
from xpulpnn_sim.benches.obi import PROMPT, SLOW, ObiResponder, ObiTiming, WordMemory
from xpulpnn_sim.benches.pipeline_timing import PipelineTiming
from xpulpnn_sim.benches.retirement import RetirementMonitor, check_retirements
from xpulpnn_sim.benches.scoreboard import Scoreboard
from xpulpnn_sim.benches.stream import StreamDriver, StreamMemory, lockstep_of, name_of, stream_of
from xpulpnn_sim.reference.iss.observe import Retired

PAUSE = 0.15
RESET_AFTER = 40


def _configuration() -> CoreConfig:
    """The preset under test."""
    return preset(bench_data()["preset"])


async def run_stream(dut: Dut, words: list[int], timing: ObiTiming, pause: float, rng: Random) -> None:
    """Feed ``words`` to a freshly reset back end and check every retirement, the memory, and the costs if ideal."""
    config, board, memory = _configuration(), Scoreboard(), WordMemory()
    stream, driver = list(stream_of(config, words)), StreamDriver(dut, rng, pause)
    with ObiResponder(dut, "data", memory, timing, rng) as bus, RetirementMonitor(dut, "rvfi__") as monitor:
        await driver.run(stream)
        await driver.drain()
    expected = StreamMemory(words)
    # Their number is compared last: the first wrong record tells more than a wrong count.
    check_retirements(lockstep_of(config, expected), monitor.records()[: len(stream)], bus.log, board)
    board.equal(len(monitor.rows), len(stream), "retirements")
    board.equal(dict(memory), dict(expected.data), "memory at the end")
    if timing is PROMPT and not pause:
        check_costs(stream, driver.accepted, board)
    await pulse_reset(dut)


def check_costs(stream: Sequence[Retired], accepted: Sequence[int], board: Scoreboard) -> None:
    """Compare the distance of every two instructions with the documented costs."""
    wanted = PipelineTiming().accept_cycles(stream)
    for number in range(1, len(stream)):
        pair = " -> ".join(name_of(item) for item in stream[number - 1 : number + 1])
        got, want = (times[number] - times[number - 1] for times in (accepted, wanted))
        board.equal(got, want, f"cycles of instruction {number - 1}: {pair}")


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize(timing=[PROMPT, SLOW])
async def dependent_pairs_are_sequential(dut: Dut, timing: ObiTiming) -> None:
    """All pairs of instruction classes times dependences, back to back."""
    rng = await start(dut)
    words = filling(rng)
    for number, pair in enumerate(dependent_pairs(_configuration(), bench_data()["pairs"], rng)):
        words += pair
        if number % 8 == 0:
            words += filling(rng)[: rng.randrange(8)]
    await run_stream(dut, words, timing, 0.0, rng)


@cocotb.test(timeout_time=10, timeout_unit="ms")
@cocotb.parametrize((("timing", "pause"), [(PROMPT, 0.0), (SLOW, PAUSE)]))
async def random_sequences_are_sequential(dut: Dut, timing: ObiTiming, pause: float) -> None:
    """Every row of the configuration in random order, with fetch pauses."""
    rng = await start(dut)
    words = filling(rng) + words_of_every_row(_configuration(), rng)
    await run_stream(dut, words, timing, pause, rng)


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def reset_in_flight_clears_everything(dut: Dut) -> None:
    """A reset in the middle of a stream, memory accesses outstanding; the next stream finds a clean machine."""
    rng = await start(dut)
    for _ in range(4):
        stream = stream_of(_configuration(), filling(rng) + words_of_every_row(_configuration(), rng))
        with ObiResponder(dut, "data", WordMemory(), SLOW, rng):
            feeding = cocotb.start_soon(StreamDriver(dut, rng, 0.0).run(stream))
            await ClockCycles(dut.clk, RESET_AFTER + rng.randrange(RESET_AFTER))
            feeding.cancel()
        dut.insn__valid.value = 0
        await pulse_reset(dut)
        # Without filling, so that a register that kept its value shows.
        await run_stream(dut, words_of_every_row(_configuration(), rng)[:RESET_AFTER], SLOW, 0.0, rng)
