"""Runs instruction streams on the Verilated back end and checks every retirement.

The compiled driver runs one block while numpy replays the records of the block before it, so that checking and
simulation share two processor cores.
"""

import ctypes
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.harness import abi
from xpulpnn_sim.harness.check import KEPT, BlockChecker, Mismatch
from xpulpnn_sim.harness.statics import ProgramText, static_table

WATCHDOG_CYCLES = 10_000
"""Cycles without progress after which a run is given up; the longest instruction takes 35 plus memory latency."""

NEIGHBOURS = 4
"""Instructions shown before and after a mismatch."""

Values = dict[str, NDArray[np.uint32]]
Observer = Callable[[int, Values], None]

_WORD_BYTES = 4
_PROBABILITY_SCALE = 1 << 32
_ALL_ONES = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class BusTiming:
    """Behaviour of the data memory.

    Parameters
    ----------
    grant_stalls : float
        Probability that the bus withholds its grant in a cycle, 0 <= P < 1.
    response_latency : int
        A response comes 1 to this many cycles after the grant.
    seed : int
        Of the random numbers behind both.
    """

    grant_stalls: float = 0.0
    response_latency: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject what is no probability or no latency."""
        if not 0 <= self.grant_stalls < 1:
            raise InputError(
                f"--grant-stalls must be a probability from 0 up to, not including, 1, not {self.grant_stalls}"
            )
        if self.response_latency < 1:
            raise InputError(f"--response-latency must be at least 1, not {self.response_latency}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """Waveforms of a part of a run, in FST format.

    Parameters
    ----------
    path : Path
        The file.
    first, last : int
        Clock cycles, or instructions.
    by_instruction : bool
        Whether ``first`` and ``last`` count instructions of the stream.
    """

    path: Path
    first: int
    last: int
    by_instruction: bool = False


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a run did.

    Members
    -------
    instructions, cycles : int
        Instructions accepted and clock cycles from the first one offered to the last one retired.
    executions, cycles_at : int array
        Per static instruction: how often it ran, and the cycles in which it was the last one accepted.
    stalls : dict
        Cycles without an accepted instruction by cause.
    mismatch_count : int
        Values that differ from the reference.
    mismatches : list of Mismatch
        The first of them.
    neighbours : dict
        For each mismatch's position the static positions around it, as (position, index) pairs.
    wall_s : float
        Seconds spent running, without compiling.
    """

    instructions: int = 0
    cycles: int = 0
    executions: NDArray[np.int64]
    cycles_at: NDArray[np.uint64]
    stalls: dict[str, int] = field(default_factory=dict[str, int])
    mismatch_count: int = 0
    mismatches: list[Mismatch] = field(default_factory=list[Mismatch])
    neighbours: dict[int, list[tuple[int, int]]] = field(default_factory=dict[int, list[tuple[int, int]]])
    wall_s: float = 0.0


