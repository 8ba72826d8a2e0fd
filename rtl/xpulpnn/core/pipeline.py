"""The instruction stream and the pipeline registers between the stages."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.config import CoreConfig
from xpulpnn.core.control import CsrOp, ExCtrl, HwLoopOp, LsuCtrl, System
from xpulpnn.core.quantiser import QuantiserCtrl
from xpulpnn.core.requantiser import LANE_BITS, RequantiseCtrl
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.retirement import WaitCause


class InsnSignature(wiring.Signature):
    """Instruction stream, source's side; valid/ready as in ``amaranth.lib.stream``.

    Members
    -------
    valid : Out(1)
        The payload is the next instruction.
    ready : In(1)
        It is taken at the end of this cycle.
    payload.word : Out(32)
        Instruction word, compressed instructions expanded.
    payload.pc : Out(32)
        Its address.
    payload.compressed : Out(1)
        It takes two bytes of the program.
    payload.error : Out(1)
        It could not be read: an access fault; the word means nothing.
    """

    def __init__(self):
        payload = wiring.Signature({"word": Out(32), "pc": Out(32), "compressed": Out(1), "error": Out(1)})
        super().__init__({"valid": Out(1), "ready": In(1), "payload": Out(payload)})


class RedirectSignature(wiring.Signature):
    """Request to fetch elsewhere.

    Members
    -------
    valid : Out(1)
        In this cycle: the instructions that follow come from the target.
    target : Out(32)
        Address of the next instruction, with ``valid``.
    """

    def __init__(self):
        super().__init__({"valid": Out(1), "target": Out(32)})


class CsrSignature(wiring.Signature):
    """CSR access of the instruction in EX.

    Members
    -------
    valid : Out(1)
        The instruction leaves EX in this cycle: side effects happen now.
    addr : Out(12)
        Number of the CSR.
    op : Out(CsrOp)
        Kind of access; ``write`` is 0 for csrrs/csrrc forms that only read.
    write : Out(1)
        The CSR is written.
    wdata : Out(32)
        rs1 or the zero-extended immediate.
    rdata : In(32)
        Old value, combinational.
    """

    def __init__(self):
        super().__init__(
            {"valid": Out(1), "addr": Out(12), "op": Out(CsrOp), "write": Out(1), "wdata": Out(32), "rdata": In(32)}
        )


class HwLoopSignature(wiring.Signature):
    """Hardware-loop set-up leaving ID.

    Members
    -------
    valid : Out(1)
        The instruction leaves ID in this cycle.
    op : Out(HwLoopOp)
        Which of start, end and count are set.
    loop : Out(1)
        Number of the loop, 0 or 1.
    start : Out(32)
        Address of the first instruction of the body.
    end : Out(32)
        Address of its last instruction.
    count : Out(32)
        Number of iterations.
    """

    def __init__(self):
        super().__init__(
            {
                "valid": Out(1),
                "op": Out(HwLoopOp),
                "loop": Out(1),
                "start": Out(32),
                "end": Out(32),
                "count": Out(32),
            }
        )


class TrapSignature(wiring.Signature):
    """Exception of the instruction leaving ID (guide, "Exceptions and interrupts").

    Members
    -------
    valid : Out(1)
        The instruction taken in this cycle raises one.
    cause : Out(5)
        Its code in mcause.
    """

    def __init__(self):
        super().__init__({"valid": Out(1), "cause": Out(5)})


class FaultSignature(wiring.Signature):
    """Access fault of a load or store.

    Members
    -------
    valid : Out(1)
        The access under way is answered with an error: it and what is younger is dropped.
    store : Out(1)
        It is a store; also in the next cycle.
    """

    def __init__(self):
        super().__init__({"valid": Out(1), "store": Out(1)})


class SystemSignature(wiring.Signature):
    """fence, fence.i, mret and wfi leaving ID, for the core's controller.

    Members
    -------
    valid : Out(1)
        One is taken in this cycle.
    kind : Out(System)
        Which one.
    """

    def __init__(self):
        super().__init__({"valid": Out(1), "kind": Out(System)})


class IntentSignature(wiring.Signature):
    """Effects of the instruction in ID when it leaves, unless a branch in EX drops it.

    It is known before the branch is decided.

    Members
    -------
    jump : Out(1)
        It is jal or jalr and leaves.
    trap : Out(1)
        It raises an exception.
    system : Out(1)
        It is one for the core's controller and leaves.
    follows : Out(1)
        It leaves and is followed by the next one in the program.
    accesses : Out(1)
        It leaves and is a load or store.
    """

    def __init__(self):
        super().__init__({name: Out(1) for name in ("jump", "trap", "system", "follows", "accesses")})


class FlowSignature(wiring.Signature):
    """Progress of instructions, for the hardware loops, the counters and the controller around the back end.

    Members
    -------
    id_leaves : Out(1)
        The instruction in ID leaves it at the end of this cycle and is neither a jump nor mret nor trapping.
    id_late : Out(1)
        The instruction in ID is a branch or a CSR access.
    ex_granted : Out(1)
        A request of the instruction in EX is granted.
    ex_leaves : Out(1)
        The instruction in EX leaves it at the end of this cycle.
    wb_leaves : Out(1)
        WB is done with what it holds.
    """

    def __init__(self):
        names = ("id_leaves", "id_late", "ex_granted", "ex_leaves", "wb_leaves")
        super().__init__({name: Out(1) for name in names})


class EventsSignature(wiring.Signature):
    """Events of the back end that the PULP performance counters count, each for one cycle.

    Members
    -------
    load_use_stall : Out(1)
        ID waits for a value that is only made in WB.
    jump_register_stall : Out(1)
        jalr waits for its base.
    load : Out(1)
        A read request is granted.
    store : Out(1)
        A write request is granted.
    jump : Out(1)
        jal or jalr is taken from the stream.
    branch : Out(1)
        A conditional branch leaves EX.
    taken_branch : Out(1)
        A conditional branch is taken.
    compressed : Out(1)
        A compressed instruction is taken from the stream.
    elw_stall : Out(1)
        WB waits for the answer to p.elw.
    """

    def __init__(self):
        names = "load_use_stall jump_register_stall load store jump branch taken_branch compressed elw_stall"
        super().__init__({name: Out(1) for name in names.split()})


class RetireInfoSignature(wiring.Signature):
    """Facts of the instruction in ID that only the front end knows, for the retirement port; all 0 without one.

    Members
    -------
    raw : Out(32)
        The instruction as it was fetched; matters if it is compressed.
    next_pc : Out(32)
        Address of the next instruction, unless a branch is taken.
    handler : Out(32)
        Address of the handler of exceptions.
    intr : Out(1)
        The instruction is the first of the handler of an interrupt.
    intr_id : Out(5)
        Number of that interrupt.
    held : Out(WaitCause)
        Why the front end keeps ID from issuing in this cycle; NONE if it does not.
    redirect : Out(WaitCause)
        Why the front end fetches elsewhere from this cycle on, on its own account; NONE if it does not.
    """

    def __init__(self):
        widths = {"raw": 32, "next_pc": 32, "handler": 32, "intr": 1, "intr_id": 5}
        widths |= {"held": WaitCause, "redirect": WaitCause}
        super().__init__({name: Out(width) for name, width in widths.items()})


class IdExSignature(wiring.Signature):
    """ID/EX pipeline register.

    Members
    -------
    valid : Out(1)
        EX holds an instruction.
    ctrl, lsu : Out
        Control words of the EX stage and the load-store unit; ``lsu.valid`` is 0 in a bubble.
    op_a, op_b, op_c : Out(32)
        Operands; c is the old rd, the store data, or the branch target.
    shamt : Out(5)
        Shift of the normalising instructions.
    dotp_fmt, dotp_a_signed, dotp_b_signed, dotp_a, dotp_b : Out
        Format and factors of the last dot product; they stay until the next one: the unit is quiet.
    ex_we, ex_addr : Out
        Register written from EX through port B.
    wb_we, wb_addr : Out
        Register written from WB through port A.
    wb_base : Out(1)
        Port A writes the incremented base of a Mac&Load, not the loaded word.
    nn_we, nn_addr : Out
        NN-RF entry that the loaded word goes to; absent without Mac&Load.
    branch : Out(1)
        Conditional branch.
    csr, csr_write : Out
        CSR access.
    quantise : Out(QuantiserCtrl)
        Control word of the quantiser; only with ``qnt``.
    requantise, lane : Out
        Control word of requantisation and lane of its result; only with it.
    elw : Out(1)
        p.elw; only with performance counters.
    """

    def __init__(self, config: CoreConfig):
        members = {
            "valid": Out(1),
            "ctrl": Out(ExCtrl),
            "lsu": Out(LsuCtrl),
            "op_a": Out(32),
            "op_b": Out(32),
            "op_c": Out(32),
            "shamt": Out(5),
            "ex_we": Out(1),
            "ex_addr": Out(5),
            "wb_we": Out(1),
            "wb_addr": Out(5),
            "branch": Out(1),
            "csr": Out(CsrOp),
            "csr_write": Out(1),
        }
        if config.dotp_operands_in_id:
            members |= {"dotp_fmt": Out(ElemFmt), "dotp_a_signed": Out(1), "dotp_b_signed": Out(1)}
            members |= {"dotp_a": Out(32), "dotp_b": Out(32)}
        if config.qnt:
            members["quantise"] = Out(QuantiserCtrl)
        if config.requantise:
            members |= {"requantise": Out(RequantiseCtrl), "lane": Out(LANE_BITS)}
        if config.performance_counters:
            members["elw"] = Out(1)
        if config.mac_load:
            members |= {"wb_base": Out(1), "nn_we": Out(1), "nn_addr": Out(config.nn_addr_bits)}
        super().__init__(members)


class ExWbSignature(wiring.Signature):
    """The instruction in EX as WB takes it over; all but ``old``, ``access``, ``product`` as in :class:`IdExSignature`.

    Members
    -------
    valid : Out(1)
        EX holds an instruction.
    access : Out(1)
        It is a load or store.
    ex_we, ex_addr : Out
        Register written from EX through port B.
    old : Out(32)
        Value of that register before, if the instruction is a load or store.
    wb_we, wb_addr : Out
        Register written from WB through port A.
    wb_base : Out(1)
        Port A writes the incremented base of a Mac&Load, not the loaded word.
    nn_we, nn_addr : Out
        NN-RF entry that the loaded word goes to; absent without Mac&Load.
    requantise, lane : Out
        Control word of requantisation and lane of its result; only with it, like the next two.
    shamt : Out(5)
        Places of the shift of pv.rq*.
    product : Out(32)
        Sum of pv.rq* before the shift, 0 for other instructions; its old rd comes in ``old``.
    elw : Out(1)
        p.elw; only with performance counters.
    """

    def __init__(self, config: CoreConfig):
        members = {"access": Out(1), "old": Out(32)}
        if config.requantise:
            members["product"] = Out(32)
        all_members = IdExSignature(config).members
        members |= {name: all_members[name] for name in self.shared(config)}
        super().__init__(members)

    @staticmethod
    def shared(config: CoreConfig) -> tuple[str, ...]:
        """Names of the members that are those of the ID/EX register."""
        names = ("valid", "ex_we", "ex_addr", "wb_we", "wb_addr")
        names += ("elw",) if config.performance_counters else ()
        names += ("requantise", "lane", "shamt") if config.requantise else ()
        return names + (("wb_base", "nn_we", "nn_addr") if config.mac_load else ())


class WbSignature(wiring.Signature):
    """The write of WB through port A: valid while an instruction with a late result is in WB.

    Members
    -------
    we : Out(1)
        A register is going to be written.
    addr : Out(5)
        Its number.
    data : Out(32)
        The value, good in the cycle in which WB is done.
    """

    def __init__(self):
        super().__init__({"we": Out(1), "addr": Out(5), "data": Out(32)})
