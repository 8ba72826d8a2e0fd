"""Mac&Load: operands and NN-RF entries in program order with any memory timing (see "Mac&Load" in the guide)."""

from amaranth.hdl import Cat, Const, Mux, Signal

from xpulpnn.core.control import LsuCtrl, MemSize
from xpulpnn.core.decoder import legal_patterns
from xpulpnn.isa.fields import FUNCT7
from xpulpnn.isa.insn import EXACT_OPS, MAC_LOAD_OPS, NN_FORM_OPS, PAIR_OPS, REQUANTISE_OPS
from xpulpnn.isa.machine import FIRST_PARAMETER, FIRST_WEIGHT, SECOND_PAIR, XLEN
from xpulpnn.isa.table import enabled
from xpulpnn_sim.proofs.pipeline.properties.invariants import (
    InstructionWord,
    Property,
    implies,
    matches_any,
    register_field,
)

_ALL_BYTES = 0b1111


def nnrf_property(m, core, seen, started, watched_entry, watched_bit, config):
    """Return the property that a Mac&Load uses the word loaded last into each entry, and loads the right entry.

    A model has one free bit of one free NN-RF entry, updated from retirements only and starting with any value: a
    completing Mac&Load or pv.rqld loads the entry that its instruction word names. The bit must agree wherever the
    entry is a factor, or kappa or lambda of a requantisation. A load reads four bytes at rs1, and its base is
    incremented unless it is x0, or rd of a single Mac&Load.
    """
    rows = [row for row in enabled(config.extensions, config.widths) if row.uses_nnrf]
    use = _Use(m, "wb", core.rvfi_insn, rows)
    completes = Signal(name="nn_completes")
    m.d.comb += completes.eq(core.rvfi_valid & ~core.rvfi_trap)
    loads = completes & use.loads

    def bit(word):
        return word.bit_select(watched_bit, 1)

    recorded = Signal(name="nn_kept")
    first = 0 if config.mac_load_nn else FIRST_WEIGHT
    words = Cat(Const(0, XLEN * first), seen.nn_words)
    between = Const(0, XLEN * SECOND_PAIR - len(words)) if len(seen.nn_later_pair) else Const(0, 0)
    stored = Cat(words, between, seen.nn_later_pair).bit_select(Cat(watched_bit, watched_entry), 1)
    now = Mux(started, recorded, stored)
    loaded = bit(core.rvfi_nn_wdata)
    m.d.sync += recorded.eq(Mux(loads & (use.entry == watched_entry), bit(core.rvfi_mem_rdata), now))

    ex = _Use(m, "ex", seen.ex_insn, rows)
    # for exact requantisation, ID added lambda to rs1, which is the first factor
    summand = Mux(ex.exact, (seen.ex_nn_act_rdata - seen.ex_rs1_rdata)[:XLEN], seen["lambda"])
    factor = seen["ex_nn_wgt_rdata" if config.reads_factor else "kappa"]
    others = [bit(word) for word in (factor, summand, seen.second)]
    # the retiring instruction is the last one that left EX
    used = Signal(len(others), name="nn_used")
    with m.If(seen.ex_leaves):
        m.d.sync += used.eq(Cat(others))

    factors = use.factors(watched_entry, bit(core.rvfi_nn_act_rdata), bit(core.rvfi_nn_wgt_rdata), *used)
    wrong = {name: completes & is_read & (value != now) for name, (is_read, value) in factors.items()}
    moved = core.rvfi_base_we & (core.rvfi_base_addr == use.word.rs1)
    wrong["entry"] = completes & ((core.rvfi_nn_we != use.loads) | (use.loads & (core.rvfi_nn_addr != use.entry)))
    wrong["word"] = loads & (loaded != bit(core.rvfi_mem_rdata))
    wrong["access"] = loads & ((core.rvfi_mem_rmask != _ALL_BYTES) | (core.rvfi_mem_addr != core.rvfi_rs1_rdata))
    wrong["base"] = loads & Mux(use.base_moves, ~moved, core.rvfi_base_we)
    wrong["no access"] = completes & use.is_idle & (core.rvfi_base_we | (core.rvfi_mem_rmask != 0))
    in_ex, in_wb = seen.has_ex & ~seen.ex_trap, seen.has_wb & ~core.rvfi_trap
    read_in_ex = ex.factors(watched_entry, bit(seen.ex_nn_act_rdata), bit(seen.ex_nn_wgt_rdata), *others)
    loads_watched = in_wb & use.loads & (use.entry == watched_entry)
    invariants = {
        "the entry is as kept": now == stored,
        "no compressed NN-RF use": implies(seen.id_valid & seen.id_compressed, ~_Use(m, "id", seen.id_word, rows).any),
        **_ex_invariants(seen, in_ex, ex, first),
        "WB loads what the word says": implies(in_wb, seen.wb_loads == use.loads),
        "WB loads the entry that the word says": implies(in_wb & use.loads, core.rvfi_nn_addr == use.entry),
        "only an access in WB loads an entry": implies(seen.wb_loads, in_wb, seen.lsu_wb_busy),
        "a load in WB reads the address in rs1": implies(
            in_wb & use.loads, core.rvfi_mem_rmask == _ALL_BYTES, core.rvfi_mem_addr == core.rvfi_rs1_rdata
        ),
        "a load in WB moves the base": implies(in_wb & use.loads, Mux(use.base_moves, moved, ~core.rvfi_base_we)),
        "no load in WB moves nothing": implies(in_wb & use.is_idle, ~core.rvfi_base_we, core.rvfi_mem_rmask == 0),
        **{
            f"{name} in EX": implies(in_ex & is_read, value == now, ~loads_watched)
            for name, (is_read, value) in read_in_ex.items()
        },
        **{f"{name} in WB": implies(in_wb & is_read, value == now) for name, (is_read, value) in factors.items()},
    }
    return Property(wrong, invariants)


