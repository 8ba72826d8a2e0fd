"""Faults of a core; the proof of an instruction must find each of them."""

from functools import partial

from amaranth.hdl import Const

from xpulpnn.core.alu import Alu
from xpulpnn.core.bit_count import BitCount
from xpulpnn.core.bit_field import BitField
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
from xpulpnn_sim.proofs.faults.fault import PROGRAMS, Fault

_adder, _comparator, _count, _field = (partial(Fault, unit) for unit in (SimdAdder, SimdComparator, BitCount, BitField))
_move, _immediates, _id, _nnrf = (partial(Fault, unit) for unit in (LaneMove, Immediates, IdStage, NnRf))
_requantiser, _ex, _wb = (partial(Fault, unit) for unit in (Requantiser, ExStage, WbStage))

_PAIR, _WIDENS, _EXACT = "mac_load_pair", "mixed_weights", "requantise_exact"  # settings that faults need

_IS_NARROWER = "Value.cast(fmt)[ElemFmt.{}]"  # bit of the one-hot lane format for an element format and narrower ones
_CLIP_BOUND = "Mux(word[20:25].any(), (Const(1, 32) << word[20:25])[:32] - 1, 0)"
_CLB = "Mux(net.missing, word[0].replicate(5), net.first)"
_SELECTOR = "Cat(op_b[24:26], op_b[31])"
_WRITTEN = "we & (waddr == wgt_addr + activations)"
_DIFFER = "decoder.ctrl.ex.dotp.a_signed ^ decoder.ctrl.ex.dotp.b_signed"
_SIGNS = f"1 if len(right) == 1 else {Const.cast(DotpCtrl.const({'a_signed': 1, 'b_signed': 1})).value}"

