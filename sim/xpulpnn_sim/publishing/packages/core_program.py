"""The program that the testbench of the core runs, with what it must leave in memory."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from xpulpnn.config import CoreConfig
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import ENTRY, FIRST_PARAMETER, VECTORS, WORD_BYTES, WORD_MASK, XLEN, ExceptionCause
from xpulpnn_sim.publishing.packages import arithmetic, control_flow
from xpulpnn_sim.publishing.packages.arithmetic import (
    EXPECTED_AT,
    MEMORY_BASE,
    MEMORY_WORDS,
    NOWHERE,
    OPERANDS_AT,
    RESULTS_AT,
    ArithmeticChecks,
    check_places,
    hart,
)
from xpulpnn_sim.publishing.packages.design import listing, little_endian_words
from xpulpnn_sim.publishing.packages.units import dot_product_vectors
from xpulpnn_sim.reference.statements.text import sx, zx
from xpulpnn_sw.assembly.asm import Assembled, assemble

FILTERS, PIXELS, WORDS = 4, 2, 6  # rows of weights and activations, and words of a row

_SPARE = 1  # words behind a row: the loops with Mac&Load fetch one ahead

_ROW = (WORDS + _SPARE) * WORD_BYTES
_SUMS = ("a2", "a3", "a4", "a5", "a6", "a7", "s2", "s3")  # Accumulators, filter by filter

_WEIGHTS = ("s4", "s5", "s6", "s7")  # pointers to the rows of weights

_ACTIVATIONS = ("s8", "s9")  # pointers to the rows of activations

_SHIFT = 6
_RELOAD_ACTIVATION, _RELOAD_WEIGHT, _WEIGHT_LSB = 8, 16, 1


def matrix_products(checks: ArithmeticChecks) -> None:
    """A product per element width; bytes, one by one, without any."""
    for fmt in ElemFmt:
        if fmt.width in checks.config.widths:
            _product(checks, fmt, _packed_loop(checks, fmt))
    if not checks.config.widths:
        _product(checks, ElemFmt.B, _scalar_loop(), byte_at_a_time=True)


def _product(checks: ArithmeticChecks, fmt: ElemFmt, loop: str, *, byte_at_a_time: bool = False) -> None:
    kind = "one element at a time" if byte_at_a_time else f"packed elements of {fmt.width} bit"
    checks.title(f"matrix product, {FILTERS} filters, {PIXELS} pixels, {kind}")
    rows = [checks.operands[row * _ROW : row * _ROW + WORDS * WORD_BYTES] for row in range(FILTERS + PIXELS)]
    pointers = (*_WEIGHTS, *_ACTIVATIONS)
    checks.code("; ".join(f"li {name}, operands + {row * _ROW}" for row, name in enumerate(pointers)))
    checks.code("; ".join(f"li {name}, 0" for name in _SUMS))
    checks.code(loop)
    for number, name in enumerate(_SUMS):
        weights, activations = rows[number // PIXELS], rows[FILTERS + number % PIXELS]
        total = sum(
            dot_product_vectors(fmt, _word(activations, place), _word(weights, place), a_signed=False, b_signed=True)
            for place in range(WORDS)
        )
        text = f"filter {number // PIXELS}, pixel {number % PIXELS}, {fmt.width} bit"
        checks.expect(name, zx(total, XLEN), f"sum of {text}")
        if not byte_at_a_time:
            top = (1 << fmt.width) - 1
            checks.code(f"    srai {name}, {name}, {_SHIFT}; p.clipui {name}, {name}, {min(fmt.width + 1, 31)}")
            checks.expect(name, min(max(sx(total, XLEN) >> _SHIFT, 0), top), f"requantised, {text}")


def _word(row: bytes, place: int) -> int:
    return int.from_bytes(row[place * WORD_BYTES : (place + 1) * WORD_BYTES], "little")


def _packed_loop(checks: ArithmeticChecks, fmt: ElemFmt) -> str:
    config = checks.config
    if config.mac_load_nn:
        return _nn_loop(fmt)
    return _cu_loop(fmt) if config.mac_load_cu else _simd_loop(fmt)


def _nn_loop(fmt: ElemFmt) -> str:
    """Both factors from the NN-RF: nine instructions for eight products, the loads among them."""
    name = f"pv.mlsdotsup.{fmt.suffix}"

    def product(rd: str, pixel: int, row: int, reload: int = 0) -> str:
        base = _ACTIVATIONS[pixel] if reload == _RELOAD_ACTIVATION else _WEIGHTS[row]
        return f"    {name} {rd}, ({base}!), {pixel | row << _WEIGHT_LSB | reload}"

    fill = [product("x0", 0, row, _RELOAD_WEIGHT) for row in range(FILTERS)]
    fill += [product("x0", pixel, 0, _RELOAD_ACTIVATION) for pixel in range(PIXELS)]
    body: list[str] = []
    for row in range(FILTERS):
        last = row == FILTERS - 1
        reloads = (_RELOAD_ACTIVATION, _RELOAD_ACTIVATION) if last else (0, _RELOAD_WEIGHT)
        body += [product(_SUMS[row * PIXELS + pixel], pixel, row, reloads[pixel]) for pixel in range(PIXELS)]
    end = product("x0", 0, FILTERS - 1, _RELOAD_WEIGHT)
    return "\n".join([*fill, f"    lp.setupi 0, {WORDS}, 1f", *body, f"1:{end[2:]}"])


def _cu_loop(fmt: ElemFmt) -> str:
    """Weights in the NN-RF, activations in a register, one pixel after the other."""
    name = f"pv.cusdotusp.{fmt.suffix}"
    lines: list[str] = []
    for pixel in range(PIXELS):
        lines += [f"    li {base}, operands + {row * _ROW}" for row, base in enumerate(_WEIGHTS)]
        lines += [f"    {name}.{row} x0, ({base}!), x0" for row, base in enumerate(_WEIGHTS)]
        lines += [f"    li a0, {WORDS}", "    lp.setup 0, a0, 1f", f"    p.lw a1, 4({_ACTIVATIONS[pixel]}!)"]
        body = [f"{name}.{row} {_SUMS[row * PIXELS + pixel]}, ({base}!), a1" for row, base in enumerate(_WEIGHTS)]
        lines += [f"{'1:' if row == FILTERS - 1 else '':4}{text}" for row, text in enumerate(body)]
    return "\n".join(lines)


def _simd_loop(fmt: ElemFmt) -> str:
    """All words in registers, loaded with post-increment."""
    words = ("t0", "t1", "t2", "t3")
    lines = [f"    li a0, {WORDS}", "    lp.setup 0, a0, 1f"]
    lines += [f"    p.lw {word}, 4({base}!)" for word, base in zip(words, _WEIGHTS, strict=True)]
    lines += [f"    p.lw {word}, 4({base}!)" for word, base in zip(("t4", "s10"), _ACTIVATIONS, strict=True)]
    body = [
        f"pv.sdotusp.{fmt.suffix} {_SUMS[row * PIXELS + pixel]}, {activation}, {word}"
        for row, word in enumerate(words)
        for pixel, activation in enumerate(("t4", "s10"))
    ]
    return "\n".join([*lines, *(f"    {text}" for text in body[:-1]), f"1:  {body[-1]}"])


def _scalar_loop() -> str:
    """A load for every factor, a multiplication and an addition."""
    lines = [f"    li a0, {WORDS * WORD_BYTES}", "1:"]
    pairs = zip(("t4", "s10"), _ACTIVATIONS, strict=True)
    lines += [f"    lbu {word}, 0({base}); addi {base}, {base}, 1" for word, base in pairs]
    for row, base in enumerate(_WEIGHTS):
        lines.append(f"    lb t0, 0({base}); addi {base}, {base}, 1")
        for pixel, activation in enumerate(("t4", "s10")):
            name = _SUMS[row * PIXELS + pixel]
            lines.append(f"    mul t1, t0, {activation}; add {name}, {name}, t1")
    return "\n".join([*lines, "    addi a0, a0, -1", "    bne a0, x0, 1b"])


_EXECUTIONS = 6
"""Cases of each instruction, in lanes of one register: some in a row, without waiting for each other's results."""


