"""One point of an exploration: its steps, what is already known of it, and its folder."""

import json
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Protocol

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
from xpulpnn_sim.tools.files import write_text
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.pool import Call, versions_of
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """Outcome of a step of a point."""

    result: StepResult | None = None  # None if the step failed
    cached: bool = False  # the result came from a cache
    error: str = ""  # what is wrong with it, one line; empty if nothing
    # text by name: what goes into a folder of the step's name in that of the point (see folder_name)
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    configuration: dict[str, Any] = field(default_factory=dict[str, Any])  # echo of the manifest, once there is one
    seconds: float = 0.0  # how long it took, with what had to be made first, such as a model


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


class Task:
    """A point of a run: its steps, what is known of their results, and its folder."""

    def __init__(
        self, point: Point, steps: Iterable[PointStep], output: Path, *, fresh_since: float | None = None
    ) -> None:
        described = design_sources_digest(), point.top, point.config
        self.point = point
        # in the order of the results, by keys: results are the same if keys are
        self.steps = {digest(*described, step.name, step.settings()): step for step in steps}
        self.folder = output / POINTS / point.folder
        self.fresh_since = fresh_since or 0.0  # seconds since the epoch before which no entry of the cache counts
        self.configuration: dict[str, Any] = {}  # echo of the configuration in the manifest, once there is one
        self.known: dict[str, StepResult] = {}  # results by key; those with an error are wrong
        self.errors: dict[str, str] = {}  # by key
        self.seconds: dict[str, float] = {}  # how long steps of this run took, by key
        self._files: set[str] = set()  # names of all that runs have written into the folder
        if fresh_since is None:
            self._files |= earlier_files(self.folder)
            self._load()
        self.left = set(self.missing)  # keys of the steps that have not ended
        self._log = "".join(f"{step.name}: known\n" for key, step in self.steps.items() if key in self.known)

    def _load(self) -> None:
        """Take what the folder holds; nothing if any file is missing or unreadable."""
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
        """Keys of the steps without a right result."""
        return [key for key in self.steps if key not in self.known or key in self.errors]

    def result(self) -> PointResult:
        """All that is known by now, and what went wrong."""
        # a design that cannot be made says so once, not for every step
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
        """The right results, of a point that an interrupted run did not finish."""
        names = ", ".join(step.name for key, step in self.steps.items() if key in self.left)
        error = "; ".join([f"{UNFINISHED} {names}", *filter(None, [self.result().error])])
        right = {key: step_result for key, step_result in self.known.items() if key not in self.errors}
        return replace(self.result(), error=error, **self._by_field(right))

    def accept(self, key: str, outcome: StepOutcome, output: str) -> None:
        """Take the outcome of a step and what it printed, and write all that is known into the folder."""
        self.left.remove(key)
        self.configuration = outcome.configuration or self.configuration
        if outcome.result is not None:
            self.known[key], self.seconds[key] = outcome.result, outcome.seconds
        if outcome.error:
            self.errors[key] = outcome.error
        self._log += output
        files = {**outcome.files, LOG: self._log}
        self._files |= {*files, RESULT}
        # by the keys a later run recognises what is right
        keys = self._by_field({key_of: "" if key_of in self.errors else key_of for key_of in self.known})
        record = {**asdict(self.result()), "keys": keys, "files": sorted(self._files)}
        for name, text in {**files, RESULT: json.dumps(record, indent=1) + "\n"}.items():
            write_text(self.folder / name, text)

    def _by_field(self, values: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Sort values by key into the fields of the result, in the order of the steps."""
        listed: dict[str, list[Any]] = {field: [] for field in _FIELDS}
        for key, step in self.steps.items():
            if key in values:
                listed[step.kind].append(values[key])
        return listed


def earlier_files(folder: Path) -> frozenset[str]:
    """Names of the files that runs have written into the folder of a point; none if it is no such folder."""
    try:
        record = json.loads((folder / RESULT).read_text())
        names = [str(name) for name in record["files"]] if record["keys"] else []
    except (OSError, ValueError, LookupError, TypeError):
        return frozenset()
    # whoever may have edited the list: nothing outside the folder is ever meant
    return frozenset(name for name in names if not {"..", "/"} & set(Path(name).parts))


def run_step(
    point: Point, step: PointStep, emit: Callable[[str, Configuration], EmittedDesign], fresh_since: float
) -> StepOutcome:
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
    seconds = 0.0 if outcome.cached else perf_counter() - start
    print(f"{step.name}: {'known' if outcome.cached else f'{seconds:.1f} s'}", flush=True)
    files |= {f"{folder_name(step.name)}/{name}": content for name, content in outcome.files.items()}
    error = f"{step.name}: {outcome.error}" if outcome.error else ""
    return replace(outcome, error=error, files=files, configuration=configuration, seconds=seconds)


def _one_line(error: Exception) -> str:
    """An error as one line; the traceback of an unexpected one goes to the log of the point."""
    text = " ".join(str(error).split())
    if isinstance(error, XpulpnnError):
        return text
    traceback.print_exception(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


Report = Callable[[str, str, bool], None]
"""Takes the label of a point, the name of a finished step and whether its result was known already."""


Begun = Callable[[str, str], object]
"""Takes the label of a point and the name of a step that runs."""


def run_tasks(
    tasks: Sequence[Task],
    report: Report,
    *,
    begun: Begun = lambda label, step: None,
    jobs: int = 2,
    timeout_s: float = 3600.0,
    dask: str = "",
) -> None:
    """Run what the tasks lack; a point that failed has its error. ``begun`` gets the first of the steps that run.

    Steps run in ``jobs`` processes, or on the workers of the Dask scheduler at the address ``dask``; one that takes
    longer than ``timeout_s`` fails. There is a call per step: areas and delays of all points, then cycles, then
    energies, which take longest. What is finished is on disk, and a lost machine loses one step. No process is started
    if no step is missing.
    """
    for task in tasks:
        for key in task.known:
            report(task.point.label, task.steps[key].name, True)
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

        def tell() -> None:
            for task, key in [pair for call, pair in calls.items() if not call.done()][:1]:
                begun(task.point.label, task.steps[key].name)

        tell()
        for call in as_completed(calls):
            assert isinstance(call, Call)
            task, key = calls[call]
            step = task.steps[key]
            try:
                outcome = call.result()
            except CallError as error:
                outcome = StepOutcome(error=f"{step.name}: {error} (see {LOG})")
            task.accept(key, outcome, call.output)
            report(task.point.label, step.name, outcome.cached)
            tell()


def _versions(steps: Sequence[PointStep]) -> dict[str, str]:
    """All that the results of steps depend on besides the configuration."""
    versions = {"Python": versions_of()["Python"], "sources of xpulpnn": design_sources_digest()[:12]}
    for step in steps:
        versions |= {f"{name} (for {step.name})": value for name, value in step.settings().items()}
    return versions
