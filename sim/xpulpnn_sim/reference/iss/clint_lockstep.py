"""Lock step of a core beside a core-local interruptor: the time is taken from the design."""

from collections.abc import Sequence
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import ADDRESS_SPACE, CLINT_BASE, CLINT_BYTES, WORD_BYTES, Clint
from xpulpnn_sim.reference.iss.clint import ClintMemory
from xpulpnn_sim.reference.iss.lockstep import NAMES, Lockstep, Record
from xpulpnn_sim.reference.iss.session import fill_memory
from xpulpnn_sim.reference.programs.elf import Executable, Window
from xpulpnn_sim.reference.programs.trace import Records

_ADDRESS, _BYTES, _DATA = (NAMES.index(name) for name in ("mem_addr", "mem_rmask", "mem_rdata"))


class ClintLockstep(Lockstep):
    def __init__(
        self, executable: Executable, config: CoreConfig, *, errors: Sequence[Window] = (), **options: Any
    ) -> None:
        self._clint = ClintMemory(((0, ADDRESS_SPACE),))
        self._clint.errors = tuple(errors)
        fill_memory(self._clint, executable)
        super().__init__(executable, config, memory=self._clint, **options)

    def _follow_plain(self, records: Records, levels: Any) -> int:
        self._clint.bursting = True
        done = super()._follow_plain(records, levels)
        self._clint.bursting = False
        return done

    def _advance(self, record: Record) -> None:
        if CLINT_BASE + Clint.MTIME - WORD_BYTES < record[_ADDRESS] < CLINT_BASE + CLINT_BYTES:
            size = record[_BYTES].bit_count()
            self._clint.write_bytes(record[_ADDRESS], record[_DATA].to_bytes(WORD_BYTES, "little")[:size])
        super()._advance(record)
