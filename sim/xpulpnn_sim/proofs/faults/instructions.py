"""Faults of a core; the proof of an instruction must find each of them."""

from amaranth.hdl import Cat, Const, Mux, Value

from xpulpnn.core.alu import Alu
from xpulpnn.core.alu_ctrl import AluCount, AluFieldPlace, AluResult, AluShift
from xpulpnn.core.bit_count import BitCount
from xpulpnn.core.bit_field import BitField
from xpulpnn.core.control import ImmSel, MemSize, TargetSel
from xpulpnn.core.ex_stage import ExStage
from xpulpnn.core.id_stage import IdStage
from xpulpnn.core.immediates import Immediates
from xpulpnn.core.lane_move import LaneMove
from xpulpnn.core.lsu import Lsu
from xpulpnn.core.requantiser import Requantiser
from xpulpnn.core.simd_adder import SimdAdder
from xpulpnn.core.simd_alu import SimdAlu
from xpulpnn.core.simd_comparator import SimdComparator
from xpulpnn.core.simd_shifter import SimdShifter
from xpulpnn.core.wb_stage import WbStage
from xpulpnn.dotp.ctrl import DotpCtrl
from xpulpnn.dotp.nnrf import NnRf
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import WORD_MASK, XLEN
from xpulpnn_sim.proofs.faults.fault import PROGRAMS, Fault, where


def _format(u, fmt):
    """Return the bit of the one-hot lane format that is 1 for this element format and for narrower ones."""
    return Value.cast(u("fmt"))[fmt]


def _clip_bound(_, u):
    count = u("word")[20:25]
    return Mux(count.any(), (Const(1, 32) << count)[:32] - 1, 0)


def _rounds_by_a_place(_, u):
    rounds = u("ctrl.rounding") & (u("ctrl.shift") == AluShift.NORMALISE)
    return (Const(WORD_MASK, XLEN) >> ~u("shamt")) & rounds.replicate(32)


def _other_weight(right, u):
    written = u("we") & (u("waddr") == u("wgt_addr") + u("activations"))
    return Mux(~written & (u("wgt_addr") == 2), u(".nn_wgt3"), right)


def _swapped_signs(right, u):
    """Invert both signs of a dot product if they differ, in the whole control word or in a single sign bit."""
    differ = u("decoder.ctrl.ex.dotp.a_signed") ^ u("decoder.ctrl.ex.dotp.b_signed")
    signs = Const.cast(DotpCtrl.const({"a_signed": 1, "b_signed": 1})).value
    return right ^ (differ if len(right) == 1 else Mux(differ, signs, 0))


