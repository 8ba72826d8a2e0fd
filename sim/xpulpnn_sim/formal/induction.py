"""Proof by induction over clock cycles, by the SAT solver in Yosys."""

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xpulpnn_sim.properties.obligation import Obligation
from xpulpnn_sim.yosys import find_yosys

PROVED, REFUTED, UNDECIDED = "proved", "refuted", "undecided"
"""Verdicts: holds in every cycle after a reset; does not, as an example shows; neither was shown."""

_START_S = 60
"""Seconds Yosys may take besides solving."""

_RESET = "rst"
_BEYOND = 3
"""Cycles in which claims are checked after a reset, beyond those of the induction."""

_TOP = "claims"
_PREPARE = f"""read_verilog claims.v
hierarchy -check -top {_TOP}
proc
flatten"""
_FROM_RESET, _STEP = "reset", "step"
_HOLDS, _FAILS = "SUCCESS!", "FAIL!"
_ROW = re.compile(r"^ +(?P<step>\d+|init) \\(?P<name>\S+) +\S+ +(?P<value>[0-9a-fA-Fx]+|-+) +\S+$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of a claim.

    Parameters
    ----------
    claim : str
        Its output.
    verdict : str
        See :data:`PROVED`.
    cycles : int
        How far the proof looked: the cycles of the induction, or those of the example.
    example : sequence of mapping
        Ports by name in each cycle to the one where the claim is wrong: from a reset for ``refuted``, from a state in
        which induction fails for ``undecided``.
    """

    claim: str
    verdict: str
    cycles: int
    example: Sequence[Mapping[str, int]] = ()


def prove(obligation: Obligation, verilog: str, *, timeout_s: int) -> list[Finding]:
    """Prove the claims of an obligation about its Verilog.

    Each claim is first checked in some more than ``depth`` cycles after a reset; then it is shown that in any state, if
    all claims held for ``depth`` cycles, it holds in the next. Resets may come at any time.

    Parameters
    ----------
    obligation : Obligation
        What is claimed.
    verilog : str
        The text of :meth:`~xpulpnn_sim.properties.obligation.Obligation.emit`.
    timeout_s : int
        Seconds for the solver, for each half of a claim.

    Raises
    ------
    ToolError
        If Yosys is missing or fails, or there is no register of a name.
    """
    halves = {
        f"{claim}.{half}": f"{question} -prove {claim} 1"
        for claim in obligation.claims
        for half, question in _questions(obligation).items()
    }
    shown = [
        f"delete -input {_TOP}/w:{port}\nconnect -set {port} \\unit.{register}"
        for port, register in obligation.registers.items()
    ]
    solve = f"sat -show-inputs -show-outputs -timeout {timeout_s}"
    asked = [f"tee -q -o {name}.txt {solve} {question} {_TOP}" for name, question in halves.items()]
    with tempfile.TemporaryDirectory(prefix="xpulpnn-induction-") as name:
        folder = Path(name)
        (folder / "claims.v").write_text(verilog)
        find_yosys().run(
            "\n".join([_PREPARE, *shown, "opt_clean", *asked, ""]),
            folder,
            what=obligation.unit,
            results=[f"{name}.txt" for name in halves],
            timeout_s=timeout_s * len(halves) + _START_S,
        )
        answers = {name: (folder / f"{name}.txt").read_text() for name in halves}
    return [
        _finding(claim, obligation.depth, answers[f"{claim}.{_FROM_RESET}"], answers[f"{claim}.{_STEP}"])
        for claim in obligation.claims
    ]


def _questions(obligation: Obligation) -> dict[str, str]:
    """What the solver is asked about a claim."""
    depth = obligation.depth
    held = " ".join(f"-set-at {cycle} {each} 1" for cycle in range(1, depth + 1) for each in obligation.claims)
    return {
        _FROM_RESET: f"-seq {depth + _BEYOND} -set-at 1 {_RESET} 1 -prove-skip 1",
        _STEP: f"-seq {depth + 1} {held} -prove-skip {depth}",
    }


def _finding(claim: str, depth: int, from_reset: str, step: str) -> Finding:
    verdict, example = UNDECIDED, list[dict[str, int]]()
    if _FAILS in from_reset:
        verdict, example = REFUTED, _example(from_reset, claim)
    elif _FAILS in step:
        example = _example(step, claim)
    elif _HOLDS in from_reset and _HOLDS in step:
        verdict = PROVED
    return Finding(claim=claim, verdict=verdict, cycles=len(example) or depth, example=tuple(example))


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
