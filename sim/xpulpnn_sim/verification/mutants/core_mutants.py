# amaranth: UnusedElaboratable=no
"""Test and prove all mutants of a core.

One model contains all mutants, and each run of a program selects one of them. Every mutant has an enable, which is a
register outside the core. The registers are loaded before the first cycle, so that selecting a mutant takes no
simulation time. Mutants that no program finds are compared with the core. A mutant of an arithmetic unit or of the load
and store unit is first compared with that unit alone, for the control words and operands that instructions give it. The
mutants that remain, and all others, are compared with larger and larger parts of the core, at last with all of it.
"""

import ctypes
import hashlib
import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from random import Random
from typing import Any

from amaranth.lib import wiring

from xpulpnn.config import CoreConfig
from xpulpnn.core.core import Core
from xpulpnn.errors import ToolError
from xpulpnn_sim.cosimulation.model.build import build_model
from xpulpnn_sim.cosimulation.model.libraries import cached_emission, rig_of
from xpulpnn_sim.proofs.mutants import mutant_comparison
from xpulpnn_sim.proofs.mutants.mutant_comparison import InputCase, InputConstraints, MutantComparer, MutantComparison
from xpulpnn_sim.proofs.mutants.mutated_gates import MutatedGates, read_mutated
from xpulpnn_sim.proofs.mutants.unit_constraints import CONSTRAINTS
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.probes import UNIT_INSTANCES
from xpulpnn_sim.tools.processes import Forks, limit_computing, silence
from xpulpnn_sim.tools.results import Results, digest, sources_digest
from xpulpnn_sim.tools.worker_process import CallError
from xpulpnn_sim.tools.yosys import Yosys, find_abc
from xpulpnn_sim.verification.mutants import judgement, programs
from xpulpnn_sim.verification.mutants.judgement import Judged, Mutant, MutantProver, MutationSettings, Progress, Proof
from xpulpnn_sim.verification.mutants.programs import Finding
from xpulpnn_sim.verification.mutants.unit_mutants import handshakes_of
from xpulpnn_sim.verification.random.program_runs import CoreSource

_DOCUMENTATION = re.compile(r" -(?:src|wire|wirebit) \S+")
_INSTANCE = re.compile(r"^\$flatten((?:\\[^.$]+\.)+)")


def chosen_places(lines: Sequence[str], count: int, seed: int) -> tuple[Mutant, ...]:
    parts: dict[str, list[str]] = {}
    for line in judgement.places(dict.fromkeys(lines)):
        parts.setdefault(_part(judgement.fields_of(line)["-cell"]), []).append(line)
    rng, taken = Random(seed), list[tuple[str, str]]()
    names = sorted(parts)
    for name in names:
        rng.shuffle(parts[name])
    shares = _shares([len(parts[name]) for name in names], count)
    for name, share in zip(names, shares, strict=True):
        taken += [(name, line) for line in parts[name][:share]]
    return tuple(
        judgement.mutant_of(number, line, module=part or "core", command=_DOCUMENTATION.sub("", line))
        for number, (part, line) in enumerate(taken, start=1)
    )


def _shares(sizes: Sequence[int], count: int) -> list[int]:
    shares, left = [0] * len(sizes), min(count, sum(sizes))
    while left:
        open_ = [at for at, size in enumerate(sizes) if shares[at] < size]
        # whoever has least for its weight comes next
        at = min(open_, key=lambda at: ((shares[at] + 1) / sizes[at] ** 0.5, at))
        shares[at] += 1
        left -= 1
    return shares


def _part(cell: str) -> str:
    match = _INSTANCE.match(cell)
    if match:
        return match[1].replace("\\", "").rstrip(".")
    return cell.removeprefix("\\").rpartition(".")[0] if cell.startswith("\\") else ""


TOP = "core"
_ENABLE = "mutant_on_"  # what the names of the inputs begin with that turn mutants on; the number follows

_INNER = "core_mutants"
_PLACES_PER_MUTANT = 15

# The retirement port is for verification alone: what leads nowhere else is no place for a mutant.
_FLAT = "flatten\ndelete t:$scopeinfo\nopt_clean -purge\n"
_WORKS = "o:* o:rvfi_* %d %ci*"

_PART = """read_rtlil unit.il
hierarchy -top {top}
proc
memory_collect
hierarchy -top {top}.{place}
flatten
delete t:$scopeinfo
rename {top}.{place} {part}
write_rtlil {part}.il
"""

