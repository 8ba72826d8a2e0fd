"""Partitioned adder."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.config import CoreConfig
from xpulpnn.core.alu_ctrl import LaneFmt
from xpulpnn.core.lanes import XLEN, Lanes


class SimdAdder(wiring.Component):
    """Lane-wise addition with one carry-in for every lane.

    ``sum[i] = addend_a[i] + addend_b[i] + carry``, modulo the lane width; a subtraction passes the complement of the
    subtrahend and ``carry = 1``. Combinational.

    One 32-bit adder serves every partition. Lane tops are taken out of it: there both of its operands are ``carry``,
    so that the bit below cannot disturb the next lane, the next lane receives its carry-in, and the adder shows the
    carry into the lane top, to which the two removed bits are added without a carry.

    Parameters
    ----------
    config : CoreConfig
        Only the element widths in it are built.

    Members
    -------
    fmt : In(LaneFmt)
        Partition.
    addend_a, addend_b : In(32)
        Packed addends.
    carry : In(1)
        Carry into every lane.
    sum : Out(32)
        Packed sums.
    top_carries : Out(32)
        At lane tops the carry into that bit; meaningless elsewhere.
    """

    fmt: In(LaneFmt)
    addend_a: In(XLEN)
    addend_b: In(XLEN)
    carry: In(1)
    sum: Out(XLEN)
    top_carries: Out(XLEN)

    def __init__(self, config: CoreConfig) -> None:
        """Set the configuration."""
        self._config = config
        super().__init__()

    def elaborate(self, _platform: object) -> Module:
        """Build the adder."""
        m = Module()
        lanes = Lanes(m, self._config, self.fmt)
        tops = Signal(XLEN)
        inner_a = Signal(XLEN)
        inner_b = Signal(XLEN)
        total = Signal(XLEN + 1)
        m.d.comb += [
            tops.eq(lanes.msbs & self.carry.replicate(XLEN)),
            inner_a.eq((self.addend_a & ~lanes.msbs) | tops),
            inner_b.eq((self.addend_b & ~lanes.msbs) | tops),
            # The carry-in enters as a carry out of an extra lowest place, which keeps this a two-operand sum.
            total.eq(Cat(Const(1, 1), inner_a) + Cat(self.carry, inner_b)),
            self.top_carries.eq(total[1:]),
            self.sum.eq(self.top_carries ^ ((self.addend_a ^ self.addend_b) & lanes.msbs)),
        ]
        return m