INSTRUCTION_FAULTS = (
    Fault("carries pass from crumb to crumb", SimdAdder, {".lane_lsbs": lambda right, _: right & ~4}, "pv.add.c"),
    Fault("no borrow of the lowest lane", SimdAdder, {".carry_starts": lambda right, _: right & ~1}, "pv.sub.n"),
    Fault(
        "every other bit of nibbles does not move",
        SimdShifter,
        {".moving_2_up_2": lambda right, u: Mux(_format(u, ElemFmt.N), right & 0x2222_2222, right)},
        "pv.sra.n",
    ),
    Fault(
        "equality of crumbs looks at one bit",
        SimdComparator,
        {".equal_2": lambda right, u: right | u("alike") & (1 << 31)},
        "pv.cmpeq.c",
    ),
    Fault("branches ask for half of the word", SimdComparator, {"holds": lambda _, u: u(".relation")[15]}, "p.bneimm"),
    Fault(
        "clipu of 0 by a negative bound is the bound",
        Alu,
        {"simd_alu.clip.beyond_b": lambda right, u: right | (u("ctrl.result") == AluResult.CLIPU) & ~u("op_a")[31]},
        "p.clipu",
        PROGRAMS,
    ),
    Fault(
        "fl1 of 0 is 31",
        BitCount,
        {"result": where("count", AluCount.FL1, lambda _, u: ~u(".first"))},
        "p.fl1",
        PROGRAMS,
    ),
    Fault(
        "clb counts one more",
        BitCount,
        {
            "result": where(
                "count", AluCount.CLB, lambda _, u: Mux(u(".missing"), u("word")[0].replicate(5), u(".first"))
            )
        },
        "p.clb",
    ),
    Fault(
        "cnt loses the carry", BitCount, {"result": where("count", AluCount.CNT, lambda right, _: right[:5])}, "p.cnt"
    ),
    Fault("fields past bit 31 wrap", BitField, {".end": lambda _, u: u(".last")[:5]}, "p.extract"),
    Fault(
        "pv.insert.b replaces nine bits",
        BitField,
        {".width_m1": where("place", AluFieldPlace.BYTE, lambda *_: 8)},
        "pv.insert.b",
    ),
    Fault(
        "packhi swaps its sources",
        LaneMove,
        {"moved[16:24]": lambda right, u: Mux(u(".from_b")[2], u("op_a")[:8], right)},
        "pv.packhi.b",
    ),
    Fault(
        "shuffle2 takes its selector's sign",
        LaneMove,
        {".selector_3": lambda right, u: Mux(_format(u, ElemFmt.B), Cat(u("op_b")[24:26], u("op_b")[31]), right)},
        "pv.shuffle2.b",
        PROGRAMS,
    ),
    Fault(
        "bit 25 is the highest of imm6",
        Immediates,
        {"imm": where("sel", ImmSel.IMM6_SIGNED, lambda _, u: u("word")[20:26].as_signed())},
        "pv.add.sci.b",
    ),
    Fault(
        "the unsigned imm6 has a sign",
        Immediates,
        {
            "imm": where(
                "sel", ImmSel.IMM6_UNSIGNED, lambda _, u: Value.cast(Cat(u("word")[25], u("word")[20:25])).as_signed()
            )
        },
        "pv.minu.sci.h",
    ),
    Fault("clipi bounds by 2 ** Is2", Immediates, {".clip_bound": _clip_bound}, "p.clipi"),
    Fault(
        "the short offset of a loop is signed",
        Immediates,
        {"offset": where("target_sel", TargetSel.LOOP_SHORT, lambda right, _: right[:6].as_signed())},
        "lp.setupi",
    ),
    Fault(
        "the immediate of a branch is unsigned",
        Immediates,
        {"imm": where("sel", ImmSel.SIMM5, lambda right, _: right[:5])},
        "p.beqimm",
    ),
    Fault("rounding adds a whole place", SimdAlu, {".below": _rounds_by_a_place}, "p.addRNi"),
    Fault(
        "the shift amount is always in the word",
        IdStage,
        {"id_ex.shamt": lambda _, u: u("insn.payload.word")[25:30]},
        "p.subuRN",
    ),
    Fault(
        "the scalar of bytes has seven bits", IdStage, {".id_op_b_lane_b": lambda right, _: right[:7]}, "pv.dotsp.sc.b"
    ),
    Fault(
        "the factors' signs are swapped",
        IdStage,
        {"dotp_ctrl": _swapped_signs},
        "pv.dotusp.h",
    ),
    Fault("the weight of another number", NnRf, {"wgt": _other_weight}, "pv.mlsdotup.h"),
    Fault(
        "the word on its way to an entry is missed",
        NnRf,
        {"act": lambda _, u: Mux(u("act_addr"), u(".nn_act1"), u(".nn_act0"))},
        "pv.mlsdotsp.b",
        "mac_load",
        PROGRAMS,
    ),
    Fault(
        "the base of a Mac&Load stays if rd is x0",
        IdStage,
        {"id_ex.wb_we": lambda right, u: right & u("insn.payload.word")[7:12].any()},
        "pv.mlsdotsup.n",
    ),
    Fault("post-increment accesses go to the sum", Lsu, {"ex_address": lambda _, u: u("ex_sum")}, "p.lw"),
    Fault(
        "p.lh does not extend the sign",
        Lsu,
        {"wb_rdata": where(".wb_size", MemSize.HALF, lambda _, u: u(".aligned")[:16])},
        "p.lh",
    ),
    Fault(
        "pv.rqs clips a bit too late",
        Requantiser,
        {".too_large": where("ctrl.fmt", ElemFmt.N, lambda _, u: u(".above") | u(".shifted_1")[4:].any())},
        "pv.rqs.n",
        needs="requantise !requantise_exact",
    ),
    Fault(
        "pv.rqs clips a bit too late",
        Requantiser,
        {".high": where("ctrl.fmt", ElemFmt.N, lambda right, u: right & (u(".above") | u(".moved")[4:].any()))},
        "pv.rqs.n",
        needs="requantise_exact",
    ),
    Fault(
        "pv.rqxu rounds halves down with the lowest code of 0",
        Requantiser,
        {".moved": lambda right, u: right - (u("rounds") & u(".shifted_1")[0] & (u("zero") == 0x80))},
        "pv.rqxu.b",
        needs="requantise_exact",
    ),
    Fault(
        "pv.rqu writes the next lane too",
        Requantiser,
        {".crumbs": where("ctrl.fmt", ElemFmt.C, lambda right, _: right | (right << 1))},
        "pv.rqu.c",
    ),
    Fault(
        "pv.rqld mixes factor and summand",
        IdStage,
        {"id_ex.nn_addr": lambda right, u: Mux(u("decoder.requantise.load"), 7 - u("insn.payload.word")[20], right)},
        "pv.rqld",
    ),
    Fault(
        "jalr does not wait for the second sum",
        IdStage,
        {".id_jalr_waits": lambda right, u: right & ~(u("wb.pair") & u("insn.payload.word")[15])},
        "jalr",
        needs="mac_load_pair",
    ),
    Fault(
        "the second product is of the first pair",
        NnRf,
        {"act2": lambda _, u: u(".nn_act1")},
        "pv.mlsduosp.b",
        needs="mac_load_pair",
    ),
    Fault(
        "the second sum goes on from the first",
        ExStage,
        {"mult.second_sum": lambda _, u: u("op_c")},
        "pv.mlsduoup.n",
        needs="mac_load_pair",
    ),
    Fault(
        "the base of two products moves by the second sum",
        ExStage,
        {"alu.op_b": lambda right, u: Mux(u("pair"), u("second_sum"), right)},
        "pv.mlsduoup.h",
        needs="mac_load_pair",
    ),
    Fault(
        "both sums are the first",
        WbStage,
        {"wb.odd": lambda _, u: u("ex.first")},
        "pv.mlduosp.c",
        needs="mac_load_pair",
    ),
    Fault(
        "narrower weights have no sign",
        IdStage,
        {"widener.is_signed": lambda *_: 0},
        "pv.mlsduosup.b.n1",
        needs="mixed_weights",
    ),
    Fault(
        "weights of a quarter are not widened",
        IdStage,
        {"widener.quarter": lambda *_: 0},
        "pv.mlduousp.b.c2",
        needs="mixed_weights",
    ),
    Fault(
        "the last quarter is the third",
        IdStage,
        {"widener.part": lambda right, _: Mux(right.all(), 2, right)},
        "pv.mlsduoup.h.n3",
        needs="mixed_weights",
    ),
)
