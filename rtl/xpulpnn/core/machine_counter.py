"""Machine counters: mcycle and minstret (guide, "Control and status registers")."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.isa.machine import XLEN


class MachineCounter(wiring.Component):
    """64-bit counter accessed in two halves. A write wins over the increment of the same cycle. Reset clears it.

    The last event is counted, but may still be taken back.

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
        count = Signal.like(self.value)
        last = Signal()
        m.d.comb += self.value.eq(count + last)
        with m.If(self.final):
            m.d.sync += [count.eq(self.value), last.eq(self.step & ~self.we_low & ~self.we_high)]
        with m.If(self.cancel):
            m.d.sync += last.eq(0)
        with m.If(self.we_low):
            m.d.sync += count[:XLEN].eq(self.wdata)
        with m.If(self.we_high):
            m.d.sync += count[XLEN:].eq(self.wdata)
        return m
