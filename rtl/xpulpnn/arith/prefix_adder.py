"""Carry-propagate adder with a parallel-prefix carry network."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class PrefixAdder(wiring.Component):
    """Sum of two words.

    ``result = a + b`` modulo ``2**width``. The carries are computed by Sklansky's network (J. Sklansky, Conditional-sum
    addition logic, 1960): ``ceil(log2(width))`` levels, the fewest possible, at half the cells of Kogge and Stone's.
    An addition left to synthesis becomes a network of twice the depth in Yosys. Combinational, no state.

    Parameters
    ----------
    width : int
        Bits of the words.

    Members
    -------
    a, b : In(width)
        Addends.
    result : Out(width)
        Sum.
    """

    def __init__(self, width: int) -> None:
        """Declare the ports."""
        self.width = width
        super().__init__({"a": In(width), "b": In(width), "result": Out(width)})

    def elaborate(self, platform: object) -> Module:
        """Build the network."""
        m = Module()
        half_sum = Signal(self.width)
        generate = Signal(self.width, name="generate_1")
        m.d.comb += [half_sum.eq(self.a ^ self.b), generate.eq(self.a & self.b)]
        propagate, span = half_sum, 1
        while span < self.width:
            generate, propagate = self.join(m, generate, propagate, span)
            span *= 2
        m.d.comb += self.result.eq(half_sum ^ (generate << 1))
        return m

    def join(self, m: Module, generate: Signal, propagate: Signal, span: int) -> tuple[Signal, Signal]:
        """One level: groups of ``span`` bits become groups of twice that, the upper half taking the lower's carry."""
        generates: list[Value] = []
        propagates: list[Value] = []
        for low in range(0, self.width, 2 * span):
            middle, high = min(low + span, self.width), min(low + 2 * span, self.width)
            generates.append(generate[low:middle])
            propagates.append(propagate[low:middle])
            if middle < high:
                upper = propagate[middle:high]
                generates.append(generate[middle:high] | (upper & generate[middle - 1].replicate(high - middle)))
                propagates.append(upper & propagate[middle - 1].replicate(high - middle))
        joined_generate = Signal(self.width, name=f"generate_{2 * span}")
        joined_propagate = Signal(self.width, name=f"propagate_{2 * span}")
        m.d.comb += joined_generate.eq(Cat(*generates))
        if 2 * span < self.width:
            m.d.comb += joined_propagate.eq(Cat(*propagates))
        return joined_generate, joined_propagate
