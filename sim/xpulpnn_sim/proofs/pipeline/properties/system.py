"""Interrupts, CSRs, exceptions and fence.i (see the guide's chapters on CSRs and exceptions)."""

from amaranth.hdl import Array, Cat, Const, Mux, Signal

from xpulpnn.core.prefetch import DEPTH
from xpulpnn.isa.csr import (
    CSR_BY_NAME,
    MCAUSE_CODE_BITS,
    MCAUSE_INTERRUPT,
    MSTATUS_MIE_BIT,
    MSTATUS_MPIE_BIT,
    MTVEC_BASE,
)
from xpulpnn.isa.machine import XLEN, ExceptionCause
from xpulpnn_sim.proofs.pipeline.properties.invariants import (
    InstructionWord,
    Property,
    csr_invariants,
    implies,
    selected,
)

RETIREMENTS = 2  # maximum of retirements before a pending interrupt is taken: the instructions in EX and WB

_LINES = (3, 7, 11, *range(16, 32))  # interrupt lines, in the order of the core's mie bits

_PRIORITY = (*range(31, 15, -1), 11, 3, 7)


def retirements_while(m, name, core, requested):
    """Return a count of the instructions that retire while something is requested."""
    retired = Signal(range(RETIREMENTS + 2), name=f"{name}_retired")
    counts = core.rvfi_valid & (retired <= RETIREMENTS)
    m.d.sync += retired.eq(Mux(requested, retired + counts, 0))
    return retired


def interrupt_property(m, core, seen, irq):
    """Return the property that interrupts are neither late, lost, repeated nor imprecise.

    While an enabled line is high and mstatus.MIE is 1, at most :data:`RETIREMENTS` instructions retire before the
    interrupt with the highest priority is taken. mepc becomes the address after the last retired instruction. The next
    retiring instruction is the first one of the handler at mtvec and is flagged as such (rvfi intr); no other interrupt
    is taken before it, and no other instruction is flagged. mret continues at mepc.
    """
    word = InstructionWord(core.rvfi_insn)
    enabled = Signal(32, name="irq_enabled")
    m.d.comb += [enabled[line].eq(irq[line] & seen.mie_bits[bit]) for bit, line in enumerate(_LINES)]
    mie = seen.mstatus_bits[0]
    taken = core.irq_ack
    waits = mie & enabled.any()
    retired = retirements_while(m, "irq", core, waits & ~taken)
    first = selected(0, *((enabled[line], line) for line in _PRIORITY))

    known, goes_on = Signal(name="irq_known"), Signal(32, name="irq_goes_on")
    with m.If(core.rvfi_valid):
        m.d.sync += [known.eq(1), goes_on.eq(core.rvfi_pc_wdata)]
    last = Mux(core.rvfi_valid, core.rvfi_pc_wdata, goes_on)
    entered, handler = Signal(name="irq_entered"), Signal(32, name="irq_handler")
    mtvec = seen.mtvec_bits
    with m.If(taken):
        m.d.sync += [entered.eq(1), handler.eq(Cat(Const(0, 2), Mux(mtvec[0], core.irq_id, 0), Const(0, 1), mtvec[1:]))]
    with m.Elif(core.rvfi_valid):
        m.d.sync += entered.eq(0)
    sleeps = Signal(name="irq_slept")
    m.d.sync += sleeps.eq(core.core_sleep & enabled.any())
    wrong = {
        "late": retired > RETIREMENTS,
        "not enabled": taken & (~waits | ~Array(enabled)[core.irq_id]),
        "priority": taken & (core.irq_id != first),
        "mepc": taken & (known | core.rvfi_valid) & (seen.enter_pc != last),
        "twice": taken & entered & ~core.rvfi_valid,
        "handler": core.rvfi_valid & entered & (~core.rvfi_intr | (core.rvfi_pc_rdata != handler)),
        "said to be one": core.rvfi_valid & ~entered & core.rvfi_intr,
        "mret": core.rvfi_valid & ~core.rvfi_trap & word.returns & (core.rvfi_pc_wdata[1:] != seen.mepc_bits),
        "asleep": sleeps & core.core_sleep & enabled.any(),
    }
    has_ex, has_wb = seen.has_ex, seen.has_wb
    goes_to = Mux(entered, handler, goes_on)
    follows = Mux(has_ex, seen.ex_pc_wdata, Mux(has_wb, core.rvfi_pc_wdata, goes_to))
    next_pc = Mux(seen.id_valid, seen.id_pc, seen.if_pc)
    ex_returns = has_ex & ~seen.ex_trap & InstructionWord(seen.ex_insn).returns
    wb_returns = has_wb & ~core.rvfi_trap & word.returns
    invariants = {
        "nothing is known at first": seen.booted | ~(known | entered),
        "what may still retire is counted": (retired == 0) | (retired + has_ex + has_wb <= RETIREMENTS),
        "a branch: no access, even": implies(seen.ex_valid & seen.ex_branch, ~seen.ex_access[0], ~seen.ex_target[0]),
        "handlers begin without interrupts": implies(entered & mie, has_ex | has_wb),
        "a failed access enters the handler": implies(seen.faulted, core.rvfi_pc_wdata == seen.handler),
        "next address in ID or IF": implies((has_ex | has_wb | entered | known) & ~seen.faulted, next_pc == follows),
        "the handler is to come": seen.intr == (entered & ~has_ex & ~has_wb),
        "the handler is in EX": implies(has_ex, seen.ex_intr == (entered & ~has_wb)),
        "the handler is in WB": implies(has_wb, core.rvfi_intr == entered),
        "its address is in EX": implies(has_ex & seen.ex_intr, seen.ex_pc_rdata == handler),
        "its address is in WB": implies(has_wb & core.rvfi_intr, core.rvfi_pc_rdata == handler),
        "mret in EX acts alone": implies(ex_returns, ~seen.id_valid, seen.ex_ready, seen.ex_csr == 0, ~seen.ex_branch),
        "mret in EX goes on at mepc": implies(ex_returns, seen.ex_pc_wdata[1:] == seen.mepc_bits),
        "mret in WB goes on at mepc": implies(wb_returns, core.rvfi_pc_wdata[1:] == seen.mepc_bits),
    }
    return Property(wrong, invariants)


