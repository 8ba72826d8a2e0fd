"""Golden model of the debug module's memory, which halted harts execute."""

from collections.abc import Mapping, Sequence

from xpulpnn.isa.debug import DEBUG_BYTES, DSCRATCH0, DSCRATCH1, FIRST_REGISTER, MAX_HARTS, Command, Flag, Place
from xpulpnn.isa.machine import WORD_BYTES

NOP, EBREAK = 0x0000_0013, 0x0010_0073
# the park loop, assembled by GNU as, and the instructions around the transfer of a command
_ROM = """
    01c0006f 0040006f 7b241073 7b349073 1a110437 28042023 00c0006f 7b241073 7b349073 f1402473 01f47413 00241413
    1a1104b7 00940433 10042023 40042483 fe048ee3 0024f493 ae048ee3 20042023 7b3024f3 7b202473 7b200073
"""
_TRAP_IN_TRANSFER = 0x00C0_006F  # j in_transfer
_BEFORE, _BEHIND = (0x1A11_0437,), (0x1804_2023, 0x7B30_24F3, 0x7B20_2473)
_SW, _LW, _CSRR_S1, _CSRW_S1 = 0x3804_2223, 0x3844_2003, 0x0000_24F3, 0x0004_9073  # of data0, by way of s0
_RD_LSB, _RS2_LSB, _CSR_LSB = 7, 20, 20
_SAVED = {8: DSCRATCH0, 9: DSCRATCH1}


def _transfer_of(command: int) -> tuple[int, int]:
    """Return the two instructions that transfer a register or CSR between the hart and the debug module's data."""
    number, write = command & 0xFFFF, command & Command.WRITE
    if not command & Command.TRANSFER:
        return NOP, NOP
    register = number - FIRST_REGISTER
    if register >= 0 and register not in _SAVED:
        return (_LW | register << _RD_LSB if write else _SW | register << _RS2_LSB), NOP
    csr = _SAVED.get(register, number) << _CSR_LSB
    return (_LW | 9 << _RD_LSB, _CSRW_S1 | csr) if write else (_CSRR_S1 | csr, _SW | 9 << _RS2_LSB)


def command_code(command: int) -> list[int]:
    """Return the instructions of an abstract command that precede the program buffer."""
    return [*_BEFORE, *_transfer_of(command), *_BEHIND, NOP if command & Command.POSTEXEC else EBREAK]


def memory_words(
    command: int, program: Sequence[int], data: Sequence[int], flags: Mapping[int, Flag], harts: int
) -> list[int]:
    """Return the debug module's memory for the command register ``command`` and the requests ``flags``."""
    words = [0] * (DEBUG_BYTES // WORD_BYTES)
    rom = [int(word, 16) for word in _ROM.split()]
    if Flag.GO in flags.values():
        rom[1] = _TRAP_IN_TRANSFER
    aliases = 1 << (harts - 1).bit_length()  # hart numbers are decoded with the fewest bits possible
    orders = [flags.get(place % aliases, 0) for place in range(MAX_HARTS)]
    code = [*command_code(command), *program, EBREAK, *data]
    for place, row in ((Place.ABSTRACT, code), (Place.FLAGS, orders), (Place.ROM, rom)):
        first = place // WORD_BYTES
        words[first : first + len(row)] = row
    return words
