"""One point of an exploration: its steps, what is already known of it, and its folder."""

import hashlib
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Protocol

import xpulpnn
import xpulpnn_sim
import xpulpnn_sw
from xpulpnn.config import CoreConfig
from xpulpnn.errors import XpulpnnError
from xpulpnn_sim.explore.results import EmittedDesign, EnergyResult, FlowResult, PointResult, point_from_json, to_json
from xpulpnn_sim.explore.space import Point
from xpulpnn_sim.files import write_text

ResultField = Literal["flows", "kernels", "energies"]
"""Field of :class:`~xpulpnn_sim.explore.results.PointResult` that a step adds to."""

RESULT = "result.json"
CONFIGURATION = "config.json"

_SHOWS_ONLY = {"commands", "report", "bench", "verify", "iss"}
"""Folders of sources that no result depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """Result of a step, whether it came from a cache, and what is wrong with it (one line, empty if nothing)."""

    result: FlowResult | EnergyResult | dict[str, Any]
    cached: bool = False
    error: str = ""


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
    """What is to be done for a point.

    Parameters
    ----------
    point : Point
        The configuration.
    steps : tuple of PointStep
        In the order of the results.
    keys : tuple of str
        One per step: results are the same if keys are.
    known : PointResult or None
        Result of an earlier run.
    known_keys : mapping of str to list of str
        Keys of its results, by kind, in their order.
    """

    point: Point
    steps: tuple[PointStep, ...]
    keys: tuple[str, ...]
    known: PointResult | None
    known_keys: Mapping[str, Sequence[str]]

    def earlier(self, step: PointStep, key: str) -> FlowResult | EnergyResult | dict[str, Any] | None:
        """The known result of a step, if it has one."""
        keys = self.known_keys.get(step.kind, ())
        if self.known is None or key not in keys:
            return None
        return getattr(self.known, step.kind)[keys.index(key)]

    @property
    def missing(self) -> int:
        """Number of steps without a known result."""
        return sum(self.earlier(step, key) is None for step, key in zip(self.steps, self.keys, strict=True))


@cache
def sources_digest() -> str:
    """Hash of the sources of generator, kernels and simulation, and of the version of the hardware language."""
    digest = hashlib.sha256(metadata.version("amaranth").encode())
    for package in (xpulpnn, xpulpnn_sw, xpulpnn_sim):
        folder = Path(package.__file__ or "").parent
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != ".pyc" and not _SHOWS_ONLY.intersection(path.parts):
                digest.update(path.name.encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def step_key(top: str, config: CoreConfig, name: str, settings: Mapping[str, str]) -> str:
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
    point: Point, steps: Sequence[tuple[PointStep, Mapping[str, str]]], folder: Path, *, fresh: bool = False
) -> Task:
    """The task of a point.

    Parameters
    ----------
    point : Point
        The configuration.
    steps : sequence of (PointStep, settings)
        What to do, in order, each with its settings: to ask for them may mean to ask tools for their versions.
    folder : Path
        The folder of the point.
    fresh : bool
        Whether to ignore what is already there.
    """
    known, keys = (None, {}) if fresh else _read(point, folder)
    return Task(
        point=point,
        steps=tuple(step for step, _ in steps),
        keys=tuple(step_key(point.top, point.config, step.name, settings) for step, settings in steps),
        known=known,
        known_keys=keys,
    )


def replan(task: Task, folder: Path) -> Task:
    """The same task with what its folder holds by now."""
    known, keys = _read(task.point, folder)
    return replace(task, known=known, known_keys=keys)


def _read(point: Point, folder: Path) -> tuple[PointResult | None, dict[str, list[str]]]:
    """What an earlier run left; nothing if any file is missing or unreadable."""
    names = (CONFIGURATION, f"{point.top}.v", f"{point.top}.json")
    if not all((folder / name).is_file() for name in names):
        return None, {}
    try:
        record = json.loads((folder / RESULT).read_text())
        keys = {str(kind): [str(key) for key in listed] for kind, listed in record["keys"].items()}
        known = point_from_json(record)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, {}
    if any(len(keys.get(kind, [])) != len(getattr(known, kind)) for kind in ("flows", "kernels", "energies")):
        return None, {}
    return known, keys


def finished(task: Task, folder_name: str) -> PointResult:
    """The result of a task none of whose steps is missing."""
    results = _Results(task, folder_name)
    if task.known is not None:
        results.configuration = task.known.configuration
    for step, key in zip(task.steps, task.keys, strict=True):
        earlier = task.earlier(step, key)
        if earlier is not None:
            results.add(step, key, earlier)
    return results.point()


class _Results:
    """Collects what is known of a point."""

    def __init__(self, task: Task, folder_name: str) -> None:
        self.task = task
        self.folder_name = folder_name
        self.configuration: dict[str, Any] = {}
        self.errors: list[str] = []
        self.results: dict[str, list[Any]] = {"flows": [], "kernels": [], "energies": []}
        self.keys: dict[str, list[str]] = {kind: [] for kind in self.results}

    def add(self, step: PointStep, key: str, result: FlowResult | EnergyResult | dict[str, Any]) -> None:
        """Add the result of one step."""
        self.results[step.kind].append(result)
        self.keys[step.kind].append(key)

    def point(self) -> PointResult:
        """All of it."""
        point = self.task.point
        return PointResult(
            label=point.label,
            top=point.top,
            preset=point.preset,
            settings=dict(point.settings),
            configuration=self.configuration,
            folder=self.folder_name,
            error="; ".join(self.errors),
            **self.results,
        )


def write_result(folder: Path, result: PointResult, keys: Mapping[str, Sequence[str]]) -> None:
    """Write ``result.json``, with the keys by which a later run recognises its parts."""
    text = json.dumps({**to_json(result), "keys": {kind: list(listed) for kind, listed in keys.items()}}, indent=1)
    write_text(folder / RESULT, text + "\n")


def run_task(
    task: Task,
    folder: Path,
    folder_name: str,
    emit: Callable[[str, CoreConfig], EmittedDesign],
    done: Callable[[str, bool], None],
) -> PointResult:
    """Run the steps whose results are not known, writing what is known after each.

    Parameters
    ----------
    task : Task
        What to do.
    folder : Path
        Where the files go; it exists.
    folder_name : str
        What the result calls it.
    emit : callable
        Makes the design of a component name and configuration.
    done : callable
        Told the name of each step and whether its result came from a cache.

    A step that fails leaves its error in the result; the others are run all the same.
    """
    results = _Results(task, folder_name)
    try:
        design = emit(task.point.top, task.point.config)
    except Exception as error:  # one point's trouble must not end the run
        results.errors.append(f"generate: {one_line(error)}")
        write_result(folder, results.point(), results.keys)
        for step in task.steps:
            done(step.name, False)
        return results.point()
    results.configuration = dict(design.manifest["configuration"])
    write_text(folder / CONFIGURATION, json.dumps(results.configuration, indent=2) + "\n")
    write_text(folder / f"{design.top}.v", design.verilog)
    write_text(folder / f"{design.top}.json", json.dumps(design.manifest, indent=2) + "\n")
    for step, key in zip(task.steps, task.keys, strict=True):
        earlier = task.earlier(step, key)
        cached = earlier is not None
        start = perf_counter()
        if earlier is not None:
            results.add(step, key, earlier)
        else:
            cached = _run_step(step, key, design, results)
        print(f"{step.name}: {'known' if cached else f'{perf_counter() - start:.1f} s'}", flush=True)
        write_result(folder, results.point(), results.keys)
        done(step.name, cached)
    return results.point()


def _run_step(step: PointStep, key: str, design: EmittedDesign, results: _Results) -> bool:
    """Run one step; returns whether its result came from a cache."""
    try:
        outcome = step.run(design)
    except Exception as error:  # one step's trouble must not end the run
        results.errors.append(f"{step.name}: {one_line(error)}")
        return False
    if outcome.error:
        results.errors.append(f"{step.name}: {outcome.error}")
    # a result that is wrong is shown, but never taken for a finished step
    results.add(step, "" if outcome.error else key, outcome.result)
    return outcome.cached


def one_line(error: Exception) -> str:
    """An error as one line; the traceback of an unexpected one goes to the log of the point."""
    text = " ".join(str(error).split())
    if isinstance(error, XpulpnnError):
        return text
    traceback.print_exception(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def with_error(result: PointResult, error: str) -> PointResult:
    """``result`` with one more error."""
    return replace(result, error="; ".join(filter(None, (result.error, error))))