def _ex_invariants(seen, in_ex, ex, first):
    access = LsuCtrl(seen.ex_access)
    loads, of_parameter = in_ex & ex.loads, in_ex & ex.parameter
    moves_early = ex.parameter | ex.pair
    return {
        "EX loads what the word says": implies(in_ex, seen.ex_loads == ex.loads),
        "EX loads the entry that the word says": implies(loads, seen.ex_entry + first == ex.entry),
        "a load in EX is of a word": implies(loads, access.valid, ~access.we, access.post, access.size == MemSize.WORD),
        "a load in EX is at the address in rs1": implies(loads, seen.ex_base == seen.ex_rs1_rdata),
        "EX requantises as the word says": implies(in_ex, seen.ex_requantise[:2] == Cat(ex.parameter, ex.requantises)),
        "a load of a parameter writes nothing in WB": implies(of_parameter, ~seen.ex_late_we),
        "a load of a parameter moves the base in EX": implies(loads & moves_early, seen.ex_we == ex.base_moves),
        "the base of a parameter is rs1": implies(loads & moves_early & ex.base_moves, seen.ex_addr == ex.word.rs1),
        "a Mac&Load moves the base in WB": implies(loads & ~moves_early, seen.ex_late_we == ex.base_moves),
        "a Mac&Load's base is rs1": implies(loads & ~moves_early & ex.base_moves, seen.ex_late_addr == ex.word.rs1),
        "no load in EX moves nothing": implies(in_ex & ex.is_idle, ~access.valid, ex.pair | ~seen.ex_late_we),
        "no load in EX of two products writes nothing": implies(in_ex & ex.is_idle & ex.pair, ~seen.ex_we),
        "the pair in EX": implies(in_ex, seen.ex_pair == ex.pair, ~ex.pair | (seen.ex_later_pair == ex.word.raw[20])),
    }


class _Use:
    def __init__(self, m, prefix, raw, rows):
        self.word = word = InstructionWord(raw)

        def known(name, value):
            signal = Signal(len(value), name=f"{prefix}_{name}")
            m.d.comb += signal.eq(value)
            return signal

        def is_row(name, chosen):
            patterns = [pattern for row in rows if chosen(row) for pattern in legal_patterns(row)]
            return known(name, word.wide & matches_any(raw, patterns))

        self.any = is_row("uses", lambda row: True)
        self.nn_form = is_row("nn_form", lambda row: row.op in NN_FORM_OPS)
        self.parameter = is_row("parameter", lambda row: row.loads_parameter)
        self.requantises = is_row("requantises", lambda row: row.op in REQUANTISE_OPS)
        self.exact = is_row("exact", lambda row: row.op in EXACT_OPS)
        self.computes_and_updates = is_row("cu_form", lambda row: row.op in MAC_LOAD_OPS - NN_FORM_OPS - PAIR_OPS)
        self.pair = is_row("pair", lambda row: row.is_pair)
        pair_loads = is_row("pair_loads", lambda row: row.is_pair and row.writes_base)
        names = ("nnimm5", "p", "w", "t", "uimm1", FUNCT7)
        selector, pair, weight, entry, parameter, funct7 = (register_field(raw, name) for name in names)
        selected, updates = selector[0], selector[3:]
        self.act = Mux(self.pair, Cat(Const(0, 3), pair), selected)
        # Compute&Update has the number of its weight in the lower bits of funct7
        self.wgt = FIRST_WEIGHT + Mux(self.nn_form | self.pair, weight, funct7[:2])
        reloads = self.computes_and_updates | (self.nn_form & updates.any()) | pair_loads
        self.loads = known("loads", reloads | self.parameter)
        self.is_idle = (self.nn_form | self.pair) & ~reloads
        activation = Mux(updates.all(), ~selected, selected)
        product = Mux(self.nn_form & updates[0], activation, self.wgt)
        single = Mux(self.parameter, FIRST_PARAMETER + parameter, product)
        self.entry = known("entry", Mux(self.pair, entry, single))
        self.base_moves = (word.rs1 != 0) & (self.parameter | self.pair | (word.rs1 != word.rd))

    def factors(self, entry, activation, weight, kappa, lambda_, second):
        """Return for each operand whether it is read from this NN-RF entry, and the tracked bit."""
        return {
            "activation": ((self.nn_form | self.pair) & (self.act == entry), activation),
            "second activation": (self.pair & ((self.act | 1) == entry), second),
            "weight": ((self.nn_form | self.pair | self.computes_and_updates) & (self.wgt == entry), weight),
            "kappa": (self.requantises & (entry == FIRST_PARAMETER), kappa),
            "lambda": (self.requantises & (entry == FIRST_PARAMETER + 1), lambda_),
        }
