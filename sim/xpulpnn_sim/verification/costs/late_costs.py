"""Cycle costs of the option of late results (guide, "What the options cost")."""

from collections.abc import Mapping

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import Cost
from xpulpnn.isa.retirement import WaitCause


def stalls(*costs: Cost) -> Mapping[WaitCause, int]:
    """Return the cycles of the costs by cause."""
    waits: dict[WaitCause, int] = {}
    for cost in costs:
        waits[cost.cause] = waits.get(cost.cause, 0) + cost.cycles
    return waits


def executed(config: CoreConfig, insn: Insn, times: int = 1, *, used: int = 0) -> list[Cost]:
    """Return the costs of ``times`` executions, of which ``used`` have a result that the next instruction uses."""
    if not config.late_results:
        return []
    return [*[Cost.LATE_STEP] * times * insn.has_late_step, *[Cost.LATE_USE] * used * (not insn.is_early)]


def fetched_elsewhere(config: CoreConfig, times: int = 1) -> list[Cost]:
    """Return the costs of ``times`` redirections of the fetch."""
    return [Cost.LATE_FETCH] * times * config.late_results
