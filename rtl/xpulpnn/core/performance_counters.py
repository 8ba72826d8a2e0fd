"""PULP performance counters (guide, "Performance counters")."""

from amaranth.hdl import Cat, Module

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.isa.csr import CSR_BY_NAME, PERFORMANCE_EVENTS
from xpulpnn.isa.machine import XLEN


class PerformanceCounters(Component):
    """Event counters of 32 bits with individual and global enables and optional saturation; reset clears them.

    Reset sets the global enable and the saturation mode to 1.
    """

    #: count0 ... count16: PCCR0 to PCCR16.

    PORT_MEANINGS = {f"count{event}": f"PCCR{event}: {name}." for event, name in enumerate(PERFORMANCE_EVENTS)}

    def __init__(self):
        number = len(PERFORMANCE_EVENTS)
        #: events: Events of this cycle, a bit per event of ``PERFORMANCE_EVENTS``.
        #: we: Write counter k.
        ports = {name: In(number) for name in ("events", "we")}
        #: we_all, we_enable, we_mode: Write all counters, PCER, PCMR.
        #: wdata: Value to write, which wins over the increment of the same cycle.
        ports |= {name: In(1) for name in ("we_all", "we_enable", "we_mode")} | {"wdata": In(XLEN)}
        ports |= {f"count{event}": Out(XLEN) for event in range(number)}
        mode = CSR_BY_NAME["pcmr"]
        #: enable: PCER.
        #: mode: PCMR: global enable, saturate.
        ports |= {"enable": Out(number), "mode": Out(mode.writable.bit_length(), init=mode.reset)}
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        counting, saturating = signals(1, "counting saturating")
        m.d.comb += Cat(counting, saturating).eq(self.mode)
        for event in range(len(PERFORMANCE_EVENTS)):
            count = getattr(self, f"count{event}")
            steps = self.events[event] & self.enable[event] & counting & ~(saturating & count.all())
            with m.If(self.we_all | self.we[event]):
                m.d.sync += count.eq(self.wdata)
            with m.Elif(steps):
                m.d.sync += count.eq(count + 1)
        with m.If(self.we_enable):
            m.d.sync += self.enable.eq(self.wdata)
        with m.If(self.we_mode):
            m.d.sync += self.mode.eq(self.wdata)
        return m
