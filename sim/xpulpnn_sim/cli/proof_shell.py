"""Common parts of the ``prove`` commands: options, tools, tables, counterexamples and records."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from xpulpnn_sim.cli.common import Columns, Stop, finish, interruptible, progress_bar, record_table, tell
from xpulpnn_sim.cli.configurations import Configuration
from xpulpnn_sim.cli.options import Fresh, Json, Timeout, YosysChoice, arguments
from xpulpnn_sim.proofs.engine import outcomes
from xpulpnn_sim.proofs.engine.outcomes import FAILED, PASSED, PROVED, REFUTED, WAVEFORM, Outcome
from xpulpnn_sim.proofs.units.unit_proof import EQUAL
from xpulpnn_sim.tools.files import folder_lock, require_folder
from xpulpnn_sim.tools.yosys import Yosys, find_abc, find_yosys


@arguments
class ProofOptions(Configuration, Fresh, Timeout, YosysChoice, Json):
    self_test: bool = False
    """Instead, put faults into the core, one by one, and see whether the proofs find each of them."""
    listing: Annotated[bool, Parameter(name="--list")] = False
    """List what can be proved, and exit."""
    output: Annotated[Path | None, Parameter(alias="-o", metavar="DIR")] = None
    """Folder for results and counterexamples (default build/NAME/PRESET)."""


class Workplace(NamedTuple):
    folder: Path
    yosys: Yosys
    abc: str


@contextmanager
def workplace(options: ProofOptions, name: str) -> Generator[Workplace]:
    abc, yosys = find_abc(), find_yosys(options.yosys)
    folder = options.output or Path("build", name, options.preset)
    require_folder(folder, "--output")
    with folder_lock(folder, "--output"):
        yield Workplace(folder, yosys, abc)


class Result(NamedTuple):
    """The outcome of a proof; with a deliberate fault, it is good if the proof fails."""

    subject: Any  # property, check, instruction, unit or module
    outcome: Outcome
    fault: Any = None  # injected fault, which must be found
    folder: Path | None = None  # for the waveform of a counterexample
    presets: Sequence[str] = ()  # presets with the unit or module

    @property
    def is_found(self) -> bool:
        return self.outcome.verdict in (FAILED, REFUTED)

    @property
    def is_good(self) -> bool:
        return self.is_found if self.fault else self.outcome.verdict in (PROVED, PASSED, EQUAL)

    @property
    def shown_verdict(self) -> str:
        if self.fault is None:
            return self.outcome.verdict
        parts = f": {', '.join(self.outcome.parts)}" if self.outcome.trace and self.outcome.parts else ""
        return f"found{parts}" if self.is_found else f"NOT FOUND: {self.outcome.verdict}"

    @property
    def shown_cycle(self) -> object:
        return self.outcome.cycle if self.outcome.cycle >= 0 else "-"

    @property
    def waveform(self) -> Path | None:
        return self.folder / self.outcome.name / WAVEFORM if self.folder and self.outcome.trace else None

    def counterexample(self, hidden: Sequence[str] = ()) -> list[str]:
        outcome = self.outcome
        heading = " ".join(filter(None, (outcome.name, outcome.statement)))
        lines = [f"{heading}: {outcome.verdict}", *outcome.parts]
        if self.waveform:
            lines.append(f"what retires until then ({self.waveform}):")
        return [*lines, *outcomes.counterexample_lines(outcome, ("clk", *hidden))]


@dataclass(kw_only=True)
class ProofRun:
    count: int  # expected results
    results: list[Result] = field(default_factory=list[Result])
    stop: Stop = field(default_factory=Stop)

    def collect(self, description: str, results: Iterable[Result]) -> None:
        with progress_bar(description, self.count) as bar, interruptible() as self.stop:
            for result in bar.each(results, lambda result: result.outcome.name):
                self.results.append(result)
                if result.waveform:
                    outcomes.write_waveform(result.outcome.trace, result.waveform)

    def show(
        self,
        title: str,
        columns: Columns,
        *foot: str,
        hidden: Sequence[str] = (),
        is_good: Callable[[Result], bool] = lambda result: result.is_good,
    ) -> bool:
        tell(title, record_table(columns, self.results), *foot)
        for result in self.results:
            if not is_good(result):
                tell(*result.counterexample(hidden))
            if result.outcome.broken:
                tell(f"{result.outcome.name} is not proved of every cycle: {', '.join(result.outcome.broken)}")
        return all(map(is_good, self.results))

    def finish(self, options: Json, record: dict[str, Any], *, good: bool) -> int:
        record = {"complete": not self.stop.interrupted, **record}
        return finish(options.json, record, good=good, stop=self.stop, done=f"{len(self.results)} of {self.count}")


FAULT: Columns = {"fault": "{.fault.name}", "module": "{.fault.module}"}
VERDICT: Columns = {"seconds": "{.outcome.seconds:.1f}", "verdict": "{.shown_verdict}"}


def outcome_record(subject: str, outcome: Outcome, **more: object) -> dict[str, Any]:
    return {subject: outcome.name, "verdict": outcome.verdict, "seconds": round(outcome.seconds, 3), **more}
