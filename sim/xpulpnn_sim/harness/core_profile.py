"""Where the cycles of a program go: stalls by cause and cycles by instruction, from its retirements.

An instruction retires one cycle after the one before it unless something makes it wait. What lies between two
retirements beyond that cycle is explained by the two instructions and the documented costs of the core; what the costs
do not explain is waiting for memory. Work is done on whole blocks, and on the retirements that were late only.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sim.elf import Executable
from xpulpnn_sim.harness.abi import Property
from xpulpnn_sim.harness.core_statics import STATIC, Kind, describe
from xpulpnn_sim.retirement import Records
from xpulpnn_sim.trace import text_of


class Cause(StrEnum):
    """Why an instruction retired late."""

    LOAD_USE = "load_use"
    BRANCH = "branch"
    JUMP = "jump"
    JALR = "jalr"
    TRAP = "trap"
    CSR = "csr"
    LOOP = "loop"
    MISALIGNED = "misaligned"
    MULTICYCLE = "multicycle"
    SLEEP = "sleep"
    MEMORY = "memory"
    FETCH = "fetch"
    OTHER = "other"


MEANING = {
    Cause.LOAD_USE: "value loaded by the instruction before",
    Cause.BRANCH: "taken branch",
    Cause.JUMP: "jal, jalr, fence.i",
    Cause.JALR: "jalr, its base still being written",
    Cause.TRAP: "exception, interrupt, mret",
    Cause.CSR: "instruction behind a CSR write",
    Cause.LOOP: "hardware loop of one or two instructions",
    Cause.MISALIGNED: "second half of an access across words",
    Cause.MULTICYCLE: "multiplication high, division",
    Cause.SLEEP: "wfi",
    Cause.MEMORY: "data memory",
    Cause.FETCH: "instruction memory, reset",
    Cause.OTHER: "unexplained",
}
"""What each cause stands for."""

_CAUSES = tuple(Cause)

_REDIRECT, _BRANCH = 1, 2
"""Cycles lost to a jump resolved in ID and to a branch resolved in EX."""
_HIGH_WORD = 4
"""Cycles of mulh* beyond the first."""
_SHORTEST_DIVISION = 2
_WORD_BITS, _WORD_BYTES = 32, 4
_INTERRUPT_ENTRY = 3
"""Cycles of taking an interrupt: the pipeline drains, fetching restarts."""
_SHORT_LOOP = 2
"""Most cycles lost at the end of a hardware loop whose body is too short to be foreseen."""
_DRAIN = 2
"""Most cycles that fence.i waits for what is older."""
_LENGTH_MASK = 0b11

_HISTORY = 2
"""Retirements before a block that its first instructions may wait for."""
_FIELDS = ("cycle", "pc_rdata", "pc_wdata", "insn", "trap", "intr", "mem_addr", "rs2_rdata")


class _Numbers:
    """Numbers distinct values in the order of their first appearance."""

    def __init__(self) -> None:
        self._sorted = np.zeros(0, np.uint64)
        self._numbers = np.zeros(0, np.int64)
        self.values = np.zeros(0, np.uint64)

    def of(self, values: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The number of each of ``values``."""
        place = self._place(values)
        missing = self._sorted[place] != values if self._sorted.size else np.ones(values.size, np.bool_)
        if missing.any():
            self.values = np.concatenate([self.values, np.unique(values[missing])])
            self._numbers = np.argsort(self.values)
            self._sorted = self.values[self._numbers]
            place = self._place(values)
        return self._numbers[place]

    def _place(self, values: NDArray[np.uint64]) -> NDArray[np.int64]:
        return np.minimum(np.searchsorted(self._sorted, values), max(self._sorted.size - 1, 0))


