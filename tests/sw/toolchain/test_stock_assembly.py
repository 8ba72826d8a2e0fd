"""Our mnemonics for stock assemblers: every instruction through both of them, problems, places in the sources."""

import random
import re
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from xpulpnn.config import PRESETS
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.formats import BASE_EXTENSIONS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import INSNS, find
from xpulpnn_sw.assembly.disasm import render
from xpulpnn_sw.assembly.expressions import evaluate
from xpulpnn_sw.toolchain import compilers
from xpulpnn_sw.toolchain.core_note import CoreNote, core_name, core_note, read_notes, require_core
from xpulpnn_sw.toolchain.stock_assembly import SourcePlaces, assembly_statements, translate

FULL = PRESETS["xpulpnn-full"]
SEED = 5
OURS = [insn for insn in INSNS if insn.extension not in BASE_EXTENSIONS and insn.extension in FULL.extensions]


def assembled(kind: str, text: str, folder: Path) -> bytes:
    """The code of assembly text, translated."""
    translated, problems = translate(text, FULL)
    assert problems == []
    assert translated.count("\n") == text.count("\n")
    compiler = compilers.find_compiler(kind)
    source, output = folder / "text.s", folder / "text.o"
    source.write_text(translated)
    command = [*compiler.command, *compilers.TARGETS[compiler.kind], "-c", str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    with output.open("rb") as file:
        return ELFFile(file).get_section_by_name(".text").data()


def drawn(insn: Insn, rng: random.Random) -> int:
    """A word of the instruction, its targets ahead by a few instructions."""
    values: dict[str, int] = {}
    for token in insn.tokens:
        field = token.field
        legal = [value for value in range(field.low, field.high + 1, field.step) if token.accepts(value)]
        values[field.name] = (
            8 if field.kind is FieldKind.TARGET else rng.choice([legal[0], legal[-1], rng.choice(legal)])
        )
    return insn.encode(**values)


@pytest.mark.flow
def test_every_instruction(kind: str, tmp_path: Path):
    """Targets as distances and as labels; what is assembled are the words, and the nops after them."""
    rng = random.Random(SEED)
    lines: list[str] = [".option norvc"]
    words: list[int] = []
    nop = find("addi").encode(rd=0, rs1=0, imm12=0)
    for number, insn in enumerate(OURS):
        word = drawn(insn, rng)
        text = render(insn, word)
        lines.append(f" {text} # {number}")
        words.append(word)
        if "pc+8" in text:
            lines += [f" {text.replace('pc+8', f'end{number}')}; nop", f"end{number}: nop"]
            lines += [f"\t{text.replace('pc+8', '7f')}", " nop", "7:\tnop # here"]
            words += [word, nop, nop] * 2
    code = assembled(kind, "\n".join(lines), tmp_path)
    got = [int.from_bytes(code[place : place + 4], "little") for place in range(0, len(code), 4)]
    assert len(words) > 480
    assert got == words


@pytest.mark.flow
def test_spellings(kind: str, tmp_path: Path):
    text = """
    .equ STEP, 4 * 2
    COUNT = (1 << 4) + 3
    .macro multiply to, from
        p.mac \\to, \\from, a0   # in a macro
        p.lw \\to, 4(\\from!)
    .endm
start: P.LW a0, STEP/2(a1!); pv.dotsp.n.sc a2, a0, a1 /* both */
    multiply a3, s0
    lp.counti x1, COUNT
    p.clip a0, a1, 5
    p.beqimm a0, -3, start
    p.sw a0, -STEP(a1!)
    csrr a0, lpcount1
    .word 7 ; /* two
    lines p.lw */ pv.qq_is_a_label: nop
    """
    words = [
        find("p.lw", "rd,imm12(rs1!)").encode(rd=10, rs1=11, imm12=4),
        find("pv.dotsp.sc.n").encode(rd=12, rs1=10, rs2=11),
        find("p.mac").encode(rd=13, rs1=8, rs2=10),
        find("p.lw", "rd,imm12(rs1!)").encode(rd=13, rs1=8, imm12=4),
        find("lp.counti").encode(L=1, lpcnt12=19),
        find("p.clipi").encode(rd=10, rs1=11, Is2=5),
        find("p.beqimm").encode(rs1=10, simm5=-3, boff13=-24),
        find("p.sw", "rs2,stimm12(rs1!)").encode(rs2=10, rs1=11, stimm12=-8),
        find("csrrs").encode(rd=10, rs1=0, csr=0x7C6),
        7,
    ]
    code = assembled(kind, text, tmp_path)
    assert [int.from_bytes(code[place : place + 4], "little") for place in range(0, 4 * len(words), 4)] == words


PROBLEMS = (
    ("p.lw a0, 5000(a1!)", "imm12 must be -2048..2047, not 5000"),
    ("p.beqimm a0, 99, before", "simm5 must be -16..15, not 99"),
    ("p.lw a0", "operands of p.lw must be rd,imm12(rs1!) or rd,rs2(rs1!) or rd,rs2(rs1), not a0"),
    ("p.clip a0, a1, unknown", "symbol must be a label or constant of the program, not unknown"),
    ("lp.setup x0, a0, before", "end of lp.setup must be a label after it, not before"),
    (
        "lp.setupi x0, 5, far\n" + " nop\n" * 16 + "far: nop",
        "end of lp.setupi must be at most 62 bytes behind it, not 68",
    ),
    (
        "pv.cusdotsp.b.0 a0, (a1!), a2",
        "pv.cusdotsp.b.0 must be an instruction of the core, which has no XpulpMLcu with elements of 8 bits",
    ),
)


@pytest.mark.parametrize(("text", "rule"), PROBLEMS)
def test_problems(text: str, rule: str):
    _, problems = translate(f"before: nop\n {text}\n", PRESETS["xpulpnn"])
    assert [(problem.line, problem.text) for problem in problems] == [(2, rule)]


def test_other_text_stays_as_it_is():
    text = '\t.loc 1 2 3\nname:\tlw a0, 4(a1) # p.lw\n\t.ascii "; p.lw a0; \\"pv.x"\n# 5 "p.lw.c"\n\t.p2align 1\n'
    assert translate(text, FULL) == (text, [])
    mixed = text + " p.abs a0, a1\n"
    assert translate(mixed, FULL)[0].startswith(text)
    assert assembly_statements('a "x;#" ; b # c') == ['a "x;#" ', " b "]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2+3*4", 14),
        ("(2+3)*-4", -20),
        ("1<<4|1", 17),
        ("-7%4", -3),
        ("~0x0f & 0xff", 0xF0),
    ],
)
def test_expressions(text: str, value: int):
    assert evaluate(text, {}, 0) == value


