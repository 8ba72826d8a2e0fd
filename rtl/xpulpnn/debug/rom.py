"""Instructions that the debug module offers to halted harts, assembled for the address of its memory."""

from typing import NamedTuple

from xpulpnn.debug.config import DebugConfig
from xpulpnn.isa.debug import DSCRATCH0, DSCRATCH1, MAX_HARTS, Flag, Place
from xpulpnn_sw.assembly.asm import assemble

_PAGE_LSB = 12
_SYMBOLS = {
    **{name.lower(): place.value for name, place in Place.__members__.items()},
    "dscratch0": DSCRATCH0,
    "dscratch1": DSCRATCH1,
    "resume_flag": Flag.RESUME.value,
    "last_hart": MAX_HARTS - 1,
}

# s0 and s1 of the hart are in dscratch while it executes the ROM: an exception in the transfer of a command leaves them
# there, whereas after an exception in the program buffer they must be saved first.
_ROM = """
    j enter
trap:
    j in_program
in_program:
    csrw dscratch0, s0
    csrw dscratch1, s1
in_transfer:
    lui s0, page
    sw zero, exception(s0)
    j entered
enter:
    csrw dscratch0, s0
    csrw dscratch1, s1
entered:
    csrr s0, mhartid
    andi s0, s0, last_hart
    slli s0, s0, 2
    lui s1, page
    add s0, s0, s1
    sw zero, halted(s0)
wait:
    lw s1, flags(s0)
    beqz s1, wait
    andi s1, s1, resume_flag
    beqz s1, abstract
    sw zero, resuming(s0)
    csrr s1, dscratch1
    csrr s0, dscratch0
    dret
"""

_COMMAND = """
    lui s0, page
    nop
    nop
    sw zero, going(s0)
    csrr s1, dscratch1
    csrr s0, dscratch0
    ebreak
"""

# the register or CSR number 0 is replaced by the actual number
_TRANSFERS = """
    csrr s1, 0
    csrw 0, s1
    sw x0, data(s0)
    lw x0, data(s0)
    sw s1, data(s0)
    lw s1, data(s0)
"""


class Transfers(NamedTuple):
    """Instructions that move registers and CSRs; in the first four the register or CSR number is 0, to be filled in."""

    read_csr: int
    write_csr: int
    store_register: int
    load_register: int
    store_s1: int
    load_s1: int


class DebugCode(NamedTuple):
    rom: tuple[int, ...]  # entry, exceptions, waiting and resuming
    trap_in_transfer: int  # first instruction for exceptions while the transfer of a command is not done
    command: tuple[int, ...]  # an abstract command; its transfer replaces the second and third word
    transfers: Transfers

    @classmethod
    def of(cls, config: DebugConfig) -> "DebugCode":
        symbols = _SYMBOLS | {"page": config.base >> _PAGE_LSB}
        header = "".join(f".equ {name}, {value}\n" for name, value in symbols.items())
        rom = assemble(header + _ROM, Place.ROM)
        again = assemble(f"{header}.equ in_transfer, {rom.labels['in_transfer']}\nj in_transfer", rom.labels["trap"])
        command = assemble(header + _COMMAND, Place.ABSTRACT)
        return cls(
            tuple(rom.words), again.words[0], tuple(command.words), Transfers(*assemble(header + _TRANSFERS).words)
        )


NOTHING = assemble("nop").words[0]
