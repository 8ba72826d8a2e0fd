from amaranth.hdl import Module

from xpulpnn.component import Component, In, Out
from xpulpnn.config import CoreConfig
from xpulpnn.isa.csr import CSRS, ZERO_CSRS, CsrAccess, CsrGroup

ADDRESS_BITS = 12


class CsrCheck(Component):
    """Decides whether a CSR may be accessed. Combinational."""

    def __init__(self, config: CoreConfig):
        ports = {
            "addr": In(ADDRESS_BITS),  #: CSR number.
            "write": In(1),  #: The access writes; otherwise it only reads.
            "legal": Out(1),  #: The register exists and may be accessed in this way.
        }
        if config.debug:
            #: debug_mode: The core is in debug mode; only with debug mode.
            ports["debug_mode"] = In(1)
        super().__init__(config, ports)

    def elaborate(self, platform):
        m = Module()
        with m.Switch(self.addr):
            with m.Case(*(csr.address for csr in ZERO_CSRS)):
                m.d.comb += self.legal.eq(1)
            for csr in CSRS:
                if csr.group in self.config.csr_groups and csr not in ZERO_CSRS:
                    with m.Case(csr.address):
                        if csr.group is CsrGroup.DEBUG:
                            m.d.comb += self.legal.eq(self.debug_mode)
                        else:
                            m.d.comb += self.legal.eq(~self.write if csr.access is CsrAccess.RO else 1)
        return m
