"""Selection of the operands of EX from registers, immediate and address."""

from functools import reduce
from operator import or_

from amaranth.hdl import Const, Mux, Signal

from xpulpnn.core.control import OpASel, OpBSel, OpCSel
from xpulpnn.core.operands import OperandRead
from xpulpnn.isa.formats import ElemFmt


def select_operands(m, config, ctrl, reads, ex_result, payload, immediate, target):
    """Build the operands a, b and c before the ID/EX register; returns them.

    The result of EX comes last: one multiplexer chooses between it and what the other sources have come to by then.
    """
    rs1, rs2, rs3 = (reads[name] for name in ("rs1", "rs2", "rs3"))
    zimm = payload.word[15:20]
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
                        m.d.comb += [other.eq(source.other), from_ex.eq(source.from_ex)]
                    else:
                        m.d.comb += other.eq(source)
        m.d.comb += chosen[letter].eq(Mux(from_ex, ex_result, other))
    op_b = Signal(32, name="id_op_b")
    # lane 0 is masked before it goes into every lane, which costs less and keeps those wires quiet otherwise
    lanes = [chosen["b"] & ~ctrl.replicate.replicate(len(chosen["b"]))]
    for fmt in ElemFmt:
        if fmt.width in config.widths:
            lane = Signal(fmt.width, name=f"id_op_b_lane_{fmt.suffix}")
            m.d.comb += lane.eq(chosen["b"][: fmt.width] & (ctrl.replicate & (ctrl.fmt == fmt)).replicate(fmt.width))
            lanes.append(lane.replicate(fmt.lanes))
    m.d.comb += op_b.eq(reduce(or_, lanes))
    return chosen["a"], op_b, chosen["c"]
