"""All that a run of a program shows outside the core, to be compared with what another core shows."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn_sim.cosimulation.checks.retirements import Findings
from xpulpnn_sim.cosimulation.model.machine import Machine, load_memory
from xpulpnn_sim.cosimulation.model.model import Block, Windows
from xpulpnn_sim.cosimulation.model.schema import GRANT, OUTSIDE, Event
from xpulpnn_sim.cosimulation.model.session import Session
from xpulpnn_sim.cosimulation.model.target import Target
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.reference.programs.exits import TOHOST_PASS
from xpulpnn_sim.reference.programs.retirement import RETIREMENT, WIDE_FIELDS

_FIRST_WORD = 2 * len(WIDE_FIELDS)
_CYCLE_WORDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Record of all that a run has shown."""

    passed: bool  # whether the program has reported success
    retired: NDArray[np.uint32]  # the records without number and cycle
    cycles: NDArray[np.uint64]  # when they retired
    lines: NDArray[np.uint32]
    grants: NDArray[np.uint32]  # accesses on the data bus, without their cycles
    memory: Windows  # final memory by base address

    def retires_as(self, other: "Stream") -> bool:
        """Return whether both have passed and retired the same, interrupts under the same lines."""
        same = self.passed and other.passed and np.array_equal(self.retired, other.retired)
        return same and np.array_equal(self.lines, other.lines)

    def shows_as(self, other: "Stream") -> bool:
        """Return whether nothing outside the core tells them apart but the time."""
        return (
            self.retires_as(other)
            and np.array_equal(self.grants, other.grants)
            and all(np.array_equal(self.memory[base], content) for base, content in other.memory.items())
        )


class _Collector:
    """A checker that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[NDArray[np.void]] = []
        self.lines: list[NDArray[np.uint32]] = []
        self.grants: list[NDArray[np.void]] = []

    def __call__(self, block: Block) -> Findings:
        self.records.append(block.records().copy())
        self.lines.append(block.lines().copy())
        self.grants.append(block.grants.copy())
        return Findings()


def stream_of(executable: Executable, config: CoreConfig, machine: Machine, library: Path) -> Stream:
    """Run a program on a model until it reports an end, or goes wrong, or has taken ``machine.max_cycles``."""
    target = Target.of(config, machine)
    memory = load_memory(executable, machine.ram)
    settings = {"boot_addr": executable.entry, "tohost": executable.tohost} | target.settings
    collector = _Collector()
    session = Session(library, 1, settings, memory, machine, checkers=[collector])
    try:
        passed = _ended_well(session)
        session.hand_over()
        session.checks.wait()
    finally:
        session.close()
    records = np.concatenate([np.zeros(0, RETIREMENT), *collector.records])
    grants = np.concatenate([np.zeros(0, GRANT), *collector.grants])
    return Stream(
        passed=passed,
        retired=_words(records)[:, _FIRST_WORD:].copy(),
        cycles=records["cycle"].copy(),
        lines=np.concatenate([np.zeros(0, np.uint32), *collector.lines]),
        grants=_words(grants)[:, _CYCLE_WORDS:].copy(),
        memory=memory,
    )


def _words(rows: NDArray[np.void]) -> NDArray[np.uint32]:
    """Structs as a row of words each."""
    return rows.view(np.uint32).reshape(len(rows), rows.dtype.itemsize // 4)


def _ended_well(session: Session) -> bool:
    """Run to the end: whether it is one that the program has reported, a success."""
    model = session.model
    while True:
        session.advance(session.limit)
        if Event.TOHOST in model.events and not model.events & OUTSIDE:
            passed = int(model.status["value"]) == TOHOST_PASS
            retired = int(model.harts[0]["retired"])
            # the store that reports the end has been granted, but not retired
            while int(model.harts[0]["retired"]) == retired and Event.STUCK not in model.events:
                session.advance(model.cycles + 1)
            return passed
        if session.ended(lambda pc: "") is not None:
            return False
