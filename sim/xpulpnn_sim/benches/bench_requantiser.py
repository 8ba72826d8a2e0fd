"""Bench of the requantiser: every format and sign, shift and lane, sums anywhere and at the bounds, and idle beats."""

from random import Random

import cocotb
import numpy as np

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK, XLEN
from xpulpnn_sim.benches.cadence import Dut, Scoreboard, run_vectors, start
from xpulpnn_sim.benches.handover import bench_data
from xpulpnn_sim.benches.row_batches import rows_with_controls
from xpulpnn_sim.reference.golden.effects import Sources
from xpulpnn_sim.reference.golden.execute import execute

_IDLE_PROBABILITY = 0.1
_NEAR_PROBABILITY = 0.7


def _sum(insn: Insn, places: int, rng: Random) -> int:
    """A sum whose shifted value is often next to a bound, its places shifted out all zeros, all ones or anything."""
    assert insn.fmt is not None
    if rng.random() >= _NEAR_PROBABILITY:
        return rng.getrandbits(XLEN)
    levels = 1 << insn.fmt.width
    bound = rng.choice((0, levels - 1, -levels // 2, levels // 2 - 1))
    dropped = rng.choice((0, -1, rng.getrandbits(XLEN))) & (1 << places) - 1
    return ((bound + rng.randint(-1, 1) << places) + dropped) & WORD_MASK


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def results_match_golden(dut: Dut) -> None:
    """Rows interleaved; without ``valid`` the result is 0 whatever the other inputs are."""
    rng, rows = await start(dut), rows_with_controls()
    stimulus: dict[str, list[int]] = {name: [] for name in bench_data()["inputs"]}
    expected: list[int] = []
    count = bench_data()["vectors_per_row"] * len(rows)
    for _ in range(count):
        insn, control = rng.choice(rows)
        assert insn.fmt is not None
        places, lane = rng.randrange(XLEN), rng.randrange(insn.fmt.lanes)
        total, old, valid = _sum(insn, places, rng), rng.getrandbits(XLEN), int(rng.random() >= _IDLE_PROBABILITY)
        ctrl = control["ctrl"] if valid else control["ctrl"] & ~bench_data()["valid"]
        for name, value in {"ctrl": ctrl, "lane": lane, "places": places, "sum": total, "old": old}.items():
            stimulus[name].append(value)
        word = insn.encode(rd=1, rs1=2, rs2=3, lane=lane)
        # a factor of 1 and no summand leave the sum
        columns = [np.array([value], np.uint32) for value in (word, total, places, old, 1, 0)]
        source = dict(zip(("word", "rs1", "rs2", "rd", "act", "wgt"), columns, strict=True))
        result = execute(insn, Sources(**source, length=WORD_BYTES)).rd
        assert result is not None
        expected.append(int(result[0]) if valid else 0)
    Scoreboard().compare({"result": expected}, await run_vectors(dut, stimulus, ["result"]), stimulus)
