"""The CSR file of the simulator, driven one clock cycle at a time through the ports of the hardware."""

from dataclasses import dataclass

from xpulpnn.isa.csr import ALL_BITS, CSRS, PERFORMANCE_EVENTS, Csr, CsrAccess, CsrGroup
from xpulpnn.isa.machine import MCAUSE_INTERRUPT, MSTATUS_MIE, MTVEC_BASE, MTVEC_VECTORED, VECTOR_BYTES, XLEN
from xpulpnn_sim.reference.iss.csrs import INHIBIT, CsrFile

LOOP_NAMES = tuple(csr.name for csr in CSRS if csr.group is CsrGroup.HWLOOP)
"""Registers kept outside the file, in the order of their addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsrCycle:
    """Inputs of the file in one cycle; ``op`` is WRITE, SET or CLEAR, ``write`` is false for a mere read.

    Accesses and ``retire`` come only with ``retire_final``, ``retire_cancel`` only without.
    """

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
    retire_final: bool = True
    retire_cancel: bool = False
    enter: bool = False
    enter_pc: int = 0
    enter_interrupt: bool = False
    enter_cause: int = 0
    leave: bool = False
    loop_values: tuple[int, ...] = (0,) * len(LOOP_NAMES)
    events: int = 0


class CsrModel:
    """The registers of one hart."""

    def __init__(self, groups: frozenset[CsrGroup]) -> None:
        self._groups = groups
        self._file = CsrFile(0, 0, groups, is_xpulp=CsrGroup.HWLOOP in groups)
        # minstret has counted an instruction that may still trap; it has trapped
        self._counted = self._takes_back = False

    def _access(self, cycle: CsrCycle) -> tuple[int, int, Csr | None]:
        """The value software sees, 0 without a register; the value an access makes; the register that takes it."""
        csr, file = self._file.find(cycle.address), self._file
        if csr is None:
            old = 0
        elif csr.name in LOOP_NAMES:
            old = cycle.loop_values[LOOP_NAMES.index(csr.name)]
        else:
            file.irq, file.values["mhartid"] = cycle.irq, cycle.hart_id
            old = file.read(csr)
        new = {"WRITE": cycle.operand, "SET": old | cycle.operand, "CLEAR": old & ~cycle.operand}[cycle.op]
        writes = csr is not None and cycle.valid and cycle.write and csr.access in (CsrAccess.RW, CsrAccess.WO)
        return old, new, csr if writes else None

    def outputs(self, cycle: CsrCycle) -> dict[str, int]:
        """The file's outputs in this cycle, by port; -1 where they do not matter."""
        file = self._file
        old, new, target = self._access(cycle)
        vectored = cycle.enter_interrupt and file["mtvec"] & MTVEC_VECTORED
        outputs = {
            "csr__rdata": old,
            "handler": (file["mtvec"] & MTVEC_BASE) + (VECTOR_BYTES * cycle.enter_cause if vectored else 0),
            "mepc": file["mepc"],
            "mie": int(file["mstatus"] & MSTATUS_MIE != 0),
            "pending": cycle.irq & file["mie"],
        }
        if CsrGroup.HWLOOP in self._groups:
            loop = target is not None and target.name in LOOP_NAMES
            outputs["loop_we"] = 1 << LOOP_NAMES.index(target.name) if target is not None and loop else 0
            outputs["wdata"] = new if loop else -1
        return outputs

    def clock(self, cycle: CsrCycle) -> None:
        """The end of the cycle: counters step unless they are written, then a trap or a return."""
        file = self._file
        _, new, target = self._access(cycle)
        inhibit, enabled, saturates = file["mcountinhibit"], file.counted_events, file.saturates
        file.written.clear()
        if cycle.boot:
            file["mtvec"] = file["mtvec"] & ~MTVEC_BASE | cycle.boot_address & MTVEC_BASE
        if target is not None:
            file.write(target, new)
        is_written = target is not None and target.name in ("minstret", "minstreth")
        if self._takes_back and not is_written:
            total = (file["minstreth"] << XLEN | file["minstret"]) - 1
            file.values["minstret"], file.values["minstreth"] = total & ALL_BITS, total >> XLEN & ALL_BITS
        file.advance(cycle.clock_runs, cycle.retire, inhibit)
        self._takes_back = cycle.retire_cancel and self._counted
        if cycle.retire_final:
            self._counted = cycle.retire and not is_written and not inhibit & INHIBIT["minstret"]
        happen = [event for event in range(len(PERFORMANCE_EVENTS)) if cycle.events >> event & 1]
        file.count_events(happen, enabled, saturates=saturates)
        if cycle.enter:
            file.enter_trap((MCAUSE_INTERRUPT if cycle.enter_interrupt else 0) | cycle.enter_cause, cycle.enter_pc & ~1)
        elif cycle.leave:
            file.leave_trap()
