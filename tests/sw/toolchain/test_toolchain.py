"""``xpulpnn cc`` and the runtime: programs from both compilers on the simulator, what users pass on, and errors."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.programs import read_results

from xpulpnn.config import PRESETS
from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim import simulate
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.reference.programs.elf import load
from xpulpnn_sim.reference.programs.exits import Reason
from xpulpnn_sim.reference.programs.objects import SourceLines, read_objects
from xpulpnn_sw.assembly.looppass.optimise import PassReport
from xpulpnn_sw.toolchain import build as toolchain
from xpulpnn_sw.toolchain import build_options, compilers
from xpulpnn_sw.toolchain.build import CompileError, Options

from ..elf import SOURCES, run

pytestmark = pytest.mark.flow

FULL = PRESETS["xpulpnn-full"]
CODE, RAM = 0x1C00_0000, 0x1000_0000


@pytest.fixture
def program(kind: str, tmp_path: Path) -> Callable[..., Path]:
    def build(name: str, **options) -> Path:
        path = tmp_path / f"{name}.elf"
        toolchain.build([SOURCES / name], path, compiler=kind, options=Options(config=FULL, **options))
        return path

    return build


@pytest.fixture
def level(kind: str) -> str:
    return "-O2" if kind == "gcc" else "-O0"


def quotient(a: int, b: int) -> tuple[int, int]:
    """Division of C: toward zero."""
    size = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return size, a - size * b


def wrapped(value: int, bits: int = 64) -> int:
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def expected_output() -> str:
    big, huge, small = -0x123456789ABCDEF, 0xFEDCBA9876543210, -1234567
    ratio, rest = quotient(big, small)
    thousands, units = quotient(small, 1000)
    return "\n".join(
        [
            "0 -1|   42|42   |-0042|+42| 42",
            "4000000000 beef BEEF 0xff 010 10|     00a|z%",
            "text|   right|left    |cu|    x|0x1234",
            f"1 1 -7 64 4294967295 {huge:x} {big}",
            f"[{small:10d}][{huge:<22d}][{big:020d}][%][%q]",
            f"{ratio} {rest}",
            f"{huge // 1000003} {huge % 1000003}",
            f"{wrapped(big * small)} {huge >> 13} {big >> 13}",
            f"{thousands} {units} {(small % (1 << 32)) // 7}",
            f"9 {21 << 33}",
            "fifirst 1 1 7 165",
            "42 1 0 12-over",
            "no new line",
        ]
    )


def test_program(program, kind: str):
    path = program("program.c", stack=4096, ram=64 << 10)
    # .bss is not part of the file, so memory may hold anything there
    ran = run(path, FULL, patch={"cleared": 1})
    assert ran.end.ok, ran.end.text
    assert ran.output == expected_output()
    assert ran.errors == "to the error output, unfinished"

    executable = load(path)
    assert executable.entry == executable.symbols["_start"] == CODE + 0x80
    assert executable.symbols["xp_vectors"] == CODE
    assert executable.symbols["__stack_top"] == RAM + 4096
    assert executable.tohost % 64 == 0
    assert abs(executable.fromhost - executable.tohost) == 64
    inside = [(segment.address, segment.address + segment.size) for segment in executable.segments]
    places = ((CODE, CODE + (4 << 20)), (RAM, RAM + (64 << 10)))
    assert all(any(first <= low and high <= last for first, last in places) for low, high in inside)


def test_features(program, level: str):
    """Two custom lines are up from the start, so that an interrupt comes as soon as its line is enabled."""
    ran = run(program("features.c", opt=level), FULL, at={1: 0b11 << 16})
    assert ran.end.ok, f"{ran.end.text}: line of features.c"


TRAPS = (
    (0, 0x1000 + 2, r"exception: mcause 2, mepc 0x1c00[0-9a-f]{4}\n"),
    (1, 0x1000 + 3, r"exception: mcause 3, mepc 0x1c00[0-9a-f]{4}\n"),
    (2, 0x2000 + 7, r"interrupt without handler: line 7\n"),
    (3, 0x3000, ""),
    (4, 0x3000, r".*traps\.c:\d+: assertion failed: depth == 0\n"),
    (6, 0x7FFF_FFFF, ""),
    (7, 1, ""),
    (8, 0x1000 + 2, r"exception: mcause 2, mepc 0x1c00[0-9a-f]{4}\n"),
)
STACK_OVERFLOW = 5


def test_ends_by_traps_and_codes(program):
    path = program("traps.c", stack=8192)
    for mode, code, message in TRAPS:
        ran = run(path, FULL, at={1: 1 << 7}, patch={"mode": mode})
        assert (ran.end.reason, ran.end.code) == (Reason.FAIL, code), (mode, ran.end.text)
        assert ran.output == "before"
        assert re.fullmatch(message, ran.errors), ran.errors
    ran = run(path, FULL, patch={"mode": STACK_OVERFLOW})
    assert ran.end.reason is Reason.BAD_ACCESS
    assert RAM - 4096 < ran.end.address < RAM, ran.end.text


def test_a_program_that_does_not_fit_is_not_written(program, kind: str, tmp_path: Path):
    with pytest.raises(CompileError, match="ram"):
        program("traps.c", stack=1024, ram=1024)
    assert list(tmp_path.iterdir()) == []


def cc(*arguments: object) -> int:
    return cli.main(["cc", *map(str, arguments)])


def test_command(kind: str, written, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    written("more/value.h", "enum { VALUE = 30 };")
    main = written(
        "main.c", '#include "value.h"\nint other(void);\nint main(void) { return VALUE + EXTRA + other() - 42; }'
    )
    other = written("other.S", ".globl other\nother:\n li a0, FROM_ASSEMBLY\n ret\n")
    options = f"--compiler {kind} -I more -D EXTRA=5 -DFROM_ASSEMBLY=7 -Os -X=-Wall --preset xpulpnn-full".split()
    assert cc(main, other, "-o", "out/prog.elf", "--json", "out/cc.json", *options) == 0
    assert capfd.readouterr() == ("out/prog.elf\n", "out/cc.json is written, in a new folder\n")
    assert read_results(tmp_path / "out/cc.json")[0] == {"files": ["out/prog.elf"], "compiler": kind}
    assert run(tmp_path / "out/prog.elf", FULL).end.ok

    assert cc(main, "-S", *options) == 0
    assert "main:" in Path("main.s").read_text()
    assert capfd.readouterr() == ("main.s\n", "")


def test_headers_only(written, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    assert cc("--headers", "headers", "--preset", "ri5cy", "--set", "performance-counters=on") == 0
    names = {str(path) for path in Path("headers").rglob("*") if path.is_file()}
    assert capfd.readouterr().out.startswith(f"headers: {len(names)} files; headers/README.txt ")
    assert {"headers/pulp_builtins.h", "headers/xpulpnn.h", "headers/link.ld", "headers/README.txt"} <= names
    assert "XP_HAVE_PERFORMANCE_COUNTERS" in Path("headers/xp_config.h").read_text()
    assert cc("--headers", "headers") == 0
    Path("headers/README.txt").write_text("mine")
    assert cc("--headers", "headers") == 2
    assert capfd.readouterr().err == "error: --headers must be a folder without files of yours, not headers\n"
    monkeypatch.setattr(shutil, "copyfile", lambda *_: os.truncate("/dev/full", -1))
    assert cc("--headers", "new") == 2
    assert not Path("new").exists()


def test_no_compiler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compilers.shutil, "which", lambda name: None)
    monkeypatch.setattr(compilers.util, "find_spec", lambda name: None)
    debian = r"apt-get install gcc-riscv64-unknown-elf, and clang-19 for clang"
    hint = rf"must be installed \({debian}, or pip install ziglang\), not missing"
    with pytest.raises(ToolError, match=f"^C compiler {hint}$"):
        toolchain.find_compiler()
    with pytest.raises(ToolError, match=f"^zig {hint}$"):
        toolchain.find_compiler("zig")
    monkeypatch.setattr(compilers.shutil, "which", lambda name: "/bin/zig" if name == "zig" else None)
    assert toolchain.find_compiler() == compilers.Compiler("zig", ("/bin/zig", "cc"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("", "FILE"),
        ("main.c --compiler tcc", 'Invalid value "tcc" for --compiler'),
        ("none.c", "source must be an existing file, not none.c"),
        ("main.py", "source must end in one of .c"),
        ("main.c --ram 0", "--ram"),
        ("main.c --ram 192M --stack 193M", "stack must be 1..201326592 bytes, the size of the ram"),
        ("main.c main.c -S -o x.s", "-o must be left out with -S and several files"),
        ("a.c -march=rv64gc", "options must leave instruction set and linking model to the preset"),
        ("a.c -T none.ld", "-T must be an existing linker script"),
        ("a.c -o a.c", "-o must be another file than the sources"),
        ("-c a.o", "source must end in one of .c, .cpp, .cc, .cxx, .C, .S, .s with -c"),
        ("a.c -MMD", "-MMD must come with -c or -S"),
        ("main.c --cores 4", "--cores must come with --cluster"),
        ("main.c --cluster --cores 99", "cores must be 1 to 16, not 99"),
    ],
)
def test_bad_arguments(arguments: str, named: str, written, refused, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compilers.shutil, "which", lambda name: "/bin/true")
    for name in ("main.c", "a.c", "a.o"):
        written(name)
    assert refused("cc", *arguments.split()).startswith(named)


@pytest.mark.parametrize(("text", "size"), [("4096", 4096), ("0x100", 256), ("64K", 65536), ("3m", 3 << 20)])
def test_sizes(text: str, size: int):
    assert build_options.parse_size(text, "size") == size


MAIN = "int twice(int); int half(int);\nint main(void) { return twice(half(EIGHT)) - 8; }\n"


def test_objects_libraries_and_options(kind: str, written, capfd: pytest.CaptureFixture[str]):
    main = written("main.c", MAIN)
    twice = written("twice.c", "int twice(int x) { return 2 * x; }\n")
    half = written("half.S", ".globl half\nhalf: srai a0, a0, LOG\n ret\n")
    with_compiler = ["--compiler", kind]
    assert cc("-c", main, "-DEIGHT=8", "-Wall", "-Wextra", "-std=c11", "-g", "-j2", *with_compiler) == 0
    assert cc("-c", twice, half, "-DLOG=1", "-o", "lib/libboth.a", *with_compiler) == 0
    assert capfd.readouterr() == ("main.o\nlib/libboth.a\n", "")
    assert [item.title for item in read_objects(Path("lib/libboth.a"))] == [
        "lib/libboth.a(twice.o)",
        "lib/libboth.a(half.o)",
    ]
    assert cc("main.o", "lib/libboth.a", "-o", "one.elf", *with_compiler) == 0
    # the linker of zig writes no map
    linking = ["-L", "lib", "-lboth", "-lm", "-lc", *(["-Wl,-Map=map.txt"] if kind == "gcc" else [])]
    assert cc("main.o", *linking, "-o", "two.elf", *with_compiler) == 0
    for program in ("one.elf", "two.elf"):
        assert cli.main(["iss", program]) == 0
    assert kind != "gcc" or "twice" in Path("map.txt").read_text()

    capfd.readouterr()
    assert cc("-E", main, "-DEIGHT=8", *with_compiler) == 0
    assert "twice(half(8))" in capfd.readouterr().out
    assert cc("-c", main, "-DEIGHT=8", "-MMD", "-o", "main.o", *with_compiler) == 0
    assert re.match(r"main\.o:.*main\.c", Path("main.d").read_text(), re.DOTALL)
    assert cc("main.o", *with_compiler) == 1
    error = capfd.readouterr().err
    assert "twice" in error
    assert error.endswith(f"error: main.o must compile and link with {kind}, not have errors\n")
    assert cc(*["main.o"] * 5, *with_compiler) == 1
    assert "error: main.o, main.o, main.o and 2 more must compile and link" in capfd.readouterr().err
    assert not Path("main.elf").exists()


INLINE = """\
#include <xpulpnn.h>
static int32_t values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
extern int32_t far[2];
int32_t far[2] = {1000, 0};
__asm__(".globl nothing\\nnothing: ret");
int main(void) {
    int32_t *from = values, sum = 0, item, more;
    __asm__("lp.setup x0, %[n], .Lend%=\\n\\t"
            "p.lw %[item], 4(%[from]!)\\n\\t"
            "la %[more], far\\n\\t"
            "lw %[more], 0(%[more])\\n\\t"
            "call nothing\\n\\t" /* the linker makes it shorter where it may */
            "p.mac %[sum], %[item], %[more]\\n"
            ".Lend%=: addi %[sum], %[sum], 1"
            : [from] "+r"(from), [sum] "+r"(sum), [item] "=&r"(item), [more] "=&r"(more) : [n] "r"(8) : "memory", "ra");
    return sum == 36008 && from == values + 8 ? 0 : 1;
}
"""


def test_inline_assembly(kind: str, level: str, written, capfd: pytest.CaptureFixture[str]):
    main = written("main.c", INLINE)
    assert cc(main, level, "--compiler", kind) == 0
    assert cli.main(["iss", "main.elf"]) == 0, capfd.readouterr()
    # what -S writes has the mnemonics, and can be compiled
    assert cc(main, level, "-S", "--compiler", kind) == 0
    assert "p.mac" in Path("main.s").read_text()
    assert cc("main.s", "-o", "again.elf", "--compiler", kind) == 0
    assert cli.main(["iss", "again.elf"]) == 0


def test_errors_in_assembly_are_at_their_lines(kind: str, written, capfd: pytest.CaptureFixture[str]):
    body = '    __asm__("p.abs %0, %0" : "+r"(a));\n\n    __asm__("@" : "+r"(a));\n    return a;\n'
    inline = f"\nint f(int a) {{\n{body}}}\n"
    by_hand = "    .text\n# a comment\nf:  ret\n    @\n"
    cases = (
        ("pv.sdotsp.n %0, %0, %0", "pv.sdotsp.n must be an instruction of the core, which has no XpulpNN"),
        ("p.clip %0, %0, 99", "Is2 must be 0..31, not 99"),
        ("nonsense %0", "nonsense"),
    )
    for number, (text, words) in enumerate(cases):
        for name, source, line in (("a.c", inline, 5), (("b.s", "c.S")[number % 2], by_hand, 4)):
            path = written(name, source.replace("@", text if name == "a.c" else text.replace("%0", "a0")))
            assert cc("-c", path, "--preset", "ri5cy", "--compiler", kind) == 1
            error = capfd.readouterr().err
            assert re.match(rf"({re.escape(name)}: .*\n)?{re.escape(name)}:{line}:.*[Ee]rror", error), error
            assert words in error


def test_errors_of_all_files_are_shown(compiler: str, written, capfd: pytest.CaptureFixture[str]):
    names = [written(f"{name}.c", f"int f(void) {{ return {name}; }}\n") for name in ("first", "second")]
    assert cc(*names, "-j", "1", "--compiler", compiler) == 1
    error = capfd.readouterr().err
    assert error.index("first.c:1:") < error.index("second.c:1:")


def test_bus_errors_are_faults(kind: str, tmp_path: Path):
    source, program = tmp_path / "read.c", tmp_path / "read.elf"
    source.write_text("int main(void) { return *(volatile int *)0x20000000; }\n")
    toolchain.build([source], program, compiler=kind)
    reasons = [simulate(program, bus_errors=errors).exit.reason for errors in ((), ((0x2000_0000, 4),))]
    assert reasons == [Reason.BAD_ACCESS, Reason.FAIL]


def test_sources_in_latin_1(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    source, program = tmp_path / "latin.c", tmp_path / "latin.elf"
    source.write_bytes(b'int main(void) { int unused; /* \xfc */ return "\xfc"[0] != (char)0xfc; }\n')
    assert cli.main(["cc", "--compiler", kind, "-Wall", str(source), "-o", str(program)]) == 0
    assert "unused variable" in capfd.readouterr().err
    assert simulate(program).exit.ok
    assert cli.main(["cc", "--compiler", kind, "-E", str(source)]) == 0


def test_functions_that_are_nowhere_are_explained(compiler: str, written, capfd: pytest.CaptureFixture[str]):
    main = written("main.c", "#include <xpulpnn.h>\nint main(void) { return xp_rqu_b(1, 2, 3) + xp_clip(1, 2); }\n")
    assert cc(main, "--preset", "ri5cy", "--compiler", compiler) == 1
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert errors == ["error: xp_rqu_b needs --preset xpulpnn2 or xpulpnn3, not ri5cy"]
    other = written("other.c", "int mian(void) { return 0; }\n")
    assert cc(other, "--compiler", compiler) == 1
    assert "\nerror: no main() in other.c; -c compiles" in capfd.readouterr().err


def test_a_fault_names_the_line_of_its_source(compiler: str, written, capfd: pytest.CaptureFixture[str]):
    main = written("main.c", "int main(void) {\n    return *(volatile int *)0x40000000;\n}\n")
    assert cc(main, "-g", "--compiler", compiler) == 0
    assert cli.main(["iss", "main.elf", "--json", "out.json"]) == 1
    error = capfd.readouterr().err
    assert re.search(r"^load of 4 bytes outside memory: .*\nsource: main\.c:2\n", error)
    assert read_results(Path("out.json"))[0]["line"] == "main.c:2"


def test_a_program_for_another_core_is_refused(compiler: str, written, refused):
    main = written("main.c", "int main(void) { return 0; }\n")
    assert cc(main, "--preset", "xpulpnn", "--set", "widths=16,8,4", "--compiler", compiler) == 0
    assert [note.name for note in load(Path("main.elf")).cores] == ["xpulpnn widths=16,8,4"]
    for command in ("iss", "run"):
        assert refused(command, "main.elf", "--preset", "ri5cy") == (
            "core must be xpulpnn widths=16,8,4, which main.elf is compiled for, or have as much, not ri5cy, "
            "which has no XpulpNN, no XpulpMLnn, no elements of 4 bits; without --preset and --set a program runs on "
            "the core that it names"
        )
    assert cli.main(["iss", "main.elf"]) == 0
    assert simulate("main.elf").exit.ok
    assert cc("-c", main, "--preset", "xpulpnn", "--compiler", compiler) == 0
    assert cc("main.o", "--preset", "ri5cy", "--compiler", compiler) == 0
    assert "core must be xpulpnn, which" in refused("iss", "main.elf", "--preset", "ri5cy")


NEEDED = r"/(printf|ctype_|errno|locale|mbtowc_r|wcrtomb|wctomb_r|memcpy|memmove|memset|strcat|strchr|strcmp|strcpy"
NEEDED += r"|strn?len|wcsnlen|f?printf|s_copysign|s_fabs|sf_sqrt|sf_fpclassify|math_errf_(invalidf|with_errnof)"
NEEDED += r"|strtoul|strncmp|memcmp|fgetc|s_(erf|hypot|modf|sqrt|issignaling|fpclassify)|exp|exp_data"
NEEDED += r"|math_err_[a-z]*)\.[cS]$"


@pytest.mark.parametrize("kind", ["gcc", "zig"], indirect=True)
def test_the_whole_set_works_without_the_command(kind: str, written, capfd: pytest.CaptureFixture[str]):
    text = "#include <xpulpnn.h>\n#include <stdio.h>\n#include <math.h>\n#include <stdlib.h>\n"
    text += 'int main(void) { int *p = malloc(4); *p = xp_sdotsp_n(0x11, 0x23, 4); printf("%d\\n", *p);'
    text += " return *p == 9 && sqrtf((float)*p) == 3.0f ? 0 : 1; }\n"
    written("main.c", text)
    assert cc("--headers", "sdk") == 0
    readme = Path("sdk/README.txt").read_text()
    start = "    riscv64-unknown-elf-gcc" if kind == "gcc" else "    python -m ziglang cc"
    command = readme[readme.index(start) :].partition("\n\n")[0].replace("\\\n", " ").split()
    command = [*compilers.find_compiler(kind).command, *command[1 if kind == "gcc" else 4 :], "-Wall", "-Werror"]
    # both compilers compile all of them, with the same options, for the library in the cache
    listed = Path("sdk/picolibc/sources")
    lines = listed.read_text().splitlines()
    assert all(Path(line).exists() for line in lines)
    listed.write_text("\n".join(line for line in lines if re.search(NEEDED, line)))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    capfd.readouterr()
    assert cli.main(["iss", "main.elf"]) == 0
    assert capfd.readouterr().out == "9\n"


def test_damaged_libraries_are_refused(written):
    path = Path(written("lib.a", "!<arch>\nrubbish"))
    with pytest.raises(InputError, match=r"^lib\.a must be a well-formed library, not damaged at byte 8$"):
        read_objects(path)


def test_a_trap_names_the_instruction(compiler: str, written, capfd: pytest.CaptureFixture[str]):
    # as an object of another maker, without a word on the core it needs
    main = written("main.c", 'int main(void) { __asm__(".insn r 0x57, 2, 0x5c, a0, a1, a2" : : : "a0"); return 0; }\n')
    assert cc(main, "--preset", "ri5cy", "--compiler", compiler) == 0
    assert cli.main(["iss", "main.elf", "--preset", "ri5cy", "--json", "end.json"]) == 1
    error = capfd.readouterr().err
    assert re.search(
        r"\nlast exception: illegal instruction at 0x1c00[0-9a-f]{4} \(main(\+0x\w+)?\): pv\.sdotsp\.n a0, a1, a2; "
        r"ri5cy has no XpulpNN \(it is in xpulpnn, xpulpnn-cu, xpulpnn-full, xpulpnn2, xpulpnn3\)\n",
        error,
    ), error
    assert cli.main(["iss", "main.elf", "--preset", "xpulpnn"]) == 0


UMLAUTS = """#include <stdio.h>
int größe[40];
__attribute__((noinline)) int füll(int *x, int n)
{
    int s = 0;
    for (int i = 0; i < n; i++)
        s += x[i] + i;
    return s;
}
__attribute__((noinline)) int zwei(int n) { return füll(größe, n) + 1; }
int main(void) { größe[3] = 5; printf("%d\\n", zwei(40) + füll(größe, 4)); asm("WRONG"); }
"""


def test_names_with_umlauts(kind: str, tmp_path: Path) -> None:
    source, report = tmp_path / "Quellen ü" / "fü.c", PassReport()
    source.parent.mkdir()
    source.write_text(UMLAUTS.replace("WRONG", ""))
    options = Options(config=FULL, report=report)
    toolchain.build([source], tmp_path / "a.elf", compiler=kind, options=options)
    assert run(tmp_path / "a.elf", FULL).output == f"{sum(range(40)) + 5 + 1 + sum(range(4)) + 5}\n"
    assert [(loop.function, loop.source) for loop in report.loops if loop.function == "füll"] == [
        ("füll", f"{source}:7")
    ]
    source.write_text(UMLAUTS.replace("WRONG", "p.none a0"))
    with pytest.raises(
        CompileError, match=rf"^{re.escape(str(source))}:11: error|\n{re.escape(str(source))}:11: Error"
    ):
        toolchain.build([source], tmp_path / "a.elf", compiler=kind, options=options)


def test_assembly_without_lines_is_not_of_the_file_before_it(kind: str, tmp_path: Path) -> None:
    first, last = tmp_path / "main.c", tmp_path / "kernel.s"
    first.write_text("int kernel(void);\n\nint main(void) { return kernel(); }\n")
    last.write_text(".globl kernel\nkernel: li a0, 0\nret\n")
    toolchain.build([first, last], tmp_path / "a.elf", compiler=kind, options=Options(config=FULL))
    symbols, lines = load(tmp_path / "a.elf").symbols, SourceLines(tmp_path / "a.elf")
    assert lines.location(symbols["main"]) == "main.c:3"
    assert lines.location(symbols["kernel"]) == ("kernel.s:2" if kind == "zig" else "")
