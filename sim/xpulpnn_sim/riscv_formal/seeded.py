"""Seeded faults: the core with one wrong place, and whether its check finds it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xpulpnn_sim.faulty.core import CoreFault
from xpulpnn_sim.riscv_formal.campaign import Campaign
from xpulpnn_sim.riscv_formal.gates import GATES, Design
from xpulpnn_sim.riscv_formal.model_check import Outcome
from xpulpnn_sim.riscv_formal.suite import Check


@dataclass(frozen=True, slots=True)
class FaultOutcome:
    """What a check said of a faulty core."""

    fault: CoreFault
    outcome: Outcome


def with_fault(design: Design, fault: CoreFault) -> Design:
    """The design with a fault; raises :class:`ToolError` if the place is not there."""
    text = fault.applied(design.modules[fault.module])
    return replace(design, modules={**design.modules, fault.module: text})


def find_faults(
    campaign: Campaign, faults: Sequence[CoreFault], checks: Sequence[Check], *, resume: bool
) -> Iterator[FaultOutcome]:
    """Run each fault's check on the core with that fault."""
    by_name = {check.name: check for check in checks}
    if faults:
        campaign.prepare()
    gates = (campaign.folder / GATES).absolute()
    for fault in faults:
        folder = campaign.folder / "faults" / fault.name.replace(" ", "-")
        faulty = replace(campaign, design=with_fault(campaign.design, fault), folder=folder)
        faulty = replace(faulty, like=gates, changed=fault.module)
        for outcome in faulty.run([by_name[fault.check]], 1, resume=resume):
            yield FaultOutcome(fault, outcome)
