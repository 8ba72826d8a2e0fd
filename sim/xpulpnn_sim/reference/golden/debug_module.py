"""Golden model of the debug module's registers, as the debug specification describes them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xpulpnn.isa.debug import Command, CommandError, Control, DmReg, Sbcs, SbError, Status
from xpulpnn.isa.machine import REGISTERS, WORD_MASK

_PROGRAM = range(DmReg.PROGBUF0, DmReg.PROGBUF0 + 8)
_DATA = (DmReg.DATA0, DmReg.DATA1)
_KEPT = Sbcs.READONADDR | Sbcs.AUTOINCREMENT | Sbcs.READONDATA


@dataclass(slots=True)
class DebuggedHart:
    """State of a hart in the debug module, and the registers that abstract commands access."""

    halted: bool = False
    halt_request: bool = False
    resume_ack: bool = False
    have_reset: bool = True
    in_reset: bool = False
    unavailable: bool = False
    registers: list[int] = field(default_factory=lambda: [0] * REGISTERS)
    csrs: dict[int, int] = field(default_factory=dict[int, int])

    def settle(self) -> None:
        """Halt if this is requested, unless the hart is in reset."""
        self.halted = (self.halted or self.halt_request) and not self.in_reset

    def resume(self) -> None:
        self.resume_ack, self.halted = self.halted, False

    def clear_requests(self) -> None:
        self.halt_request = self.resume_ack = False


RunProgram = Callable[[DebuggedHart, Sequence[int]], bool]
"""Callback that executes a program buffer on a hart and returns whether it ended without an exception."""


class BusError(Exception):
    """The system bus cannot make the access."""


class DebugModuleModel:
    """Registers of the debug module as a debugger accesses them."""

    def __init__(
        self,
        harts: int,
        run: RunProgram,
        read_bus: Callable[[int, int], int],
        write_bus: Callable[[int, int, int], None],
    ) -> None:
        self.harts = [DebuggedHart() for _ in range(harts)]
        self._run, self._read_bus, self._write_bus = run, read_bus, write_bus
        self._number_mask = (1 << max(harts - 1, 1).bit_length()) - 1
        self.active = False
        self._words = dict.fromkeys((*_DATA, *_PROGRAM), 0)
        self.command, self._address, self._sbdata = 0, 0, 0
        self._clear()

    def _clear(self) -> None:
        self.error = CommandError.NONE
        self._number, self._hasel, self._hart_reset, self._ndmreset, self._mask = 0, False, False, False, 0
        self._auto, self._sbcs, self._sberror = 0, 2, int(SbError.NONE)
        for hart in self.harts:
            hart.clear_requests()

    def _selected(self, number: int, *, hasel: bool) -> list[DebuggedHart]:
        return [hart for place, hart in enumerate(self.harts) if place == number or (hasel and self._mask >> place & 1)]

    def write(self, register: int, value: int) -> None:
        if register == DmReg.DMCONTROL:
            self._control(value)
        elif not self.active:
            return
        elif register in self._words:
            self._words[register] = value
            self._touch(register)
        elif register == DmReg.HAWINDOW:
            self._mask = value & (1 << len(self.harts)) - 1
        elif register == DmReg.ABSTRACTCS:
            self.error = CommandError(self.error & ~(value >> 8 & 7))
        elif register == DmReg.ABSTRACTAUTO:
            self._auto = value & 0x00FF_0003
        elif register == DmReg.COMMAND and self.error == CommandError.NONE:
            self.command = value
            self._execute()
        elif register == DmReg.SBCS:
            self._sbcs = value >> 17 & 7 | value & _KEPT
            self._sberror &= ~(value >> 12)
        elif register == DmReg.SBADDRESS0:
            self._address = value
            if self._sbcs & Sbcs.READONADDR:
                self._access_bus()
        elif register == DmReg.SBDATA0:
            self._sbdata = value
            self._access_bus(value)
        self._settle()

    def read(self, register: int) -> int:
        """Return the value of a register; the read may start an abstract command or a bus access."""
        if register == DmReg.DMCONTROL:
            bits = (
                self._hasel * Control.HASEL | self._hart_reset * Control.HARTRESET | self._ndmreset * Control.NDMRESET
            )
            return bits | self._number << 16 | self.active
        value = self._value(register)
        if self.active and register in self._words:
            self._touch(register)
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
                settings = self._sbcs & _KEPT | (self._sbcs & 7) << 17
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
            self._settle()
            return
        self._number, self._hasel = value >> 16 & self._number_mask, bool(value & Control.HASEL)
        self._hart_reset, self._ndmreset = bool(value & Control.HARTRESET), bool(value & Control.NDMRESET)
        for hart in self._selected(self._number, hasel=self._hasel):
            hart.halt_request = bool(value & Control.HALTREQ)
            if value & Control.ACKHAVERESET and not hart.in_reset:
                hart.have_reset = False
            if value & Control.RESUMEREQ and not hart.halt_request:
                hart.resume()

    def _settle(self) -> None:
        reset = self._selected(self._number, hasel=self._hasel) if self._hart_reset else []
        for hart in self.harts:
            hart.in_reset = self._ndmreset or any(hart is other for other in reset)
            hart.have_reset |= hart.in_reset
            hart.settle()

    def _status(self) -> int:
        selected = self._selected(self._number, hasel=self._hasel)
        missing = self._number >= len(self.harts)
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

    def _touch(self, register: int) -> None:
        place = register - DmReg.DATA0 if register in _DATA else register - DmReg.PROGBUF0 + 16
        if self._auto >> place & 1 and self.error == CommandError.NONE:
            self._execute()

    def _execute(self) -> None:
        """Execute an abstract command; only commands of the type Access Register are supported."""
        command, number = self.command, self.command & 0xFFFF
        transfer = command & Command.TRANSFER
        if command >> 24 or (transfer and (command >> 20 & 7 != 2 or number >= 0x1020)):
            self.error = CommandError.NOT_SUPPORTED
            return
        if self._number >= len(self.harts) or not self.harts[self._number].halted:
            self.error = CommandError.HALT_RESUME
            return
        hart = self.harts[self._number]
        done = not transfer or self._transfer(hart, number, write=bool(command & Command.WRITE))
        if done and command & Command.POSTEXEC:
            done = self._run(hart, [self._words[register] for register in _PROGRAM])
        if not done:
            self.error = CommandError.EXCEPTION
        elif command & Command.POSTINCREMENT:
            self.command = command & ~0xFFFF | (number + 1) & 0x1FFF

    def _transfer(self, hart: DebuggedHart, number: int, *, write: bool) -> bool:
        general = number >= 0x1000
        if not general and number not in hart.csrs:
            return False
        if not write:
            self._words[DmReg.DATA0] = hart.registers[number - 0x1000] if general else hart.csrs[number]
        elif not general:
            hart.csrs[number] = self._words[DmReg.DATA0]
        elif number > 0x1000:
            hart.registers[number - 0x1000] = self._words[DmReg.DATA0]
        return True

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
