"""What the set-up instructions of hardware loops set (guide, "Loop set-up")."""

from amaranth.hdl import Mux

from xpulpnn.core.control import HwLoopOp

SETUP_BYTES = 4
"""Distance from lp.setup to the first instruction of the body."""


def set_up_loop(hwloop, op, payload, op_a):
    """Statements that drive all of ``hwloop`` but ``valid``.

    Parameters
    ----------
    hwloop : HwLoopSignature
        Set-up leaving ID.
    op : HwLoopOp
        The instruction.
    payload : InsnSignature's payload
        Its word and address.
    op_a : Value, 32 bits
        Its operand a, the value of its register.
    """
    word, pc = payload.word, payload.pc
    short_end = op == HwLoopOp.SETUPI
    immediate_count = short_end | (op == HwLoopOp.COUNTI)
    start_offset = Mux(op == HwLoopOp.STARTI, word[20:32] << 1, SETUP_BYTES)
    return [
        hwloop.op.eq(op),
        hwloop.loop.eq(word[7]),
        hwloop.start.eq(pc + start_offset),
        hwloop.end.eq(pc + (Mux(short_end, word[15:20], word[20:32]) << 1)),
        hwloop.count.eq(Mux(immediate_count, word[20:32], op_a)),
    ]
