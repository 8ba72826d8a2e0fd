"""Instructions are what memory holds; registers and data that they read are what was written there last."""

from amaranth.hdl import Cat, Const, Mux, Signal, Value

from xpulpnn.core.compressed_decoder import CompressedDecoder
from xpulpnn.core.control import LsuCtrl
from xpulpnn.core.prefetch import DEPTH
from xpulpnn.isa.machine import BYTE_BITS, HALF_BITS, LENGTH_BITS, WORD_BYTES, XLEN, ExceptionCause
from xpulpnn.isa.table import enabled
from xpulpnn_sim.proofs.pipeline.properties.invariants import Property, implies, matches_any

_WORD = slice(2, XLEN)  # bits of an address that say which word
_IN_WORD = slice(0, 2)  # bits of an address that say which byte of it


class FixedInstruction:
    """Content of memory at one address of an instruction, any, and the part of it in the words fetched there."""

    def __init__(self, m, address, halves, fails):
        self._unaligned = address[1]
        self._halves = halves
        self._places = [Signal(XLEN - 2, name=f"held_place{index}") for index in range(2)]
        m.d.comb += [self._places[0].eq(address[_WORD]), self._places[1].eq(address[_WORD] + self._unaligned)]
        self._fails = (fails[0], Mux(self._unaligned, fails[1], fails[0]))
        self.compressed = ~halves[:LENGTH_BITS].all()
        self.raw = Mux(self.compressed, halves[:HALF_BITS], halves)
        self.fault = self._fails[0] | (~self.compressed & self._fails[1])

    def is_at(self, address):
        """Return whether an address is that of the instruction."""
        return (address[_WORD] == self._places[0]) & (address[1] == self._unaligned)

    def parts(self, place):
        """Halves that the word at a word address has: 2 bits."""
        return Cat(place == each for each in self._places)

    def answered(self, parts, rdata, err):
        """Return what memory answers with, if it could answer ``rdata`` and ``err`` where nothing is held."""
        first, second = self._halves[:HALF_BITS], self._halves[HALF_BITS:]
        low = Mux(parts[1], Mux(self._unaligned, second, first), rdata[:HALF_BITS])
        high = Mux(parts[0], Mux(self._unaligned, first, second), rdata[HALF_BITS:])
        return Cat(low, high), Mux(parts[0], self._fails[0], Mux(parts[1], self._fails[1], err))

    def is_in(self, place, word, error):
        """Return whether a word that came from a word address, and its error, are what memory holds."""
        data, failed = self.answered(self.parts(place), word, error)
        return (data == word) & (failed == error)

    def is_reported(self, insn, trap, cause):
        """Return whether the record of an instruction at the address is as it must be."""
        failed = trap & (cause == ExceptionCause.INSTRUCTION_ACCESS_FAULT)
        return (failed == self.fault) & (insn == Mux(self.fault, 0, self.raw))


def fixed_instruction_memory(m, port, held, waiting, rdata, err):
    """An instruction memory that holds a word."""
    asked = [Signal(2, name=f"held_asked{index}") for index in range(DEPTH)]
    granted = port.req & port.gnt
    for index, parts in enumerate(asked):
        left = Mux(port.rvalid, asked[index + 1] if index + 1 < DEPTH else 0, parts)
        newest = granted & (waiting - port.rvalid == index)
        m.d.sync += parts.eq(Mux(newest, held.parts(port.addr[_WORD]), left))
    return asked, *held.answered(asked[0], rdata, err)


def fetch_property(core, seen, held, asked):
    """Return what goes wrong if an instruction is not what memory holds.

    At one address, any, memory always holds the same two half-words, or the bus always fails. What retires from there
    is the first, or both if that is no compressed instruction. It traps with an instruction access fault, its word 0,
    if the bus fails where the instruction is, and only then.
    """
    here = core.rvfi_valid & held.is_at(core.rvfi_pc_rdata)
    is_right = held.is_reported(core.rvfi_insn, core.rvfi_trap, core.rvfi_cause)
    pc = seen["if_pc"][_WORD]
    count, live, drops = (seen[f"fetch_{name}"] for name in ("count", "live", "drops"))
    ahead = (seen["fetch_current"] + ~seen["fetch_exact"])[: XLEN - 2]
    words = [seen["fetch_words"].word_select(index, XLEN) for index in range(DEPTH)]
    stored = {
        f"word {index} of the queue": implies(
            count > index, held.is_in((pc + index)[: XLEN - 2], word, seen["fetch_errors"][index])
        )
        for index, word in enumerate(words)
    }
    under_way = {
        f"fetch {index} under way": implies(
            (drops <= index) & (drops + live > index), parts == held.parts((pc + count + index - drops)[: XLEN - 2])
        )
        for index, parts in enumerate(asked)
    }
    at_id, at_ex, at_wb = (held.is_at(address) for address in (seen["id_pc"], seen["ex_pc_rdata"], core.rvfi_pc_rdata))
    in_id = [
        seen["id_error"] == held.fault,
        held.fault | (seen["id_raw"] == held.raw),
        held.fault | (seen["id_compressed"] == held.compressed),
        held.fault | held.compressed | (seen["id_word"] == held.raw),
    ]
    invariants = {
        "a request waits at its address": implies(seen["fetch_held"], seen["fetch_exact"]),
        "fetching is ahead": implies(
            seen["fetch_running"] & ~seen["fetch_stale"], ahead == (pc + count + live)[: XLEN - 2]
        ),
        **under_way,
        **stored,
        "the instruction in ID": implies(seen["id_valid"] & at_id, *in_id),
        "the instruction in EX": implies(
            seen["has_ex"] & at_ex, held.is_reported(seen["ex_insn"], seen["ex_trap"], seen["ex_cause"])
        ),
        "the instruction in WB": implies(seen["has_wb"] & at_wb, is_right),
    }
    return Property({"word": here & ~is_right}, invariants)


