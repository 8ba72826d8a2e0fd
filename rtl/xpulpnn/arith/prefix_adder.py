"""Carry-propagate adder with a parallel-prefix carry network."""

from amaranth.hdl import Cat, Const, Module, Signal, Value

from xpulpnn.component import Component, In, Out, signals

GROUP = 4  # bits that ripple before the parallel network, which keeps the network small
DENSE_GROUP = 2  # the same for adders on long paths


def _every(period: int, bits: int, width: int) -> Const:
    return Const(sum(bits << place for place in range(0, width, period)) % (1 << width), width)


def prefix_carries(m: Module, generate: Value, propagate: Value, carry: Value, group: int = GROUP) -> Value:
    """Return the carry into every bit of a sum; ``carry`` is the carry into bit 0.

    A sparse parallel-prefix network on ``generate`` and ``propagate`` bits: carries ripple through groups of ``group``
    bits, the carry out of a group covers twice as many groups with each level, and the carries inside a group ripple
    from the carry into the group.
    """
    width = len(propagate)
    # Position i stands for bit i - 1, so that the carry out of positions 0 to i is the carry into bit i.
    starts, passes = signals(width, "carry_starts carry_passes")
    m.d.comb += [starts.eq(Cat(carry, generate)), passes.eq(Cat(Const(0, 1), propagate))]

    reach: Value = starts
    through: Value = passes
    for place in range(1, group):
        further, beyond = signals(width, f"carry_group_{place} carry_through_group_{place}")
        m.d.comb += further.eq(starts | (passes & reach.shift_left(1)[:width]))
        m.d.comb += beyond.eq(passes & through.shift_left(1)[:width])
        reach, through = further, beyond

    # Only the top position of every group is kept from here on.
    tops = _every(group, 1 << (group - 1), width)
    reach, through = reach & tops, through & tops
    step = group
    while step < width:
        further, beyond = signals(width, f"carry_reach_{2 * step} carry_through_{2 * step}")
        m.d.comb += further.eq(reach | (through & reach.shift_left(step)[:width]))
        m.d.comb += beyond.eq(through & through.shift_left(step)[:width])
        reach, through = further, beyond
        step *= 2

    for place in range(group - 1):
        filled = Signal(width, name=f"carry_filled_{place}")
        into = _every(group, 1 << place, width)
        m.d.comb += filled.eq(reach | ((starts | (passes & reach.shift_left(1)[:width])) & into))
        reach = filled
    return reach


class PrefixAdder(Component):
    """Sum of two words.

    ``result = a + b`` modulo ``2**width``, with the carries of :func:`~xpulpnn.arith.prefix_adder.prefix_carries`.
    Yosys maps a plain addition to a Brent-Kung network of almost twice the depth, which ABC then makes even deeper.
    Combinational, no state.
    """

    def __init__(self, width: int, *, group: int = GROUP, complements: bool = False) -> None:
        self.width, self.group, self.complements = width, group, complements
        self.module_variant = f"{width}"
        #: a, b: Addends.
        #: result: Sum.
        ports = {"a": In(width), "b": In(width), "result": Out(width)}
        if complements:
            #: complement: The result is complemented, without delay; optional.
            ports["complement"] = In(1)
        super().__init__(ports=ports)

    def elaborate(self, platform):
        m = Module()
        alike, both, carries = signals(self.width, "alike both carries")
        m.d.comb += [
            alike.eq(self.a ^ self.b),
            both.eq(self.a & self.b),
            carries.eq(prefix_carries(m, both, alike, Const(0, 1), self.group)),
            self.result.eq(alike ^ carries),
        ]
        if self.complements:
            m.d.comb += self.result.eq((alike ^ self.complement.replicate(self.width)) ^ carries)
        return m
