"""``xpulpnn cc`` as a C compiler: stages, libraries, options passed on, inline assembly, errors, builds without it."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.reference.programs.elf import load
from xpulpnn_sim.reference.programs.objects import read_objects
from xpulpnn_sw.toolchain import compilers

Written = Callable[..., str]


MAIN = "int twice(int); int half(int);\nint main(void) { return twice(half(EIGHT)) - 8; }\n"


@pytest.mark.flow
def test_objects_libraries_and_options(kind: str, written: Written, capfd: pytest.CaptureFixture[str]):
    main = written("main.c", MAIN)
    twice = written("twice.c", "int twice(int x) { return 2 * x; }\n")
    half = written("half.S", ".globl half\nhalf: srai a0, a0, LOG\n ret\n")
    with_compiler = ["--compiler", kind]
    assert cli.main(["cc", "-c", main, "-DEIGHT=8", "-Wall", "-Wextra", "-std=c11", "-g", "-j2", *with_compiler]) == 0
    assert cli.main(["cc", "-c", twice, half, "-DLOG=1", "-o", "lib/libboth.a", *with_compiler]) == 0
    assert capfd.readouterr() == ("main.o\nlib/libboth.a\n", "")
    assert [item.title for item in read_objects(Path("lib/libboth.a"))] == [
        "lib/libboth.a(twice.o)",
        "lib/libboth.a(half.o)",
    ]
    assert cli.main(["cc", "main.o", "lib/libboth.a", "-o", "one.elf", *with_compiler]) == 0
    # the linker of zig writes no map
    linking = ["-L", "lib", "-lboth", "-lm", "-lc", *(["-Wl,-Map=map.txt"] if kind == "gcc" else [])]
    assert cli.main(["cc", "main.o", *linking, "-o", "two.elf", *with_compiler]) == 0
    for program in ("one.elf", "two.elf"):
        assert cli.main(["iss", program]) == 0
    assert kind != "gcc" or "twice" in Path("map.txt").read_text()

    capfd.readouterr()
    assert cli.main(["cc", "-E", main, "-DEIGHT=8", *with_compiler]) == 0
    assert "twice(half(8))" in capfd.readouterr().out
    assert cli.main(["cc", "-c", main, "-DEIGHT=8", "-MMD", "-o", "main.o", *with_compiler]) == 0
    assert re.match(r"main\.o:.*main\.c", Path("main.d").read_text(), re.DOTALL)
    assert cli.main(["cc", "main.o", *with_compiler]) == 1
    error = capfd.readouterr().err
    assert "twice" in error
    assert error.endswith(f"error: main.o must compile and link with {kind}, not have errors\n")
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


@pytest.mark.flow
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_inline_assembly(kind: str, level: str, written: Written, capfd: pytest.CaptureFixture[str]):
    main = written("main.c", INLINE)
    assert cli.main(["cc", main, level, "--compiler", kind]) == 0
    assert cli.main(["iss", "main.elf"]) == 0, capfd.readouterr()
    # what -S writes has the mnemonics, and can be compiled
    assert cli.main(["cc", main, level, "-S", "--compiler", kind]) == 0
    assert "p.mac" in Path("main.s").read_text()
    assert cli.main(["cc", "main.s", "-o", "again.elf", "--compiler", kind]) == 0
    assert cli.main(["iss", "again.elf"]) == 0


@pytest.mark.flow
def test_errors_in_assembly_are_at_their_lines(kind: str, written: Written, capfd: pytest.CaptureFixture[str]):
    body = '    __asm__("p.abs %0, %0" : "+r"(a));\n\n    __asm__("@" : "+r"(a));\n    return a;\n'
    inline = f"\nint f(int a) {{\n{body}}}\n"
    by_hand = "    .text\n# a comment\nf:  ret\n    @\n"
    cases = (
        ("pv.sdotsp.n %0, %0, %0", "pv.sdotsp.n must be an instruction of the core, which has no XpulpNN"),
        ("p.clip %0, %0, 99", "Is2 must be 0..31, not 99"),
        ("nonsense %0", "nonsense"),
    )
    for text, words in cases:
        for name, source, line in (("a.c", inline, 5), ("b.s", by_hand, 4), ("c.S", by_hand, 4)):
            path = written(name, source.replace("@", text if name == "a.c" else text.replace("%0", "a0")))
            assert cli.main(["cc", "-c", path, "--preset", "ri5cy", "--compiler", kind]) == 1
            error = capfd.readouterr().err
            assert re.match(rf"({re.escape(name)}: .*\n)?{re.escape(name)}:{line}:.*[Ee]rror", error), error
            assert words in error


@pytest.mark.flow
def test_errors_of_all_files_are_shown(compiler: str, written: Written, capfd: pytest.CaptureFixture[str]):
    names = [written(f"{name}.c", f"int f(void) {{ return {name}; }}\n") for name in ("first", "second")]
    assert cli.main(["cc", *names, "-j", "1", "--compiler", compiler]) == 1
    error = capfd.readouterr().err
    assert error.index("first.c:1:") < error.index("second.c:1:")


@pytest.mark.flow
def test_a_program_for_another_core_is_refused(compiler: str, written: Written, capfd: pytest.CaptureFixture[str]):
    main = written("main.c", "int main(void) { return 0; }\n")
    assert cli.main(["cc", main, "--preset", "xpulpnn", "--set", "widths=16,8,4", "--compiler", compiler]) == 0
    assert [note.name for note in load(Path("main.elf")).cores] == ["xpulpnn widths=16,8,4"]
    capfd.readouterr()
    for command in ("iss", "run"):
        assert cli.main([command, "main.elf", "--preset", "ri5cy"]) == 2
        assert capfd.readouterr().err == (
            "error: main.elf must be compiled for ri5cy, not for xpulpnn widths=16,8,4: "
            "ri5cy has no XpulpNN, no XpulpMLnn, no elements of 4 bits\n"
        )
    assert cli.main(["iss", "main.elf"]) == 0
    # one part is enough
    assert cli.main(["cc", "-c", main, "--preset", "xpulpnn", "--compiler", compiler]) == 0
    assert cli.main(["cc", "main.o", "--preset", "ri5cy", "--compiler", compiler]) == 0
    assert cli.main(["iss", "main.elf", "--preset", "ri5cy"]) == 2
    assert "not for xpulpnn:" in capfd.readouterr().err


@pytest.mark.flow
def test_the_whole_set_works_without_the_command(kind: str, written: Written, capfd: pytest.CaptureFixture[str]):
    text = "#include <xpulpnn.h>\n#include <stdio.h>\n#include <math.h>\n#include <stdlib.h>\n"
    text += 'int main(void) { int *p = malloc(4); *p = xp_sdotsp_n(0x11, 0x23, 4); printf("%d\\n", *p);'
    text += " return *p == 9 && sqrtf((float)*p) == 3.0f ? 0 : 1; }\n"
    written("main.c", text)
    assert cli.main(["cc", "--headers", "sdk"]) == 0
    readme = Path("sdk/README.txt").read_text()
    start = "    riscv64-unknown-elf-gcc" if kind == "gcc" else "    python -m ziglang cc"
    command = readme[readme.index(start) :].partition("\n\n")[0].replace("\\\n", " ").split()
    command = [*compilers.find_compiler(kind).command, *command[1 if kind == "gcc" else 4 :], "-Wall", "-Werror"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    capfd.readouterr()
    assert cli.main(["iss", "main.elf"]) == 0
    assert capfd.readouterr().out == "9\n"


def test_damaged_libraries_are_refused(written: Written):
    path = Path(written("lib.a", "!<arch>\nrubbish"))
    with pytest.raises(InputError, match=r"^lib\.a must be a well-formed library, not damaged at byte 8$"):
        read_objects(path)


@pytest.mark.flow
def test_a_trap_names_the_instruction(compiler: str, written: Written, capfd: pytest.CaptureFixture[str]):
    # as an object of another maker, without a word on the core it needs
    main = written("main.c", 'int main(void) { __asm__(".insn r 0x57, 2, 0x5c, a0, a1, a2" : : : "a0"); return 0; }\n')
    assert cli.main(["cc", main, "--preset", "ri5cy", "--compiler", compiler]) == 0
    assert cli.main(["iss", "main.elf", "--preset", "ri5cy", "--json", "end.json"]) == 1
    error = capfd.readouterr().err
    assert re.search(
        r"\nlast exception: illegal instruction at 0x1c00[0-9a-f]{4} \(main(\+0x\w+)?\): pv\.sdotsp\.n a0, a1, a2; "
        r"ri5cy has no XpulpNN \(it is in xpulpnn, xpulpnn-cu, xpulpnn-full, xpulpnn2\)\n",
        error,
    ), error
    assert cli.main(["iss", "main.elf", "--preset", "xpulpnn"]) == 0
