"""Control words from the decoder to the ID and EX stages, and their values for every instruction."""

from collections.abc import Mapping
from typing import Any

from amaranth.lib import data, enum

from xpulpnn.core.alu_ctrl import AluCtrl, alu_control
from xpulpnn.core.div import DivCtrl, div_control
from xpulpnn.core.mult import MultCtrl, mult_control
from xpulpnn.core.requantiser import requantise_control
from xpulpnn.dotp.ctrl import DotpCtrl, FmtField, dotp_control
from xpulpnn.isa.formats import ElemFmt, Op2Mode
from xpulpnn.isa.table import Insn


class OpASel(enum.Enum, shape=3):
    RS1, RD, PC, ZERO, ZIMM = range(5)


class OpBSel(enum.Enum, shape=2):
    """Source of operand b of EX; ``RD`` is the offset register of stores."""

    RS2, RS1, IMM, RD = range(4)


class OpCSel(enum.Enum, shape=2):
    """Source of operand c of EX: old value of rd, store data, or the target of a branch."""

    RD, RS2, TARGET = range(3)


class ImmSel(enum.Enum, shape=4):
    """Immediate for operand b (guide, "Operand fields")."""

    I_TYPE, S_TYPE, U_TYPE, SIMM5, LINK, WORD_BYTES, CLIP, FIELD = range(8)
    IMM6_SIGNED, IMM6_UNSIGNED, SHUFFLE_H, SHUFFLE_B = range(8, 12)


class TargetSel(enum.Enum, shape=3):
    """Offset added by the target adder of ID to the pc, or to rs1 for jalr.

    ``LOOP`` and ``LOOP_SHORT`` are the 12-bit offset of hardware loops and the 5-bit offset of lp.setupi.
    """

    BRANCH, JAL, JALR, LOOP, LOOP_SHORT = range(5)


class Unit(enum.Enum, shape=3):
    """Unit whose result leaves the EX stage through write port B."""

    ALU, MULT, DIV, DOTP, CSR = range(5)


class WriteSel(enum.Enum, shape=2):
    """Register written by a port: none, the one in field rd, or the base in field rs1."""

    NONE, RD, RS1 = range(3)


class MacLoad(enum.Enum, shape=2):
    NONE, NN, CU = range(3)


class PairCtrl(data.Struct):
    valid: 1  #: The instruction is a Mac&Load of two products.
    #: half, quarter: The weights have half or a quarter of the width of the activations; 0 without ``mixed_weights``.
    half: 1
    quarter: 1


class System(enum.Enum, shape=3):
    NONE, FENCE, FENCE_I, MRET, WFI, ECALL, EBREAK = range(7)


class HwLoopOp(enum.Enum, shape=3):
    """Hardware-loop set-up instructions (guide, "Loop set-up")."""

    NONE, STARTI, ENDI, COUNT, COUNTI, SETUP, SETUPI = range(7)


class CsrOp(enum.Enum, shape=2):
    NONE, WRITE, SET, CLEAR = range(4)


class MemSize(enum.Enum, shape=2):
    BYTE, HALF, WORD = range(3)


class LsuCtrl(data.Struct):
    valid: 1  #: The instruction accesses memory.
    we: 1  #: The access is a store.
    size: MemSize  #: Bytes accessed.
    signed: 1  #: Loaded bytes and half-words are sign-extended.
    post: 1  #: The address is the base alone; the offset only increments the base.


class ExCtrl(data.Struct):
    unit: Unit  #: Unit whose result leaves the stage.
    #: alu, mult, div, dotp: Control words of the units.
    alu: AluCtrl
    mult: MultCtrl
    div: DivCtrl
    dotp: DotpCtrl


class IdCtrl(data.Struct):
    ex: ExCtrl  #: Control word of the EX stage.
    lsu: LsuCtrl  #: Control word of the load-store unit.
    #: op_a, op_b, op_c, imm, target: Operand sources.
    op_a: OpASel
    op_b: OpBSel
    op_c: OpCSel
    imm: ImmSel
    target: TargetSel
    replicate: 1  #: Operand b is lane 0 of its source, replicated into every lane of the format.
    fmt: FmtField  #: Format of the replication.
    shamt_rs2: 1  #: The shift amount of a normalisation comes from rs2 instead of Is3.
    #: rs1_used, rs2_used, rd_used: Register fields read, with rd as third source.
    rs1_used: 1
    rs2_used: 1
    rd_used: 1
    #: ex_write, wb_write: Registers written from EX (port B) and from WB (port A).
    ex_write: WriteSel
    wb_write: WriteSel
    #: branch, jump: Conditional branch; jal or jalr.
    branch: 1
    jump: 1
    mac_load: MacLoad  #: Form of Mac&Load.
    #: system, csr, hwloop: Requests to the parts of the core outside the back end.
    system: System
    csr: CsrOp
    hwloop: HwLoopOp
    elw: 1  #: p.elw, for the performance counters.


