from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import enum
from amaranth.utils import exact_log2

from xpulpnn.cluster.icache.ways import CacheWays
from xpulpnn.cluster.ports import (
    LINE_BEATS,
    LINE_BITS,
    LINE_NUMBER_BITS,
    REFILL_BITS,
    CacheControlSignature,
    one_hot_mux,
)
from xpulpnn.cluster.tcdm.arbiter import Arbiter
from xpulpnn.component import Component, In, Out, connect, flipped, signals
from xpulpnn.config import ClusterConfig


class BankState(enum.Enum, shape=2):
    LOOKUP, ASKING, WAITING, STORING = range(4)


class CacheBank(Component):
    """One bank of the shared instruction cache: tags and lines in single-port memories, one miss at a time.

    A request granted in cycle t is looked up; a hit is answered in t + 2, and requests may be granted in every cycle. A
    miss requests the line in t + 2. In the cycle after the last part of the line has come, the miss is answered and the
    line is stored; requests are granted again from the next cycle on. The counter arbiter chooses among several
    requests. A line of which a part could not be read, or that was requested before a flush, is answered and not
    stored.
    """

    def __init__(self, config: ClusterConfig):
        ports = {
            "req": In(config.cores),  #: Requests of the cores' caches.
            "gnt": Out(config.cores),  #: The request that is granted.
            "lines": In(LINE_NUMBER_BITS).array(config.cores),  #: Numbers of the lines requested.
            "rvalid": Out(config.cores),  #: The request that is answered.
            "rdata": Out(LINE_BITS),  #: The line, valid with ``rvalid``.
            "err": Out(LINE_BEATS),  #: Halves of the line that could not be read, valid with ``rvalid``.
            "miss_req": Out(1),  #: A line is requested from memory; it stays high until it is granted.
            "miss_gnt": In(1),  #: The request is accepted.
            #: miss_line: Number of the requested line; it stays until the last part of the line has come.
            "miss_line": Out(LINE_NUMBER_BITS),
            "part_valid": In(1),  #: A part of the line has come, in order.
            "part": In(REFILL_BITS),  #: The part of the line.
            "part_err": In(1),  #: The part could not be read.
            "control": In(CacheControlSignature()),  #: Controls from the registers of the caches.
            #: hit, miss: The bank has the requested line, or not; in the cycle after the grant.
            "hit": Out(1),
            "miss": Out(1),
            "waits": Out(1),  #: A request is not granted.
        }
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        config, control = self.config, self.control
        m.submodules.ways = ways = CacheWays(
            config.icache_shared_sets,
            config.icache_ways,
            common=exact_log2(config.icache_shared_banks),
            single_port=True,
        )
        connect(m, flipped(control), ways.control)
        m.submodules.arbiter = arbiter = Arbiter(config.cores, "counter")
        state = Signal(BankState)
        owner = Signal(config.cores)
        looked_up, stale, flushed, ends = signals(1, "looked_up stale flushed ends")
        beat = Signal(range(LINE_BEATS))
        # with late results lookups are two cycles apart, as a miss is known late
        rests = looked_up if config.core.late_results else self.miss
        m.d.comb += [
            flushed.eq(control.flush | control.flush_line),
            arbiter.req.eq(Mux((state == BankState.LOOKUP) & ~rests, self.req, 0)),
            self.gnt.eq(arbiter.gnt),
            self.waits.eq((self.req & ~self.gnt).any()),
            ways.lookup.eq(arbiter.gnt.any()),
            ways.line.eq(one_hot_mux(arbiter.gnt, self.lines)),
            self.hit.eq(looked_up & ways.hit),
            self.miss.eq(looked_up & ~ways.hit),
            self.miss_req.eq(state == BankState.ASKING),
            self.miss_line.eq(ways.looked),
            ends.eq(self.part_valid & beat.all()),
            ways.write.eq((state == BankState.STORING) & ~stale & ~flushed & ~self.err.any() & control.enable),
            ways.write_line.eq(ways.looked),
            ways.write_data.eq(self.rdata),
        ]
        m.d.sync += [looked_up.eq(ways.lookup), self.rvalid.eq(Mux(self.hit | ends, owner, 0))]
        with m.If(ways.lookup):
            m.d.sync += owner.eq(arbiter.gnt)
        with m.If(self.part_valid):
            m.d.sync += beat.eq(beat + 1)
        # an OR of the line looked up, the new part and earlier parts, at most one of which is not 0: a miss finds no
        # line
        data = one_hot_mux(ways.found, ways.lines)
        for number in range(LINE_BEATS):
            comes = self.part_valid & (beat == number)
            stays = beat > number
            part = self.rdata.word_select(number, REFILL_BITS)
            m.d.sync += [
                part.eq(one_hot_mux([comes, stays], [self.part, part]) | data.word_select(number, REFILL_BITS)),
                self.err[number].eq(one_hot_mux([comes, stays], [self.part_err, self.err[number]])),
            ]
        with m.If(self.miss | flushed):
            m.d.sync += stale.eq(flushed)
        with m.Switch(state):
            with m.Case(BankState.LOOKUP), m.If(self.miss):
                m.d.sync += state.eq(BankState.ASKING)
            with m.Case(BankState.ASKING), m.If(self.miss_gnt):
                m.d.sync += state.eq(BankState.WAITING)
            with m.Case(BankState.WAITING), m.If(ends):
                m.d.sync += state.eq(BankState.STORING)
            with m.Case(BankState.STORING):
                m.d.sync += state.eq(BankState.LOOKUP)
        return m
