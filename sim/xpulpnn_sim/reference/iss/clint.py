"""A core-local interruptor beside the simulated hart: timer and software interrupt, by the clock of the simulator."""

import ctypes
from collections.abc import Iterable

from xpulpnn.isa.machine import CLINT_BASE, CLINT_BYTES, Clint
from xpulpnn_sim.reference.iss.library import PAGE_BITS
from xpulpnn_sim.reference.iss.memory import Memory

_PAGE = 1 << PAGE_BITS
RESET = b"\xff" * 8  # of mtimecmp


class ClintMemory(Memory):
    """Memory with registers that compiled code reads and writes; instructions cannot be fetched from them."""

    def __init__(self, windows: Iterable[tuple[int, int]], errors: Iterable[tuple[int, int]] = ()) -> None:
        super().__init__([*windows, (CLINT_BASE, CLINT_BYTES)], errors)
        native = self.native
        native.devices, native.device_bytes = CLINT_BASE, CLINT_BYTES
        native.msip, native.mtimecmp, native.mtime = map(self._place_of, (Clint.MSIP, Clint.MTIMECMP, Clint.MTIME))
        self.write_bytes(CLINT_BASE + Clint.MTIMECMP, RESET)

    def _place_of(self, register: Clint) -> int:
        number, offset = divmod(CLINT_BASE + register, _PAGE)
        return ctypes.addressof(ctypes.c_char.from_buffer(self._page(number))) + offset

    def _fails(self, address: int, size: int, kind: str = "fetch") -> bool:
        # the pages of the registers must not be taken for plain memory
        if kind == "fetch" and CLINT_BASE - size < address < CLINT_BASE + CLINT_BYTES:
            return True
        return super()._fails(address, size, kind)
