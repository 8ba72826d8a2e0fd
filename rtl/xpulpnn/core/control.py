"""Control words that the decoder gives to the ID and EX stages."""

from amaranth.lib import data, enum

from xpulpnn.core.alu_ctrl import AluCtrl
from xpulpnn.core.div import DivCtrl
from xpulpnn.core.mult import MultCtrl
from xpulpnn.dotp.ctrl import DotpCtrl, FmtField


class OpASel(enum.Enum, shape=3):
    """Source of EX operand a."""

    RS1, RD, PC, ZERO, ZIMM = range(5)


class OpBSel(enum.Enum, shape=2):
    """Source of EX operand b; ``RD`` is the offset register of stores."""

    RS2, RS1, IMM, RD = range(4)


class OpCSel(enum.Enum, shape=2):
    """Source of EX operand c: old rd, store data, or the target of a branch."""

    RD, RS2, TARGET = range(3)


class ImmSel(enum.Enum, shape=4):
    """Immediate given to operand b (guide, "Operand fields")."""

    I_TYPE = 0
    S_TYPE = 1
    U_TYPE = 2
    SIMM5 = 3
    LINK = 4
    WORD_BYTES = 5
    CLIP = 6
    FIELD = 7
    IMM6_SIGNED = 8
    IMM6_UNSIGNED = 9
    SHUFFLE_H = 10
    SHUFFLE_B = 11


class TargetSel(enum.Enum, shape=3):
    """Offset added by the target adder of ID; the base is the pc, of jalr rs1.

    ``LOOP`` and ``LOOP_SHORT`` are those of hardware loops, of 12 bits and, of lp.setupi, of 5.
    """

    BRANCH, JAL, JALR, LOOP, LOOP_SHORT = range(5)


class Unit(enum.Enum, shape=3):
    """Unit whose result leaves the EX stage through write port B."""

    ALU, MULT, DIV, DOTP, CSR = range(5)


class WriteSel(enum.Enum, shape=2):
    """Register written by a port: none, the one in field rd, or the base in field rs1."""

    NONE, RD, RS1 = range(3)


class MacLoad(enum.Enum, shape=2):
    """Form of Mac&Load (guide, "Mac&Load")."""

    NONE, NN, CU = range(3)


class System(enum.Enum, shape=3):
    """Instructions that the core's controller executes, not the back end."""

    NONE, FENCE, FENCE_I, MRET, WFI, ECALL, EBREAK = range(7)


class HwLoopOp(enum.Enum, shape=3):
    """Hardware-loop set-up instructions (guide, "Loop set-up")."""

    NONE, STARTI, ENDI, COUNT, COUNTI, SETUP, SETUPI = range(7)


class CsrOp(enum.Enum, shape=2):
    """CSR access: none, swap, set bits, clear bits."""

    NONE, WRITE, SET, CLEAR = range(4)


class MemSize(enum.Enum, shape=2):
    """Size of a memory access."""

    BYTE, HALF, WORD = range(3)


class LsuCtrl(data.Struct):
    """Control word of :class:`~xpulpnn.core.lsu.Lsu`."""

    valid: 1  #: The instruction accesses memory.
    we: 1  #: It stores.
    size: MemSize  #: Bytes accessed.
    signed: 1  #: Loaded bytes and half-words are sign-extended.
    post: 1  #: The address is the base alone; the offset only increments it.


class ExCtrl(data.Struct):
    """Control word of the EX stage."""

    unit: Unit  #: Whose result leaves the stage.
    #: alu, mult, div, dotp: Control words of the units.
    alu: AluCtrl
    mult: MultCtrl
    div: DivCtrl
    dotp: DotpCtrl


class IdCtrl(data.Struct):
    """Everything the decoder says about an instruction word."""

    ex: ExCtrl  #: Control word of the EX stage.
    lsu: LsuCtrl  #: Control word of the load-store unit.
    #: op_a, op_b, op_c, imm, target: Operand sources.
    op_a: OpASel
    op_b: OpBSel
    op_c: OpCSel
    imm: ImmSel
    target: TargetSel
    replicate: 1  #: Operand b is lane 0 of its source in every lane of the format.
    fmt: FmtField  #: Format of the replication.
    shamt_rs2: 1  #: The normalisation shift comes from rs2, not from Is3.
    #: rs1_used, rs2_used, rd_used: Register fields read; rd as third source.
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
    #: system, csr, hwloop: Requests to the core around the back end.
    system: System
    csr: CsrOp
    hwloop: HwLoopOp
    elw: 1  #: p.elw, for the performance counters.
