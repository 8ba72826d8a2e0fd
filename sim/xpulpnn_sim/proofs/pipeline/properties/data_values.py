"""Data: what a load brings is what the last older store put there, whatever sizes, addresses and timing."""

from amaranth.hdl import Cat, Mux, Signal, Value

from xpulpnn.core.control import LsuCtrl
from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, XLEN, ExceptionCause
from xpulpnn_sim.proofs.pipeline.properties.invariants import Watched, implies

_WORD = slice(2, XLEN)  # bits of an address that say which word

_IN_WORD = slice(0, 2)  # bits of an address that say which byte of it

_IN_BYTE = BYTE_BITS.bit_length() - 1  # bits of a number that say which bit of a byte


class HeldBit:
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


def watch_data(m, core, seen, started, held):
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
    return Watched(wrong, invariants)
