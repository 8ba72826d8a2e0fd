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
from xpulpnn.user_cache import ignore_before
from xpulpnn_sim.exploration.cache import sources_digest
from xpulpnn_sim.exploration.flow_files import FlowError
from xpulpnn_sim.exploration.results import (
    Configuration,
    EmittedDesign,
    EnergyResult,
    FlowResult,
    PointResult,
    from_json,
    to_json,
)
from xpulpnn_sim.exploration.space import Point, folder_name
from xpulpnn_sim.tools.files import write_text

ResultField = Literal["flows", "kernels", "energies"]  # field of `PointResult` that a step adds to

_FIELDS: tuple[ResultField, ...] = ("flows", "kernels", "energies")

StepResult = FlowResult | EnergyResult | dict[str, Any]

POINTS = "points"  # folder of all points below that of a run

RESULT = "result.json"
CONFIGURATION = "config.json"
LOG = "log.txt"  # file in the folder of a point that gets what its steps and their tools print

Emit = Callable[[str, Configuration], EmittedDesign]


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
        """Field that takes its result."""
        ...

    def settings(self) -> Mapping[str, str]:
        """Everything besides configuration and sources that determines the result."""
        ...

    def run(self, design: EmittedDesign) -> StepOutcome:
        """Do it; raises :class:`~xpulpnn.errors.XpulpnnError` with one clear line."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Steps of a point, and the results that are known of them."""

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
        """Return the result of the steps that are known."""
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
        """Sort values by key into the fields of the result, in the order of the steps."""
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
    """Names of all files below a folder, relative to it."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAnswer:
    """Outcome of a step of a point, as it travels from the process that ran it."""

    configuration: dict[str, Any] = field(default_factory=dict[str, Any])  # empty if there is no design
    result: StepResult | None = None  # None if the step failed
    cached: bool = False  # whether it came from a cache
    error: str = ""  # one line; empty if nothing is wrong
    files: Mapping[str, str] = field(default_factory=dict[str, str])  # text by name in the folder of the point


def run_step(point: Point, step: PointStep, emit: Emit, fresh_since: float) -> StepAnswer:
    """Run one step of a point, wherever this process is."""
    ignore_before(fresh_since)
    try:
        design = emit(point.top, point.config)
    except Exception as error:  # one point's trouble must not end the run
        return StepAnswer(error=f"generate: {_one_line(error)}")
    configuration = dict(design.manifest["configuration"])
    files = {
        CONFIGURATION: json.dumps(configuration, indent=2) + "\n",
        f"{design.top}.v": design.verilog,
        f"{design.top}.json": json.dumps(design.manifest, indent=2) + "\n",
    }
    inner = folder_name(step.name)
    start = perf_counter()
    result, cached = None, False
    try:
        outcome = step.run(design)
    except Exception as error:  # one step's trouble must not end the run
        text = f"{step.name}: {_one_line(error)}"
        own = error.files if isinstance(error, FlowError) else {}
    else:
        result, cached, own = outcome.result, outcome.cached, outcome.files
        text = f"{step.name}: {outcome.error}" if outcome.error else ""
    print(f"{step.name}: {'known' if cached else f'{perf_counter() - start:.1f} s'}", flush=True)
    files |= {f"{inner}/{name}": content for name, content in own.items()}
    return StepAnswer(configuration=configuration, result=result, cached=cached, error=text, files=files)


def _one_line(error: Exception) -> str:
    """An error as one line; the traceback of an unexpected one goes to the log of the point."""
    text = " ".join(str(error).split())
    if isinstance(error, XpulpnnError):
        return text
    traceback.print_exception(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
