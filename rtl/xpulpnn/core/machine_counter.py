"""Machine counters: mcycle and minstret (guide, "Control and status registers")."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.isa.machine import XLEN


class MachineCounter(wiring.Component):
    """64-bit counter accessed in two halves. A write wins over the increment of the same cycle. Reset clears it.

    Members
    -------
    step : In(1)
        Count in this cycle.
    we_low, we_high : In(1)
        Write a half.
    wdata : In(32)
        Value written.
    value : Out(64)
        The count.
    """

    step: In(1)
    we_low: In(1)
    we_high: In(1)
    wdata: In(XLEN)
    value: Out(2 * XLEN)

    def elaborate(self, platform):
        """Build the register."""
        m = Module()
        with m.If(self.we_low):
            m.d.sync += self.value[:XLEN].eq(self.wdata)
        with m.Elif(self.we_high):
            m.d.sync += self.value[XLEN:].eq(self.wdata)
        with m.Elif(self.step):
            m.d.sync += self.value.eq(self.value + 1)
        return m
