"""The instruction stream and the pipeline registers between the stages."""

from amaranth.lib import wiring

from xpulpnn.component import In, Out, PortSignature
from xpulpnn.config import CoreConfig
from xpulpnn.core.control import CsrOp, ExCtrl, HwLoopOp, LsuCtrl, System
from xpulpnn.core.mult import MultCtrl
from xpulpnn.core.product_unit import ProductForm
from xpulpnn.core.quantiser import QuantiserCtrl
from xpulpnn.core.requantiser import LANE_BITS, RequantiseCtrl
from xpulpnn.dotp.ctrl import ArrayFormat
from xpulpnn.isa.csr import DCSR_CAUSE_BITS
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.retirement import WaitCause


class InsnSignature(PortSignature):
    """Instruction stream, as seen by its source; valid/ready as in ``amaranth.lib.stream``."""

    valid: Out(1)  #: The payload is the next instruction.
    ready: In(1)  #: The instruction is accepted at the end of this cycle.
    #: payload.word: Instruction word, compressed instructions expanded.
    #: payload.pc: Address of the instruction.
    #: payload.compressed: The instruction takes two bytes of the program.
    #: payload.error: The instruction could not be read: an access fault; the word is undefined.
    payload: Out(wiring.Signature({"word": Out(32), "pc": Out(32), "compressed": Out(1), "error": Out(1)}))


class RedirectSignature(PortSignature):
    """Request to fetch from another address."""

    valid: Out(1)  #: In this cycle: the following instructions come from the target.
    target: Out(32)  #: Address of the next instruction, with ``valid``.


class CsrSignature(PortSignature):
    """CSR access of the instruction in EX."""

    valid: Out(1)  #: The instruction leaves EX in this cycle, with its side effects.
    addr: Out(12)  #: Number of the CSR.
    op: Out(CsrOp)  #: Type of access; ``write`` is 0 for csrrs/csrrc forms that only read.
    write: Out(1)  #: The CSR is written.
    wdata: Out(32)  #: rs1 or the zero-extended immediate.
    rdata: In(32)  #: Old value, combinational.


class HwLoopSignature(PortSignature):
    """Hardware-loop set-up by the instruction that leaves ID."""

    valid: Out(1)  #: The instruction leaves ID in this cycle.
    op: Out(HwLoopOp)  #: Selects the registers that are set: start, end, count.
    loop: Out(1)  #: Number of the loop, 0 or 1.
    start: Out(32)  #: Address of the first instruction of the body.
    end: Out(32)  #: Address of the last instruction of the body.
    count: Out(32)  #: Number of iterations.


class TrapSignature(PortSignature):
    """Exception of the instruction leaving ID (guide, "Exceptions and interrupts")."""

    valid: Out(1)  #: The instruction accepted in this cycle raises an exception.
    cause: Out(5)  #: Code of the exception in mcause.


class FaultSignature(PortSignature):
    """Access fault of a load or store."""

    valid: Out(1)  #: The outstanding access is answered with an error: it and all younger instructions are dropped.
    store: Out(1)  #: The failed access is a store; also in the next cycle.


class SystemSignature(PortSignature):
    """fence, fence.i, mret and wfi leaving ID, for the core's controller."""

    valid: Out(1)  #: A system instruction is accepted in this cycle.
    kind: Out(System)  #: The system instruction.


class DebugSignature(PortSignature):
    """Debug mode and its registers, as seen by the controller."""

    mode: Out(1)  #: The core is in debug mode.
    enter: Out(1)  #: Debug mode is entered in this cycle.
    pc: Out(32)  #: dpc.
    scratch: Out(32)  #: dscratch0.
    cause: Out(DCSR_CAUSE_BITS)  #: Cause of debug mode, with ``enter``: a :class:`~xpulpnn.isa.csr.DebugCause`.
    ebreak: In(1)  #: ebreak enters debug mode.
    step: In(1)  #: Single steps are enabled: one instruction is executed outside of debug mode.
    step_irq: In(1)  #: Interrupts are enabled in single steps.
    pc_we: In(1)  #: dpc is written; only while EX holds no access.
    scratch_we: In(1)  #: dscratch0 is written; only while EX holds no access.
    wdata: In(32)  #: Value written.


class WatchedSignature(PortSignature):
    """A load or store in EX that triggers of debug mode may stop before it is requested."""

    valid: Out(1)  #: EX holds an access.
    store: Out(1)  #: The access in EX is a store.
    address: Out(32)  #: Lowest address of the access.
    older_done: Out(1)  #: WB is done with its instruction in this cycle.
    gone: Out(1)  #: The access leaves EX at the end of this cycle, or is dropped.
    blocked: In(1)  #: The access must not be requested yet, or at all.
    hit: In(1)  #: The access and all younger instructions are dropped in this cycle; WB is empty.


