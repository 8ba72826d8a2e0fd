"""Bench of the register files: random reads and writes against a list of words, and reset between them."""

from random import Random

import cocotb
import numpy as np

from xpulpnn.isa.machine import FIRST_PARAMETER, NNRF_ACTIVATIONS, NNRF_WEIGHTS, REGISTERS
from xpulpnn_sim.benches.cadence import Dut, Scoreboard, drive, pulse_reset, run_vectors, start
from xpulpnn_sim.benches.handover import bench_data
from xpulpnn_sim.reference.stimuli import random_words

_BEATS = 800
_READS = ("rs1", "rs2", "rs3")
_PARAMETERS = ("nn_kappa", "nn_lambda")  # outputs of the entries behind the weights
Columns = dict[str, np.ndarray]


def nn_accesses(entries: int, beats: int, rng: Random) -> Columns:
    """Random reads and writes; every entry is written and read back at least once in the first beats."""
    columns = {
        "we": np.array([1] * entries + [rng.randrange(2) for _ in range(beats - entries)]),
        "waddr": np.array(list(range(entries)) + [rng.randrange(entries) for _ in range(beats - entries)]),
        "wdata": random_words(rng, beats),
        "wgt_addr": np.array([rng.randrange(NNRF_WEIGHTS) for _ in range(beats)]),
    }
    if entries > NNRF_WEIGHTS:
        columns["act_addr"] = np.array([rng.randrange(NNRF_ACTIVATIONS) for _ in range(beats)])
    return columns


def nn_words_read(entries: int, columns: Columns) -> dict[str, list[int]]:
    """Words read per beat: activations and weights after the write of the same beat, parameters before it."""
    words = [0] * entries
    first_weight = min(entries - NNRF_WEIGHTS, NNRF_ACTIVATIONS)
    parameters = _PARAMETERS[: max(entries - FIRST_PARAMETER, 0)]
    reads: dict[str, list[int]] = {"wgt": []} | ({"act": []} if first_weight else {})
    reads |= {name: [] for name in parameters}
    for beat in range(len(columns["we"])):
        for number, name in enumerate(parameters):
            reads[name].append(words[FIRST_PARAMETER + number])
        if columns["we"][beat]:
            words[columns["waddr"][beat]] = int(columns["wdata"][beat])
        reads["wgt"].append(words[first_weight + columns["wgt_addr"][beat]])
        if first_weight:
            reads["act"].append(words[columns["act_addr"][beat]])
    return reads


def _accesses(rng: Random) -> Columns:
    """Random reads and writes on both ports; half of the beats use a few registers only, so that they collide."""

    def address() -> int:
        return rng.randrange(REGISTERS) if rng.random() < 0.5 else rng.randrange(3)

    columns = {f"{name}_addr": np.array([address() for _ in range(_BEATS)]) for name in _READS}
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
        for name in _READS:
            columns[f"{name}_addr"][beat + 1] = number
    return columns


def _words_read(columns: Columns) -> dict[str, list[int]]:
    """Words read: the registers before the writes of the same beat. Port B stays if both address one register."""
    words = [0] * REGISTERS
    reads: dict[str, list[int]] = {name: [] for name in _READS}
    for beat in range(_BEATS):
        for name in _READS:
            reads[name].append(words[columns[f"{name}_addr"][beat]])
        for port in "ab":
            target = columns[f"addr_{port}"][beat]
            if columns[f"we_{port}"][beat] and target:
                words[target] = int(columns[f"data_{port}"][beat])
    return reads


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reads_match_writes(dut: Dut) -> None:
    """Reads see the newest word, or that before the writes of the cycle; x0 stays 0, reset clears everything."""
    rng, board, entries = await start(dut), Scoreboard(), bench_data().get("entries")
    for phase in ("after reset", "after a reset in flight", "after another one"):
        columns = nn_accesses(entries, _BEATS, rng) if entries else _accesses(rng)
        want = nn_words_read(entries, columns) if entries else _words_read(columns)
        board.compare(want, await run_vectors(dut, columns, list(want)), columns, phase)
        drive(dut, {port: 0 for port in columns if port.startswith("we")})
        await pulse_reset(dut)
        addresses = [port for port in columns if port.removesuffix("_addr") in want]
        numbers = {port: [number % (1 << len(getattr(dut, port))) for number in range(REGISTERS)] for port in addresses}
        zeros = {name: [0] * REGISTERS for name in want}
        board.compare(zeros, await run_vectors(dut, numbers, list(want)), numbers, "reset")
