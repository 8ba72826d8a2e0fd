"""A point of an exploration as a task: the steps to run, results of earlier runs, and the folder of the point."""

import json
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from xpulpnn.errors import XpulpnnError
from xpulpnn.user_cache import ignore_before
from xpulpnn_sim.exploration.library import FlowError
from xpulpnn_sim.exploration.results import (
    UNFINISHED,
    Configuration,
    EmittedDesign,
    EnergyResult,
    FlowResult,
    PointResult,
    design_sources_digest,
    emit_design,
    from_json,
)
from xpulpnn_sim.exploration.space import Point, folder_name
from xpulpnn_sim.tools.files import write_all
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.pool import Call, versions_of
from xpulpnn_sim.tools.processes import single_interrupt
from xpulpnn_sim.tools.results import digest
from xpulpnn_sim.tools.worker_process import CallError

ResultField = Literal["flows", "kernels", "energies"]  # field of `PointResult` that a step fills
_FIELDS: tuple[ResultField, ...] = ("flows", "kernels", "energies")
StepResult = FlowResult | EnergyResult | dict[str, Any]
POINTS = "points"  # folder of all points in that of a run
RESULT = "result.json"
CONFIGURATION = "config.json"
LOG = "log.txt"  # output of steps and their tools, in the folder of a point


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    result: StepResult | None = None  # None if the step failed
    cached: bool = False
    error: str = ""  # one line, or empty
    # by name: files for the step's folder in that of the point
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    configuration: dict[str, Any] = field(default_factory=dict[str, Any])  # from the manifest, once emitted
    seconds: float = 0.0  # duration, including prerequisites such as a model


@dataclass(frozen=True, slots=True)
class PointStep:
    """A computation on the design of a point; steps are sent to other processes."""

    name: str  # unique in a run, such as `asic-area` or `matmul:8:nn_4x4`
    kind: ResultField
    # everything that determines the result besides configuration and sources
    settings: Callable[[], Mapping[str, str]]
    # raises XpulpnnError with a message of one line
    run: Callable[[EmittedDesign], StepOutcome]


class Task:
    def __init__(
        self, point: Point, steps: Iterable[PointStep], output: Path, *, fresh_since: float | None = None
    ) -> None:
        described = design_sources_digest(), point.top, point.config
        self.point = point
        # by a key that determines the result
        self.steps = {digest(*described, step.name, step.settings()): step for step in steps}
        self.folder = output / POINTS / point.folder
        self.fresh_since = fresh_since or 0.0  # seconds since the epoch; older cache entries do not count
        self.configuration: dict[str, Any] = {}  # from the manifest, once emitted
        self.known: dict[str, StepResult] = {}  # results by key, wrong ones included
        self.errors: dict[str, str] = {}
        self.seconds: dict[str, float] = {}  # duration of the steps of this run, by key
        self._files: set[str] = set()  # names of all files that runs have written into the folder
        if fresh_since is None:
            self._files |= earlier_files(self.folder)
            self._load()
        self.left = set(self.missing)  # keys of unfinished steps
        self._log = "".join(f"{step.name}: known\n" for key, step in self.steps.items() if key in self.known)

    def _load(self) -> None:
        """Load the results in the folder of the point; ignore all of them if a file is missing or unreadable."""
        top = self.point.top
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            record = json.loads((self.folder / RESULT).read_text())
            result = from_json(PointResult, record)
            results = [zip(record["keys"][field], getattr(result, field), strict=True) for field in _FIELDS]
            known = {key: step_result for results in results for key, step_result in results if key in self.steps}
            if all((self.folder / name).is_file() for name in (CONFIGURATION, f"{top}.v", f"{top}.json")):
                self.configuration, self.known = result.configuration, known

    @property
    def missing(self) -> list[str]:
        return [key for key in self.steps if key not in self.known or key in self.errors]

    def result(self) -> PointResult:
        # an error of emission is common to all steps
        errors = dict.fromkeys(self.errors[key] for key in self.steps if key in self.errors)
        return PointResult(
            label=self.point.label,
            top=self.point.top,
            preset=self.point.preset,
            settings=dict(self.point.settings),
            configuration=self.configuration,
            folder=f"{POINTS}/{self.point.folder}",
            error="; ".join(errors),
            **self._by_field(self.known),
        )

    def unfinished(self) -> PointResult:
        names = ", ".join(step.name for key, step in self.steps.items() if key in self.left)
        error = "; ".join([f"{UNFINISHED} {names}", *filter(None, [self.result().error])])
        right = {key: step_result for key, step_result in self.known.items() if key not in self.errors}
        return replace(self.result(), error=error, **self._by_field(right))

    def accept(self, key: str, outcome: StepOutcome, output: str) -> None:
        self.left.remove(key)
        self.configuration = outcome.configuration or self.configuration
        if outcome.result is not None:
            self.known[key], self.seconds[key] = outcome.result, outcome.seconds
        if outcome.error:
            self.errors[key] = outcome.error
        self._log += output
        files = {**outcome.files, LOG: self._log}
        self._files |= {*files, RESULT}
        # a later run recognises correct results by their keys
        keys = self._by_field({key_of: "" if key_of in self.errors else key_of for key_of in self.known})
        record = {**asdict(self.result()), "keys": keys, "files": sorted(self._files)}
        files[RESULT] = json.dumps(record, indent=1) + "\n"
        write_all({self.folder / name: text.encode() for name, text in files.items()})

    def _by_field(self, values: Mapping[str, Any]) -> dict[str, list[Any]]:
        listed: dict[str, list[Any]] = {field: [] for field in _FIELDS}
        for key, step in self.steps.items():
            if key in values:
                listed[step.kind].append(values[key])
        return listed


