"""Operand selection of ID, and set-up of hardware loops (guide, "Loop set-up")."""

from functools import reduce
from operator import or_

from amaranth.hdl import Const, Mux, Signal

from xpulpnn.core.control import HwLoopOp, OpASel, OpBSel, OpCSel
from xpulpnn.core.insn_word import operand
from xpulpnn.core.operands import OperandRead
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import WORD_BYTES


def set_up_loop(hwloop, op, payload, op_a, target):
    before_body = (op == HwLoopOp.SETUP) | (op == HwLoopOp.SETUPI)
    immediate_count = (op == HwLoopOp.SETUPI) | (op == HwLoopOp.COUNTI)
    return [
        hwloop.op.eq(op),
        hwloop.loop.eq(operand(payload.word, "L")),
        # the body begins behind lp.setup
        hwloop.start.eq(Mux(before_body, payload.pc + WORD_BYTES, target)),
        hwloop.end.eq(target),
        hwloop.count.eq(Mux(immediate_count, operand(payload.word, "lpcnt12"), op_a)),
    ]


def select_operands(m, widths, insn, reads, ex_result, payload, immediate, target):
    """Build the operands a, b and c before the ID/EX register, and return them.

    The result of EX comes late in the cycle, so a final multiplexer selects between it and all other sources. Operand a
    of pv.rqx* is ``target``.
    """
    ctrl = insn.ctrl
    rs1, rs2, rs3 = (reads[name] for name in ("rs1", "rs2", "rs3"))
    zimm = operand(insn.word, "zimm5")
    a_sources = {OpASel.RS1: rs1, OpASel.RD: rs3, OpASel.PC: payload.pc, OpASel.ZERO: Const(0, 32), OpASel.ZIMM: zimm}
    b_sources = {OpBSel.RS2: rs2, OpBSel.RS1: rs1, OpBSel.IMM: immediate, OpBSel.RD: rs3}
    c_sources = {OpCSel.RD: rs3, OpCSel.RS2: rs2, OpCSel.TARGET: target}
    chosen = {}
    for letter, select, sources in (
        ("a", ctrl.op_a, a_sources),
        ("b", ctrl.op_b, b_sources),
        ("c", ctrl.op_c, c_sources),
    ):
        other = Signal(32, name=f"id_other_{letter}")
        from_ex = Signal(name=f"id_{letter}_from_ex")
        chosen[letter] = Signal(32, name=f"id_chosen_{letter}")
        with m.Switch(select):
            for member, source in sources.items():
                with m.Case(member):
                    if isinstance(source, OperandRead):
                        # the scaled operand of pv.rqx* is not forwarded
                        scales = insn.is_exact if member is OpASel.RS1 else Const(0)
                        early = Mux(scales, target, source.other)
                        m.d.comb += [other.eq(early), from_ex.eq(source.from_ex)]
                    else:
                        m.d.comb += other.eq(source)
        m.d.comb += chosen[letter].eq(Mux(from_ex, ex_result, other))
    op_b = Signal(32, name="id_op_b")
    # lane 0 is masked before it is replicated, which costs less and keeps the other lanes quiet
    lanes = [chosen["b"] & ~ctrl.replicate.replicate(len(chosen["b"]))]
    for fmt in ElemFmt:
        if fmt.width in widths:
            lane = Signal(fmt.width, name=f"id_op_b_lane_{fmt.suffix}")
            m.d.comb += lane.eq(chosen["b"][: fmt.width] & (ctrl.replicate & (ctrl.fmt == fmt)).replicate(fmt.width))
            lanes.append(lane.replicate(fmt.lanes))
    m.d.comb += op_b.eq(reduce(or_, lanes))
    return chosen["a"], op_b, chosen["c"]
