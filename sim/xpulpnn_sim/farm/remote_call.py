"""What a Dask worker does: a call in a process of its own, its output and files sent back as bytes."""

import hashlib
import pickle
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from xpulpnn_sim.farm.child import LOG, SCRATCH, Child, Tell

_POLL_S = 0.5
"""Time between looks whether anybody still wants the result."""

_VERSIONS_S = 120.0
"""Longest time in which a worker must have told its versions."""

_known_versions: dict[str, Mapping[str, str]] = {}
"""What this worker has told, by a hash of the function that asked and its arguments."""
_asking = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a call."""

    returned: bool = False
    value: Any = None
    told: list[Any] = field(default_factory=list[Any])
    # files of its folder, by their names relative to it; the log is among them
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    why: str = ""  # why it did not return, without a name in front; empty if it did


def _tell_versions(tell: Tell, versions: bytes) -> dict[str, str]:
    function, parts = pickle.loads(versions)
    return dict(function(tell, *map(pickle.loads, parts)))


def answer_call(
    versions: bytes, expected: Mapping[str, str], function: bytes, timeout_s: float, *parts: bytes
) -> Answer:
    """Run a call on this worker."""
    difference = _difference(versions, expected)
    if difference:
        return Answer(why=difference)
    # the function is loaded by the process alone: a worker keeps nothing of ours in memory
    return _run(_load_and_call, (pickle.dumps(function), pickle.dumps(parts)), timeout_s)


def _load_and_call(tell: Tell, function: bytes, parts: tuple[bytes, ...]) -> Any:
    return pickle.loads(function)(tell, *map(pickle.loads, parts))


def _difference(versions: bytes, expected: Mapping[str, str]) -> str:
    """What is not as expected here; empty if all is."""
    name = hashlib.sha256(versions).hexdigest()
    with _asking:
        if name not in _known_versions:
            answer = _run(_tell_versions, (pickle.dumps(versions),), _VERSIONS_S)
            if not answer.returned:
                log = answer.files.get(LOG, b"").decode(errors="replace").split("\n")
                last = next((line.strip() for line in reversed(log) if line.strip()), answer.why)
                return f"be able to tell its versions, not fail with: {last}"
            _known_versions[name] = answer.value
    found = _known_versions[name]
    for what, wanted in expected.items():
        if found.get(what) != wanted:
            return f"have {what} {wanted}, not {found.get(what, 'none')}"
    return ""


def _run(function: Callable[..., Any], parts: tuple[bytes, ...], timeout_s: float) -> Answer:
    with tempfile.TemporaryDirectory(prefix="xpulpnn-") as name:
        folder = Path(name)
        wanted = _wanted()
        child = Child(function, parts, folder, timeout_s, inside=True)
        told: list[Any] = []
        code: int | None = None
        kill = True
        try:
            while wanted() and not child.late:
                if not child.receiver.poll(_POLL_S):
                    continue
                message, more = child.receive()
                if not more:
                    kill = False
                    break
                told.append(message)
        finally:
            code = child.end(kill=kill)
        files = {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.relative_to(folder).parts[0] != SCRATCH
        }
        why = "" if child.returned else child.why(code)
        return Answer(returned=child.returned, value=child.value, told=told, files=files, why=why)


def _wanted() -> Callable[[], bool]:
    """A function that tells whether the call that this thread runs is still wanted by somebody."""
    worker = import_module("distributed").get_worker()
    key = worker.get_current_task()

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state == "executing"

    return wanted
