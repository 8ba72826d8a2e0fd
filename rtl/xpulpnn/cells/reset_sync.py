from typing import Any

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, DomainRenamer, Module, Mux, ResetSignal, Signal

from xpulpnn.cells.sync import ASYNC_REG, STAGES
from xpulpnn.component import Component, In, Out, Wrapper, pass_ports


class ResetSync(Component):
    """Two flip-flops that release a reset at a rising edge; a cell of the technology may replace the module.

    The reset begins at once, and ends two rising edges after that of the port.
    """

    released: Out(1)  #: The reset is over.

    def elaborate(self, platform):
        m = Module()
        stages = Signal(STAGES, attrs=ASYNC_REG)
        m.d.sync += stages.eq(Cat(Const(1, 1), stages))
        m.d.comb += self.released.eq(stages[-1])
        return m


class ReleasedInStep(Wrapper):
    """A component whose asynchronous reset may be released at any time."""

    #: test_en: Scan test: the reset of the top is that of all registers, and clocks run; 0 otherwise.

    def __init__(self, component: Any):
        super().__init__(component.config, (component,), (), {"test_en": In(1)})
        component.module_variant = "inner"

    def elaborate(self, platform):
        m = Module()
        m.submodules.reset_sync = reset_sync = ResetSync()
        m.submodules.inner = DomainRenamer("released")(self.wrapped[0])
        m.domains += ClockDomain("released", local=True)
        reset = Mux(self.test_en, ResetSignal(), ~reset_sync.released)
        m.d.comb += [ClockSignal("released").eq(ClockSignal()), ResetSignal("released").eq(reset)]
        pass_ports(m, self, self.wrapped[0])
        return m
