"""A debugger's end of OpenOCD's protocol remote_bitbang: scans, accesses to the debug module, and what must not be."""

import socket
from random import Random

from xpulpnn.isa.debug import (
    ABSTRACTCS_BUSY_BIT,
    ABSTRACTCS_CMDERR_LSB,
    COMMAND_SIZE_LSB,
    COMMAND_WORD,
    DMI_ADDRESS_BITS,
    DTMCS_DMIRESET,
    DTMCS_STAT_LSB,
    IDLE_CYCLES,
    IR_BITS,
    SBCS_ACCESS_LSB,
    Command,
    Control,
    DmiOp,
    DmReg,
    Status,
    TapRegister,
)

_WORD = 2  # code of an access of 32 bits
_OP, _ADDRESS = 2, 34  # bits of a scan below data and address
_TO_DATA, _AFTER = ((1, 0), (0, 0), (0, 0)), ((1, 0), *[(0, 0)] * IDLE_CYCLES)
"""Levels of TMS and TDI before and behind what is shifted."""


def _shifted(value: int, bits: int):
    return ((int(at == bits - 1), value >> at & 1) for at in range(bits))


class Jtag:
    """A test access port, at first in Run-Test/Idle."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("localhost", port))
        self._socket.sendall(b"r")
        self._instruction: int | None = None
        self._clock((1, 0) for _ in range(6))
        self._clock([(0, 0)])

    def activate(self) -> None:
        self.write(DmReg.DMCONTROL, Control.DMACTIVE)

    def close(self, *, orderly: bool = True) -> None:
        """Leave, by the command for it or without a word."""
        if orderly:
            self._socket.sendall(b"Q")
        self._socket.close()

    def idle(self, count: int) -> None:
        """Clock TCK without any access; a clock is two cycles."""
        self._clock([(0, 0)] * count)

    def disturb(self, rng: Random, count: int) -> None:
        """Levels and resets at random, never read back."""
        self._socket.sendall(bytes(rng.choices(b"01234567rstu", [9] * 8 + [1] * 4, k=count)))

    def break_off(self, rng: Random) -> None:
        """Begin to write dmcontrol, with a request to halt, and leave before the last bit."""
        self.scan(TapRegister.DMI, 0, _ADDRESS + DMI_ADDRESS_BITS)
        word = DmiOp.WRITE | (Control.HALTREQ | Control.DMACTIVE) << _OP | DmReg.DMCONTROL << _ADDRESS
        self._clock((tms, 0) for tms in (1, 0, 0))
        self._clock((0, word >> at & 1) for at in range(rng.randrange(_ADDRESS + DMI_ADDRESS_BITS)))
        self.close(orderly=False)

    def _clock(self, levels, *, reads: bool = False) -> int:
        """Clock TCK with levels of TMS and TDI; returns what TDO was, first bit lowest."""
        text, count = bytearray(), 0
        for tms, tdi in levels:
            low = tms << 1 | tdi
            text += b"%d%s%d" % (low, b"R" * reads, low | 4)
            count += 1
        self._socket.sendall(bytes(text))
        read = b""
        while reads and len(read) < count:
            more = self._socket.recv(count - len(read))
            assert more, "the model must answer"
            read += more
        return sum((bit == ord("1")) << index for index, bit in enumerate(read))

    def _scan(self, before, value: int, bits: int) -> int:
        self._clock((tms, 0) for tms in before)
        read = self._clock(_shifted(value, bits), reads=True)
        self._clock(_AFTER)
        return read

    def scan(self, register: TapRegister, value: int, bits: int) -> int:
        if register != self._instruction:
            self._scan((1, 1, 0, 0), register, IR_BITS)
            self._instruction = register
        return self._scan([tms for tms, _ in _TO_DATA], value, bits)

    def _dmi(self, address: int, data: int, op: DmiOp) -> int:
        bits = _ADDRESS + DMI_ADDRESS_BITS
        for _ in range(100):
            self.scan(TapRegister.DMI, op | data << _OP | address << _ADDRESS, bits)
            answer = self.scan(TapRegister.DMI, 0, bits)
            if answer & 3 == DmiOp.SUCCESS:
                return answer >> _OP & 0xFFFF_FFFF
            self.scan(TapRegister.DTMCS, DTMCS_DMIRESET, 32)
        raise AssertionError("the debug module must answer")

    def read(self, register: int) -> int:
        return self._dmi(register, 0, DmiOp.READ)

    def write(self, register: int, value: int) -> None:
        self._dmi(register, value, DmiOp.WRITE)

    def write_all(self, register: int, values) -> bool:
        """Write a register again and again without a look at the answers; whether all came in time."""
        words = (DmiOp.WRITE | value << _OP | register << _ADDRESS for value in values)
        scans = ([*_TO_DATA, *_shifted(word, _ADDRESS + DMI_ADDRESS_BITS), *_AFTER] for word in words)
        self._clock(level for levels in scans for level in levels)
        return not self.scan(TapRegister.DTMCS, 0, 32) >> DTMCS_STAT_LSB & 3

    def control(self, bits: int, hart: int | None = None, harts: int = 0) -> None:
        """Write dmcontrol for one hart, or for all of a mask."""
        if hart is None:
            self.write(DmReg.HAWINDOW, harts)
            bits |= Control.HASEL
        self.write(DmReg.DMCONTROL, Control.DMACTIVE | bits | (hart or 0) << 16)

    def wait(self, status: Status) -> None:
        for _ in range(200):
            if self.read(DmReg.DMSTATUS) >> status + 1 & 1:
                return
        raise AssertionError(f"all harts must be {status.name}")

    def _transfer(self, what: int) -> None:
        self.write(DmReg.COMMAND, COMMAND_WORD << COMMAND_SIZE_LSB | Command.TRANSFER | what)
        for _ in range(100):
            done = self.read(DmReg.ABSTRACTCS)
            if not done >> ABSTRACTCS_BUSY_BIT & 1:
                break
        assert not done & (1 << ABSTRACTCS_BUSY_BIT | 7 << ABSTRACTCS_CMDERR_LSB), hex(done)

    def csr(self, number: int) -> int:
        self._transfer(number)
        return self.read(DmReg.DATA0)

    def set_csr(self, number: int, value: int) -> None:
        self.write(DmReg.DATA0, value)
        self._transfer(Command.WRITE | number)

    def store(self, address: int, value: int) -> None:
        self.write(DmReg.SBCS, _WORD << SBCS_ACCESS_LSB)
        self.write(DmReg.SBADDRESS0, address)
        self.write(DmReg.SBDATA0, value)