Fields = dict[str, Any]

_MEMORY = {
    **dict.fromkeys(("lb", "lbu", "sb"), MemSize.BYTE),
    **dict.fromkeys(("lh", "lhu", "sh"), MemSize.HALF),
    **dict.fromkeys(("lw", "elw", "sw"), MemSize.WORD),
}

_SYSTEM = {kind.name.lower().replace("_", "."): kind for kind in System if kind is not System.NONE}
_SYSTEM["dret"] = System.MRET  # dret is legal in debug mode only, mret outside of it only

_CSR: Mapping[str, CsrOp] = {"csrrw": CsrOp.WRITE, "csrrs": CsrOp.SET, "csrrc": CsrOp.CLEAR}

_HWLOOP = {f"lp.{op.name.lower()}": op for op in HwLoopOp if op is not HwLoopOp.NONE}

_IMMEDIATES: Mapping[str, ImmSel] = {
    "imm12": ImmSel.I_TYPE,
    "uimm5": ImmSel.I_TYPE,
    "uimm20": ImmSel.U_TYPE,
    "simm5": ImmSel.SIMM5,
    "imm6": ImmSel.IMM6_SIGNED,
    "uimm6": ImmSel.IMM6_UNSIGNED,
    "Is2": ImmSel.FIELD,
}

_OWN_IMMEDIATES: Mapping[str, ImmSel] = {
    "clip": ImmSel.CLIP,
    "clipu": ImmSel.CLIP,
    "pv.shuffle": ImmSel.SHUFFLE_H,
    "pv.shufflei": ImmSel.SHUFFLE_B,
}


def control_fields(insn: Insn) -> Fields:
    """Return the fields of :class:`IdCtrl` for a 32-bit instruction, except those that are zero."""
    fields: Fields = {f"{name}_used": name in insn.reads for name in ("rs1", "rs2", "rd")}
    fields |= _unit(insn)
    if insn.op in _MEMORY:
        fields |= _memory(insn)
    elif insn.is_branch:
        fields |= {"branch": True, "op_c": OpCSel.TARGET, "target": TargetSel.BRANCH}
        fields |= _second_operand(insn)
    elif insn.is_jump:
        fields |= {"jump": True, "op_a": OpASel.PC} | _immediate(ImmSel.LINK)
        fields |= {"target": TargetSel.JALR if insn.op == "jalr" else TargetSel.JAL, "ex_write": WriteSel.RD}
    elif insn.is_pair:
        fields |= _mac_load_pair(insn)
    elif insn.is_mac_load:
        fields |= _mac_load(insn)
    elif insn.op == "pv.qnt":
        fields |= _quantisation(insn)
    elif insn.loads_parameter or insn.requantises:
        fields |= _requantisation(insn)
    elif insn.op in _SYSTEM:
        fields["system"] = _SYSTEM[insn.op]
    elif insn.op in _CSR:
        immediate = "zimm5" in insn.operands
        fields |= {"csr": _CSR[insn.op], "op_a": OpASel.ZIMM if immediate else OpASel.RS1, "ex_write": WriteSel.RD}
        fields |= _immediate(ImmSel.I_TYPE)
    elif insn.op in _HWLOOP:
        fields["hwloop"] = _HWLOOP[insn.mnemonic]
        fields["target"] = TargetSel.LOOP_SHORT if insn.mnemonic == "lp.setupi" else TargetSel.LOOP
    else:
        fields |= _arithmetic(insn)
    return fields


def _unit(insn: Insn) -> Fields:
    controls = {
        Unit.MULT: ("mult", mult_control(insn)),
        Unit.DIV: ("div", div_control(insn)),
        Unit.DOTP: ("dotp", dotp_control(insn)),
    }
    fields: Fields = {"ex.unit": Unit.CSR if insn.op in _CSR else Unit.ALU}
    for unit, (name, control) in controls.items():
        if control is not None:
            fields |= {"ex.unit": unit} | {f"ex.{name}.{key}": value for key, value in control.items()}
    fields |= {f"ex.alu.{key}": value for key, value in (alu_control(insn) or {}).items()}
    return fields


