"""Runs instruction streams on the back end: what a kernel executes, fed in the order of execution."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.cosimulation.checks.retirements import Checker, Findings, RetirementCheck
from xpulpnn_sim.cosimulation.model.libraries import model_library
from xpulpnn_sim.cosimulation.model.machine import Machine, Waves
from xpulpnn_sim.cosimulation.model.model import U32
from xpulpnn_sim.cosimulation.model.schema import Event
from xpulpnn_sim.cosimulation.model.session import Observer, Progress, RunResult, Session
from xpulpnn_sim.cosimulation.model.statics import stream_text
from xpulpnn_sim.reference.programs import exits
from xpulpnn_sim.reference.programs.exits import Exit, Reason


@dataclass(frozen=True, eq=False, slots=True)
class ExecutedStream:
    """A stream of executed instructions with its data."""

    words: U32  # the text
    pcs: U32  # addresses of its words
    blocks: Sequence[U32]  # numbers of the executed instructions, in their order
    memory: dict[int, NDArray[np.uint8]]  # data by base address, changed by the run


def run_stream(
    words: U32,
    pcs: U32,
    blocks: Iterable[NDArray[Any]],
    config: CoreConfig,
    machine: Machine | None = None,
    *,
    memory: dict[int, NDArray[np.uint8]] | None = None,
    sparse: bool = False,
    pokes: NDArray[Any] | None = None,
    check: bool = True,
    observer: Observer | None = None,
    account: bool = False,
    progress: Progress | None = None,
    waves: Waves | None = None,
    library: Path | None = None,
) -> RunResult:
    """Run an instruction stream on the back end to its end, or to the first error after which it cannot go on."""
    machine = machine or Machine()
    library = library or model_library("stream", config, trace=waves is not None)
    memory = {} if memory is None else memory
    for base, content in memory.items():
        if base % WORD_BYTES or content.size % WORD_BYTES:
            raise InputError(f"memory window must be whole words, not {content.size} bytes at 0x{base:08x}")
    checkers: list[Checker] = []
    checked = None
    held = _with_lookahead(blocks)
    first = next(held, None)
    if check and first is not None:
        copies = {base: content.copy() for base, content in memory.items()}
        entry = int(pcs[first[0][0]])
        checked = RetirementCheck(library, config, copies, entry=entry, has_front_end=False, sparse=sparse)
        checkers.append(checked)
    session = Session(
        library, 1, {"sparse": sparse}, memory, machine, waves=waves, checkers=checkers, observer=observer
    )
    try:
        accounts = (
            [session.model.account(0, int(pcs.min()), int(pcs.max() - pcs.min()) + WORD_BYTES)] if account else []
        )
        text = stream_text(words, pcs)
        session.model.set_program(text)
        if pokes is not None:
            session.model.add_pokes(pokes)
        end = None
        while first is not None and end is None:
            indices, lookahead = first
            first = next(held, None)
            end = _fed(session, indices, lookahead, text)
            if progress is not None:
                progress(len(indices) - lookahead)
        session.hand_over()
        session.checks.wait()
        pc = int(session.model.harts[0]["pc"])
        if end is None:
            if checked is not None and not session.checks.mismatches:
                session.checks.note(checked.finish(memory, session.model.harts["retired"].tolist()))
            end = Exit(Reason.PASS, 0, pc, None, "pass")
        cycles = int(session.model.harts[0]["last_cycle"]) - int(session.model.status["first_offered"])
        result = session.result(end, memory, _no_name, cycles)
    finally:
        session.close()
    result.accounts = accounts
    return result


def _no_name(pc: int) -> str:
    return ""


def _fed(session: Session, indices: U32, lookahead: int, text: NDArray[Any]) -> Exit | None:
    """Run one block of a stream; the end if it cannot go on."""
    model = session.model
    model.feed(indices, lookahead)
    while True:
        events = session.advance(session.limit, drain=not lookahead)
        if Event.WRONG_REDIRECT in events:
            status = model.status
            position = int(status["position"])
            expected, got = int(status["expected"]), int(status["got"])
            pc = int(model.harts[0]["pc"])
            line = f"next pc of instruction {position} must be 0x{expected:08x}, not 0x{got:08x}"
            session.checks.note(Findings(1, line, position))
            return Exit(Reason.DIFFERENCE, 0, pc, None, line)
        end = session.ended(_no_name)
        if end is not None:
            session.checks.note(Findings(1, end.text))
            return end
        if session.checks.mismatches:
            return exits.difference(int(model.harts[0]["pc"]), _no_name)
        if Event.STREAM_DONE in events:
            return None


def _with_lookahead(blocks: Iterable[NDArray[Any]]) -> Any:
    """Each non-empty block with the first element of the next one behind it, and how many that are (0 at the end)."""
    held: U32 | None = None
    for block in blocks:
        if not len(block):
            continue
        converted = np.ascontiguousarray(block, np.uint32)
        if held is not None:
            yield np.concatenate((held, converted[:1])), 1
        held = converted
    if held is not None:
        yield held, 0
