"""The program that the testbench of the core runs, with what it must leave in memory, by the simulator."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from xpulpnn.config import CoreConfig
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.isa.machine import BYTE_BITS, ENTRY, VECTORS, WORD_BYTES, XLEN
from xpulpnn_sim.publishing.packages import core_checks
from xpulpnn_sim.publishing.packages.core_checks import (
    DEVICE_BASE,
    EXPECTED_AT,
    MEMORY_BASE,
    MEMORY_WORDS,
    NOWHERE,
    OPERANDS,
    OPERANDS_AT,
    PLACES,
    RESULTS_AT,
    CoreChecks,
)
from xpulpnn_sim.publishing.packages.design import listing, little_endian_words
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sw.assembly.asm import Assembled, assemble

FILTERS, PIXELS, WORDS = 4, 2, 6  # rows of weights and activations, and words of a row

_SPARE = 1  # words behind a row: the loops with Mac&Load fetch one ahead

_ROW = (WORDS + _SPARE) * WORD_BYTES
_SUMS = ("a2", "a3", "a4", "a5", "a6", "a7", "s2", "s3")  # Accumulators, filter by filter

_WEIGHTS = ("s4", "s5", "s6", "s7")  # pointers to the rows of weights

_ACTIVATIONS = ("s8", "s9")  # pointers to the rows of activations

_SHIFT = 6
_RELOAD_ACTIVATION, _RELOAD_WEIGHT, _WEIGHT_LSB = 8, 16, 1


def matrix_products(checks: CoreChecks) -> None:
    """A product per element width; bytes, one by one, without any."""
    for fmt in ElemFmt:
        if fmt.width in checks.config.widths:
            _product(checks, fmt, _packed_loop(checks, fmt))
    if not checks.config.widths:
        _product(checks, ElemFmt.B, _scalar_loop(), byte_at_a_time=True)


def _product(checks: CoreChecks, fmt: ElemFmt, loop: str, *, byte_at_a_time: bool = False) -> None:
    pointers = (*_WEIGHTS, *_ACTIVATIONS)
    checks.code("; ".join(f"li {name}, operands + {row * _ROW}" for row, name in enumerate(pointers)))
    checks.code("; ".join(f"li {name}, 0" for name in _SUMS))
    checks.code(loop)
    for number, name in enumerate(_SUMS):
        text = f"filter {number // PIXELS}, pixel {number % PIXELS}, {fmt.width} bit"
        checks.code(f"    {name} => sum of {text}")
        if not byte_at_a_time:
            checks.code(f"    srai {name}, {name}, {_SHIFT}; p.clipui {name}, {name}, {min(fmt.width + 1, 31)}")
            checks.code(f"    {name} => requantised, {text}")


def _packed_loop(checks: CoreChecks, fmt: ElemFmt) -> str:
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


def requantisations(checks: CoreChecks) -> None:
    """pv.rqld of two words, pv.rq* of sums that are often near the bounds of the result."""
    for insn in (insn for insn in checks.insns if insn.requantises):
        assert insn.fmt is not None
        place = checks.random.randrange(OPERANDS - 2 * WORD_BYTES)
        checks.code(f"    li a0, operands{place:+d}\n    pv.rqld 0, (a0!)\n    pv.rqld 1, (a0!)")
        checks.code(f"    a0 => pointer of pv.rqld\n    li a2, {checks.word()}")
        for _ in range(_EXECUTIONS):
            a, lane = checks.word(), checks.random.randrange(insn.fmt.lanes)
            scale = checks.random.randrange(XLEN - insn.fmt.width, XLEN + 1)
            if insn.is_exact:
                # of a product of 64 bits, with a zero point
                scale = checks.random.randrange(4) << BYTE_BITS | min(scale + XLEN - 2, 2 * XLEN - 1)
            checks.code(f"    li a0, {a}; li a1, {scale}\n    {insn.mnemonic} a2, a0, a1, {lane}")
        checks.code(f"    a2 => {insn.mnemonic} in {_EXECUTIONS} lanes")


_RELOADS_WEIGHT = 0b10000  # selector of a Mac&Load that reloads weight 0

_FAILED_IN_LOOP = """
    lp.setupi 0, 5, faulty_end
    addi a2, a2, 0
faulty_end:
    lw a1, 0(a0)
    => mcause of lw at the end of a hardware loop outside the memory
    => mepc of lw at the end of a hardware loop outside the memory
    csrr a2, lpcount0; lp.counti 0, 0
    a2 => lpcount0 after a fault of the last instruction of the body
