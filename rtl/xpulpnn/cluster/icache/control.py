from amaranth.hdl import Const, Module, Mux, Signal

from xpulpnn.cluster.peripherals.registers import serve, written_value
from xpulpnn.cluster.ports import LINE_OFFSET_BITS, CacheControlSignature
from xpulpnn.component import Component, In, Out
from xpulpnn.config import ClusterConfig
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.cluster import Icache, IcacheCounter
from xpulpnn.isa.machine import WORD_BYTES, XLEN


class CacheControl(Component):
    """Enables and flushes the instruction caches, and counts their events.

    The registers are those of :class:`~xpulpnn.isa.cluster.Icache`. A flush takes effect in the cycle of the write; a
    write of ``ENABLE`` flushes too. ``FLUSH``, ``FLUSH_PRIVATE``, ``FLUSH_ADDRESS`` and ``CLEAR_COUNTERS`` read as 0.
    While ``COUNT`` is set, counters count events of all caches of a level, one cycle late; they wrap, and reset sets
    them to 0. Answers in the next cycle.
    """

    #: private, shared: Controls of the caches of each level.
    #: private_hits, private_misses, private_waits: Events of the cores' caches.
    #: shared_hits, shared_misses, shared_waits: Events of the banks of the shared cache.

    def __init__(self, config: ClusterConfig):
        #: port: Access to the registers; bits 9 to 2 of the address count.
        ports = {"port": In(ObiSignature())}
        for level, number in (("private", config.cores), ("shared", config.icache_shared_banks)):
            ports[level] = Out(CacheControlSignature())
            ports |= {f"{level}_{event}": In(number) for event in ("hits", "misses", "waits")}
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        port = self.port
        enable = Signal(init=1)
        count = Signal()
        prefetch = Signal(init=1) if self.config.prefetch else Const(0)
        actions = (Icache.FLUSH, Icache.FLUSH_PRIVATE, Icache.FLUSH_ADDRESS, Icache.CLEAR_COUNTERS)
        values = {
            Icache.ENABLE: enable,
            **dict.fromkeys(actions, Const(0)),
            Icache.COUNT: count,
            Icache.PREFETCH: prefetch,
        }
        counters = []
        for level, first in (("private", Icache.PRIVATE_COUNTERS), ("shared", Icache.SHARED_COUNTERS)):
            events = {name: getattr(self, f"{level}_{name}") for name in ("hits", "misses", "waits")}
            counts = {name: Signal(XLEN, name=f"{level}_{name}_count") for name in events}
            values |= {
                first + WORD_BYTES * IcacheCounter.HITS: counts["hits"],
                first + WORD_BYTES * IcacheCounter.TRANSACTIONS: (counts["hits"] + counts["misses"])[:XLEN],
                first + WORD_BYTES * IcacheCounter.MISSES: counts["misses"],
                first + WORD_BYTES * IcacheCounter.CONGESTION: counts["waits"],
            }
            for name, value in events.items():
                # grants of fetches are late in the cycle: the events are registered before they are added
                seen = Signal.like(value, name=f"{level}_{name}_seen")
                m.d.sync += seen.eq(Mux(count, value, 0))
                counters.append((counts[name], seen))
        written = serve(m, port, values)
        m.d.sync += [counter.eq(counter + sum(bits)) for counter, bits in counters]
        with m.If(written[Icache.CLEAR_COUNTERS]):
            m.d.sync += [signal.eq(0) for pair in counters for signal in pair]
        settings = {Icache.ENABLE: enable, Icache.COUNT: count}
        if self.config.prefetch:
            settings[Icache.PREFETCH] = prefetch
        for register, setting in settings.items():
            with m.If(written[register]):
                m.d.sync += setting.eq(written_value(port, setting))
        everything = written[Icache.FLUSH] | written[Icache.ENABLE]
        for level, flush in ((self.private, everything | written[Icache.FLUSH_PRIVATE]), (self.shared, everything)):
            m.d.comb += [
                level.enable.eq(enable),
                level.prefetch.eq(prefetch),
                level.flush.eq(flush),
                level.flush_line.eq(written[Icache.FLUSH_ADDRESS]),
                level.line.eq(port.wdata[LINE_OFFSET_BITS:]),
            ]
        return m
