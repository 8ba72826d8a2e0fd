"""Interrupts: none lost, none taken twice, each between two instructions (guide, "Exceptions and interrupts")."""

from amaranth.hdl import Array, Cat, Const, Mux, Signal

from xpulpnn_sim.proofs.pipeline.properties.invariants import Watched, implies
from xpulpnn_sim.proofs.pipeline.properties.words import Word

RETIREMENTS = 2  # instructions that may retire while an interrupt that could be taken waits: those in EX and WB

_LINES = (3, 7, 11, *range(16, 32))  # Usable lines, in the order of the bits that the core keeps of mie

_PRIORITY = (*range(31, 15, -1), 11, 3, 7)


def watch_interrupts(m, core, seen, irq):
    """Return what goes wrong if an interrupt is late, lost, taken twice or imprecise.

    While a line is high, enabled in mie and mstatus.MIE is 1, at most :data:`RETIREMENTS` instructions retire before
    an interrupt is taken. It is the line of highest priority of those enabled. mepc becomes the address where the last
    instruction that retired goes on. The next instruction that retires is the first of the handler, at the address
    that mtvec says, and is said to be that; no other interrupt is taken before it, and no other instruction is said to
    be one. mret goes on at mepc.
    """
    word = Word(core.rvfi_insn)
    enabled = Signal(32, name="irq_enabled")
    m.d.comb += [enabled[line].eq(irq[line] & seen["mie_bits"][bit]) for bit, line in enumerate(_LINES)]
    mie = seen["mstatus_bits"][0]
    taken = core.irq_ack
    retired = Signal(range(RETIREMENTS + 2), name="irq_retired")
    waits = mie & enabled.any()
    with m.If(~waits | taken):
        m.d.sync += retired.eq(0)
    with m.Elif(core.rvfi_valid & (retired <= RETIREMENTS)):
        m.d.sync += retired.eq(retired + 1)
    first = Signal(5, name="irq_first")
    for line in reversed(_PRIORITY):
        with m.If(enabled[line]):
            m.d.comb += first.eq(line)

    known, goes_on = Signal(name="irq_known"), Signal(32, name="irq_goes_on")
    with m.If(core.rvfi_valid):
        m.d.sync += [known.eq(1), goes_on.eq(core.rvfi_pc_wdata)]
    last = Mux(core.rvfi_valid, core.rvfi_pc_wdata, goes_on)
    entered, handler = Signal(name="irq_entered"), Signal(32, name="irq_handler")
    mtvec = seen["mtvec_bits"]
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
        "mepc": taken & (known | core.rvfi_valid) & (seen["enter_pc"] != last),
        "twice": taken & entered & ~core.rvfi_valid,
        "handler": core.rvfi_valid & entered & (~core.rvfi_intr | (core.rvfi_pc_rdata != handler)),
        "said to be one": core.rvfi_valid & ~entered & core.rvfi_intr,
        "mret": core.rvfi_valid & ~core.rvfi_trap & word.returns & (core.rvfi_pc_wdata[1:] != seen["mepc_bits"]),
        "asleep": sleeps & core.core_sleep & enabled.any(),
    }
    has_ex, has_wb = seen["has_ex"], seen["has_wb"]
    goes_to = Mux(entered, handler, goes_on)
    follows = Mux(has_ex, seen["ex_pc_wdata"], Mux(has_wb, core.rvfi_pc_wdata, goes_to))
    next_pc = Mux(seen["id_valid"], seen["id_pc"], seen["if_pc"])
    ex_returns = has_ex & ~seen["ex_trap"] & Word(seen["ex_insn"]).returns
    wb_returns = has_wb & ~core.rvfi_trap & word.returns
    invariants = {
        "nothing is known at first": seen["booted"] | ~(known | entered),
        "what may still retire is counted": (retired == 0) | (retired + has_ex + has_wb <= RETIREMENTS),
        "a branch is no access, its target even": implies(
            seen["ex_valid"] & seen["ex_branch"], ~seen["ex_access"][0], ~seen["ex_target"][0]
        ),
        "handlers begin without interrupts": implies(entered & mie, has_ex | has_wb),
        "a failed access goes on at the handler": implies(seen["faulted"], core.rvfi_pc_wdata == seen["handler"]),
        "ID or IF is where the youngest goes on": implies(
            (has_ex | has_wb | entered | known) & ~seen["faulted"], next_pc == follows
        ),
        "the handler is to come": seen["intr"] == (entered & ~has_ex & ~has_wb),
        "the handler is in EX": implies(has_ex, seen["ex_intr"] == (entered & ~has_wb)),
        "the handler is in WB": implies(has_wb, core.rvfi_intr == entered),
        "its address is in EX": implies(has_ex & seen["ex_intr"], seen["ex_pc_rdata"] == handler),
        "its address is in WB": implies(has_wb & core.rvfi_intr, core.rvfi_pc_rdata == handler),
        "mret in EX does nothing else": implies(
            ex_returns, ~seen["id_valid"], seen["ex_ready"], seen["ex_csr"] == 0, ~seen["ex_branch"]
        ),
        "mret in EX goes on at mepc": implies(ex_returns, seen["ex_pc_wdata"][1:] == seen["mepc_bits"]),
        "mret in WB goes on at mepc": implies(wb_returns, core.rvfi_pc_wdata[1:] == seen["mepc_bits"]),
    }
    return Watched(wrong, invariants)
