"""Workloads: programs with expected results that run on a model.

A workload has a program and a design. After the run it compares results in memory with those of the golden models and
returns a record with cycles and other measurements. Everything else is common to kernels, functions and networks.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError, ToolError
from xpulpnn.isa.machine import HALF_BYTES, WORD_BYTES
from xpulpnn_sim.cosimulation.checks.retirements import Checker, RetirementCheck
from xpulpnn_sim.cosimulation.model.host import Host
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.cosimulation.model.machine import Machine, Memory, Waves
from xpulpnn_sim.cosimulation.model.model import U32
from xpulpnn_sim.cosimulation.model.schema import Event
from xpulpnn_sim.cosimulation.model.session import CHUNK_CYCLES, Observer, Progress, RunResult, Session
from xpulpnn_sim.cosimulation.model.statics import stream_text
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.iss.lockstep import Lockstep
from xpulpnn_sim.reference.iss.memory import Memory as SimulatedMemory
from xpulpnn_sim.reference.programs import exits
from xpulpnn_sim.reference.programs.elf import Executable, Segment
from xpulpnn_sim.reference.programs.exits import Exit, Reason
from xpulpnn_sw.kernels.layout import Image, Program
from xpulpnn_sw.kernels.programs.bare import BareProgram


@dataclass(frozen=True, eq=False, slots=True)
class ExecutedStream:
    words: U32  # text
    pcs: U32  # addresses of the words
    sequence: U32  # indices of the executed instructions in the text, in order
    memory: dict[int, NDArray[np.uint8]] = field(default_factory=dict[int, NDArray[np.uint8]])  # changed by the run


def run_stream(
    stream: ExecutedStream,
    config: CoreConfig,
    machine: Machine | None = None,
    *,
    sparse: bool = False,
    pokes: NDArray[Any] | None = None,
    check: bool = True,
    observer: Observer | None = None,
    account: bool = False,
    progress: Progress | None = None,
    waves: Waves | None = None,
    library: Path | None = None,
) -> RunResult:
    """Run an instruction stream on the back end to its end, or to the first error that stops it."""
    library = library or model_library("stream", config, trace=waves is not None)
    memory, pcs = stream.memory, stream.pcs
    for base, content in memory.items():
        if base % WORD_BYTES or content.size % WORD_BYTES:
            raise InputError(f"memory window must be whole words, not {content.size} bytes at 0x{base:08x}")
    checkers: list[Checker] = []
    sequence = np.ascontiguousarray(stream.sequence, np.uint32)
    if check and len(sequence):
        checkers.append(RetirementCheck(stream_reference(stream, config), compares_lines=True))
    settings, machine = {"sparse": int(sparse)}, machine or Machine()
    with Session(library, 1, settings, memory, machine, waves=waves, checkers=checkers, observer=observer) as session:
        if account:
            session.accounts = [session.model.account(0, int(pcs.min()), int(pcs.max() - pcs.min()) + WORD_BYTES)]
        session.model.set_stream(stream_text(stream.words, pcs), sequence, pokes)
        end = _stream_end(session, progress)
        last = session.model.harts[0]
        cycles = int(last["last_cycle"]) - int(session.model.status["first_offered"])
        return session.result(end or Exit(Reason.PASS, 0, int(last["pc"]), None, "pass"), memory, _no_name, cycles)


def stream_reference(stream: ExecutedStream, config: CoreConfig) -> Lockstep:
    """Return the simulator that executes the instructions of a stream on a copy of its memory."""
    memory, pcs = SimulatedMemory(), stream.pcs.tolist()
    for base, content in stream.memory.items():
        memory.write_bytes(base, content.tobytes())
    executable, text = (
        Executable(Path("stream"), pcs[stream.sequence[0]], (), 0),
        dict(zip(pcs, stream.words.tolist(), strict=True)),
    )
    return Lockstep(executable, config, memory=memory, stream=text)


def _no_name(pc: int) -> str:
    return ""


def _stream_end(session: Session, progress: Progress | None) -> Exit | None:
    model, reported = session.model, 0
    while True:
        events = session.advance(min(session.limit, model.cycles + CHUNK_CYCLES))
        status = model.status
        if progress is not None:
            progress(int(status["accepted"]) - reported)
            reported = int(status["accepted"])
        if Event.WRONG_REDIRECT in events:
            position = int(status["position"])
            expected, got = int(status["expected"]), int(status["got"])
            line = f"next pc of instruction {position} must be 0x{expected:08x}, not 0x{got:08x}"
            session.checks.note(line, position)
            return Exit(Reason.DIFFERENCE, 0, int(model.harts[0]["pc"]), None, line)
        end = session.ended(_no_name)
        if end is not None:
            session.checks.note(end.text)
            return end
        if session.checks.mismatches:
            return exits.difference(int(model.harts[0]["pc"]), _no_name)
        if Event.STREAM_DONE in events:
            return None


DIGITS = 4  # digits of fractions in records


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Comparison of results with expected ones: the number of wrong results, and a report of the first."""

    wrong: int
    report: str | None
    count: int = 0  # of compared results

    @classmethod
    def of(cls, name: str, expected: NDArray[Any], got: NDArray[Any], counts: NDArray[Any] | None = None) -> Self:
        """Compare all elements, or only those for which ``counts`` is not 0."""
        different = got != expected
        wrong = np.argwhere(different if counts is None else different & (counts != 0))
        count = different.size if counts is None else int(np.count_nonzero(counts))
        if not len(wrong):
            return cls(wrong=0, report=None, count=count)
        at = tuple(wrong[0].tolist())
        place = "".join(f"[{index}]" for index in at)
        report = f"{name}{place}: expected {expected[at]}, got {got[at]} ({len(wrong)} wrong results)"
        return cls(wrong=len(wrong), report=report, count=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    record: dict[str, Any]  # figures as JSON types
    reports: list[str]  # the first mismatches
    mismatch_position: int | None = None  # number of the first retirement that differs


_START_CYCLES, _CYCLES_PER_BYTE, _CYCLES_PER_MAC, _INTERRUPT_FACTOR = 1_000_000, 200, 50, 8


def most_cycles(machine: Machine, executable: Executable | ExecutedStream, macs: int) -> int:
    """Return the cycles after which a program is aborted, about ten times as many as the slowest ones need."""
    if isinstance(executable, ExecutedStream):
        size = sum(content.size for content in executable.memory.values())
    else:
        size = sum(segment.size for segment in executable.segments)
    latency = max(machine.l2_latency, machine.response_latency, machine.fetch_latency)
    slowness = latency / (1 - max(machine.grant_stalls, machine.fetch_grant_stalls))
    slowness *= _INTERRUPT_FACTOR if machine.irq_rate else 1
    return int((_START_CYCLES + _CYCLES_PER_BYTE * size + _CYCLES_PER_MAC * macs) * slowness)


class Workload(ABC):
    host: Host | None = None  # core of somebody else that runs the program

    def __init__(
        self,
        config: CoreConfig | ClusterConfig,
        machine: Machine,
        executable: Executable | ExecutedStream,
        *,
        macs: int,
        checked: bool,
    ) -> None:
        # `checked`: check every retirement, not only the results
        self.config, self.executable, self.checked = config, executable, checked
        self.machine = replace(machine, max_cycles=min(machine.max_cycles, most_cycles(machine, executable, macs)))

    @abstractmethod
    def compared(self, outcome: RunResult) -> Iterable[Comparison]:
        """Compare the results in memory with the expected ones."""

    @abstractmethod
    def figures(self, outcome: RunResult, compared: Sequence[Comparison]) -> dict[str, Any]:
        """Return the measurements of this workload; :meth:`run` adds the mismatches, the seconds and the speed."""

    def outcome(self, **options: Any) -> RunResult:
        """Run the program with options of :func:`run_program`, or of :func:`run_stream` for a stream."""
        if isinstance(self.executable, ExecutedStream):
            return run_stream(self.executable, self.config.core, self.machine, **options)
        return run_program(self.executable, self.config, self.machine, host=self.host, **options)

    def span(self, outcome: RunResult) -> tuple[int, int] | None:
        """Return the cycles from the end of reset in which the measurement begins and ends; None for the whole run."""
        return None

    def run_on(self, library: Path) -> tuple[int, int] | None:
        """Run the program on a compiled model and return :meth:`span`; raise :class:`ToolError` for wrong results."""
        outcome = self.outcome(check=False, library=library)
        wrong = [comparison.report for comparison in self.compared(outcome) if comparison.wrong]
        if wrong or not outcome.exit.ok:
            design = "cluster" if isinstance(self.config, ClusterConfig) else "core"
            told = wrong[0] if outcome.exit.ok else outcome.exit.text
            raise ToolError(f"the {design} must compute what the reference does, not {told}")
        return self.span(outcome)

    def run(self, progress: Progress | None = None, waves: Waves | None = None) -> Result:
        """Run the program and compare its results with the expected ones; with ``waves`` the model writes waveforms."""
        outcome = self.outcome(check=self.checked, account=True, progress=progress, waves=waves)
        compared = list(self.compared(outcome))
        mismatches = outcome.mismatches + sum(comparison.wrong for comparison in compared)
        record = self.figures(outcome, compared) | {
            "mismatches": mismatches if outcome.exit.ok else max(mismatches, 1),
            "compared_results": sum(comparison.count for comparison in compared),
            "compared_retirements": outcome.instructions if self.checked else 0,
            "wall_s": round(outcome.wall_s, DIGITS),
            "sim_cycles_per_s": round(outcome.cycles / outcome.wall_s),
        }
        texts = [outcome.difference, *(comparison.report for comparison in compared)]
        texts += [] if outcome.exit.ok else [outcome.exit.text]
        reports = [text for text in texts if text]
        return Result(record=record, reports=reports, mismatch_position=outcome.mismatch_position)


def executable_of(program: BareProgram, name: str, outside: Iterable[Image] = ()) -> Executable:
    pieces = [(program.data_base, program.data), (program.text_base, program.text)]
    pieces += [(image.base, image.data.tobytes()) for image in outside]
    return Executable(
        path=Path(name),
        entry=program.entry,
        segments=tuple(Segment(base, data, len(data)) for base, data in pieces),
        tohost=program.tohost,
        symbols={"tohost": program.tohost},
    )


def function_cycles(outcome: RunResult, function: Program, text_base: int) -> NDArray[np.uint64]:
    """Return the cycles spent at each instruction of a function, ``[core][instruction][cause]``."""
    first, step = (int(function.pcs[0]) - text_base) // HALF_BYTES, WORD_BYTES // HALF_BYTES
    return np.stack([rows[first::step][: len(function)] for rows in outcome.accounts])


def image_after(outcome: RunResult, image: Image) -> NDArray[np.uint8]:
    return np.frombuffer(Memory(outcome.memory).read(image.base, image.data.size), np.uint8)
