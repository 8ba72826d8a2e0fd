"""A mutant and what became of it."""

from dataclasses import dataclass

from xpulpnn_sim.verification.mutants.units.equivalence import EQUIVALENT, LEGAL
from xpulpnn_sim.verification.mutants.units.mutants import Mutant


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A mutant and what became of it."""

    mutant: Mutant
    killed: str  # `check`, `time` or `simulator`; empty if the bench passed
    test: str
    proof: str = ""  # `equivalent`, `legal`, `different` or `undecided`; empty without a proof
    example: str = ""  # inputs that show what is `different`

    @property
    def alive(self) -> bool:
        """Return whether neither the bench nor a proof disposed of it."""
        return not self.killed and self.proof not in (EQUIVALENT, LEGAL)

    @property
    def outcome(self) -> str:
        """``check``, ``time``, ``simulator``, ``equivalent``, ``legal`` or ``alive``."""
        return self.killed or ("alive" if self.alive else self.proof)
