"""Hardware loops for compiled code: right numbers of turns, and no loop where it would not be the same."""

from dataclasses import replace
from pathlib import Path

import pytest

from xpulpnn.config import PRESETS
from xpulpnn_sw.assembly.looppass.optimise import PassReport, has_volatile, optimise
from xpulpnn_sw.toolchain.build import Options, build

from ..elf import run
from . import turns

CORE = PRESETS["xpulpnn"]


def of_function(body: str) -> str:
    """A function as GCC writes it, from its instructions."""
    lines = [line if line.endswith(":") else f"\t{line}" for line in body.strip().replace("    ", "").splitlines()]
    return "\n".join(["\t.text", "\t.type\tf, @function", "f:", *lines, "\t.size\tf, .-f", ""])


def turned(body: str, config=CORE, **options) -> tuple[list[str], PassReport]:
    """Instructions after the pass, as mnemonics of the core, and the report."""
    report = PassReport()
    text = optimise(of_function(body), config, report=report, **options)
    lines = [line.partition("#")[2].strip() or line.strip() for line in text.splitlines()]
    kept = [" ".join(line.split()) for line in lines if line and not line.startswith((".text", ".type", ".size"))]
    return [line.replace(", ", ",") for line in kept], report


@pytest.mark.flow
def test_every_comparison_takes_its_turns(compiler: str, tmp_path: Path):
    report = PassReport()
    text = optimise(turns.assembly(), CORE, report=report)
    (tmp_path / "loops.s").write_text(text)
    (tmp_path / "main.c").write_text(turns.driver())
    options = Options(config=CORE, loop_pass=False)
    build([tmp_path / "loops.s", tmp_path / "main.c"], tmp_path / "p.elf", compiler=compiler, options=options)
    ran = run(tmp_path / "p.elf", CORE)
    assert ran.end.ok, ran.output
    assert int(ran.output.split()[0]) > 3000
    assert {outcome.reason for outcome in report.loops} == {"", "the counter runs away from its bound"}
    assert report.turned >= len(report.loops) // 2


SUM = """
    li a4,0
    .L2:
    lw a5,0(a0)
    addi a0,a0,4
    add a4,a4,a5
    bne a0,a1,.L2
    mv a0,a4
    ret
"""


def test_a_loop_over_words():
    lines, report = turned(SUM)
    assert lines == [
        ".option push",
        ".option norelax",
        "f:",
        "li a4,0",
        ".L2:",
        "sub a5,a1,a0",
        "srli a5,a5,2",
        ".balignw 4,0x0001",
        "lp.setup 0,a5,.Lxp_end_0_0",
        "p.lw a5,4(a0!)",
        ".Lxp_end_0_0:",
        "add a4,a4,a5",
        "bne a0,a1,.L2",
        ".option pop",
        "mv a0,a4",
        "ret",
    ]
    assert (report.turned, report.tally.increments, report.tally.sums) == (1, 1, 0)
    assert report.loops[0].source == "line 6"


def test_a_known_number_of_turns_needs_no_counter():
    lines, _ = turned("li a5,100\n.L2:\nmul a0,a0,a1\naddi a5,a5,-1\nbne a5,zero,.L2\nret")
    assert "lp.setupi 0,100,.Lxp_end_0_0" in lines
    assert not [line for line in lines if line.startswith(("addi", "bne"))]


def test_a_guarded_count_needs_no_test():
    lines, _ = turned("ble a1,zero,.L1\nli a5,0\n.L2:\nmul a0,a0,a0\naddi a5,a5,1\nbne a5,a1,.L2\n.L1:\nret")
    assert not [line for line in lines if line.startswith(("bne", "addi"))]
    lines, _ = turned("li a5,0\n.L2:\nmul a0,a0,a0\naddi a5,a5,1\nbne a5,a1,.L2\n.L1:\nret")
    assert len([line for line in lines if line.startswith(("bne", "addi"))]) == 2, "nothing says that a1 is not 0"


def test_a_counter_that_is_read_later_stays():
    lines, _ = turned("li a5,9\n.L2:\nmul a1,a1,a1\naddi a5,a5,-1\nbne a5,zero,.L2\nmv a0,a5\nret")
    assert "addi a5,a5,-1" in lines


