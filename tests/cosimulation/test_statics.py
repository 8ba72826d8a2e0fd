"""Static properties of the instructions of a stream."""

import numpy as np
from tests.programs import encode_line

from xpulpnn.isa.insn import InsnClass
from xpulpnn_sim.cosimulation.model.statics import stream_text


def test_a_stream_tells_jumps_and_branches():
    insns = {
        "addi x1, x2, 4": 0,
        "jal x1, pc+8": InsnClass.JUMP,
        "jalr x1, 8(x2)": InsnClass.JUMP,
        "bne x1, x2, pc+8": InsnClass.BRANCH,
        "p.beqimm x1, 2, pc+8": InsnClass.BRANCH,
    }
    words = np.array([encode_line(text) for text in insns], np.uint32)
    text = stream_text(words, np.arange(5, dtype=np.uint32) * 4)
    assert text["insn_class"].tolist() == list(insns.values())
    assert text["pc"].tolist() == [0, 4, 8, 12, 16]
