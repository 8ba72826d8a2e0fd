"""A measurement of the core's cycle costs."""

from collections.abc import Mapping
from dataclasses import dataclass

from xpulpnn.isa.retirement import WaitCause

FREE: Mapping[WaitCause, int] = {}  # No waits


@dataclass(frozen=True, slots=True)
class CostRow:
    """One measurement."""

    group: str  # line of the printed table
    name: str  # the variation
    code: str  # lines between the markers
    waits: Mapping[WaitCause, int] | None  # cycles promised beyond one per instruction; None where nothing is
    setup: str = ""  # lines before the first marker
    # the figure counts cycles on top of one per instruction, not the cycles of the one instruction meant
    is_extra: bool = False

    @property
    def documented(self) -> int | None:
        """The figure promised, if any."""
        return None if self.waits is None else sum(self.waits.values()) + (0 if self.is_extra else 1)
