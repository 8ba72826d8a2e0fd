"""A simulation session: advances the model and passes its retirements to observer and checks."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cosimulation.checks.retirements import Checker, Checks
from xpulpnn_sim.cosimulation.model.machine import WATCHDOG_CYCLES, Machine, Memory, Waves
from xpulpnn_sim.cosimulation.model.model import Block, Model, Windows
from xpulpnn_sim.cosimulation.model.schema import ACTIVITY, OUTSIDE, STALLS, Event
from xpulpnn_sim.reference.programs import exits
from xpulpnn_sim.reference.programs.exits import Exit, NameOf, Reason, Trapped, fetched_word, waits_for
from xpulpnn_sim.reference.programs.retirements import Records

BLOCK_RETIREMENTS = 1 << 16  # retirements of a block

CHUNK_CYCLES = 1 << 20  # cycles between two reports of progress when nothing is recorded

RESTING = Event.ENDLESS_LOOP | Event.STUCK

_RULES = {
    Event.LOST_REQUEST: "a request must stay as it is until it is granted",
    Event.EARLY_SLEEP: "core_sleep must wait for open transfers",
    Event.WRONG_WAKE: "core_sleep must fall in the cycle of the interrupt, which is taken in a later one",
    Event.MANY_FETCHES: "no more than four words may be under way",
}
"""Protocol rules at the ports of a core without cluster, by the event that reports a violation."""

_ISSUE_941 = "issue 941 of CV32E40X; mended by `&& ex_ready_i` in issue_valid"

_WITHOUT_ANSWER = {
    WaitCause.START: "has not started",
    WaitCause.FETCH: "waits for an instruction",
    WaitCause.GRANT: "waits for the grant of an access",
    WaitCause.SLEEP: "sleeps in wfi",
}

Observer = Callable[[Sequence[Records]], None]
"""Callback that receives the next retirements of each hart, in program order; they are valid only during the call."""

Progress = Callable[[int], None]  # callback that takes the count of cycles, or of instructions of a stream


@dataclass(slots=True)
class RunResult:
    exit: Exit
    cycles: int = 0  # from the end of reset; of a stream from the first instruction offered to the last retired
    instructions: int = 0  # instructions retired by all harts, including those that trapped
    interrupts: int = 0  # interrupts taken by all harts
    wall_s: float = 0.0  # seconds of simulation, without compiling the model
    mismatches: int = 0  # differences reported by checks
    difference: str | None = None  # report of the first of them
    mismatch_position: int | None = None  # number of its retirement, if it belongs to one
    trapped: Trapped | None = None  # the last exception
    output: bytes = b""  # standard output of the program
    # final memory by base address
    memory: dict[int, NDArray[np.uint8]] = field(default_factory=dict[int, NDArray[np.uint8]])
    # cycles of each hart by instruction and cause, on request
    accounts: list[NDArray[np.uint64]] = field(default_factory=list[NDArray[np.uint64]])
    # transfers of a DMA engine from and to external memory
    activities: NDArray[Any] = field(default_factory=lambda: np.zeros(0, ACTIVITY))

    @property
    def sim_cycles_per_s(self) -> float:
        return self.cycles / self.wall_s if self.wall_s else 0.0

    @property
    def account(self) -> NDArray[np.uint64]:
        return np.sum(self.accounts, axis=0)

    @property
    def stalls(self) -> dict[str, int]:
        """Cycles in which a hart retires nothing, summed over all harts, by cause; empty if they were not counted."""
        return stalls_of(self.account, devices=len(self.accounts) > 1) if self.accounts else {}

    def read(self, address: int, size: int) -> bytes:
        return Memory(self.memory).read(address, size)


def stalls_of(account: NDArray[np.uint64], *, devices: bool) -> dict[str, int]:
    """Return the cycles without a retirement by cause; ``devices`` adds the causes that only a cluster has."""
    totals = account.sum(axis=0)
    causes = STALLS if devices else tuple(WaitCause)
    return {cause.name.lower(): int(totals[cause]) for cause in causes if cause}


class Session:
    def __init__(
        self,
        library: Path,
        harts: int,
        settings: dict[str, int],
        memory: Windows,
        machine: Machine,
        *,
        waves: Waves | None = None,
        checkers: Sequence[Checker] = (),
        observer: Observer | None = None,
        in_cluster: bool = False,
    ) -> None:
        collects = bool(checkers) or observer is not None
        settings = machine.settings() | settings | {"collect": collects} | (waves.settings() if waves else {})
        self.model = Model(
            library, harts, settings, memory, machine.irqs, waves.path if waves else None, machine.error_windows
        )
        self.checks = Checks(checkers)
        self.limit, self._most = machine.max_cycles, machine.max_instructions
        self._observer = observer
        self._harts, self._in_cluster = range(harts), in_cluster or harts > 1
        # one block is being checked while the other is being filled
        self._blocks = [Block(harts, max(BLOCK_RETIREMENTS // harts, 1) if collects else 1) for _ in range(2)]
        self.model.collect(self._blocks[0])
        self.accounts: list[NDArray[np.uint64]] = []
        self._started = time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.checks.close()
        self.model.close()

    def advance(self, limit: int) -> Event:
        events = self.model.advance(limit)
        if Event.RECORDS_FULL in events:
            self.hand_over()
        return events

    def hand_over(self) -> None:
        """Pass the filled block to observer and checks, and let the model fill another block."""
        block = self._blocks[0]
        hart = int(self.model.status["hart"])
        # the reference cannot execute an instruction that accesses no memory, and would report a lost result again
        if self.model.events & (OUTSIDE | Event.LOST_RESULT) and block.filled[hart]:
            block.filled[hart] -= 1
        if self._observer is not None and any(block.filled):
            self._observer([block.records(hart) for hart in self._harts])
        self.checks.feed(block)
        self._blocks.reverse()
        self.model.collect(self._blocks[0])

    def ended(self, name_of: NameOf, line_of: NameOf = lambda pc: "") -> Exit | None:
        """Return how the run ended if the last events end it, else None. With several cores the text names the core."""
        if self._in_cluster and self.model.events & RESTING and not self.model.events & OUTSIDE:
            return self._at_rest(name_of, line_of)
        end = self._ended(name_of)
        if end is None or not self._in_cluster or Event.BAD_TRANSFER in self.model.events:
            return end
        return replace(end, text=f"core {int(self.model.status['hart'])}: {end.text}")

    def _at_rest(self, name_of: NameOf, line_of: NameOf) -> Exit:
        waiting: list[tuple[int, int, str]] = []
        for core, hart in enumerate(self.model.harts):
            cause, at = WaitCause(int(hart["wait_cause"])), int(hart["next_pc"])
            if Event.ENDLESS_LOOP in Event(int(hart["resting"])):
                waiting.append((core, int(hart["pc"]), "is in an endless loop"))
            elif cause is WaitCause.RESPONSE:
                waiting.append((core, at, waits_for(int(hart["wait_address"]))))
            else:
                waiting.append((core, at, _WITHOUT_ANSWER.get(cause, f"waits ({cause.name.lower()})")))
        return exits.deadlock(waiting, name_of, line_of)

    def _ended(self, name_of: NameOf) -> Exit | None:
        events, status = self.model.events, self.model.status
        hart = self.model.harts[int(status["hart"])]
        pc = int(hart["pc"])
        if Event.BAD_TRANSFER in events:
            return exits.bad_transfer(int(status["transfer"]), pc, writes=bool(status["transfer_writes"]))
        for event, rule in _RULES.items():
            if event in events:
                return replace(exits.difference(pc, name_of), text=f"{rule}, after {exits.place(pc, name_of)}")
        if Event.LOST_RESULT in events:
            text = f"the core lost the result or an operand of the instruction at {exits.place(pc, name_of)}"
            return replace(exits.difference(pc, name_of), text=f"{text}: {_ISSUE_941}")
        if Event.BAD_FETCH in events:
            return exits.bad_fetch(pc, int(hart["previous_pc"]) if hart["retired"] > 1 else None, name_of)
        if Event.BAD_ACCESS in events:
            mask = int(hart["mask"])
            first = (mask & -mask).bit_length() - 1 if mask else 0
            kind, size = "store" if hart["write"] else "load", mask.bit_count() or WORD_BYTES
            return exits.bad_access(kind, int(hart["address"]) + first, size, pc, name_of)
        if Event.TRAP_LOOP in events:
            return exits.trap_loop(pc, int(hart["cause"]), int(hart["next_pc"]), name_of)
        if Event.ENDLESS_LOOP in events:
            return exits.endless_loop(pc, name_of)
        if Event.STUCK in events:
            text = f"the core has not retired an instruction for {WATCHDOG_CYCLES} cycles"
            return Exit(Reason.STUCK, 0, pc, None, text)
        if int(self.model.harts["retired"].sum()) >= self._most:
            return exits.out_of_time(self._most, "instructions", pc, name_of)
        if self.model.cycles >= self.limit:
            return exits.out_of_time(self.limit, "cycles", pc, name_of)
        return None

    def trapped(self, memory: Windows) -> Trapped | None:
        """Return the last exception of the hart of the last event."""
        last = self.model.harts[int(self.model.status["hart"])]
        cause, at, *before = (int(last[name]) for name in ("trap_cause", "trap_pc", "trap_from", "trap_jump"))
        word, address = fetched_word(Memory(memory).read, at), int(last["trap_address"])
        return Trapped(at, cause, word, tuple(before), address) if cause else None

    def result(self, end: Exit, memory: dict[int, NDArray[np.uint8]], name_of: NameOf, cycles: int) -> RunResult:
        checks, harts = self.checks, self.model.harts
        self.hand_over()
        checks.wait()
        if end.reason is Reason.PASS:
            checks.finish(memory, harts["retired"].tolist())
        if checks.mismatches and end.reason in (Reason.PASS, Reason.DIFFERENCE):
            # the address reached meanwhile means nothing
            text = f"differences from the reference: {checks.mismatches}"
            end = replace(exits.difference(end.pc, name_of), text=text)
        return RunResult(
            exit=end,
            cycles=cycles,
            instructions=int(harts["retired"].sum()),
            interrupts=int(harts["interrupts"].sum()),
            wall_s=time.perf_counter() - self._started,
            mismatches=checks.mismatches,
            difference=checks.first,
            mismatch_position=checks.position,
            trapped=self.trapped(memory),
            memory=memory,
            accounts=self.accounts,
            activities=self.model.activities(),
        )
