"""Cycle costs that the option ``late_results`` adds (guide, "What the options cost")."""

from collections.abc import Mapping

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import Cost
from xpulpnn.isa.retirement import WaitCause


def stalls(*costs: Cost) -> Mapping[WaitCause, int]:
    """Return the sum of the costs in cycles, by cause of the wait."""
    waits: dict[WaitCause, int] = {}
    for cost in costs:
        waits[cost.cause] = waits.get(cost.cause, 0) + cost.cycles
    return waits


def executed(config: CoreConfig, insn: Insn, times: int = 1, *, used: int = 0) -> list[Cost]:
    """Return the costs of ``times`` executions; in ``used`` of them, the next instruction uses the result."""
    if not config.late_results:
        return []
    return [*[Cost.LATE_STEP] * times * insn.has_late_step, *[Cost.LATE_USE] * used * (not insn.is_early)]


def fetched_elsewhere(config: CoreConfig, times: int = 1) -> list[Cost]:
    """Return the costs of redirecting the instruction fetch ``times`` times."""
    return [Cost.LATE_FETCH] * times * config.late_results
