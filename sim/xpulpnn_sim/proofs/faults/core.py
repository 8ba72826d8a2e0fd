"""Faults of a core, each of which a check of riscv-formal must find."""

from amaranth.hdl import Cat, Const, Mux

from xpulpnn.core.compressed_decoder import CompressedDecoder
from xpulpnn.core.control import CsrOp, ImmSel, MemSize, TargetSel, Unit
from xpulpnn.core.csr_check import CsrCheck
from xpulpnn.core.csr_file import CsrFile
from xpulpnn.core.ex_stage import ExStage
from xpulpnn.core.id_stage import IdStage
from xpulpnn.core.if_stage import IfStage
from xpulpnn.core.immediates import Immediates
from xpulpnn.core.lsu import Lsu
from xpulpnn.core.operands import OperandRead
from xpulpnn.core.prefetch import PrefetchBuffer
from xpulpnn.core.simd_alu import SimdAlu
from xpulpnn_sim.proofs.faults.core_fault import CoreFault


def where(signal, value, wrong):
    """Make something wrong where a signal of the unit has a value."""
    return lambda right, u: Mux(u(signal) == value, wrong(right, u), right)


def _expands(quadrant, funct3, wrong, further=lambda word: 1):
    """Make the expansion of some compressed instructions wrong."""

    def changed(right, u):
        word = u("word")
        here = (word[:2] == quadrant) & (word[13:16] == funct3) & further(word)
        return Mux(here, wrong(Cat(right, Const(0, 32))[:32]), right)

    return {"expanded": changed}


def _target_of_redirect(right, u):
    target = Mux(u("redirect"), u("target")[2:], u("loop_start")[2:])
    return Cat(Const(0, 2), Mux(u(".redirects"), target, u(".ahead")))


def _kept_by_redirect(right, u):
    stays = u("insn.valid") & ~u("insn.ready")
    return Mux(u("redirect"), u(".take") | stays, right)


_HALF_OF_LOAD = where(".wb_size", MemSize.HALF, lambda _, u: Cat(u(".aligned")[:16], u(".aligned")[15].replicate(16)))

CORE_FAULTS = (
    CoreFault("nothing is forwarded from EX", OperandRead, {"from_ex": lambda *_: 0}, "reg"),
    CoreFault("nothing is forwarded from WB", OperandRead, {"other": lambda _, u: u("stored")}, "reg"),
    CoreFault("no wait for a value being loaded", OperandRead, {"ready": lambda *_: 1}, "reg"),
    CoreFault(
        "the third operand is the second",
        IdStage,
        {"rs3_read.addr": lambda _, u: u("insn.payload.word")[20:25]},
        "registers",
    ),
    CoreFault("x0 reads x1", IdStage, {"regfile.rs1_addr": lambda right, _: right | (right == 0)}, "insn_add"),
    CoreFault("lhu extends the sign", Lsu, {"wb_rdata": _HALF_OF_LOAD}, "insn_lhu"),
    CoreFault(
        "lb does not extend the sign",
        Lsu,
        {"wb_rdata": where(".wb_size", MemSize.BYTE, lambda _, u: u(".aligned")[:8])},
        "insn_lb",
    ),
    CoreFault(
        "lh across words is one access", Lsu, {".crosses": where("ex_ctrl.size", MemSize.HALF, lambda *_: 0)}, "data"
    ),
    CoreFault(
        "the second access goes to the first word",
        Lsu,
        {"data.addr": lambda _, u: Cat(Const(0, 2), u("ex_address")[2:])},
        "data",
    ),
    CoreFault(
        "bytes of a load in the wrong order",
        Lsu,
        {".aligned": where(".wb_byte", 1, lambda _, u: u(".low").rotate_right(8))},
        "data",
    ),
    CoreFault(
        "a failed access stays under way",
        Lsu,
        {".outstanding": lambda right, u: Mux(u("ex_granted"), right, u("data.err"))},
        "liveness",
    ),
    CoreFault(
        "c.addi4spn mixes two bits",
        CompressedDecoder,
        _expands(0, 0, lambda right: Cat(right[:22], right[23], right[22], right[24:])),
        "insn_c_addi4spn",
    ),
    CoreFault(
        "c.srai shifts in zeros",
        CompressedDecoder,
        _expands(1, 0b100, lambda right: right & ~(1 << 30), lambda word: word[10:12] == 1),
        "insn_c_srai",
    ),
    CoreFault(
        "lui loses a bit",
        Immediates,
        {"imm": where("sel", ImmSel.U_TYPE, lambda right, _: right & ~0x1000)},
        "insn_lui",
    ),
    CoreFault(
        "backward branches go forward",
        Immediates,
        {"offset": where("target_sel", TargetSel.BRANCH, lambda right, _: right[:12])},
        "insn_beq",
    ),
    CoreFault(
        "the link of a compressed jump", Immediates, {"imm": where("sel", ImmSel.LINK, lambda *_: 4)}, "insn_c_jalr"
    ),
    CoreFault("unsigned comparisons are signed", SimdAlu, {"comparator.signed": lambda *_: 1}, "insn_bltu"),
    CoreFault(
        "csrrc sets",
        CsrFile,
        {"wdata": where("csr.op", CsrOp.CLEAR, lambda _, u: u("csr.rdata") | u("csr.wdata"))},
        "csrw_mscratch",
    ),
    CoreFault(
        "mepc loses a bit",
        CsrFile,
        {".mepc_bits": lambda right, u: Mux(u("enter"), right, right[:30])},
        "csrc_any_mepc",
    ),
    CoreFault("mvendorid can be written", CsrCheck, {"legal": lambda *_: 1}, "csrw_mvendorid"),
    CoreFault("a redirect changes a waiting request", PrefetchBuffer, {"instr.addr": _target_of_redirect}, "obi"),
    CoreFault("a dropped word is taken", PrefetchBuffer, {".arriving": lambda _, u: u("instr.rvalid")}, "bus_imem"),
    CoreFault("a taken branch does not drop what is in ID", IfStage, {"insn.valid": _kept_by_redirect}, "pc_fwd"),
    CoreFault(
        "an illegal word does nothing",
        IdStage,
        {
            ".illegal": lambda _, u: (
                ((u("decoder.ctrl.csr") != CsrOp.NONE) & ~u("csr_check.legal")) | u("insn.payload.error")
            )
        },
        "ill",
    ),
    CoreFault("fetching stops after a redirect", PrefetchBuffer, {".running": lambda *_: 0}, "hang"),
    CoreFault(
        "the second word of an instruction may fail",
        PrefetchBuffer,
        {"error": lambda _, u: u(".first_error")},
        "bus_imem_fault",
    ),
    CoreFault(
        "a quotient is a product",
        ExStage,
        {"result": where("ctrl.unit", Unit.DIV, lambda _, u: u("mult.result"))},
        "insn_div",
    ),
)
"""Faults of the core of the preset ri5cy."""