_REGISTERS = {name: CSR_BY_NAME[name] for name in ("mstatus", "mie", "mtvec", "mcountinhibit", "mscratch")}
_REGISTERS |= {name: CSR_BY_NAME[name] for name in ("mepc", "mcause")}
"""CSRs that return what was written to them, except counters and the registers of hardware loops."""


class _Effects:
    def __init__(self, m, prefix, raw, pc, rs1, trap, cause, before, *, in_ex=False):
        self.word = word = InstructionWord(raw)
        named = {name: word.accesses_csr & (word.top12 == csr.address) for name, csr in _REGISTERS.items()}
        self.reads = {name: is_access & ~trap for name, is_access in named.items()}
        self.after = {name: Signal(XLEN, name=f"{prefix}_{name}") for name in before}
        for name, old in before.items():
            m.d.comb += self.after[name].eq(old)
            if not in_ex:
                with m.If(self.reads[name] & word.writes_csr):
                    m.d.comb += self.after[name].eq(_written(name, word.written(old, rs1)))
        mie, mpie = before["mstatus"][MSTATUS_MIE_BIT], before["mstatus"][MSTATUS_MPIE_BIT]
        with m.If(trap):
            m.d.comb += _enters(self.after, mie, pc, cause[:MCAUSE_CODE_BITS])
        with m.Elif(word.returns):
            m.d.comb += _status(self.after, mie=mpie, mpie=1)
        expected = {ExceptionCause.ENVIRONMENT_CALL: word.calls, ExceptionCause.BREAKPOINT: word.breaks}
        self.kinds = _kinds(word)
        reasons = Cat((trap & (cause == number)) ^ there for number, there in expected.items())
        nothing_else = Cat(*named.values(), word.returns, word.sleeps, word.fences, word.syncs)
        self.misjudged = reasons.any() | (trap & nothing_else.any())


