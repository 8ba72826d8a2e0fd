"""Run riscv-formal checks of a core, correct or with a fault, in parallel; outcomes are stored."""

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import xpulpnn_sim.proofs.riscv_formal
from xpulpnn.config import CoreConfig
from xpulpnn.verilog import EmittedVerilog
from xpulpnn_sim.proofs.engine.clocked_gates import ClockedGates
from xpulpnn_sim.proofs.engine.outcomes import FAILED, PASSED, Ledger, Outcome
from xpulpnn_sim.proofs.engine.solvers import CycleSearch
from xpulpnn_sim.proofs.faults.fault import Fault
from xpulpnn_sim.proofs.riscv_formal import cutpoints, model_check
from xpulpnn_sim.proofs.riscv_formal.suite import Check, Suite
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.pool import completed
from xpulpnn_sim.tools.results import Results, digest
from xpulpnn_sim.tools.yosys import Yosys

_MOST_TOGETHER = 12
_CORES = "core-"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreChecks:
    suite: Suite
    config: CoreConfig
    design: EmittedVerilog
    folder: Path  # with the gates, and a folder for each check
    yosys: Yosys
    abc: str
    timeout_s: float  # for each search
    like: Path | None = None  # gates of a core that differs in the module `changed` only
    changed: str = ""

    def prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        stamp, key = Results(self.folder / "stamp"), digest(self.design.text, cutpoints.kept_wires(self.design.modules))
        if not stamp.find(cutpoints.GATES, key) or not (self.folder / cutpoints.GATES).exists():
            stamp.remove()
            for old in self.folder.glob(f"{_CORES}*"):
                shutil.rmtree(old)
            cutpoints.make_gates(self.design, self.folder, self.yosys, self.like, self.changed)
            stamp.store(cutpoints.GATES, True, key)

    def run(self, checks: Sequence[Check], jobs: int, *, resume: bool) -> Iterator[Outcome]:
        ledger = Ledger(self.folder / "results", self.timeout_s, resume)
        stored, open_checks = ledger.find_all({check: (check.name, self._key(check)) for check in checks})
        yield from stored
        if not open_checks:
            return
        self.prepare()
        groups = _groups(open_checks)
        with executor(jobs) as pool:
            shared = pool.share(self)
            # written before several processes need them
            for _ in completed(pool, _make_core, dict.fromkeys(group[0].cutpoints for group in groups), shared):
                pass
            for group, outcomes in completed(pool, _check_group, groups, shared):
                for check, outcome in zip(group, outcomes, strict=True):
                    yield ledger.store(outcome, self._key(check))

    def _key(self, check: Check) -> str:
        parts = [self.suite.text(name) for name in check.files]
        cuts = cutpoints.cut_commands(check.cutpoints, self.design.modules)
        limits = f"{check.cycle} {check.first} {check.delay} {check.sliced} {cuts}"
        inputs = xpulpnn_sim.proofs.riscv_formal, model_check.top_text(check, self.design.manifest), limits
        return digest(self.design.text, inputs, parts)


def _check_group(checks: Sequence[Check], checked: CoreChecks) -> list[Outcome]:
    """Search a group of checks together and, unless all of them pass, each separately; return their outcomes."""
    core, manifest = _core(checked, checks[0].cutpoints), checked.design.manifest
    abc, limit_s = checked.abc, checked.timeout_s
    graphs: list[ClockedGates] = []
    for check in checks:
        folder = checked.folder / check.name
        shutil.rmtree(folder, ignore_errors=True)
        graphs.append(model_check.read_check(check, checked.suite, manifest, folder, checked.yosys))
    outcomes: list[Outcome] = []
    together = model_check.bmc_problem(checks, graphs, core) if len(checks) > 1 else None
    seconds = None
    if together:
        seconds = model_check.search_all(checks, together, checked.folder / checks[0].name, abc, limit_s)
    for place, (check, graph) in enumerate(zip(checks, graphs, strict=True)):
        folder = checked.folder / check.name
        if together and seconds is not None:
            outcome = Outcome(name=check.name, verdict=PASSED, cycle=check.cycle, seconds=seconds / len(checks))
            problem, claim = together, together.claims[place]
        else:
            problem = model_check.bmc_problem([check], [graph], core)
            outcome = model_check.search(check, problem, folder, abc, limit_s, shortest=bool(checked.changed))
            (claim,) = problem.claims
        searching = CycleSearch(abc, folder, time.monotonic() + limit_s)
        outcomes.append(model_check.with_claims(outcome, check, claim, problem.graph, searching))
        if outcomes[-1].verdict != FAILED:
            for name in ("check.json", model_check.BAD, model_check.SIMPLE, model_check.CLAIMS):
                (folder / name).unlink(missing_ok=True)
    return outcomes


def _make_core(cuts: tuple[str, ...], checked: CoreChecks) -> None:
    _core(checked, cuts)


_cores: dict[str, ClockedGates] = {}  # cached graphs of this process


def _core(checked: CoreChecks, cuts: tuple[str, ...]) -> ClockedGates:
    key = digest(checked.folder.absolute(), checked.design.text, repr(cuts))
    if key not in _cores:
        folder = checked.folder / f"{_CORES}{digest(repr(cuts))[:8]}"
        gates = (checked.folder / cutpoints.GATES).absolute()
        _cores[key] = cutpoints.cut_core(checked.design, cuts, gates, folder, checked.yosys)
    return _cores[key]


def _groups(checks: Sequence[Check]) -> list[list[Check]]:
    """Group checks that can be searched together, in order and with a limited number of checks in each group."""
    groups: dict[object, list[Check]] = {}
    for check in checks:
        groups.setdefault(model_check.shared_search(check) or check.name, []).append(check)
    return [group[at : at + _MOST_TOGETHER] for group in groups.values() for at in range(0, len(group), _MOST_TOGETHER)]


def find_faults(
    checked: CoreChecks, faults: Sequence[Fault], checks: Sequence[Check], *, resume: bool
) -> Iterator[tuple[Fault, Check, Outcome]]:
    if faults:
        checked.prepare()
    gates = (checked.folder / cutpoints.GATES).absolute()
    for fault in faults:
        folder = checked.folder / "faults" / fault.name.replace(" ", "-")
        with fault.seeded():
            design = cutpoints.emit_cut_design(checked.config, checked.suite.masks)
        faulty = replace(checked, design=design, folder=folder, like=gates, changed=fault.module)
        check = next(check for check in checks if check.name in fault.checks)
        for outcome in faulty.run([check], 1, resume=resume):
            yield fault, check, outcome
