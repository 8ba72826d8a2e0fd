"""Hardware loops: where every instruction goes on, and what is left of the counts (guide, "Hardware loops")."""

from amaranth.hdl import Cat, Mux, Signal

from xpulpnn.isa.csr import csr_address
from xpulpnn_sim.sequencing.rules import ADDRESS_BITS, COUNT_BITS
from xpulpnn_sim.sequencing.words import Word

REGISTERS = tuple(f"{name}{loop}" for loop in range(2) for name in ("lpstart", "lpend", "lpcount"))
_STARTI, _ENDI, _COUNT, _COUNTI, _SETUP, _SETUPI = range(6)
"""funct3 of the set-up instructions."""

_OPCODE = 0x7B


def watch_loops(m, core, seen, started):
    """What goes wrong if an instruction retires elsewhere than the loops say, or reads other loop registers.

    The six registers are kept as the manual says, from what retires alone: a set-up instruction or a write to their
    CSRs sets them; an instruction that completes at lpend with a count above 1 is followed by the one at lpstart,
    loop 0 first, and takes 1 off the count, unless it traps, jumps, returns or is a branch that is taken. They start
    with any values. Where an instruction does not jump, the next one that retires must be the one that follows, or
    mepc must become its address if an interrupt is taken between them.

    Parameters
    ----------
    m : Module
        Takes the logic.
    core : Core
        With the retirement port.
    seen : mapping of str to Value
        Signals of the core, see :mod:`~xpulpnn_sim.sequencing.seen`.
    started : Value, 1 bit
        0 in the first cycle.

    Returns
    -------
    dict of str to Value, 1 bit
        What must stay 0, by parts.
    """
    widths = {name: COUNT_BITS if name.startswith("lpcount") else ADDRESS_BITS for name in REGISTERS}
    kept = {name: Signal(width, name=f"kept_{name}") for name, width in widths.items()}
    now = {name: Mux(started, kept[name], seen[name][:width]) for name, width in widths.items()}
    word = Word(core.rvfi_insn)
    completes = core.rvfi_valid & ~core.rvfi_trap
    # the branch that retires is the last instruction that has left EX
    was_taken = Signal()
    with m.If(seen["ex_leaves"]):
        m.d.sync += was_taken.eq(seen["taken"])
    goes_on = Signal()
    m.d.comb += goes_on.eq(completes & ~(word.jumps | word.returns | (word.branches & was_taken)))

    pc = core.rvfi_pc_rdata[:ADDRESS_BITS]
    again = [(pc[1:] == now[f"lpend{loop}"][1:]) & (now[f"lpcount{loop}"] > 1) & goes_on for loop in range(2)]
    backs = Signal(2)
    follows = Signal(ADDRESS_BITS)
    m.d.comb += [backs.eq(Cat(again[0], again[1] & ~again[0])), follows.eq(pc + Mux(word.compressed, 2, 4))]
    for loop in range(2):
        with m.If(backs[loop]):
            m.d.comb += follows.eq(now[f"lpstart{loop}"])

    sets = completes & word.wide & (word.opcode == _OPCODE)
    offset = Cat(0, Mux(word.funct3 == _SETUPI, word.rs1, word.top12))
    immediate_count = Mux(_among(word.funct3, _COUNTI, _SETUPI), word.top12, core.rvfi_rs1_rdata)
    values = {
        "lpstart": (_among(word.funct3, _STARTI, _SETUP, _SETUPI), pc + Mux(word.funct3 == _STARTI, offset, 4)),
        "lpend": (_among(word.funct3, _ENDI, _SETUP, _SETUPI), pc + offset),
        "lpcount": (_among(word.funct3, _COUNT, _COUNTI, _SETUP, _SETUPI), immediate_count),
    }
    wrong = {}
    for name, old in now.items():
        kind, loop = name[:-1], int(name[-1])
        chosen, value = values[kind]
        accessed = completes & word.accesses_csr & (word.top12 == csr_address(name))
        operand = Mux(word.funct3[2], word.rs1, core.rvfi_rs1_rdata)
        written = Mux(word.funct3[1], Mux(word.funct3[0], old & ~operand, old | operand), operand)
        mask = -1 if kind == "lpcount" else -2
        m.d.sync += kept[name].eq(old)
        if kind == "lpcount":
            with m.If(backs[loop]):
                m.d.sync += kept[name].eq(old - 1)
        with m.If(sets & chosen & (word.loop == loop)):
            m.d.sync += kept[name].eq(value & mask)
        with m.If(accessed & word.writes_csr):
            m.d.sync += kept[name].eq(written & mask)
        wrong[f"reads {name}"] = accessed & core.rvfi_rd_we & (core.rvfi_rd_wdata[: len(old)] != old)

    known, expected = Signal(name="loops_known"), Signal(ADDRESS_BITS, name="loops_expected")
    # an interrupt may be taken in the cycle in which what is before it retires
    known_now, expected_now = Mux(core.rvfi_valid, goes_on, known), Mux(core.rvfi_valid, follows, expected)
    enters = seen["enter"] & seen["enter_interrupt"]
    m.d.sync += [known.eq(known_now & ~enters), expected.eq(expected_now)]
    return wrong | {
        "next instruction": core.rvfi_valid & known & ~core.rvfi_intr & (pc[1:] != expected[1:]),
        "mepc": enters & known_now & (seen["enter_pc"][1:ADDRESS_BITS] != expected_now[1:]),
    }


def _among(value, *numbers):
    return Cat(value == number for number in numbers).any()
