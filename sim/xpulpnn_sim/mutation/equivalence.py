"""Proof that a mutant does what its unit does, or inputs for which it does not.

Three questions are asked in turn. Are outputs and next registers equal for all inputs and all that the registers may
hold? Are the outputs equal in every cycle from reset on, whatever the inputs? Are they equal for the inputs that occur,
such as control words of instructions, on the terms of the unit's neighbours? The first "yes" ends the search.
"""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.mutation.gates import FALSE, Comparison, packed
from xpulpnn_sim.mutation.legal import Assumption, Surroundings

EQUIVALENT, LEGAL, DIFFERENT, UNDECIDED = "equivalent", "legal", "different", "undecided"
"""Outcomes: no difference from reset on; none for inputs that occur; an example of one; none of these in time."""

_GRACE_S = 30
_COMBINATIONAL = "strash; fraig; iprove"
_SEQUENTIAL = "strash; scorr; dc2; scorr; bmc3 -F {frames} -T {short}; pdr -T {seconds}"
_FRAMES = 40
_SHOWN_PORTS = 12

METHOD = _COMBINATIONAL + _SEQUENTIAL + str(_FRAMES)
"""What a proof follows from, beside the unit and the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What is proved about a mutant.

    Parameters
    ----------
    verdict : str
        See :data:`EQUIVALENT`.
    example : str
        With the verdict ``different``: inputs that show it.
    """

    verdict: str
    example: str = ""


@dataclass(frozen=True, slots=True)
class _Answer:
    """Whether the output of a graph can be 1; None if that is not known. If so, the inputs of each cycle."""

    possible: bool | None
    frames: tuple[str, ...] = ()


def prove(comparison: Comparison, assumption: Assumption | None, abc: str, timeout_s: int) -> Proof:
    """Compare a mutant with its unit.

    Parameters
    ----------
    comparison : Comparison
        Both.
    assumption : callable or None
        Says which inputs occur; None if all do.
    abc : str
        Program that searches.
    timeout_s : int
        Seconds for each question.
    """
    gates = comparison.gates
    if identical(comparison):
        return Proof(verdict=EQUIVALENT)
    outputs = gates.any_of(gates.differ(one, other) for _, one, other in comparison.different)
    state = gates.all_of(gates.differ(one, other) ^ 1 for one, other, _, _ in comparison.pairs)
    following = gates.any_of(gates.differ(one, other) for _, _, one, other in comparison.pairs)
    # registers that are equal stay equal, and as long as they are the outputs are
    wrong_step = gates.and_(state, gates.or_(outputs, following))
    answer = _ask(comparison, None, wrong_step, abc, timeout_s)
    if answer.possible is False:
        return Proof(verdict=EQUIVALENT)
    if assumption is not None:
        around = Surroundings(comparison)
        legal = assumption(around)
        # what was before is any value here
        step = _ask(comparison, None, gates.and_(wrong_step, legal), abc, timeout_s)
        if step.possible is False:
            return Proof(verdict=LEGAL)
        answer = step if not comparison.registers else answer
    if comparison.registers:
        answer = _ask(comparison, Surroundings(comparison), outputs, abc, timeout_s)
        if answer.possible is False:
            return Proof(verdict=EQUIVALENT)
        if assumption is not None:
            around = Surroundings(comparison)
            wrong = gates.and_(outputs, around.until_now(assumption(around)))
            answer = _ask(comparison, around, wrong, abc, timeout_s)
            if answer.possible is False:
                return Proof(verdict=LEGAL)
    if not answer.possible:
        return Proof(verdict=UNDECIDED)
    return Proof(verdict=DIFFERENT, example=_shown(comparison, answer.frames))


def identical(comparison: Comparison) -> bool:
    """Whether no gate that a change can reach is left when equal gates are one."""
    return not comparison.different


def _ask(comparison: Comparison, around: Surroundings | None, wrong: int, abc: str, timeout_s: int) -> _Answer:
    """Whether ``wrong`` can be 1: in one cycle with any registers, or from reset on with those of ``around``."""
    if wrong == FALSE:
        return _Answer(possible=False)
    data = packed(comparison.gates, around.registers if around else [], wrong)
    latches = int(data.split(maxsplit=4)[3])
    how = _SEQUENTIAL if latches else _COMBINATIONAL
    limit_s = 2 * timeout_s + _GRACE_S if latches else timeout_s
    how = how.format(frames=_FRAMES, short=max(1, timeout_s // 2), seconds=timeout_s)
    with tempfile.TemporaryDirectory(prefix="xpulpnn-mutant-") as name:
        folder = Path(name)
        (folder / "miter.aig").write_bytes(data)
        text = _run(abc, f"read_aiger miter.aig; {how}; write_cex -a example.aiw", folder, limit_s)
        example = folder / "example.aiw"
        if "SATISFIABLE" in text.replace("UNSATISFIABLE", "") or "was asserted in frame" in text:
            if not example.exists():
                raise ToolError(f"abc must write the example it found: {text[-200:]}")
            return _Answer(possible=True, frames=_frames(example.read_text()))
        proved = "UNSATISFIABLE" in text or "Property proved" in text
    return _Answer(possible=False if proved else None)


def _run(abc: str, commands: str, folder: Path, timeout_s: float) -> str:
    try:
        done = subprocess.run(
            [abc, "-c", commands],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout + done.stderr


def _frames(text: str) -> tuple[str, ...]:
    """Inputs of each cycle of an example, as digits; the first line of the file holds the registers at reset."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()[1:]]
    return tuple(line for line in lines if re.fullmatch("[01]+", line))


def _shown(comparison: Comparison, frames: tuple[str, ...]) -> str:
    """Ports that are not 0 in the last cycle of an example."""
    digits = frames[-1] if frames else ""
    values: dict[str, int] = {}
    for name, literals in comparison.inputs.items():
        bits = (digits[(literal >> 1) - 1 : literal >> 1] == "1" for literal in literals)
        values[name] = sum(bit << place for place, bit in enumerate(bits))
    given = [f"{name}={value:#x}" for name, value in values.items() if value]
    more = ["..."] if len(given) > _SHOWN_PORTS else []
    where = f"cycle {len(frames) - 1}: " if comparison.registers else ""
    what = ", ".join(sorted({name.partition("[")[0] for name, _, _ in comparison.different})[:4])
    return f"{where}{' '.join([*given[:_SHOWN_PORTS], *more]) or 'inputs 0'} ({what})"
