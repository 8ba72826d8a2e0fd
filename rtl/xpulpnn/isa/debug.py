"""Constants of external debugging for debuggers and halted harts (RISC-V Debug Specification 0.13.2)."""

from enum import IntEnum, IntFlag

from xpulpnn.isa.machine import WORD_BYTES

DEBUG_BASE = 0x1A11_0000  # address of the debug module's memory, as on the PULP platforms
DEBUG_BYTES = 0x1000
MAX_HARTS = 32
PROGRAM_WORDS, DATA_WORDS = 8, 2
SCRATCH_CSRS = 1  # dscratch registers free for debuggers; loads across word boundaries overwrite dscratch1
DSCRATCH0, DSCRATCH1 = 0x7B2, 0x7B3

DMI_ADDRESS_BITS = 7


class DmiOp(IntEnum):
    """Operation of an access through the DMI, and its outcome."""

    NOP = SUCCESS = 0
    READ = 1
    WRITE = FAILED = 2
    BUSY = 3


class DmReg(IntEnum):
    DATA0 = 0x04
    DATA1 = 0x05
    DMCONTROL = 0x10
    DMSTATUS = 0x11
    HARTINFO = 0x12
    HAWINDOWSEL = 0x14
    HAWINDOW = 0x15
    ABSTRACTCS = 0x16
    COMMAND = 0x17
    ABSTRACTAUTO = 0x18
    PROGBUF0 = 0x20
    SBCS = 0x38
    SBADDRESS0 = 0x39
    SBDATA0 = 0x3C
    HALTSUM0 = 0x40


class Control(IntFlag):
    HALTREQ = 1 << 31
    RESUMEREQ = 1 << 30
    HARTRESET = 1 << 29
    ACKHAVERESET = 1 << 28
    HASEL = 1 << 26
    NDMRESET = 1 << 1
    DMACTIVE = 1


HARTSELLO_LSB, HARTSELHI_LSB, HARTSEL_HALF = 16, 6, 10  # positions and width of the halves of hartsel


class Status(IntEnum):
    """Bit positions of the any... bits of dmstatus; each all... bit is one position higher."""

    HALTED = 8
    RUNNING = 10
    UNAVAIL = 12
    NONEXISTENT = 14
    RESUMEACK = 16
    HAVERESET = 18


STATUS_IMPEBREAK, STATUS_AUTHENTICATED, STATUS_VERSION = 1 << 22, 1 << 7, 2
HARTINFO_NSCRATCH_LSB = 20
ABSTRACTCS_PROGBUFSIZE_LSB, ABSTRACTCS_BUSY_BIT, ABSTRACTCS_CMDERR_LSB = 24, 12, 8
AUTOEXECPROGBUF_LSB = 16


class CommandError(IntEnum):
    """Outcome of an abstract command: field cmderr of abstractcs."""

    NONE = 0
    BUSY = 1
    NOT_SUPPORTED = 2
    EXCEPTION = 3
    HALT_RESUME = 4


CMDERR_BITS = 3


class Command(IntFlag):
    """Bits of the Access Register command, without type, size and register number."""

    POSTINCREMENT = 1 << 19
    POSTEXEC = 1 << 18
    TRANSFER = 1 << 17
    WRITE = 1 << 16


COMMAND_TYPE_LSB, COMMAND_SIZE_LSB, COMMAND_SIZE_BITS, COMMAND_WORD = 24, 20, 3, 2
FIRST_REGISTER = 0x1000  # number of x0 in a command; the numbers of CSRs are lower


class Sbcs(IntFlag):
    BUSYERROR = 1 << 22
    BUSY = 1 << 21
    READONADDR = 1 << 20
    AUTOINCREMENT = 1 << 16
    READONDATA = 1 << 15


SBCS_VERSION, SBCS_SIZES, SBCS_ASIZE_LSB = 1 << 29, 0b111, 5
SBCS_ACCESS_LSB, SBCS_ACCESS_BITS, SBCS_ERROR_LSB = 17, 3, 12


class SbError(IntEnum):
    """Outcome of a system bus access: field sberror of sbcs."""

    NONE = 0
    BAD_ADDRESS = 2
    ALIGNMENT = 3
    SIZE = 4


SBERROR_BITS = 3


class Place(IntEnum):
    """Byte offsets in the memory of the debug module, which halted harts execute and write."""

    HALTED = 0x100  # a word per hart, written on halting and at the end of a command
    GOING = 0x180  # written when the transfer of a command is done
    RESUMING = 0x200  # a word per hart, written on resuming
    EXCEPTION = 0x280  # written when a command raises an exception
    ABSTRACT = 0x344  # code of an abstract command, directly before the program buffer
    PROGRAM = 0x360
    DATA = 0x384  # behind the ebreak that follows the program buffer
    FLAGS = 0x400  # a word per hart with the orders to it, see Flag
    ROM = 0x800


ABSTRACT_WORDS = (Place.PROGRAM - Place.ABSTRACT) // WORD_BYTES

TRAP_OFFSET = WORD_BYTES  # bytes from the entry of the ROM to the entry of exceptions


class Flag(IntFlag):
    """Orders of the debug module to a halted hart: execute the abstract command, resume."""

    GO = 1
    RESUME = 2


class TapRegister(IntEnum):
    """Instruction codes of the JTAG test access port."""

    IDCODE = 0x01
    DTMCS = 0x10
    DMI = 0x11
    BYPASS = 0x1F


IR_BITS = 5
DTMCS_VERSION, DTMCS_ABITS_LSB, DTMCS_STAT_LSB, DTMCS_IDLE_LSB = 1, 4, 10, 12
DTMCS_DMIRESET, DTMCS_DMIHARDRESET = 1 << 16, 1 << 17
IDLE_CYCLES = 5  # cycles in Run-Test/Idle that an access needs: two crossings between clocks of equal period
IDCODE = 0x1003_2001  # version, part and manufacturer; no manufacturer is registered