_IN_BYTE = BYTE_BITS.bit_length() - 1  # bits of a number that say which bit of a byte


class TrackedBit:
    """A bit of the data memory: what accesses make of it, when they are answered without an error."""

    def __init__(self, m, port, address, number, rdata):
        self.address, self._number = address, number[:_IN_BYTE]
        self.value = Signal(name="data_value")
        self.asked, self.stores, self.stored = (Signal(name=f"data_{name}") for name in ("asked", "stores", "stored"))
        lane = address[_IN_WORD]
        with m.If(port.req & port.gnt):
            m.d.sync += [
                self.asked.eq((port.addr[_WORD] == address[_WORD]) & port.be.bit_select(lane, 1)),
                self.stores.eq(port.we),
                self.stored.eq(self.of(port.wdata, lane)),
            ]
        with m.If(port.rvalid & ~port.err & self.asked & self.stores):
            m.d.sync += self.value.eq(self.stored)
        here = Signal(XLEN, name="data_here")
        m.d.comb += here.bit_select(Cat(self._number, lane), 1).eq(self.asked)
        self.rdata = (rdata & ~here) | (self.value.replicate(XLEN) & here)

    def of(self, word, byte):
        """The bit in one byte of a word."""
        return word.bit_select(Cat(self._number, byte), 1)


class _Access:
    """An access in EX or WB, as it looks from the byte."""

    def __init__(self, held, address, mask):
        offset = (held.address - address)[:XLEN]
        self.byte = offset[_IN_WORD]
        self.here = (offset[_WORD] == 0) & mask.bit_select(self.byte, 1)
        self.in_first = held.address[_WORD] == address[_WORD]
        last = Cat(mask[1] & (address[_IN_WORD] == WORD_BYTES - 1), mask[3] & address[_IN_WORD].any())
        self.crosses = last.any()


