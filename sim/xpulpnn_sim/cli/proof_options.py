"""Folder in which proofs keep their outcomes, the tools that make them, and how the outcomes are told."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from xpulpnn_sim.cli.common import tell
from xpulpnn_sim.cli.configurations import ProofOptions
from xpulpnn_sim.proofs.engine.outcomes import FAILED, REFUTED, WAVEFORM, Outcome, retirements, write_waveform
from xpulpnn_sim.tools.files import folder_lock, require_folder
from xpulpnn_sim.tools.yosys import Yosys, find_abc, find_yosys


class Workplace(NamedTuple):
    """Folder of the outcomes, and the tools that make them."""

    folder: Path
    yosys: Yosys
    abc: str


@contextmanager
def workplace(options: ProofOptions, name: str) -> Generator[Workplace]:
    """The tools, and the folder of the options, which no other run uses meanwhile; raises :class:`ToolError`."""
    abc, yosys = find_abc(), find_yosys(options.yosys)
    folder = options.output or Path("build", name, options.preset)
    require_folder(folder, "--output")
    with folder_lock(folder, "--output"):
        yield Workplace(folder, yosys, abc)


def keep_example(outcome: Outcome, folder: Path) -> None:
    """Write the waveform of what fails into the folder of its name."""
    if outcome.trace:
        write_waveform(outcome.trace, folder / outcome.name / WAVEFORM)


def tell_examples(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Tell what retires in each counterexample."""
    for one in outcomes:
        if one.trace:
            parts = f": {', '.join(one.parts)}" if one.parts else ""
            where = folder / one.name / WAVEFORM
            tell(f"{one.name} fails{parts}; what retires until then ({where}):", *retirements(one.trace))


def cycle_of(outcome: Outcome) -> object:
    """The cycle of an outcome as tables show it."""
    return outcome.cycle if outcome.cycle >= 0 else "-"


def is_found(outcome: Outcome) -> bool:
    """True if the proof of a faulty core fails."""
    return outcome.verdict in (FAILED, REFUTED)


def finding(outcome: Outcome) -> str:
    """The verdict on a fault as tables show it."""
    parts = f": {', '.join(outcome.parts)}" if outcome.trace and outcome.parts else ""
    return f"found{parts}" if is_found(outcome) else f"NOT FOUND: {outcome.verdict}"


def outcome_record(what: str, outcome: Outcome, **more: object) -> dict[str, Any]:
    """An outcome for machines; ``what`` is its subject."""
    return {what: outcome.name, "verdict": outcome.verdict, "seconds": round(outcome.seconds, 3), **more}
