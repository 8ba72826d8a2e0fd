"""A unit with all its ports at the outside."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Surroundings(wiring.Component):
    """A unit, and outputs about it."""

    def __init__(self, unit, claims, shown):
        self.unit = unit
        super().__init__({"io": Out(unit.signature), **dict.fromkeys(claims, Out(1)), **shown})

    def surround(self, m):
        """Add the unit to a module."""
        m.submodules.unit = self.unit
        ports = zip(self.unit.signature.flatten(self.unit), self.io.signature.flatten(self.io), strict=True)
        for (_, port, inner), (_, _, outer) in ports:
            m.d.comb += inner.eq(outer) if port.flow is In else outer.eq(inner)
