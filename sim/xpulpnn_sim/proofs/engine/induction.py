"""Proof by induction over clock cycles, by the SAT solver in Yosys."""

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xpulpnn_sim.proofs.cluster.obligation import PROVED, REFUTED, Obligation
from xpulpnn_sim.tools.yosys import find_yosys

UNDECIDED = "undecided"  # verdict: neither was shown

_START_S = 60  # seconds Yosys may take besides solving

_RESET = "rst"
_BEYOND, _FAR_BEYOND = 3, 10
"""Cycles in which claims are checked after a reset, beyond those of the induction; and if they are not proved."""

_TOP = "claims"
_PREPARE = f"""read_verilog claims.v
hierarchy -check -top {_TOP}
proc
flatten
memory"""
_HOLDS, _FAILS = "SUCCESS!", "FAIL!"
_ROW = re.compile(r"^ +(?P<step>\d+|init) \\(?P<name>\S+) +\S+ +(?P<value>[0-9a-fA-Fx]+|-+) +\S+$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Verdict on a claim."""

    claim: str
    verdict: str  # see PROVED
    cycles: int  # how far the proof looked: the cycles of the induction, or those of the counterexample
    # ports by name in each cycle to the one where the claim is wrong: from a reset for `refuted`, from a state in which
    # induction fails for `undecided`
    example: Sequence[Mapping[str, int]] = ()


def prove_by_induction(obligation: Obligation, verilog: str, *, timeout_s: int) -> list[Finding]:
    """Prove the claims of an obligation about its Verilog.

    Each claim is checked in some more than ``depth`` cycles after a reset; and it is shown that in any state, if the
    claims held for ``depth`` cycles, it holds in the next. What a claim that fails was assumed for is shown again
    without it. Resets may come at any time. For claims that are not proved longer counterexamples are sought.
    """
    solver = _Solver(obligation, verilog, timeout_s)
    assumed = [claim for claim in obligation.claims if claim not in obligation.refuted]
    begins = solver.ask({claim: solver.from_reset(claim, _BEYOND) for claim in obligation.claims})
    steps: dict[str, str] = {}
    while assumed:
        steps |= solver.ask({claim: solver.step(claim, assumed) for claim in assumed})
        held = [claim for claim in assumed if _HOLDS in begins[claim] and _HOLDS in steps[claim]]
        if held == assumed:
            break
        assumed = held
    open_ = [claim for claim in obligation.claims if claim not in assumed and _FAILS not in begins[claim]]
    begins |= solver.ask({claim: solver.from_reset(claim, _FAR_BEYOND) for claim in open_})
    findings: list[Finding] = []
    for claim in obligation.claims:
        verdict, example = PROVED if claim in assumed else UNDECIDED, list[dict[str, int]]()
        if _FAILS in begins[claim]:
            verdict, example = REFUTED, _example(begins[claim], claim)
        elif verdict == UNDECIDED:
            example = _example(steps.get(claim, ""), claim)
        cycles = len(example) or obligation.depth
        findings.append(Finding(claim=claim, verdict=verdict, cycles=cycles, example=tuple(example)))
    return findings


@dataclass(frozen=True, slots=True)
class _Solver:
    """Questions about the claims of an obligation, and their answers."""

    obligation: Obligation
    verilog: str
    timeout_s: int

    def from_reset(self, claim: str, beyond: int) -> str:
        """Does it hold in the cycles after a reset?"""
        return f"-seq {self.obligation.depth + beyond} -set-at 1 {_RESET} 1 -prove-skip 1 -prove {claim} 1"

    def step(self, claim: str, assumed: Sequence[str]) -> str:
        """Does it hold when all that is assumed did?"""
        depth = self.obligation.depth
        held = " ".join(f"-set-at {cycle} {each} 1" for cycle in range(1, depth + 1) for each in assumed)
        return f"-seq {depth + 1} {held} -prove-skip {depth} -prove {claim} 1"

    def ask(self, questions: Mapping[str, str]) -> dict[str, str]:
        """Return what the solver prints, by claim."""
        if not questions:
            return {}
        shown = [
            f"delete -input {_TOP}/w:{port}\nconnect -set {port} \\unit.{register}"
            for port, register in self.obligation.registers.items()
        ]
        solve = f"sat -show-inputs -show-outputs -timeout {self.timeout_s}"
        asked = [f"tee -q -o {claim}.txt {solve} {question} {_TOP}" for claim, question in questions.items()]
        with tempfile.TemporaryDirectory(prefix="xpulpnn-induction-") as name:
            folder = Path(name)
            (folder / f"{_TOP}.v").write_text(self.verilog)
            find_yosys().run(
                "\n".join([_PREPARE, *shown, "opt_clean", *asked, ""]),
                folder,
                what=self.obligation.unit,
                results=[f"{claim}.txt" for claim in questions],
                timeout_s=self.timeout_s * len(questions) + _START_S,
            )
            return {claim: (folder / f"{claim}.txt").read_text() for claim in questions}


def _example(answer: str, claim: str) -> list[dict[str, int]]:
    """Ports of each cycle up to the first in which a claim is wrong."""
    cycles: dict[int, dict[str, int]] = {}
    for row in _ROW.finditer(answer):
        if row["step"] != "init":
            cycles.setdefault(int(row["step"]), {})[row["name"]] = int(row["value"], 16)
    found: list[dict[str, int]] = []
    for step in sorted(cycles):
        found.append(cycles[step])
        if step > 1 and not cycles[step].get(claim, 1):
            break
    return found
