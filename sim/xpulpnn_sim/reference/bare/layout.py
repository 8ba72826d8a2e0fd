"""Memory map and register roles of the bare programs.

A program uses the whole machine: vector tables, handlers and code in one block, data in another, and a page at address
0 for accesses whose base is x0.
"""

from xpulpnn.isa.machine import DATA_BASE, TEXT_BASE

SECOND_TABLE = TEXT_BASE + 0x100  # second vector table, for programs that write mtvec
LOW_BASE, LOW_SIZE = 0, 0x1000
FAR, FAR_SIZE = (0x55555000, 0xAAAAA000, 0xE3FFF000), 0x1000
"""Base addresses and size of three more memory areas. Every address bit is 0 in one base address and 1 in another."""

DATA_SIZE = 0x8000
WINDOW = DATA_BASE + 0x2000  # where masked base registers point: this address plus at most `WINDOW_MASK`
WINDOW_MASK = 0xFF  # small, so that accesses collide, and odd, so that they are misaligned
FRAME = DATA_BASE + 0x5000  # value of sp
SLOTS, SLOT_COUNT = 0x180, 8  # offset from sp of words through which constants become loaded values; their number
SAVE_AREA, SAVE_LIMIT = DATA_BASE + 0x6000, DATA_BASE + 0x6400
"""Address where handlers save registers, and the address up to which interrupts may nest."""
SIGNATURE = DATA_BASE + 0x7000
TOHOST = DATA_BASE + 0x7F00
UNFETCHED = (DATA_BASE + 0x7C00, 0x100)
"""Address and size of words that programs try to execute and that cannot be fetched."""
FAILING = (WINDOW + 0x58, 8)  # words with bus errors that random accesses hit sometimes
FAR_FAILING = tuple((base + FAR_SIZE - 0x40, 0x40) for base in FAR)  # last words of the further memory, with bus errors
BUS_ERRORS = (UNFETCHED, FAILING, *FAR_FAILING)
RA, SP, MASK, BASE, LINK = 1, 2, 3, 4, 5
"""Numbers of the registers for the return address, the stack frame, the constant mask and base of the window, and a
second return address."""
SCRATCH = 6  # address or count for the next instruction; no random instruction writes it
COUNTER, SHORT_COUNTER = 7, 15  # counters of branch loops; compressed branches reach the second
SAVE, HANDLER = 30, 31  # pointer to the save area, never touched outside handlers; work register of the handlers
POOL = tuple(range(8, 15))
"""Registers of random instructions: only a few, so that there are many dependences, and all encodable in compressed
instructions."""
RARE = tuple(range(16, 30))  # registers used sometimes
SHIFTS = {8: 16, 4: 17, 2: 18}
"""Registers that hold the shift of requantisations, by the width of the results. With these shifts many results are in
range. No random instruction writes these registers."""
