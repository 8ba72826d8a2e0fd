"""Parts of ID: operands of EX, factors, set-up of hardware loops (guide, "Loop set-up"), entries of the NN-RF."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from xpulpnn.component import following
from xpulpnn.config import CoreConfig
from xpulpnn.core.control import HwLoopOp, MacLoad, OpASel, OpBSel, OpCSel
from xpulpnn.core.mult import MultOp
from xpulpnn.core.operands import OperandRead
from xpulpnn.dotp.ctrl import ArrayFormat
from xpulpnn.dotp.widener import WeightWidener
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import FIRST_PARAMETER, FIRST_WEIGHT, WORD_BYTES


def nn_waits(m: Module, config: CoreConfig, stage: Any, decoder: Any) -> Value:
    """Address the NN-RF; returns whether the instruction in EX is going to load an entry that the one in ID reads."""
    word, ctrl, id_ex = stage.insn.payload.word, decoder.ctrl, stage.id_ex
    reload = Signal()
    nn_form = ctrl.mac_load == MacLoad.NN
    cu_form = ctrl.mac_load == MacLoad.CU
    is_pair = decoder.pair.valid if config.mac_load_pair else Const(0)
    from_entries = nn_form | is_pair if config.mac_load_pair else nn_form
    m.d.comb += [
        reload.eq(id_ex.valid & id_ex.nn_we),
        # 0 for other instructions, which keeps the read ports quiet
        stage.nn_wgt_addr[:2].eq((word[21:23] & from_entries.replicate(2)) | (word[25:27] & cu_form.replicate(2))),
    ]
    if config.reads_factor:
        # the factor of a requantisation stands behind the weights
        m.d.comb += stage.nn_wgt_addr[2].eq(decoder.requantise.valid)
    first = FIRST_WEIGHT if config.mac_load_nn else 0
    waits = (from_entries | cu_form) & (id_ex.nn_addr == stage.nn_wgt_addr + first)
    if config.mac_load_pair:
        m.d.comb += stage.nn_act_addr.eq(Cat(word[20] & nn_form, word[20] & is_pair))
        waits |= nn_form & (id_ex.nn_addr == word[20])
        waits |= is_pair & (id_ex.nn_addr[1:] == Cat(Const(0, 2), word[20]))
    elif config.mac_load_nn:
        m.d.comb += stage.nn_act_addr.eq(word[20] & nn_form)
        waits |= nn_form & (id_ex.nn_addr == stage.nn_act_addr)
    if config.requantise:
        waits |= decoder.requantise.valid & id_ex.requantise.load
    return reload & waits


def entry_load(m: Module, config: CoreConfig, stage: Any, decoder: Any) -> tuple[Value, Value, Value, Value]:
    """Return whether the instruction in ID is a Mac&Load, reloads an entry, loads one (so does pv.rqld), and which.

    Parameters are as of :func:`nn_waits`.
    """
    word, ctrl = stage.insn.payload.word, decoder.ctrl
    reload_act, reload_wgt = word[23], word[24]
    reload = Signal(name="reload")
    is_nn, is_cu = ctrl.mac_load == MacLoad.NN, ctrl.mac_load == MacLoad.CU
    m.d.comb += reload.eq(is_cu | (is_nn & (reload_act | reload_wgt)))
    entry: Value = stage.nn_wgt_addr + (FIRST_WEIGHT if config.mac_load_nn else 0)
    valid: Value = reload
    if config.mac_load_nn:
        # both bits reload the activation that the product does not use
        other = reload_wgt if config.mac_load_cross else Const(0, 1)
        entry = Mux(is_nn & reload_act, stage.nn_act_addr ^ other, entry)
    if config.mac_load_pair:
        entry = Mux(decoder.pair.valid, Cat(word[23:25], word[29:31]), entry)
        valid |= decoder.pair.valid & ctrl.lsu.valid
    if config.requantise:
        entry = Mux(decoder.requantise.load, FIRST_PARAMETER + word[20], entry)
        valid |= decoder.requantise.load
    return is_nn | is_cu, reload, valid, entry


def set_up_loop(hwloop, op, payload, op_a, target):
    """Statements that drive all of ``hwloop`` but ``valid``."""
    word = payload.word
    before_body = (op == HwLoopOp.SETUP) | (op == HwLoopOp.SETUPI)
    immediate_count = (op == HwLoopOp.SETUPI) | (op == HwLoopOp.COUNTI)
    return [
        hwloop.op.eq(op),
        hwloop.loop.eq(word[7]),
        # the body begins behind lp.setup
        hwloop.start.eq(Mux(before_body, payload.pc + WORD_BYTES, target)),
        hwloop.end.eq(target),
        hwloop.count.eq(Mux(immediate_count, word[20:32], op_a)),
    ]


def select_operands(m, config, ctrl, reads, ex_result, payload, immediate, target, exact):
    """Build the operands a, b and c before the ID/EX register; returns them.

    The result of EX comes last: one multiplexer chooses between it and what the other sources have come to by then.
    With ``exact``, if there is that, ``target`` takes the place of rs1 as operand a.
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
                        # nothing that is scaled is forwarded
                        scales = exact is not None and member is OpASel.RS1
                        early = Mux(exact, target, source.other) if scales else source.other
                        m.d.comb += [other.eq(early), from_ex.eq(source.from_ex)]
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


