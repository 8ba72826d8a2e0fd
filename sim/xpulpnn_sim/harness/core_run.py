"""Runs programs on the whole core, compiled, with everything around it: memory, interrupts, exit channel, checks."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim import exits
from xpulpnn_sim.elf import Executable, Window, windows
from xpulpnn_sim.exits import FROMHOST_DONE, Exit, Output, Reason
from xpulpnn_sim.harness.core_abi import CoreModel, CoreSettings, Event, record_buffer
from xpulpnn_sim.harness.core_checks import Checker, Checks, comparison
from xpulpnn_sim.harness.models import core_library
from xpulpnn_sim.iss.lockstep import Lockstep
from xpulpnn_sim.retirement import Records

BLOCK = 1 << 16
"""Retirements handed over at a time."""

CHUNK_CYCLES = 1 << 20
"""Cycles between two looks at the progress when nothing is recorded."""

WATCHDOG_CYCLES = 100_000
"""Cycles without a retirement after which the core is taken to hang."""

WORD_BYTES = 4
_FULL_SCALE = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What surrounds the core.

    Parameters
    ----------
    ram : tuple of (int, int)
        Base and size of memory beside the program's segments.
    hart_id : int
        Value of mhartid.
    grant_stalls, fetch_grant_stalls : float
        Probability in [0, 1) that the data or instruction memory withholds a grant in a cycle.
    response_latency, fetch_latency : int
        Responses take 1 to this many cycles, at random.
    irq_rate : float
        Probability per cycle that one of the usable interrupt lines rises. A line falls when its interrupt is taken.
    irqs : tuple of (int, int)
        Cycle and number of lines that rise.
    seed : int
        Of all random choices.
    max_cycles : int
        The run is given up after so many.
    """

    ram: tuple[Window, ...] = ()
    hart_id: int = 0
    grant_stalls: float = 0.0
    response_latency: int = 1
    fetch_grant_stalls: float = 0.0
    fetch_latency: int = 1
    irq_rate: float = 0.0
    irqs: tuple[tuple[int, int], ...] = ()
    seed: int = 0
    max_cycles: int = 100_000_000

    def __post_init__(self) -> None:
        for name in ("grant_stalls", "fetch_grant_stalls", "irq_rate"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} must be a probability of at least 0 and below 1, not {getattr(self, name)}")
        for name in ("response_latency", "fetch_latency", "max_cycles"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")

    def settings(self, executable: Executable, *, collect: bool, window: tuple[int, int]) -> CoreSettings:
        """The same for the compiled loop."""
        return CoreSettings(
            grant_stall=int(self.grant_stalls * _FULL_SCALE),
            response_latency=self.response_latency,
            fetch_grant_stall=int(self.fetch_grant_stalls * _FULL_SCALE),
            fetch_latency=self.fetch_latency,
            irq_rate=int(self.irq_rate * _FULL_SCALE),
            seed=self.seed & (_FULL_SCALE - 1),
            boot_addr=executable.entry,
            hart_id=self.hart_id,
            tohost=executable.tohost,
            collect=collect,
            watchdog=WATCHDOG_CYCLES,
            dump_from=window[0],
            dump_to=window[1],
        )


Observer = Callable[[Records], None]
"""Takes blocks of retirements in program order; valid only during the call."""


@dataclass(slots=True)
class RunResult:
    """What a run did.

    Members
    -------
    exit : Exit
        How it ended.
    cycles, instructions, interrupts : int
        Clock cycles from the end of reset, instructions retired (trapping ones included), interrupts taken.
    wall_s : float
        Seconds of simulation, without compiling the model.
    mismatches : int
        Differences found by ``check`` or ``lockstep``.
    difference : str or None
        The first of them, for people.
    output : bytes
        What the program printed to its standard output.
    memory : dict of int to numpy array of uint8
        Final memory by base address.
    """

    exit: Exit
    cycles: int = 0
    instructions: int = 0
    interrupts: int = 0
    wall_s: float = 0.0
    mismatches: int = 0
    difference: str | None = None
    output: bytes = b""
    memory: dict[int, NDArray[np.uint8]] = field(default_factory=dict[int, NDArray[np.uint8]])

    @property
    def sim_cycles_per_s(self) -> float:
        """Simulation speed."""
        return self.cycles / self.wall_s if self.wall_s else 0.0

    def read(self, address: int, size: int) -> bytes:
        """``size`` bytes of the final memory; raises :class:`InputError` outside it."""
        return _Memory(self.memory).read(address, size)


class _Memory:
    """Byte access to the windows of a run."""

    def __init__(self, pieces: dict[int, NDArray[np.uint8]]) -> None:
        self._pieces = pieces

    def _find(self, address: int, size: int) -> NDArray[np.uint8] | None:
        for base, piece in self._pieces.items():
            if base <= address and address + size <= base + piece.size:
                return piece[address - base : address - base + size]
        return None

    def inside(self, address: int, size: int) -> bool:
        return self._find(address, size) is not None

    def read(self, address: int, size: int) -> bytes:
        piece = self._find(address, size)
        if piece is None:
            raise InputError(f"address must be in memory, not 0x{address:08x} with {size} bytes")
        return piece.tobytes()

    def write(self, address: int, content: bytes) -> None:
        piece = self._find(address, len(content))
        assert piece is not None
        piece[:] = np.frombuffer(content, np.uint8)


def load_memory(executable: Executable, ram: Sequence[Window]) -> dict[int, NDArray[np.uint8]]:
    """The memory of a run with the program in it, by base address."""
    pieces = {base: np.zeros(size, np.uint8) for base, size in windows(executable, ram)}
    memory = _Memory(pieces)
    for segment in executable.segments:
        if segment.data:
            memory.write(segment.address, segment.data)
    return pieces


def run(
    executable: Executable,
    config: CoreConfig,
    machine: Machine | None = None,
    *,
    check: bool = False,
    lockstep: bool = False,
    observer: Observer | None = None,
    output: Callable[[Output], None] | None = None,
    progress: Callable[[int], None] | None = None,
    waves: Path | None = None,
    wave_window: tuple[int, int] = (0, 2**64 - 1),
    library: Path | None = None,
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
        Compare every retirement with the instruction-set simulator; the run ends at the first difference.
    observer : callable or None
        Takes the retirements.
    output : callable or None
        Takes what the program prints, as it prints.
    progress : callable or None
        Takes the cycle count from time to time.
    waves : Path or None
        Waveform to write (FST), of the cycles in ``wave_window``.
    library : Path or None
        Compiled model to run, from :func:`~xpulpnn_sim.harness.build.build_core`; None: that of the RTL.

    Raises :class:`ToolError` if the model cannot be built.
    """
    machine = machine or Machine()
    library = library or core_library(config, trace=waves is not None)
    pieces = load_memory(executable, machine.ram)
    checkers: list[Checker] = []
    if check:
        from xpulpnn_sim.harness.core_check import CoreCheck

        initial = {base: piece.copy() for base, piece in pieces.items()}
        checkers.append(CoreCheck(executable, config, initial, library, hart_id=machine.hart_id))
    if lockstep:
        checkers.append(comparison(Lockstep(executable, config, hart_id=machine.hart_id)))
    collect = bool(checkers) or observer is not None
    model = CoreModel(
        library, machine.settings(executable, collect=collect, window=wave_window), pieces, machine.irqs, waves
    )
    checks = Checks(checkers)
    session = _Session(model, executable, machine, pieces, checks, observer, output, progress, collect=collect)
    started = time.perf_counter()
    try:
        end = session.run()
        checks.finish()
    finally:
        model.close()
        checks.close()
    if checks.mismatches and end.ok:
        end = replace(exits.difference(end.pc, executable.symbol_at), text=f"{checks.mismatches} differences")
    return RunResult(
        exit=end,
        cycles=model.status.cycles,
        instructions=model.status.retired,
        interrupts=model.status.interrupts,
        wall_s=time.perf_counter() - started,
        mismatches=checks.mismatches,
        difference=checks.first,
        output=bytes(session.printed),
        memory=pieces,
    )


class _Session:
    """The run loop: advances the model, serves its events, hands records on."""

    def __init__(
        self,
        model: CoreModel,
        executable: Executable,
        machine: Machine,
        pieces: dict[int, NDArray[np.uint8]],
        checks: Checks,
        observer: Observer | None,
        output: Callable[[Output], None] | None,
        progress: Callable[[int], None] | None,
        *,
        collect: bool,
    ) -> None:
        self._model, self._executable, self._limit = model, executable, machine.max_cycles
        self._memory, self._checks = _Memory(pieces), checks
        self._observer, self._output, self._progress = observer, output, progress
        # one buffer is being checked while the other is being filled
        size = BLOCK if collect else 1
        self._buffers = [(record_buffer(size), np.zeros(size, np.uint32)) for _ in range(2)]
        self._filled = 0
        self.printed = bytearray()

    def run(self) -> Exit:
        """Advance until the program ends or a check fails."""
        status = self._model.status
        end = None
        while end is None:
            self._advance(min(self._limit, status.cycles + CHUNK_CYCLES))
            end = self._served(self._model.events)
            if end is not None or self._is_full:
                self._hand_over(end)
            if self._checks.mismatches:
                return exits.difference(status.pc, self._executable.symbol_at)
            if self._progress is not None:
                self._progress(status.cycles)
        return end

    def _advance(self, limit: int) -> None:
        records, lines = self._buffers[0]
        self._filled += self._model.advance(limit, records[self._filled :], lines[self._filled :])

    @property
    def _is_full(self) -> bool:
        return self._filled == len(self._buffers[0][0])

    def _hand_over(self, end: Exit | None = None) -> None:
        records, lines = (array[: self._filled] for array in self._buffers[0])
        if self._observer is not None and len(records):
            self._observer(records)
        # no reference can follow an instruction outside memory
        outside = end is not None and end.reason in (Reason.BAD_ACCESS, Reason.BAD_FETCH)
        kept = len(records) - outside
        self._checks.feed(records[:kept], lines[:kept])
        self._buffers.reverse()
        self._filled = 0

    def _served(self, events: Event) -> Exit | None:
        """The end that the events mean, if they mean one."""
        status, name_of = self._model.status, self._executable.symbol_at
        if Event.BAD_FETCH in events:
            previous = status.previous_pc if status.retired > 1 else None
            return exits.bad_fetch(status.pc, previous, name_of)
        if Event.BAD_ACCESS in events:
            first = (status.mask & -status.mask).bit_length() - 1 if status.mask else 0
            kind, size = "store" if status.write else "load", status.mask.bit_count() or WORD_BYTES
            return exits.bad_access(kind, status.address + first, size, status.pc, name_of)
        if Event.TOHOST in events and (end := self._told(status.value)) is not None:
            return end
        if Event.TRAP_LOOP in events:
            return exits.trap_loop(status.pc, status.cause, name_of)
        if Event.ENDLESS_LOOP in events:
            return exits.endless_loop(status.pc, name_of)
        if Event.STUCK in events:
            text = f"the core has not retired an instruction for {WATCHDOG_CYCLES} cycles"
            return replace(exits.out_of_time(status.cycles, "cycles", status.pc, name_of), text=text)
        if status.cycles >= self._limit:
            return exits.out_of_time(self._limit, "cycles", status.pc, name_of)
        return None

    def _retire_store(self) -> None:
        """Advance until the store that ends the program, whose request has been granted, has retired as well."""
        status, retired = self._model.status, self._model.status.retired
        if self._is_full:
            self._hand_over()
        while status.retired == retired and Event.STUCK not in self._model.events:
            self._advance(status.cycles + 1)

    def _told(self, value: int) -> Exit | None:
        """Serve what the program wrote to ``tohost``."""
        printed = exits.host_call(value, self._memory.read, self._memory.inside)
        if printed is None:
            self._retire_store()
            return exits.reported(value, self._model.status.pc, self._executable.symbol_at)
        if printed.descriptor == exits.STDOUT:
            self.printed += printed.data
        if self._output is not None:
            self._output(printed)
        self._memory.write(self._executable.tohost, bytes(WORD_BYTES))
        if self._executable.fromhost is not None:
            self._memory.write(self._executable.fromhost, FROMHOST_DONE.to_bytes(WORD_BYTES, "little"))
        return None