def system_property(m, core, seen, boot_addr, under_way):
    """Return the property that CSRs keep written values, and exceptions, mret and fence.i have their effects.

    A model computes the CSRs as the manual says, from retirements and taken interrupts only, and CSR accesses return
    its values. ecall and ebreak, and no other instructions, raise their exceptions; accesses to these CSRs, mret, wfi
    and fences raise none. An instruction with an exception writes nothing and continues at the handler; mret continues
    at mepc. fence.i waits until older instructions have retired, and words requested before it are not executed after
    it.
    """
    booted, has_ex, has_wb, faulted = (seen[name] for name in ("booted", "has_ex", "has_wb", "faulted"))
    model = {name: Signal(XLEN, name=f"system_{name}") for name in _REGISTERS}
    begins = {name: csr.reset | (boot_addr & MTVEC_BASE if name == "mtvec" else 0) for name, csr in _REGISTERS.items()}
    now = {name: Mux(booted, _written(name, value), begins[name]) for name, value in model.items()}
    retired = (core.rvfi_insn, core.rvfi_pc_rdata, core.rvfi_rs1_rdata, core.rvfi_trap, core.rvfi_cause)
    wb = _Effects(m, "system_wb", *retired, now)
    later = {name: Signal(XLEN, name=f"system_later_{name}") for name in now}
    m.d.comb += [later[name].eq(Mux(core.rvfi_valid, wb.after[name], old)) for name, old in now.items()]
    mie = Mux(core.rvfi_valid, wb.after["mstatus"], now["mstatus"])[MSTATUS_MIE_BIT]
    with m.If(core.irq_ack):
        m.d.comb += _enters(later, mie, seen.enter_pc, core.irq_id | MCAUSE_INTERRUPT)
    m.d.sync += [model[name].eq(value) for name, value in later.items()]

    effects = [core.rvfi_rd_we, core.rvfi_base_we, core.rvfi_mem_rmask, core.rvfi_mem_wmask, core.rvfi_nn_we]
    effects += [core.rvfi_rd2_we] if hasattr(core, "rvfi_rd2_we") else []
    handler = now["mtvec"] & MTVEC_BASE
    writes = core.rvfi_rd_we & (core.rvfi_rd_addr == wb.word.rd)
    wrong_reads = {
        f"reads {name}": wb.reads[name] & wb.word.rd.any() & ~(writes & (core.rvfi_rd_wdata == old))
        for name, old in now.items()
    }
    wrong_records = {
        "exception": wb.misjudged,
        "handler": core.rvfi_trap & (core.rvfi_pc_wdata != handler),
        "effect of what traps": core.rvfi_trap & Cat(*effects).any(),
        "mret": wb.word.returns & (core.rvfi_pc_wdata != now["mepc"]),
    }
    between = {name: Mux(has_wb & ~faulted, wb.after[name], old) for name, old in now.items()}
    in_ex = [seen[f"ex_{name}"] for name in ("insn", "pc_rdata", "rs1_rdata", "trap", "cause")]
    ex = _Effects(m, "system_ex", *in_ex, between, in_ex=True)
    left = {name: Mux(has_ex, ex.after[name], old) for name, old in between.items()}
    fences = _watch_fence(m, core, seen, under_way)
    invariants = {
        **{
            f"{name} is as kept": seen[f"{name}_bits"]
            == Mux(booted, _stored(name, value), _stored(name, Const(_REGISTERS[name].reset, XLEN)))
            for name, value in left.items()
        },
        **{f"{name} in WB": ~(has_wb & part) for name, part in (wrong_reads | wrong_records).items()},
        **_stage_invariants(seen, ex, wb, between),
        **_fault_invariants(core, seen),
    }
    wrong = {name: core.rvfi_valid & part for name, part in (wrong_reads | wrong_records).items()}
    return Property(wrong | {"fence.i": fences}, invariants)


