"""Bench of the EX stage: every row with a result, one and many cycles mixed, against the reference model."""

from random import Random

import cocotb
import numpy as np

from xpulpnn.isa.insn import Insn
from xpulpnn_sim.bench.bench_dotp import factors
from xpulpnn_sim.bench.multicycle import Handshake, run_operations
from xpulpnn_sim.bench.operands import Operands, prepare
from xpulpnn_sim.bench.parts import Dut, pulse_reset, start
from xpulpnn_sim.bench.runner import seed_from_environment
from xpulpnn_sim.bench.unit_rows import batch_of_rows, value_of_rd
from xpulpnn_sim.golden.effects import Sources

EX_HANDSHAKE = Handshake(start="valid", take="advance")


def operands_in_ex(insn: Insn, src: Sources) -> Operands:
    """Operands of the stage, with the factors of dot products on their own ports."""
    operands = prepare(insn, src)
    products = factors(insn, src)
    is_dotp = "dot" in insn.op
    held = {
        "dotp_fmt": insn.fmt.value if is_dotp and insn.fmt is not None else 0,
        "dotp_a_signed": is_dotp and insn.a_signed,
        "dotp_b_signed": is_dotp and insn.b_signed,
    }
    columns = {name: np.full_like(src.word, value) for name, value in held.items()}
    return {**operands, **columns, "dotp_a": products["rs1"], "dotp_b": products["rs2"]}


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def results_match_golden(dut: Dut) -> None:
    """All rows interleaved, with flushes, waiting results and gaps; then again after a reset in flight."""
    rng = Random(seed_from_environment())
    await start(dut)
    for _ in range(2):
        batch = batch_of_rows(rng, value_of_rd, operands_in_ex)
        await run_operations(dut, batch, rng, "ex-stage", EX_HANDSHAKE)
        dut.valid.value = 1
        await pulse_reset(dut)
