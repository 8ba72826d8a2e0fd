"""The CSRs as ISA.md sections 10 and 11 describe them, one clock cycle at a time."""

from dataclasses import dataclass

from xpulpnn.isa.csr import (
    ALL_BITS,
    CSR_BY_ADDRESS,
    CSRS,
    IRQ_BITS,
    MISA_X,
    PERFORMANCE_EVENTS,
    Csr,
    CsrAccess,
    CsrGroup,
)

XLEN = 32
MIE, MPIE = 1 << 3, 1 << 7
INHIBIT_CYCLE, INHIBIT_INSTRET = 1 << 0, 1 << 2
INTERRUPT = 1 << 31
TABLE_MASK = 0xFFFF_FF00
VECTORED = 1
COUNTING, STICKING = 1 << 0, 1 << 1
LOOP_NAMES = tuple(csr.name for csr in CSRS if csr.group is CsrGroup.HWLOOP)
"""Registers kept outside the file, in the order of their addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """What happens to the file in one cycle; ``op`` is WRITE, SET or CLEAR, ``write`` is false for a mere read."""

    address: int = 0
    op: str = "WRITE"
    valid: bool = False
    write: bool = False
    operand: int = 0
    boot: bool = False
    boot_address: int = 0
    hart_id: int = 0
    irq: int = 0
    clock_runs: bool = True
    retire: bool = False
    enter: bool = False
    enter_pc: int = 0
    enter_interrupt: bool = False
    enter_cause: int = 0
    leave: bool = False
    loop_values: tuple[int, ...] = (0,) * len(LOOP_NAMES)
    events: int = 0


class CsrModel:
    """The registers of one hart.

    Parameters
    ----------
    groups : frozenset of CsrGroup
        Groups of registers that exist.
    """

    def __init__(self, groups: frozenset[CsrGroup]) -> None:
        self.groups = groups
        self.values = {csr.name: csr.reset for csr in CSRS if csr.group in groups}
        if CsrGroup.HWLOOP not in groups:
            self.values["misa"] &= ~MISA_X

    def read(self, address: int, cycle: Cycle) -> int:
        """What software sees; 0 at addresses without a register."""
        csr = CSR_BY_ADDRESS.get(address)
        if csr is None or csr.name not in self.values:
            return 0
        if csr.name in LOOP_NAMES:
            return cycle.loop_values[LOOP_NAMES.index(csr.name)]
        inputs = {"mip": cycle.irq & IRQ_BITS, "mhartid": cycle.hart_id, "pccrall": 0}
        views = {name: self.values[f"m{name}"] for name in ("cycle", "cycleh", "instret", "instreth")}
        return (self.values | inputs | views)[csr.name]

    def written(self, cycle: Cycle) -> int:
        """The value that the access writes."""
        old = self.read(cycle.address, cycle)
        return {"WRITE": cycle.operand, "SET": old | cycle.operand, "CLEAR": old & ~cycle.operand}[cycle.op]

    def target(self, cycle: Cycle) -> Csr | None:
        """The register written in this cycle."""
        csr = CSR_BY_ADDRESS.get(cycle.address)
        if csr is None or csr.name not in self.values or not (cycle.valid and cycle.write):
            return None
        return csr if csr.access in (CsrAccess.RW, CsrAccess.WO) else None

    def outputs(self, cycle: Cycle) -> dict[str, int]:
        """The file's outputs in this cycle, by port."""
        base, mode = self.values["mtvec"] & TABLE_MASK, self.values["mtvec"] & VECTORED
        target = self.target(cycle)
        loop = target is not None and target.name in LOOP_NAMES
        outputs = {
            "csr__rdata": self.read(cycle.address, cycle),
            "handler": base + (4 * cycle.enter_cause if cycle.enter_interrupt and mode else 0),
            "mepc": self.values["mepc"],
            "mie": int(self.values["mstatus"] & MIE != 0),
            "pending": cycle.irq & self.values["mie"],
        }
        if CsrGroup.HWLOOP in self.groups:
            outputs["loop_we"] = 1 << LOOP_NAMES.index(target.name) if target is not None and loop else 0
            # the value matters to the loop registers only
            outputs["wdata"] = self.written(cycle) if loop else -1
        return outputs

    def clock(self, cycle: Cycle) -> None:
        """The end of the cycle."""
        inhibit, mode = self.values["mcountinhibit"], self.values.get("pcmr", 0)
        enable, events = self.values.get("pcer", 0), cycle.events
        target, value = self.target(cycle), self.written(cycle)
        names = set() if target is None else {target.name}
        if cycle.clock_runs and not inhibit & INHIBIT_CYCLE:
            self._count("mcycle", names)
        if cycle.retire and not inhibit & INHIBIT_INSTRET:
            self._count("minstret", names)
        for event in range(len(PERFORMANCE_EVENTS) if mode & COUNTING else 0):
            if (events & enable) >> event & 1:
                name = f"pccr{event}"
                sticks = mode & STICKING and self.values[name] == ALL_BITS
                self.values[name] = self.values[name] if sticks else (self.values[name] + 1) & ALL_BITS
        if cycle.boot:
            self.values["mtvec"] = self.values["mtvec"] & ~TABLE_MASK | cycle.boot_address & TABLE_MASK
        if target is not None:
            all_of_them = [f"pccr{event}" for event in range(len(PERFORMANCE_EVENTS))]
            for name in all_of_them if target.name == "pccrall" else [target.name]:
                self.values[name] = self.values[name] & ~target.writable | value & target.writable
        self._trap(cycle)

    def _count(self, name: str, written: set[str]) -> None:
        """Step a 64-bit counter; a write to either half wins."""
        if not written & {name, f"{name}h"}:
            total = (self.values[f"{name}h"] << XLEN | self.values[name]) + 1
            self.values[name], self.values[f"{name}h"] = total & ALL_BITS, total >> XLEN & ALL_BITS

    def _trap(self, cycle: Cycle) -> None:
        status = self.values["mstatus"]
        if cycle.enter:
            self.values["mstatus"] = status & ~(MIE | MPIE) | (MPIE if status & MIE else 0)
            self.values["mepc"] = cycle.enter_pc & ~1
            self.values["mcause"] = (INTERRUPT if cycle.enter_interrupt else 0) | cycle.enter_cause
        elif cycle.leave:
            self.values["mstatus"] = status & ~MIE | MPIE | (MIE if status & MPIE else 0)