def requantisations(checks: ArithmeticChecks) -> None:
    """pv.rqld of two words, pv.rq* of sums that are often near the bounds of the result."""
    rows = [insn for insn in checks.insns if insn.requantises]
    if not rows:
        return
    checks.title("requantisation: factor and summand loaded, sums scaled, shifted, clipped and put into lanes")
    for insn in rows:
        assert insn.fmt is not None
        place = checks.random.randrange(len(checks.operands) - 2 * WORD_BYTES)
        checks.code(f"    li a0, operands{place:+d}\n    pv.rqld 0, (a0!)\n    pv.rqld 1, (a0!)")
        checks.expect("a0", check_places()["operands"] + place + 2 * WORD_BYTES, "pointer of pv.rqld")
        parameters = [
            int.from_bytes(checks.operands[at : at + WORD_BYTES], "little") for at in (place, place + WORD_BYTES)
        ]
        machine = hart(checks, [0] * FIRST_PARAMETER + parameters)
        machine.regs[12] = checks.word()
        checks.code(f"    li a2, {machine.regs[12]}")
        for _ in range(_EXECUTIONS):
            a, lane = checks.word(), checks.random.randrange(insn.fmt.lanes)
            places_shifted = checks.random.randrange(XLEN - insn.fmt.width, XLEN + 1)
            machine.regs[10:12] = a, places_shifted
            machine.execute(insn, insn.encode(rd=12, rs1=10, rs2=11, lane=lane))
            checks.code(f"    li a0, {a}; li a1, {places_shifted}\n    {insn.mnemonic} a2, a0, a1, {lane}")
        checks.expect("a2", machine.regs[12], f"{insn.mnemonic} in {_EXECUTIONS} lanes")


