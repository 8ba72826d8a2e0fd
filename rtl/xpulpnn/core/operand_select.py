"""Selection of the operands of EX from registers, immediate and address."""

from functools import reduce
from operator import or_

from amaranth.hdl import Const, Signal

from xpulpnn.core.control import OpASel, OpBSel, OpCSel
from xpulpnn.isa.formats import ElemFmt


def select_operands(m, config, ctrl, stage, immediate, target):
    """Build the operands a, b and c before the ID/EX register; returns them.

    Parameters
    ----------
    m : Module
        Takes the logic.
    config : CoreConfig
        Element widths.
    ctrl : IdCtrl
        Control word of the instruction.
    stage : IdStage
        Its ``insn``, and ``rs1``, ``rs2`` and ``rs3`` with the values of its registers.
    immediate, target : Value, 32 bits
        Immediate, and target of a branch.
    """
    word = stage.insn.payload.word
    operands = op_a, op_b, op_c = tuple(Signal(32, name=f"id_op_{letter}") for letter in "abc")
    whole = Signal(32, name="id_op_b_lanes")
    a_sources = {
        OpASel.RS1: stage.rs1,
        OpASel.RD: stage.rs3,
        OpASel.PC: stage.insn.payload.pc,
        OpASel.ZERO: Const(0, 32),
        OpASel.ZIMM: word[15:20],
    }
    b_sources = {
        OpBSel.RS2: stage.rs2,
        OpBSel.RS1: stage.rs1,
        OpBSel.IMM: immediate,
        OpBSel.RD: stage.rs3,
    }
    c_sources = {OpCSel.RD: stage.rs3, OpCSel.RS2: stage.rs2, OpCSel.TARGET: target}
    for operand, select, sources in (
        (op_a, ctrl.op_a, a_sources),
        (whole, ctrl.op_b, b_sources),
        (op_c, ctrl.op_c, c_sources),
    ):
        with m.Switch(select):
            for member, value in sources.items():
                with m.Case(member):
                    m.d.comb += operand.eq(value)
    # lane 0 is masked before it goes into every lane, which costs less and keeps those wires quiet otherwise
    lanes = [whole & ~ctrl.replicate.replicate(len(whole))]
    for fmt in ElemFmt:
        if fmt.width in config.widths:
            lane = Signal(fmt.width, name=f"id_op_b_lane_{fmt.suffix}")
            m.d.comb += lane.eq(whole[: fmt.width] & (ctrl.replicate & (ctrl.fmt == fmt)).replicate(fmt.width))
            lanes.append(lane.replicate(fmt.lanes))
    m.d.comb += op_b.eq(reduce(or_, lanes))
    return operands
