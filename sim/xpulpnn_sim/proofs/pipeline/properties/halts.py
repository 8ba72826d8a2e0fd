"""Debug mode (guide, "Debug mode of the core"): halting, stepping and resuming lose no instruction and repeat none."""

from amaranth.hdl import Cat, Mux, Signal

from xpulpnn.isa.csr import CSR_BY_NAME, DCSR_EBREAKM_BIT, DCSR_STEP_BIT, DebugCause
from xpulpnn_sim.proofs.pipeline.properties.invariants import Property, implies
from xpulpnn_sim.proofs.pipeline.properties.system import RETIREMENTS

_DCSR, _DPC = (CSR_BY_NAME[name] for name in ("dcsr", "dpc"))
_STEP, _EBREAKM = (
    (_DCSR.writable & (1 << bit) - 1).bit_count() for bit in (DCSR_STEP_BIT, DCSR_EBREAKM_BIT)
)  # The flip-flops of these bits.
_LAST_OF_DEBUG_MODE = 0b11  # low bits of the address of the last of four CSRs


def without_debugger(seen):
    """Return that a core is never in debug mode, and on its way there; nothing if it has no debug mode."""
    if "debug_mode" not in seen:
        return {}
    busy = [
        seen[name] for name in ("debug_mode", "stepped", "halt_dropped", "halt_aborted", "dcsr_bits", "trigger_hit")
    ]
    return {"no debugger has been there": ~Cat(*busy, seen["trigger_armed"], seen["trigger_executes"]).any()}


