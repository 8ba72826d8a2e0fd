# amaranth: UnusedElaboratable=no
from amaranth.hdl import Module

from xpulpnn.cells.clock_gate import add_gated, add_ungated_clock
from xpulpnn.component import In, Wrapper, optional, pass_ports
from xpulpnn.config import CoreConfig
from xpulpnn.core.core import Core


class GatedCore(Wrapper):
    """The core behind a clock gate, which stops its clock while it sleeps: nothing else changes, in no cycle.

    The clock runs in a reset, and from the very cycle on in which an enabled line of ``irq`` or ``debug_req`` rises.
    """

    #: test_en: Scan test: the clock always runs; 0 otherwise. Optional.

    def __init__(self, config: CoreConfig, *, fence_port: bool = False):
        wrapped = Core(config, fence_port=fence_port)
        super().__init__(config, (wrapped,), (), {"test_en": In(1)} if config.test_en else {})

    def elaborate(self, platform):
        m = Module()
        (core,) = self.wrapped
        add_ungated_clock(m)
        add_gated(m, "core", core, ~core.core_sleep, optional(self, "test_en"))
        pass_ports(m, self, core)
        return m


def core_of(config: CoreConfig, *, fence_port: bool = False) -> Core | GatedCore:
    """Return the core of a configuration, behind a clock gate if it has one."""
    return (GatedCore if config.clock_gate else Core)(config, fence_port=fence_port)
