"""CSRs of the simulator (guide, "Machine state")."""

from collections.abc import Iterable

from xpulpnn.isa import csr as isa
from xpulpnn.isa.machine import IRQ_BITS, IRQ_PRIORITY, VECTOR_BYTES, XLEN
from xpulpnn_sim.reference.iss.fetched import Fetched

INHIBIT = {"mcycle": 1 << isa.MCOUNTINHIBIT_CY_BIT, "minstret": 1 << isa.MCOUNTINHIBIT_IR_BIT}
"""The bit of mcountinhibit that stops each counter."""

COUNTERS = tuple(f"pccr{event}" for event in range(len(isa.PERFORMANCE_EVENTS)))
"""Names of the PULP performance counters by event."""

PCMR_COUNTS, PCMR_SATURATES = 1 << 0, 1 << 1

_FLAGS = {"MIE": isa.MSTATUS_MIE_BIT, "MPIE": isa.MSTATUS_MPIE_BIT}
_LOOPS = (("lpstart0", "lpend0", "lpcount0"), ("lpstart1", "lpend1", "lpcount1"))


class TrapError(Exception):
    def __init__(self, cause: int) -> None:
        super().__init__(cause)
        self.cause = cause


class SimulatedCsrs:
    def __init__(
        self,
        boot_address: int,
        hart_id: int,
        groups: frozenset[isa.CsrGroup],
        nn: list[int] | None = None,
        *,
        is_xpulp: bool,
    ) -> None:
        """Set all CSRs to their reset values; ``nn`` is the NN-RF, whose words may be CSRs too."""
        self._nn = nn
        self.values = {csr.name: csr.reset for csr in isa.CSRS if csr.group in groups}
        self.values["mtvec"] |= boot_address & isa.MTVEC_BASE
        self.values["mhartid"] = hart_id
        if not is_xpulp:
            self.values["misa"] &= ~isa.MISA_X
        self.irq = 0
        self.written: set[str] = set()

    def find(self, address: int) -> isa.Csr | None:
        csr = isa.CSR_BY_ADDRESS.get(address)
        return csr if csr is not None and csr.name in self.values else None

    def read(self, csr: isa.Csr) -> int:
        if csr.name == "mip":
            return self.irq & IRQ_BITS
        if csr.access is isa.CsrAccess.WO:
            return 0
        if self._nn is not None and csr.group in isa.NN_GROUPS:
            return self._nn[csr.address - isa.NN_BASE]
        return (
            self.values.get(f"m{csr.name}", self.values[csr.name]) if csr.access is isa.CsrAccess.RO else self[csr.name]
        )

    def write(self, csr: isa.Csr, value: int) -> None:
        if csr.name == "pccrall":
            for name in COUNTERS:
                self[name] = value
            return
        if self._nn is not None and csr.group in isa.NN_GROUPS:
            self._nn[csr.address - isa.NN_BASE] = value
            return
        self.values[csr.name] = (self.values[csr.name] & ~csr.writable) | (value & csr.writable)
        self.written.add(csr.name)

    def read_csr(self, address: int) -> int:
        return self.read(isa.CSR_BY_ADDRESS[address])

    def write_csr(self, address: int, value: int) -> None:
        self.write(isa.CSR_BY_ADDRESS[address], value)

    def __getitem__(self, name: str) -> int:
        return self.values[name]

    def __setitem__(self, name: str, value: int) -> None:
        """Store a value that an instruction writes by other means than a CSR access."""
        self.values[name] = value
        self.written.add(name)

    def advance(self, cycles: int, retired: int, inhibit: int) -> None:
        """Advance the counters of cycles and retired instructions, unless inhibited or just written."""
        for name, high, amount in (("mcycle", "mcycleh", cycles), ("minstret", "minstreth", retired)):
            if not amount or inhibit & INHIBIT[name] or (self.written and self.written & {name, high}):
                continue
            total = (self.values[high] << XLEN | self.values[name]) + amount
            self.values[name], self.values[high] = total & isa.ALL_BITS, total >> XLEN & isa.ALL_BITS

    @property
    def counted_events(self) -> int:
        """A bit mask of the events that the performance counters count now."""
        return self.values.get("pcer", 0) if self.values.get("pcmr", 0) & PCMR_COUNTS else 0

    def count_events(self, events: Iterable[int], enabled: int, *, saturates: bool) -> None:
        """Advance the enabled counters of ``events`` that this instruction does not write."""
        for event in events:
            name = COUNTERS[event]
            if not enabled >> event & 1 or name in self.written:
                continue
            value = self.values[name]
            if not (saturates and value == isa.ALL_BITS):
                self.values[name] = (value + 1) & isa.ALL_BITS

    @property
    def saturates(self) -> bool:
        return bool(self.values.get("pcmr", 0) & PCMR_SATURATES)

    @property
    def wakes(self) -> bool:
        """Return whether an enabled interrupt is pending. It ends wfi even if MIE is 0."""
        return bool(self.irq & self.values["mie"] & IRQ_BITS)

    def interrupt(self) -> int | None:
        """Return the interrupt that is taken before the next instruction, or None."""
        if not (self.flag("MIE") and self.wakes):
            return None
        pending = self.irq & self.values["mie"]
        return next(line for line in IRQ_PRIORITY if pending >> line & 1)

    def flag(self, name: str) -> int:
        return self.values["mstatus"] >> _FLAGS[name] & 1

    def set_flag(self, name: str, value: int) -> None:
        self.values["mstatus"] = self.values["mstatus"] & ~(1 << _FLAGS[name]) | value << _FLAGS[name]

    def trap(self, cause: int) -> None:
        raise TrapError(cause)

    def enter_trap(self, cause: int, pc: int) -> int:
        """Save ``pc`` and ``cause`` and disable interrupts; returns the address of the handler."""
        self.set_flag("MPIE", self.flag("MIE"))
        self.set_flag("MIE", 0)
        self.values["mepc"], self.values["mcause"] = pc, cause
        base = self.values["mtvec"] & isa.MTVEC_BASE
        if cause & isa.MCAUSE_INTERRUPT and self.values["mtvec"] & isa.MTVEC_VECTORED:
            return base + VECTOR_BYTES * (cause & ~isa.MCAUSE_INTERRUPT)
        return base

    def next_pc(self, pc: int, following: int) -> int:
        """Return the address after ``pc``: the start of a hardware loop that ends there and repeats, whose count is
        decremented, or ``following``. Call it before the CSR writes of the instruction, which take precedence."""
        values = self.values
        for start, end, count in _LOOPS:
            if values.get(end) == pc and values[count] > 1:
                values[count] -= 1
                return values[start]
        return following

    @property
    def loop_ends(self) -> tuple[int | None, int | None]:
        return self.values.get("lpend0"), self.values.get("lpend1")


def csr_is_legal(fetched: Fetched, csrs: SimulatedCsrs) -> bool:
    """Return whether the register exists, and is not a read-only register that the instruction writes. csrrs and csrrc
    do not write if rs1 or the immediate is 0; both are in the field rs1."""
    csr = csrs.find(fetched.operands["csr"])
    if csr is None or csr.group is isa.CsrGroup.DEBUG:
        # debug mode is not simulated
        return False
    writes = fetched.insn.op == "csrrw" or fetched.rs1 != 0
    return csr.access is not isa.CsrAccess.RO or not writes