INSTRUCTION_FAULTS = (
    _adder("carries pass from crumb to crumb", "net.lane_lsbs", "right & ~4", "pv.add.c"),
    _adder("no borrow of the lowest lane", "net.carry_starts", "right & ~1", "pv.sub.n"),
    Fault(
        SimdShifter,
        "every other bit of nibbles does not move",
        "net.moving_2_up_2",
        f"Mux({_IS_NARROWER.format('N')}, right & 0x2222_2222, right)",
        "pv.sra.n",
    ),
    _comparator("equality of crumbs looks at one bit", "net.equal_2", "right | alike & (1 << 31)", "pv.cmpeq.c"),
    _comparator("branches ask for half of the word", "holds", "net.relation[15]", "p.bneimm"),
    Fault(
        Alu,
        "clipu of 0 by a negative bound is the bound",
        "simd_alu.clip.beyond_b",
        "right | (ctrl.result == AluResult.CLIPU) & ~op_a[31]",
        f"p.clipu, {PROGRAMS}",
    ),
    _count("fl1 of 0 is 31", "result", "Mux(count == AluCount.FL1, ~net.first, right)", f"p.fl1, {PROGRAMS}"),
    _count("clb counts one more", "result", f"Mux(count == AluCount.CLB, {_CLB}, right)", "p.clb"),
    _count("cnt loses the carry", "result", "Mux(count == AluCount.CNT, right[:5], right)", "p.cnt"),
    _field("fields past bit 31 wrap", "net.end", "net.last[:5]", "p.extract"),
    _field(
        "pv.insert.b replaces nine bits", "net.width_m1", "Mux(place == AluFieldPlace.BYTE, 8, right)", "pv.insert.b"
    ),
    _move("packhi swaps its sources", "moved[16:24]", "Mux(net.from_b[2], op_a[:8], right)", "pv.packhi.b"),
    _move(
        "shuffle2 takes its selector's sign",
        "net.selector_3",
        f"Mux({_IS_NARROWER.format('B')}, {_SELECTOR}, right)",
        f"pv.shuffle2.b, {PROGRAMS}",
    ),
    _immediates(
        "bit 25 is the highest of imm6",
        "imm",
        "Mux(sel == ImmSel.IMM6_SIGNED, word[20:26].as_signed(), right)",
        "pv.add.sci.b",
    ),
    _immediates(
        "the unsigned imm6 has a sign",
        "imm",
        "Mux(sel == ImmSel.IMM6_UNSIGNED, Cat(word[25], word[20:25]).as_signed(), right)",
        "pv.minu.sci.h",
    ),
    _immediates("clipi bounds by 2 ** Is2", "net.clip_bound", _CLIP_BOUND, "p.clipi"),
    _immediates(
        "the short offset of a loop is signed",
        "offset",
        "Mux(target_sel == TargetSel.LOOP_SHORT, right[:6].as_signed(), right)",
        "lp.setupi",
    ),
    _immediates(
        "the immediate of a branch is unsigned", "imm", "Mux(sel == ImmSel.SIMM5, right[:5], right)", "p.beqimm"
    ),
    Fault(
        SimdAlu,
        "rounding adds a whole place",
        "net.below",
        "(Const(0xFFFF_FFFF, 32) >> ~shamt) & (ctrl.rounding & (ctrl.shift == AluShift.NORMALISE)).replicate(32)",
        "p.addRNi",
    ),
    _id("the shift amount is always in the word", "id_ex.shamt", "insn.payload.word[25:30]", "p.subuRN"),
    _id("the scalar of bytes has seven bits", "net.id_op_b_lane_b", "right[:7]", "pv.dotsp.sc.b"),
    _id("the factors' signs are swapped", "dotp_ctrl", f"right ^ Mux({_DIFFER}, {_SIGNS}, 0)", "pv.dotusp.h"),
    _nnrf(
        "the weight of another number",
        "wgt",
        f"Mux(~({_WRITTEN}) & (wgt_addr == 2), net.nn_wgt3, right)",
        "pv.mlsdotup.h",
    ),
    _nnrf(
        "the word on its way to an entry is missed",
        "act",
        "Mux(act_addr, net.nn_act1, net.nn_act0)",
        f"pv.mlsdotsp.b, mac_load, {PROGRAMS}",
    ),
    _id(
        "the base of a Mac&Load stays if rd is x0",
        "id_ex.wb_we",
        "right & insn.payload.word[7:12].any()",
        "pv.mlsdotsup.n",
    ),
    Fault(Lsu, "post-increment accesses go to the sum", "ex_address", "ex_sum", "p.lw"),
    Fault(
        Lsu,
        "p.lh does not extend the sign",
        "wb_rdata",
        "Mux(net.wb_size == MemSize.HALF, net.aligned[:16], right)",
        "p.lh",
    ),
    _requantiser(
        "pv.rqs clips a bit too late",
        "net.too_large",
        "Mux(ctrl.fmt == ElemFmt.N, net.above | net.shifted_1[4:].any(), right)",
        "pv.rqs.n",
        "requantise !requantise_exact",
    ),
    _requantiser(
        "pv.rqs clips a bit too late",
        "net.high",
        "Mux(ctrl.fmt == ElemFmt.N, right & (net.above | net.moved[4:].any()), right)",
        "pv.rqs.n",
        _EXACT,
    ),
    _requantiser(
        "pv.rqxu rounds halves down with the lowest code of 0",
        "net.moved",
        "right - (rounds & net.shifted_1[0] & (zero == 0x80))",
        "pv.rqxu.b",
        _EXACT,
    ),
    _requantiser(
        "pv.rqu writes the next lane too",
        "net.crumbs",
        "Mux(ctrl.fmt == ElemFmt.C, right | (right << 1), right)",
        "pv.rqu.c",
    ),
    _id(
        "pv.rqld mixes factor and summand",
        "id_ex.nn_addr",
        "Mux(decoder.requantise.load, 7 - insn.payload.word[20], right)",
        "pv.rqld",
    ),
    _id(
        "jalr does not wait for the second sum",
        "net.id_jalr_waits",
        "right & ~(wb.pair & insn.payload.word[15])",
        "jalr",
        _PAIR,
    ),
    _nnrf("the second product is of the first pair", "act2", "net.nn_act1", "pv.mlsduosp.b", _PAIR),
    _ex("the second sum goes on from the first", "mult.second_sum", "op_c", "pv.mlsduoup.n", _PAIR),
    _ex(
        "the base of two products moves by the second sum",
        "alu.op_b",
        "Mux(pair, second_sum, right)",
        "pv.mlsduoup.h",
        _PAIR,
    ),
    _wb("both sums are the first", "wb.odd", "ex.first", "pv.mlduosp.c", _PAIR),
    _id("narrower weights have no sign", "widener.is_signed", "0", "pv.mlsduosup.b.n1", _WIDENS),
    _id("weights of a quarter are not widened", "widener.quarter", "0", "pv.mlduousp.b.c2", _WIDENS),
    _id("the last quarter is the third", "widener.part", "Mux(right.all(), 2, right)", "pv.mlsduoup.h.n3", _WIDENS),
)
