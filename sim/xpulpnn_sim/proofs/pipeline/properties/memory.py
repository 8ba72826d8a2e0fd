"""Properties of memory: the core executes the instructions stored there, and loads return the value stored last."""

from amaranth.hdl import Cat, Mux, Signal, Value

from xpulpnn.core.control import LsuCtrl
from xpulpnn.core.prefetch import DEPTH
from xpulpnn.isa.machine import BYTE_BITS, HALF_BITS, LENGTH_BITS, WORD_BYTES, XLEN, ExceptionCause
from xpulpnn_sim.proofs.pipeline.properties.invariants import Property, implies

_WORD = slice(2, XLEN)  # word address
_IN_WORD = slice(0, 2)  # byte within a word


class FixedInstruction:
    """An instruction with fixed but unknown half-words at one free address, and its position in fetched words."""

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
        return (address[_WORD] == self._places[0]) & (address[1] == self._unaligned)

    def parts(self, place):
        """Return two bits: whether the word number ``place`` has the instruction's first half, and its second."""
        return Cat(place == each for each in self._places)

    def answered(self, parts, rdata, err):
        """Return data and error of the memory's response, with the fixed halves in place of ``rdata`` and ``err``."""
        first, second = self._halves[:HALF_BITS], self._halves[HALF_BITS:]
        low = Mux(parts[1], Mux(self._unaligned, second, first), rdata[:HALF_BITS])
        high = Mux(parts[0], Mux(self._unaligned, first, second), rdata[HALF_BITS:])
        return Cat(low, high), Mux(parts[0], self._fails[0], Mux(parts[1], self._fails[1], err))

    def is_in(self, place, word, error):
        data, failed = self.answered(self.parts(place), word, error)
        return (data == word) & (failed == error)

    def is_reported(self, insn, trap, cause):
        failed = trap & (cause == ExceptionCause.INSTRUCTION_ACCESS_FAULT)
        return (failed == self.fault) & (insn == Mux(self.fault, 0, self.raw))


def fixed_instruction_memory(m, port, held, waiting, rdata, err):
    """Return the responses of an instruction memory with a fixed instruction, and which outstanding fetches read it."""
    requested = [Signal(2, name=f"held_asked{index}") for index in range(DEPTH)]
    granted = port.req & port.gnt
    for index, parts in enumerate(requested):
        left = Mux(port.rvalid, requested[index + 1] if index + 1 < DEPTH else 0, parts)
        newest = granted & (waiting - port.rvalid == index)
        m.d.sync += parts.eq(Mux(newest, held.parts(port.addr[_WORD]), left))
    return requested, *held.answered(requested[0], rdata, err)


def fetch_property(core, seen, held, requested):
    """Return the property that instructions equal the contents of memory.

    At one free address, memory has two constant half-words or bus errors. The instruction that retires there is the
    first half-word or, if that is not compressed, both. It traps with an instruction access fault and the word 0 if and
    only if the bus reports an error there.
    """
    retires = core.rvfi_valid & held.is_at(core.rvfi_pc_rdata)
    is_right = held.is_reported(core.rvfi_insn, core.rvfi_trap, core.rvfi_cause)
    pc = seen.if_pc[_WORD]
    count, live, drops = (seen[f"fetch_{name}"] for name in ("count", "live", "drops"))
    ahead = (seen.fetch_current + ~seen.fetch_exact)[: XLEN - 2]
    words = [seen.fetch_words.word_select(index, XLEN) for index in range(DEPTH)]
    stored = {
        f"queue word {index}": implies(
            count > index, held.is_in((pc + index)[: XLEN - 2], word, seen.fetch_errors[index])
        )
        for index, word in enumerate(words)
    }
    under_way = {
        f"fetch {index} under way": implies(
            (drops <= index) & (drops + live > index), parts == held.parts((pc + count + index - drops)[: XLEN - 2])
        )
        for index, parts in enumerate(requested)
    }
    at_id, at_ex, at_wb = (held.is_at(address) for address in (seen.id_pc, seen.ex_pc_rdata, core.rvfi_pc_rdata))
    in_id = [
        seen.id_error == held.fault,
        held.fault | (seen.id_raw == held.raw),
        held.fault | (seen.id_compressed == held.compressed),
        held.fault | held.compressed | (seen.id_word == held.raw),
    ]
    invariants = {
        "a request waits at its address": implies(seen.fetch_held, seen.fetch_exact),
        "fetching is ahead": implies(seen.fetch_running & ~seen.fetch_stale, ahead == (pc + count + live)[: XLEN - 2]),
        **under_way,
        **stored,
        "instruction in ID": implies(seen.id_valid & at_id, *in_id),
        "instruction in EX": implies(seen.has_ex & at_ex, held.is_reported(seen.ex_insn, seen.ex_trap, seen.ex_cause)),
        "instruction in WB": implies(seen.has_wb & at_wb, is_right),
    }
    return Property({"word": retires & ~is_right}, invariants)


_IN_BYTE = BYTE_BITS.bit_length() - 1  # address bits of a bit within a byte