def data_property(m, core, seen, started, held):
    """Return what goes wrong if a load brings something else than was stored.

    One bit of memory, any, is kept from what retires alone: it starts with any value, and a store that completes sets
    it. A load of its byte brings it. Of a store across a word boundary that fails, the first half may be there.
    """
    kept = Signal(name="data_kept")
    now = Mux(started, kept, held.value)
    m.d.sync += kept.eq(now)
    mask = core.rvfi_mem_rmask | core.rvfi_mem_wmask
    wb = _Access(held, core.rvfi_mem_addr, mask)
    failed = core.rvfi_trap & (core.rvfi_cause == ExceptionCause.STORE_ACCESS_FAULT)
    half_made = failed & wb.in_first
    with m.If(core.rvfi_valid & half_made):
        m.d.sync += kept.eq(held.value)
    with m.Elif(core.rvfi_valid & wb.here & core.rvfi_mem_wmask.any()):
        m.d.sync += kept.eq(held.of(core.rvfi_mem_wdata, wb.byte))
    loads = wb.here & core.rvfi_mem_rmask.any()
    wrong = {"loaded": core.rvfi_valid & loads & (held.of(core.rvfi_mem_rdata, wb.byte) != now)}

    access = LsuCtrl(seen["ex_access"])
    size = Value.cast(access.size)
    ex = _Access(held, seen["lsu_ex_address"], Cat(1, size.any(), size[1].replicate(2)))
    outstanding, wb_busy, second = (seen[f"lsu_{name}"] for name in ("outstanding", "wb_busy", "second"))
    in_ex, made = second & outstanding, second & ~outstanding
    first = held.of(seen["lsu_first"], held.address[_IN_WORD])
    stored_wb, stored_ex = held.of(core.rvfi_mem_wdata, wb.byte), held.of(seen["ex_target"], ex.byte)
    wb_stores = core.rvfi_mem_wmask.any()
    accessed = seen["has_wb"] & mask.any()
    wb_is_made = wb_busy & wb_stores & wb.crosses & wb.here & wb.in_first
    ex_is_made = made & access.we & ex.here & ex.in_first
    unknown = seen["has_wb"] & half_made
    invariants = {
        "a second half is beyond a word boundary": implies(second, seen["lsu_crosses"]),
        "accesses in WB are under way": wb_busy == accessed,
        "what traps accesses nothing": implies(seen["has_wb"] & core.rvfi_trap, ~mask.any()),
        "an access loads or stores": ~(core.rvfi_mem_rmask.any() & wb_stores),
        "an access in WB has a size": implies(wb_busy, Cat(mask == each for each in (0b1, 0b11, 0b1111)).any()),
        "the size in WB": implies(
            wb_busy, seen["lsu_wb_size"] == Cat(mask[1] & ~mask[3], mask[3]), seen["lsu_wb_crosses"] == wb.crosses
        ),
        "the byte in WB": implies(wb_busy, seen["lsu_wb_byte"] == core.rvfi_mem_addr[_IN_WORD]),
        "what is under way is known to store": implies(outstanding, seen["lsu_fault__store"] == held.stores),
        "WB has asked": implies(
            wb_busy, held.stores == wb_stores, held.asked == (wb.here & (wb.in_first ^ wb.crosses))
        ),
        "WB stores": implies(wb_busy & wb_stores & held.asked, held.stored == stored_wb),
        "EX has asked": implies(in_ex, held.stores == access.we, held.asked == (ex.here & ex.in_first)),
        "EX stores": implies(in_ex & access.we & held.asked, held.stored == stored_ex),
        "memory is as kept": unknown | (held.value == Mux(wb_is_made, stored_wb, Mux(ex_is_made, stored_ex, now))),
        "the first half in EX": implies(made & ~access.we & ex.here & ex.in_first, first == now),
        "the first half in WB": implies(wb_busy & ~wb_stores & wb.crosses & wb.here & wb.in_first, first == now),
    }
    return Property(wrong, invariants)


_FIELDS = {"rs1": slice(15, 20), "rs2": slice(20, 25), "rd": slice(7, 12)}