class Engine:
    """One instance of the model with its memory, ready to run one stream. Use it as a context manager.

    Parameters
    ----------
    library : Path
        Compiled model, from :func:`~xpulpnn_sim.harness.build.build_model`.
    program : ProgramText
        Static text of the stream.
    memory : sequence of (int, uint8 array)
        Base address and content of each memory window. The design reads and writes the arrays in place; base and size
        must be multiples of 4.
    sparse : bool
        Whether every other address is memory too, first zero.
    checked : bool
        Whether every retirement is checked; needs a model with the retirement port.
    timing : BusTiming
        Behaviour of the memory.
    waves : Waves or None
        Waveforms to write; needs a model built with ``trace=True``.
    """

    def __init__(
        self,
        library: Path,
        program: ProgramText,
        memory: Sequence[tuple[int, NDArray[np.uint8]]] = (),
        *,
        sparse: bool = False,
        checked: bool = True,
        timing: BusTiming | None = None,
        waves: Waves | None = None,
    ) -> None:
        timing = timing or BusTiming()
        for base, content in memory:
            if base % _WORD_BYTES or content.nbytes % _WORD_BYTES:
                raise InputError(f"memory window must be whole words, not {content.nbytes} bytes at 0x{base:08x}")
        self.table = static_table(program)
        self.shadow = [(base, content.copy()) for base, content in memory]
        self._program, self._memory, self._checked = program, list(memory), checked
        self._checker = BlockChecker(program, self.table)
        self._replay, self._errors_seen = True, 0
        self._model = abi.load(library)
        settings = abi.Settings(
            grant_stall=int(timing.grant_stalls * _PROBABILITY_SCALE),
            response_latency=timing.response_latency,
            seed=timing.seed & _ALL_ONES,
            sparse=sparse,
            dump_instructions=waves is not None and waves.by_instruction,
            watchdog=WATCHDOG_CYCLES,
            dump_from=waves.first if waves else 0,
            dump_to=waves.last if waves else 0,
        )
        self._handle = self._model.cosim_create(ctypes.byref(settings))
        self._model.cosim_set_program(self._handle, self.table.ctypes.data, len(self.table))
        for (base, content), (_, shadow) in zip(self._memory, self.shadow, strict=True):
            self._model.cosim_add_memory(self._handle, base, content.nbytes, content.ctypes.data, shadow.ctypes.data)
        if waves and not self._model.cosim_open_wave(self._handle, str(waves.path).encode()):
            raise ToolError(f"waves must be a writable file of a model built for waveforms, not {waves.path}")

    def __enter__(self) -> "Engine":
        """The engine itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._model.cosim_destroy(self._handle)

    def add_pokes(self, pokes: NDArray[Any]) -> None:
        """Add words that change in memory at given stream positions: an array of :data:`abi.POKE`, ascending."""
        self._model.cosim_add_pokes(self._handle, pokes.ctypes.data, len(pokes))

    def run(
        self,
        blocks: Iterable[NDArray[Any]],
        *,
        progress: Callable[[int], None] | None = None,
        observe: Observer | None = None,
        replay: bool = True,
    ) -> Outcome:
        """Run a stream to its end or to the first error after which it cannot go on.

        Parameters
        ----------
        blocks : iterable of int arrays
            Positions in the program of the executed instructions, in consecutive pieces.
        progress : callable
            Told the number of instructions after every block.
        observe : callable
            Given the position of the first record and the record arrays of every block, in order.
        replay : bool
            Whether results are compared with the reference models; the sequential state always is.
        """
        self._replay = replay
        outcome = Outcome(
            executions=np.zeros(len(self.table), np.int64), cycles_at=np.zeros(len(self.table), np.uint64)
        )
        begin = time.perf_counter()
        with ThreadPoolExecutor(max_workers=1) as simulator:
            self._pipeline(simulator, blocks, outcome, progress, observe)
        self._finish(outcome)
        outcome.wall_s = time.perf_counter() - begin
        return outcome

    def _pipeline(
        self,
        simulator: ThreadPoolExecutor,
        blocks: Iterable[NDArray[Any]],
        outcome: Outcome,
        progress: Callable[[int], None] | None,
        observe: Observer | None,
    ) -> None:
        """Overlap simulation of a block with the check of the one before."""
        waiting = np.zeros(0, np.uint32)  # accepted but not retired
        retired = 0
        unchecked: tuple[NDArray[np.uint32], Values, int] | None = None
        buffers = [abi.RecordBuffer(0), abi.RecordBuffer(0)]
        for number, (block, ahead) in enumerate(_with_lookahead(blocks)):
            room = len(block) + abi.IN_FLIGHT if self._checked else 0
            if buffers[number % 2].capacity < room:
                buffers[number % 2] = abi.RecordBuffer(room)
            buffer = buffers[number % 2]
            indices = np.concatenate((block, ahead))
            running: Future[int] = simulator.submit(
                self._model.cosim_run, self._handle, indices.ctypes.data, len(block), len(ahead), buffer.pointers
            )
            outcome.executions += np.bincount(block, minlength=len(self.table))
            if unchecked is not None:
                self._check(outcome, *unchecked, observe)
                unchecked = None
            written = running.result()
            fatal = self._collect_errors(outcome, np.concatenate((waiting, indices)), retired, buffer, written)
            if self._checked:
                sequence = np.concatenate((waiting, indices))
                unchecked = sequence, {name: array[:written] for name, array in buffer.fields.items()}, retired
                waiting = sequence[written : len(sequence) - len(ahead)]
                retired += written
            else:
                retired += len(block)
            if progress is not None:
                progress(len(block))
            if fatal:
                break
        if unchecked is not None:
            self._check(outcome, *unchecked, observe)
        if self._checked and len(waiting) and not outcome.mismatch_count:
            position = retired
            self._note(
                outcome, Mismatch(position, int(waiting[0]), "instructions never retired", 0, len(waiting), {}), 1
            )
            self._surround(outcome, [position], waiting, position)

    def _check(
        self,
        outcome: Outcome,
        sequence: NDArray[np.uint32],
        records: Values,
        position: int,
        observe: Observer | None,
    ) -> None:
        if observe is not None:
            observe(position, records)
        if not self._replay:
            return
        total, kept = self._checker.check(sequence, records, position)
        for mismatch in kept:
            self._note(outcome, mismatch, 0)
        outcome.mismatch_count += total
        self._surround(outcome, [mismatch.position for mismatch in kept], sequence, position)

    def _collect_errors(
        self,
        outcome: Outcome,
        sequence: NDArray[np.uint32],
        first: int,
        buffer: abi.RecordBuffer,
        written: int,
    ) -> bool:
        """Turn new errors of the compiled driver into mismatches; whether the run was given up."""
        errors, fatal = np.zeros(abi.KEPT_ERRORS, abi.ERROR), ctypes.c_uint32()
        count = self._model.cosim_errors(self._handle, errors.ctypes.data, ctypes.byref(fatal))
        for error in errors[self._errors_seen : count]:
            position = int(error["position"])
            offset = min(max(position - first, 0), len(sequence) - 1)
            operands = {}
            if 0 <= position - first < written:
                operands = {name: int(array[position - first]) for name, array in buffer.fields.items()}
            what = abi.KIND_TEXT[abi.Kind(int(error["kind"]))]
            mismatch = Mismatch(
                position, int(sequence[offset]), what, int(error["expected"]), int(error["got"]), operands
            )
            self._note(outcome, mismatch, 0)
            self._surround(outcome, [position], sequence, first)
        self._errors_seen = count
        return bool(fatal.value)

    def _note(self, outcome: Outcome, mismatch: Mismatch, counted: int) -> None:
        outcome.mismatch_count += counted
        if len(outcome.mismatches) < KEPT:
            outcome.mismatches.append(mismatch)

    def _surround(self, outcome: Outcome, positions: list[int], sequence: NDArray[np.uint32], first: int) -> None:
        for position in positions:
            low, high = max(position - first - NEIGHBOURS, 0), position - first + NEIGHBOURS + 1
            around = sequence[low:high].tolist()
            outcome.neighbours[position] = [(first + low + i, index) for i, index in enumerate(around)]

    def _finish(self, outcome: Outcome) -> None:
        """Fetch the counters; compare the memory the bus wrote with the one the retirements describe."""
        stats = abi.Stats()
        self._model.cosim_stats(self._handle, ctypes.byref(stats), outcome.cycles_at.ctypes.data)
        outcome.instructions, outcome.cycles = stats.accepted, stats.cycles
        outcome.stalls = dict(zip(abi.STALLS, stats.stalls, strict=True))
        outcome.mismatch_count += stats.mismatches
        if not self._checked:
            return
        for (base, content), (_, shadow) in zip(self._memory, self.shadow, strict=True):
            different = np.flatnonzero(content.view(np.uint32) != shadow.view(np.uint32))
            for word in different[: KEPT - len(outcome.mismatches)].tolist():
                what = f"memory word at 0x{base + _WORD_BYTES * word:08x} after the run"
                want, got = int(shadow.view(np.uint32)[word]), int(content.view(np.uint32)[word])
                self._note(outcome, Mismatch(stats.accepted, 0, what, want, got, {}), 0)
            outcome.mismatch_count += len(different)
        outcome.mismatches.sort(key=lambda mismatch: mismatch.position)


def _with_lookahead(blocks: Iterable[NDArray[Any]]) -> Iterable[tuple[NDArray[np.uint32], NDArray[np.uint32]]]:
    """Each non-empty block with the first element of the next one (an empty array at the end)."""
    held: NDArray[np.uint32] | None = None
    for block in blocks:
        if not len(block):
            continue
        converted = abi.contiguous(block)
        if held is not None:
            yield held, converted[:1]
        held = converted
    if held is not None:
        yield held, np.zeros(0, np.uint32)
