"""Faults of a core that checks of riscv-formal or properties of the pipeline must find."""

from amaranth.hdl import Cat, Const, Mux

from xpulpnn.core.compressed_decoder import CompressedDecoder
from xpulpnn.core.control import CsrOp, ImmSel, MacLoad, MemSize, System, TargetSel, Unit
from xpulpnn.core.controller import Controller
from xpulpnn.core.csr_check import CsrCheck
from xpulpnn.core.csr_file import CsrFile
from xpulpnn.core.ex_stage import ExStage
from xpulpnn.core.hwloops import HwLoops
from xpulpnn.core.id_stage import IdStage
from xpulpnn.core.if_stage import IfStage
from xpulpnn.core.immediates import Immediates
from xpulpnn.core.lsu import Lsu
from xpulpnn.core.operands import OperandRead
from xpulpnn.core.prefetch import PrefetchBuffer
from xpulpnn.core.regfile import RegFile
from xpulpnn.core.simd_alu import SimdAlu
from xpulpnn.core.wb_stage import WbStage
from xpulpnn.dotp.nnrf import NnRf
from xpulpnn.isa.machine import NNRF_WEIGHTS, SECOND_PAIR, ExceptionCause
from xpulpnn_sim.proofs.faults.fault import PROGRAMS, Fault, where


def _expands(quadrant, funct3, wrong, further=lambda word: 1):
    """Return a fault that changes how some compressed instructions are expanded."""

    def changed(right, u):
        word = u("word")
        matches = (word[:2] == quadrant) & (word[13:16] == funct3) & further(word)
        return Mux(matches, wrong(Cat(right, Const(0, 32))[:32]), right)

    return {"expanded": changed}


def _target_of_redirect(right, u):
    target = Mux(u("redirect"), u("target")[2:], u("loop_start")[2:])
    return Cat(Const(0, 2), Mux(u(".redirects"), target, u(".ahead")))


def _kept_by_redirect(right, u):
    stays = u("insn.valid") & ~u("insn.ready")
    return Mux(u("redirect"), u(".take") | stays, right)


_HALF_OF_LOAD = where(".wb_size", MemSize.HALF, lambda _, u: Cat(u(".aligned")[:16], u(".aligned")[15].replicate(16)))


def _waits_for_registers(_, u):
    """Return whether an instruction waits for its registers, without any other reasons to wait."""
    uses = {"rs1_read": "rs1_used", "rs2_read": "rs2_used", "rs3_read": "rd_used"}
    waits = Cat(u(f"decoder.ctrl.{used}") & ~u(f"{read}.ready") for read, used in uses.items())
    return waits != 0


def _entry_in_use(right, u):
    reloads = (u("decoder.ctrl.mac_load") == MacLoad.NN) & u("insn.payload.word")[23]
    return Mux(reloads, u("nn_act_addr"), right)


def _cause_of_ecall(right, u):
    breaks = ~u(".illegal") & (u("decoder.ctrl.system") == System.EBREAK)
    return Mux(breaks, ExceptionCause.ENVIRONMENT_CALL, right)


def _waits_but_for_entry_9(right, u):
    is_second = u("decoder.pair.valid") & (u("id_ex.nn_addr") == SECOND_PAIR + 1)
    return Mux(is_second, _waits_for_registers(right, u), right)


def _factor_in_its_register(right, u):
    return Mux(u("wgt_addr") == NNRF_WEIGHTS, u("nn_kappa"), right)


