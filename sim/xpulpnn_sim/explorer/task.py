"""One point of an exploration: its steps, what is already known of it, and its folder."""

import hashlib
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Protocol

from xpulpnn.errors import XpulpnnError
from xpulpnn_sim.explorer.cache import sources_digest
from xpulpnn_sim.explorer.flow_files import FlowError
from xpulpnn_sim.explorer.results import (
    Configuration,
    EmittedDesign,
    EnergyResult,
    FlowResult,
    PointResult,
    from_json,
    to_json,
)
from xpulpnn_sim.explorer.space import Point, folder_name
from xpulpnn_sim.farm.child import SCRATCH
from xpulpnn_sim.files import write_text

ResultField = Literal["flows", "kernels", "energies"]
"""Field of :class:`~xpulpnn_sim.explorer.results.PointResult` that a step adds to."""

_FIELDS: tuple[ResultField, ...] = ("flows", "kernels", "energies")

StepResult = FlowResult | EnergyResult | dict[str, Any]

POINTS = "points"
"""Folder of all points below that of a run."""

RESULT = "result.json"
CONFIGURATION = "config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """Result of a step."""

    result: StepResult
    cached: bool = False  # whether it came from a cache
    error: str = ""  # what is wrong with it, one line; empty if nothing
    # text by name: what goes into a folder of the step's name in that of the point (see folder_name)
    files: Mapping[str, str] = field(default_factory=dict[str, str])


class PointStep(Protocol):
    """Something done with a design; steps travel to other processes."""

    @property
    def name(self) -> str:
        """Unique in a run, such as ``asic-area`` or ``matmul:8:nn_4x4``."""
        ...

    @property
    def kind(self) -> ResultField:
        """Where its result goes."""
        ...

    def settings(self) -> Mapping[str, str]:
        """Everything besides configuration and sources that determines the result."""
        ...

    def run(self, design: EmittedDesign) -> StepOutcome:
        """Do it; raises :class:`~xpulpnn.errors.XpulpnnError` with one clear line."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is to be done for a point."""

    point: Point
    steps: tuple[PointStep, ...]  # in the order of the results
    keys: tuple[str, ...]  # one per step: results are the same if keys are
    folder_name: str  # what the result calls the folder of the point
    configuration: dict[str, Any]  # echo of the configuration in an earlier run's manifest; empty without one
    known: Mapping[str, StepResult]  # results of an earlier run, by key
    strange: frozenset[str] = frozenset()  # files that were in the folder of the point before any run was
    fresh_since: float = 0.0  # time since the epoch, in seconds, before which no entry of the cache counts

    @property
    def missing(self) -> int:
        """Number of steps without a known result."""
        return sum(key not in self.known for key in self.keys)

    def result(self, error: str = "") -> PointResult:
        """What is known."""
        return PointResult(
            label=self.point.label,
            top=self.point.top,
            preset=self.point.preset,
            settings=dict(self.point.settings),
            configuration=self.configuration,
            folder=self.folder_name,
            error=error,
            **self._by_field(self.known),
        )

    def write(self, folder: Path, error: str = "", wrong: frozenset[str] = frozenset()) -> PointResult:
        """Write :meth:`result` into ``folder``, with the keys by which a later run recognises all but ``wrong``."""
        result = self.result(error)
        keys = self._by_field({key: "" if key in wrong else key for key in self.known})
        files = sorted({*files_in(folder), RESULT} - self.strange)
        write_text(folder / RESULT, json.dumps({**to_json(result), "keys": keys, "files": files}, indent=1) + "\n")
        return result

    def _by_field(self, found: Mapping[str, Any]) -> dict[str, list[Any]]:
        """What is found under the keys, in the order of the steps."""
        listed: dict[str, list[Any]] = {field: [] for field in _FIELDS}
        for step, key in zip(self.steps, self.keys, strict=True):
            if key in found:
                listed[step.kind].append(found[key])
        return listed


def step_key(top: str, config: Configuration, name: str, settings: Mapping[str, str]) -> str:
    """Text that is the same exactly if the step ``name`` with these settings gives the same result."""
    described = {
        "sources": sources_digest(),
        "top": top,
        "configuration": asdict(config),
        "step": name,
        "settings": dict(settings),
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True, default=sorted).encode()).hexdigest()


