"""Outcomes of proofs about a core, which outlast a run, and their counterexamples for readers."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import TypeVar

from vcd import VCDWriter

from xpulpnn.errors import EncodingError
from xpulpnn_sim.tools.files import write_text
from xpulpnn_sim.tools.results import Results
from xpulpnn_sw.assembly.disasm import disassemble

PROVED, PASSED, FAILED, REFUTED, UNDECIDED = "proved", "passes", "FAILS", "REFUTED", "time is up"
"""Verdicts: holds in every cycle; in those searched; does not, as cycles or a single case show; no answer in time."""

VACUOUS = "assumptions cannot be met"  # verdict: nothing is claimed of any case

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Verdict on an instruction, a property or a check of a core."""

    name: str
    verdict: str  # see PROVED
    seconds: float  # time of the search, without Yosys
    # the cycle after reset in which it fails; else the last one that was searched to its end, or -1
    cycle: int = -1
    parts: Sequence[str] = ()  # what is wrong, if it fails
    # signals by name in each cycle from reset to where it fails; empty if it does not
    trace: Sequence[Mapping[str, int]] = ()
    # what a proof of every cycle failed at: parts and invariants that some state, reached or not, does not keep
    broken: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Ledger:
    """Outcomes kept in a folder, each under a key of all that it follows from."""

    folder: Path
    timeout_s: float  # seconds for each search: one that took less and found nothing is made again
    resume: bool  # whether outcomes of earlier runs count

    def known(self, name: str, key: str) -> Outcome | None:
        """The outcome of an earlier run."""
        row = Results(self.folder).find(name, key) if self.resume else None
        if row is None or (row["outcome"]["verdict"] == UNDECIDED and row["timeout_s"] < self.timeout_s):
            return None
        return Outcome(**row["outcome"])

    def keep(self, outcome: Outcome, key: str) -> None:
        """Write it down."""
        Results(self.folder).keep(outcome.name, {"timeout_s": self.timeout_s, "outcome": asdict(outcome)}, key)

    def taken_up(
        self, items: Iterable[Item], name: Callable[[Item], str], key: Callable[[Item], str]
    ) -> Generator[Outcome, None, list[Item]]:
        """Yield what is known of items, and return the others."""
        waiting: list[Item] = []
        for item in items:
            known = self.known(name(item), key(item))
            if known is None:
                waiting.append(item)
            else:
                yield known
        return waiting


WAVEFORM = "example.vcd"  # file with the waveform, in the folder of the check


def retirements(trace: Sequence[Mapping[str, int]]) -> list[str]:
    """A line for each instruction that retires in a counterexample, with what the port says of it."""
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
    """An instruction as assembly."""
    try:
        return disassemble(word, pc)
    except EncodingError:
        return "no instruction"


def write_waveform(trace: Sequence[Mapping[str, int]], path: Path) -> None:
    """Write a counterexample as a VCD file, a cycle every 10 ns."""
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