_RELOADS_WEIGHT = 0b10000  # selector of a Mac&Load that reloads weight 0


def failed_fetch(checks: ArithmeticChecks) -> None:
    """A call of a place outside the memory; the handler returns to the caller."""
    checks.title("instruction access fault")
    checks.code("    li a0, nowhere; jalr ra, 0(a0)")
    checks.stored(ExceptionCause.INSTRUCTION_ACCESS_FAULT.value, "mcause of a fetch outside the memory")
    checks.stored(lambda labels: labels["nowhere"], "mepc of a fetch outside the memory")


def failed_accesses(checks: ArithmeticChecks) -> None:
    """Loads and stores of a place outside the memory; the handler goes on behind them."""
    checks.title("load and store access faults: registers stay as they were, in the instruction behind too")
    _fault(checks, "lw a1, 0(a0)")
    _fault(checks, "sw a1, 0(a0)", store=True)
    if checks.config.xpulpv2:
        _fault(checks, "p.lw a1, 4(a0!)")
        _fault(checks, "p.sw a1, 4(a0!)", store=True)
        checks.code("    lp.setupi 0, 5, faulty_end\n    addi a2, a2, 0\nfaulty_end:\n    lw a1, 0(a0)")
        _stored_fault(checks, "faulty_end", "lw at the end of a hardware loop", store=False)
        checks.code("    csrr a2, lpcount0; lp.counti 0, 0")
        checks.expect("a2", 5, "lpcount0 after a fault of the last instruction of the body")
    for insn in [insn for insn in checks.insns if insn.is_mac_load][:1]:
        operands = "(a0!), a2" if insn.entry is not None else f"(a0!), {_RELOADS_WEIGHT}"
        _fault(checks, f"{insn.mnemonic} a1, {operands}")


def _fault(checks: ArithmeticChecks, text: str, *, store: bool = False) -> None:
    """An access through a0 of a1 or into it, and an instruction behind that must wait for its fault."""
    label = f"access_fault{len(checks.results)}"
    checks.code(f"    li a0, nowhere; li a1, 85; li a2, 3\n{label}:\n    {text}\n    addi a2, a2, 4")
    _stored_fault(checks, label, text, store=store)
    checks.expect("a0", NOWHERE, f"base after a fault of {text}")
    checks.expect("a1", 85, f"a1 after a fault of {text}")
    checks.expect("a2", 7, f"the instruction behind a fault of {text} is executed once")


def _stored_fault(checks: ArithmeticChecks, label: str, text: str, *, store: bool) -> None:
    cause = ExceptionCause.STORE_ACCESS_FAULT if store else ExceptionCause.LOAD_ACCESS_FAULT
    checks.stored(cause.value, f"mcause of {text} outside the memory")
    checks.stored(lambda labels: labels[label], f"mepc of {text} outside the memory")


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
    checks = ArithmeticChecks(config, random.Random(_SEED))
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
    failed_fetch(checks)
    failed_accesses(checks)
    interrupts = control_flow.interrupts(checks)
    matrix_products(checks)
    end = _END.format(count=len(checks.results), passed=_PASSED)
    source = [
        *(f"    .equ {name}, {place}" for name, place in check_places().items()),
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
