"""One point of an exploration: its steps, what is already known of it, and its folder."""

import json
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Protocol

from xpulpnn.errors import XpulpnnError
from xpulpnn.user_cache import ignore_before
from xpulpnn_sim.exploration.library import FlowError
from xpulpnn_sim.exploration.results import (
    Configuration,
    EmittedDesign,
    EnergyResult,
    FlowResult,
    PointResult,
    design_sources_digest,
    from_json,
)
from xpulpnn_sim.exploration.space import Point, folder_name
from xpulpnn_sim.tools.files import write_text
from xpulpnn_sim.tools.jobs import Call, executor, versions_of
from xpulpnn_sim.tools.processes import single_interrupt
from xpulpnn_sim.tools.results import digest
from xpulpnn_sim.tools.worker_process import CallError

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
    """Outcome of a step of a point."""

    result: StepResult | None = None  # None if the step failed
    cached: bool = False  # whether it came from a cache
    error: str = ""  # what is wrong with it, one line; empty if nothing
    # text by name: what goes into a folder of the step's name in that of the point (see folder_name)
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    configuration: dict[str, Any] = field(default_factory=dict[str, Any])  # echo of the manifest, once there is one


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
    steps: Mapping[str, PointStep]  # in the order of the results, by keys: results are the same if keys are
    folder_name: str  # what the result calls the folder of the point
    configuration: dict[str, Any]  # echo of the configuration in the manifest; empty before there is one
    known: Mapping[str, StepResult]  # results by key
    errors: Mapping[str, str] = field(default_factory=dict[str, str])  # by key
    strange: frozenset[str] = frozenset()  # files that were in the folder of the point before any run was
    fresh_since: float = 0.0  # time since the epoch, in seconds, before which no entry of the cache counts

    @property
    def missing(self) -> list[str]:
        """Keys of the steps without a known result."""
        return [key for key in self.steps if key not in self.known]

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

    def write(self, folder: Path) -> PointResult:
        """Write the result into ``folder``, with the keys by which a later run recognises all that is right."""
        # a design that cannot be made says so once, not for every step
        errors = dict.fromkeys(self.errors[key] for key in self.steps if key in self.errors)
        result = self.result("; ".join(errors))
        keys = self._by_field({key: "" if key in self.errors else key for key in self.known})
        files = sorted({*files_in(folder), RESULT} - self.strange)
        write_text(folder / RESULT, json.dumps({**asdict(result), "keys": keys, "files": files}, indent=1) + "\n")
        return result

    def _by_field(self, found: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Sort values by key into the fields of the result, in the order of the steps."""
        listed: dict[str, list[Any]] = {field: [] for field in _FIELDS}
        for key, step in self.steps.items():
            if key in found:
                listed[step.kind].append(found[key])
        return listed


def plan(
    point: Point,
    steps: Sequence[tuple[PointStep, Mapping[str, str]]],
    output: Path,
    *,
    fresh_since: float | None = None,
) -> Task:
    """The task of a point, whose steps come with all that determines their results besides the configuration."""
    described = design_sources_digest(), point.top, point.config
    folder = output / POINTS / point.folder
    task = Task(
        point=point,
        steps={digest(*described, step.name, settings): step for step, settings in steps},
        folder_name=f"{POINTS}/{point.folder}",
        configuration={},
        known={},
        strange=frozenset(files_in(folder)) - earlier_files(folder),
        fresh_since=fresh_since or 0.0,
    )
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


def run_step(point: Point, step: PointStep, emit: Emit, fresh_since: float) -> StepOutcome:
    """Run one step of a point, wherever this process is; names of files are those in the folder of the point."""
    ignore_before(fresh_since)
    try:
        design = emit(point.top, point.config)
    except Exception as error:  # one point's trouble must not end the run
        return StepOutcome(error=f"generate: {_one_line(error)}")
    configuration = dict(design.manifest["configuration"])
    files = {
        CONFIGURATION: json.dumps(configuration, indent=2) + "\n",
        f"{design.top}.v": design.verilog,
        f"{design.top}.json": json.dumps(design.manifest, indent=2) + "\n",
    }
    start = perf_counter()
    try:
        outcome = step.run(design)
    except Exception as error:  # one step's trouble must not end the run
        own = error.files if isinstance(error, FlowError) else {}
        outcome = StepOutcome(error=_one_line(error), files=own)
    print(f"{step.name}: {'known' if outcome.cached else f'{perf_counter() - start:.1f} s'}", flush=True)
    files |= {f"{folder_name(step.name)}/{name}": content for name, content in outcome.files.items()}
    error = f"{step.name}: {outcome.error}" if outcome.error else ""
    return replace(outcome, error=error, files=files, configuration=configuration)


def _one_line(error: Exception) -> str:
    """An error as one line; the traceback of an unexpected one goes to the log of the point."""
    text = " ".join(str(error).split())
    if isinstance(error, XpulpnnError):
        return text
    traceback.print_exception(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


Report = Callable[[str, str, bool], None]
"""Told the label of a point, the name of a finished step and whether its result was known already."""


UNFINISHED = "interrupted before the end of"  # how the error of a point begins that an interrupted run did not finish


def run_points(
    tasks: Sequence[Task],
    output: Path,
    emit: Emit,
    report: Report,
    *,
    jobs: int = 2,
    timeout_s: float = 3600.0,
    dask: str = "",
) -> Iterator[tuple[int, PointResult]]:
    """Numbers and results of all tasks, as they end; a point that failed has its error.

    Steps run in ``jobs`` processes, or on the workers of the Dask scheduler at the address ``dask``; one that takes
    longer than ``timeout_s`` fails. Points without missing steps cost nothing; no process is started if none has any.
    """
    for number, task in enumerate(tasks):
        for key in task.steps:
            if key in task.known:
                report(task.point.label, task.steps[key].name, True)
        if not task.missing:
            yield number, task.result()
    waiting = {number: task for number, task in enumerate(tasks) if task.missing}
    if waiting:
        with single_interrupt():
            yield from _run(waiting, output, emit, report, jobs=jobs, timeout_s=timeout_s, dask=dask)


def unfinished(task: Task, output: Path) -> PointResult:
    """Result of a point that an interrupted run did not finish."""
    found = with_known(task, output / task.folder_name)
    names = ", ".join(found.steps[key].name for key in found.missing)
    return found.result(f"{UNFINISHED} {names or 'the last step'}")


def _versions(steps: Sequence[PointStep]) -> dict[str, str]:
    """All that the results of steps depend on besides the configuration."""
    found = {"Python": versions_of()["Python"], "sources of xpulpnn": design_sources_digest()[:12]}
    for step in steps:
        found |= {f"{name} (for {step.name})": value for name, value in step.settings().items()}
    return found


def _run(
    tasks: dict[int, Task], output: Path, emit: Emit, report: Report, *, jobs: int, timeout_s: float, dask: str
) -> Iterator[tuple[int, PointResult]]:
    """Numbers and results of points, in the order they end.

    A call per step, those of a point first to last: what is finished is on disk, and a lost machine loses one step.
    """
    steps = {id(step): step for task in tasks.values() for step in task.steps.values()}
    told = partial(_versions, tuple(steps.values()))
    with executor(jobs, dask=dask, timeout_s=timeout_s, versions=told) as pool:
        shared = {name: pool.share(step) for name, step in steps.items()}
        left: dict[int, set[str]] = {}  # keys of steps that have not ended, of the points that have begun
        calls = {
            pool.submit(run_step, task.point, shared[id(task.steps[key])], emit, task.fresh_since): (number, key)
            for number, task in tasks.items()
            for key in task.missing
        }
        for call in as_completed(calls):
            assert isinstance(call, Call)
            number, key = calls[call]
            task = tasks[number]
            folder, step = output / task.folder_name, task.steps[key]
            if number not in left:
                left[number] = set(task.missing)
                known = [f"{one.name}: known\n" for name, one in task.steps.items() if name in task.known]
                write_text(folder / LOG, "".join(known))
            try:
                outcome = call.result()
            except CallError as error:
                outcome = StepOutcome(error=f"{step.name}: {error} (see {LOG})")
            with (folder / LOG).open("a") as log:
                log.write(call.output)
            # a result that is wrong is shown, but never taken for a finished step
            tasks[number] = task = replace(
                task,
                configuration=outcome.configuration or task.configuration,
                known=task.known if outcome.result is None else {**task.known, key: outcome.result},
                errors={**task.errors, key: outcome.error} if outcome.error else task.errors,
            )
            for name, text in outcome.files.items():
                write_text(folder / name, text)
            result = task.write(folder)
            report(task.point.label, step.name, outcome.cached)
            left[number].remove(key)
            if not left[number]:
                yield number, result
