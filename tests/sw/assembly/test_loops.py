"""Hardware loops and accesses that increment for compiled code: turns, what must not change, whole C programs."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.designs import FULL as DESIGN
from tests.designs import kernel_case
from tests.programs import read_results

from xpulpnn.config import PRESETS
from xpulpnn_sim.cli.main import execute_command
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.kernel_run import run_case
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.iss.session import IssSession
from xpulpnn_sim.reference.programs.elf import load
from xpulpnn_sim.reference.programs.exits import Output, Reason
from xpulpnn_sw.assembly.looppass import optimise as loop_pass
from xpulpnn_sw.assembly.looppass.optimise import PassReport, has_volatile, optimise
from xpulpnn_sw.toolchain.build import Options, build

from ..elf import SOURCES, run
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
    code = [" ".join(line.split()) for line in lines if line and not line.startswith((".text", ".type", ".size"))]
    return [line.replace(", ", ",") for line in code], report


def setups(path: Path, capsys: pytest.CaptureFixture[str]) -> list[int]:
    capsys.readouterr()
    assert execute_command(["objdump", str(path)]) == 0
    return [int(match[1], 16) for match in re.finditer(r"^ *([0-9a-f]+): .*lp\.setup", capsys.readouterr().out, re.M)]


@pytest.mark.flow
def test_every_comparison_takes_its_turns(compiler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
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
    places = setups(tmp_path / "p.elf", capsys)
    assert len(places) == report.turned
    assert all(place % 4 == 0 for place in places)


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
        "f:",
        "li a4,0",
        ".L2:",
        "sub a5,a1,a0",
        "srli a5,a5,2",
        ".balign 4",
        "lp.setup 0,a5,.Lxp_end_0_0",
        "p.lw a5,4(a0!)",
        ".Lxp_end_0_0:",
        "add a4,a4,a5",
        "bne a0,a1,.L2",
        "mv a0,a4",
        "ret",
    ]
    assert (report.turned, report.increments, report.sums) == (1, 1, 0)
    assert report.loops[0].source == "line 6"


def directives(body: str) -> list[str]:
    lines, _ = turned(body)
    return [line for line in lines if line.startswith((".option", ".balign", "lp.", "call"))]


def test_calls_outside_of_loops_are_left_to_the_linker():
    inner = "li a5,100\n{}.L3:\nmul a0,a0,a1\naddi a5,a5,-1\nbne a5,zero,.L3\n"
    outer = "call g\nli a4,100\n.L2:\n{}addi a4,a4,-1\nbne a4,zero,.L2\ncall g\nret"
    ends = ["call g"]
    opening = ["call g", ".balign 4"]
    setups = ["lp.setup 1,a4,.Lxp_end_0_1", "lp.setupi 0,100,.Lxp_end_0_0"]
    words = [*opening, ".option push", ".option norvc", setups[0], ".option pop", setups[1], *ends]
    assert directives(outer.format(inner.format(""))) == words
    padded = [*opening, setups[0], ".balignw 4,0x0001", ".balignw 4,0x0001", setups[1], *ends]
    assert directives(outer.format(inner.format(".p2align 3\n"))) == padded


def test_a_nested_loop_that_ends_behind_the_outer_one_is_not_aligned_by_the_linker():
    body = """
        li a4,100
        .L2:
        li a5,8
        .L3:
        lw a3,0(a0)
        addi a0,a0,4
        bne a3,zero,.L5
        sw a4,0(a0)
        .L4:
        addi a4,a4,-1
        bne a4,zero,.L2
        ret
        .L5:
        addi a5,a5,-1
        bne a5,zero,.L3
        j .L4
    """
    setups = ["lp.setup 1,a4,.Lxp_end_0_1", "lp.setup 0,a5,.Lxp_end_0_0"]
    assert directives(body) == [".balign 4", ".option push", ".option norvc", setups[0], ".option pop", setups[1]]


COUNTED = "li a5,{}\n.L2:\nmul a0,a0,a0\naddi a5,a5,{}\nbne a5,{},.L2\n"


@pytest.mark.parametrize(
    ("body", "setup", "is_removed"),
    [
        (COUNTED.format(100, -1, "zero"), "lp.setupi 0,100,.Lxp_end_0_0", True),
        (f"ble a1,zero,.L1\n{COUNTED.format(0, 1, 'a1')}.L1:\n", "lp.setup 0,a5,.Lxp_end_0_0", True),
        # nothing says that a1 is not 0, and there is no register for the count
        (COUNTED.format(0, 1, "a1"), "f:", False),
        # the counter is read later
        (COUNTED.format(9, -1, "zero") + "mv a1,a5\n", "lp.setupi 0,9,.Lxp_end_0_0", False),
    ],
)
def test_counters_that_only_count_are_removed(body: str, setup: str, is_removed: bool):
    lines, _ = turned(f"{body}ret")
    assert setup in lines
    assert [line[:4] for line in lines if line.startswith(("addi a5,a5", "bne"))] == ["addi", "bne "] * (not is_removed)


def test_two_levels_and_no_third():
    inner = ".L{0}:\n{1}addi a{0},a{0},-1\nbne a{0},zero,.L{0}\n"
    nest = "mul a0,a0,a0\n"
    for register in (2, 3, 4):
        nest = f"li a{register},5000\n" + inner.format(register, nest)
    _, report = turned(nest + "ret")
    outcomes = [(outcome.level, outcome.reason) for outcome in report.loops]
    assert outcomes == [(0, ""), (1, ""), (None, "more than two levels deep")]


@pytest.mark.parametrize(
    ("start", "turns"), [("addi a1,a0,240", 20), ("mv a1,a0\naddi a0,a0,-12", 1), ("addi a1,a0,10", None)]
)
def test_a_known_distance_is_a_number_of_turns(start, turns):
    """The pointer that counts is read in the loop, so that its test stays."""
    lines, _ = turned(f"{start}\n.L2:\nlw a2,0(a0)\nsw a2,4(a0)\naddi a0,a0,12\nbne a0,a1,.L2\nret")
    assert (f"lp.setupi 0,{turns},.Lxp_end_0_0" in lines) == (turns is not None)
    assert "bne a0,a1,.L2" in lines
    # an ordered one may wrap around
    lines, _ = turned("addi a1,a0,240\n.L2:\nlw a2,0(a0)\naddi a0,a0,4\nbltu a0,a1,.L2\nret")
    assert not [line for line in lines if line.startswith("lp.setupi")]


WALK = "lw a2,0(a0)\nadd a4,a4,a2\naddi a0,a0,{}\nbne a0,a1,.L2\n"


@pytest.mark.parametrize(("step", "is_turned"), [(4, True), (16, True), (3, True), (80, False), (12, False)])
def test_a_set_up_that_takes_long_is_for_outermost_loops(step, is_turned):
    """Inside of another loop a few turns must pay for it."""
    alone = f"li a3,0\nli a2,0\nmv a4,a3\n.L2:\n{WALK.format(step)}mv a0,a4\nret"
    assert turned(alone)[1].turned == 1
    outer = f".L1:\nmv a0,a5\n.L2:\n{WALK.format(step)}mul a5,a4,a4\nli a3,0\nbeq a5,a6,.L1\nret"
    _, report = turned(outer)
    assert report.turned == is_turned
    assert is_turned or report.loops[0].reason == "its set-up takes longer than a few turns save"


ONCE = "the counter does not change once in every turn"
LOOP = ".L2:\n{}\naddi a0,a0,-1\nbne a0,zero,.L2\nret"


@pytest.mark.flow
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (LOOP.format("call g"), "calls a function"),
        (LOOP.format("ecall"), "contains ecall"),
        (LOOP.format("beq a1,a2,.L2"), "jumps back from several places"),
        (LOOP.format("beq a1,a2,.L3\naddi a0,a0,-1\n.L3:"), "the counter changes at several places"),
        (LOOP.format("nop").replace("-1", "0"), "the counter does not change by a constant"),
        (".L2:\nbeq a1,a2,.L3\naddi a0,a0,-1\n.L3:\nbne a0,zero,.L2\nret", ONCE),
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


def test_a_counter_that_an_inner_loop_changes_and_no_register():
    inner = ".L3:\naddi a0,a0,-1\naddi a1,a1,4\nbne a1,a2,.L3\n"
    _, report = turned(f".L2:\nmul a3,a3,a3\nmv a1,a3\n{inner}bne a0,zero,.L2\nret")
    assert report.loops[-1].reason == ONCE
    # a caller compiled together with this function may keep values in every register it does not write
    _, report = turned(".L2:\nsw zero,0(a0)\naddi a0,a0,4\nbne a0,a1,.L2\nret")
    assert [outcome.reason for outcome in report.loops] == ["no free register"]


@pytest.mark.parametrize(
    "line", ["frob a0,a1", ".word 0x1234", "1:", "beq a0,a1,.+8", ".set x, 1", "addi a0,a0,1; nop"]
)
def test_what_is_not_understood_stays(line):
    before = of_function(f"{LOOP.format(line)}")
    report = PassReport()
    assert optimise(before, CORE, report=report) == before
    assert list(report.skipped) == ["f"]


def test_a_core_without_the_instructions_gets_no_loops():
    assert optimise(of_function(SUM), replace(PRESETS["ri5cy"], xpulpv2=False)) == of_function(SUM)


def test_volatile():
    assert all(map(has_volatile, ("static volatile int x;", "_Atomic int x;")))
    assert not has_volatile('__asm__ volatile("nop"); asm __volatile__ ("nop"); int x;')


def change(body: str, **options) -> list[str]:
    return turned(f"{body}\nret", **options)[0][1:-1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("lw a1,0(a0)\naddi a0,a0,4", ["p.lw a1,4(a0!)"]),
        ("addi a0,a0,-2\nlhu a1,2(a0)", ["p.lhu a1,-2(a0!)"]),
        ("sb a1,0(a0)\naddi a0,a0,1", ["p.sb a1,1(a0!)"]),
        ("lw a1,4(a0)\nlw a2,0(a0)\nlw a3,8(a0)\naddi a0,a0,12", ["lw a1,4(a0)", "p.lw a2,12(a0!)", "lw a3,-4(a0)"]),
        ("sw a1,0(a0)\naddi a0,a0,8\nsw a2,-4(a0)", ["p.sw a1,8(a0!)", "sw a2,-4(a0)"]),
        ("lw a1,0(a0)\naddi a2,a0,4\naddi a0,a0,8", ["p.lw a1,8(a0!)", "addi a2,a0,-4"]),
        ("lb a1,0(a0)\naddi a0,a0,1\nlb a2,0(a0)\naddi a0,a0,1", ["p.lb a1,1(a0!)", "p.lb a2,1(a0!)"]),
        # the sum of two registers as an address
        ("add a5,a0,a1\nlw a5,0(a5)", ["p.lw a5,a1(a0)"]),
        ("add a5,a0,a1\nsw a2,0(a5)\nli a5,0", ["p.sw a2,a1(a0)", "li a5,0"]),
    ],
)
def test_accesses_that_increment(body, expected):
    assert change(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "lw a0,0(a0)\naddi a0,a0,4",  # the load replaces the base
        "lw a1,0(a0)\nadd a1,a1,a0\naddi a0,a0,4",  # the old base is read in between
        "lw a1,4(a0)\naddi a0,a0,4\nmv a2,a0",  # no access at the base itself
        "sw a0,0(a0)\naddi a0,a0,4",  # the base is what is stored
        "lw a1,0(sp)\naddi sp,sp,16",  # the stack is shared with handlers
        "lw a1,0(a0)\nlw a2,-2048(a0)\naddi a0,a0,4",  # an offset would be too large
        "lw a1,%lo(x)(a0)\naddi a0,a0,4",  # the linker knows the offset
        "sw a1,0(a0)\ncall g\naddi a0,a0,4",  # the call reads or writes it
        "add a5,a0,a1\nlw a2,0(a5)\nmv a0,a5",  # the sum is read again
        "add a5,a0,a1\naddi a0,a0,4\nsw a2,0(a5)\nmv a3,a0\nli a5,0\nlw a4,0(a5)\nmv a0,a4\nadd a0,a0,a3",
        "add a5,a0,a1\nlw a5,4(a5)",  # an offset beside the sum
    ],
)
def test_accesses_that_stay(body):
    changed = change(body)
    assert not [line for line in changed if line.startswith("p.") and "!" in line]
    if "add a5" not in body or "li a5" not in body:
        assert [line.split() for line in changed] == [line.split() for line in body.replace("\t", " ").splitlines()]


def test_loads_change_places_only_if_they_may():
    body = "lw a1,0(a0)\nadd a5,a0,a2\nlw a3,0(a5)\nli a5,0\naddi a0,a0,4"
    assert change(body, swap_loads=True) == ["p.lw a3,a2(a0)", "p.lw a1,4(a0!)", "li a5,0"]
    assert change(body) == ["lw a1,0(a0)", "p.lw a3,a2(a0)", "li a5,0", "addi a0,a0,4"]
    # no access passes a store
    body = "lw a1,0(a0)\nsw a4,0(a2)\nadd a5,a0,a2\nlw a3,0(a5)\nli a5,0\naddi a0,a0,4"
    assert "p.lw a1,4(a0!)" not in change(body, swap_loads=True)


def test_in_a_loop_the_reader_waits_no_longer():
    body = ".L2:\nlw a4,0(a1)\nadd a2,a2,a4\nxor a3,a3,a1\nbne a3,a5,.L2"
    lines = change(body)
    assert [line for line in lines if not line.startswith(".")][:3] == ["lw a4,0(a1)", "xor a3,a3,a1", "add a2,a2,a4"]


FULL = PRESETS["xpulpnn-full"]
LIMIT = 1_000_000


def compiled(path: Path, kind: str, source: str, *define: str, **options) -> Path:
    build([SOURCES / source], path, compiler=kind, options=Options(config=FULL, define=define, **options))
    return path


def shown(printed: list[Output]) -> str:
    return b"".join(output.data for output in printed).decode()


def cycles_of(path: Path) -> int:
    printed: list[Output] = []
    assert run_program(load(path), DESIGN, output=printed.append).exit.ok, shown(printed)
    return int(shown(printed).split()[0])


@pytest.mark.cosim
@pytest.mark.parametrize(
    ("kind", "bits", "variant", "define"), [("gcc", 4, "nn_4x2", ("MAC_LOAD",)), ("zig", 8, "xpulpv2_4x2", ())]
)
def test_public_matmul_takes_the_cycles_of_the_generated_one(kind, bits, variant, define, tmp_path: Path):
    taken = cycles_of(compiled(tmp_path / "p.elf", kind, "matmul_public.c", f"BITS={bits}", *define))
    generated = run_case(kernel_case("matmul", "64x288x2", bits, variant, machine=Machine())).record["cycles"]
    assert 0.95 * generated < taken <= 1.15 * generated


@pytest.mark.cosim
@pytest.mark.parametrize("level", ["-O1", "-O2"])
def test_loops_of_few_turns_take_no_longer(level, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    cycles, places = list[int](), list[list[int]]()
    for is_improved in (True, False):
        path = compiled(tmp_path / "p.elf", "gcc", "triangular.c", loop_pass=is_improved, opt=level)
        cycles.append(cycles_of(path))
        places.append(setups(path, capsys))
    assert cycles[0] < 0.95 * cycles[1]
    # a turn whose first instruction lies across two words takes a cycle more
    assert len(places[0]) > 4 > len(places[1]) == 0
    assert all(place % 4 == 0 for place in places[0])


def interrupted(path: Path) -> str:
    printed: list[Output] = []
    session = IssSession(load(path), FULL, output=printed.append)
    count, end = 0, None
    while end is None or end.reason is Reason.MAX_CYCLES:
        assert count < LIMIT
        session.iss.csrs["mip"] = 0 if session.iss.csrs["mip"] else 1 << 7
        count += 6 if session.iss.csrs["mip"] else 97
        end = session.run(count)
    return shown(printed)


@pytest.mark.flow
def test_a_handler_keeps_the_loops(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    printed = interrupted(compiled(tmp_path / "p.elf", compiler, "loops_and_interrupts.c"))
    assert re.fullmatch(r"\d{2,} taken, 0 wrong\n", printed), printed
    # without that, the interrupted loop goes on as the handler left it
    monkeypatch.setattr(loop_pass, "save_loop_registers", lambda function: False)
    printed = interrupted(compiled(tmp_path / "bad.elf", compiler, "loops_and_interrupts.c"))
    assert not printed.endswith(" 0 wrong\n")


@pytest.mark.flow
def test_report_of_the_command(compiler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = tmp_path / "main.c"
    loops = "".join(f"for (int i = 0; i < n; i++)\n s += {term};\n" for term in ("p[i]", "g(i)"))
    source.write_text(f"int g(int);\nint f(const int *p, int n) {{\nint s = 0;\n{loops}return s;\n}}\n")
    words = ("cc", "-S", source, "-o", tmp_path / "main.s", "--compiler", compiler, "--json", tmp_path / "cc.json")
    common = [str(word) for word in words]
    assert execute_command([*common, "--loop-report"]) == 0
    record = read_results(tmp_path / "cc.json")[0]["loop_pass"]
    assert record.items() >= {"hardware_loops": 1, "refusals": {"calls a function": 1}, "skipped_functions": {}}.items()
    first, second = sorted(record["loops"], key=lambda loop: loop["source"])
    assert re.search(r"main\.c:[45]$", first["source"])
    assert re.search(r"main\.c:[67]$", second["source"])
    assert (first["level"], second["level"]) == (0, None)
    assert "calls a function" in capsys.readouterr().out
    assert "lp.setup" in (tmp_path / "main.s").read_text()
    assert execute_command([*common, "--no-loop-pass"]) == 0
    assert "lp.setup" not in (tmp_path / "main.s").read_text()