class IntentSignature(PortSignature):
    """Effects of the instruction in ID if it leaves; known before a branch in EX decides to drop it."""

    jump: Out(1)  #: The instruction is jal or jalr and leaves.
    trap: Out(1)  #: The instruction raises an exception.
    system: Out(1)  #: The instruction is for the core's controller and leaves.
    follows: Out(1)  #: The instruction leaves and the next one in the program follows.
    accesses: Out(1)  #: The instruction leaves and is a load or store.


class FlowSignature(PortSignature):
    """Progress of instructions, for the hardware loops, the counters and the controller."""

    #: id_leaves: The instruction in ID leaves at the end of this cycle and is no jump, mret or exception.
    id_leaves: Out(1)
    id_late: Out(1)  #: The instruction in ID is a branch or a CSR access.
    ex_granted: Out(1)  #: A request of the instruction in EX is granted.
    ex_leaves: Out(1)  #: The instruction in EX leaves it at the end of this cycle.
    wb_leaves: Out(1)  #: WB is done with its instruction.


class EventsSignature(PortSignature):
    """Events of the back end for the PULP performance counters, each for one cycle."""

    load_use_stall: Out(1)  #: ID waits for a value from WB.
    jump_register_stall: Out(1)  #: jalr waits for its base.
    load: Out(1)  #: A read request is granted.
    store: Out(1)  #: A write request is granted.
    jump: Out(1)  #: jal or jalr is accepted from the stream.
    branch: Out(1)  #: A conditional branch leaves EX.
    taken_branch: Out(1)  #: A conditional branch is taken.
    compressed: Out(1)  #: A compressed instruction is accepted from the stream.
    elw_stall: Out(1)  #: WB waits for the answer to p.elw.


class RetireInfoSignature(PortSignature):
    """Facts about the instruction in ID that only the front end knows, for the retirement port."""

    raw: Out(32)  #: The instruction as fetched; used if it is compressed.
    next_pc: Out(32)  #: Address of the next instruction, unless a branch is taken.
    handler: Out(32)  #: Address of the handler of exceptions.
    intr: Out(1)  #: The instruction is the first of the handler of an interrupt.
    intr_id: Out(5)  #: Number of that interrupt.
    held: Out(WaitCause)  #: Cause for which the front end holds ID in this cycle; NONE if it does not.
    #: redirect: Cause of a redirect of the front end itself from this cycle on; NONE without one.
    redirect: Out(WaitCause)


class IdExSignature(PortSignature):
    """ID/EX pipeline register."""

    valid: Out(1)  #: EX holds an instruction.
    #: ctrl, lsu: Control words of the EX stage and the load-store unit; ``lsu.valid`` is 0 in a bubble.
    ctrl: Out(ExCtrl)
    lsu: Out(LsuCtrl)
    #: op_a, op_b, op_c: Operands; c is the old rd, the store data, or the branch target.
    op_a: Out(32)
    op_b: Out(32)
    op_c: Out(32)
    shamt: Out(5)  #: Shift amount of the normalising instructions.
    #: ex_we, ex_addr: Register written from EX through port B.
    ex_we: Out(1)
    ex_addr: Out(5)
    #: wb_we, wb_addr: Register written from WB through port A.
    wb_we: Out(1)
    wb_addr: Out(5)
    branch: Out(1)  #: Conditional branch.
    #: csr, csr_write: CSR access.
    csr: Out(CsrOp)
    csr_write: Out(1)

    def __init__(self, config: CoreConfig):
        members = {}
        if config.dotp_operands_in_id:
            #: dotp_fmt, dotp_a_signed, dotp_b_signed, dotp_a, dotp_b: Format and factors of the last dot product; they
            #:   are stable until the next one, to keep the unit quiet.
            if config.multiplies_by_dotp:
                #: dotp_format, dotp2_format: Format and signs of the last operation of each unit.
                #: dotp_form: Type of the last product: lanes, words or half-words.
                members |= {name: Out(ArrayFormat) for name in ("dotp_format", "dotp2_format")}
                members["dotp_form"] = Out(ProductForm)
            else:
                members |= {"dotp_fmt": Out(ElemFmt), "dotp_a_signed": Out(1), "dotp_b_signed": Out(1)}
            members |= {"dotp_a": Out(32), "dotp_b": Out(32)}
        if config.qnt:
            #: quantise: Control word of the quantiser; only with ``qnt``.
            members["quantise"] = Out(QuantiserCtrl)
        if config.requantise:
            #: requantise, lane: Control word of requantisation and lane of its result; only with ``requantise``.
            members |= {"requantise": Out(RequantiseCtrl), "lane": Out(LANE_BITS)}
        if config.late_results:
            #: late: Port A writes the result; only with late results.
            #: slow: The instruction takes several cycles, unless it is a load or store; only with late results.
            members |= {"late": Out(1), "slow": Out(1)}
        if config.performance_counters:
            #: elw: p.elw; only with performance counters.
            members["elw"] = Out(1)
        if config.mac_load:
            #: wb_base: Port A writes the incremented base of a Mac&Load instead of the loaded word.
            #: nn_we, nn_addr: NN-RF entry that receives the loaded word; absent without Mac&Load.
            members |= {"wb_base": Out(1), "nn_we": Out(1), "nn_addr": Out(config.nn_addr_bits)}
        if config.mac_load_pair:
            #: pair: Mac&Load of two products, whose sums port A writes; only with ``mac_load_pair``.
            #: later_pair: The activations of the last Mac&Load of two products are entries 8 and 9.
            #: second_sum: Old value of the second sum of the last accumulating Mac&Load of two products.
            members |= {"pair": Out(1), "later_pair": Out(1), "second_sum": Out(32)}
        super().__init__(members)


