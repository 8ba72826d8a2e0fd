"""Instructions: each that retires is what memory holds at its address, and traps if the bus failed there."""

from amaranth.hdl import Cat, Mux, Signal

from xpulpnn.core.prefetch import DEPTH
from xpulpnn.isa.machine import HALF_BITS, LENGTH_BITS, XLEN, ExceptionCause
from xpulpnn_sim.proofs.pipeline.properties.invariants import Watched, implies

_WORD = slice(2, XLEN)  # bits of an address that say which word


class HeldWord:
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


def hold_word(m, port, held, waiting, rdata, err):
    """An instruction memory that holds a word."""
    asked = [Signal(2, name=f"held_asked{index}") for index in range(DEPTH)]
    granted = port.req & port.gnt
    for index, parts in enumerate(asked):
        left = Mux(port.rvalid, asked[index + 1] if index + 1 < DEPTH else 0, parts)
        newest = granted & (waiting - port.rvalid == index)
        m.d.sync += parts.eq(Mux(newest, held.parts(port.addr[_WORD]), left))
    return asked, *held.answered(asked[0], rdata, err)


def watch_fetches(core, seen, held, asked):
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
    return Watched({"word": here & ~is_right}, invariants)
