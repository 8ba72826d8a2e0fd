"""Counts of what programs reach: rows of the table, traps, interrupts, ends of hardware loops."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Self

import numpy as np

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.retirement import CAUSE_CODE
from xpulpnn.isa.table import Decoder, enabled
from xpulpnn_sim.reference.programs.retirement import Records


@dataclass(slots=True)
class Tally:
    """Counts of one program or of several: numbers, lists, and counters by name."""

    def merge(self, other: Self) -> None:
        """Add the counts of ``other``."""
        for one in fields(self):
            mine, its = getattr(self, one.name), getattr(other, one.name)
            add: Callable[[Any], None] | None = getattr(mine, "update" if isinstance(mine, Counter) else "merge", None)
            if add is None:
                setattr(self, one.name, mine + its)
            else:
                add(its)


Key = tuple[str, str]  # Mnemonic and operands of a row


@cache
def _rows(config: CoreConfig) -> tuple[Insn, ...]:
    return enabled(config.extensions, config.widths)


@cache
def _decoder(config: CoreConfig) -> Decoder:
    return Decoder(_rows(config))


@dataclass(slots=True)
class Coverage(Tally):
    """Counts of events in retirement records."""

    rows: Counter[Key] = field(default_factory=Counter[Key])  # retirements of each row, those that trapped included
    traps: Counter[int] = field(default_factory=Counter[int])  # by exception cause
    interrupts: Counter[int] = field(default_factory=Counter[int])  # by line
    loop_ends: int = 0  # jumps back of hardware loops
    taken: int = 0
    misaligned: int = 0  # accesses that cross a word
    compressed: int = 0
    requantised: int = 0  # results of pv.rq*
    inside: int = 0  # those of them that are neither of the bounds to which sums are clipped

    def add(self, records: Records, config: CoreConfig) -> None:
        """Count the events of a block of records of a core with this configuration."""
        words, which, counts = np.unique(records["insn"], return_inverse=True, return_counts=True)
        found = [_decoder(config).decode(int(word)) for word in words]
        for row, count in zip(found, counts.tolist(), strict=True):
            if row is not None:
                self.rows[row.key] += count
        trapped = records["trap"] != 0
        self._count(self.traps, records["cause"][trapped])
        first_of_handler = (records["intr"] != 0) & ~trapped
        self._count(self.interrupts, records["cause"][first_of_handler] & np.uint32(CAUSE_CODE))
        sizes = np.array([0 if row is None else row.size for row in found], np.uint32)[which]
        branches = np.array([row is not None and row.is_branch for row in found])[which]
        transfers = np.array([row is None or row.is_jump or row.op == "mret" for row in found])[which]
        elsewhere = ~trapped & ~transfers & (records["pc_wdata"] != records["pc_rdata"] + sizes)
        self.loop_ends += int(np.count_nonzero(elsewhere & ~branches))
        self.taken += int(np.count_nonzero(elsewhere & branches))
        self.compressed += int(np.count_nonzero(sizes == 2))
        size = np.bitwise_count(records["mem_rmask"] | records["mem_wmask"])
        self.misaligned += int(np.count_nonzero((records["mem_addr"] & 3) + size > 4))
        written = ~trapped & (records["rd_we"] != 0)
        for number, row in enumerate(found):
            if row is not None and row.requantises:
                self._elements(row, int(words[number]), records["rd_wdata"][written & (which == number)])

    def _elements(self, row: Insn, word: int, results: Records) -> None:
        assert row.fmt is not None
        width = row.fmt.width
        elements = results >> np.uint32(width * row.decode(word)["lane"]) & np.uint32((1 << width) - 1)
        least = 1 << width - 1 if row.a_signed else 0
        bounds = least, (least - 1) % (1 << width)
        self.requantised += len(elements)
        self.inside += int(np.count_nonzero(~np.isin(elements, bounds)))

    @staticmethod
    def _count(counter: Counter[int], values: Records) -> None:
        for value, count in zip(*np.unique(values, return_counts=True), strict=True):
            counter[int(value)] += int(count)

    def missing(self, config: CoreConfig) -> list[Key]:
        """Rows of the configuration that were never executed."""
        return [row.key for row in _rows(config) if row.key not in self.rows]

    def by_extension(self, config: CoreConfig) -> Mapping[str, tuple[int, int, int]]:
        """Rows, rows executed and retirements of each extension."""
        table: dict[str, tuple[int, int, int]] = {}
        for row in _rows(config):
            rows, executed, total = table.get(row.extension.value, (0, 0, 0))
            count = self.rows[row.key]
            table[row.extension.value] = rows + 1, executed + bool(count), total + count
        return table
