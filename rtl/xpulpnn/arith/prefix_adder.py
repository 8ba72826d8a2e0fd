"""Carry-propagate adder with a parallel-prefix carry network."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib.wiring import Component, In, Out

from xpulpnn.arith.prefix import prefix_carries


class PrefixAdder(Component):
    """Sum of two words.

    ``result = a + b`` modulo ``2**width``, with the carries of :func:`~xpulpnn.arith.prefix.prefix_carries`. An
    addition left to synthesis becomes a Brent-Kung network in Yosys, of almost twice the depth, which ABC then rewrites
    into something deeper still. Combinational, no state.
    """

    def __init__(self, width: int) -> None:
        self.width = width  # Bits of the words.
        #: a, b: Addends.
        #: result: Sum.
        super().__init__({"a": In(width), "b": In(width), "result": Out(width)})

    def elaborate(self, platform: object) -> Module:
        """Build the network and the sum."""
        m = Module()
        alike = Signal(self.width)
        both = Signal(self.width)
        carries = Signal(self.width)
        m.d.comb += [
            alike.eq(self.a ^ self.b),
            both.eq(self.a & self.b),
            carries.eq(prefix_carries(m, both, alike, Const(0, 1))),
            self.result.eq(alike ^ carries),
        ]
        return m