def plan(
    point: Point,
    steps: Sequence[tuple[PointStep, Mapping[str, str]]],
    output: Path,
    *,
    fresh_since: float | None = None,
) -> Task:
    """The task of a point."""
    task = Task(
        point=point,
        steps=tuple(step for step, _ in steps),
        keys=tuple(step_key(point.top, point.config, step.name, settings) for step, settings in steps),
        folder_name=f"{POINTS}/{point.folder}",
        configuration={},
        known={},
        fresh_since=fresh_since or 0.0,
    )
    folder = output / task.folder_name
    task = replace(task, strange=frozenset(files_in(folder)) - earlier_files(folder))
    return task if fresh_since is not None else with_known(task, folder)


def files_in(folder: Path) -> list[str]:
    """Names of all files below a folder, relative to it, but for what processes hold there while they live."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [str(name) for name in found if name.parts[0] != SCRATCH]


def earlier_files(folder: Path) -> frozenset[str]:
    """Names of the files that runs have written into the folder of a point; none if it is no such folder."""
    try:
        record = json.loads((folder / RESULT).read_text())
        names = [str(name) for name in record["files"]] if record["keys"] else []
    except (OSError, ValueError, LookupError, TypeError):
        return frozenset()
    # whoever may have edited the list: nothing outside the folder is ever meant
    return frozenset(name for name in names if not {"..", "/"} & set(Path(name).parts))


def with_known(task: Task, folder: Path) -> Task:
    """The task with what its folder holds by now; nothing if any file is missing or unreadable."""
    top = task.point.top
    try:
        if not all((folder / name).is_file() for name in (CONFIGURATION, f"{top}.v", f"{top}.json")):
            return task
        record = json.loads((folder / RESULT).read_text())
        result = from_json(PointResult, record)
        found = [zip(record["keys"][field], getattr(result, field), strict=True) for field in _FIELDS]
        known = {key: one for results in found for key, one in results if key}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return task
    return replace(task, configuration=result.configuration, known=known)


def run_task(
    task: Task,
    folder: Path,
    emit: Callable[[str, Configuration], EmittedDesign],
    done: Callable[[str, bool], None],
) -> PointResult:
    """Run the steps whose results are not known, writing what is known after each.

    A step that fails leaves its error in the result; the others are run all the same.
    """
    try:
        design = emit(task.point.top, task.point.config)
    except Exception as error:  # one point's trouble must not end the run
        for step in task.steps:
            done(step.name, False)
        return replace(task, known={}).write(folder, f"generate: {_one_line(error)}")
    task = replace(task, configuration=dict(design.manifest["configuration"]))
    write_text(folder / CONFIGURATION, json.dumps(task.configuration, indent=2) + "\n")
    write_text(folder / f"{design.top}.v", design.verilog)
    write_text(folder / f"{design.top}.json", json.dumps(design.manifest, indent=2) + "\n")
    task.write(folder)
    errors: list[str] = []
    # a result that is wrong is shown, but never taken for a finished step
    wrong: frozenset[str] = frozenset()
    for step, key in zip(task.steps, task.keys, strict=True):
        cached = key in task.known
        start = perf_counter()
        if not cached:
            try:
                outcome = step.run(design)
            except Exception as error:  # one step's trouble must not end the run
                errors.append(f"{step.name}: {_one_line(error)}")
                _write_files(folder / folder_name(step.name), error.files if isinstance(error, FlowError) else {})
            else:
                _write_files(folder / folder_name(step.name), outcome.files)
                cached, task = outcome.cached, replace(task, known={**task.known, key: outcome.result})
                if outcome.error:
                    errors.append(f"{step.name}: {outcome.error}")
                    wrong |= {key}
        print(f"{step.name}: {'known' if cached else f'{perf_counter() - start:.1f} s'}", flush=True)
        task.write(folder, "; ".join(errors), wrong)
        done(step.name, cached)
    return task.result("; ".join(errors))


def _write_files(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        write_text(folder / name, text)


def _one_line(error: Exception) -> str:
    """An error as one line; the traceback of an unexpected one goes to the log of the point."""
    text = " ".join(str(error).split())
    if isinstance(error, XpulpnnError):
        return text
    traceback.print_exception(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
