"""Debug mode of the core, with programs in the place of a debug module; expected values are those of the specification.

A program calls code of its own in debug mode: ``ebreak`` with the address in s10.
"""

import re
import struct
from dataclasses import replace
from typing import NamedTuple

import pytest

from xpulpnn.config import PRESETS
from xpulpnn.isa.csr import DebugCause
from xpulpnn.isa.machine import ENTRY
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import HALT, Machine
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.bare.debugger import BASE
from xpulpnn_sim.reference.bare.layout import BUS_ERRORS, FAILING, UNFETCHED
from xpulpnn_sim.reference.directed.case import directed
from xpulpnn_sim.verification.random.program_runs import CoreSource

pytestmark = [pytest.mark.cosim, pytest.mark.flow]

CONFIG = simulated(replace(PRESETS["xpulpnn2"], debug=True, nn_csrs=True))

MONITOR = """
    csrrw zero, dscratch0, a0; csrrw zero, dscratch1, a1; lui a0, 0x1a110; sw a2, 0x20(a0)
    # dpc and dcsr are logged
    lw a1, 4(a0); addi a2, a1, 8; sw a2, 4(a0); add a1, a1, a0
    csrrs a2, dpc, zero; sw a2, 0x100(a1); csrrs a2, dcsr, zero; sw a2, 0x104(a1)
    srli a2, a2, 6; andi a2, a2, 7; addi a1, a2, -1; beq a1, zero, called
    addi a1, a2, -3; bne a1, zero, stepped
    lui a1, 8; csrrs zero, dcsr, a1; jal zero, resumes
    # so many steps as word 8 says
    stepped: lw a1, 8(a0); addi a1, a1, -1; sw a1, 8(a0); bne a1, zero, resumes
    csrrci zero, dcsr, 4
    resumes: lui a0, 0x1a110; lw a2, 0x20(a0); csrrs a1, dscratch1, zero; csrrs a0, dscratch0, zero; dret
    # ebreak is left behind
    called: csrrs a1, dpc, zero; lhu a2, 0(a1); andi a2, a2, 3; addi a2, a2, -3; beq a2, zero, wide
    addi a1, a1, -2
    wide: addi a1, a1, 4; csrrw zero, dpc, a1
    csrrs a1, dscratch1, zero; csrrs a0, dscratch0, zero; beq s10, zero, resumes; jalr s9, 0(s10)
    # a0 and a1 are results of what was called
    lui a2, 0x1a110; lw a2, 0x20(a2); dret
    failed: lui a2, 0x1a110; lw s8, 0xc(a2); addi s8, s8, 1; sw s8, 0xc(a2); jalr zero, 0(s9)
"""
LOG, FAILED = 0x100, 0xC
ENTERED = 0x4000_0403  # dcsr behind reset, without cause
EBREAKM, STEPIE, STEP = 0x8000, 0x800, 4


class Outcome(NamedTuple):
    log: list[tuple[int, int]]
    failed: int
    symbols: dict[str, int]


def run(head, text, *, irqs=((0, HALT),), debugger=MONITOR, response_latency=1):
    case = directed(head, text)
    executable = case.program().executable()
    machine = Machine(
        irqs=irqs, debugger=debugger, max_cycles=30_000, bus_errors=BUS_ERRORS, response_latency=response_latency
    )
    result = run_program(executable, CONFIG, machine)
    assert result.exit.ok, result.exit.text
    assert case.problems(result.read) == []
    size, failed = (int.from_bytes(result.read(BASE + at, 4), "little") for at in (4, FAILED))
    words = struct.unpack(f"<{size // 4}I", result.read(BASE + LOG, size))
    log = list(zip(words[::2], words[1::2], strict=True))
    return Outcome(log, failed, executable.symbols)


def entered(cause, more=EBREAKM):
    return ENTERED | cause << 6 | more


def test_halt_on_reset_comes_before_the_first_instruction():
    outcome = run("reset", "li a0, 3 => a0 3")
    assert outcome.log == [(ENTRY, entered(DebugCause.HALT_REQUEST, 0))]


def test_registers_and_dret_are_illegal_outside_of_debug_mode():
    outcome = run(
        "outside",
        """
        li a0, 7; li a5, 0; la s2, 1f
        1: csrrs a0, dcsr, zero; csrrs a1, mcause, zero; csrrw zero, mcause, zero
        csrrw a0, dpc, a0; csrrs a2, mcause, zero; csrrw zero, mcause, zero
        csrrs a0, dscratch0, zero; csrrs a3, mcause, zero; csrrw zero, mcause, zero
        dret; csrrs a4, mcause, zero => a0 7, a1 2, a2 2, a3 2, a4 2
        csrrs s3, mepc, zero; sub s3, s3, s2 => s3 40
        """,
    )
    assert len(outcome.log) == 1


