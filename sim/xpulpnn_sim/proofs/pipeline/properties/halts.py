"""Debug mode: halts, steps and resumptions neither lose nor repeat instructions (see "Debug mode of the core")."""

from amaranth.hdl import Cat, Mux, Signal

from xpulpnn.isa.csr import CSR_BY_NAME, DCSR_EBREAKM_BIT, DCSR_STEP_BIT, DebugCause
from xpulpnn_sim.proofs.pipeline.properties.invariants import Property, implies, selected
from xpulpnn_sim.proofs.pipeline.properties.system import RETIREMENTS, retirements_while

_DCSR, _DPC = (CSR_BY_NAME[name] for name in ("dcsr", "dpc"))
_STEP, _EBREAKM = (
    (_DCSR.writable & (1 << bit) - 1).bit_count() for bit in (DCSR_STEP_BIT, DCSR_EBREAKM_BIT)
)  # positions among the flip-flops of dcsr
_LAST_OF_DEBUG_MODE = 0b11  # low address bits of the last of the four debug CSRs


def without_debugger(seen):
    """Return the invariant that no debugger has acted, or none for a core without debug mode."""
    if "debug_mode" not in seen:
        return {}
    busy = [seen[name] for name in ("debug_mode", "stepped", "halt_dropped", "halt_aborted", "dcsr_bits")]
    return {"no debugger has acted": ~Cat(*busy, seen.trigger_hit, seen.trigger_armed, seen.trigger_executes).any()}


class _DebugRecord:
    """Program counter and events since execution last resumed, recorded from retirements only."""

    def __init__(self, m, core, seen, boot_addr):
        retires, self.mode = core.rvfi_valid, seen.debug_mode
        self.resumes, self.was_in_mode = Signal(name="halts_resumes"), Signal(name="halts_was_in_mode")
        m.d.sync += self.was_in_mode.eq(self.mode)
        m.d.comb += self.resumes.eq(self.was_in_mode & ~self.mode)
        goes_on = Signal(32, name="halts_goes_on")
        self.dpc = Cat(0, seen.granted_pc)
        #: Address of the next instruction of the program.
        self.pc = Mux(self.resumes, self.dpc, goes_on)
        boot, retired = (~seen.booted, Cat(0, boot_addr[1:])), (retires, core.rvfi_pc_wdata)
        m.d.sync += goes_on.eq(selected(self.pc, boot, (core.irq_ack, seen.handler), retired))
        #: dpc was written since the halt.
        self.written = Signal(name="halts_written")
        writes = seen.csr_valid & seen.csr_write & (seen.csr_number == _DPC.address)
        m.d.sync += self.written.eq(~seen.debug_enters & (self.written | writes))
        #: Retired instructions and interrupts since the resumption, 2 for more.
        self.count = Signal(2, name="halts_count")
        self.so_far = Mux(self.resumes, 0, self.count)
        m.d.sync += self.count.eq(self.so_far + ((retires | core.irq_ack) & ~self.so_far[1]))
        #: The first instruction of debug mode has not left ID.
        self.arrives = Signal(name="halts_arrives")
        m.d.sync += self.arrives.eq(seen.debug_enters | (self.arrives & ~(seen.id_valid & seen.id_ready)))
        #: Retired instructions while a halt is requested.
        self.retired = retirements_while(m, "halts", core, core.debug_req & ~self.mode & ~seen.debug_enters)


def halt_property(m, core, seen, boot_addr):
    """Return the property that halts, steps and resumptions neither lose nor repeat instructions, and come in time.

    Each retiring instruction is at the next address of the program: after the previous instruction, at the handler of
    an interrupt taken since, or at dpc when execution resumes. After a halt, dpc is that address until it is written.
    The first instruction of debug mode is at the halt address; instructions of debug mode do not retire, and neither
    they nor the halt enter a trap. A step retires one instruction or takes one interrupt. At most :data:`RETIREMENTS`
    instructions retire while a halt is requested.
    """
    record = _DebugRecord(m, core, seen, boot_addr)
    mode, retires, has_wb = record.mode, core.rvfi_valid, seen.has_wb
    step, by_step = seen.dcsr_bits[_STEP], seen.dcsr_cause == DebugCause.STEP
    at_halt_address = seen.id_pc == core.debug_halt_addr
    wrong = {
        "order": retires & (core.rvfi_pc_rdata != record.pc),
        "dpc": mode & ~record.written & ~has_wb & (record.dpc[1:] != record.pc[1:]),
        "retires in debug mode": retires & mode & record.was_in_mode,
        "address for halts": mode & record.arrives & seen.id_valid & ~at_halt_address,
        "trap": (mode | seen.debug_enters) & (seen.enter | core.irq_ack),
        "two in a step": ~mode & step & (record.so_far + (retires | core.irq_ack) > 1),
        "a step of nothing": mode & by_step & ~has_wb & (record.count != 1),
        "late": record.retired > RETIREMENTS,
    }
    return Property(
        wrong,
        {
            **_record_invariants(core, seen, record),
            **_trigger_invariants(seen, mode),
            **_address_invariants(core, seen, record),
            **_step_invariants(seen, record, step, by_step),
        },
    )


