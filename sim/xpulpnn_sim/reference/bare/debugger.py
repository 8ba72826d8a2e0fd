"""Programs that halted cores execute in tests without a debug module."""

from xpulpnn.isa.debug import DEBUG_BASE, DEBUG_BYTES
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.reference.programs.elf import Segment
from xpulpnn_sw.assembly.asm import assemble

BASE, SIZE = DEBUG_BASE, DEBUG_BYTES
HALT, EXCEPTION = BASE + 0x800, BASE + 0x808
"""Entry addresses of debug mode after a halt and after an exception. Data is at lower addresses."""

FAILING = (BASE + 0x7F0, 16)  # address and size of data with bus errors

STEPPING = """
    # a word at random, after some of which all begins again by ebreak
    csrrw zero, dscratch0, a0; csrrw zero, dscratch1, a1; lui a0, 0x1a110; sw a2, 0x20(a0)
    lw a1, 0(a0); slli a2, a1, 13; xor a1, a1, a2; srli a2, a1, 17; xor a1, a1, a2; slli a2, a1, 5; xor a1, a1, a2
    sw a1, 0(a0); andi a2, a1, 0x1c; bne a2, zero, once
    lw a2, 0x20(a0); csrrs a1, dscratch1, zero; csrrs a0, dscratch0, zero; ebreak
    once:
    # entries are counted, by cause
    csrrs a2, dcsr, zero; srli a2, a2, 4; andi a2, a2, 0x1c; add a2, a2, a0
    lw a1, 0x40(a2); addi a1, a1, 1; sw a1, 0x40(a2)
    # what debug mode treats in its own way
    lw a1, 0(a0); andi a2, a1, 0x60; bne a2, zero, calm
    wfi; andi a2, a1, 0x180; beq a2, zero, illegal; addi a2, a2, -0x80; beq a2, zero, unread
    ecall
    illegal: .half 0
    unread: lw a1, 0x7f0(a0)
    failed: lui a0, 0x1a110; lw a1, 0x60(a0); addi a1, a1, 1; sw a1, 0x60(a0)
    jal zero, stepping
    calm:
    # triggers are off behind one, else set now and then: to where the last halt was, or to data
    lw a1, 0(a0); csrrs a2, dcsr, zero; slli a2, a2, 23; srli a2, a2, 29; addi a2, a2, -2; bne a2, zero, untriggered
    csrrwi zero, tselect, 0; csrrwi zero, tdata1, 0; csrrwi zero, tselect, 1; csrrwi zero, tdata1, 0; jal zero, watched
    untriggered: andi a2, a1, 0x600; bne a2, zero, watched; csrrw zero, tselect, a1
    lw a2, 0x64(a0); slli a1, a1, 3; blt a1, zero, placed; srli a1, a1, 24; lui a2, 0x10002; add a2, a2, a1
    placed: csrrw zero, tdata2, a2
    lw a1, 0(a0); srli a1, a1, 20; andi a1, a1, 7; ori a1, a1, 0x40; csrrw zero, tdata1, a1
    watched: csrrs a2, dpc, zero; sw a2, 0x64(a0)
    stepping:
    # steps are left, or are drawn
    lw a2, 4(a0); beq a2, zero, chooses
    addi a2, a2, -1; sw a2, 4(a0); bne a2, zero, resumes
    csrrci zero, dcsr, 4; jal zero, resumes
    chooses:
    lw a1, 0(a0); slli a2, a1, 22; blt a2, zero, resumes
    srli a2, a1, 12; andi a2, a2, 15; addi a2, a2, 1; sw a2, 4(a0); csrrsi zero, dcsr, 4
    lui a2, 1; srli a2, a2, 1; csrrc zero, dcsr, a2; slli a1, a1, 20; blt a1, zero, resumes
    csrrs zero, dcsr, a2
    resumes: lw a2, 0x20(a0); csrrs a1, dscratch1, zero; csrrs a0, dscratch0, zero; dret
"""
"""A debug program that executes some instructions of the halted program one by one, or none, and resumes it. It must
not change the results of the halted program."""


def debugger(text: str, seed: int = 0) -> Segment:
    """Return the memory that stands in for the debug module: the program that runs in debug mode, which jumps to its
    label ``failed`` on exceptions, and its data. The first word of the data is ``seed``, or 1 if ``seed`` is 0."""
    head = "jal zero, halted\n.word 0\njal zero, failed\nhalted:\n"
    code = assemble(head + text.replace(";", "\n"), HALT).to_bytes()
    data = (seed or 1).to_bytes(WORD_BYTES, "little").ljust(HALT - BASE, b"\0")
    return Segment(BASE, data + code, SIZE)
