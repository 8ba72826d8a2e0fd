"""Carry network of few levels, described on whole words."""

from amaranth.hdl import Cat, Const, Module, Signal, Value

from xpulpnn.core.lanes import XLEN, every, steps

GROUP = 4
"""Places joined before the parallel network, which then has few enough nodes to be worth its area."""


def prefix_carries(m: Module, starting: Value, passing: Value, carry: Value) -> Value:
    """Carry into every bit of a sum, the lowest one being ``carry``.

    A sparse parallel prefix network: carries ripple through groups of four places, the carry out of each group doubles
    its reach with each level, and the carries inside the groups ripple from it.

    Parameters
    ----------
    m : Module
        Receives the logic.
    starting, passing : Value
        Bits that send a carry on their own, and bits that pass on the one they receive.
    carry : Value
        Carry into bit 0.
    """
    # Place i stands for bit i - 1, so that what leaves places 0 to i is the carry into bit i.
    starts = Signal(XLEN, name="carry_starts")
    passes = Signal(XLEN, name="carry_passes")
    m.d.comb += [starts.eq(Cat(carry, starting)), passes.eq(Cat(Const(0, 1), passing))]

    reach: Value = starts
    through: Value = passes
    for place in range(1, GROUP):
        further = Signal(XLEN, name=f"carry_group_{place}")
        beyond = Signal(XLEN, name=f"carry_through_group_{place}")
        m.d.comb += further.eq(starts | (passes & reach.shift_left(1)[:XLEN]))
        m.d.comb += beyond.eq(passes & through.shift_left(1)[:XLEN])
        reach, through = further, beyond

    # From here on both are 0 but at the top place of every group.
    reach = reach & every(GROUP, 1 << (GROUP - 1))
    through = through & every(GROUP, 1 << (GROUP - 1))
    for step in steps(GROUP):
        further = Signal(XLEN, name=f"carry_reach_{2 * step}")
        beyond = Signal(XLEN, name=f"carry_through_{2 * step}")
        m.d.comb += further.eq(reach | (through & reach.shift_left(step)[:XLEN]))
        m.d.comb += beyond.eq(through & through.shift_left(step)[:XLEN])
        reach, through = further, beyond

    for place in range(GROUP - 1):
        filled = Signal(XLEN, name=f"carry_filled_{place}")
        into = every(GROUP, 1 << place)
        m.d.comb += filled.eq(reach | ((starts | (passes & reach.shift_left(1)[:XLEN])) & into))
        reach = filled
    return reach
