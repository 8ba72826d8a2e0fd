"""Circumstances of a run, for its reports."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """Circumstances of a run.

    Parameters
    ----------
    title : str
        Heading of the report.
    command : str
        The command line that repeats the run.
    date : str
        Date as it is to be printed; reports never read the clock.
    baseline : str
        Label of the point that overheads are relative to; empty for none.
    tools : mapping
        Version of each tool, by name.
    wall_s : float
        Seconds the run took.
    cached : int
        Number of results read from the cache.
    """

    title: str
    command: str
    date: str
    baseline: str = ""
    tools: Mapping[str, str] = field(default_factory=dict[str, str])
    wall_s: float = 0.0
    cached: int = 0
