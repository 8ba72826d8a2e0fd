"""Bench of the decoder of compressed instructions: every half-word against the instruction table."""

from random import Random

from xpulpnn.errors import EncodingError
from xpulpnn.isa.machine import HALF_BITS, HALF_MASK, LENGTH_MASK
from xpulpnn.isa.table import expand_compressed
from xpulpnn_sim.benches.agents import Dut, Scoreboard, run_vectors, unit_test
from xpulpnn_sim.benches.launcher_data import bench_data


def expanded_words(word: int) -> int:
    if word & LENGTH_MASK == LENGTH_MASK:
        return word
    try:
        return expand_compressed(word & HALF_MASK)
    except EncodingError:
        return 0


@unit_test()
async def half_words_match_the_table(dut: Dut, rng: Random) -> None:
    """Every ``stride``-th half-word in random order, with a random upper half of the word."""
    stride = bench_data()["stride"]
    halves = list(range(rng.randrange(stride), 1 << HALF_BITS, stride))
    rng.shuffle(halves)
    words = [rng.getrandbits(HALF_BITS) << HALF_BITS | half for half in halves]
    want = {
        "expanded": [expanded_words(word) for word in words],
        "compressed": [word & LENGTH_MASK != LENGTH_MASK for word in words],
    }
    Scoreboard().compare(want, await run_vectors(dut, {"word": words}, list(want)), {"word": words})
