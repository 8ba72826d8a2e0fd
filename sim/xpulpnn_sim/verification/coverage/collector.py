"""Count the coverage crosses that a program reaches, from arrays of its retirements."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import IRQ_PRIORITY, ExceptionCause
from xpulpnn.isa.retirement import CAUSE_CODE
from xpulpnn_sim.cosimulation.model.schema import WAITED
from xpulpnn_sim.reference.programs.retirements import Records
from xpulpnn_sim.verification.coverage.crosses import CAUSES, DISTANCES, NO_CROSS, OVERWRITES, REACHABLE, crosses_of
from xpulpnn_sim.verification.coverage.kinds import ENTRIES, NOTHING, PARAMETERS, SLOTS, Words

_ACCESS_FAULTS = (ExceptionCause.LOAD_ACCESS_FAULT, ExceptionCause.STORE_ACCESS_FAULT)
_CALLS = (ExceptionCause.BREAKPOINT, ExceptionCause.ENVIRONMENT_CALL)
# registers written, of two sums the second one too, and what tells their producer
_PRODUCERS = (("base", "base_producer"), ("rd", "producer"), ("rd2", "producer"))
Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]


class Collector:
    def __init__(self, config: CoreConfig) -> None:
        self.crosses = crosses_of(config)
        self.counts = np.zeros(self.crosses.count, np.int64)
        self._words = Words(config)

    def add(self, records: Records) -> None:
        if not len(records):
            return
        run = _Run(records, self._words.properties_of(records["insn"]))
        self._count("instruction", run.row[run.legal])
        self._operands(run)
        self._overwrites(run)
        self._entries(run)
        self._waits(run)
        self._interrupts(run)
        self._loops(run)
        self._faults(run)
        self._words_and_csrs(run)

    @property
    def holes(self) -> Numbers:
        return np.flatnonzero((self.crosses.states == REACHABLE) & (self.counts == 0))

    @property
    def impossible(self) -> Numbers:
        """Return the numbers of the combinations that were reached although they count as unreachable."""
        return np.flatnonzero((self.crosses.states != REACHABLE) & (self.counts > 0))

    def _count(self, family: str, *axes: Any) -> None:
        """Count places of a family, given by an array for each axis, or by a number for an axis that all share."""
        grid = self.crosses.families[family].states
        flat = np.ravel_multi_index(tuple(np.asarray(axis, np.int64) for axis in axes), grid.shape)
        start = self.crosses.starts[family]
        self.counts[start : start + grid.size] += np.bincount(flat, minlength=grid.size)

    def _operands(self, run: "_Run") -> None:
        for number, slot in enumerate(SLOTS):
            register = run.details[slot]
            for distance, producer, written in run.writers(register, run.retired & (register > 0), DISTANCES):
                at = written & run.uninterrupted(distance)
                self._count("operand", run.row[at], number, producer[at], distance - 1)
                waited = run.growth(run.bubbles, distance)[at] > 0
                self._count("timing", run.kind[at], producer[at], distance - 1, waited)
                if distance == 1:
                    at = written & run.behind_loop_end
                    self._count("across a loop end", run.kind[at], producer[at])

    def _overwrites(self, run: "_Run") -> None:
        states = self.crosses.families["overwrite"].states
        register = np.where(run.records["rd_we"] != 0, run.records["rd_addr"], 0)
        crosses = np.zeros(len(register), np.bool_)
        crosses[run.legal] = (states[run.row[run.legal]] != NO_CROSS).any(axis=(1, 2))
        # a register that is read as well is an operand
        read = np.logical_or.reduce([run.details[slot] == register for slot in SLOTS])
        for distance, producer, written in run.writers(register, run.retired & (register > 0) & crosses, OVERWRITES):
            at = written & run.uninterrupted(distance) & ~read
            self._count("overwrite", run.row[at], producer[at], distance - 1)

    def _entries(self, run: "_Run") -> None:
        records = run.records
        loaded = np.where(run.retired & (records["nn_we"] != 0), records["nn_addr"].astype(np.int64), NOTHING)
        for number, name in enumerate(ENTRIES):
            if name in ("kappa", "lambda"):
                entry = np.where(run.details["parameters"], PARAMETERS[name == "lambda"], NOTHING)
            else:
                entry = run.details[name.replace(" ", "_")]
            unresolved = run.retired & (entry != NOTHING)
            for distance in range(1, DISTANCES + 1):
                matches = np.zeros(len(entry), np.bool_)
                matches[distance:] = unresolved[distance:] & (loaded[:-distance] == entry[distance:])
                unresolved &= ~matches
                self._count("NN-RF", run.row[matches & run.uninterrupted(distance)], number, distance - 1)

    def _waits(self, run: "_Run") -> None:
        for number, cause in enumerate(CAUSES):
            waited = run.waited >> cause & 1 != 0
            # what the first of a handler waited for belongs to what was dropped
            self._count("wait", run.row[waited & (run.retired | run.calls) & ~run.entered], number)
            self._count("interrupt and wait", np.full(np.count_nonzero(waited & run.interrupt), number))

    def _interrupts(self, run: "_Run") -> None:
        first = np.flatnonzero(run.interrupt)
        first = first[first > 0]
        lines = run.records["cause"][run.interrupt & (run.records["trap"] == 0)] & np.uint32(CAUSE_CODE)
        order = np.array([IRQ_PRIORITY.index(line) if line in IRQ_PRIORITY else NOTHING for line in range(32)])
        self._count("interrupt line", order[lines])
        last = first - 1
        self._count("interrupt", run.row[last[run.legal[last]]], 0)
        resumed = run.next_at(run.records["pc_wdata"][last], first)
        known = resumed != NOTHING
        self._count("interrupt in a loop", run.kind[last[run.loop_end[last]]], 0)
        last, resumed = last[known], resumed[known]
        self._count("interrupt in a loop", run.kind[resumed[run.loop_end[resumed]]], 1)
        legal = run.legal[resumed]
        last, resumed = last[legal], resumed[legal]
        self._count("interrupt", run.row[resumed], 1)
        for slot in SLOTS:
            register = run.details[slot][resumed]
            for column, name in _PRODUCERS:
                written, producer = run.written[column][last], run.details[name]
                same = (register > 0) & (written == register) & (producer[last] != NOTHING)
                self._count("across an interrupt", run.kind[resumed[same]], producer[last[same]])

    def _loops(self, run: "_Run") -> None:
        self._count("loop end", run.row[run.loop_end], 0)
        self._count("loop end", run.row[run.behind_loop_end & run.legal], 1)

    def _faults(self, run: "_Run") -> None:
        failed = (run.records["trap"] != 0) & np.isin(run.records["cause"], _ACCESS_FAULTS) & run.legal
        at = np.flatnonzero(failed)
        self._count("access fault", run.row[at], 0)
        following = run.next_at(run.records["pc_rdata"][at] + run.details["size"][at].astype(np.uint32), at)
        following = following[following != NOTHING]
        self._count("access fault", run.row[following[run.legal[following]]], 1)

    def _words_and_csrs(self, run: "_Run") -> None:
        illegal = (run.records["trap"] != 0) & (run.records["cause"] == ExceptionCause.ILLEGAL_INSTRUCTION)
        self._count("reserved word", run.details["reserved"][illegal & (run.details["reserved"] != NOTHING)])
        # a write that is refused traps, a read never does
        at = (run.details["csr"] != NOTHING) & (run.retired | illegal)
        self._count("CSR", run.details["csr"][at], run.details["writes_csr"][at])


class _Run:
    def __init__(self, records: Records, details: NDArray[Any]) -> None:
        self.records, self.details = records, details
        self.row = details["row"].astype(np.int64)
        self.kind = details["kind"].astype(np.int64)
        self.legal: Mask = self.row != NOTHING
        trapped = records["trap"] != 0
        self.retired: Mask = self.legal & ~trapped
        # what always traps waits for itself
        self.calls: Mask = self.legal & trapped & np.isin(records["cause"], _CALLS)
        self.interrupt: Mask = records["intr"] != 0
        self.waited = records[WAITED].astype(np.int64)
        self.entered: Mask = self.interrupt.copy()
        self.entered[1:] |= trapped[:-1]
        following = records["pc_rdata"] + details["size"].astype(np.uint32)
        target = records["pc_rdata"] + details["offset"].astype(np.uint32)
        elsewhere = (records["pc_wdata"] != following) & ~(details["branch"] & (records["pc_wdata"] == target))
        self.loop_end: Mask = self.retired & elsewhere & ~details["elsewhere"]
        self.behind_loop_end: Mask = np.zeros(len(records), np.bool_)
        self.behind_loop_end[1:] = self.loop_end[:-1] & ~self.entered[1:]
        # the register that each writes as its result or incremented base; 0: none
        self.written = {
            "rd": np.where(self.retired & (records["rd_we"] != 0), records["rd_addr"].astype(np.int64), 0),
            "base": np.where(self.retired & (records["base_we"] != 0), records["base_addr"].astype(np.int64), 0),
            "rd2": np.where(self.retired & (records["rd2_we"] != 0), records["rd_addr"].astype(np.int64) + 1, 0),
        }
        self._entries = np.cumsum(self.entered, dtype=np.int64)
        self.bubbles = np.cumsum(self.waited != 0, dtype=np.int64)
        self._keys: Numbers | None = None

    def writers(self, register: NDArray[Any], unresolved: Mask, most: int) -> Iterator[tuple[int, NDArray[Any], Mask]]:
        """Yield each distance up to ``most``, the producers so many retirements earlier, and a mask of the
        ``unresolved`` retirements whose ``register`` these producers wrote."""
        for distance in range(1, most + 1):
            producer = np.full(len(register), NOTHING, np.int64)
            written = np.zeros(len(register), np.bool_)
            for column, name in _PRODUCERS:
                same = unresolved[distance:] & (self.written[column][:-distance] == register[distance:])
                written[distance:] |= same
                producer[distance:][same] = self.details[name][:-distance][same]
            unresolved = unresolved & ~written
            yield distance, producer, written & (producer != NOTHING)

    def uninterrupted(self, distance: int) -> Mask:
        """Mark the retirements with no handler entry between them and the instruction ``distance`` before."""
        return self.growth(self._entries, distance) == 0

    @staticmethod
    def growth(sums: Numbers, distance: int) -> Numbers:
        """Return, at each retirement, the growth of a cumulative sum over the last ``distance`` retirements."""
        before = np.zeros(len(sums), np.int64)
        before[distance:] = sums[:-distance]
        return sums - before

    def next_at(self, pcs: NDArray[Any], since: Numbers) -> Numbers:
        """Return, for each address, the number of its first retirement after ``since``, or :data:`NOTHING`."""
        bits = len(self.records).bit_length()
        if self._keys is None:
            pc = self.records["pc_rdata"].astype(np.int64)
            self._keys = np.sort(pc << bits | np.arange(len(pc)))
        places = np.searchsorted(self._keys, pcs.astype(np.int64) << bits | since, side="right")
        keys = self._keys[np.minimum(places, len(self._keys) - 1)]
        known = (places < len(self._keys)) & (keys >> bits == pcs.astype(np.int64))
        return np.where(known, keys & (1 << bits) - 1, NOTHING)
