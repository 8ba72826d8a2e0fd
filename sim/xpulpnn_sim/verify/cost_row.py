"""What a measurement of the core's cycle costs is."""

from collections.abc import Mapping
from dataclasses import dataclass

from xpulpnn.isa.retirement import WaitCause

FREE: Mapping[WaitCause, int] = {}
"""No waits."""


@dataclass(frozen=True, slots=True)
class CostRow:
    """One measurement.

    Parameters
    ----------
    group, name : str
        Line of the printed table, and the variation.
    code : str
        Lines between the markers.
    waits : mapping of WaitCause to int, or None
        Cycles promised beyond one per instruction; None where nothing is.
    setup : str
        Lines before the first marker.
    is_extra : bool
        The figure counts cycles on top of one per instruction, not the cycles of the one instruction meant.
    """

    group: str
    name: str
    code: str
    waits: Mapping[WaitCause, int] | None
    setup: str = ""
    is_extra: bool = False

    @property
    def documented(self) -> int | None:
        """The figure promised, if any."""
        return None if self.waits is None else sum(self.waits.values()) + (0 if self.is_extra else 1)