CORE_FAULTS = (
    Fault("nothing is forwarded from EX", OperandRead, {"from_ex": lambda *_: 0}, "reg"),
    Fault(
        "nothing is forwarded from WB", OperandRead, {"other": lambda _, u: u("stored")}, "reg", "registers", PROGRAMS
    ),
    Fault("no wait for a value being loaded", OperandRead, {"ready": lambda *_: 1}, "reg", "registers"),
    Fault(
        "the third operand is the second",
        IdStage,
        {"rs3_read.addr": lambda _, u: u("insn.payload.word")[20:25]},
        "registers",
    ),
    Fault("x0 reads x1", IdStage, {"regfile.rs1_addr": lambda right, _: right | (right == 0)}, "insn_add"),
    Fault("lhu extends the sign", Lsu, {"wb_rdata": _HALF_OF_LOAD}, "insn_lhu"),
    Fault(
        "lb does not extend the sign",
        Lsu,
        {"wb_rdata": where(".wb_size", MemSize.BYTE, lambda _, u: u(".aligned")[:8])},
        "insn_lb",
    ),
    Fault(
        "lh across words is one access",
        Lsu,
        {".crosses": where("ex_ctrl.size", MemSize.HALF, lambda *_: 0)},
        "data",
        PROGRAMS,
    ),
    Fault(
        "the second access goes to the first word",
        Lsu,
        {"data.addr": lambda _, u: Cat(Const(0, 2), u("ex_address")[2:])},
        "data",
    ),
    Fault(
        "bytes of a load in the wrong order",
        Lsu,
        {".aligned": where(".wb_byte", 1, lambda _, u: u(".low").rotate_right(8))},
        "data",
    ),
    Fault(
        "a failed access stays under way",
        Lsu,
        {".outstanding": lambda right, u: Mux(u("ex_granted"), right, u("data.err"))},
        "liveness",
        "progress",
        PROGRAMS,
    ),
    Fault(
        "c.addi4spn mixes two bits",
        CompressedDecoder,
        _expands(0, 0, lambda right: Cat(right[:22], right[23], right[22], right[24:])),
        "insn_c_addi4spn",
    ),
    Fault(
        "c.srai shifts in zeros",
        CompressedDecoder,
        _expands(1, 0b100, lambda right: right & ~(1 << 30), lambda word: word[10:12] == 1),
        "insn_c_srai",
        PROGRAMS,
    ),
    Fault(
        "lui loses a bit",
        Immediates,
        {"imm": where("sel", ImmSel.U_TYPE, lambda right, _: right & ~0x1000)},
        "insn_lui",
    ),
    Fault(
        "backward branches go forward",
        Immediates,
        {"offset": where("target_sel", TargetSel.BRANCH, lambda right, _: right[:12])},
        "insn_beq",
    ),
    Fault("the link of a compressed jump", Immediates, {"imm": where("sel", ImmSel.LINK, lambda *_: 4)}, "insn_c_jalr"),
    Fault("unsigned comparisons are signed", SimdAlu, {"comparator.signed": lambda *_: 1}, "insn_bltu"),
    Fault(
        "csrrc sets",
        CsrFile,
        {"wdata": where("csr.op", CsrOp.CLEAR, lambda _, u: u("csr.rdata") | u("csr.wdata"))},
        "csrw_mscratch",
        "system",
    ),
    Fault(
        "mepc loses a bit",
        CsrFile,
        {".mepc_bits": lambda right, u: Mux(u("enter"), right, right[:30])},
        "csrc_any_mepc",
        "system",
        PROGRAMS,
    ),
    Fault("mvendorid can be written", CsrCheck, {"legal": lambda *_: 1}, "csrw_mvendorid"),
    Fault("a redirect changes a waiting request", PrefetchBuffer, {"instr.addr": _target_of_redirect}, "obi"),
    Fault(
        "a dropped word is taken", PrefetchBuffer, {".arriving": lambda _, u: u("instr.rvalid")}, "bus_imem", "fetches"
    ),
    Fault("a taken branch does not drop what is in ID", IfStage, {"insn.valid": _kept_by_redirect}, "pc_fwd"),
    Fault(
        "an illegal word does nothing",
        IdStage,
        {
            ".illegal": lambda _, u: (
                ((u("decoder.ctrl.csr") != CsrOp.NONE) & ~u("csr_check.legal")) | u("insn.payload.error")
            )
        },
        "ill",
    ),
    Fault("fetching stops after a redirect", PrefetchBuffer, {".running": lambda *_: 0}, "hang"),
    Fault(
        "the second word of an instruction may fail",
        PrefetchBuffer,
        {"error": lambda _, u: u(".first_error")},
        "bus_imem_fault",
        "fetches",
    ),
    Fault(
        "a quotient is a product",
        ExStage,
        {"result": where("ctrl.unit", Unit.DIV, lambda _, u: u("mult.result"))},
        "insn_div",
    ),
    Fault(
        "a taken branch counts",
        HwLoops,
        {".counted": lambda right, u: right | Mux(u("ex_leaves"), u(".late"), 0)},
        "loops",
        PROGRAMS,
    ),
    Fault(
        "both loops count at a common end",
        HwLoops,
        {".id_goes_back[1]": lambda _, u: u(".id_again")[1]},
        "loops",
        PROGRAMS,
    ),
    Fault("fetching past the end of a loop is not corrected", HwLoops, {"wrong": lambda *_: 0}, "loops"),
    Fault("no wait for the entry being loaded", IdStage, {".id_late_operand": _waits_for_registers}, "mac_load"),
    Fault("both update bits reload the activation in use", IdStage, {"id_ex.nn_addr": _entry_in_use}, "mac_load"),
    Fault("a second access before the first is answered", Lsu, {"data.req": lambda _, u: u("ex_ctrl.valid")}, "obi"),
    Fault(
        "an interrupt does not wait for what is older",
        Controller,
        {"irq_ack": lambda _, u: u(".interrupts") & u("id_valid") & ~u(".sleeping") & ~u(".faulted")},
        "interrupts",
    ),
    Fault(
        "an interrupt drops the instruction behind it",
        Controller,
        {"enter_pc": lambda right, u: Mux(u(".faulted"), right, u("id_next"))},
        "interrupts",
        PROGRAMS,
    ),
    Fault(
        "mret leaves interrupts off",
        CsrFile,
        {".mstatus_bits[0]": lambda right, u: right & ~u("leave")},
        "system",
        PROGRAMS,
    ),
    Fault("ebreak is ecall", IdStage, {"trap.cause": _cause_of_ecall}, "system", PROGRAMS),
    Fault("fence.i keeps what was fetched", Controller, {".flush": lambda *_: 0}, "system", PROGRAMS),
    Fault(
        "fence.i does not wait for what is older",
        IdStage,
        {".id_drains": lambda right, u: right & (u("decoder.ctrl.system") != System.FENCE_I)},
        "system",
    ),
    Fault(
        "wfi sleeps although an interrupt waits",
        Controller,
        {".sleeping": lambda right, u: right | u(".sleeping")},
        "progress",
    ),
    Fault(
        "no wait for a second activation being loaded",
        IdStage,
        {".id_late_operand": _waits_but_for_entry_9},
        "mac_load",
        needs="mac_load_pair",
    ),
    Fault(
        "the second sum is not forwarded",
        OperandRead,
        {"other": lambda _, u: Mux(u("wb.we") & (u("wb.addr") == u("addr")), u("wb.data"), u("stored"))},
        "registers",
        needs="mac_load_pair",
    ),
    Fault(
        "no wait for a second sum",
        OperandRead,
        {"ready": lambda _, u: ~(u("ex_late_we") & (u("ex_late_addr") == u("addr")))},
        "registers",
        needs="mac_load_pair",
    ),
    Fault(
        "an odd register takes the first sum",
        RegFile,
        {".x5": lambda right, u: Mux(u("we_b") & (u("addr_b") == 5), right, u("data_a"))},
        "registers",
        needs="mac_load_pair",
    ),
    Fault(
        "two registers are restored behind an access fault",
        WbStage,
        {"wb.pair": lambda right, u: right | u("fault")},
        "registers",
        needs="mac_load_pair",
    ),
    Fault(
        "the factor on its way to its entry is missed",
        NnRf,
        {"wgt": _factor_in_its_register},
        "mac_load",
        needs="reads_factor requantise_exact",
    ),
    Fault(
        "no wait for a summand in WB",
        WbStage,
        {"summand_pending": lambda *_: 0},
        "mac_load",
        needs="reads_factor requantise_exact",
    ),
)
