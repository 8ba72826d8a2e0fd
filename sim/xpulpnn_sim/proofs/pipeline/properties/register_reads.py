"""Instructions read the values that were last written to their registers."""

from amaranth.hdl import Cat, Const, Mux, Signal

from xpulpnn.core.compressed_decoder import CompressedDecoder
from xpulpnn.core.control import LsuCtrl
from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn.isa.table import enabled
from xpulpnn_sim.proofs.pipeline.properties.invariants import Property, implies, matches_any, register_field

_FIELDS = ("rs1", "rs2", "rd")


class _Reads:
    def __init__(self, m, name, raw, register, config):
        m.submodules[f"{name}_expander"] = expander = CompressedDecoder()
        m.d.comb += expander.word.eq(raw)
        self.word = word = expander.expanded
        rows = [row for row in enabled(config.extensions, config.widths, aliases=True) if row.size == WORD_BYTES]
        self.fields = {}
        for field in _FIELDS:
            self.fields[field] = read = Signal(name=f"{name}_reads_{field}")
            matches = matches_any(word, [row.pattern for row in rows if field in row.reads])
            m.d.comb += read.eq(matches & (register_field(word, field) == register))
        second = [row.pattern for row in rows if row.is_pair and row.accumulates]
        if second:
            # the odd register after rd is read in place of rs2
            with m.If(matches_any(word, second)):
                m.d.comb += self.fields["rs2"].eq(Cat(Const(1), register_field(word, "rd")[1:]) == register)

    def right(self, value, rs1, rs2, rd):
        """Return whether all reads of the watched register by this instruction return ``value``."""
        read = dict(zip(_FIELDS, (rs1, rs2, rd), strict=True))
        return Cat(~is_read | (read[field] == value) for field, is_read in self.fields.items()).all()

    @property
    def any(self):
        return Cat(self.fields.values()).any()


def register_property(m, core, seen, register, watched_bit, config):
    """Return the property that instructions read the last written register values.

    A model has one free bit of one free register, updated from retirements only: 0 at first, then the value that a
    completing instruction writes to the register as rd, as the odd register after rd (pair products), or as incremented
    base. If an instruction writes rd and base to the same register, the base is lost. An instruction that reads the
    register in one of its three fields must read that bit.
    """
    value = Signal(name="register_value")

    def bit(word):
        return word.bit_select(watched_bit, 1)

    def read_values(prefix):
        return [bit(prefix(f"{field}_rdata")) for field in _FIELDS]

    exists = register != 0
    wb = _Reads(m, "register_wb", core.rvfi_insn, register, config)
    completes = core.rvfi_valid & ~core.rvfi_trap & exists
    for name in ("base", "rd"):
        we, addr, wdata = (getattr(core, f"rvfi_{name}_{field}") for field in ("we", "addr", "wdata"))
        with m.If(completes & we & (addr == register)):
            m.d.sync += value.eq(bit(wdata))
    if config.mac_load_pair:
        odd_rd = Cat(Const(1), core.rvfi_rd_addr[1:])
        with m.If(completes & core.rvfi_rd2_we & (odd_rd == register)):
            m.d.sync += value.eq(bit(core.rvfi_rd2_wdata))
    is_right = wb.right(value, *read_values(lambda name: getattr(core, f"rvfi_{name}")))

    ex = _Reads(m, "register_ex", seen.ex_insn, register, config)
    m.submodules.register_id_expander = expander = CompressedDecoder()
    m.d.comb += expander.word.eq(seen.id_raw)
    has_wb, in_ex = seen.has_wb, seen.has_ex & ~seen.ex_trap
    # writes in EX of the instruction in WB, and its pending writes
    writes = {name: seen[f"wb_{name}_we"] & (seen[f"wb_{name}_addr"] == register) for name in ("rd", "base")}
    early = Cat(writes.values()).any()
    behind_ex = Mux(writes["rd"], bit(seen.wb_rd_wdata), bit(seen.wb_base_wdata))
    after_wb = Mux(has_wb & early, behind_ex, value)
    of_pair = seen.wb_pair & (seen.wb_late_addr[1:] == register[1:])
    late = seen.wb_late_we & ((seen.wb_late_addr == register) | of_pair)
    restores = seen.wb_restores
    stored = Cat(Const(0, XLEN), seen.registers).bit_select(Cat(watched_bit, register), 1)
    ex_writes = seen.ex_valid & seen.ex_we & (seen.ex_addr == register)
    access, of_base = LsuCtrl(seen.ex_access), seen.ex_wb_base
    ex_both = seen.ex_valid & seen.ex_we & seen.ex_late_we
    old_value = Mux(of_base, seen.ex_target, seen.ex_base)
    invariants = {
        "ID expands what was fetched": implies(seen.id_valid & ~seen.id_error, expander.expanded == seen.id_word),
        "EX writes once, WB the other": implies(
            ex_both, access.valid, Mux(of_base, seen.ex_loads, access.post & (seen.ex_loads == seen.ex_pair))
        ),
        "a requantisation is no access": implies(access.valid, ~seen.ex_requantise[1]),
        "WB writes what EX has not": implies(
            has_wb & seen.wb_late_we & ~restores, ~Mux(seen.wb_loads & ~seen.wb_pair, seen.wb_base_we, seen.wb_rd_we)
        ),
        "sums of two products are in an even register and the next": implies(
            seen.wb_late_we & seen.wb_pair, ~seen.wb_late_addr[0], seen.wb_late_addr.any(), ~restores
        ),
        "their numbers in EX": implies(
            seen.ex_valid & seen.ex_pair, ~seen.ex_late_addr[0], ~seen.ex_late_we | seen.ex_late_addr.any()
        ),
        "the base of a Mac&Load in EX is not rd": implies(ex_both & of_base, seen.ex_late_addr != seen.ex_addr),
        "the base of a Mac&Load in WB is not rd": implies(
            has_wb & seen.wb_late_we & ~restores & seen.wb_loads & seen.wb_rd_we, seen.wb_late_addr != seen.wb_rd_addr
        ),
        "EX writes once": implies(has_wb, ~(seen.wb_rd_we & seen.wb_base_we)),
        "what traps writes nothing": implies(has_wb & core.rvfi_trap, ~(seen.wb_rd_we | seen.wb_base_we)),
        "a failed access restores": restores == seen.faulted,
        "a late write is of WB": implies(seen.wb_late_we & ~restores, has_wb, ~core.rvfi_trap),
        "what is kept is of an access": implies(seen.wb_wrote & ~restores, seen.lsu_wb_busy),
        "the register file": implies(exists & ~(restores & late), stored == after_wb),
        "what is kept is the value before": implies(
            exists & seen.wb_wrote & ~restores & (seen.wb_old_addr == register), bit(seen.wb_old) == value
        ),
        "only what an access wrote is not yet": implies(
            exists & has_wb & early & seen.lsu_wb_busy, seen.wb_wrote, seen.wb_old_addr == register
        ),
        "what is restored is the value before": implies(exists & restores & late, bit(seen.wb_old) == value),
        "EX keeps the value before": implies(
            exists & in_ex & access.valid & ex_writes, bit(old_value) == after_wb, ~(late & ~restores)
        ),
        "EX reads what WB leaves": implies(
            exists & in_ex & ex.any,
            ex.right(after_wb, *read_values(lambda name: seen[f"ex_{name}"])),
            ~(late & ~restores),
        ),
        "WB reads the value": implies(exists & has_wb & ~core.rvfi_trap, is_right),
    }
    return Property({"read": completes & ~is_right}, invariants)
