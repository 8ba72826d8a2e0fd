"""Random instruction streams on the Verilated back end: few registers, so that nearly every pair depends."""

from random import Random

import numpy as np
import pytest

from xpulpnn.config import PRESETS
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.table import enabled
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.workload import ExecutedStream, run_stream

pytestmark = pytest.mark.cosim

LENGTH = 20_000
SEED = 20
REGISTERS = 6
"""x0 to x5 only."""
ELSEWHERE = ("csr", "fence", "ecall", "ebreak", "mret", "wfi", "lp.")
"""Operations that the core around the back end executes."""
TIMINGS = {
    "ideal": Machine(),
    "grants": Machine(grant_stalls=0.4, seed=1),
    "slow": Machine(grant_stalls=0.2, response_latency=5, seed=2),
}


def random_word(insn, rng):
    """Random word of a row, its registers out of the first few."""
    word = insn.match | (rng.getrandbits(32) & ~insn.mask)
    for token in insn.tokens:
        if token.field.kind is FieldKind.REGISTER:
            value = token.field.extract(word) % REGISTERS
            lsb = {"rd": 7, "rs3": 7, "rs1": 15, "rs2": 20}[token.field.name]
            word = word & ~(31 << lsb) | value << lsb
    return word if insn.matches(word) else random_word(insn, rng)


def random_program(config, seed, share=0.3):
    """Straight-line program over every row of the configuration, those of the NN-RF more often than their share."""
    rng = Random(seed)
    rows = [
        insn
        for insn in enabled(config.extensions, config.widths)
        if insn.size == 4 and not (insn.is_branch or insn.is_jump or insn.op.startswith(ELSEWHERE))
    ]
    # a third of them requantise or load parameters, however many Mac&Loads there are
    kinds = [[insn for insn in rows if insn.is_mac_load]] * 2
    kinds.append([insn for insn in rows if insn.uses_nnrf and not insn.is_mac_load])
    kinds = [kind for kind in kinds if kind] or [rows]
    insns = (rng.choice(rng.choice(kinds) if rng.random() < share else rows) for _ in range(LENGTH))
    return np.array([random_word(insn, rng) for insn in insns], np.uint32)


@pytest.mark.parametrize(
    ("preset", "timing"), [("ri5cy", "slow"), ("xpulpnn-full", "grants"), ("xpulpnn2", "ideal"), ("xpulpnn2", "slow")]
)
def test_any_order_is_sequential(preset, timing):
    config = PRESETS[preset]
    words = random_program(config, SEED)
    pcs = np.arange(LENGTH, dtype=np.uint32) * 4
    result = run_stream(ExecutedStream(words, pcs, [np.arange(LENGTH)]), config, TIMINGS[timing], sparse=True)
    assert result.difference is None, f"seed {SEED}\n{result.difference}"
    assert result.exit.ok
    assert result.instructions == LENGTH
