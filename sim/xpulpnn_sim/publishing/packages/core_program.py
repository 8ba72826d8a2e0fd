"""The program that the testbench of the core runs, with what it must leave in memory."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import ENTRY, VECTORS, WORD_BYTES, WORD_MASK
from xpulpnn_sim.publishing.packages import access_faults, arithmetic, control_flow
from xpulpnn_sim.publishing.packages.checks import Checks
from xpulpnn_sim.publishing.packages.listing import listing, little_endian_words
from xpulpnn_sim.publishing.packages.matrix_product import matrix_products
from xpulpnn_sim.publishing.packages.memory_map import (
    EXPECTED_AT,
    MEMORY_BASE,
    MEMORY_WORDS,
    OPERANDS_AT,
    RESULTS_AT,
    places,
)
from xpulpnn_sim.publishing.packages.requantisation import requantisations
from xpulpnn_sw.assembly.asm import Assembled, assemble

_PASSED = 1
"""Word that ends the program when all is well; else it is twice the number of the first wrong result, plus 1."""

_SEED = 20

_START = """
start:
    li gp, results
    li sp, stack
"""

_END = """
    # compare what was stored with what it must be
    li a0, results; li a1, expected; li a2, {count}; li a3, 0
compare:
    addi a3, a3, 1
    lw a4, 0(a0); lw a5, 0(a1)
    bne a4, a5, wrong
    addi a0, a0, 4; addi a1, a1, 4
    bne a3, a2, compare
    li a4, {passed}
    bne gp, a0, wrong
    j report
wrong:
    slli a4, a3, 1; ori a4, a4, 1
report:
    li a5, device; sw a4, 0(a5)
stay:
    j stay
"""


@dataclass(frozen=True, slots=True)
class CoreProgram:
    """A program and its results."""

    image: list[int]  # words of the memory from MEMORY_BASE on
    listing: str
    expected: list[int]  # words that must stand from `MEMORY_BASE + RESULTS_AT` on
    texts: list[str]
    interrupts: int


def _vectors() -> list[str]:
    """The vector table: exceptions and software interrupts without a number enter at the first word."""
    return ["    j exception", *["    j interrupt"] * (VECTORS - 1)]


def core_program(config: CoreConfig) -> CoreProgram:
    """The program for a configuration: every instruction it has, control flow, CSRs, traps, matrix products."""
    checks = Checks(config, random.Random(_SEED))
    control_flow.after_reset(checks)
    arithmetic.computations(checks)
    arithmetic.loads(checks)
    arithmetic.stores(checks)
    arithmetic.mac_loads(checks)
    arithmetic.quantisation(checks)
    requantisations(checks)
    control_flow.branches(checks)
    control_flow.jumps(checks)
    control_flow.compressed(checks)
    if config.xpulpv2:
        control_flow.hardware_loops(checks)
    control_flow.csr_accesses(checks)
    control_flow.exceptions(checks)
    access_faults.failed_fetch(checks)
    access_faults.failed_accesses(checks)
    interrupts = control_flow.interrupts(checks)
    matrix_products(checks)
    end = _END.format(count=len(checks.results), passed=_PASSED)
    source = [
        *(f"    .equ {name}, {place}" for name, place in places().items()),
        *_vectors(),
        *_START.strip("\n").splitlines(),
        *checks.lines,
        *end.strip("\n").splitlines(),
        *control_flow.TRAP_HANDLERS.strip("\n").splitlines(),
    ]
    program = assemble("\n".join(source), MEMORY_BASE)
    assert program.labels["start"] == ENTRY
    expected = [
        (check.expected(program.labels) if callable(check.expected) else check.expected) & WORD_MASK
        for check in checks.results
    ]
    return CoreProgram(
        image=_image(program, checks.operands, expected),
        listing=listing(program, source, checks.insns),
        expected=expected,
        texts=[check.text for check in checks.results],
        interrupts=interrupts,
    )


def _image(program: Assembled, operands: bytes, expected: Sequence[int]) -> list[int]:
    code = program.to_bytes()
    assert len(code) <= OPERANDS_AT
    assert len(expected) * WORD_BYTES <= EXPECTED_AT - RESULTS_AT
    words = [0] * MEMORY_WORDS
    parts = ((0, little_endian_words(code)), (OPERANDS_AT, little_endian_words(operands)), (EXPECTED_AT, expected))
    for place, part in parts:
        words[place // WORD_BYTES : place // WORD_BYTES + len(part)] = part
    return words
