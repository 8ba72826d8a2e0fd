"""Runs programs and instruction streams on compiled designs, with memory, interrupts and checks around them."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim import exits
from xpulpnn_sim.elf import Executable, Window
from xpulpnn_sim.exits import FROMHOST_DONE, Exit, NameOf, Output, Reason
from xpulpnn_sim.harness.check import Checker, Checks, Findings, RetirementCheck, lockstep_checker
from xpulpnn_sim.harness.machine import WATCHDOG_CYCLES, Machine, Memory, Waves, load_memory
from xpulpnn_sim.harness.model import U32, Block, Model, Windows
from xpulpnn_sim.harness.models import model_library
from xpulpnn_sim.harness.schema import Event
from xpulpnn_sim.harness.statics import stream_text
from xpulpnn_sim.iss.lockstep import Lockstep
from xpulpnn_sim.retirement import Records

BLOCK = 1 << 16
"""Retirements handed over at a time."""

CHUNK_CYCLES = 1 << 20
"""Cycles between two looks at the progress when nothing is recorded."""

_OUTSIDE = Event.BAD_ACCESS | Event.BAD_FETCH
"""After these no reference can follow the last instruction of the hart concerned."""

Observer = Callable[[Records], None]
"""Takes blocks of retirements of the first hart in program order; valid only during the call."""

Progress = Callable[[int], None]
"""Takes the count of cycles, or of instructions of a stream, from time to time."""


@dataclass(slots=True)
class RunResult:
    """What a run did.

    Members
    -------
    exit : Exit
        How it ended.
    cycles : int
        Clock cycles from the end of reset; of a stream from the first instruction offered to the last retired.
    instructions, interrupts : int
        Instructions retired (trapping ones included) and interrupts taken by all harts.
    wall_s : float
        Seconds of simulation, without compiling the model.
    mismatches : int
        Differences found by checks.
    difference : str or None
        The first of them, for people.
    mismatch_position : int or None
        Number of the retirement it was found at, if it was found at one.
    output : bytes
        What the program printed to its standard output.
    memory : dict of int to numpy array of uint8
        Final memory by base address.
    accounts : list of uint64[half words of text + 1, WaitCause]
        Where the cycles of each hart went, on request.
    """

    exit: Exit
    cycles: int = 0
    instructions: int = 0
    interrupts: int = 0
    wall_s: float = 0.0
    mismatches: int = 0
    difference: str | None = None
    mismatch_position: int | None = None
    output: bytes = b""
    memory: dict[int, NDArray[np.uint8]] = field(default_factory=dict[int, NDArray[np.uint8]])
    accounts: list[NDArray[np.uint64]] = field(default_factory=list[NDArray[np.uint64]])

    @property
    def sim_cycles_per_s(self) -> float:
        """Simulation speed."""
        return self.cycles / self.wall_s if self.wall_s else 0.0

    @property
    def stalls(self) -> dict[str, int]:
        """Cycles without a retirement by cause, of all harts; empty if nothing was counted."""
        if not self.accounts:
            return {}
        totals = np.sum([account.sum(axis=0) for account in self.accounts], axis=0)
        return {cause.name.lower(): int(totals[cause]) for cause in WaitCause if cause}

    def read(self, address: int, size: int) -> bytes:
        """``size`` bytes of the final memory; raises :class:`InputError` outside it."""
        return Memory(self.memory).read(address, size)


class Session:
    """A model under way: advances it, hands what it records to observer and checks.

    Parameters
    ----------
    library : Path
        Compiled model.
    harts : int
        Its harts.
    settings : mapping of str to int
        Fields of SETTINGS.
    memory : mapping of int to numpy array of uint8
        Memory by base address, used in place.
    machine : Machine
        Its interrupts and limit count.
    waves : Waves or None
        Waveforms to write.
    checkers : sequence of Checker
        What takes the retirements.
    observer : Observer or None
        Takes them too.
    """

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
    ) -> None:
        collects = bool(checkers) or observer is not None
        settings = machine.settings() | settings | {"collect": collects} | (waves.settings() if waves else {})
        self.model = Model(library, harts, settings, memory, machine.irqs, waves.path if waves else None)
        self.checks = Checks(checkers)
        self.limit = machine.max_cycles
        self._observer = observer
        self._harts = range(harts)
        # one block is being checked while the other is being filled
        self._blocks = [Block(harts, BLOCK if collects else 1) for _ in range(2)]
        self.model.collect(self._blocks[0])
        self._started = time.perf_counter()

    def advance(self, limit: int, *, drain: bool = False) -> Event:
        """Run to an event or the cycle ``limit``; full blocks are handed over."""
        events = self.model.advance(limit, drain=drain)
        if Event.RECORDS_FULL in events:
            self.hand_over()
        return events

    def hand_over(self) -> None:
        """Give the block to the checks and go on with the other one."""
        block = self._blocks[0]
        hart = int(self.model.status["hart"])
        if self.model.events & _OUTSIDE and block.filled[hart]:
            block.drop_last(hart)
        if self._observer is not None and block.filled[0]:
            self._observer(block.records())
        self.checks.feed(block)
        self._blocks.reverse()
        self.model.collect(self._blocks[0])

    def ended(self, name_of: NameOf) -> Exit | None:
        """The end that the last events mean, if they mean one."""
        events, status = self.model.events, self.model.status
        hart = self.model.harts[int(status["hart"])]
        pc = int(hart["pc"])
        if Event.BAD_FETCH in events:
            return exits.bad_fetch(pc, int(hart["previous_pc"]) if hart["retired"] > 1 else None, name_of)
        if Event.BAD_ACCESS in events:
            mask = int(hart["mask"])
            first = (mask & -mask).bit_length() - 1 if mask else 0
            kind, size = "store" if hart["write"] else "load", mask.bit_count() or WORD_BYTES
            return exits.bad_access(kind, int(hart["address"]) + first, size, pc, name_of)
        if Event.TRAP_LOOP in events:
            return exits.trap_loop(pc, int(hart["cause"]), name_of)
        if Event.ENDLESS_LOOP in events:
            return exits.endless_loop(pc, name_of)
        if Event.STUCK in events:
            text = f"the core has not retired an instruction for {WATCHDOG_CYCLES} cycles"
            return replace(exits.out_of_time(self.model.cycles, "cycles", pc, name_of), text=text)
        if self.model.cycles >= self.limit:
            return exits.out_of_time(self.limit, "cycles", pc, name_of)
        return None

    def result(self, end: Exit, memory: dict[int, NDArray[np.uint8]], name_of: NameOf, cycles: int) -> RunResult:
        """Put the figures together once everything is checked."""
        checks, harts = self.checks, self.model.harts
        if checks.mismatches and end.reason in (Reason.PASS, Reason.DIFFERENCE):
            # where the run has got to meanwhile says nothing
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
            memory=memory,
        )

    def close(self) -> None:
        """Release the model and the thread of the checks."""
        self.checks.close()
        self.model.close()


def run(
    executable: Executable,
    config: CoreConfig,
    machine: Machine | None = None,
    *,
    check: bool = False,
    lockstep: bool = False,
    observer: Observer | None = None,
    account: bool = False,
    output: Callable[[Output], None] | None = None,
    progress: Progress | None = None,
    waves: Waves | None = None,
    library: Path | None = None,
    harts: int = 1,
) -> RunResult:
    """Run a program on the core until it ends.

    Parameters
    ----------
    executable : Executable
        The program.
    config : CoreConfig
        The core.
    machine : Machine or None
        Its surroundings; None: ideal memory and no interrupts.
    check : bool
        Check every retirement: operands, results, memory, next address (fast).
    lockstep : bool
        Compare every retirement with the instruction-set simulator; the run ends at the first difference. One hart.
    observer : callable or None
        Takes the retirements of the first hart.
    account : bool
        Count where the cycles go, over the text of :func:`text_window`.
    output : callable or None
        Takes what the program prints, as it prints.
    progress : callable or None
        Takes the cycle count from time to time.
    waves : Waves or None
        Waveforms to write.
    library : Path or None
        Compiled model to run; None: that of the core.
    harts : int
        Harts of the model; all start at the entry.

    Raises :class:`ToolError` if the model cannot be built.
    """
    machine = machine or Machine()
    library = library or model_library("core", config, trace=waves is not None)
    memory = load_memory(executable, machine.ram)
    checkers: list[Checker] = []
    checked = None
    if check:
        checked = retirement_check(executable, config, machine, library, harts=harts)
        checkers.append(checked)
    if lockstep:
        checkers.append(lockstep_checker(Lockstep(executable, config, hart_id=machine.hart_id)))
    settings = {"boot_addr": executable.entry, "tohost": executable.tohost}
    session = Session(library, harts, settings, memory, machine, waves=waves, checkers=checkers, observer=observer)
    name_of = executable.symbol_at
    try:
        accounts = [session.model.account(hart, *text_window(executable)) for hart in range(harts if account else 0)]
        host = _Host(session, executable, memory, output)
        end = None
        while end is None:
            session.advance(min(session.limit, session.model.cycles + CHUNK_CYCLES))
            end = host.served() or session.ended(name_of)
            if session.checks.mismatches:
                end = exits.difference(int(session.model.harts[0]["pc"]), name_of)
            if progress is not None:
                progress(session.model.cycles)
        session.hand_over()
        session.checks.wait()
        if checked is not None and not session.checks.mismatches and end.reason is Reason.PASS:
            session.checks.note(checked.finish(memory, session.model.harts["retired"].tolist()))
        result = session.result(end, memory, name_of, session.model.cycles)
    finally:
        session.close()
    result.output, result.accounts = bytes(host.printed), accounts
    return result


def retirement_check(
    executable: Executable, config: CoreConfig, machine: Machine, library: Path, *, harts: int = 1
) -> RetirementCheck:
    """The check of every retirement of a program."""
    hosts = [address for address in (executable.tohost, executable.fromhost) if address is not None]
    return RetirementCheck(
        library,
        config,
        load_memory(executable, machine.ram),
        entry=executable.entry,
        host_words=hosts,
        hart_ids=[machine.hart_id + hart for hart in range(harts)],
        name_of=executable.symbol_at,
    )


def text_window(executable: Executable) -> Window:
    """First address and size of what holds the program's functions and its entry."""
    starts = {executable.entry, *(function.address for function in executable.functions)}
    spans = [
        (segment.address, segment.address + segment.size)
        for segment in executable.segments
        if any(segment.address <= start < segment.address + segment.size for start in starts)
    ]
    low, high = min(first for first, _ in spans), max(last for _, last in spans)
    return low, high - low