def test_two_levels_and_no_third():
    inner = ".L{0}:\n{1}addi a{0},a{0},-1\nbne a{0},zero,.L{0}\n"
    nest = "mul a0,a0,a0\n"
    for register in (2, 3, 4):
        nest = f"li a{register},5000\n" + inner.format(register, nest)
    _, report = turned(nest + "ret")
    assert [(outcome.level, outcome.reason) for outcome in report.loops] == [
        (0, ""),
        (1, ""),
        (None, "more than two levels deep"),
    ]


LOOP = ".L2:\n{}\naddi a0,a0,-1\nbne a0,zero,.L2\nret"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (LOOP.format("call g"), "calls a function"),
        (LOOP.format("ecall"), "contains ecall"),
        (LOOP.format("beq a1,a2,.L2"), "jumps back from several places"),
        (LOOP.format("beq a1,a2,.L3\naddi a0,a0,-1\n.L3:"), "the counter changes at several places"),
        (LOOP.format("nop").replace("-1", "0"), "the counter does not change by a constant"),
        (
            ".L2:\nbeq a1,a2,.L3\naddi a0,a0,-1\n.L3:\nbne a0,zero,.L2\nret",
            "the counter does not change once in every turn",
        ),
        (".L2:\naddi a0,a0,-1\naddi a1,a1,1\nbne a0,a1,.L2\nret", "both sides of the test change"),
        (".L2:\nmul a3,a3,a3\nbne a0,a1,.L2\nret", "nothing in the test changes"),
        (".L2:\naddi a0,a0,4\nblt a1,a0,.L2\nret", "the counter runs away from its bound"),
        ("la a5,.L2\nj .L3\n.L3:\n" + LOOP.format("nop"), "entered in ways that are not seen"),
        (LOOP.format("nop\n" * 2050), "longer than 8190 bytes"),
        (LOOP.format("csrw 0x7c2,a1"), "the function uses hardware loops itself"),
        (LOOP.format(".insn r 0x7b, 4, 0, x0, a1, x4"), "the function uses hardware loops itself"),
        (LOOP.format("nop").replace("ret", "mret"), "the function is an interrupt handler"),
    ],
)
def test_loops_that_stay(body, reason):
    before = of_function(body)
    lines, report = turned(body)
    assert [outcome.reason for outcome in report.loops if outcome.level is None] == [reason]
    assert not [line for line in lines if line.startswith("lp.")]
    assert optimise(before, CORE).split() == before.split()


def test_a_counter_that_an_inner_loop_changes():
    inner = ".L3:\naddi a0,a0,-1\naddi a1,a1,4\nbne a1,a2,.L3\n"
    _, report = turned(f".L2:\nmul a3,a3,a3\nmv a1,a3\n{inner}bne a0,zero,.L2\nret")
    assert report.loops[-1].reason == "the counter does not change once in every turn"


@pytest.mark.parametrize(
    "line", ["frob a0,a1", ".word 0x1234", "1:", "beq a0,a1,.+8", ".set x, 1", "addi a0,a0,1; nop"]
)
def test_what_is_not_understood_stays(line):
    before = of_function(f"{LOOP.format(line)}")
    report = PassReport()
    assert optimise(before, CORE, report=report) == before
    assert list(report.skipped) == ["f"]


def test_a_core_without_the_instructions_gets_no_loops():
    plain = PRESETS["ri5cy"]
    assert plain.xpulpv2
    without = replace(plain, xpulpv2=False)
    assert optimise(of_function(SUM), without) == of_function(SUM)


def test_the_temporary_is_one_the_function_writes():
    # a caller compiled together with this function may keep values in every register it does not write
    _, report = turned(".L2:\nsw zero,0(a0)\naddi a0,a0,4\nbne a0,a1,.L2\nret")
    assert [outcome.reason for outcome in report.loops] == ["no free register"]


def test_volatile():
    assert has_volatile("static volatile int x;")
    assert has_volatile("_Atomic int x;")
    assert not has_volatile('__asm__ volatile("nop"); asm __volatile__ ("nop"); int x;')
