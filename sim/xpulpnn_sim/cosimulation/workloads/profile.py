"""Profile of a program: stalls by cause and cycles by instruction, as the retirement port tells them.

In every cycle an instruction retires or the port names why none does. The model counts both for each instruction; what
a transfer of control costs belongs to the instruction that transfers, every other wait to the one that waits.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.machine import HALF_BYTES, LENGTH_MASK, WORD_BYTES
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.cosimulation.model.machine import Memory, load_memory
from xpulpnn_sim.cosimulation.model.schema import STALLS
from xpulpnn_sim.cosimulation.workloads.program_run import text_window
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sim.reference.programs.trace import text_of

MEANING = {
    "start": "reset",
    "fetch": "instruction memory, targets across a word boundary",
    "jump": "jal, jalr",
    "branch": "taken branch",
    "trap": "exception, interrupt, mret",
    "load_use": "value loaded by the instruction before",
    "jump_register": "jalr, its base still being written",
    "mac_load": "base or NN-RF entry of the Mac&Load before, parameter or result of a requantisation",
    "multicycle": "multiplication high, division",
    "misaligned": "second half of an access across words",
    "grant": "data memory withholds its grant",
    "response": "data memory has not answered",
    "csr": "instruction behind a CSR write",
    "loop": "end of a hardware loop too short to be foreseen",
    "sync": "fence.i, wfi: what is older completes",
    "sleep": "wfi",
    "bank_conflict": "the bank of the TCDM serves another one",
    "barrier": "barrier of the event unit",
    "event": "event unit: events, mutexes, dispatch",
    "peripheral": "other registers inside the cluster",
    "external": "memory outside the cluster",
}
"""Meaning of each cause of a stall."""


class Profile:
    """The counts of a run, put together for people."""

    def __init__(self, executable: Executable, account: NDArray[np.uint64]) -> None:
        self._executable = executable
        self._base, _ = text_window(executable)
        self._memory = Memory(load_memory(executable))
        self._rows = account[:-1]
        self._rest = account[-1]
        self.cycles = int(account.sum())

    def by_instruction(self) -> Iterator[dict[str, Any]]:
        """Each instruction that took cycles by address; its cycles, retirements, and stalls by cause."""
        for slot in np.flatnonzero(self._rows.any(axis=1)).tolist():
            pc = self._base + HALF_BYTES * slot
            symbol = self._executable.symbol_at(pc)
            yield {"pc": pc, "symbol": symbol, "text": text_of(self._word(pc), pc)} | self._row(self._rows[slot])

    def by_function(self, outside: str) -> list[dict[str, Any]]:
        """Functions with their cycles, the largest first; code of no function is called ``outside``."""
        members: dict[tuple[str, int | None], NDArray[np.uint64]] = {}
        if self._rest.any():
            members[outside, None] = self._rest.copy()
        for slot in np.flatnonzero(self._rows.any(axis=1)).tolist():
            function = self._executable.function_at(self._base + HALF_BYTES * slot)
            key = (outside, None) if function is None else (function.name, function.address)
            if key in members:
                members[key] += self._rows[slot]
            else:
                members[key] = self._rows[slot].copy()
        rows = [{"symbol": name, "address": address} | self._row(row) for (name, address), row in members.items()]
        return sorted(rows, key=lambda row: (-row["cycles"], row["symbol"]))

    def _word(self, pc: int) -> int:
        low = int.from_bytes(self._memory.read(pc, HALF_BYTES), "little")
        if low & LENGTH_MASK != LENGTH_MASK or not self._memory.inside(pc, WORD_BYTES):
            return low
        return int.from_bytes(self._memory.read(pc, WORD_BYTES), "little")

    def _row(self, counts: NDArray[np.uint64]) -> dict[str, Any]:
        cycles, retired = int(counts.sum()), int(counts[WaitCause.NONE])
        return {
            "cycles": cycles,
            "share": round(cycles / max(self.cycles, 1), 4),
            "instructions": retired,
            "cpi": round(cycles / max(retired, 1), 3),
            "stalls": {cause.name.lower(): int(counts[cause]) for cause in STALLS if cause and counts[cause]},
        }