"""


def failed_accesses(checks: CoreChecks) -> None:
    """A call of a place outside the memory, behind which the handler returns to the caller; loads and stores, behind
    which it goes on: registers stay as they were, in the instruction behind too."""
    checks.code("""
    li a0, nowhere; jalr ra, 0(a0)
    => mcause of a fetch outside the memory
    => mepc of a fetch outside the memory""")
    _fault(checks, "lw a1, 0(a0)")
    _fault(checks, "sw a1, 0(a0)")
    if checks.config.xpulpv2:
        _fault(checks, "p.lw a1, 4(a0!)")
        _fault(checks, "p.sw a1, 4(a0!)")
        checks.code(_FAILED_IN_LOOP)
    for insn in [insn for insn in checks.insns if insn.is_pair][:1]:
        text = f"{insn.mnemonic} a2, (a0!), 0, 1, 9"
        checks.code("    li a3, 170")
        _fault(checks, text)
        checks.code(f"    a3 => second sum after a fault of {text}")
    for insn in [insn for insn in checks.insns if insn.is_mac_load][:1]:
        operands = "(a0!), a2" if insn.op == "pv.cusdot" else f"(a0!), {_RELOADS_WEIGHT}"
        _fault(checks, f"{insn.mnemonic} a1, {operands}")


def _fault(checks: CoreChecks, text: str) -> None:
    """An access through a0 of a1 or into it, and an instruction behind that must wait for its fault."""
    checks.code(f"""
    li a0, nowhere; li a1, 85; li a2, 3
access_fault{len(checks.results)}:
    {text}
    addi a2, a2, 4
    => mcause of {text} outside the memory
    => mepc of {text} outside the memory
    a0 => base after a fault of {text}
    a1 => a1 after a fault of {text}
    a2 => the instruction behind a fault of {text} is executed once""")


_PASSED = 1
"""Word that ends the program when all is well; else it is twice the number of the first wrong result, plus 1."""

_SEED = 20

DRIVEN_HART_ID = 0x25  # what the testbench drives on `hart_id`

_RESULT = 3  # gp, which walks through the results

_END = """
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


def core_program(config: CoreConfig) -> CoreProgram:
    """The program for a configuration: every instruction it has, control flow, CSRs, traps, matrix products."""
    checks = CoreChecks(config, random.Random(_SEED))
    checks.code(core_checks.AFTER_RESET)
    core_checks.computations(checks)
    core_checks.loads(checks)
    core_checks.stores(checks)
    core_checks.mac_loads(checks)
    core_checks.quantisation(checks)
    requantisations(checks)
    core_checks.branches(checks)
    checks.code(core_checks.JUMPS)
    checks.code(core_checks.HARDWARE_LOOPS if config.xpulpv2 else "")
    checks.code(core_checks.CSR_ACCESSES)
    checks.code(core_checks.COUNTED_LOADS if config.performance_counters else "")
    core_checks.exceptions(checks)
    failed_accesses(checks)
    core_checks.interrupts(checks)
    matrix_products(checks)
    end = _END.format(count=len(checks.results), passed=_PASSED)
    source = [
        *(f"    .equ {name}, {place}" for name, place in PLACES.items()),
        # exceptions and software interrupts without a number enter at the first word of the vector table
        "    j exception",
        *["    j interrupt"] * (VECTORS - 1),
        "start:",
        "    li gp, results",
        "    li sp, stack",
        *checks.lines,
        *end.strip("\n").splitlines(),
        *core_checks.TRAP_HANDLERS.strip("\n").splitlines(),
    ]
    program = assemble("\n".join(source), MEMORY_BASE)
    assert program.labels["start"] == ENTRY
    image = _image(program, checks.operands)
    expected = _stored(config, image, program.labels["compare"], len(checks.results))
    image[EXPECTED_AT // WORD_BYTES : EXPECTED_AT // WORD_BYTES + len(expected)] = expected
    return CoreProgram(
        image=image,
        listing=listing(program, source, checks.insns),
        expected=expected,
        texts=checks.results,
    )


def _image(program: Assembled, operands: bytes) -> list[int]:
    code = program.to_bytes()
    assert len(code) <= OPERANDS_AT
    words = [0] * MEMORY_WORDS
    for place, part in ((0, little_endian_words(code)), (OPERANDS_AT, little_endian_words(operands))):
        words[place // WORD_BYTES : place // WORD_BYTES + len(part)] = part
    return words


def _stored(config: CoreConfig, image: Sequence[int], end: int, count: int) -> list[int]:
    """The results of the program on the simulator, until it comes to its ``end``."""
    memory = Memory([(MEMORY_BASE, len(image) * WORD_BYTES), (DEVICE_BASE, 4 * WORD_BYTES)])
    memory.errors = ((NOWHERE, 4 * WORD_BYTES),)
    memory.write_bytes(MEMORY_BASE, b"".join(word.to_bytes(WORD_BYTES, "little") for word in image))
    hart = Iss.of(config, ENTRY, hart_id=DRIVEN_HART_ID, memory=memory)

    def drive(_address: int, _size: int) -> None:
        hart.csrs.irq = memory.read(PLACES["lines"], WORD_BYTES)
        hart.halt()

    memory.watch(DEVICE_BASE)
    memory.watchers.append(drive)
    while hart.state.pc != end:
        if not hart.burst(MEMORY_WORDS, end):
            hart.step()
        if hart.state.asleep:
            hart.csrs.irq = memory.read(PLACES["lines_later"], WORD_BYTES)
    words = little_endian_words(memory.read_bytes(MEMORY_BASE + RESULTS_AT, EXPECTED_AT - RESULTS_AT))
    assert hart.state.regs[_RESULT] == MEMORY_BASE + RESULTS_AT + count * WORD_BYTES <= MEMORY_BASE + EXPECTED_AT
    return words[:count]
