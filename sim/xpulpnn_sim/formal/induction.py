"""Proof by induction over clock cycles, by the SAT solver in Yosys."""

import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.properties.obligation import Obligation
from xpulpnn_sim.yosys import find_yosys

PROVED, REFUTED, UNDECIDED = "proved", "refuted", "undecided"
"""Verdicts: holds in every cycle after a reset; does not, as an example shows; neither was shown."""

_START_S = 60
"""Seconds Yosys may take besides solving."""

_RESET = "rst"
_BEYOND = 3
"""Cycles in which claims are checked after a reset, beyond those of the induction."""

_PREPARE = """read_verilog claims.v
hierarchy -check -top claims
proc
flatten
"""
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
    seconds : float
        Of solving.
    example : sequence of mapping
        Ports by name in each cycle to the one where the claim is wrong: from a reset for ``refuted``, from a state in
        which induction fails for ``undecided``.
    """

    claim: str
    verdict: str
    cycles: int
    seconds: float
    example: Sequence[Mapping[str, int]] = ()


def prove(obligation: Obligation, verilog: str, *, timeout_s: int) -> list[Finding]:
    """Prove the claims of an obligation about its Verilog.

    Each claim is first checked in some more than ``depth`` cycles after a reset; then it is shown that in any state, if all
    claims held for ``depth`` cycles, it holds in the next. Resets may come at any time.

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
    return [_finding(obligation, verilog, claim, timeout_s) for claim in obligation.claims]


def _finding(obligation: Obligation, verilog: str, claim: str, timeout_s: int) -> Finding:
    began, depth = time.monotonic(), obligation.depth
    from_reset = _solve(
        obligation, verilog, f"-seq {depth + _BEYOND} -set-at 1 {_RESET} 1 -prove-skip 1 -prove {claim} 1", timeout_s
    )
    verdict, example = UNDECIDED, list[dict[str, int]]()
    if from_reset is not None and "FAIL!" in from_reset:
        verdict, example = REFUTED, _example(from_reset, claim)
    elif from_reset is not None:
        held = " ".join(f"-set-at {step} {each} 1" for step in range(1, depth + 1) for each in obligation.claims)
        step = _solve(obligation, verilog, f"-seq {depth + 1} {held} -prove-skip {depth} -prove {claim} 1", timeout_s)
        if step is not None and "SUCCESS!" in step:
            verdict = PROVED
        elif step is not None:
            example = _example(step, claim)
    cycles = len(example) or depth
    return Finding(
        claim=claim, verdict=verdict, cycles=cycles, seconds=time.monotonic() - began, example=tuple(example)
    )


def _solve(obligation: Obligation, verilog: str, question: str, timeout_s: int) -> str | None:
    """What the solver prints; None if it did not finish."""
    shown = [
        f"delete -input claims/w:{port}\nconnect -set {port} \\unit.{register}"
        for port, register in obligation.registers.items()
    ]
    solve = f"tee -q -o answer.txt sat -show-inputs -show-outputs -timeout {timeout_s} {question} claims"
    script = "\n".join([_PREPARE + "\n".join(shown), "opt_clean", solve, ""])
    with tempfile.TemporaryDirectory(prefix="xpulpnn-induction-") as name:
        folder = Path(name)
        (folder / "claims.v").write_text(verilog)
        find_yosys().run(script, folder, what=obligation.unit, results=["answer.txt"], timeout_s=timeout_s + _START_S)
        answer = (folder / "answer.txt").read_text()
    if "SUCCESS!" in answer or "FAIL!" in answer:
        return answer
    if "Interrupted SAT solver: TIMEOUT!" in answer or "TIMEOUT" in answer:
        return None
    raise ToolError(f"yosys must decide claims about {obligation.unit}, not end without an answer")


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
