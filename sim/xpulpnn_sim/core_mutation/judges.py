"""All mutants of a core, each judged in a process of its own until a program finds it.

The judge is a fresh interpreter that has the model and the programs, and forks for each mutant: it costs no start, and
disturbs no other, whatever the model does. Verdicts go as lines of JSON to a file, at once, so that an interrupted run
loses nothing.
"""

import json
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import NoReturn

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn_sim.core_mutation.design import MutatedCore
from xpulpnn_sim.core_mutation.programs import TIME, Found, Judge, costs, directed_programs, random_programs
from xpulpnn_sim.verify.campaign import Plan

SIMULATOR = "simulator"
"""What the simulator's own checks find."""

_ENDED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a judge does."""

    core: MutatedCore
    plan: Plan
    instructions: int  # retirements of random programs for each
    waiting: tuple[int, ...]  # mutants to judge
    jobs: int  # how many side by side
    limit_s: int  # seconds of computing after which a mutant counts as found
    verdicts: Path  # file that gets a line for each


def judge(work: Work) -> None:
    """Judge mutants in a process of its own; raises :class:`ToolError` if it fails."""
    # fresh: the progress bar's thread must not be forked
    process = get_context("spawn").Process(target=_judge_all, args=(work,))
    process.start()
    try:
        process.join()
    finally:
        if process.is_alive():
            process.terminate()
            process.join()
    if process.exitcode:
        raise ToolError(f"judge of the mutants must end well, not with {process.exitcode}")


def _judge_all(work: Work) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    config: CoreConfig = work.plan.config
    work.core.choose(0)
    programs = [
        *random_programs(work.plan, work.instructions, work.core.library),
        *directed_programs(config, work.core.library),
    ]
    found = costs(config, work.core.library)
    if found.how:
        raise ToolError(f"{found.test} must pass on the core itself, but: {found.text}")
    running: dict[int, int] = {}
    waiting = list(reversed(work.waiting))
    while waiting or running:
        if waiting and len(running) < work.jobs:
            mutant = waiting.pop()
            child = os.fork()
            if not child:
                _judge_one(work, mutant, programs)
            running[child] = mutant
            continue
        child, status = os.wait()
        mutant, code = running.pop(child), os.waitstatus_to_exitcode(status)
        if code != _ENDED:
            how = TIME if -code == signal.SIGPROF else SIMULATOR
            _tell(work, mutant, Found(how, "", f"process ended with {code}"))


def _judge_one(work: Work, mutant: int, programs: Sequence[Judge]) -> NoReturn:
    """One mutant, until something finds it; ends the process."""
    code = 1
    try:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # of the processor, however busy the machine is
        signal.setitimer(signal.ITIMER_PROF, work.limit_s)
        work.core.choose(mutant)
        _tell(work, mutant, _found(work, programs))
        code = _ENDED
    finally:
        os._exit(code)


def _found(work: Work, programs: Sequence[Judge]) -> Found:
    config, library = work.plan.config, work.core.library
    for program in programs:
        found = program.judge(config, library)
        if found.how:
            return found
    return costs(config, library)


def _tell(work: Work, mutant: int, found: Found) -> None:
    """Append a line in one step."""
    row = {"mutant": mutant, "killed": found.how, "test": found.test, "text": found.text}
    handle = os.open(work.verdicts, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(handle, f"{json.dumps(row)}\n".encode())
    os.close(handle)
