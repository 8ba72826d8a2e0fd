from amaranth.hdl import Module, Signal

from xpulpnn.component import Component, In, Out, signals
from xpulpnn.core.alu_ctrl import AluCompare, LaneFmt
from xpulpnn.core.lanes import ALL_ONES, XLEN, Lanes, every, steps


class SimdComparator(Component):
    """Lane-wise relation of two packed words, from the carries of their subtraction.

    ``mask[i] = all ones if left[i] compare right[i] else 0``. Combinational.
    """

    fmt: In(LaneFmt)  #: Partition.
    compare: In(AluCompare)  #: Relation.
    signed: In(1)  #: Order as signed lanes.
    left: In(XLEN)  #: Left operand; the right one is complemented, as ``right_n``, at the subtractor.
    alike: In(XLEN)  #: ``left ^ right_n``: bits in which the operands are equal.
    carries: In(XLEN)  #: Carries into the lane tops of ``left + right_n + 1``.
    mask: Out(XLEN)  #: Result of the relation, over whole lanes.
    holds: Out(1)  #: Result in the top lane, or in the word with the WORD partition; earlier than ``mask``.

    # config (CoreConfig): Only its SIMD widths are built.
    def elaborate(self, platform):
        m = Module()
        lanes = Lanes(m, self.config, self.fmt)
        decided, borrow_counts, relation = signals(XLEN, "decided borrow_counts relation")
        not_equal, use_less, opposite = self.compare.as_value()
        equal = self.alike
        for step in steps(1):
            # Only tops of blocks of twice the step can be tops of lanes wider than the step.
            block_tops = every(2 * step, 1 << (2 * step - 1))
            ignore = (~lanes.at_least(2 * step)).replicate(XLEN) | (block_tops ^ ALL_ONES)
            wider = Signal(XLEN, name=f"equal_{2 * step}")
            m.d.comb += wider.eq(equal & (equal.shift_left(step)[:XLEN] | ignore))
            equal = wider
        m.d.comb += [
            # Different top bits decide, by signedness; with equal ones the borrow from the bits below decides, which is
            # late.
            decided.eq(
                (equal & ~not_equal.replicate(XLEN))
                | (~self.alike & (self.left ^ (~self.signed).replicate(XLEN)) & use_less.replicate(XLEN))
            ),
            borrow_counts.eq(self.alike & ~decided & use_less.replicate(XLEN)),
            relation.eq((decided ^ opposite.replicate(XLEN)) ^ (borrow_counts & ~self.carries)),
            self.holds.eq(relation[-1]),
            self.mask.eq(lanes.spread_down("mask", relation & lanes.msbs)),
        ]
        return m