def _stage_invariants(seen, ex, wb, between):
    expanded, raw = InstructionWord(seen.id_word), InstructionWord(seen.id_raw)
    has_ex, has_wb, id_valid, id_compressed = (seen[name] for name in ("has_ex", "has_wb", "id_valid", "id_compressed"))
    ex_works = has_ex & ~seen.ex_trap
    writes_rd = seen.ex_we == ex.word.rd.any(), seen.ex_addr == ex.word.rd, ~seen.ex_access[0]
    return {
        "the exception in EX": implies(has_ex, ~ex.misjudged),
        "next address of a trap": implies(has_ex & seen.ex_trap, seen.ex_pc_wdata == between["mtvec"] & MTVEC_BASE),
        "mret in EX goes on at mepc": implies(has_ex & ex.word.returns, seen.ex_pc_wdata == between["mepc"]),
        "mret in EX is no branch": implies(ex_works & ex.word.returns, ~seen.ex_branch),
        "traps, mret do not wait": implies(has_ex & (seen.ex_trap | ex.word.returns), seen.ex_ready, ~seen.lsu_wb_busy),
        "an access in EX is no system instruction": implies(seen.ex_valid & seen.ex_access[0], ~ex.kinds.any()),
        "an access in WB is no system instruction": implies(seen.lsu_wb_busy, ~wb.kinds.any()),
        **csr_invariants(seen, ex_works, ex.word),
        "kind of expansion": implies(id_valid & id_compressed, _kinds(raw) == Mux(expanded.wide, _kinds(expanded), 0)),
        "what is not compressed stays": implies(id_valid & ~id_compressed, expanded.raw == raw.raw),
        "a CSR access in EX writes rd": implies(ex_works & ex.word.accesses_csr, *writes_rd),
        "a CSR access in WB has written": implies(has_wb & wb.word.accesses_csr, ~seen.wb_late_we),
    }


def _watch_fence(m, core, seen, under_way):
    port, held = core.instr, seen.fetch_held
    leaves = seen.id_leaves & ~seen.id_error & InstructionWord(seen.id_raw).syncs
    too_early = leaves & (seen.has_ex | (seen.has_wb & ~core.rvfi_valid))
    # stale: the waiting request and outstanding fetches (oldest first) from before a fence.i that has left ID
    waits, old = Signal(name="fence_waits"), [Signal(name=f"fence_old{index}") for index in range(DEPTH)]
    asked_before = waits | (leaves & held)
    granted = port.req & port.gnt
    m.d.sync += waits.eq(asked_before & ~granted)
    for index, before in enumerate(old):
        moved = Mux(port.rvalid, old[index + 1] if index + 1 < DEPTH else 0, before) | leaves
        m.d.sync += before.eq(Mux(granted & (under_way - port.rvalid == index), asked_before, moved))
    behind = Signal(name="fence_behind")
    m.d.sync += behind.eq(leaves)
    live, drops = seen.fetch_live, seen.fetch_drops
    used = Cat(before & (drops <= index) & (drops + live > index) for index, before in enumerate(old)).any()
    present = behind & (seen.id_valid | (seen.fetch_count != 0))
    return too_early | present | used | (waits & ~(held & seen.fetch_stale))


def _fault_invariants(core, seen):
    wb_pc, ex_pc, granted = core.rvfi_pc_rdata[1:], seen.ex_pc_rdata[1:], seen.granted_pc
    cause = Mux(seen.lsu_fault__store, ExceptionCause.STORE_ACCESS_FAULT, ExceptionCause.LOAD_ACCESS_FAULT)
    return {
        "where an access in EX is": implies(seen.ex_valid & seen.ex_access[0], seen.asking_pc == ex_pc),
        "where a half-made access is": implies(seen.lsu_second, granted == ex_pc),
        "where an access in WB is": implies(seen.lsu_wb_busy, granted == wb_pc),
        "where a failed access is": implies(seen.faulted, granted == wb_pc, core.rvfi_cause == cause),
    }


def _written(name, value):
    csr = _REGISTERS[name]
    return (value & csr.writable) | (csr.reset & ~csr.writable)


def _stored(name, value):
    return Cat(value[bit] for bit in range(XLEN) if _REGISTERS[name].writable >> bit & 1)


def _kinds(word):
    kinds = ("calls", "breaks", "returns", "sleeps", "fences", "syncs", "accesses_csr")
    return Cat(getattr(word, kind) for kind in kinds)


def _status(registers, *, mie, mpie):
    status = registers["mstatus"]
    return [status[MSTATUS_MIE_BIT].eq(mie), status[MSTATUS_MPIE_BIT].eq(mpie)]


def _enters(registers, mie, pc, cause):
    written = {"mepc": pc, "mcause": cause}
    statements = [registers[name].eq(_written(name, value)) for name, value in written.items()]
    return [*_status(registers, mie=0, mpie=mie), *statements]
