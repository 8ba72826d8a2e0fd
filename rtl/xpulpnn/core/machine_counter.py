"""Machine counters: mcycle and minstret (guide, "Control and status registers")."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.isa.machine import XLEN


class MachineCounter(wiring.Component):
    """64-bit counter accessed in two halves. A write wins over the increment of the same cycle. Reset clears it.

    The last event may be taken back, which shows two cycles later.

    Members
    -------
    step : In(1)
        Count in this cycle; only with ``final``.
    final : In(1)
        The last event stays counted.
    cancel : In(1)
        The last event is taken back; not with ``final``.
    we_low, we_high : In(1)
        Write a half.
    wdata : In(32)
        Value written.
    value : Out(64)
        The count.
    """

    step: In(1)
    final: In(1)
    cancel: In(1)
    we_low: In(1)
    we_high: In(1)
    wdata: In(XLEN)
    value: Out(2 * XLEN)

    def elaborate(self, platform):
        """Build the register."""
        m = Module()
        counted = Signal()
        takes_back = Signal()
        with m.If(self.final):
            m.d.sync += counted.eq(self.step & ~self.we_low & ~self.we_high)
        with m.If(self.we_low):
            m.d.sync += self.value[:XLEN].eq(self.wdata)
        with m.Elif(self.we_high):
            m.d.sync += self.value[XLEN:].eq(self.wdata)
        with m.Elif(self.step ^ takes_back):
            m.d.sync += self.value.eq(self.value + Cat(1, takes_back.replicate(len(self.value) - 1)))
        m.d.sync += takes_back.eq(self.cancel & counted)
        return m