def test_places():
    text = '\t.file 1 "/src" "a.c"\n\t.loc 1 7 2\n\tnop\n#APP\n# 9 "b.c" 1\n\tone\n\ttwo\n# 0 "" 2\n\tthree'
    places = SourcePlaces(text, Path("a.c"))
    assert [places.of(line) for line in (1, 3, 6, 7, 9)] == ["a.c", "/src/a.c:7", "b.c:9", "b.c:10", "b.c:12"]
    messages = "/out/x.s:3:4: error: no\n/out/x.s: Assembler messages:\nother: x\n"
    expected = "/src/a.c:7: error: no\na.c: Assembler messages:\nother: x\n"
    assert places.in_messages(messages, Path("/out/x.s")) == expected


def test_notes_of_cores():
    cores = {name: CoreNote.of(config, name) for name, config in PRESETS.items()}
    for name, config in PRESETS.items():
        (line,) = re.findall(r'"(core .*)\\n"', core_note(config, name))
        assert read_notes(f"{line}\n{line}\nrubbish; x\n\0".encode()) == (cores[name],)
        assert core_name(config) == name
        require_core([cores["ri5cy"]], config, "a.elf", name)
    assert cores["ri5cy"].lacks(cores["xpulpnn"]) == [
        "XpulpNN",
        "XpulpMLnn",
        "elements of 4 bits",
        "elements of 2 bits",
    ]
    assert cores["xpulpnn-cu"].lacks(cores["xpulpnn"]) == ["XpulpMLnn"]
