"""Faults of a core that checks of riscv-formal or properties of the pipeline must find."""

from functools import partial

from xpulpnn.core.compressed_decoder import CompressedDecoder
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
from xpulpnn.isa.machine import NNRF_WEIGHTS, SECOND_PAIR
from xpulpnn_sim.proofs.faults.fault import PROGRAMS, Fault

_read, _id, _lsu, _expander = (partial(Fault, unit) for unit in (OperandRead, IdStage, Lsu, CompressedDecoder))
_immediates, _csrs, _prefetch = (partial(Fault, unit) for unit in (Immediates, CsrFile, PrefetchBuffer))
_loops, _controller, _wb = (partial(Fault, unit) for unit in (HwLoops, Controller, WbStage))

_PAIR, _EXACT = "mac_load_pair", "reads_factor requantise_exact"  # settings that faults need

_WAITS = " | ".join(
    f"decoder.ctrl.{field}_used & ~{port}_read.ready" for port, field in (("rs1", "rs1"), ("rs2", "rs2"), ("rs3", "rd"))
)
"""Condition that an instruction waits for its registers, without any other reasons to wait."""

_EXPANDED = "Cat(right, Const(0, 32))[:32]"
_ADDI4SPN, _SRAI = "word[:2] == 0, word[13:16] == 0", "word[:2] == 1, word[13:16] == 0b100, word[10:12] == 1"
_REDIRECTED = "Mux(net.redirects, Mux(redirect, target[2:], loop_start[2:]), net.ahead)"
_ENTRY_IN_USE = "Mux((decoder.ctrl.mac_load == MacLoad.NN) & insn.payload.word[23], nn_act_addr, right)"
_BREAKS = "~net.illegal & (decoder.ctrl.system == System.EBREAK)"
_ENTRY_9 = f"decoder.pair.valid & (id_ex.nn_addr == {SECOND_PAIR + 1})"
_OTHERS_ILLEGAL = "((decoder.ctrl.csr != CsrOp.NONE) & ~csr_check.legal) | insn.payload.error"
_SIGNED_HALF = "Cat(net.aligned[:16], net.aligned[15].replicate(16))"

