"""Carry networks of few levels, described on whole words."""

from amaranth.hdl import Cat, Const, Module, Signal, Value

from xpulpnn.core.lanes import ALL_ONES, XLEN, every, steps

_ODD = every(2, 0b10)
_EVEN = _ODD ^ ALL_ONES


def prefix_carries(m: Module, starting: Value, passing: Value, carry: Value) -> Value:
    """Carry into every bit of a sum, the lowest one being ``carry``.

    A sparse parallel prefix network: the carry into every second bit doubles its reach with each level, the others
    follow from their neighbours. Six levels, two loads per place.

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
    reach = Signal(XLEN, name="carry_reach_2")
    through = Signal(XLEN, name="carry_through_2")
    m.d.comb += [
        starts.eq(Cat(carry, starting)),
        passes.eq(Cat(Const(0, 1), passing)),
        reach.eq((starts | (passes & starts.shift_left(1)[:XLEN])) & _ODD),
        through.eq(passes & passes.shift_left(1)[:XLEN] & _ODD),
    ]
    for step in steps(2):
        further = Signal(XLEN, name=f"carry_reach_{2 * step}")
        beyond = Signal(XLEN, name=f"carry_through_{2 * step}")
        m.d.comb += further.eq(reach | (through & reach.shift_left(step)[:XLEN]))
        m.d.comb += beyond.eq(through & through.shift_left(step)[:XLEN])
        reach, through = further, beyond
    return reach | ((starts | (passes & reach.shift_left(1)[:XLEN])) & _EVEN)
