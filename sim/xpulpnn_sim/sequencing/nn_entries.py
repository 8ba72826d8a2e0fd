"""Mac&Load: factors and entries of the NN-RF in the order of the program, whatever memory takes (guide, "Mac&Load")."""

from amaranth.hdl import Cat, Mux, Signal

from xpulpnn.isa.insn import MAC_LOAD_OPS, NN_FORM_OPS, REQUANTISE_OPS
from xpulpnn.isa.machine import FIRST_PARAMETER, FIRST_WEIGHT
from xpulpnn.isa.table import enabled
from xpulpnn_sim.sequencing.words import Word

_ALL_BYTES = 0b1111


def watch_nn_entries(m, core, seen, started, watched_entry, watched_bit, config):
    """What goes wrong if a Mac&Load uses another word than the last older load of its entry, or loads another entry.

    One bit of one entry of the NN-RF, any of them, is kept from what retires alone: a Mac&Load or pv.rqld that
    completes loads the entry that its word names. Where the entry is a factor, or kappa or lambda of a requantisation,
    the bit must be as kept. The entry starts with any value. A load goes to the address in rs1, of four bytes, and the
    base moves unless it is x0 or rd.

    Parameters
    ----------
    m, core, seen, started
        As of :func:`~xpulpnn_sim.sequencing.loops.watch_loops`.
    watched_entry : Value, 3 bits
        Number of the entry, always the same.
    watched_bit : Value, 5 bits
        Number of the bit, always the same.
    config : CoreConfig
        Which forms there are.

    Returns
    -------
    dict of str to Value, 1 bit
        What must stay 0, by parts.
    """
    word = Word(core.rvfi_insn)
    rows = [row for row in enabled(config.extensions, config.widths) if row.uses_nnrf]

    def is_row(chosen):
        patterns = [row.pattern for row in rows if chosen(row)]
        return word.wide & core.rvfi_insn.matches(*patterns) if patterns else Signal()

    completes = Signal(name="nn_completes")
    m.d.comb += completes.eq(core.rvfi_valid & ~core.rvfi_trap)
    nn_form, parameter = is_row(lambda row: row.op in NN_FORM_OPS), is_row(lambda row: row.loads_parameter)
    computes_and_updates = is_row(lambda row: row.op in MAC_LOAD_OPS - NN_FORM_OPS)
    raw = core.rvfi_insn
    act, both = raw[20], raw[23] & raw[24]
    wgt = FIRST_WEIGHT + Mux(nn_form, raw[21:23], raw[25:27])
    reloads = computes_and_updates | (nn_form & (raw[23] | raw[24]))
    entry = Signal(3, name="nn_loaded")
    with m.If(parameter):
        m.d.comb += entry.eq(FIRST_PARAMETER + raw[20])
    with m.Elif(nn_form & raw[23]):
        m.d.comb += entry.eq(Mux(both, ~act, act))
    with m.Else():
        m.d.comb += entry.eq(wgt)
    loads = completes & (reloads | parameter)

    kept = Signal(name="nn_kept")
    stored = seen["nn_words"].bit_select(Cat(watched_bit, watched_entry), 1)
    now = Mux(started, kept, stored)
    loaded = core.rvfi_nn_wdata.bit_select(watched_bit, 1)
    m.d.sync += kept.eq(Mux(loads & (entry == watched_entry), core.rvfi_mem_rdata.bit_select(watched_bit, 1), now))

    # what left EX last is what retires
    used = Signal(2, name="nn_used")
    with m.If(seen["ex_leaves"]):
        m.d.sync += used.eq(Cat(seen[name].bit_select(watched_bit, 1) for name in ("kappa", "lambda")))
    requantises = completes & is_row(lambda row: row.op in REQUANTISE_OPS)
    factors = {
        "activation": (completes & nn_form, act, core.rvfi_nn_act_rdata.bit_select(watched_bit, 1)),
        "weight": (
            completes & (nn_form | computes_and_updates),
            wgt,
            core.rvfi_nn_wgt_rdata.bit_select(watched_bit, 1),
        ),
        "kappa": (requantises, FIRST_PARAMETER, used[0]),
        "lambda": (requantises, FIRST_PARAMETER + 1, used[1]),
    }
    wrong = {name: here & (number == watched_entry) & (bit != now) for name, (here, number, bit) in factors.items()}
    base_moves = (word.rs1 != 0) & (parameter | (word.rs1 != word.rd))
    wrong["entry"] = completes & ((core.rvfi_nn_we != loads) | (loads & (core.rvfi_nn_addr != entry)))
    wrong["word"] = loads & (loaded != core.rvfi_mem_rdata.bit_select(watched_bit, 1))
    wrong["access"] = loads & ((core.rvfi_mem_rmask != _ALL_BYTES) | (core.rvfi_mem_addr != core.rvfi_rs1_rdata))
    moved = core.rvfi_base_we & (core.rvfi_base_addr == word.rs1)
    wrong["base"] = loads & Mux(base_moves, ~moved, core.rvfi_base_we)
    wrong["no access"] = completes & nn_form & ~reloads & (core.rvfi_base_we | (core.rvfi_mem_rmask != 0))
    return wrong