SCALE_BITS = 16
PLACES_TOP, ZERO = 5, slice(8, SCALE_BITS)
"""Bits of the word with shift and zero point: the top bit of the shift amount, and the zero point."""


class ExWbSignature(PortSignature):
    """Register between EX and WB for one instruction; members without a comment are those of :class:`IdExSignature`."""

    #: valid: EX holds an instruction.
    #: ex_we, ex_addr: Register written from EX through port B.
    #: wb_we, wb_addr: Register written from WB through port A.
    #: wb_base: Port A writes the incremented base of a Mac&Load instead of the loaded word.
    #: nn_we, nn_addr: NN-RF entry that receives the loaded word; absent without Mac&Load.
    #: requantise, lane: Control word of requantisation and lane of its result; only with ``requantise``.
    #: shamt: Shift amount of pv.rq*; only with ``requantise``.
    #: late: Port A writes ``late_result``; only with late results.
    #: elw: p.elw; only with performance counters.

    def __init__(self, config: CoreConfig):
        #: access: The instruction is a load or store.
        #: old: Old value of register ``ex_addr``, if the instruction is a load or store.
        members = {"access": Out(1), "old": Out(32)}
        if config.requantise:
            #: product: Sum of pv.rq* before the shift, 0 for other instructions; ``old`` holds its old rd.
            members["product"] = Out(32)
        if config.requantise_exact:
            #: scale: rs2[15:0] of pv.rqx*, 0 for other instructions; only with ``requantise_exact``.
            #: rounds: The instruction is pv.rqx*; only with ``requantise_exact``.
            members |= {"scale": Out(SCALE_BITS), "rounds": Out(1)}
        if config.late_results:
            #: late_result: Result that port A writes; only with late results.
            members["late_result"] = Out(32)
            #: late_product, late_dotp: Results that port A writes: of these and ``late_result`` all but one are 0.
            members |= {name: Out(32) for name in config.late_result_names}
        if config.has_whole_products:
            #: upper: Upper word of the product of mulh*, if WB writes it, and of pv.rqx*, 0 for other instructions.
            members["upper"] = Out(32)
        if config.multiplies_by_dotp:
            #: mult: Multiplication, for which WB writes ``upper``, or ``second`` shifted by ``shamt``.
            members["mult"] = Out(MultCtrl)
        if config.mac_load_pair:
            #: first, second: Sums of a Mac&Load of two products, or in ``second`` the product of half-words; ``first``
            #:   is 0 for other instructions.
            members |= {"first": Out(32), "second": Out(32)}
        all_members = IdExSignature(config).members
        members |= {name: all_members[name] for name in self.shared_names(config)}
        super().__init__(members)

    @staticmethod
    def shared_names(config: CoreConfig) -> tuple[str, ...]:
        names = ("valid", "ex_we", "ex_addr", "wb_we", "wb_addr")
        names += ("late",) if config.late_results else ()
        names += ("elw",) if config.performance_counters else ()
        names += ("requantise", "lane") if config.requantise else ()
        names += ("shamt",) if config.requantise or config.multiplies_by_dotp else ()
        names += ("pair",) if config.mac_load_pair else ()
        return names + (("wb_base", "nn_we", "nn_addr") if config.mac_load else ())


class WbSignature(PortSignature):
    """Write of WB through port A: valid while an instruction whose result WB writes is in WB."""

    we: Out(1)  #: A register is going to be written.
    addr: Out(5)  #: Number of the register.
    data: Out(32)  #: The value, valid in the cycle in which WB is done.

    def __init__(self, *, pairs: bool = False):
        #: pair: The register behind ``addr`` is written as well; only with Mac&Load of two products.
        #: odd: The value of the register behind ``addr``; only with Mac&Load of two products.
        super().__init__({"pair": Out(1), "odd": Out(32)} if pairs else None)
