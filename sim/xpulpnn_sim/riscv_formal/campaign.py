"""Many checks of one core side by side, with results that a later run takes up."""

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from xpulpnn_sim.files import write_text
from xpulpnn_sim.riscv_formal.aiger import Named
from xpulpnn_sim.riscv_formal.cuts import Cut, commands, kept_wires
from xpulpnn_sim.riscv_formal.gates import GATES, Design, make_gates, make_graph
from xpulpnn_sim.riscv_formal.model_check import (
    FAILED,
    PASSED,
    UNDECIDED,
    Outcome,
    alike,
    pass_together,
    pose,
    read_check,
    search,
)
from xpulpnn_sim.riscv_formal.suite import Check, Suite
from xpulpnn_sim.riscv_formal.testbench import top_text
from xpulpnn_sim.yosys import Yosys

_RESULT = "result.json"
_MOST_TOGETHER = 12
_STAMP = "core.json"
_CORES = "core-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What is checked, with what."""

    suite: Suite  # riscv-formal
    design: Design
    folder: Path  # gets the gates, and a folder for each check
    yosys: Yosys  # makes the gates
    abc: str
    timeout_s: float  # seconds for each search
    like: Path | None = None  # gates of a core that differs in the module `changed` only, if there are any
    changed: str = ""  # name of a module

    def prepare(self) -> None:
        """Make the gates of the core, unless the folder has them already; raises :class:`ToolError`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        stamp = {"design": _digest(self.design.text), "cuts": kept_wires(self.design.modules)}
        path = self.folder / _STAMP
        if _read(path) != stamp or not (self.folder / GATES).exists():
            path.unlink(missing_ok=True)
            for old in self.folder.glob(f"{_CORES}*"):
                shutil.rmtree(old)
            make_gates(self.design, self.folder, self.yosys, self.like, self.changed)
            write_text(path, json.dumps(stamp))

    def run(self, checks: Sequence[Check], jobs: int, *, resume: bool) -> Iterator[Outcome]:
        """The outcomes, as they come."""
        waiting: list[Check] = []
        for check in checks:
            known = self._known(check) if resume else None
            if known is None:
                waiting.append(check)
            else:
                yield known
        if not waiting:
            return
        self.prepare()
        cores = _Cores(self)
        pool = ThreadPoolExecutor(max_workers=jobs)
        try:
            for done in as_completed([pool.submit(self.check, each, cores) for each in _together(waiting)]):
                yield from done.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def check(self, checks: Sequence[Check], cores: "_Cores") -> list[Outcome]:
        """Outcomes, which are kept, of checks that are searched together, and one by one unless all pass."""
        core = cores.graph(checks[0].cuts)
        graphs: list[Named] = []
        for check in checks:
            folder = self.folder / check.name
            shutil.rmtree(folder, ignore_errors=True)
            graphs.append(read_check(check, self.suite, self.design.manifest, folder, self.yosys))
        if len(checks) > 1:
            problem = pose(checks, graphs, core)
            seconds = pass_together(checks, problem, self.folder / checks[0].name, self.abc, self.timeout_s)
            if seconds is not None:
                each = seconds / len(checks)
                passed = [Outcome(name=c.name, verdict=PASSED, cycle=c.cycle, seconds=each) for c in checks]
                return [self._keep(*pair) for pair in zip(checks, passed, strict=True)]
        found: list[Outcome] = []
        for check, graph in zip(checks, graphs, strict=True):
            folder, problem = self.folder / check.name, pose([check], [graph], core)
            outcome = search(check, problem, folder, self.abc, self.timeout_s, shortest=bool(self.changed))
            found.append(self._keep(check, outcome))
        return found

    def _keep(self, check: Check, outcome: Outcome) -> Outcome:
        folder = self.folder / check.name
        record = {"key": self._key(check), "outcome": asdict(outcome), "timeout_s": self.timeout_s}
        write_text(folder / _RESULT, json.dumps(record, default=list))
        if outcome.verdict != FAILED:
            for name in ("check.aig", "check.map", "bad.aig", "simple.aig"):
                (folder / name).unlink(missing_ok=True)
        return outcome

    def _known(self, check: Check) -> Outcome | None:
        record = _read(self.folder / check.name / _RESULT)
        if not isinstance(record, dict) or record.get("key") != self._key(check):
            return None
        try:
            outcome = Outcome(**record["outcome"])
            limit = float(record["timeout_s"])
        except (KeyError, TypeError, ValueError):
            return None
        return None if outcome.verdict == UNDECIDED and limit < self.timeout_s else outcome

    def _key(self, check: Check) -> str:
        """Digest of all that an outcome follows from."""
        parts = [self.suite.text(name) for name in check.files]
        how = f"{check.cycle} {check.first} {check.delay} {check.sliced} {commands(check.cuts, self.design.modules)}"
        return _digest("\n".join([self.design.text, top_text(check, self.design.manifest), how, *parts]))


class _Cores:
    """The graphs of the core, each with other wires cut, made when the first check asks."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._found: dict[tuple[Cut, ...], Named] = {}
        self._locks: defaultdict[tuple[Cut, ...], Lock] = defaultdict(Lock)

    def graph(self, cuts: tuple[Cut, ...]) -> Named:
        """The one with some wires cut; raises :class:`ToolError`."""
        with self._locks[cuts]:
            if cuts not in self._found:
                campaign = self._campaign
                gates = (campaign.folder / GATES).absolute()
                folder = campaign.folder / f"{_CORES}{_digest(repr(cuts))[:8]}"
                self._found[cuts] = make_graph(campaign.design, cuts, gates, folder, campaign.yosys)
            return self._found[cuts]


def _together(checks: Sequence[Check]) -> list[list[Check]]:
    """Checks that can be searched together, some at a time, in the order of the first of them."""
    groups: dict[object, list[Check]] = {}
    for check in checks:
        groups.setdefault(alike(check) or check.name, []).append(check)
    return [group[at : at + _MOST_TOGETHER] for group in groups.values() for at in range(0, len(group), _MOST_TOGETHER)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path) -> Mapping[str, Any] | None:
    """A file of JSON; None if there is none."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
