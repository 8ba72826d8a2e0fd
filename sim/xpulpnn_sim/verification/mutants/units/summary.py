"""Results of all units, kept beside their verdicts: they make one table."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from xpulpnn.errors import InputError
from xpulpnn_sim.tools.files import write_text
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


RESULT = "result.json"  # file in the folder of a unit: its mutants and what became of them, once all have been judged

_PLACE = tuple(field.name for field in fields(Mutant))
_VERDICT = tuple(field.name for field in fields(Judged) if field.name != "mutant")


def rows_of(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """An object for each mutant, for JSON."""
    return [asdict(each.mutant) | {name: getattr(each, name) for name in _VERDICT} for each in judged]


def keep(folder: Path, judged: Sequence[Judged]) -> None:
    """Write :data:`RESULT` in the folder of a unit."""
    write_text(folder / RESULT, json.dumps(rows_of(judged), indent=1))


def collected(folder: Path) -> Mapping[str, Sequence[Judged]]:
    """Results of all campaigns in ``folder``, by the name of the unit."""
    found: dict[str, Sequence[Judged]] = {}
    for path in sorted(folder.glob(f"*/{RESULT}")):
        try:
            rows = json.loads(path.read_text())
            found[path.parent.name] = [
                Judged(
                    mutant=Mutant(**{name: row[name] for name in _PLACE}),
                    **{name: row[name] for name in _VERDICT},
                )
                for row in rows
            ]
        except (OSError, ValueError, LookupError, TypeError):
            raise InputError(f"{path} must be what a campaign wrote, not something else") from None
    if not found:
        raise InputError(f"folder must hold results of campaigns, not none: {folder}")
    return found