def test_registers_of_debug_mode():
    outcome = run(
        "inside",
        """
        jal zero, 2f
        1: li a0, -1; csrrs a1, dpc, zero; csrrw zero, dpc, a0; csrrs a3, dpc, zero; csrrw zero, dpc, a1
        csrrs a1, dcsr, zero; csrrw zero, dcsr, a0; csrrs a4, dcsr, zero; csrrw zero, dcsr, a1
        csrrw zero, dscratch1, a0; csrrs a5, dscratch1, zero
        jalr zero, 0(s9)
        2: la s10, 1b; li a2, 9; ebreak
        => a2 9, a3 0xfffffffe, a4 0x40008c47, a5 0xffffffff
        li a0, 0; li s10, 0; c.ebreak; c.addi a0, 5 => a0 5
        """,
    )
    assert [word for _, word in outcome.log[1:]] == [entered(DebugCause.EBREAK)] * 2


def test_exceptions_in_debug_mode_leave_no_trace():
    outcome = run(
        "exceptions",
        f"""
        jal zero, 8f
        1: ecall
        2: .half 0
        3: li a1, 0x{FAILING[0]:x}; lw a0, 0(a1); jalr zero, 0(s9)
        4: li a1, 0x{FAILING[0]:x}; sw a0, 0(a1); jalr zero, 0(s9)
        5: li a1, 0x{UNFETCHED[0]:x}; jalr zero, 0(a1)
        6: mret
        8: li a0, 0x5a; csrrw zero, mepc, a0; csrrwi zero, mcause, 7; csrrs s2, mstatus, zero
        la s10, 1b; ebreak
        la s10, 2b; ebreak
        la s10, 3b; ebreak
        la s10, 4b; ebreak
        la s10, 5b; ebreak
        la s10, 6b; ebreak
        csrrs a2, mepc, zero; csrrs a3, mcause, zero; csrrs s3, mstatus, zero; sub s3, s3, s2
        => a0 0x5a, a2 0x5a, a3 7, s3 0
        """,
    )
    assert outcome.failed == 6


def test_ebreak_in_debug_mode_begins_again():
    debugger = """
        lui a0, 8; csrrs zero, dcsr, a0
        lui a2, 0x1a110; lw s8, 0x10(a2); addi s8, s8, 1; sw s8, 0x10(a2); addi s8, s8, -5; bne s8, zero, 1f
        csrrs a0, dpc, zero; csrrs a1, dcsr, zero; sw a0, 0x100(a2); sw a1, 0x104(a2)
        addi a0, zero, 8; sw a0, 4(a2); dret
        1: ebreak
        failed: dret
    """
    outcome = run("ebreak", "li a1, 4 => a1 4", debugger=debugger)
    assert outcome.log == [(ENTRY, entered(DebugCause.HALT_REQUEST))]


def test_halt_wakes_from_wfi():
    outcome = run("wfi", "csrrw zero, mie, zero; li a0, 1; 1: wfi; li a0, 2 => a0 2", irqs=((0, HALT), (900, HALT)))
    assert outcome.log[1][1] == entered(DebugCause.HALT_REQUEST)


def test_a_load_that_fails_when_the_core_is_to_halt_is_made_again():
    outcome = run(
        "failing",
        f"""
        li s3, 0x{FAILING[0]:x}; li a0, 0; li a5, 60
        k1: p.lw a1, 4(s3!); addi a0, a0, 1; addi a5, a5, -1; bne a5, zero, k1
        csrrs a2, mcause, zero => a0 60, a2 5, s3 0x{FAILING[0]:x}
        """,
        irqs=((0, HALT), *((cycle, HALT) for cycle in range(200, 5000, 41))),
        response_latency=6,
    )
    assert (outcome.symbols["k1"], entered(DebugCause.HALT_REQUEST)) in outcome.log
    assert {word for _, word in outcome.log[1:]} == {entered(DebugCause.HALT_REQUEST)}


