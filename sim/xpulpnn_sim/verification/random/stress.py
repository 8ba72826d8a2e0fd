"""Timing of memory and interrupts while a random program runs."""

from dataclasses import dataclass, fields, replace
from random import Random

_STALLS = (0.0, 0.0, 0.1, 0.4)
_LATENCIES = (1, 1, 2, 5)
_IDEAL_CHANCE = 0.2
_RATES = (0.0, 0.003, 0.005)
"""Interrupts per cycle with an ideal memory. With more, handlers would leave the program no time."""
MAX_CYCLES = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stress:
    """Memory timing and interrupts; the default values are the simplest machine."""

    grant_stalls: float = 0.0  # probability that a data access is not granted in a cycle
    response_latency: int = 1  # responses take 1 to this many cycles
    fetch_grant_stalls: float = 0.0  # the same of fetches
    fetch_latency: int = 1  # responses take 1 to this many cycles
    irq_rate: float = 0.0  # probability per cycle that an interrupt line rises; it falls when the interrupt is taken
    seed: int = 0
    max_cycles: int = MAX_CYCLES  # A program that runs longer has failed

    @property
    def slowness(self) -> float:
        """About how many times longer a program takes than with an ideal memory."""
        latency = max(self.response_latency, self.fetch_latency)
        return latency / (1 - max(self.grant_stalls, self.fetch_grant_stalls))

    def shown(self) -> str:
        """The fields that are not at their default, for people."""
        changed = [
            f"{field.name} {getattr(self, field.name)}"
            for field in fields(self)
            if field.name not in ("seed", "max_cycles") and getattr(self, field.name) != field.default
        ]
        return ", ".join(changed) or "ideal memory, no interrupts"


def random_stress(seed: int, **chosen: float | None) -> Stress:
    """The machine of the random program ``seed``; fields that are ``chosen`` and not None are used as they are."""
    rng = Random(f"machine {seed}")
    stress = Stress(seed=seed)
    if rng.random() >= _IDEAL_CHANCE:
        stress = Stress(
            grant_stalls=rng.choice(_STALLS),
            response_latency=rng.choice(_LATENCIES),
            fetch_grant_stalls=rng.choice(_STALLS),
            fetch_latency=rng.choice(_LATENCIES),
            seed=seed,
        )
    stress = replace(stress, **{name: value for name, value in chosen.items() if value is not None})
    if chosen.get("irq_rate") is None:
        stress = replace(stress, irq_rate=round(rng.choice(_RATES) / stress.slowness, 6))
    return stress
