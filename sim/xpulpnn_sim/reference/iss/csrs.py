"""CSRs of the simulator (guide, "Machine state")."""

import ctypes
from typing import Any

from xpulpnn.isa import csr as isa
from xpulpnn_sim.reference.iss.library import PRESENT, READ_ONLY, WRITE_ONLY, NativeHart, library
from xpulpnn_sim.reference.statements.cpp import CSR_PLACES

_ACCESS = {isa.CsrAccess.RO: PRESENT | READ_ONLY, isa.CsrAccess.WO: PRESENT | WRITE_ONLY}


class SimulatedCsrs:
    def __init__(self, boot_address: int, hart_id: int, groups: frozenset[isa.CsrGroup], hart: Any = None) -> None:
        """Set all CSRs of a hart, if there is one, to their reset values. Debug mode is not simulated."""
        self.hart = hart or NativeHart(fetches_anew=1)  # without memory
        for csr in isa.CSRS:
            if csr.group in groups:
                self[csr.name] = csr.reset
                is_debug = csr.group is isa.CsrGroup.DEBUG
                self.hart.access[csr.address] = 0 if is_debug else _ACCESS.get(csr.access, PRESENT)
        self["mtvec"] |= boot_address & isa.MTVEC_BASE
        self["mhartid"] = hart_id
        self["misa"] &= isa.ALL_BITS if isa.CsrGroup.HWLOOP in groups else ~isa.MISA_X

    def call(self, function: str, *arguments: int) -> int:
        return getattr(library(), function)(ctypes.byref(self.hart), *map(ctypes.c_uint64, arguments)) & isa.ALL_BITS

    def __getitem__(self, name: str) -> int:
        """Return a value by name; registers that the core lacks are 0."""
        return self.hart.csr[CSR_PLACES[name]]

    def __setitem__(self, name: str, value: int) -> None:
        self.hart.csr[CSR_PLACES[name]] = value

    def pass_time(self, cycles: int) -> None:
        self.hart.skipped = 0
        self.call("pass", cycles, 0, self["mcountinhibit"])