class _Reads:
    def __init__(self, m, name, raw, register, config):
        m.submodules[f"{name}_expander"] = expander = CompressedDecoder()
        m.d.comb += expander.word.eq(raw)
        self.word = word = expander.expanded
        rows = [row for row in enabled(config.extensions, config.widths, aliases=True) if row.size == XLEN // 8]
        self.fields = {}
        for field, bits in _FIELDS.items():
            self.fields[field] = read = Signal(name=f"{name}_reads_{field}")
            matches = matches_any(word, [row.pattern for row in rows if field in row.reads])
            m.d.comb += read.eq(matches & (word[bits] == register))
        second = [row.pattern for row in rows if row.is_pair and row.accumulates]
        if second:
            # the register behind that in field rd is read in place of rs2
            with m.If(matches_any(word, second)):
                m.d.comb += self.fields["rs2"].eq(Cat(Const(1), word[8:12]) == register)

    def right(self, value, rs1, rs2, rd):
        """Return whether all that it reads of the register is a value."""
        read = dict(zip(_FIELDS, (rs1, rs2, rd), strict=True))
        return Cat(~here | (read[field] == value) for field, here in self.fields.items()).all()

    @property
    def any(self):
        """Return whether it reads the register at all."""
        return Cat(self.fields.values()).any()


def register_property(m, core, seen, register, watched_bit, config):
    """Return what goes wrong if an instruction reads another value than was written last.

    One bit of one register, any of them, is kept from what retires alone: 0 at first, then what an instruction that
    completes writes there, as rd, as the register behind it, which two products write too, or as an incremented base;
    of two writes of one register that of the base is lost. An instruction that reads the register, in any of three
    fields, has that bit.
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
        written = getattr(core, f"rvfi_{name}_we") & (getattr(core, f"rvfi_{name}_addr") == register)
        with m.If(completes & written):
            m.d.sync += value.eq(bit(getattr(core, f"rvfi_{name}_wdata")))
    if config.mac_load_pair:
        behind = Cat(Const(1), core.rvfi_rd_addr[1:])
        with m.If(completes & core.rvfi_rd2_we & (behind == register)):
            m.d.sync += value.eq(bit(core.rvfi_rd2_wdata))
    is_right = wb.right(value, *read_values(lambda name: getattr(core, f"rvfi_{name}")))

    ex = _Reads(m, "register_ex", seen["ex_insn"], register, config)
    m.submodules.register_id_expander = expander = CompressedDecoder()
    m.d.comb += expander.word.eq(seen["id_raw"])
    has_wb, in_ex = seen["has_wb"], seen["has_ex"] & ~seen["ex_trap"]
    # what left EX with the instruction in WB, and what it still waits for
    writes = {name: seen[f"wb_{name}_we"] & (seen[f"wb_{name}_addr"] == register) for name in ("rd", "base")}
    early = Cat(writes.values()).any()
    behind_ex = Mux(writes["rd"], bit(seen["wb_rd_wdata"]), bit(seen["wb_base_wdata"]))
    after_wb = Mux(has_wb & early, behind_ex, value)
    of_pair = seen["wb_pair"] & (seen["wb_late_addr"][1:] == register[1:])
    late = seen["wb_late_we"] & ((seen["wb_late_addr"] == register) | of_pair)
    restores = seen["wb_restores"]
    stored = Cat(Const(0, XLEN), seen["registers"]).bit_select(Cat(watched_bit, register), 1)
    ex_writes = seen["ex_valid"] & seen["ex_we"] & (seen["ex_addr"] == register)
    access, of_base = LsuCtrl(seen["ex_access"]), seen["ex_wb_base"]
    ex_both = seen["ex_valid"] & seen["ex_we"] & seen["ex_late_we"]
    kept = Mux(of_base, seen["ex_target"], seen["ex_base"])
    invariants = {
        "what is expanded is what was fetched": implies(
            seen["id_valid"] & ~seen["id_error"], expander.expanded == seen["id_word"]
        ),
        "EX writes once, WB the other": implies(
            ex_both, access.valid, Mux(of_base, seen["ex_loads"], access.post & (seen["ex_loads"] == seen["ex_pair"]))
        ),
        "a requantisation is no access": implies(access.valid, ~seen["ex_requantise"][1]),
        "WB writes what EX has not": implies(
            has_wb & seen["wb_late_we"] & ~restores,
            ~Mux(seen["wb_loads"] & ~seen["wb_pair"], seen["wb_base_we"], seen["wb_rd_we"]),
        ),
        "sums of two products are in an even register and the next": implies(
            seen["wb_late_we"] & seen["wb_pair"], ~seen["wb_late_addr"][0], seen["wb_late_addr"].any(), ~restores
        ),
        "their numbers in EX": implies(
            seen["ex_valid"] & seen["ex_pair"],
            ~seen["ex_late_addr"][0],
            ~seen["ex_late_we"] | seen["ex_late_addr"].any(),
        ),
        "the base of a Mac&Load in EX is not rd": implies(ex_both & of_base, seen["ex_late_addr"] != seen["ex_addr"]),
        "the base of a Mac&Load in WB is not rd": implies(
            has_wb & seen["wb_late_we"] & ~restores & seen["wb_loads"] & seen["wb_rd_we"],
            seen["wb_late_addr"] != seen["wb_rd_addr"],
        ),
        "EX writes once": implies(has_wb, ~(seen["wb_rd_we"] & seen["wb_base_we"])),
        "what traps writes nothing": implies(has_wb & core.rvfi_trap, ~(seen["wb_rd_we"] | seen["wb_base_we"])),
        "a failed access restores": restores == seen["faulted"],
        "a late write is of WB": implies(seen["wb_late_we"] & ~restores, has_wb, ~core.rvfi_trap),
        "what is kept is of an access": implies(seen["wb_wrote"] & ~restores, seen["lsu_wb_busy"]),
        "the register file": implies(exists & ~(restores & late), stored == after_wb),
        "what is kept is the value before": implies(
            exists & seen["wb_wrote"] & ~restores & (seen["wb_old_addr"] == register), bit(seen["wb_old"]) == value
        ),
        "only what an access wrote is not yet": implies(
            exists & has_wb & early & seen["lsu_wb_busy"], seen["wb_wrote"], seen["wb_old_addr"] == register
        ),
        "what is restored is the value before": implies(exists & restores & late, bit(seen["wb_old"]) == value),
        "EX keeps the value before": implies(
            exists & in_ex & access.valid & ex_writes, bit(kept) == after_wb, ~(late & ~restores)
        ),
        "EX reads what WB leaves": implies(
            exists & in_ex & ex.any,
            ex.right(after_wb, *read_values(lambda name: seen[f"ex_{name}"])),
            ~(late & ~restores),
        ),
        "WB reads the value": implies(exists & has_wb & ~core.rvfi_trap, is_right),
    }
    return Property({"read": completes & ~is_right}, invariants)
