"""Mutants of a unit or a core: tests that kill them, proofs about those that survive, and saved verdicts."""

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

import xpulpnn
import xpulpnn_sim.proofs.mutants
import xpulpnn_sim.verification.mutants
from xpulpnn.errors import InputError, ToolError, require
from xpulpnn_sim.proofs.mutants.mutated_gates import MutatedGates
from xpulpnn_sim.tools.files import write_text
from xpulpnn_sim.tools.results import Results, digest, report_counts
from xpulpnn_sim.tools.yosys import Yosys

MODES = {
    "inv": "inverted",
    "const0": "always 0",
    "const1": "always 1",
    "cnot0": "inverted while bit {ctrl} of the port is 0",
    "cnot1": "inverted while bit {ctrl} of the port is 1",
}
"""Change that Yosys makes to a bit of a cell's port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    number: int  # value of the select input
    module: str  # where it is: instance path of the module, name of the cell and of its port
    cell: str
    port: str
    bit: int
    change: str
    source: str  # file and line of the description, such as `xpulpnn/dotp/shared.py:71`
    command: str  # command of Yosys that makes this change for good


def fields_of(line: str) -> dict[str, str]:
    """Return the options of a Yosys command by name; ``-src`` is the first source file that is part of this project."""
    words = shlex.split(line.replace("\\", "\\\\"))
    root = f"{Path(xpulpnn.__file__).parent.parent}/"
    given = [(name, value) for name, value in pairwise(words) if name.startswith("-")]
    sources = [value.removeprefix(root) for name, value in given if name == "-src" and value.startswith(root)]
    return dict(given) | {"-src": sources[0] if sources else ""}


def mutant_of(number: int, line: str, *, module: str = "", command: str = "") -> Mutant:
    options = fields_of(line)
    return Mutant(
        number=number,
        module=module or options["-module"].removeprefix("\\"),
        cell=options["-cell"].removeprefix("\\"),
        port=options["-port"].removeprefix("\\"),
        bit=int(options["-portbit"]),
        change=MODES[options["-mode"]].format(ctrl=options.get("-ctrlbit", "")),
        source=options["-src"],
        command=command or line,
    )


def places(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if not fields_of(line)["-port"].endswith("CLK")]


EQUIVALENT, LEGAL, DIFFERENT, UNDECIDED = "equivalent", "legal", "different", "undecided"
"""Outcomes of proofs: equal for any inputs; equal for inputs that occur; a counterexample; time is up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    verdict: str = ""  # see EQUIVALENT; empty without a proof
    example: str = ""  # inputs that show what is `different`


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    mutant: Mutant
    killed: str  # `check`, `time` or `simulator`; empty if nothing found it
    test: str
    proof: str = ""  # see Proof
    example: str = ""

    @property
    def alive(self) -> bool:
        """Return whether no test has killed the mutant and no proof shows it to be harmless."""
        return not self.killed and self.proof not in (EQUIVALENT, LEGAL)

    @property
    def outcome(self) -> str:
        """Return what killed the mutant, such as ``check``, or else ``equivalent``, ``legal`` or ``alive``."""
        return self.killed or ("alive" if self.alive else self.proof)


RESULT = "result.json"  # file in the folder of a unit: its mutants and what became of them, once all have been judged

_PLACE = tuple(field.name for field in fields(Mutant))
_VERDICT = tuple(field.name for field in fields(Judged) if field.name != "mutant")


