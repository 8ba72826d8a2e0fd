"""Late results cost what is here, as the guide says it ("What the options cost")."""

from collections.abc import Mapping

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import Cost
from xpulpnn.isa.retirement import WaitCause

_EARLY = frozenset({"lui", "auipc", "add", "sub", "and", "or", "xor", "pv.and", "pv.or", "pv.xor"})
"""Operations whose result the next instruction has at once: sums of words, and logic."""
_SHIFTED_SUMS = frozenset(
    f"{name}{unsigned}{form}" for name in ("add", "sub") for unsigned in ("", "u") for form in ("N", "RN")
)
_TWO_CYCLES = _SHIFTED_SUMS | {"pv.avg", "pv.avgu", "ff1", "fl1", "clb", "cnt", "mul", "mac", "msu"}
"""Operations that take a cycle more, besides mulh*, products of half-words and pv.rq*."""


def due(*costs: Cost) -> Mapping[WaitCause, int]:
    """Waits that come together."""
    waits: dict[WaitCause, int] = {}
    for cost in costs:
        waits[cost.cause] = waits.get(cost.cause, 0) + cost.cycles
    return waits


def executed(config: CoreConfig, insn: Insn, times: int = 1, *, used: int = 0) -> list[Cost]:
    """Costs of an instruction that is executed some times, the result being used at once in so many of them."""
    if not config.late_results:
        return []
    late = insn.op not in _EARLY
    longer = insn.op in _TWO_CYCLES or insn.multiplies_late or insn.requantises
    return [*[Cost.LATE_STEP] * times * longer, *[Cost.LATE_USE] * used * late]


def fetched_elsewhere(config: CoreConfig, times: int = 1) -> list[Cost]:
    """Costs of fetching that goes elsewhere some times."""
    return [Cost.LATE_FETCH] * times * config.late_results
