"""``xpulpnn objdump``: programs, objects and libraries, with symbols, relocations and lines of the sources."""

import re
from pathlib import Path

import pytest
from tests.programs import read_results

from xpulpnn_sim.cli import main as cli

pytestmark = pytest.mark.flow

SOURCE = """\
extern int other(int);
static const int values[2] = {1, 2};
__attribute__((noinline)) int sum(const int *values, int count) {
    int total = 0;
    __asm__("lp.setup x0, %1, 1f\\n p.lw t1, 4(%2!)\\n1: add %0, %0, t1"
            : "+r"(total) : "r"(count), "r"(values) : "t1", "memory");
    return total;
}
int main(void) {
    return other(sum(values, 2)) != 6;
}
"""


@pytest.fixture
def folder(kind: str, written) -> str:
    """A working directory with sources; gives the compiler to use."""
    written("a.c", SOURCE)
    written("b.S", "    .globl other\n    .type other, @function\nother:\n    pv.add.n a0, a0, a0\n    ret\n")
    return kind


def test_program(folder: str, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["cc", "a.c", "b.S", "-o", "a.elf", "--compiler", folder]) == 0
    capsys.readouterr()
    assert cli.main(["objdump", "a.elf", "--function", "sum", "--function", "other", "--json", "a.json"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("a.elf: program, compiled for xpulpnn2\n")
    assert re.search(r"\n[0-9a-f]{8} <sum>:\n; \S*a\.c:\d+  \S", text)
    assert re.search(r"  lp\.setup 0, a\d, pc\+8  # 0x[0-9a-f]+ <sum\+0x[0-9a-f]+>\n", text)
    assert re.search(r"  p\.lw t1, 4\(a\d!\)\n", text)
    assert re.search(r"<other>:\n.*  pv\.add\.n a0, a0, a0\n(;.*\n)?.*  c\.jr ra\n", text)
    assert "<main>" not in text

    (record,) = read_results(Path("a.json"))
    (section,) = record["sections"]
    lines = {line["text"].split(" ")[0]: line for line in section["lines"]}
    assert lines["pv.add.n"]["symbol"] == "other"
    assert lines["pv.add.n"]["size"] == 4
    assert lines["p.lw"]["source"]["line"] in (5, 6)
    assert section["code"]

    assert cli.main(["objdump", "a.elf", "--headers"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"\.text: \d+ bytes of code at 0x1c000080\n", text)
    assert re.search(r"\.tohost: 72 bytes of data at 0x\w+\n(  .*\n)*  \w+ +8 tohost\n", text)


def test_objects_and_libraries(folder: str, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["cc", "-c", "a.c", "b.S", "-o", "lib.a", "--compiler", folder]) == 0
    capsys.readouterr()
    assert cli.main(["objdump", "lib.a"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("lib.a(a.o): object, compiled for xpulpnn2\n")
    assert "\nlib.a(b.o): object, compiled for xpulpnn2\n" in text
    assert re.search(r"  auipc \w+, 0  # CALL_PLT other\n", text)
    # every function lies in a section of its own, all of which start at 0
    assert re.search(r"00000000 <main>:\n; \S*a\.c:(9|10)  ", text)
    assert re.search(r"00000000 <sum>:\n; \S*a\.c:[345]  ", text)
    assert cli.main(["objdump", "lib.a", "--no-source"]) == 0
    assert "a.c:" not in capsys.readouterr().out


def test_bad_files(written, refused):
    written("text", "no object")
    written("half", "\x7fELF\x01\x01\x01")
    assert refused("objdump", "none").startswith("none must be an existing file")
    assert refused("objdump", "text").startswith("text must be an ELF file or a library")
    assert refused("objdump", "half").startswith("half must be a well-formed ELF file, not damaged")


def test_a_function_that_the_compiler_has_renamed_is_told(folder: str, written, refused):
    written("part.S", "    .globl sum.part.0\nsum.part.0:\n    ret\n")
    assert cli.main(["cc", "-c", "part.S", "-o", "part.o"]) == 0
    error = "--function must be a name in the files, not sum; there is sum.part.0"
    assert error in refused("objdump", "part.o", "--function", "sum")
