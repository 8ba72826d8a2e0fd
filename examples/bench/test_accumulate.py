"""Test bench of ``accumulate``: random words in every format against the golden model of the dot product."""

from random import Random

import cocotb
import numpy as np
from cocotb.handle import SimHandleBase

from xpulpnn.isa.table import find
from xpulpnn_sim.benches.agents import Scoreboard, run_vectors, start
from xpulpnn_sim.reference.golden.effects import Sources
from xpulpnn_sim.reference.golden.execute import execute

CYCLES = 300


def random_inputs(rng: Random, number: int) -> dict[str, np.ndarray]:
    """Words for some cycles in one format; a sum begins in one of eight cycles, three of four cycles are valid."""
    words = {port: [rng.getrandbits(32) for _ in range(CYCLES)] for port in ("activations", "weights")}
    return {
        "format": np.full(CYCLES, number),
        "valid": np.array([rng.random() < 0.75 for _ in range(CYCLES)], int),
        "first": np.array([rng.random() < 0.125 for _ in range(CYCLES)], int),
        **{port: np.array(values, np.uint32) for port, values in words.items()},
    }


def expected_sums(inputs: dict[str, np.ndarray], suffix: str) -> list[int]:
    """The register in every cycle: a valid word changes it in the next one."""
    insn = find(f"pv.dotusp.{suffix}")
    word = np.zeros(CYCLES, np.uint32)  # the golden model of this instruction reads nothing of its encoding
    products = execute(insn, Sources(word=word, rs1=inputs["activations"], rs2=inputs["weights"])).rd
    sums = [0]
    for product, valid, first in zip(products.tolist(), inputs["valid"], inputs["first"], strict=True):
        sums.append((product + (0 if first else sums[-1])) % 2**32 if valid else sums[-1])
    return sums[:CYCLES]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(number=range(4))
async def sums_match_golden(dut: SimHandleBase, number: int) -> None:
    rng, board, suffix = await start(dut, "valid"), Scoreboard(), "hbnc"[number]
    inputs = random_inputs(rng, number)
    observed = await run_vectors(dut, inputs, ["sum"])
    board.compare({"sum": expected_sums(inputs, suffix)}, observed, inputs, f"format {suffix}")


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_clears_the_sum(dut: SimHandleBase) -> None:
    rng, board = await start(dut, "valid"), Scoreboard()
    inputs = random_inputs(rng, 1) | {"rst": np.zeros(CYCLES, int)}
    inputs["rst"][-2] = inputs["valid"][-2] = 1
    observed = await run_vectors(dut, inputs, ["sum"])
    board.equal(observed["sum"][-1], 0, "sum after reset")
