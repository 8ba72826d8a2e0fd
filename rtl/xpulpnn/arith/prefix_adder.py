"""Carry-propagate adder with a parallel-prefix carry network."""

from amaranth.hdl import Cat, Const, Module, Signal, Value

from xpulpnn.component import Component, In, Out, signals

GROUP = 4  # places joined before the parallel network, which then has few enough nodes to be worth its area
DENSE_GROUP = 2  # the same where the way through the adder is a long one


def _every(period: int, bits: int, width: int) -> Const:
    """The low ``period``-bit pattern ``bits`` repeated over ``width`` bits."""
    return Const(sum(bits << place for place in range(0, width, period)) % (1 << width), width)


def prefix_carries(m: Module, starting: Value, passing: Value, carry: Value, group: int = GROUP) -> Value:
    """Carry into every bit of a sum, the lowest one being ``carry``.

    A sparse parallel prefix network: carries ripple through groups of ``group`` places, the carry out of each group
    doubles its reach with each level, and the carries inside the groups ripple from it.
    """
    width = len(passing)
    # Place i stands for bit i - 1, so that what leaves places 0 to i is the carry into bit i.
    starts, passes = signals(width, "carry_starts carry_passes")
    m.d.comb += [starts.eq(Cat(carry, starting)), passes.eq(Cat(Const(0, 1), passing))]

    reach: Value = starts
    through: Value = passes
    for place in range(1, group):
        further, beyond = signals(width, f"carry_group_{place} carry_through_group_{place}")
        m.d.comb += further.eq(starts | (passes & reach.shift_left(1)[:width]))
        m.d.comb += beyond.eq(passes & through.shift_left(1)[:width])
        reach, through = further, beyond

    # From here on both are 0 but at the top place of every group.
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

    ``result = a + b`` modulo ``2**width``, with the carries of :func:`~xpulpnn.arith.prefix_adder.prefix_carries`. An
    addition left to synthesis becomes a Brent-Kung network in Yosys, of almost twice the depth, which ABC then rewrites
    into something deeper still. Combinational, no state.
    """

    def __init__(self, width: int, *, group: int = GROUP, complements: bool = False) -> None:
        self.width, self.group, self.complements = width, group, complements  # Bits of the words.
        self.module_variant = f"{width}"
        #: a, b: Addends.
        #: result: Sum.
        ports = {"a": In(width), "b": In(width), "result": Out(width)}
        if complements:
            #: complement: The result is complemented, which takes no time; on request.
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