def _record_invariants(core, seen, record):
    mode, has_ex, has_wb = record.mode, seen.has_ex, seen.has_wb
    faulted, aborted, dropped = seen.faulted, seen.halt_aborted, seen.halt_dropped
    waits = seen.id_valid | has_ex | has_wb | mode | aborted | dropped | seen.stepped | record.count.any()
    return {
        "all is empty before the first instruction": seen.booted | ~waits,
        "EX is recorded": implies(~mode, seen.ex_valid == (has_ex & ~seen.ex_trap)),
        "nothing in EX is recorded in debug mode": implies(mode, ~has_ex),
        "an access in WB is recorded": implies(~mode & seen.lsu_wb_busy, has_wb, ~core.rvfi_trap),
        "no access waits in a halt": implies(mode & has_wb, ~record.was_in_mode, ~seen.lsu_wb_busy, ~seen.lsu_second),
        "WB is empty behind the first half of an access": implies(seen.lsu_second, ~has_wb),
        "a trap does not wait": implies(has_ex & seen.ex_trap, seen.ex_ready, ~seen.id_valid),
        "a failed access is recorded": implies(faulted & ~mode & ~aborted, has_wb, core.rvfi_trap, ~has_ex),
        "a failed access behind which the core halts is not": implies(aborted, faulted, ~has_ex, ~has_wb),
        "an access that is not made is not recorded": implies(dropped, ~has_ex, ~has_wb, ~faulted, ~aborted),
    }


def _trigger_invariants(seen, mode):
    has_access = seen.ex_valid & seen.ex_access[0]
    return {
        "only an access is not made": implies(
            seen.trigger_hit,
            ~mode,
            seen.trigger_armed.any(),
            seen.trigger_checked,
            has_access,
            ~seen.has_wb,
            ~seen.lsu_outstanding,
            ~seen.lsu_second,
        ),
        "no access before its check": implies(seen.trigger_armed.any() & ~seen.trigger_checked, ~seen.lsu_second),
        "what is compared is an access": implies(seen.trigger_checked, has_access),
        "a branch: no access, even": implies(seen.ex_valid & seen.ex_branch, ~seen.ex_access[0], ~seen.ex_target[0]),
    }


def _address_invariants(core, seen, record):
    mode, pc = record.mode, record.pc
    has_ex, has_wb, faulted = seen.has_ex, seen.has_wb, seen.faulted
    aborted, dropped = seen.halt_aborted, seen.halt_dropped
    program = ~mode & seen.booted
    next_pc = Mux(seen.id_valid, seen.id_pc, seen.if_pc)
    behind_wb = Mux(has_wb, core.rvfi_pc_wdata, pc)
    wb_pc, ex_pc, granted = core.rvfi_pc_rdata[1:], seen.ex_pc_rdata[1:], seen.granted_pc
    return {
        "a failed access enters the handler": implies(program & faulted & ~aborted, core.rvfi_pc_wdata == seen.handler),
        "ID or IF is where the youngest goes on": implies(
            program & ~faulted & ~aborted & ~dropped, next_pc == Mux(has_ex, seen.ex_pc_wdata, behind_wb)
        ),
        "EX is where WB goes on": implies(has_ex & ~faulted, seen.ex_pc_rdata == behind_wb),
        "WB is where the program goes on": implies(has_wb, core.rvfi_pc_rdata == pc),
        "where an access in EX is": implies(~mode & seen.ex_valid & seen.ex_access[0], seen.asking_pc == ex_pc),
        "where a half-made access is": implies(~mode & seen.lsu_second, granted == ex_pc),
        "where an access in WB is": implies(~mode & seen.lsu_wb_busy, granted == wb_pc),
        "where a failed access is": implies(program & faulted, granted == Mux(aborted, pc, core.rvfi_pc_rdata)[1:]),
        "where an access is that is not made": implies(dropped, seen.asking_pc == pc[1:]),
        "dpc is where the program goes on": implies(mode & ~record.written, record.dpc[1:] == behind_wb[1:]),
        "the debug module's code is where it begins": implies(
            mode & record.arrives,
            next_pc == core.debug_halt_addr,
            ~Cat(seen.ex_valid, faulted, seen.lsu_outstanding).any(),
        ),
    }


def _step_invariants(seen, record, step, by_step):
    mode, has_ex, has_wb = record.mode, seen.has_ex, seen.has_wb
    lost = seen.halt_aborted | seen.halt_dropped
    debug_csr = (seen.ex_csr_address[:12] | _LAST_OF_DEBUG_MODE) == (_DCSR.address | _LAST_OF_DEBUG_MODE)
    under_way = record.so_far + has_ex + has_wb
    return {
        "no way to halt in debug mode": implies(mode, ~lost, ~seen.stepped),
        "a resuming core is empty": implies(
            record.resumes, ~seen.id_valid, ~has_ex, ~has_wb, ~seen.faulted, ~lost, ~seen.stepped
        ),
        "no CSR of debug mode is written outside": implies(~mode & seen.ex_valid & (seen.ex_csr != 0), ~debug_csr),
        "a step ends": implies(~mode & seen.booted & step & ~lost, seen.stepped == (under_way != 0), under_way <= 1),
        "a step that ends halts": implies(mode & by_step, record.count + has_wb == 1),
        "nothing is stepped without a step": implies(~step, ~seen.stepped),
        "what may still retire is counted": (record.retired == 0) | (record.retired + has_ex + has_wb <= RETIREMENTS),
    }