CORE_FAULTS = (
    _read("nothing is forwarded from EX", "from_ex", "0", "reg"),
    _read("nothing is forwarded from WB", "other", "stored", f"reg, registers, {PROGRAMS}"),
    _read("no wait for a value being loaded", "ready", "1", "reg, registers"),
    _id("the third operand is the second", "rs3_read.addr", "insn.payload.word[20:25]", "registers"),
    _id("x0 reads x1", "regfile.rs1_addr", "right | (right == 0)", "insn_add"),
    _lsu("lhu extends the sign", "wb_rdata", f"Mux(net.wb_size == MemSize.HALF, {_SIGNED_HALF}, right)", "insn_lhu"),
    _lsu(
        "lb does not extend the sign", "wb_rdata", "Mux(net.wb_size == MemSize.BYTE, net.aligned[:8], right)", "insn_lb"
    ),
    _lsu(
        "lh across words is one access",
        "net.crosses",
        "Mux(ex_ctrl.size == MemSize.HALF, 0, right)",
        f"data, {PROGRAMS}",
    ),
    _lsu("the second access goes to the first word", "data.addr", "Cat(Const(0, 2), ex_address[2:])", "data"),
    _lsu(
        "bytes of a load in the wrong order",
        "net.aligned",
        "Mux(net.wb_byte == 1, net.low.rotate_right(8), right)",
        "data",
    ),
    _lsu(
        "a failed access stays under way",
        "net.outstanding",
        "Mux(ex_granted, right, data.err)",
        f"liveness, progress, {PROGRAMS}",
    ),
    _expander(
        "c.addi4spn mixes two bits",
        "expanded",
        f"Mux(Cat({_ADDI4SPN}).all(), (lambda x: Cat(x[:22], x[23], x[22], x[24:]))({_EXPANDED}), right)",
        "insn_c_addi4spn",
    ),
    _expander(
        "c.srai shifts in zeros",
        "expanded",
        f"Mux(Cat({_SRAI}).all(), {_EXPANDED} & ~(1 << 30), right)",
        f"insn_c_srai, {PROGRAMS}",
    ),
    _immediates("lui loses a bit", "imm", "Mux(sel == ImmSel.U_TYPE, right & ~0x1000, right)", "insn_lui"),
    _immediates(
        "backward branches go forward", "offset", "Mux(target_sel == TargetSel.BRANCH, right[:12], right)", "insn_beq"
    ),
    _immediates("the link of a compressed jump", "imm", "Mux(sel == ImmSel.LINK, 4, right)", "insn_c_jalr"),
    Fault(SimdAlu, "unsigned comparisons are signed", "comparator.signed", "1", "insn_bltu"),
    _csrs("csrrc sets", "wdata", "Mux(csr.op == CsrOp.CLEAR, csr.rdata | csr.wdata, right)", "csrw_mscratch, system"),
    _csrs("mepc loses a bit", "net.mepc_bits", "Mux(enter, right, right[:30])", f"csrc_any_mepc, system, {PROGRAMS}"),
    Fault(CsrCheck, "mvendorid can be written", "legal", "1", "csrw_mvendorid"),
    _prefetch("a redirect changes a waiting request", "instr.addr", f"Cat(Const(0, 2), {_REDIRECTED})", "obi"),
    _prefetch("a dropped word is taken", "net.arriving", "instr.rvalid", "bus_imem, fetches"),
    Fault(
        IfStage,
        "a taken branch does not drop what is in ID",
        "insn.valid",
        "Mux(redirect, net.take | (insn.valid & ~insn.ready), right)",
        "pc_fwd",
    ),
    _id("an illegal word does nothing", "net.illegal", _OTHERS_ILLEGAL, "ill"),
    _prefetch("fetching stops after a redirect", "net.running", "0", "hang"),
    _prefetch("the second word of an instruction may fail", "error", "net.first_error", "bus_imem_fault, fetches"),
    Fault(ExStage, "a quotient is a product", "result", "Mux(ctrl.unit == Unit.DIV, mult.result, right)", "insn_div"),
    _loops("a taken branch counts", "net.counted", "right | Mux(ex_leaves, net.late, 0)", f"loops, {PROGRAMS}"),
    _loops("both loops count at a common end", "net.id_goes_back[1]", "net.id_again[1]", f"loops, {PROGRAMS}"),
    _loops("fetching past the end of a loop is not corrected", "wrong", "0", "loops"),
    _id("no wait for the entry being loaded", "net.id_late_operand", _WAITS, "mac_load"),
    _id("both update bits reload the activation in use", "id_ex.nn_addr", _ENTRY_IN_USE, "mac_load"),
    _lsu("a second access before the first is answered", "data.req", "ex_ctrl.valid", "obi"),
    _controller(
        "an interrupt does not wait for what is older",
        "irq_ack",
        "net.interrupts & id_valid & ~net.sleeping & ~net.faulted",
        "interrupts",
    ),
    _controller(
        "an interrupt drops the instruction behind it",
        "enter_pc",
        "Mux(net.faulted, right, id_next)",
        f"interrupts, {PROGRAMS}",
    ),
    _csrs("mret leaves interrupts off", "net.mstatus_bits[0]", "right & ~leave", f"system, {PROGRAMS}"),
    _id(
        "ebreak is ecall",
        "trap.cause",
        f"Mux({_BREAKS}, ExceptionCause.ENVIRONMENT_CALL, right)",
        f"system, {PROGRAMS}",
    ),
    _controller("fence.i keeps what was fetched", "net.flush", "0", f"system, {PROGRAMS}"),
    _id(
        "fence.i does not wait for what is older",
        "net.id_drains",
        "right & (decoder.ctrl.system != System.FENCE_I)",
        "system",
    ),
    _controller("wfi sleeps although an interrupt waits", "net.sleeping", "right | net.sleeping", "progress"),
    _id(
        "no wait for a second activation being loaded",
        "net.id_late_operand",
        f"Mux({_ENTRY_9}, {_WAITS}, right)",
        "mac_load",
        _PAIR,
    ),
    _read(
        "the second sum is not forwarded",
        "other",
        "Mux(wb.we & (wb.addr == addr), wb.data, stored)",
        "registers",
        _PAIR,
    ),
    _read("no wait for a second sum", "ready", "~(ex_late_we & (ex_late_addr == addr))", "registers", _PAIR),
    Fault(
        RegFile,
        "an odd register takes the first sum",
        "net.x5",
        "Mux(we_b & (addr_b == 5), right, data_a)",
        "registers",
        _PAIR,
    ),
    _wb("two registers are restored behind an access fault", "wb.pair", "right | fault", "registers", _PAIR),
    Fault(
        NnRf,
        "the factor on its way to its entry is missed",
        "wgt",
        f"Mux(wgt_addr == {NNRF_WEIGHTS}, nn_kappa, right)",
        "mac_load",
        _EXACT,
    ),
    _wb("no wait for a summand in WB", "summand_pending", "0", "mac_load", _EXACT),
)


def _halt(name, signal, wrong):
    return Fault(Controller, name, signal, wrong, "halts", "debug")


HALT_FAULTS = (
    _halt(
        "dpc is behind the instruction that has not been executed",
        "net.access_pc",
        "Mux(net.halts, id_next[-len(right) :], right)",
    ),
    _halt("dpc is not changed by a halt", "net.access_pc", "Mux(debug.enter, net.access_pc, right)"),
    _halt("a halt does not wait for what is older", "net.halts", "halting & id_valid & ~net.sleeping & ~net.dropped"),
    _halt("a request to halt does not hold what follows", "halting", "net.stepped"),
    _halt(
        "an interrupt is taken while the core halts",
        "irq_ack",
        "net.interrupts & id_valid & ~busy & ~net.sleeping & ~net.faulted",
    ),
    _halt("an access that fails when the core halts is lost", "net.aborted", "0"),
    _halt("a halt enters a trap", "enter", "right | debug.enter"),
    _halt(
        "debug mode begins at the address for exceptions",
        "net.other_target",
        "Mux(net.halts, debug_exception_addr, right)",
    ),
    _halt("the core resumes where a trap returns", "debug.pc", "mepc"),
    _halt("a step ends before it has begun", "net.stepped", "1"),
    _halt("interrupts are taken in debug mode", "irq_masked", "0"),
)
"""Faults of debug mode that the pipeline property ``halts`` must find."""
