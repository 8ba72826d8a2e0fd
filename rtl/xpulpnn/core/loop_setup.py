"""Values that the set-up instructions of hardware loops write (guide, "Loop set-up")."""

from amaranth.hdl import Mux

from xpulpnn.core.control import HwLoopOp

SETUP_BYTES = 4  # distance from lp.setup to the first instruction of the body


def set_up_loop(hwloop, op, payload, op_a, target):
    """Statements that drive all of ``hwloop`` but ``valid``."""
    word = payload.word
    before_body = (op == HwLoopOp.SETUP) | (op == HwLoopOp.SETUPI)
    immediate_count = (op == HwLoopOp.SETUPI) | (op == HwLoopOp.COUNTI)
    return [
        hwloop.op.eq(op),
        hwloop.loop.eq(word[7]),
        hwloop.start.eq(Mux(before_body, payload.pc + SETUP_BYTES, target)),
        hwloop.end.eq(target),
        hwloop.count.eq(Mux(immediate_count, word[20:32], op_a)),
    ]
