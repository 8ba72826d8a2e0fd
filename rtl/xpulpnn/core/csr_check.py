"""Legality of CSR accesses."""

from xpulpnn.component import Component, In, Out
from xpulpnn.isa.csr import CSRS, ZERO_CSRS, CsrAccess

ADDRESS_BITS = 12


class CsrCheck(Component):
    """Whether a CSR may be accessed (guide, "Control and status registers"). Combinational."""

    addr: In(ADDRESS_BITS)  #: CSR number.
    write: In(1)  #: The access writes; otherwise it only reads.
    legal: Out(1)  #: The register exists and may be accessed in this way.

    # config (CoreConfig): Decides which registers exist.
    def _build(self, m):
        with m.Switch(self.addr):
            with m.Case(*(csr.address for csr in ZERO_CSRS)):
                m.d.comb += self.legal.eq(1)
            for csr in CSRS:
                if csr.group in self.config.csr_groups and csr not in ZERO_CSRS:
                    with m.Case(csr.address):
                        m.d.comb += self.legal.eq(~self.write if csr.access is CsrAccess.RO else 1)
