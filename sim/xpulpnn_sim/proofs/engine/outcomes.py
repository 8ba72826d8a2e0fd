"""Outcomes of proofs: verdicts, storage on disk, and counterexamples as text."""

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
"""Verdicts: true in every cycle; true in the searched cycles; violated; refuted by a counterexample; timeout."""

VACUOUS = "assumptions cannot be met"  # verdict: the assumptions are contradictory

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    name: str
    verdict: str
    seconds: float = 0.0  # search time without Yosys
    statement: str = ""  # claim, if ``name`` has several
    method: str = ""
    # first failing cycle after reset; else the last fully searched one, or -1
    cycle: int = -1
    parts: Sequence[str] = ()  # failing parts
    trace: Sequence[Mapping[str, int]] = ()  # counterexample: signal values by name in each cycle
    # parts and invariants that induction fails for, in a reachable or unreachable state
    broken: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])  # further results for JSON


@dataclass(frozen=True, slots=True)
class Ledger:
    """Outcomes stored in a folder, each under a key of everything that determines it."""

    folder: Path
    timeout_s: float  # search limit; stored timeouts of shorter limits are retried
    resume: bool  # if outcomes of earlier runs count

    def find(self, name: str, key: str) -> Outcome | None:
        row = Results(self.folder).find(name, key) if self.resume else None
        if row is None or (row["outcome"]["verdict"] == UNDECIDED and row["timeout_s"] < self.timeout_s):
            return None
        return Outcome(**row["outcome"])

    def find_all(self, names: Mapping[Item, tuple[str, str]]) -> tuple[list[Outcome], list[Item]]:
        found = {item: self.find(name, key) for item, (name, key) in names.items()}
        stored = [outcome for outcome in found.values() if outcome]
        return stored, [item for item, outcome in found.items() if outcome is None]

    def store(self, outcome: Outcome, key: str) -> Outcome:
        Results(self.folder).store(outcome.name, {"timeout_s": self.timeout_s, "outcome": asdict(outcome)}, key)
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
        """Yield stored outcomes, then those of ``prover(item, shared)`` for the remaining items as they complete."""
        stored, open_items = self.find_all({item: (name(item), key(item)) for item in items})
        yield from stored
        with executor(jobs) as pool:
            for item, outcome in completed(pool, prover, open_items, pool.share(shared)):
                yield self.store(outcome, key(item))


WAVEFORM = "example.vcd"  # waveform of a counterexample, in the folder of the check


def counterexample_lines(outcome: Outcome, hidden: Sequence[str] = ("clk",)) -> list[str]:
    """Return a counterexample as lines of text: its retiring instructions, or the nonzero ports in each cycle."""
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
        signals = {name: writer.register_var("example", name, "wire", size, init=0) for name, size in widths.items()}
        for cycle, values in enumerate(trace):
            writer.change(clock, 10 * cycle, 1)
            for name, signal in signals.items():
                writer.change(signal, 10 * cycle, values[name])
            writer.change(clock, 10 * cycle + 5, 0)
    write_text(path, text.getvalue())