class _Late:
    """The late retirements of a block: what each may be explained by, and the cycles still to explain."""

    def __init__(self, lost: NDArray[np.int64], sink: NDArray[np.int64], charged: NDArray[np.int64]) -> None:
        self._left, self._sink, self._numbers = lost, sink, charged

    def take(
        self,
        cause: Cause,
        where: NDArray[np.bool_],
        most: NDArray[np.int64] | int | None = None,
        *,
        before: bool = False,
    ) -> None:
        """Explain up to ``most`` cycles (None: all) ``where`` by ``cause``, charged to the instruction ``before``."""
        taken = np.where(where, self._left if most is None else np.minimum(self._left, most), 0)
        self._left -= taken
        found = np.flatnonzero(taken)
        if found.size:
            column = self._sink[:, _CAUSES.index(cause)]
            np.add.at(column, self._numbers[_HISTORY - before][found], taken[found])


class CoreProfile:
    """Counts cycles; an observer of :func:`xpulpnn_sim.harness.core_run.run`.

    One cycle for each retirement and all stalls add up to the cycle of the last retirement.

    Parameters
    ----------
    data_waits, fetch_waits : bool
        Whether the data or instruction memory ever makes the core wait.

    Members
    -------
    cycles, instructions : int
        Up to the last retirement seen.
    """

    def __init__(self, *, data_waits: bool, fetch_waits: bool) -> None:
        self._data_waits, self._fetch_waits = data_waits, fetch_waits
        self._places = _Numbers()
        self._pcs = np.zeros(0, np.uint32)
        self._static = np.zeros(0, STATIC)
        self._counts = np.zeros(0, np.int64)
        self._stalls = np.zeros((0, len(_CAUSES)), np.int64)
        self._loop_ends = np.zeros(0, np.uint32)
        self._before: Records | None = None
        self.cycles = self.instructions = 0

    def __call__(self, records: Records) -> None:
        """Add one block."""
        if not len(records):
            return
        if self._before is None:
            # what came before the program: nothing that could make it wait
            self._before = np.zeros(_HISTORY, records.dtype)
            self._before["pc_rdata"] = records["pc_rdata"][0]
            self._before["insn"] = records["insn"][0]
            self._before["trap"] = 1
        columns = {name: np.concatenate([self._before[name], records[name]]) for name in _FIELDS}
        self._before = records[-_HISTORY:].copy() if len(records) >= _HISTORY else _joined(self._before, records)
        number = self._numbered(columns["pc_rdata"], columns["insn"])
        self._counts += np.bincount(number[_HISTORY:], minlength=self._counts.size)
        first = not self.instructions
        self.instructions += len(records)
        self.cycles = int(columns["cycle"][-1])
        lost = np.diff(columns["cycle"][_HISTORY - 1 :].astype(np.int64)) - 1
        if first:
            self._stalls[number[_HISTORY], _CAUSES.index(Cause.FETCH)] += lost[0]
            lost[0] = 0
        late = np.flatnonzero(lost)
        if late.size:
            self._explain(columns, number, late + _HISTORY, lost[late])

    def _numbered(self, pcs: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Number of the static instruction, which is an address and a word, of each retirement."""
        known = self._places.values.size
        number = self._places.of(pcs.astype(np.uint64) << np.uint64(_WORD_BITS) | words.astype(np.uint64))
        new = self._places.values[known:]
        if new.size:
            self._pcs = (self._places.values >> _WORD_BITS).astype(np.uint32)
            self._static = np.concatenate([self._static, describe(new.astype(np.uint32))])
            self._counts = np.concatenate([self._counts, np.zeros(new.size, np.int64)])
            self._stalls = np.concatenate([self._stalls, np.zeros((new.size, len(_CAUSES)), np.int64)])
            reach = self._static["loop_reach"].astype(np.uint32)
            self._loop_ends = np.unique((self._pcs + reach)[reach != 0])
        return number

    def _explain(
        self,
        columns: Mapping[str, NDArray[Any]],
        number: NDArray[np.int64],
        late: NDArray[np.int64],
        lost: NDArray[np.int64],
    ) -> None:
        """Share out the ``lost`` cycles of the retirements at ``late`` among the causes."""
        numbers = [number[late - distance] for distance in (2, 1, 0)]
        earlier, previous, this = (self._static[numbers[i]] for i in range(3))
        pc, word = columns["pc_rdata"][late], columns["insn"][late]
        came_from = columns["pc_rdata"][late - 1]
        jumped = columns["pc_wdata"][late - 1] != came_from + previous["length"]
        trapped, interrupted = columns["trap"][late - 1] != 0, columns["intr"][late] != 0
        # a 32-bit instruction across words takes two fetches
        landing = ((pc % _WORD_BYTES != 0) & ((word & _LENGTH_MASK) == _LENGTH_MASK)).astype(np.int64)
        before = previous["properties"]
        kind, kind_before = this["kind"], previous["kind"]
        share = _Late(lost, self._stalls, np.stack(numbers))

        slept = (kind_before == Kind.WFI) & ~trapped
        share.take(Cause.TRAP, interrupted, np.where(slept, _INTERRUPT_ENTRY, lost))
        share.take(Cause.SLEEP, slept, before=True)
        share.take(Cause.TRAP, trapped | (kind_before == Kind.MRET), _REDIRECT + landing, before=True)
        branches = (before & Property.BRANCHES) != 0
        jumps = ((before & Property.JUMPS) != 0) | (kind_before == Kind.FENCE_I)
        share.take(Cause.BRANCH, branches & jumped, _BRANCH + landing, before=True)
        share.take(Cause.JUMP, jumps & ~trapped, _REDIRECT + landing, before=True)
        share.take(Cause.JUMP, kind == Kind.FENCE_I, _DRAIN)
        share.take(Cause.SLEEP, kind == Kind.WFI, _DRAIN)
        share.take(Cause.CSR, kind_before == Kind.CSR_WRITE, 1, before=True)
        share.take(Cause.JALR, kind == Kind.JALR, _base_wait(earlier, previous, this))
        share.take(Cause.LOAD_USE, _uses_loaded(previous, this), 1)
        # with a slow instruction memory going back is waiting for it
        ends_loop = np.isin(came_from, self._loop_ends) & ~branches & ~jumps & (not self._fetch_waits)
        share.take(Cause.LOOP, ends_loop, _SHORT_LOOP + landing, before=True)
        accesses = this["access"] != 0
        crosses = (columns["mem_addr"][late] & (_WORD_BYTES - 1)) + this["access"] > _WORD_BYTES
        share.take(Cause.MISALIGNED, accesses & crosses, 1)
        share.take(Cause.MULTICYCLE, *_multicycle(this, columns["rs2_rdata"][late]))
        share.take(Cause.MEMORY, accesses & self._data_waits)
        share.take(Cause.FETCH, np.full(late.size, self._fetch_waits))
        share.take(Cause.OTHER, np.ones(late.size, np.bool_))

    @property
    def stalls(self) -> dict[str, int]:
        """Cycles lost by cause."""
        return {cause.value: int(total) for cause, total in zip(_CAUSES, self._stalls.sum(axis=0), strict=True)}

    def by_instruction(self, executable: Executable) -> Iterator[dict[str, Any]]:
        """Each executed instruction by address, with its cycles; redirects are charged to what caused them."""
        for number in np.argsort(self._places.values).tolist():
            pc, raw = int(self._pcs[number]), int(self._static["raw"][number])
            row = self._row(int(self._counts[number]), self._stalls[number])
            yield {"pc": pc, "symbol": executable.symbol_at(pc), "text": text_of(raw, pc)} | row

    def by_function(self, executable: Executable, outside: str) -> list[dict[str, Any]]:
        """Functions with their cycles, the largest first; code of no function is called ``outside``."""
        members: dict[tuple[str, int | None], list[int]] = {}
        for number, pc in enumerate(self._pcs.tolist()):
            function = executable.function_at(pc)
            key = (outside, None) if function is None else (function.name, function.address)
            members.setdefault(key, []).append(number)
        rows = [
            {"symbol": name, "address": address}
            | self._row(int(self._counts[numbers].sum()), self._stalls[numbers].sum(axis=0))
            for (name, address), numbers in members.items()
        ]
        return sorted(rows, key=lambda row: (-row["cycles"], row["symbol"]))

    def _row(self, count: int, stalls: NDArray[np.int64]) -> dict[str, Any]:
        cycles = count + int(stalls.sum())
        found = {cause.value: lost for cause, lost in zip(_CAUSES, stalls.tolist(), strict=True) if lost}
        return {
            "cycles": cycles,
            "share": round(cycles / max(self.cycles, 1), 4),
            "instructions": count,
            "cpi": round(cycles / max(count, 1), 3),
            "stalls": found,
        }


def _joined(before: Records, records: Records) -> Records:
    return np.concatenate([before, records])[-_HISTORY:]


def _writes(static: NDArray[Any], register: NDArray[np.uint8], *, late: bool) -> NDArray[np.bool_]:
    """Whether ``register`` is written: with the end of WB if ``late``, else with the end of EX."""
    flags = static["properties"]
    loads = (flags & Property.LOADS) != 0
    reloads = (flags & Property.WRITES_NN) != 0
    rd, base = (flags & Property.WRITES_RD) != 0, (flags & Property.WRITES_BASE) != 0
    if late:
        # a Mac&Load writes its base from WB, its sum from EX and the loaded word to no register; a sum in the
        # base register itself takes its place
        rd &= loads & ~reloads
        base &= reloads & (static["rs1"] != static["rd"])
    else:
        rd &= ~loads | reloads
        base &= ~reloads
    return (register != 0) & ((rd & (static["rd"] == register)) | (base & (static["rs1"] == register)))


def _base_wait(earlier: NDArray[Any], previous: NDArray[Any], this: NDArray[Any]) -> NDArray[np.int64]:
    """Cycles a jalr waits for its base: until it is in the register file."""
    base = this["rs1"]
    direct = np.where(_writes(previous, base, late=True), 2, 1 * _writes(previous, base, late=False))
    return np.maximum(direct, 1 * _writes(earlier, base, late=True))


def _uses_loaded(previous: NDArray[Any], this: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether the instruction reads what the one before it only has at the end of WB."""
    flags = this["properties"]
    used = np.zeros(len(this), np.bool_)
    for name, flag in (("rs1", Property.READS_RS1), ("rs2", Property.READS_RS2), ("rd", Property.READS_RD)):
        used |= ((flags & flag) != 0) & _writes(previous, this[name], late=True)
    reloads = (previous["properties"] & Property.WRITES_NN) != 0
    for name, flag in (("act", Property.READS_ACT), ("wgt", Property.READS_WGT)):
        used |= reloads & ((flags & flag) != 0) & (this[name] == previous["reloaded"])
    return used


def _multicycle(static: NDArray[Any], divisor: NDArray[np.uint32]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Instructions that stay in EX, and their cycles beyond the first."""
    kind = static["kind"]
    divides_signed = kind == Kind.DIVISION_SIGNED
    divides = divides_signed | (kind == Kind.DIVISION)
    value = divisor.astype(np.int64)
    negative = divides_signed & (value >> (_WORD_BITS - 1) != 0)
    # the divisor moves up as far as it can without losing a bit or its sign
    magnitude = np.where(negative, value ^ ((1 << _WORD_BITS) - 1), value)
    bits = np.frexp(magnitude.astype(np.float64))[1]
    places = _WORD_BITS - bits - negative
    cycles = np.where(divides, _SHORTEST_DIVISION + places, _HIGH_WORD)
    return divides | (kind == Kind.HIGH_WORD), cycles.astype(np.int64)
