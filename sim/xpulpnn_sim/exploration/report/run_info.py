"""Circumstances of a run, for its reports."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """Circumstances of a run."""

    title: str  # heading of the report
    command: str  # the command line that repeats the run
    date: str  # date as it is to be printed; reports never read the clock
    baseline: str = ""  # label of the point that overheads are relative to; empty for none
    tools: Mapping[str, str] = field(default_factory=dict[str, str])  # version of each tool, by name
    wall_s: float = 0.0  # seconds the run took
    cached: int = 0  # number of results read from the cache