STEPPING = """
    la s2, word; li s3, 0x{failing:x}; li s4, 0x80; jal zero, 2f
    1: li a1, 0x{control:x}; csrrs zero, dcsr, a1; csrrsi zero, mstatus, 8; csrrw zero, mie, s4
    lui a2, 0x1a110; addi a1, zero, {count}; sw a1, 8(a2); jalr zero, 0(s9)
    word: .word 0x04030201
    2: la s10, 1b
    ebreak
    {code}
    csrrwi zero, mstatus, 0
"""
STEPS = """
== k1 k2 k3 k4 k5 k6 k7: instructions of both lengths, on and off a word boundary
k1: c.addi a0, 1; k2: addi a0, a0, 1; k3: c.nop; k4: mul a3, a0, a0; k5: div a3, a3, a0; k6: mulh a4, a3, a3; k7: c.nop
== k1 k3 k4 k6 k5 k7 k8: transfers of control
k1: beq zero, zero, k3; k2: c.nop; k3: bne zero, zero, k2; k4: jal ra, k6; k5: jal zero, k7; k6: jalr zero, 0(ra)
k7: c.j k8; c.nop; k8: c.nop
== k1 k2 k3 k2 k3 k2 k3 k4 k5 k6 k6+4 k7 k8 k7 k8 k6 k6+4 k7 k8 k7 k8 k9: ends of loops
k1: lp.setupi 0, 3, k3; k2: c.addi a0, 1; k3: c.addi a0, 2; k4: li a2, 2
k5: lp.setup 1, a2, k8; k6: nop; lp.setupi 0, 2, k8; k7: nop; k8: addi a0, a0, 3; k9: nop
== k1 k2 k3 k4 k5 k6: Mac&Load and what uses it
k1: pv.mlsdotup.b a3, (s2!), 16; k2: pv.mlsdotup.b a3, (s2!), 8; k3: add a4, s2, a3; k4: p.lw a5, 4(s2!)
k5: addi a5, a5, 1; k6: c.nop
== k1 k2 k3 k4 k5 k6 k6+4 k6+8 k7 k8: system instructions
k1: wfi; k2: fence; k3: fence.i; k4: csrrw a0, mscratch, a0; k5: c.nop; k6: la a4, k8; csrrw zero, mepc, a4
k7: mret; c.nop; k8: c.nop
== k1 _start-128 exception exception+4: an environment call
k1: ecall
== k1 _start-128 exception: an illegal instruction
k1: .half 0
== k1 k2 _start-128 exception: a load that fails
k1: c.nop; k2: lw a0, 0(s3); addi a0, a0, 1
== k1 _start-128: a Mac&Load that fails
k1: pv.mlsdotup.b a0, (s3!), 8; addi a0, a0, 1
== k1 k2 k2!: a step to ebreak, which halts again
k1: c.nop; k2: ebreak; k3: c.nop
== k1 k2 k3: an interrupt, which is off
k1: c.nop; k2: c.nop; k3: c.nop
== k1 _start-100 interrupt interrupt+4: an interrupt, which is on
k1: c.nop; k2: c.nop; k3: c.nop
"""
STEPPED = {name: (ends.split(), code) for ends, name, code in re.findall(r"== (.*): (.*)\n([^=]*)", STEPS)}
"""Where steps begin and where each ends, labels, those with ``!`` by ebreak; and the code to step over."""


def place(text, symbols):
    name, *more = text.replace("-", "+-").removesuffix("!").split("+")
    return symbols[name] + sum(map(int, more))


@pytest.mark.parametrize("name", STEPPED)
def test_steps(name):
    ends, code = STEPPED[name]
    control = STEP | STEPIE * name.endswith("is on")
    text = STEPPING.format(failing=FAILING[0], control=control, count=len(ends) - 1, code=code)
    outcome = run(name, text, irqs=((0, HALT), (1, 7)) if "interrupt" in name else ((0, HALT),))
    causes = [DebugCause.EBREAK if end.endswith("!") else DebugCause.STEP for end in ends[1:]]
    assert len(outcome.log) == 1 + len(ends) or "ebreak" in code
    assert outcome.log[2 : 1 + len(ends)] == [
        (place(end, outcome.symbols), entered(cause, EBREAKM | control))
        for end, cause in zip(ends[1:], causes, strict=True)
    ]