class TrackedBit:
    """A bit of data memory at a free address; a store changes it when it is answered without an error."""

    def __init__(self, m, port, address, number, rdata):
        self.address, self._number = address, number[:_IN_BYTE]
        self.value = Signal(name="data_value")
        self.asked, self.stores, self.stored = (Signal(name=f"data_{name}") for name in ("asked", "stores", "stored"))
        lane = address[_IN_WORD]
        with m.If(port.req & port.gnt):
            m.d.sync += [
                self.asked.eq((port.addr[_WORD] == address[_WORD]) & port.be.bit_select(lane, 1)),
                self.stores.eq(port.we),
                self.stored.eq(self.tracked_bit(port.wdata, lane)),
            ]
        with m.If(port.rvalid & ~port.err & self.asked & self.stores):
            m.d.sync += self.value.eq(self.stored)
        position = Signal(XLEN, name="data_here")
        m.d.comb += position.bit_select(Cat(self._number, lane), 1).eq(self.asked)
        self.rdata = (rdata & ~position) | (self.value.replicate(XLEN) & position)

    def tracked_bit(self, word, byte):
        return word.bit_select(Cat(self._number, byte), 1)


class _Access:
    """Whether and where an access contains the tracked byte, and whether it crosses a word boundary."""

    def __init__(self, held, address, mask):
        offset = (held.address - address)[:XLEN]
        self.byte = offset[_IN_WORD]
        self.accesses = (offset[_WORD] == 0) & mask.bit_select(self.byte, 1)
        self.in_first = held.address[_WORD] == address[_WORD]
        last = Cat(mask[1] & (address[_IN_WORD] == WORD_BYTES - 1), mask[3] & address[_IN_WORD].any())
        self.crosses = last.any()


def data_property(m, core, seen, started, held):
    """Return the property that loads return the value stored last.

    A model has one free bit of memory, updated from retirements only: it starts with any value, and completing stores
    set it. A load of the byte must return the bit. If a store across a word boundary fails, its first half may have
    been written.
    """
    recorded = Signal(name="data_kept")
    now = Mux(started, recorded, held.value)
    m.d.sync += recorded.eq(now)
    mask = core.rvfi_mem_rmask | core.rvfi_mem_wmask
    wb = _Access(held, core.rvfi_mem_addr, mask)
    failed = core.rvfi_trap & (core.rvfi_cause == ExceptionCause.STORE_ACCESS_FAULT)
    half_made = failed & wb.in_first
    with m.If(core.rvfi_valid & half_made):
        m.d.sync += recorded.eq(held.value)
    with m.Elif(core.rvfi_valid & wb.accesses & core.rvfi_mem_wmask.any()):
        m.d.sync += recorded.eq(held.tracked_bit(core.rvfi_mem_wdata, wb.byte))
    loads = wb.accesses & core.rvfi_mem_rmask.any()
    wrong = {"loaded": core.rvfi_valid & loads & (held.tracked_bit(core.rvfi_mem_rdata, wb.byte) != now)}

    access = LsuCtrl(seen.ex_access)
    size = Value.cast(access.size)
    ex = _Access(held, seen.lsu_ex_address, Cat(1, size.any(), size[1].replicate(2)))
    outstanding, wb_busy, second = (seen[f"lsu_{name}"] for name in ("outstanding", "wb_busy", "second"))
    in_ex, made = second & outstanding, second & ~outstanding
    first = held.tracked_bit(seen.lsu_first, held.address[_IN_WORD])
    stored_wb, stored_ex = held.tracked_bit(core.rvfi_mem_wdata, wb.byte), held.tracked_bit(seen.ex_target, ex.byte)
    wb_stores = core.rvfi_mem_wmask.any()
    accessed = seen.has_wb & mask.any()
    wb_is_made = wb_busy & wb_stores & wb.crosses & wb.accesses & wb.in_first
    ex_is_made = made & access.we & ex.accesses & ex.in_first
    unknown = seen.has_wb & half_made
    wb_size, wb_asks = Cat(mask[1] & ~mask[3], mask[3]), wb.accesses & (wb.in_first ^ wb.crosses)
    invariants = {
        "a second half is beyond a word boundary": implies(second, seen.lsu_crosses),
        "accesses in WB are under way": wb_busy == accessed,
        "what traps accesses nothing": implies(seen.has_wb & core.rvfi_trap, ~mask.any()),
        "an access loads or stores": ~(core.rvfi_mem_rmask.any() & wb_stores),
        "an access in WB has a size": implies(wb_busy, Cat(mask == each for each in (0b1, 0b11, 0b1111)).any()),
        "the size in WB": implies(wb_busy, seen.lsu_wb_size == wb_size, seen.lsu_wb_crosses == wb.crosses),
        "the byte in WB": implies(wb_busy, seen.lsu_wb_byte == core.rvfi_mem_addr[_IN_WORD]),
        "what is under way is known to store": implies(outstanding, seen.lsu_fault__store == held.stores),
        "WB has asked": implies(wb_busy, held.stores == wb_stores, held.asked == wb_asks),
        "WB stores": implies(wb_busy & wb_stores & held.asked, held.stored == stored_wb),
        "EX has asked": implies(in_ex, held.stores == access.we, held.asked == (ex.accesses & ex.in_first)),
        "EX stores": implies(in_ex & access.we & held.asked, held.stored == stored_ex),
        "memory is as kept": unknown | (held.value == Mux(wb_is_made, stored_wb, Mux(ex_is_made, stored_ex, now))),
        "the first half in EX": implies(made & ~access.we & ex.accesses & ex.in_first, first == now),
        "the first half in WB": implies(wb_busy & ~wb_stores & wb.crosses & wb.accesses & wb.in_first, first == now),
    }
    return Property(wrong, invariants)