def rows_of(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    return [asdict(each.mutant) | {name: getattr(each, name) for name in _VERDICT} for each in judged]


def collected(folder: Path) -> Mapping[str, Sequence[Judged]]:
    """Read the results of all campaigns in ``folder``, by the name of the unit."""
    results: dict[str, Sequence[Judged]] = {}
    for path in sorted(folder.glob(f"*/{RESULT}")):
        try:
            results[path.parent.name] = [
                Judged(mutant=Mutant(**{name: row[name] for name in _PLACE}), **{name: row[name] for name in _VERDICT})
                for row in json.loads(path.read_text())
            ]
        except (OSError, ValueError, LookupError, TypeError):
            raise InputError(f"{path} must be what a campaign wrote, not something else") from None
    require(results, f"folder must hold results of campaigns, not none: {folder}")
    return results


SELECTED = "mutants.v"  # file with the design that holds all mutants

_LIST = "places.ys"
_PREPARE = """read_rtlil unit.il
hierarchy -top {top}
proc
memory_collect
{more}write_rtlil {base}
{select}mutate -list {places} -seed {seed} -o {list} {among}
"""
_APPLY = """read_rtlil {base}
{changes}
{more}write_verilog -noattr -norename {design}
"""
_PARALLEL = "// synopsys parallel_case"

# A mutant that combines two bits of a word looks to Verilator as if the word depended on itself.
LINT_OFF = "/* verilator lint_off UNOPTFLAT */"

BASE = "base.il"  # file that holds the design itself as Yosys understands it; the mutants are changes of it


def find_places(
    component: Any, top: str, folder: Path, yosys: Yosys, *, places: int, seed: int, more: str = "", among: str = ""
) -> list[str]:
    """Return a Yosys command for each place of a mutation; the component itself is written to :data:`BASE`."""
    (folder / "unit.il").write_text(rtlil.convert(component, name=top))
    select = f"select -set works {among}\n" if among else ""
    script = _PREPARE.format(
        top=top, base=BASE, more=more, select=select, places=places, seed=seed, list=_LIST, among="@works" * bool(among)
    )
    yosys.run(script, folder, what=f"mutants of {top}", results=[BASE, _LIST], name="prepare")
    return (folder / _LIST).read_text().splitlines()


def apply_all(
    mutants: Sequence[Mutant], control: Callable[[Mutant], str], top: str, folder: Path, yosys: Yosys, more: str = ""
) -> str:
    """Return Verilog of the design with all mutants; ``control`` names the input that enables a mutant."""
    require(mutants, f"yosys must find places for mutants in {top}, but found none", ToolError)
    changes = "\n".join(mutant.command.replace("mutate ", f"mutate -ctrl {control(mutant)} ", 1) for mutant in mutants)
    script = _APPLY.format(base=BASE, changes=changes, more=more, design=SELECTED)
    yosys.run(script, folder, what=f"mutants of {top}", results=[SELECTED], name="apply")
    # whose assertion may fail while signals settle, and is no check of a bench
    return (folder / SELECTED).read_text().replace(_PARALLEL, "")


Progress = Callable[[str, int, int], None]  # Reports what is being done, how much of it is done, and of how much

_UNCHANGED = "unchanged"  # record of the mutants that have the gates of the design


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationSettings:
    count: int  # mutants of each
    seed: int  # which mutants
    jobs: int  # mutants that run side by side
    limit_s: int  # seconds of computing after which a mutant counts as found
    proof_s: int  # seconds for each search of a proof of a mutant that nothing finds; 0 for no proofs


@dataclass(frozen=True, slots=True)
class MutantProver:
    """Proves mutants equal to the design, or finds a counterexample; saves each outcome."""

    mutants: Sequence[Mutant]
    results: Results
    key: str  # of the results
    timeout_s: int
    # the design with some mutants at least; verdicts as they come; both raise :class:`ToolError` if a tool fails
    gates: Callable[[Sequence[Mutant]], MutatedGates]
    compare: Callable[[Sequence[Mutant]], Iterator[tuple[Mutant, Proof]]]

    @property
    def _method(self) -> str:
        # what is known to occur may have changed, or how it is searched
        return digest(xpulpnn_sim.proofs.mutants, xpulpnn_sim.verification.mutants)

    def proved(self) -> dict[int, Proof]:
        """Return the proofs, by number, of the mutants known to be equivalent or legal, which need no test."""
        numbers = self.results.find(_UNCHANGED, self.key)
        if numbers is None:
            # equal gates are one
            gates = self.gates(self.mutants)
            numbers = [mutant.number for mutant in self.mutants if not gates.differences(mutant.number)]
            self.results.store(_UNCHANGED, numbers, self.key)
        known = ((mutant.number, self._known(mutant)) for mutant in self.mutants)
        rest = {number: proof for number, proof in known if proof and proof.verdict in (EQUIVALENT, LEGAL)}
        return dict.fromkeys(numbers, Proof(verdict=EQUIVALENT)) | rest

    def prove(self, left: Sequence[Mutant], progress: Progress) -> dict[int, Proof]:
        known = {mutant.number: proof for mutant in left if (proof := self._known(mutant))}
        progress("proofs", len(known), len(left))
        for mutant, proof in self.compare([mutant for mutant in left if mutant.number not in known]):
            known[mutant.number] = proof
            row = {"proof": proof.verdict, "example": proof.example, "proof_s": self.timeout_s, "method": self._method}
            self.results.store(str(mutant.number), row, self.key)
            progress("proofs", len(known), len(left))
        return known

    def _known(self, mutant: Mutant) -> Proof | None:
        row = self.results.find(str(mutant.number), self.key)
        if not row:
            return None
        lasts = row["proof"] == EQUIVALENT or (
            row["method"] == self._method and (row["proof"] == LEGAL or row["proof_s"] >= self.timeout_s)
        )
        return Proof(verdict=row["proof"], example=row["example"]) if lasts else None


def judge(
    mutants: Sequence[Mutant],
    verdicts: Results,
    key: str,
    tests: str,
    run: Callable[[Sequence[int]], None],
    prover: MutantProver | None,
    progress: Progress,
    *,
    also: Sequence[int] = (),
) -> list[Judged]:
    """Test and prove mutants; return their verdicts.

    ``run`` tests the mutants of the given numbers and writes a record for each into ``verdicts``: whether it is
    ``killed``, by which ``test``, and ``tests``, the digest of all tests, since other tests may kill a surviving
    mutant. ``also`` are numbers that stand for the design itself, which no test may kill.
    """
    before = prover.proved() if prover else {}
    numbers = [*also, *(mutant.number for mutant in mutants if mutant.number not in before)]
    rows = {number: verdicts.find(str(number), key) for number in numbers}
    known = {number: row for number, row in rows.items() if row and (row["killed"] or row["tests"] == tests)}
    verdicts.retain([str(number) for number in known])
    waiting = [number for number in numbers if number not in known]
    if waiting:
        with report_counts(verdicts, lambda number: progress("tests", number, len(numbers))):
            run(waiting)
        known |= {number: row for number in waiting if (row := verdicts.find(str(number), key))}
    missing = [number for number in numbers if number not in known]
    require(not missing, f"every mutant must have been judged, but {len(missing)} of them were not", ToolError)
    for number in also:
        if known[number]["killed"]:
            raise ToolError(f"the design itself must pass, but {known[number]['test']} failed")
    left = [mutant for mutant in mutants if mutant.number not in before and not known[mutant.number]["killed"]]
    proved = before | (prover.prove(left, progress) if prover else {})
    judged: list[Judged] = []
    for mutant in mutants:
        row, proof = known.get(mutant.number, {"killed": "", "test": ""}), proved.get(mutant.number, Proof())
        verdict = {"killed": row["killed"], "test": row["test"], "proof": proof.verdict, "example": proof.example}
        judged.append(Judged(mutant=mutant, **verdict))
    write_text(verdicts.folder.parent / RESULT, json.dumps(rows_of(judged), indent=1))
    return judged