_SHELL = (
    f"{judgement.LINT_OFF}\n"
    """module {top}({names});
{ports}
  import "DPI-C" function int chosen_mutant();
  reg [{count}:0] on;
  initial begin
    on = 0;
    on[chosen_mutant()] = 1'b1;
  end
  {inner} {inner}({pins});
endmodule
{text}"""
)
_CHOICE = """#define EXPORT extern "C" __attribute__((visibility("default")))
static int chosen = 0;
EXPORT void choose_mutant(int number) { chosen = number; }
extern "C" int chosen_mutant() { return chosen; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutatedCore:
    library: Path
    digest: str  # hash of the design
    mutants: tuple[Mutant, ...]  # what may be chosen; their numbers are 1, 2,

    def choose(self, number: int) -> None:
        """Select a mutant for all models created later by this process; 0 selects the unchanged core."""
        ctypes.CDLL(str(self.library)).choose_mutant(ctypes.c_int(number))


def mutated_core(config: CoreConfig, count: int, seed: int, folder: Path, yosys: Yosys) -> MutatedCore:
    observed = replace(config, rvfi=True)
    number = count * _PLACES_PER_MUTANT
    core = Core(observed)
    lines = judgement.find_places(core, TOP, folder, yosys, places=number, seed=seed, more=_FLAT, among=_WORKS)
    mutants = chosen_places(lines, count, seed)
    rename = f"rename {TOP} {_INNER}\n"
    text = judgement.apply_all(mutants, lambda mutant: f"{_enable(mutant.number)} 1 1", TOP, folder, yosys, rename)
    _, manifest = cached_emission(TOP, observed)
    text = _shell(manifest["ports"], mutants, text)
    library = build_model(rig_of(text, manifest), added={"choice.cpp": _CHOICE})
    return MutatedCore(library=library, digest=hashlib.sha256(text.encode()).hexdigest(), mutants=mutants)


def write_part(place: str, folder: Path, yosys: Yosys) -> str:
    part = place.replace(".", "_")
    script = _PART.format(top=TOP, place=place, part=part)
    yosys.run(script, folder, what=place, results=[f"{part}.il"], name=part)
    return part


def command_in(part: str, place: str, mutant: Mutant) -> str:
    """Return the Yosys command that makes a mutant of the core in the module written by :func:`write_part`."""
    cell = "$flatten" + "".join(f"\\{name}." for name in place.split("."))
    rest = mutant.cell.removeprefix(cell)
    inner = f"$flatten{rest}" if rest.startswith("\\") else rest
    return mutant.command.replace(f" {mutant.cell} ", f" {inner} ", 1).replace(f"-module {TOP} ", f"-module {part} ", 1)


def _enable(number: int) -> str:
    return f"{_ENABLE}{number}"


def _shell(ports: Sequence[dict[str, Any]], mutants: Sequence[Mutant], text: str) -> str:
    declared = [f"  {port['direction']} wire [{port['width'] - 1}:0] {port['name']};" for port in ports]
    pins = [f".{port['name']}({port['name']})" for port in ports]
    made = set(re.findall(rf"\b{_ENABLE}\d+\b", text))
    pins += [f".{_enable(mutant.number)}(on[{mutant.number}])" for mutant in mutants if _enable(mutant.number) in made]
    return _SHELL.format(
        top=TOP,
        inner=_INNER,
        names=", ".join(port["name"] for port in ports),
        ports="\n".join(declared),
        pins=", ".join(pins),
        count=max(mutant.number for mutant in mutants),
        text=text,
    )


_UNITS = {f"backend.{UNIT_INSTANCES[unit]}": unit for unit in ("alu", "mult", "div", "dotp", "widener", "lsu")}
"""Units whose possible inputs are known, by the path of their instance in the core."""


def core_constraints(config: CoreConfig) -> InputConstraints:
    """Return constraints for a core in operation: it is not in reset, buses answer only granted requests, and the
    outputs of a request matter only during the request."""
    core = Core(config)
    ports = [("__".join(map(str, path)), member.flow) for path, member, _ in core.signature.flatten(core)]
    inputs, outputs = ([name for name, flow in ports if flow is direction] for direction in (wiring.In, wiring.Out))
    constraints = handshakes_of(TOP, inputs, outputs)
    return replace(constraints, cases=[InputCase({**values, "rst": {0}}, seen) for values, seen in constraints.cases])


class CoreProver:
    def __init__(self, config: CoreConfig, folder: Path, yosys: Yosys, timeout_s: int) -> None:
        self._config, self._folder, self._yosys, self._timeout_s = config, folder, yosys, timeout_s
        self._whole: MutatedGates | None = None

    def compare(self, waiting: Sequence[Mutant]) -> Iterator[tuple[Mutant, Proof]]:
        left = {mutant.number: mutant for mutant in waiting}
        occurring = [(place, CONSTRAINTS[unit](self._config)) for place, unit in _UNITS.items()]
        # what changes nothing in a part of the core whatever comes does not in the core; from the inside out
        enclosing_parts = [(place, InputConstraints()) for place in _parts(waiting)]
        for place, occurs in (*occurring, *enclosing_parts):
            members = [mutant for mutant in left.values() if f"{mutant.module}.".startswith(f"{place}.")]
            if members:
                part = write_part(place, self._folder, self._yosys)
                changes = {mutant.number: command_in(part, place, mutant) for mutant in members}
                judge = self._judge(read_mutated(self._folder / f"{part}.il", part, changes, self._yosys), occurs)
                for mutant in members:
                    proof = _proof(judge.compare(mutant.number))
                    if proof.verdict in (judgement.EQUIVALENT, judgement.LEGAL):
                        yield left.pop(mutant.number), proof
        if left:
            judge = self._judge(self.gates([*left.values()]), core_constraints(self._config))
            for mutant in left.values():
                yield mutant, _proof(judge.compare(mutant.number))

    def _judge(self, gates: MutatedGates, occurring: InputConstraints) -> MutantComparer:
        return MutantComparer(gates=gates, abc=find_abc(), timeout_s=self._timeout_s, constraints=occurring)

    def gates(self, mutants: Sequence[Mutant]) -> MutatedGates:
        if self._whole is None:
            changes = {mutant.number: mutant.command for mutant in mutants}
            self._whole = read_mutated(self._folder / judgement.BASE, TOP, changes, self._yosys, ignored=["rvfi_*"])
        return self._whole


def _parts(mutants: Sequence[Mutant]) -> list[str]:
    paths: set[str] = set()
    for mutant in mutants:
        names = [] if mutant.module == TOP else mutant.module.split(".")
        paths.update(".".join(names[:depth]) for depth in range(1, len(names) + 1))
    return sorted(paths, key=lambda place: (-place.count("."), place))


def _proof(compared: MutantComparison) -> Proof:
    """Return the outcome of a comparison as a proof; equality under constraints or only after reset counts as legal."""
    if compared.verdict == judgement.EQUIVALENT:
        always = compared.scope == mutant_comparison.UNCONSTRAINED
        return Proof(verdict=judgement.EQUIVALENT if always else judgement.LEGAL)
    if compared.scope == mutant_comparison.OUTPUTS:
        return Proof(verdict=judgement.DIFFERENT, example=json.dumps([*compared.counterexample]))
    # a difference in a state that may never be reached says nothing
    return Proof(verdict=judgement.UNDECIDED)


SIMULATOR = "simulator"  # what the simulator's own checks find

_ENDED = 0

Tell = Callable[[int, Finding], None]  # keeps what was found of a mutant


def judge_all(
    core: MutatedCore,
    source: CoreSource,
    settings: MutationSettings,
    instructions: int,
    waiting: Sequence[int],
    tell: Tell,
) -> None:
    """Run random programs with ``instructions`` retirements, and the directed and cost programs, on each mutant."""
    model = programs.CoreModel(source.config, core.library)
    core.choose(0)
    judges = [*programs.random_programs(source, instructions, model), *programs.directed_programs(model)]
    finding = programs.cost_programs(model)
    if finding.how:
        raise ToolError(f"{finding.test} must pass on the core itself, but: {finding.text}")

    def ended(mutant: int, code: int) -> None:
        if code != _ENDED:
            how = programs.TIME if -code == signal.SIGPROF else SIMULATOR
            tell(mutant, Finding(how, "", f"process ended with {code}"))

    forks = Forks(settings.jobs, ended)
    for mutant in waiting:
        if forks.start(mutant):
            try:
                silence()
                limit_computing(settings.limit_s)
                core.choose(mutant)
                runs = (*(judge.judge for judge in judges), partial(programs.cost_programs, model))
                tell(mutant, next((finding for run in runs if (finding := run()).how), Finding()))
                os._exit(_ENDED)
            finally:
                os._exit(1)
    forks.wait()


def _save(verdicts: Results, key: str, programs: str, mutant: int, finding: Finding) -> None:
    row = {"killed": finding.how, "test": finding.test, "text": finding.text, "tests": programs}
    verdicts.store(str(mutant), row, key)


_NO_JUDGES = frozenset({"api", "benches", "c_programs", "cli", "clusters", "exploration", "proofs", "publishing"})
"""Source folders whose changes do not make saved verdicts outdated, because they do not affect what programs find."""


def judge_core(
    source: CoreSource,
    settings: MutationSettings,
    instructions: int,
    folder: Path,
    yosys: Yosys,
    *,
    resume: bool,
    progress: Progress,
) -> list[Judged]:
    folder.mkdir(parents=True, exist_ok=True)
    progress("model", 0, settings.count)
    core = mutated_core(source.config, settings.count, settings.seed, folder, yosys)
    verdicts, proofs = (Results((folder / name).absolute(), fresh=not resume) for name in ("verdicts", "proofs"))
    key = digest(core.mutants, core.digest)
    # programs, and what checks them, come from these sources; more of them may find what these did not
    programs = digest(instructions, sources_digest(_NO_JUDGES))

    def run(waiting: Sequence[int]) -> None:
        tell = partial(_save, verdicts, key, programs)
        # a process of its own even for a single job: threads must not be forked
        with executor(1, timeout_s=inf) as pool:
            try:
                pool.submit(judge_all, core, source, settings, instructions, waiting, tell).result()
            except CallError as error:
                raise ToolError(f"judge of the mutants: {error}") from None

    prover = None
    if settings.proof_s:
        prove = CoreProver(source.config, folder, yosys, settings.proof_s)
        prover = MutantProver(core.mutants, proofs, key, settings.proof_s, prove.gates, prove.compare)
    return judgement.judge(core.mutants, verdicts, key, programs, run, prover, progress)