def earlier_files(folder: Path) -> frozenset[str]:
    """Return names of the files that earlier runs wrote into the folder of a point; none if it is no such folder."""
    try:
        record = json.loads((folder / RESULT).read_text())
        names = [str(name) for name in record["files"]] if record["keys"] else []
    except (OSError, ValueError, LookupError, TypeError):
        return frozenset()
    # ignore paths outside the folder, as the list may have been edited
    return frozenset(name for name in names if not {"..", "/"} & set(Path(name).parts))


def run_step(
    point: Point, step: PointStep, emit: Callable[[str, Configuration], EmittedDesign], fresh_since: float
) -> StepOutcome:
    """Run a step of a point in this process; names of files are relative to the folder of the point."""
    ignore_before(fresh_since)
    try:
        design = emit(point.top, point.config)
    except Exception as error:  # an error of one point must not end the run
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
    except Exception as error:  # an error of one step must not end the run
        own = error.files if isinstance(error, FlowError) else {}
        outcome = StepOutcome(error=_one_line(error), files=own)
    seconds = 0.0 if outcome.cached else perf_counter() - start
    print(f"{step.name}: {'known' if outcome.cached else f'{seconds:.1f} s'}", flush=True)
    files |= {f"{folder_name(step.name)}/{name}": content for name, content in outcome.files.items()}
    error = f"{step.name}: {outcome.error}" if outcome.error else ""
    return replace(outcome, error=error, files=files, configuration=configuration, seconds=seconds)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, XpulpnnError):
        return text
    traceback.print_exception(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def run_tasks(
    tasks: Sequence[Task],
    on_end: Callable[[str, str, bool], None],  # point, step, and whether its result was cached
    *,
    on_begin: Callable[[str, str], object] = lambda label, step: None,
    jobs: int = 2,
    timeout_s: float = 3600.0,
    dask: str = "",
) -> None:
    """Run the missing steps of all tasks, first flows, then kernels, then energies; errors are stored in the tasks."""
    for task in tasks:
        for key in task.known:
            on_end(task.point.label, task.steps[key].name, True)
    missing = [(task, key) for task in tasks for key in task.missing]
    missing.sort(key=lambda pair: _FIELDS.index(pair[0].steps[pair[1]].kind))
    if not missing:
        return
    steps = {id(step): step for task, _ in missing for step in task.steps.values()}
    versions = partial(_versions, tuple(steps.values()))
    with single_interrupt(), executor(jobs, dask=dask, timeout_s=timeout_s, versions=versions) as pool:
        shared = {name: pool.share(step) for name, step in steps.items()}
        calls = {
            pool.submit(run_step, task.point, shared[id(task.steps[key])], emit_design, task.fresh_since): (task, key)
            for task, key in missing
        }

        def announce_next() -> None:
            for task, key in [pair for call, pair in calls.items() if not call.done()][:1]:
                on_begin(task.point.label, task.steps[key].name)

        announce_next()
        for call in as_completed(calls):
            assert isinstance(call, Call)
            task, key = calls[call]
            step = task.steps[key]
            try:
                outcome = call.result()
            except CallError as error:
                outcome = StepOutcome(error=f"{step.name}: {error} (see {LOG})")
            task.accept(key, outcome, call.output)
            on_end(task.point.label, step.name, outcome.cached)
            announce_next()


def _versions(steps: Sequence[PointStep]) -> dict[str, str]:
    versions = {"Python": versions_of()["Python"], "sources of xpulpnn": design_sources_digest()[:12]}
    for step in steps:
        versions |= {f"{name} (for {step.name})": value for name, value in step.settings().items()}
    return versions
