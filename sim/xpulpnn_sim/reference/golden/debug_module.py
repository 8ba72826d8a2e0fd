"""Golden model of the debug module's registers, as the debug specification describes them."""

from collections.abc import Callable
from dataclasses import dataclass

from xpulpnn.isa.debug import CommandError, Control, DmReg, Sbcs, SbError, Status
from xpulpnn.isa.machine import WORD_MASK

_DATA = (DmReg.DATA0, DmReg.DATA1)
_PROGRAM = range(DmReg.PROGBUF0, DmReg.PROGBUF0 + 8)
_STORED = Sbcs.READONADDR | Sbcs.AUTOINCREMENT | Sbcs.READONDATA


@dataclass(slots=True)
class DebuggedHart:
    """State of a hart in the debug module; the hart itself reports that it has halted or resumes."""

    halted: bool = False
    halt_request: bool = False
    resuming: bool = False  # a resume is requested
    resume_ack: bool = False
    have_reset: bool = True
    in_reset: bool = False
    unavailable: bool = False


class BusError(Exception):
    """The system bus cannot make the access."""


class DebugModuleModel:
    """Registers of the debug module as a debugger accesses them, with harts that execute no abstract commands."""

    def __init__(
        self, harts: int, read_bus: Callable[[int, int], int], write_bus: Callable[[int, int, int], None]
    ) -> None:
        self.harts = [DebuggedHart() for _ in range(harts)]
        self._read_bus, self._write_bus = read_bus, write_bus
        self._number_mask = (1 << max(harts - 1, 1).bit_length()) - 1
        self.active = False
        self._words = dict.fromkeys((*_DATA, *_PROGRAM), 0)
        self._address, self._sbdata = 0, 0
        self._clear()

    def _clear(self) -> None:
        self.error = CommandError.NONE
        self._number, self._hasel, self._hart_reset, self._ndmreset, self._mask = 0, False, False, False, 0
        self._auto, self._sbcs, self._sberror = 0, 2, int(SbError.NONE)
        for hart in self.harts:
            hart.halt_request = hart.resume_ack = hart.resuming = False

    def _selected(self) -> list[DebuggedHart]:
        mask = self._mask * self._hasel
        return [hart for place, hart in enumerate(self.harts) if place == self._number or mask >> place & 1]

    def write(self, register: int, value: int) -> None:
        if register == DmReg.DMCONTROL:
            self._control(value)
        elif not self.active:
            return
        elif register in self._words:
            self._words[register] = value
            self._begin_command(register)
        elif register == DmReg.HAWINDOW:
            self._mask = value & (1 << len(self.harts)) - 1
        elif register == DmReg.ABSTRACTCS:
            self.error = CommandError(self.error & ~(value >> 8 & 7))
        elif register == DmReg.ABSTRACTAUTO:
            self._auto = value & 0x00FF_0003
        elif register == DmReg.SBCS:
            self._sbcs = value >> 17 & 7 | value & _STORED
            self._sberror &= ~(value >> 12)
        elif register == DmReg.SBADDRESS0:
            self._address = value
            if self._sbcs & Sbcs.READONADDR:
                self._access_bus()
        elif register == DmReg.SBDATA0:
            self._sbdata = value
            self._access_bus(value)
        self.settle()

    def read(self, register: int) -> int:
        """Return the value of a register; the read may start an abstract command or a bus access."""
        if register == DmReg.DMCONTROL:
            bits = self._hasel * Control.HASEL | self._hart_reset * Control.HARTRESET
            return bits | self._ndmreset * Control.NDMRESET | self._number << 16 | self.active
        value = self._value(register)
        if self.active and register in self._words:
            self._begin_command(register)
        if self.active and register == DmReg.SBDATA0 and self._sbcs & Sbcs.READONDATA:
            self._access_bus()
        return value

    def _value(self, register: int) -> int:
        if register in self._words:
            return self._words[register]
        match register:
            case DmReg.DMSTATUS:
                return self._status()
            case DmReg.HARTINFO:
                return 1 << 20
            case DmReg.HAWINDOW:
                return self._mask
            case DmReg.ABSTRACTCS:
                return 8 << 24 | self.error << 8 | 2
            case DmReg.ABSTRACTAUTO:
                return self._auto
            case DmReg.SBCS:
                settings = self._sbcs & _STORED | (self._sbcs & 7) << 17
                return 1 << 29 | settings | self._sberror << 12 | 32 << 5 | 7
            case DmReg.SBADDRESS0:
                return self._address
            case DmReg.SBDATA0:
                return self._sbdata
            case DmReg.HALTSUM0:
                return sum(hart.halted << place for place, hart in enumerate(self.harts))
            case _:
                return 0

    def _control(self, value: int) -> None:
        if not (self.active and value & Control.DMACTIVE):
            self.active = bool(value & Control.DMACTIVE)
            self._clear()
            self.settle()
            return
        self._number, self._hasel = value >> 16 & self._number_mask, bool(value & Control.HASEL)
        self._hart_reset, self._ndmreset = bool(value & Control.HARTRESET), bool(value & Control.NDMRESET)
        for hart in self._selected():
            hart.halt_request = bool(value & Control.HALTREQ)
            if value & Control.ACKHAVERESET and not hart.in_reset:
                hart.have_reset = False
            if value & Control.RESUMEREQ and not hart.halt_request:
                hart.resume_ack, hart.resuming = False, hart.resuming or hart.halted

    def settle(self) -> None:
        """Apply requested resets; a hart in reset is neither halted nor resuming."""
        reset = self._selected() if self._hart_reset else []
        for hart in self.harts:
            hart.in_reset = self._ndmreset or any(hart is other for other in reset)
            hart.have_reset |= hart.in_reset
            hart.halted, hart.resuming = hart.halted and not hart.in_reset, hart.resuming and not hart.in_reset

    def _status(self) -> int:
        selected, missing = self._selected(), self._number >= len(self.harts)
        word = 1 << 22 | 1 << 7 | 2
        states: dict[Status, Callable[[DebuggedHart], bool]] = {
            Status.HALTED: lambda hart: hart.halted and not hart.unavailable,
            Status.RUNNING: lambda hart: not (hart.halted or hart.in_reset or hart.unavailable),
            Status.UNAVAIL: lambda hart: hart.in_reset or hart.unavailable,
            Status.RESUMEACK: lambda hart: hart.resume_ack,
            Status.HAVERESET: lambda hart: hart.have_reset,
        }
        for place, holds in states.items():
            word |= any(map(holds, selected)) << place | (all(map(holds, selected)) and not missing) << place + 1
        return word | missing << Status.NONEXISTENT | (missing and not selected) << Status.NONEXISTENT + 1

    def _begin_command(self, register: int) -> None:
        """Record the error if an access to a data register starts a command while the selected hart is not halted."""
        place = register - DmReg.DATA0 if register in _DATA else register - DmReg.PROGBUF0 + 16
        halted = self._number < len(self.harts) and self.harts[self._number].halted
        if self._auto >> place & 1 and self.error == CommandError.NONE and not halted:
            self.error = CommandError.HALT_RESUME

    def _access_bus(self, value: int | None = None) -> None:
        if self._sberror != SbError.NONE:
            return
        size = 1 << (self._sbcs & 7)
        if size > 4:
            self._sberror = SbError.SIZE
        elif self._address % size:
            self._sberror = SbError.ALIGNMENT
        else:
            try:
                if value is None:
                    self._sbdata = self._read_bus(self._address, size)
                else:
                    self._write_bus(self._address, size, value)
            except BusError:
                self._sberror = SbError.BAD_ADDRESS
                return
            if self._sbcs & Sbcs.AUTOINCREMENT:
                self._address = self._address + size & WORD_MASK
