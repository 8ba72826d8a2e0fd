"""Interrupts: none lost, none taken twice, each between two instructions (guide, "Exceptions and interrupts")."""

from amaranth.hdl import Array, Cat, Const, Mux, Signal

from xpulpnn_sim.sequencing.words import Word

RETIREMENTS = 2
"""Instructions that may retire while an interrupt that could be taken waits: those in EX and WB."""

_LINES = (3, 7, 11, *range(16, 32))
"""Usable lines, in the order of the bits that the core keeps of mie."""

_PRIORITY = (*range(31, 15, -1), 11, 3, 7)


def watch_interrupts(m, core, seen, irq):
    """What goes wrong if an interrupt is late, lost, taken twice or imprecise.

    While a line is high, enabled in mie and mstatus.MIE is 1, at most :data:`RETIREMENTS` instructions retire before
    an interrupt is taken. It is the line of highest priority of those enabled. mepc becomes the address where the last
    instruction that retired goes on. The next instruction that retires is the first of the handler, at the address
    that mtvec says, and is said to be that; no other interrupt is taken before it, and no other instruction is said to
    be one. mret goes on at mepc.

    Parameters
    ----------
    m, core, seen
        As of :func:`~xpulpnn_sim.sequencing.loops.watch_loops`.
    irq : Value, 32 bits
        Interrupt lines.

    Returns
    -------
    dict of str to Value, 1 bit
        What must stay 0, by parts.
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
    return {
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