def _second_operand(insn: Insn) -> Fields:
    for token in insn.tokens:
        if token.field.name in _IMMEDIATES:
            return _immediate(_OWN_IMMEDIATES.get(insn.op, _IMMEDIATES[token.field.name]))
    return {"op_b": OpBSel.RS2}


def _immediate(imm: ImmSel) -> Fields:
    return {"op_b": OpBSel.IMM, "imm": imm}


def _memory(insn: Insn) -> Fields:
    """Return the fields for loads and stores: base in operand a, offset in operand b, store data in operand c."""
    fields: Fields = {"lsu.valid": True, "lsu.we": insn.is_store, "lsu.size": _MEMORY[insn.op]}
    fields |= {"lsu.signed": insn.op in ("lb", "lh"), "elw": insn.op == "elw"}
    fields |= {"lsu.post": insn.writes_base, "ex_write": WriteSel.RS1 if insn.writes_base else WriteSel.NONE}
    if insn.is_store:
        register = "rs3" in insn.operands
        fields |= {"op_c": OpCSel.RS2, "op_b": OpBSel.RD if register else OpBSel.IMM, "imm": ImmSel.S_TYPE}
    else:
        register = "imm12" not in insn.operands
        fields |= {"wb_write": WriteSel.RD, "op_b": OpBSel.RS2 if register else OpBSel.IMM, "imm": ImmSel.I_TYPE}
    return fields


def _mac_load(insn: Insn) -> Fields:
    """Return the fields of Mac&Load: port B writes the dot product, port A the incremented base in the next cycle."""
    access: Fields = {"lsu.size": MemSize.WORD, "lsu.post": True, "ex_write": WriteSel.RD, "wb_write": WriteSel.RS1}
    # the old accumulator is read as well, to be restored after an access fault
    form = {"rd_used": True, "mac_load": MacLoad.NN if insn.is_nn_form else MacLoad.CU}
    return access | form | _immediate(ImmSel.WORD_BYTES)


def _mac_load_pair(insn: Insn) -> Fields:
    """Return the fields of Mac&Load of two products with load and increment; port A writes both sums in WB."""
    fields: Fields = {"ex.unit": Unit.ALU, "pair.valid": True, "wb_write": WriteSel.RD}
    fields |= _immediate(ImmSel.WORD_BYTES)
    if insn.wgt_fmt is not None and insn.fmt is not None:
        fields["pair.half" if insn.wgt_fmt == insn.fmt + 1 else "pair.quarter"] = True
    # the second sum, in the register after rd, is read instead of rs2
    fields |= {"rd_used": insn.accumulates, "rs2_used": insn.accumulates}
    if insn.writes_base:
        fields |= {"lsu.valid": True, "lsu.size": MemSize.WORD, "lsu.post": True, "ex_write": WriteSel.RS1}
    return fields


def _quantisation(insn: Insn) -> Fields:
    control = {"quantise.valid": True, "quantise.crumbs": insn.fmt is ElemFmt.C}
    return control | {"lsu.size": MemSize.HALF, "lsu.post": True, "op_b": OpBSel.RS2, "ex_write": WriteSel.RD}


def _requantisation(insn: Insn) -> Fields:
    """Return the fields for pv.rqld and pv.rq*.

    pv.rqld loads a word into the NN-RF. pv.rq* multiplies, and port A writes its result. Operand b of pv.rqx* is rs2,
    the word with shift and zero point.
    """
    fields = {f"requantise.{name}": value for name, value in (requantise_control(insn) or {}).items()}
    if insn.loads_parameter:
        fields |= {"lsu.valid": True, "lsu.size": MemSize.WORD, "lsu.post": True, "ex_write": WriteSel.RS1}
        return fields | _immediate(ImmSel.WORD_BYTES)
    return fields | {"wb_write": WriteSel.RD, "op_b": OpBSel.RS2 if insn.is_exact else OpBSel.RS1, "shamt_rs2": True}


def _arithmetic(insn: Insn) -> Fields:
    fields: Fields = {"ex_write": WriteSel.RD}
    if insn.op in {"lui", "auipc"}:
        fields["op_a"] = OpASel.ZERO if insn.op == "lui" else OpASel.PC
    if insn.op.startswith(("add", "sub")) and insn.op.endswith("N") and "Is3" not in insn.operands:
        fields |= {"op_a": OpASel.RD, "op_b": OpBSel.RS1, "shamt_rs2": True}
    else:
        fields |= _second_operand(insn)
    if insn.mode in {Op2Mode.SC, Op2Mode.SCI} and not insn.op.startswith("pv.shuffle"):
        fields |= {"replicate": True, "fmt": insn.fmt}
    return fields
