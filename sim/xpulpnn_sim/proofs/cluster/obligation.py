"""Proof obligations: a unit together with properties that must hold."""

from abc import ABC, abstractmethod

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.verilog import EmittedVerilog, emit

TOP = "claims"  # module name

PROVED, REFUTED = "proved", "refuted"  # holds in every cycle after reset; violated by a counterexample


class Obligation(wiring.Component, ABC):
    """A unit and its properties, each an output that is 1 in every cycle after a reset if the property holds.

    ``claims`` has the statement of each claim by output. ``registers`` are inputs that read a register of the unit,
    with its name and width. ``ports`` replace ``io``, which has all ports of the unit. ``number`` is a constant input
    and its number of values, ``depth`` the depth of the induction in cycles. Claims in ``refuted`` must not hold.
    Outputs of the modules ``cutpoints`` are any values.
    """

    def __init__(
        self, title, unit, claims, registers, *, ports=None, number=("", 1), depth=1, refuted=(), cutpoints=()
    ):
        self.title, self.unit, self.claims, self.depth, self.refuted = title, unit, claims, depth, frozenset(refuted)
        self.number, self.numbers = number
        self.cutpoints = tuple(cutpoints)
        self.registers = {name: register for name, (register, _) in registers.items()}
        shown = {name: In(width) for name, (_, width) in registers.items()}
        ports = {"io": Out(unit.signature)} if ports is None else ports
        if self.number:
            shown[self.number] = In(range(self.numbers))
        super().__init__({**ports, **dict.fromkeys(claims, Out(1)), **shown})

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = self.unit
        if "io" in self.signature.members:
            ports = zip(self.unit.signature.flatten(self.unit), self.io.signature.flatten(self.io), strict=True)
            for (_, port, inner), (_, _, outer) in ports:
                m.d.comb += inner.eq(outer) if port.flow is In else outer.eq(inner)
        self.claim(m)
        return m

    @abstractmethod
    def claim(self, m): ...

    def expected(self, claim: str) -> str:
        return REFUTED if claim in self.refuted else PROVED

    def emit(self) -> EmittedVerilog:
        """Emit component and unit without initial values, as proofs begin with a reset or in any state."""
        return emit(self, TOP, config={}, initial=False)