class _Host:
    """The other end of the program's exit and output channel."""

    def __init__(
        self,
        session: Session,
        executable: Executable,
        memory: dict[int, NDArray[np.uint8]],
        output: Callable[[Output], None] | None,
    ) -> None:
        self._session, self._executable, self._output = session, executable, output
        self._memory = Memory(memory)
        self.printed = bytearray()

    def served(self) -> Exit | None:
        """Serve what the program has written to ``tohost``; the end if that is what it means."""
        model = self._session.model
        if Event.TOHOST not in model.events or model.events & _OUTSIDE:
            return None
        value, hart = int(model.status["value"]), int(model.status["hart"])
        printed = exits.host_call(value, self._memory.read, self._memory.inside)
        if printed is None:
            self._retire_store(hart)
            return exits.reported(value, int(model.harts[hart]["pc"]), self._executable.symbol_at)
        if printed.descriptor == exits.STDOUT:
            self.printed += printed.data
        if self._output is not None:
            self._output(printed)
        self._memory.write(self._executable.tohost, bytes(WORD_BYTES))
        if self._executable.fromhost is not None:
            self._memory.write(self._executable.fromhost, FROMHOST_DONE.to_bytes(WORD_BYTES, "little"))
        return None

    def _retire_store(self, hart: int) -> None:
        """Advance until the store that ends the program, whose request has been granted, has retired as well."""
        model = self._session.model
        retired = int(model.harts[hart]["retired"])
        while int(model.harts[hart]["retired"]) == retired and Event.STUCK not in model.events:
            self._session.advance(model.cycles + 1)


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
    """Run an instruction stream on the back end to its end, or to the first error after which it cannot go on.

    Parameters
    ----------
    words, pcs : uint32[N]
        The text: 32-bit words and their addresses.
    blocks : iterable of int arrays
        Positions in the text of the executed instructions, in consecutive pieces.
    config : CoreConfig
        The core.
    machine : Machine or None
        Its surroundings; None: ideal memory.
    memory : dict of int to numpy array of uint8
        Memory by base address, in whole words; used in place.
    sparse : bool
        Whether every other address is memory too, first zero.
    pokes : array of POKE or None
        Words that change in memory at stream positions, ascending; such memory cannot be checked.
    check, observer, account, waves, library
        As for :func:`run`; the account is over the text.
    progress : callable or None
        Takes the number of instructions of each block.
    """
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
