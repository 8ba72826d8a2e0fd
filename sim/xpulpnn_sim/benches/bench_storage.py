"""Bench of the register files: random reads and writes against a list of words, and reset between them."""

from itertools import product
from random import Random

import numpy as np

from xpulpnn.isa.machine import REGISTERS
from xpulpnn_sim.benches.agents import Dut, Scoreboard, drive, pulse_reset, run_vectors, unit_test
from xpulpnn_sim.benches.launcher_data import bench_data
from xpulpnn_sim.benches.vectors.register_files import Columns, nn_accesses
from xpulpnn_sim.reference.golden.nnrf import nn_words_read
from xpulpnn_sim.reference.stimuli import random_words

_BEATS = 800
_READS = ("rs1", "rs2", "rs3")
_READ_PORTS = [f"{name}_addr" for name in _READS]
_PORTS = [*_READ_PORTS, "addr_a", "addr_b"]


def _accesses(rng: Random, turn: int, *, pairs: bool) -> Columns:
    """Return random reads and writes on both ports; half of the cycles use few registers, to cause collisions.

    The first write of a register is by port A, by port B, or as the odd one of a pair, in three successive calls.
    """

    def address() -> int:
        return rng.randrange(REGISTERS) if rng.random() < 0.5 else rng.randrange(3)

    columns = {f"{name}_addr": np.array([address() for _ in range(_BEATS)]) for name in _READS}
    for port in "ab":
        columns[f"we_{port}"] = np.array([rng.randrange(2) for _ in range(_BEATS)])
        columns[f"addr_{port}"] = np.array([address() for _ in range(_BEATS)])
        columns[f"data_{port}"] = random_words(rng, _BEATS)
    if pairs:
        # a pair is an even register and the next one
        columns["pair"] = np.array([rng.randrange(2) & ~number & 1 for number in columns["addr_a"].tolist()])
        columns["odd_a"] = random_words(rng, _BEATS)
    # first each register is written by one port and read in the next cycle, even registers first
    order = sorted(rng.sample(range(REGISTERS), REGISTERS), key=lambda number: number & 1)
    for beat, number in enumerate(order):
        is_second = pairs and number & 1 and number > 1
        way = (*"ab", "second" if is_second else rng.choice("ab"))[(number // 2 + turn) % 3]
        port = way if way in "ab" else "a"
        columns["we_a"][beat], columns["we_b"][beat] = port == "a", port == "b"
        columns[f"addr_{port}"][beat] = number - (way == "second")
        if pairs:
            columns["pair"][beat] = way == "second"
        for name in _READS:
            columns[f"{name}_addr"][beat + 1] = number
    return columns


def _half_written(bit: int, value: int, rng: Random, *, pairs: bool) -> Columns:
    """Write, through each port, all registers whose number has ``value`` in bit ``bit``; then read all registers."""
    written = [number for number in range(REGISTERS) if number >> bit & 1 == value]
    rows = [{f"addr_{port}": at, f"we_{port}": 1} for port in "ab" for at in rng.sample(written, len(written))]
    rows += [{"addr_a": at, "we_a": 1, "pair": 1} for at in written if pairs and not at & 1 and at + 1 in written]
    places = range(len(_READS))
    rows += [{_READ_PORTS[at]: (first + at) % REGISTERS for at in places} for first in range(0, REGISTERS, len(places))]
    names = (*_PORTS, "we_a", "we_b", *(("pair",) if pairs else ()))
    words = {name: random_words(rng, len(rows)) for name in ("data_a", "data_b", *(("odd_a",) if pairs else ()))}
    return {name: np.array([row.get(name, 0) for row in rows]) for name in names} | words


def _words_read(columns: Columns) -> dict[str, list[int]]:
    """Return the expected words: those before the writes of the cycle; port B wins if both ports write one register."""
    words, reads = [0] * REGISTERS, {name: list[int]() for name in _READS}
    for beat in range(len(columns["we_a"])):
        row = {name: int(column[beat]) for name, column in columns.items()}
        for name in _READS:
            reads[name].append(words[row[f"{name}_addr"]])
        for port in "ab":
            target = row[f"addr_{port}"]
            if row[f"we_{port}"] and target:
                words[target] = row[f"data_{port}"]
                if port == "a" and row.get("pair"):
                    words[target + 1] = row["odd_a"]
    return reads


@unit_test()
async def reads_match_writes(dut: Dut, rng: Random, board: Scoreboard) -> None:
    """Reads return the last word that was written; x0 stays 0; a reset clears all registers."""
    entries = bench_data().get("entries")
    pairs = bench_data().get("pairs", False)
    phases = ["after reset", "after a reset in flight", "after another one"]
    ways = len(phases)
    halves = [] if entries else [*product(range(REGISTERS.bit_length() - 1), range(2))]
    phases += [f"those with bit {bit} = {value} written" for bit, value in halves]
    for turn, phase in enumerate(phases):
        if entries:
            columns = nn_accesses(entries, _BEATS, rng, pairs=pairs, weights=bench_data()["weights"])
            want = nn_words_read(entries, columns, pairs=pairs)
        else:
            half = turn - ways
            columns = _accesses(rng, turn, pairs=pairs) if half < 0 else _half_written(*halves[half], rng, pairs=pairs)
            want = _words_read(columns)
        board.compare(want, await run_vectors(dut, columns, list(want)), columns, phase)
        drive(dut, {port: 0 for port in columns if port.startswith("we")})
        await pulse_reset(dut)
        addresses = [port for port in columns if port.removesuffix("_addr") in want]
        numbers = {port: [number % (1 << len(getattr(dut, port))) for number in range(REGISTERS)] for port in addresses}
        zeros = {name: [0] * REGISTERS for name in want}
        board.compare(zeros, await run_vectors(dut, numbers, list(want)), numbers, "reset")
