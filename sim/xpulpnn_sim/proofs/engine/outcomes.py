"""Outcomes of proofs, a store in which they outlast a run, and counterexamples for readers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from vcd import VCDWriter

from xpulpnn.errors import EncodingError
from xpulpnn_sim.tools.files import write_text
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.pool import completed
from xpulpnn_sim.tools.results import Results
from xpulpnn_sw.assembly.disasm import disassemble

PROVED, PASSED, FAILED, REFUTED, UNDECIDED = "proved", "passes", "FAILS", "REFUTED", "time is up"
"""Verdicts: holds in every cycle; in those searched; does not, as cycles or a single case show; no answer in time."""

VACUOUS = "assumptions cannot be met"  # verdict: nothing is claimed of any case

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Verdict on a claim, a property, an instruction or a module."""

    name: str
    verdict: str
    seconds: float  # time of the search, without Yosys
    statement: str = ""  # what is claimed of `name`, if several things are
    method: str = ""
    # the cycle after reset in which it fails; else the last one that was searched to its end, or -1
    cycle: int = -1
    parts: Sequence[str] = ()  # what is wrong, if it fails
    trace: Sequence[Mapping[str, int]] = ()  # counterexample: signals by name in each cycle
    # where induction fails: parts and invariants that some state, reachable or not, does not keep
    broken: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])  # further results of a family of proofs, for JSON


@dataclass(frozen=True, slots=True)
class Ledger:
    """Outcomes stored in a folder, each under a key of all that it follows from."""

    folder: Path
    timeout_s: float  # limit of each search: an outcome that ran into a shorter one is searched again
    resume: bool  # whether outcomes of earlier runs count

    def find(self, name: str, key: str) -> Outcome | None:
        row = Results(self.folder).find(name, key) if self.resume else None
        if row is None or (row["outcome"]["verdict"] == UNDECIDED and row["timeout_s"] < self.timeout_s):
            return None
        return Outcome(**row["outcome"])

    def store(self, outcome: Outcome, key: str) -> Outcome:
        Results(self.folder).keep(outcome.name, {"timeout_s": self.timeout_s, "outcome": asdict(outcome)}, key)
        return outcome

    def prove(
        self,
        items: Sequence[Item],
        prover: Callable[..., Outcome],
        shared: object,
        *,
        name: Callable[[Item], str],
        key: Callable[[Item], str],
        jobs: int = 1,
    ) -> Iterator[Outcome]:
        """Outcomes of earlier runs, then those of ``prover(item, shared)`` for the other items, as they come."""
        open_items: list[Item] = []
        for item in items:
            outcome = self.find(name(item), key(item))
            if outcome is None:
                open_items.append(item)
            else:
                yield outcome
        with executor(jobs) as pool:
            for item, outcome in completed(pool, prover, open_items, pool.share(shared)):
                yield self.store(outcome, key(item))


WAVEFORM = "example.vcd"  # file with the waveform of a counterexample, in the folder of the check


def counterexample_lines(outcome: Outcome, hidden: Sequence[str] = ("clk",)) -> list[str]:
    """Lines for a counterexample: instructions that retire in it, or ports that are not 0 in each cycle."""
    if outcome.trace and "rvfi_valid" in outcome.trace[0]:
        return retirements(outcome.trace)
    lines: list[str] = []
    for cycle, values in enumerate(outcome.trace):
        shown = [
            f"{name.removeprefix('io__')}={value:#x}" for name, value in values.items() if value and name not in hidden
        ]
        lines.append(f"  cycle {cycle}: {' '.join(shown) or 'all 0'}")
    return lines


def retirements(trace: Sequence[Mapping[str, int]]) -> list[str]:
    """A line for each instruction that retires in a counterexample, with the fields of the retirement port."""
    lines: list[str] = []
    for cycle, values in enumerate(trace):
        if not values.get("rvfi_valid"):
            continue
        word, pc = values["rvfi_insn"], values["rvfi_pc_rdata"]
        parts = [f"cycle {cycle:2}: {pc:08x} {word:08x} {assembly_of(word, pc):<28}"]
        sources = {name: values[f"rvfi_{name}_addr"] for name in ("rs1", "rs2")}
        parts += [f"{name} x{number}={values[f'rvfi_{name}_rdata']:08x}" for name, number in sources.items() if number]
        if number := values["rvfi_rd_addr"]:
            parts.append(f"x{number}<-{values['rvfi_rd_wdata']:08x}")
        if values["rvfi_mem_rmask"] or values["rvfi_mem_wmask"]:
            parts.append(f"mem {values['rvfi_mem_addr']:08x}")
        parts.append(f"next {values['rvfi_pc_wdata']:08x}")
        parts += [text for text in ("trap", "intr") if values[f"rvfi_{text}"]]
        lines.append(" ".join(parts))
    return lines


def assembly_of(word: int, pc: int) -> str:
    try:
        return disassemble(word, pc)
    except EncodingError:
        return "no instruction"


def write_waveform(trace: Sequence[Mapping[str, int]], path: Path) -> None:
    names = [*trace[0]] if trace else []
    widths = {name: max(1, *(values[name].bit_length() for values in trace)) for name in names}
    text = StringIO()
    with VCDWriter(text, timescale="1 ns", date="", comment="") as writer:
        clock = writer.register_var("example", "clock", "wire", size=1, init=0)
        signals = {
            name: writer.register_var("example", name, "wire", size=width, init=0) for name, width in widths.items()
        }
        for cycle, values in enumerate(trace):
            writer.change(clock, 10 * cycle, 1)
            for name, signal in signals.items():
                writer.change(signal, 10 * cycle, values[name])
            writer.change(clock, 10 * cycle + 5, 0)
    write_text(path, text.getvalue())
