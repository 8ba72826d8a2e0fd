"""Obligations: what is to be proved of a unit, with all its ports at the outside."""

from abc import ABC, abstractmethod

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from xpulpnn.verilog import EmittedVerilog, emit

TOP = "claims"  # module of the component

PROVED, REFUTED = "proved", "refuted"  # verdicts: holds in every cycle after a reset; does not, as cycles show


class Obligation(wiring.Component, ABC):
    """A unit and claims about it, each an output that is 1 in every cycle after a reset.

    Parameters
    ----------
    title : str
        The unit for readers.
    unit : wiring.Component
        The unit.
    claims : dict[str, str]
        What each output means.
    registers : dict[str, tuple[str, int]]
        Inputs that are to show a register of the unit, the register's name and its width.
    ports : dict[str, Member]
        Further ports, in place of ``io``, all those of the unit.
    number : tuple[str, int]
        An input that stays the same, and how many values it has; none if its name is empty.
    depth : int
        Cycles that a proof by induction looks back.
    refuted : set[str]
        Claims that do not hold, and must not.
    """

    def __init__(self, title, unit, claims, registers, *, ports=None, number=("", 1), depth=1, refuted=()):
        self.title, self.unit, self.claims, self.depth, self.refuted = title, unit, claims, depth, frozenset(refuted)
        self.number, self.numbers = number
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
    def claim(self, m):
        """Build the logic that says whether the claims hold."""

    def expected(self, claim: str) -> str:
        """Verdict that the proof of a claim must end with."""
        return REFUTED if claim in self.refuted else PROVED

    def emit(self) -> EmittedVerilog:
        """Verilog of component and unit, without initial values: proofs begin with a reset, or anywhere."""
        return emit(self, TOP, config={}, initial=False)