TRIGGERED = """
    la s3, word; li a0, 7; li a3, 0; jal zero, 2f
    1: csrrwi zero, tselect, {number}; la a1, {address}; csrrw zero, tdata2, a1
    li a1, 0x{control:x}; csrrw zero, tdata1, a1; lw a1, 0(s3); sw a1, 0(s3); jalr zero, 0(s9)
    word: .word 0x04030201; second: .word 0x08070605
    2: la s10, 1b; ebreak
    li s10, 0; {code}
    lw a5, 0(s3); p.lw a6, 4(s3!) => a0 {a0}, a3 {a3}, a5 {word}
"""
EXECUTES, LOADS, STORES = 0x44, 0x41, 0x42
TRIGGERS = {
    "an instruction": (EXECUTES, "k2", "k1: c.nop; k2: addi a0, a0, 1; k3: c.nop", "k2", (8, 0, 0x04030201)),
    "an instruction that loops back": (
        *(EXECUTES, "k2", "lp.setupi 0, 2, k2; k1: c.nop; k2: addi a0, a0, 1; k3: c.nop", "k2"),
        (9, 0, 0x04030201),
    ),
    "ebreak": (EXECUTES, "k2", "k1: c.nop; k2: ebreak; k3: c.nop", "k2", (7, 0, 0x04030201)),
    "a load": (LOADS, "word", "k1: sw a0, 4(s3); k2: lw a3, 0(s3); k3: c.nop", "k2", (7, 0x04030201, 0x04030201)),
    "a store": (STORES, "word", "k1: lw a3, 0(s3); k2: sw a0, 0(s3); k3: c.nop", "k2", (7, 0x04030201, 7)),
    "a load behind a load": (
        *(LOADS, "word", "k1: lw a3, 4(s3); k2: p.lw a3, 4(s3!); c.addi s3, -4", "k2"),
        (7, 0x04030201, 0x04030201),
    ),
    "a Mac&Load": (
        *(LOADS, "word", "k1: pv.mlsdotup.b zero, (s3!), 16; c.addi s3, -4; c.nop", "k1"),
        (7, 0, 0x04030201),
    ),
    "the end of a loop": (
        *(STORES, "word", "lp.setupi 0, 3, k2; k1: addi a3, a3, 1; k2: sw a3, 0(s3); k3: c.nop", "k2"),
        (7, 3, 3),
    ),
}
"""Bits of tdata1, address in tdata2, code, where it halts, and the registers and the word in the end."""
OFF = "csrrwi zero, tselect, {number}; csrrwi zero, tdata1, 0; jal zero, resumes"


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("name", TRIGGERS)
def test_triggers(name, number):
    control, address, code, halts, (a0, a3, word) = TRIGGERS[name]
    text = TRIGGERED.format(number=number, control=control, address=address, code=code, a0=a0, a3=a3, word=word)
    off = "addi a1, a2, -2; beq a1, zero, triggered; addi a1, a2, -3;"
    monitor = MONITOR.replace("addi a1, a2, -3;", off, 1) + f"triggered: {OFF.format(number=number)}"
    outcome = run(name, text, debugger=monitor, response_latency=6 if number else 1)
    again = [DebugCause.EBREAK] * (name == "ebreak")
    assert outcome.log[2:] == [
        (place(halts, outcome.symbols), entered(cause)) for cause in (DebugCause.TRIGGER, *again)
    ]


def test_triggers_are_read_by_programs_and_written_in_debug_mode():
    run(
        "trigger registers",
        """
        li a0, -1; csrrw zero, tdata1, a0; csrrw zero, tdata2, a0; csrrs a2, tdata1, zero; csrrs a3, tdata2, zero
        => a2 0x28001000, a3 0
        csrrw zero, tselect, a0; csrrs a4, tselect, zero; csrrw zero, tinfo, a0; csrrs a5, tinfo, zero => a4 1, a5 4
        jal zero, 2f; 1: csrrw zero, tdata1, a0; csrrw zero, tdata2, a0; jalr zero, 0(s9)
        2: la s10, 1b; ebreak
        csrrs a6, tdata1, zero; csrrs a7, tdata2, zero => a6 0x28001047, a7 0xffffffff
        csrrwi zero, tselect, 0; csrrs s2, tdata1, zero; csrrs s3, tdata2, zero => s2 0x28001000, s3 0
        """,
    )


COUNTING = """
    jal zero, 2f
    1: {first}; csrrs a3, minstret, zero; {many} csrrs a4, minstret, zero; sub a4, a4, a3; jalr zero, 0(s9)
    2: la s10, 1b; ebreak => a4 {counted}
"""


@pytest.mark.parametrize(("first", "counted"), [("c.nop", 0), ("li a0, 0x400; csrrc zero, dcsr, a0", 11)])
def test_instructions_of_debug_mode_are_counted_on_request(first, counted):
    run("counting", COUNTING.format(first=first, many="addi a0, a0, 1; " * 10, counted=counted))


def test_random_programs_with_halts():
    source = CoreSource(config=CONFIG)
    for seed in range(4):
        verdict = source.check(source.case(seed))
        assert verdict.ok, f"{seed}: {verdict.text}"
