from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import enum
from amaranth.utils import exact_log2

from xpulpnn.cluster.icache.ways import CacheWays
from xpulpnn.cluster.ports import LINE_BITS, LINE_OFFSET_BITS, CacheControlSignature, LineSignature, one_hot_mux
from xpulpnn.component import Component, In, Out, connect, flipped, set_and_clear, signals
from xpulpnn.config import ClusterConfig
from xpulpnn.core.obi import InstructionPortSignature
from xpulpnn.isa.machine import WORD_BYTES, XLEN

_WORD = exact_log2(WORD_BYTES)


class FetchState(enum.Enum, shape=2):
    """State of the port to the next cache level: idle, a requested line not yet granted, or a line outstanding."""

    READY, ASKING, WAITING = range(3)


class PrivateCache(Component):
    """Set-associative instruction cache that prefetches the next line.

    A hit is granted at once and answered in the next cycle: a word per cycle, also across lines. A miss requests its
    line in the cycle in which a hit would be answered, and is answered in the cycle in which the line arrives; no fetch
    is granted meanwhile. In the cycle in which a line is stored, fetches from the same set are not granted. When no
    miss waits, the line after that of the last lookup is requested, unless the cache has it or requested it last. One
    line is outstanding at a time, so a miss waits for a line that is being prefetched, and uses it if it is the missed
    line.

    A line of which a half could not be read is not stored; a word of that half is answered with the error. A line that
    was requested before a flush is not stored either, and serves no fetch answered after the flush. While the cache is
    disabled, every fetch is a miss.
    """

    def __init__(self, config: ClusterConfig, *, registered: bool = False):
        self.registered = registered  # lines are requested a cycle later, from registers
        ports = {
            "core": In(InstructionPortSignature()),  #: Fetches of the core.
            "line": Out(LineSignature()),  #: Lines of the next level.
            "control": In(CacheControlSignature()),  #: Controls from the registers of the caches.
            #: hit, miss: The cache has the fetched word, or not; in the cycle after the grant.
            "hit": Out(1),
            "miss": Out(1),
            "waits": Out(1),  #: A fetch is requested and not granted.
        }
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        config, core, line = self.config, self.core, self.line
        m.submodules.ways = ways = CacheWays(config.icache_private_sets, config.icache_ways, ahead=config.prefetch)
        connect(m, flipped(self.control), ways.control)
        pending, looked_up, comes, served, lookup = signals(1, "pending looked_up comes served lookup")
        offset = Signal(range(LINE_BITS // XLEN))
        m.d.comb += [
            served.eq(pending & (ways.hit | comes)),
            core.gnt.eq((~pending | served) & ~(ways.write & ways.same_set)),
            lookup.eq(core.req & core.gnt),
            ways.lookup.eq(lookup),
            ways.line.eq(core.addr[LINE_OFFSET_BITS:]),
            core.rvalid.eq(served),
            core.rdata.eq(self._word(ways, offset)),
            core.err.eq(~ways.hit & line.err.bit_select(offset[-1:], 1)),
            self.hit.eq(looked_up & ways.hit),
            self.miss.eq(looked_up & ~ways.hit),
            self.waits.eq(core.req & ~core.gnt),
        ]
        m.d.sync += [looked_up.eq(lookup), pending.eq(lookup | (pending & ~served))]
        with m.If(lookup):
            m.d.sync += offset.eq(core.addr[_WORD:LINE_OFFSET_BITS])
        self._lines(m, ways, comes, misses=pending & ~ways.hit)
        return m

    def _word(self, ways, offset):
        wins, words = [], []
        for have, data in [*zip(ways.found, ways.lines, strict=True), (~ways.hit, self.line.rdata)]:
            for number in range(LINE_BITS // XLEN):
                wins.append(have & (offset == number))
                words.append(data.word_select(number, XLEN))
        return one_hot_mux(wins, words)

    def _lines(self, m, ways, comes, misses):
        """Request missed lines and prefetched lines; ``comes`` is high when the missed line arrives."""
        line, control = self.line, self.control
        state = Signal(FetchState)
        requested_line = Signal.like(line.addr)
        # a flush has occurred since the line was requested
        stale = Signal(init=1)
        flushed, starts = signals(1, "flushed starts")
        ready, asking = state == FetchState.READY, state == FetchState.ASKING
        line_addr, gnt = line.addr, line.gnt
        if self.registered:
            line_addr, gnt = Signal.like(requested_line, name="chosen_line"), Const(0)
            m.d.comb += line.addr.eq(requested_line)
        sources = [(ready & misses, ways.looked), (~ready, requested_line)]
        if self.config.prefetch:
            sources.append((ready & ~misses, ways.next_line))
        m.d.comb += [
            flushed.eq(control.flush | control.flush_line),
            starts.eq(ready & misses),
            line.req.eq(asking if self.registered else starts | asking),
            line_addr.eq(one_hot_mux(*zip(*sources, strict=True))),
            comes.eq(line.rvalid & ~stale & (requested_line == ways.looked)),
            ways.write.eq(line.rvalid & ~stale & ~flushed & ~line.err.any() & control.enable),
            ways.write_line.eq(requested_line),
            ways.write_data.eq(line.rdata),
        ]
        if self.config.prefetch:
            # a lookup has occurred since the flush
            looked = Signal()
            with m.If(flushed):
                m.d.sync += looked.eq(0)
            with m.Elif(ways.lookup):
                m.d.sync += looked.eq(1)
            fetches_ahead = looked & ways.next_absent & (stale | (requested_line != ways.next_line))
            with m.If(~misses):
                m.d.comb += starts.eq(ready & control.enable & control.prefetch & fetches_ahead)
        with m.Switch(state):
            with m.Case(FetchState.READY), m.If(starts):
                m.d.sync += [requested_line.eq(line_addr), state.eq(Mux(gnt, FetchState.WAITING, FetchState.ASKING))]
            with m.Case(FetchState.ASKING), m.If(line.gnt):
                m.d.sync += state.eq(FetchState.WAITING)
            with m.Case(FetchState.WAITING), m.If(line.rvalid):
                m.d.sync += state.eq(FetchState.READY)
        set_and_clear(m, stale, flushed, starts)
