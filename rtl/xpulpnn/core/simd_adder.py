from amaranth.hdl import Module, Signal

from xpulpnn.arith.prefix_adder import prefix_carries
from xpulpnn.component import Component, In, Out, signals
from xpulpnn.core.alu_ctrl import LaneFmt
from xpulpnn.core.lanes import XLEN, Lanes


class SimdAdder(Component):
    """Lane-wise addition with one carry-in for every lane.

    ``sum[i] = addend_a[i] + addend_b[i] + carry``, modulo the lane width; a subtraction passes the complement of the
    subtrahend and ``carry = 1``. Combinational.

    One carry network serves every partition. The top bit of every lane generates ``carry`` and propagates nothing, so
    that the lane above receives the carry-in and no carry of its neighbour.
    """

    fmt: In(LaneFmt)  #: Partition.
    #: addend_a, addend_b: Packed addends.
    addend_a: In(XLEN)
    addend_b: In(XLEN)
    carry: In(1)  #: Carry into every lane.
    sum: Out(XLEN)  #: Packed sums.
    alike: Out(XLEN)  #: ``addend_a ^ addend_b``.
    both: Out(XLEN)  #: ``addend_a & addend_b``.
    carries: Out(XLEN)  #: Carry into every bit.

    # config (CoreConfig): Only its SIMD widths are built; inferred ``adders`` make the adder a single sum.
    def elaborate(self, platform):
        m = Module()
        lanes = Lanes(m, self.config, self.fmt)
        if self.config.dotp.adders == "inferred":
            self._infer(m, lanes)
            return m
        starting, passing = signals(XLEN, "starting passing")
        m.d.comb += [
            self.alike.eq(self.addend_a ^ self.addend_b),
            self.both.eq(self.addend_a & self.addend_b),
            starting.eq((self.both & ~lanes.msbs) | (lanes.msbs & self.carry.replicate(XLEN))),
            passing.eq(self.alike & ~lanes.msbs),
            self.carries.eq(prefix_carries(m, starting, passing, self.carry)),
            self.sum.eq(self.alike ^ self.carries),
        ]
        return m

    def _infer(self, m: Module, lanes: Lanes) -> None:
        """Build one sum in which the top bits of a lane's addends both are ``carry``, so that they carry it to the lane
        above and their sum is the carry into them."""
        rest, injected = signals(XLEN, "rest injected")
        total = Signal(XLEN)
        m.d.comb += [
            rest.eq(~lanes.msbs),
            injected.eq(lanes.msbs & self.carry.replicate(XLEN)),
            total.eq(((self.addend_a & rest) | injected) + ((self.addend_b & rest) | injected) + self.carry),
            self.alike.eq(self.addend_a ^ self.addend_b),
            self.both.eq(self.addend_a & self.addend_b),
            self.sum.eq(total ^ (self.alike & lanes.msbs)),
            self.carries.eq(self.sum ^ self.alike),
        ]
