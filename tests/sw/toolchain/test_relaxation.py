"""Hardware loops in programs whose linker shortens code: C, assembly, statements in C, several objects, a library."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from xpulpnn.config import PRESETS
from xpulpnn_sw.toolchain.build import Options, archive, build

from ..elf import run

pytestmark = pytest.mark.flow

CORE = PRESETS["xpulpnn"]
TURNS = 5
# placed where the linker reaches it from gp
COUNTER = '__attribute__((section(".bss.counter"))) volatile int counter;\n'
LOOP = f"for (int i = 0; i < {TURNS}; i++) counter++;"
OWN_LOOP = "lp.setup 0, %1, {0}f\\n lw %0, %%lo(counter)(a2)\\n addi %0, %0, 1\\n {0}: sw %0, %%lo(counter)(a2)"

C_TEXTS = {
    "loop": f"extern volatile int counter; int f(void) {{ {LOOP} return counter; }}",
    # the register of the removed address holds another valid one
    "registers that hold addresses": f"""
        extern volatile int counter; int others[64];
        static __attribute__((noinline)) int g(int a, int b, int c, int *p, int *q, int *r) {{ {LOOP} return counter; }}
        int f(void) {{
            int *p = others + 32, result = g(1, 2, 3, p, p, p);
            for (int i = 0; i < 64; i++) result += others[i];
            return result;
        }}""",
    "nest": """
        extern volatile int counter; extern int step; int step = 1, rows = 1;
        int f(void) { for (int i = 0; i < rows; i++) for (int j = 0; j < 5; j++) counter += step; return counter; }""",
    "call beside the loop": f"""
        extern volatile int counter; static __attribute__((noinline)) void g(int n) {{ counter += n; }}
        int f(void) {{ g(3); {LOOP} g(-3); return counter; }}""",
    "alignment in the loop": """
        extern volatile int counter; int values[8];
        static __attribute__((noinline)) int g(int n, int mask) {
            int sum = 0;
            for (int i = 0; i < n; i++) { sum += values[i & 7]; if (sum & mask) sum ^= i; else sum += 3; sum *= 7; }
            return sum;
        }
        int f(void) { LOOP return g(30, 4) == SUM ? counter : 0; }""".replace("LOOP", LOOP).replace(
        "SUM", str(773749275)
    ),
    "statement": f"""
        extern volatile int counter;
        int f(void) {{
            int value;
            __asm__ volatile("lui a2, %%hi(counter)\\n {OWN_LOOP.format(1)}"
                             : "=&r"(value) : "r"({TURNS}) : "a2", "memory");
            return value;
        }}""",
    "statement with an instruction behind its end": """
        extern volatile int counter; int buffer[8];
        int f(void) {
            int sum = 0, *place = buffer;
            __asm__ volatile("lp.setup 0, %2, .Lend%=\\n addi %0, %0, 1\\n .Lend%=: sw %0, 0(%1)\\n addi %1, %1, 4"
                             : "+r"(sum), "+r"(place) : "r"(5) : "memory");
            counter = buffer[0];
            return place == buffer + 1 ? sum : 0;
        }""",
    "macro of the headers": """
        #include "xpulpnn.h"
        extern volatile int counter;
        int f(void) {
            int value;
            XP_HWLOOP_ASM(0, 5, "lw %[v], %[m]\\n addi %[v], %[v], 1", "sw %[v], %[m]",
                          ([v] "=&r"(value), [m] "+m"(counter)), (), ("memory"));
            return value;
        }""",
}
FLAGS = {
    "default": (),
    "one section": ("-fno-function-sections", "-fno-data-sections"),
    "save and restore": ("-msave-restore",),
    "no small data": ("-msmall-data-limit=0",),
    "addresses from pc": ("-mcmodel=medany",),
    "aligned labels": ("-falign-labels=16", "-falign-loops=8"),
}


def program(folder: Path, texts: Collection[str], suffix: str) -> list[Path]:
    """Files of a program that calls the function ``f`` of each text; its exit code is the number of a wrong one."""
    calls = "".join(
        f"{{ int f{n}(void); counter = 0; if (f{n}() != {TURNS} || counter != {TURNS}) return {n}; }}\n"
        for n in range(1, len(texts) + 1)
    )
    files = {"main.c": f"extern volatile int counter;\nint main(void) {{\n{calls}return 0;\n}}\n", "counter.c": COUNTER}
    for number, text in enumerate(texts, 1):
        files[f"f{number}{suffix}"] = f"#define f f{number}\n{text}\n"
    for name, text in files.items():
        (folder / name).write_text(text)
    return [folder / name for name in files]


def check(sources: Sequence[Path], kind: str, **options: Any) -> None:
    executable = sources[0].with_suffix(".elf")
    build(sources, executable, compiler=kind, options=Options(config=CORE, **options))
    end = run(executable, CORE).end
    assert end.ok, end


@pytest.mark.parametrize("level", ["-O1", "-O2", "-Os"])
def test_c(level: str, kind: str, tmp_path: Path):
    check(program(tmp_path, C_TEXTS.values(), ".c"), kind, opt=level)


@pytest.mark.parametrize("name", FLAGS)
def test_options(name: str, tmp_path: Path):
    check(program(tmp_path, C_TEXTS.values(), ".c"), "gcc", extra=FLAGS[name])


def test_loops_out_of_a_library(kind: str, tmp_path: Path):
    main, *others = program(tmp_path, C_TEXTS.values(), ".c")
    archive(others, tmp_path / "lib.a", compiler=kind, options=Options(config=CORE))
    check([main, tmp_path / "lib.a"], kind)


UPPER, LOAD, STORE = "lui a2, %hi(counter)", "lw a0, %lo(counter)(a2)", "sw a0, %lo(counter)(a2)"
TURN, SETUP = "addi a0, a0, 1", f"li a1, {TURNS}; lp.setup 0, a1, 9f"
ASSEMBLY = {
    "address outside": (UPPER, SETUP, LOAD, TURN, f"9: {STORE}"),
    "address inside": (SETUP, UPPER, LOAD, TURN, f"9: {STORE}"),
    "address last": (UPPER, SETUP, LOAD, TURN, STORE, f"9: {UPPER}", "li a3, 0"),
    "distance from pc": (
        *("1: auipc a2, %pcrel_hi(counter)", SETUP, "lw a0, %pcrel_lo(1b)(a2)", TURN),
        "9: sw a0, %pcrel_lo(1b)(a2)",
    ),
    "macro": (".macro load", LOAD, ".endm", UPPER, SETUP, "load", TURN, f"9: {STORE}"),
    "macro that may shrink": (".macro upper", UPPER, ".endm", SETUP, "upper", LOAD, TURN, f"9: {STORE}"),
    "pseudo-instruction": (SETUP, "la a2, counter", "lw a0, 0(a2)", TURN, "9: sw a0, 0(a2)"),
    "variable by name": (SETUP, "lw a0, counter", TURN, "sw a0, counter, t0", "9: nop"),
    "call": ("mv t1, ra", UPPER, SETUP, LOAD, "call g", f"9: {STORE}", "mv ra, t1; ret; g:", TURN),
    "alignment": (UPPER, SETUP, LOAD, "c.nop", ".p2align 4", TURN, ".balign 8", f"9: {STORE}"),
    "options": (
        *(".option push; .option norelax", UPPER, SETUP, ".option norvc", LOAD, TURN, f"9: {STORE}", ".option pop"),
    ),
}


def test_assembly(kind: str, tmp_path: Path):
    texts = ["\n".join((".globl f", "f:", *lines, "ret")) for lines in ASSEMBLY.values()]
    check(program(tmp_path, texts, ".S"), kind)
