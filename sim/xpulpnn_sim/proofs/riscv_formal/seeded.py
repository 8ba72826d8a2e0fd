"""Seeded faults: the core with one wrong place, and whether its check finds it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xpulpnn_sim.proofs.faults.core_fault import CoreFault
from xpulpnn_sim.proofs.riscv_formal.core_checks import CoreChecks
from xpulpnn_sim.proofs.riscv_formal.gates import GATES, emit_design
from xpulpnn_sim.proofs.riscv_formal.model_check import Outcome
from xpulpnn_sim.proofs.riscv_formal.suite import Check


@dataclass(frozen=True, slots=True)
class FaultOutcome:
    """Verdict of a check on a faulty core."""

    fault: CoreFault
    outcome: Outcome


def find_faults(
    checked: CoreChecks, faults: Sequence[CoreFault], checks: Sequence[Check], *, resume: bool
) -> Iterator[FaultOutcome]:
    """Run each fault's check on the core with that fault."""
    by_name = {check.name: check for check in checks}
    if faults:
        checked.prepare()
    gates = (checked.folder / GATES).absolute()
    for fault in faults:
        folder = checked.folder / "faults" / fault.name.replace(" ", "-")
        with fault.seeded():
            design = emit_design(checked.design.config, checked.design.masks)
        faulty = replace(checked, design=design, folder=folder, like=gates, changed=fault.module)
        for outcome in faulty.run([by_name[fault.check]], 1, resume=resume):
            yield FaultOutcome(fault, outcome)
