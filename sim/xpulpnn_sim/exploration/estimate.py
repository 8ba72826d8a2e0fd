"""Estimate of the time of a run, by the time its steps took before."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from xpulpnn_sim.exploration.options import WHOLE_CLUSTERS
from xpulpnn_sim.exploration.task import PointStep, StepResult, Task, with_known
from xpulpnn_sim.tools.user_cache import cache_directory, store

_DEFAULTS_S = {"flows": 30.0, "kernels": 20.0, "energies": 60.0}
"""Seconds of a step that has never run, by the kind of its result."""

_CLUSTER_S = {"flows": 240.0, "kernels": 120.0}  # the same of a whole cluster

_MINUTE_S, _HOUR_S = 60, 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Size of a run."""

    points: int  # points that lack a result
    steps: int  # steps to run
    known: int  # steps whose results are known
    seconds: float  # sum of the times of the steps to run, one after the other

    def scaled(self, factor: float) -> "Estimate":
        """The size of ``factor`` times as many points of the kind."""
        points, steps, known = (round(factor * one) for one in (self.points, self.steps, self.known))
        return Estimate(points=points, steps=steps, known=known, seconds=factor * self.seconds)

    def text(self, jobs: int) -> str:
        """The size for people; ``jobs`` processes share the work, 0 for machines of unknown number."""
        known = f", {self.known:,} known" if self.known else ""
        at_once = max(1, min(jobs, self.points))
        time = duration(self.seconds / at_once)
        shared = f"{time} with {at_once} process{'es' if at_once > 1 else ''}" if jobs else f"{time} of work"
        return f"{_counted(self.points, 'point')} to run, {_counted(self.steps, 'step')}{known}, about {shared}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE_S:.0f} min" if seconds < 2 * _HOUR_S else f"{seconds / _HOUR_S:.1f} h"


def estimate(tasks: Iterable[Task]) -> Estimate:
    """Size of the run of these tasks."""
    known_s = _read()
    points = steps = known = 0
    seconds = 0.0
    for task in tasks:
        missing = [step for step, key in zip(task.steps, task.keys, strict=True) if key not in task.known]
        points, steps, known = points + bool(missing), steps + len(missing), known + len(task.steps) - len(missing)
        seconds += sum(known_s.get(_name(task, step), _default_s(task, step)) for step in missing)
    return Estimate(points=points, steps=steps, known=known, seconds=seconds)


def remember(tasks: Iterable[Task], output: Path) -> None:
    """Note in the cache how long the steps of these tasks took, as far as their folders below ``output`` tell."""
    measured: defaultdict[str, list[float]] = defaultdict(list)
    for task in tasks:
        found = with_known(task, output / task.folder_name)
        for step, key in zip(found.steps, found.keys, strict=True):
            if key in found.known and (wall_s := _wall_s(found.known[key])):
                measured[_name(task, step)].append(wall_s)
    if measured:
        known_s = _read() | {name: round(fmean(values), 2) for name, values in measured.items()}
        store(_file(), json.dumps(known_s, indent=1, sort_keys=True) + "\n")


def _default_s(task: Task, step: PointStep) -> float:
    usual = _DEFAULTS_S[step.kind]
    return _CLUSTER_S.get(step.kind, usual) if task.point.top in WHOLE_CLUSTERS else usual


def _name(task: Task, step: PointStep) -> str:
    return f"{task.point.top} {step.name}"


def _wall_s(result: StepResult) -> float:
    return float(result.get("wall_s", 0.0) if isinstance(result, dict) else result.wall_s)


def _file() -> Path:
    return cache_directory() / "times" / "steps.json"


def _read() -> dict[str, float]:
    try:
        return {str(name): float(value) for name, value in json.loads(_file().read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