def select_factors(m: Module, stage: Any, decoder: Any, operands: tuple[Value, Value, Value]) -> None:
    """Factors of a dot product before their registers.

    Kernels multiply one activation word with several weights. It is factor a of every instruction: the unit spends
    more on a change of that one.
    """
    ctrl = decoder.ctrl
    op_a, op_b, _ = operands
    m.d.comb += [stage.dotp_a.eq(op_a), stage.dotp_b.eq(op_b), stage.dotp_ctrl.eq(ctrl.ex.dotp)]
    if stage.config.mac_load_cu:
        with m.If(ctrl.mac_load == MacLoad.CU):
            m.d.comb += [stage.dotp_a.eq(stage.rs2), stage.dotp_b.eq(stage.nn_wgt)]
    if stage.config.mac_load_nn:
        with m.If(ctrl.mac_load == MacLoad.NN):
            m.d.comb += [stage.dotp_a.eq(stage.nn_act), stage.dotp_b.eq(stage.nn_wgt)]
    if stage.config.multiplies_by_dotp:
        m.d.comb += [
            stage.dotp_ctrl.a_signed.eq(ctrl.ex.dotp.a_signed | ctrl.ex.mult.a_signed),
            stage.dotp_ctrl.b_signed.eq(ctrl.ex.dotp.b_signed | ctrl.ex.mult.b_signed),
        ]
    swapped = ctrl.mac_load != MacLoad.NONE
    if stage.config.mac_load_pair:
        _stored_factors(m, stage, decoder, op_b)
        swapped |= decoder.pair.valid
        with m.If(decoder.pair.valid):
            m.d.comb += stage.dotp_a.eq(stage.nn_act)
    if stage.config.mac_load:
        with m.If(swapped):
            m.d.comb += [
                stage.dotp_ctrl.a_signed.eq(ctrl.ex.dotp.b_signed),
                stage.dotp_ctrl.b_signed.eq(ctrl.ex.dotp.a_signed),
            ]


def _stored_factors(m: Module, stage: Any, decoder: Any, op_b: Value) -> None:
    """Factor b out of the NN-RF: one multiplexer behind the operand, which comes late."""
    is_pair = decoder.pair.valid
    is_stored = (decoder.ctrl.mac_load != MacLoad.NONE) | is_pair
    if stage.config.reads_factor:
        is_stored |= decoder.requantise.valid
    stored = Signal(32, name="stored_factor")
    m.d.comb += [
        stored.eq(Mux(is_pair, _pair_weights(m, stage, decoder), stage.nn_wgt)),
        stage.dotp_b.eq(Mux(is_stored, stored, op_b)),
    ]


def _pair_weights(m: Module, stage: Any, decoder: Any) -> Value:
    """Weights of a Mac&Load of two products in the format of its activations."""
    if not stage.config.mixed_weights:
        return stage.nn_wgt
    m.submodules.widener = widener = WeightWidener()
    word = stage.insn.payload.word
    m.d.comb += [
        widener.word.eq(stage.nn_wgt),
        widener.fmt.eq(decoder.ctrl.ex.dotp.fmt),
        *following(widener, decoder.pair, "half", "quarter"),
        widener.part.eq(Cat(word[12], word[25])),
        widener.is_signed.eq(decoder.ctrl.ex.dotp.a_signed),
    ]
    return widener.result


def tell_arrays(m, id_ex, dotp_ctrl, mult, is_mult, is_pair):
    """Register format, signs and form of what the arrays multiply; the second unit's format only if that works."""
    told = Signal(ArrayFormat, name="id_dotp_format")
    chosen = Cat(dotp_ctrl.fmt == fmt for fmt in ElemFmt)
    is_word = is_mult & (mult.op != MultOp.HALF)
    both = is_word | is_pair
    m.d.comb += [
        told.chosen.eq(chosen),
        told.a_signed.eq(chosen & dotp_ctrl.a_signed.replicate(len(chosen))),
        told.b_signed.eq(chosen & dotp_ctrl.b_signed.replicate(len(chosen))),
    ]
    m.d.sync += [
        id_ex.dotp_format.eq(told),
        id_ex.dotp_form.scalar.eq(is_mult),
        id_ex.dotp_form.word.eq(is_word),
        id_ex.dotp_form.lower.eq(both | (is_mult & ~mult.upper)),
        id_ex.dotp_form.upper.eq(both | mult.upper),
    ]
    with m.If(is_mult | is_pair):
        m.d.sync += id_ex.dotp2_format.eq(told)