def halt_property(m, core, seen, boot_addr):
    """Return what goes wrong if a halt, a step or a resumption loses an instruction, repeats one, or comes late.

    Each instruction that retires is at the address where the program goes on: where the one before goes on, at the
    handler of an interrupt taken since, or at dpc as it was when the core resumed. Behind a halt dpc is that address,
    until it is written. The first instruction of debug mode is at the address for halts; what is executed there does
    not retire, and neither it nor the halt enters a trap. In a step one instruction retires or one interrupt is taken,
    and no more. While the debug module asks for a halt at most :data:`RETIREMENTS` instructions retire.
    """
    mode, enters, booted = (seen[name] for name in ("debug_mode", "debug_enters", "booted"))
    has_ex, has_wb, retires = seen["has_ex"], seen["has_wb"], core.rvfi_valid
    resumes = Signal(name="halts_resumes")
    was_in_mode = Signal(name="halts_was_in_mode")
    m.d.sync += was_in_mode.eq(mode)
    m.d.comb += resumes.eq(was_in_mode & ~mode)
    goes_on, written = Signal(32, name="halts_goes_on"), Signal(name="halts_written")
    dpc = Cat(0, seen["granted_pc"])
    now = Mux(resumes, dpc, goes_on)
    with m.If(~booted):
        m.d.sync += goes_on.eq(Cat(0, boot_addr[1:]))
    with m.Elif(core.irq_ack):
        m.d.sync += goes_on.eq(seen["handler"])
    with m.Elif(retires):
        m.d.sync += goes_on.eq(core.rvfi_pc_wdata)
    with m.Else():
        m.d.sync += goes_on.eq(now)
    writes = seen["csr_valid"] & seen["csr_write"]
    with m.If(enters):
        m.d.sync += written.eq(0)
    with m.Elif(writes & (seen["csr_number"] == _DPC.address)):
        m.d.sync += written.eq(1)
    # instructions that have retired and interrupts taken since the core resumed, two for more
    count = Signal(2, name="halts_count")
    so_far = Mux(resumes, 0, count)
    with m.If(retires | core.irq_ack):
        m.d.sync += count.eq(Mux(so_far[1], so_far, so_far + 1))
    with m.Else():
        m.d.sync += count.eq(so_far)
    arrives = Signal(name="halts_arrives")
    with m.If(enters):
        m.d.sync += arrives.eq(1)
    with m.Elif(seen["id_valid"] & seen["id_ready"]):
        m.d.sync += arrives.eq(0)
    asks, retired = core.debug_req & ~mode, Signal(range(RETIREMENTS + 2), name="halts_retired")
    with m.If(~asks | enters):
        m.d.sync += retired.eq(0)
    with m.Elif(retires & (retired <= RETIREMENTS)):
        m.d.sync += retired.eq(retired + 1)

    step, by_step = seen["dcsr_bits"][_STEP], seen["dcsr_cause"] == DebugCause.STEP
    next_pc = Mux(seen["id_valid"], seen["id_pc"], seen["if_pc"])
    wrong = {
        "order": retires & (core.rvfi_pc_rdata != now),
        "dpc": mode & ~written & ~has_wb & (dpc[1:] != now[1:]),
        "retires in debug mode": retires & mode & was_in_mode,
        "address for halts": mode & arrives & seen["id_valid"] & (seen["id_pc"] != core.debug_halt_addr),
        "trap": (mode | enters) & (seen["enter"] | core.irq_ack),
        "two in a step": ~mode & step & (so_far + (retires | core.irq_ack) > 1),
        "a step of nothing": mode & by_step & ~has_wb & (count != 1),
        "late": retired > RETIREMENTS,
    }
    faulted, aborted, dropped = seen["faulted"], seen["halt_aborted"], seen["halt_dropped"]
    lost = aborted | dropped
    program = ~mode & booted
    behind_wb = Mux(has_wb, core.rvfi_pc_wdata, now)
    debug_csr = (seen["ex_csr_address"][:12] | _LAST_OF_DEBUG_MODE) == (_DCSR.address | _LAST_OF_DEBUG_MODE)
    under_way = so_far + has_ex + has_wb
    wb_pc, ex_pc, granted = core.rvfi_pc_rdata[1:], seen["ex_pc_rdata"][1:], seen["granted_pc"]
    has_access = seen["ex_valid"] & seen["ex_access"][0]
    invariants = {
        "all is empty before the first instruction": booted
        | ~(seen["id_valid"] | has_ex | has_wb | mode | lost | seen["stepped"] | count.any()),
        "EX is recorded": implies(~mode, seen["ex_valid"] == (has_ex & ~seen["ex_trap"])),
        "nothing in EX is recorded in debug mode": implies(mode, ~has_ex),
        "an access in WB is recorded": implies(~mode & seen["lsu_wb_busy"], has_wb, ~core.rvfi_trap),
        "what has been there before a halt does not wait": implies(
            mode & has_wb, ~was_in_mode, ~seen["lsu_wb_busy"], ~seen["lsu_second"]
        ),
        "WB is empty behind the first half of an access": implies(seen["lsu_second"], ~has_wb),
        "a trap does not wait": implies(has_ex & seen["ex_trap"], seen["ex_ready"], ~seen["id_valid"]),
        "a failed access is recorded": implies(faulted & ~mode & ~aborted, has_wb, core.rvfi_trap, ~has_ex),
        "a failed access behind which the core halts is not": implies(aborted, faulted, ~has_ex, ~has_wb),
        "an access that is not made is not recorded": implies(dropped, ~has_ex, ~has_wb, ~faulted, ~aborted),
        "only an access is not made": implies(
            seen["trigger_hit"],
            ~mode,
            seen["trigger_armed"].any(),
            seen["trigger_checked"],
            has_access,
            ~has_wb,
            ~seen["lsu_outstanding"],
            ~seen["lsu_second"],
        ),
        "nothing of an access is made before its address is compared": implies(
            seen["trigger_armed"].any() & ~seen["trigger_checked"], ~seen["lsu_second"]
        ),
        "what is compared is an access": implies(seen["trigger_checked"], has_access),
        "a branch is no access, its target even": implies(
            seen["ex_valid"] & seen["ex_branch"], ~seen["ex_access"][0], ~seen["ex_target"][0]
        ),
        "no way to halt in debug mode": implies(mode, ~lost, ~seen["stepped"]),
        "a failed access goes on at the handler": implies(
            program & faulted & ~aborted, core.rvfi_pc_wdata == seen["handler"]
        ),
        "ID or IF is where the youngest goes on": implies(
            program & ~faulted & ~lost, next_pc == Mux(has_ex, seen["ex_pc_wdata"], behind_wb)
        ),
        "EX is where WB goes on": implies(has_ex & ~faulted, seen["ex_pc_rdata"] == behind_wb),
        "WB is where the program goes on": implies(has_wb, core.rvfi_pc_rdata == now),
        "where an access in EX is": implies(~mode & has_access, seen["asking_pc"] == ex_pc),
        "where a half-made access is": implies(~mode & seen["lsu_second"], granted == ex_pc),
        "where an access in WB is": implies(~mode & seen["lsu_wb_busy"], granted == wb_pc),
        "where a failed access is": implies(program & faulted, granted == Mux(aborted, now, core.rvfi_pc_rdata)[1:]),
        "where an access is that is not made": implies(dropped, seen["asking_pc"] == now[1:]),
        "dpc is where the program goes on": implies(mode & ~written, dpc[1:] == behind_wb[1:]),
        "the core has just resumed": implies(
            resumes, ~seen["id_valid"], ~has_ex, ~has_wb, ~faulted, ~lost, ~seen["stepped"]
        ),
        "the debug module's code is where it begins": implies(
            mode & arrives,
            next_pc == core.debug_halt_addr,
            ~Cat(seen["ex_valid"], faulted, seen["lsu_outstanding"]).any(),
        ),
        "no CSR of debug mode is written outside": implies(
            ~mode & seen["ex_valid"] & (seen["ex_csr"] != 0), ~debug_csr
        ),
        "a step ends": implies(program & step & ~lost, seen["stepped"] == (under_way != 0), under_way <= 1),
        "a step that ends halts": implies(mode & by_step, count + has_wb == 1),
        "nothing is stepped without a step": implies(~step, ~seen["stepped"]),
        "what may still retire is counted": (retired == 0) | (retired + has_ex + has_wb <= RETIREMENTS),
    }
    return Property(wrong, invariants)
