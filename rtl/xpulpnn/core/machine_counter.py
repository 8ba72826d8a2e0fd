"""Machine counters: mcycle and minstret (guide, "Control and status registers")."""

from amaranth.hdl import Cat, Module, Mux, Signal

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.isa.machine import XLEN

FAST_BITS = 5
"""Number of low counter bits that are clocked with every event; the higher bits are clocked only with a carry."""


class MachineCounter(Component):
    """64-bit counter accessed in two halves. A write wins over the increment of the same cycle. Reset clears it.

    The last event may be cancelled: the count drops two cycles later. The carry into the upper half is known in
    advance, so both halves count in parallel.
    """

    step: In(1)  #: Count in this cycle; only with ``final``.
    final: In(1)  #: The last event stays counted.
    cancel: In(1)  #: The last event is cancelled; not with ``final``.
    #: we_low, we_high: Write a half.
    we_low: In(1)
    we_high: In(1)
    wdata: In(XLEN)  #: Value written.
    value: Out(2 * XLEN)  #: The count.

    def __init__(self, *, rests: bool = False):
        self.rests = rests  # bits above the lowest few are clocked only when they change
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        low, high = self.value[:XLEN], self.value[XLEN:]
        steps, counted, takes_back = signals(1, "steps counted takes_back")
        # the next event carries
        full = Signal()
        # a cancelled event carries
        empty = Signal()
        # plus or minus one
        step = Cat(1, takes_back.replicate(XLEN - 1))
        m.d.comb += [steps.eq(self.step ^ takes_back), empty.eq(~low.any())]
        m.d.sync += takes_back.eq(self.cancel & counted)
        with m.If(self.final):
            m.d.sync += counted.eq(self.step & ~self.we_low & ~self.we_high)
        with m.If(self.we_low):
            m.d.sync += [low.eq(self.wdata), full.eq(self.wdata.all())]
        with m.Elif(self.we_high):
            m.d.sync += high.eq(self.wdata)
        with m.Elif(steps):
            fast = low[:FAST_BITS] if self.rests else low
            m.d.sync += [fast.eq(fast + step), full.eq(Mux(takes_back, empty, low == (1 << XLEN) - 2))]
            if self.rests:
                with m.If(Mux(takes_back, ~fast.any(), fast.all())):
                    m.d.sync += low[FAST_BITS:].eq(low[FAST_BITS:] + step)
            with m.If(Mux(takes_back, empty, full)):
                m.d.sync += high.eq(high + step)
        return m
