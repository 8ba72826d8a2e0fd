"""Bench of the decoder of compressed instructions: every half-word against the instruction table."""

import cocotb
from cocotb.triggers import Timer

from xpulpnn.errors import EncodingError
from xpulpnn.isa.machine import HALF_BITS, LENGTH_MASK
from xpulpnn.isa.table import expand_compressed
from xpulpnn_sim.benches.agents.base import Dut, sample, start
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard
from xpulpnn_sim.benches.launcher_data import bench_data


def expanded_words(word: int) -> int:
    if word & LENGTH_MASK == LENGTH_MASK:
        return word
    try:
        return expand_compressed(word & (1 << HALF_BITS) - 1)
    except EncodingError:
        return 0


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def half_words_match_the_table(dut: Dut) -> None:
    """Every ``stride``-th half-word in random order, with a random upper half of the word."""
    rng = await start(dut)
    stride = bench_data()["stride"]
    halves = list(range(rng.randrange(stride), 1 << HALF_BITS, stride))
    rng.shuffle(halves)
    words = [rng.getrandbits(HALF_BITS) << HALF_BITS | half for half in halves]
    want = {
        "expanded": [expanded_words(word) for word in words],
        "compressed": [int(word & LENGTH_MASK != LENGTH_MASK) for word in words],
    }
    observed: dict[str, list[int]] = {name: [] for name in want}
    for word in words:
        # a short step per word, as there are many words and no clock
        dut.word.value = word
        await Timer(1, unit="ns")
        for name, values in observed.items():
            values.append(sample(getattr(dut, name)))
    Scoreboard().compare(want, observed, {"word": words})
