"""CSRs of the simulator (guide, "Machine state")."""

from collections.abc import Iterable

from xpulpnn.isa import csr as isa
from xpulpnn.isa.machine import IRQ_BITS, IRQ_PRIORITY, VECTOR_BYTES, XLEN
from xpulpnn_sim.reference.iss.fetched import Fetched
from xpulpnn_sim.reference.iss.library import NativeHart
from xpulpnn_sim.reference.statements.cpp import CSR_PLACES

INHIBIT = {"mcycle": 1 << isa.MCOUNTINHIBIT_CY_BIT, "minstret": 1 << isa.MCOUNTINHIBIT_IR_BIT}
"""The bit of mcountinhibit that stops each counter."""

COUNTERS = tuple(f"pccr{event}" for event in range(len(isa.PERFORMANCE_EVENTS)))
"""Names of the PULP performance counters by event."""

PCMR_COUNTS, PCMR_SATURATES = 1 << 0, 1 << 1

_FLAGS = {"MIE": isa.MSTATUS_MIE_BIT, "MPIE": isa.MSTATUS_MPIE_BIT}


class SimulatedCsrs:
    def __init__(
        self,
        boot_address: int,
        hart_id: int,
        groups: frozenset[isa.CsrGroup],
        hart: NativeHart | None = None,
        *,
        is_xpulp: bool,
    ) -> None:
        """Set all CSRs of a hart, if there is one, to their reset values."""
        self._hart, self._groups = hart or NativeHart(), groups
        self.irq = 0
        self.written: set[str] = set()
        for csr in isa.CSRS:
            self[csr.name] = csr.reset if csr.group in groups else 0
        self["mtvec"] |= boot_address & isa.MTVEC_BASE
        self["mhartid"] = hart_id
        if not is_xpulp:
            self["misa"] &= ~isa.MISA_X

    def find(self, address: int) -> isa.Csr | None:
        csr = isa.CSR_BY_ADDRESS.get(address)
        return csr if csr is not None and csr.group in self._groups else None

    def read(self, csr: isa.Csr) -> int:
        if csr.name == "mip":
            return self.irq & IRQ_BITS
        if csr.access is isa.CsrAccess.WO:
            return 0
        if csr.group in isa.NN_GROUPS:
            return self._hart.nn[csr.address - isa.NN_BASE]
        return self[f"m{csr.name}" if csr.access is isa.CsrAccess.RO and f"m{csr.name}" in CSR_PLACES else csr.name]

    def write(self, csr: isa.Csr, value: int) -> None:
        if csr.name == "pccrall":
            self.written |= {*COUNTERS}
            for name in COUNTERS:
                self[name] = value
            return
        if csr.group in isa.NN_GROUPS:
            self._hart.nn[csr.address - isa.NN_BASE] = value
            return
        self[csr.name] = (self[csr.name] & ~csr.writable) | (value & csr.writable)
        self.written.add(csr.name)

    def access(self, address: int, writes: int, value: int) -> int:
        """Make an access of compiled code."""
        csr = isa.CSR_BY_ADDRESS[address]
        if not writes:
            return self.read(csr)
        self.write(csr, value)
        self._hart.skipped = sum(1 << event for event, name in enumerate(COUNTERS) if name in self.written)
        return 0

    def __getitem__(self, name: str) -> int:
        """Return a value by name; registers that the core lacks are 0."""
        return self._hart.csr[CSR_PLACES[name]]

    def __setitem__(self, name: str, value: int) -> None:
        self._hart.csr[CSR_PLACES[name]] = value

    def advance(self, cycles: int, retired: int, inhibit: int) -> None:
        """Advance the counters of cycles and retired instructions, unless inhibited or just written."""
        for name, high, amount in (("mcycle", "mcycleh", cycles), ("minstret", "minstreth", retired)):
            if not amount or inhibit & INHIBIT[name] or (self.written and self.written & {name, high}):
                continue
            total = (self[high] << XLEN | self[name]) + amount
            self[name], self[high] = total & isa.ALL_BITS, total >> XLEN & isa.ALL_BITS

    @property
    def counted_events(self) -> int:
        """A bit mask of the events that the performance counters count now."""
        return self["pcer"] if self["pcmr"] & PCMR_COUNTS else 0

    def count_events(self, events: Iterable[int], enabled: int, *, saturates: bool) -> None:
        """Advance the enabled counters of ``events`` that this instruction does not write."""
        for event in events:
            name = COUNTERS[event]
            if not enabled >> event & 1 or name in self.written:
                continue
            value = self[name]
            if not (saturates and value == isa.ALL_BITS):
                self[name] = (value + 1) & isa.ALL_BITS

    @property
    def saturates(self) -> bool:
        return bool(self["pcmr"] & PCMR_SATURATES)

    @property
    def wakes(self) -> bool:
        """Return whether an enabled interrupt is pending. It ends wfi even if MIE is 0."""
        return bool(self.irq & self["mie"] & IRQ_BITS)

    def interrupt(self) -> int | None:
        """Return the interrupt that is taken before the next instruction, or None."""
        if not (self.flag("MIE") and self.wakes):
            return None
        pending = self.irq & self["mie"]
        return next(line for line in IRQ_PRIORITY if pending >> line & 1)

    def flag(self, name: str) -> int:
        return self["mstatus"] >> _FLAGS[name] & 1

    def set_flag(self, name: str, value: int) -> None:
        self["mstatus"] = self["mstatus"] & ~(1 << _FLAGS[name]) | value << _FLAGS[name]

    def enter_trap(self, cause: int, pc: int) -> int:
        """Save ``pc`` and ``cause`` and disable interrupts; returns the address of the handler."""
        self.set_flag("MPIE", self.flag("MIE"))
        self.set_flag("MIE", 0)
        self["mepc"], self["mcause"] = pc, cause
        base = self["mtvec"] & isa.MTVEC_BASE
        if cause & isa.MCAUSE_INTERRUPT and self["mtvec"] & isa.MTVEC_VECTORED:
            return base + VECTOR_BYTES * (cause & ~isa.MCAUSE_INTERRUPT)
        return base


def csr_is_legal(fetched: Fetched, csrs: SimulatedCsrs) -> bool:
    """Return whether the register exists, and is not a read-only register that the instruction writes. csrrs and csrrc
    do not write if rs1 or the immediate is 0; both are in the field rs1."""
    csr = csrs.find(fetched.operands["csr"])
    if csr is None or csr.group is isa.CsrGroup.DEBUG:
        # debug mode is not simulated
        return False
    writes = fetched.insn.op == "csrrw" or fetched.rs1 != 0
    return csr.access is not isa.CsrAccess.RO or not writes
