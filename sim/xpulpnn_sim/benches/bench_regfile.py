"""Bench of the general-purpose register file: three reads and two writes per cycle against a list of words."""

from random import Random

import cocotb
import numpy as np

from xpulpnn.isa.machine import REGISTERS
from xpulpnn_sim.benches.cadence import Dut, Scoreboard, pulse_reset, run_vectors, start
from xpulpnn_sim.reference.stimuli import random_words

_BEATS = 800
READS = ("rs1", "rs2", "rs3")


def _stimulus(rng: Random) -> dict[str, np.ndarray]:
    """Random reads and writes on both ports; half of the beats use a few registers only, so that they collide."""

    def address() -> int:
        return rng.randrange(REGISTERS) if rng.random() < 0.5 else rng.randrange(3)

    columns = {f"{name}_addr": np.array([address() for _ in range(_BEATS)]) for name in READS}
    for port in "ab":
        columns[f"we_{port}"] = np.array([rng.randrange(2) for _ in range(_BEATS)])
        columns[f"addr_{port}"] = np.array([address() for _ in range(_BEATS)])
        columns[f"data_{port}"] = random_words(rng, _BEATS)
    # at first each register is written once by one port, and read in the beat behind that
    order = rng.sample(range(REGISTERS), REGISTERS)
    for beat, number in enumerate(order):
        port = rng.choice("ab")
        columns["we_a"][beat], columns["we_b"][beat] = port == "a", port == "b"
        columns[f"addr_{port}"][beat] = number
        for name in READS:
            columns[f"{name}_addr"][beat + 1] = number
    return columns


def _expected(columns: dict[str, np.ndarray]) -> dict[str, list[int]]:
    """Words read: the registers before the writes of the same beat. Port B stays if both address one register."""
    words = [0] * REGISTERS
    reads: dict[str, list[int]] = {name: [] for name in READS}
    for beat in range(_BEATS):
        for name in READS:
            reads[name].append(words[columns[f"{name}_addr"][beat]])
        for port in "ab":
            target = columns[f"addr_{port}"][beat]
            if columns[f"we_{port}"][beat] and target:
                words[target] = int(columns[f"data_{port}"][beat])
    return reads


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def three_reads_match_two_writes(dut: Dut) -> None:
    """Reads see the registers before the writes of the cycle, x0 stays 0, reset clears everything."""
    rng, board = await start(dut), Scoreboard()
    for phase in ("after reset", "after a reset in flight", "after another one"):
        columns = _stimulus(rng)
        board.compare(_expected(columns), await run_vectors(dut, columns, READS), columns, phase)
        dut.we_a.value = 0
        dut.we_b.value = 0
        await pulse_reset(dut)
        numbers = {f"{name}_addr": range(REGISTERS) for name in READS}
        zeros = {name: [0] * REGISTERS for name in READS}
        board.compare(zeros, await run_vectors(dut, numbers, READS), numbers, "reset")
