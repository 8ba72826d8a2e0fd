"""Counts that add up over programs."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self


@dataclass(slots=True)
class Tally:
    """Counts of one program or of several: numbers, lists, and counters by name."""

    def merge(self, other: Self) -> None:
        """Add the counts of ``other``."""
        for one in fields(self):
            mine, its = getattr(self, one.name), getattr(other, one.name)
            add: Callable[[Any], None] | None = getattr(mine, "update" if isinstance(mine, Counter) else "merge", None)
            if add is None:
                setattr(self, one.name, mine + its)
            else:
                add(its)
