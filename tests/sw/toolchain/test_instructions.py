"""Our instructions with stock compilers: in the generated headers, and by their mnemonics in assembly."""

import random
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from xpulpnn.config import DEFAULT_PRESET, PRESETS
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.formats import STOCK_EXTENSIONS
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import INSNS, Decoder, expand_compressed, find
from xpulpnn_sw.assembly.disasm import disassemble, render
from xpulpnn_sw.assembly.expressions import evaluate
from xpulpnn_sw.toolchain import compilers
from xpulpnn_sw.toolchain.build_options import CoreNote, core_name, core_note, named_core, read_notes, require_core
from xpulpnn_sw.toolchain.compilers import header_flags
from xpulpnn_sw.toolchain.headers.generate import GENERATOR, config_header, headers, intrinsics_header
from xpulpnn_sw.toolchain.headers.intrinsics import Intrinsic, c_name, intrinsics
from xpulpnn_sw.toolchain.headers.pulp import BUILTINS, pulp_header
from xpulpnn_sw.toolchain.stock_assembly import SourcePlaces, assembly_statements, translate

INTRINSICS = intrinsics(INSNS)
FULL = PRESETS["xpulpnn-full"]
OURS = [insn for insn in INSNS if insn.extension not in STOCK_EXTENSIONS and insn.extension in FULL.extensions]
ARGUMENTS = ("rs1", "rs2", "rd", "rs3")
"""Parameters of the test functions, in a0 to a3."""

A0 = 10
SEED = 7


@pytest.fixture(scope="module")
def include(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with headers that declare every row, pv.qnt too."""
    folder = tmp_path_factory.mktemp("include")
    (folder / "cross").mkdir()
    for place, config in ((folder, FULL), (folder / "cross", replace(FULL, mac_load_cross=True))):
        (place / "xpulpnn.h").write_text(intrinsics_header(INSNS))
        (place / "xp_config.h").write_text(config_header(config))
    (folder / "pulp_builtins.h").write_text(pulp_header(INSNS))
    return folder


def compile_text(kind: str, text: str, folder: Path, include: Path) -> subprocess.CompletedProcess:
    source = folder / "source.c"
    source.write_text(text)
    folders = (f"-I{include}", f"-I{compilers.RUNTIME / 'include'}", *header_flags())
    flags = (*compilers.target_flags(kind), "-O1", *folders, "-Wall", "-Werror")
    command = [*compilers.find_compiler(kind).command, *flags, "-c", str(source), "-o", str(folder / "object.o")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def sections(folder: Path) -> dict[str, bytes]:
    with (folder / "object.o").open("rb") as file:
        return {section.name: section.data() for section in ELFFile(file).iter_sections()}


def drawn(insn: Insn, rng: random.Random, *, registers: bool) -> dict[str, int]:
    """A legal value for every operand, or for those that are no registers."""
    values: dict[str, int] = {}
    for token in insn.tokens:
        field = token.field
        if registers or field.kind is not FieldKind.REGISTER:
            legal = [value for value in range(field.low, field.high + 1, field.step) if token.accepts(value)]
            values[field.name] = rng.choice([legal[0], legal[-1], rng.choice(legal)])
    return values


def use(number: int, item: Intrinsic, values: dict[str, int]) -> str:
    arguments = ", ".join(
        "yes"
        if name == "boff13"
        else str(values[name])
        if name in values
        else f"&{name}"
        if name == "rs1" and item.insn.writes_base
        else name
        for name in item.parameters
    )
    call = f"{item.name}({arguments})"
    if item.insn.is_pair:
        # the two sums that the function is given come back as one
        sums = "((xp_sums){rd, rs3})"
        call = f"{call.replace('(rd,', f'({sums},').replace(', rd)', f', {sums})')}"
        body = f"xp_sums both = {call}; result = both.first ^ both.second;"
    else:
        body = f"result = {call};" if item.insn.writes_rd else f"{call};"
    after = "yes: result = 3;" if "boff13" in item.parameters else ""
    used = "place[0] = rs1; " if item.insn.writes_base else ""
    parameters = ", ".join(f"uint32_t {name}" for name in ARGUMENTS)
    return (
        f'__attribute__((section(".text.use{number}"), used)) static uint32_t use{number}({parameters}) '
        f"{{ uint32_t result = 0; {body} {used}return result; {after} return result; }}"
    )


def in_assembly(number: int, item: Intrinsic, values: dict[str, int]) -> str:
    """A function that holds the macro for asm statements, with registers a0, a1, ... in assembler order."""
    names = [token.field.name for token in item.insn.tokens]
    registers = {name: f"a{index}" for index, name in enumerate(names)}
    operands = ", ".join(f'"{values.get(name, registers[name])}"' for name in names)
    macro = item.name.replace("xp_", "XP_ASM_", 1)
    return (
        f'__attribute__((section(".text.asm{number}"), used)) static void asm{number}(void) '
        f"{{ __asm__ volatile({macro}({operands})); }}"
    )


def words_of(section: bytes) -> list[int]:
    words: list[int] = []
    place = 0
    while place < len(section):
        size = 4 if section[place] & 3 == 3 else 2
        words.append(int.from_bytes(section[place : place + size], "little"))
        place += size
    return words


def traced(words: list[int], decoder: Decoder) -> list[tuple[Insn, int, dict[int, str]]]:
    """The instructions beyond the base set, each with the arguments that the registers hold before it."""
    holds = {A0 + index: name for index, name in enumerate(ARGUMENTS)}
    instructions: list[tuple[Insn, int, dict[int, str]]] = []
    for word in words:
        insn = decoder.decode(word)
        assert insn is not None, hex(word)
        if insn.size == 2:
            word = expand_compressed(word)
            insn = decoder.decode(word)
            assert insn is not None
        fields = insn.decode(word)
        if insn.extension not in STOCK_EXTENSIONS:
            instructions.append((insn, word, dict(holds)))
        source = next((fields[name] for name in ("rs1", "rs2") if fields.get(name)), 0)
        copied = (insn.mnemonic == "addi" and fields["imm12"] == 0) or (insn.mnemonic == "add" and 0 in fields.values())
        if insn.writes_rd:
            holds[fields["rd"]] = holds.get(source, "") if copied else ""
    return instructions


@pytest.mark.flow
def test_every_instruction_compiles_to_its_word(kind: str, tmp_path: Path, include: Path):
    rng = random.Random(SEED)
    chosen = [(number, item, drawn(item.insn, rng, registers=False)) for number, item in enumerate(INTRINSICS)]
    with_macro = [entry for entry in chosen if entry[1].assembler_macro()]
    lines = ["#include <pulp_builtins.h>", "extern volatile uint32_t place[];"]
    lines += [use(*entry) for entry in chosen] + [in_assembly(*entry) for entry in with_macro]
    done = compile_text(kind, "\n".join(lines), tmp_path, include)
    assert done.returncode == 0, done.stderr[:2000]

    decoder, code = Decoder(INSNS), sections(tmp_path)
    for number, item, values in chosen:
        insn = item.insn
        executed = traced(words_of(code[f".text.use{number}"]), decoder)
        assert len(executed) == 1, item.name
        _, word, holds = executed[0]
        assert insn.matches(word), f"{item.name}: {disassemble(word)}"
        fields = insn.decode(word)
        # the label of a branch is placed by the linker
        assert fields.items() >= {name: value for name, value in values.items() if name != "boff13"}.items(), item.name
        for token in insn.tokens:
            name = token.field.name
            if token.field.kind is FieldKind.REGISTER and (name != "rd" or item.accumulator):
                if insn.is_pair and item.accumulator:
                    assert holds[fields["rd"] + 1] == "rs3", item.name
                assert holds[fields[name]] == name, f"{item.name}: {name} in {disassemble(word)}"
    assert len(with_macro) > 400
    for number, item, values in with_macro:
        names = [token.field.name for token in item.insn.tokens]
        operands = {name: values.get(name, A0 + index) for index, name in enumerate(names)}
        assert [word for _, word, _ in traced(words_of(code[f".text.asm{number}"]), decoder)] == [
            item.insn.encode(**operands)
        ], item.name


OUT_OF_RANGE = (
    *("xp_clipi(x, 32)", "xp_add_sci_b(x, -33)", "xp_extracti(x, 32, 0)", "xp_lw_post(&p, 2048)"),
    *("xp_mlsdotsp_b(x, &p, 24)", "xp_mldotsp_b(&p, 24)", "xp_rqu_b(x, x, 4, x)", "xp_rqs_c(x, x, 16, x)"),
    *("xp_mlsduoup_b(((xp_sums){x, x}), &p, 4, 0, 9).first", "xp_mlduoup_b_noload(3, 2).second"),
)
OUT_OF_RANGE_WITHOUT_RESULT = (
    *("xp_rqld(2, &p)", "xp_pair_load(&p, 7)", "xp_cu_load(&p, 4)", "xp_lp_counti(2, 5)", "xp_lp_setupi(0, 5, 7)"),
)


@pytest.mark.flow
def test_constants_out_of_range_are_errors(kind: str, tmp_path: Path, include: Path):
    uses = [f"sink = {call};" for call in OUT_OF_RANGE] + [f"{call};" for call in OUT_OF_RANGE_WITHOUT_RESULT]
    lines = ["#include <xpulpnn.h>", "extern volatile int sink;", "void f(int x, char *p) {", *uses, "}"]
    done = compile_text(kind, "\n".join(lines), tmp_path, include)
    assert done.returncode != 0
    wrong = {int(line) for line in re.findall(r"source\.c:(\d+):(?:\d+:)? [Ee]rror", done.stderr)}
    assert wrong == {number for number, line in enumerate(lines, 1) if line in uses}, done.stderr


@pytest.mark.flow
def test_both_update_bits_where_the_core_has_them(kind: str, tmp_path: Path, include: Path):
    text = """#include <xpulpnn.h>
    int f(int x, char *p) {
        x = xp_mlsdotsp_b(x, &p, 24);
        x ^= xp_mldotsup_n(&p, 31);
        xp_rqld(1, &p);
        return xp_rqs_c(x, x, 15, x);
    }"""
    assert compile_text(kind, text, tmp_path, include / "cross").returncode == 0
    words = words_of(sections(tmp_path)[".text.f"])
    lines = [disassemble(word).split() for word in words if word & 0x7F == 0x77]
    assert [line[0] for line in lines] == ["pv.mlsdotsp.b", "pv.mldotsup.n", "pv.rqld", "pv.rqs.c"]
    assert [lines[0][-1], lines[1][-1], lines[2][1], lines[3][-1]] == ["24", "31", "1,", "15"]
    assert compile_text(kind, text, tmp_path, include).returncode != 0


def test_names_are_unique_and_cover_the_table():
    names = [item.name for item in INTRINSICS]
    rows = {insn.mnemonic + insn.operands.removesuffix("'") for insn in INSNS if insn.extension not in STOCK_EXTENSIONS}
    assert len(set(names)) == len(names) == len(rows)
    keys = (("p.lw", "rd,imm12(rs1!)"), ("p.lw", "rd,rs2(rs1!)"), ("p.sw", "rs2,rs3(rs1)"), ("pv.cusdotup.b.2",))
    spelled = [c_name(find(*key)) for key in (*keys, ("p.mulsNR",))]
    assert spelled == ["xp_lw_post", "xp_lw_postr", "xp_sw_rr", "xp_cusdotup_b_2", "xp_mulsNR"]


def test_headers_declare_what_the_core_has():
    def declared(config) -> dict[str, bool]:
        texts = headers(config)
        assert all(text.startswith(f"/* Generated by {GENERATOR}") for text in texts.values())
        names = set(re.findall(r"(?:#define|XP_INLINE \w+) (\w+)", "".join(texts.values())))
        expected = "xp_sdotsp_b xp_sdotsp_n xp_mlsdotsp_b xp_nn_load xp_cusdotsp_c_0 xp_cu_load XP_HAVE_XPULPNN "
        expected += "XP_HAVE_WIDTH_4 __builtin_pulp_sdotsp4 __builtin_pulp_sdotsp8 __builtin_pulp_mlsdotsp4_v3 "
        expected += "__builtin_pulp_binsert"
        return {name: name in names for name in expected.split()}

    absent = dict.fromkeys(declared(FULL), False)
    assert all(declared(FULL).values())
    assert declared(replace(FULL, mac_load_cu=False)) == declared(FULL) | {
        "xp_cusdotsp_c_0": False,
        "xp_cu_load": False,
    }
    ri5cy = ("xp_sdotsp_b", "__builtin_pulp_sdotsp4", "__builtin_pulp_binsert")
    assert declared(PRESETS["ri5cy"]) == absent | dict.fromkeys(ri5cy, True)
    plain = replace(PRESETS["ri5cy"], xpulpv2=False)
    assert declared(plain) == absent
    assert "xp_hwloop.h" not in headers(plain)["xpulpnn.h"]
    counters = config_header(replace(FULL, performance_counters=True))
    assert "XP_HAVE_PERFORMANCE_COUNTERS" in counters
    assert "XP_HAVE_PERFORMANCE_COUNTERS" not in config_header(FULL)


def test_builtins_refer_to_existing_functions():
    called = {call for line in BUILTINS for call in re.findall(r"\b(xp_\w+)\(", line)}
    helpers = {"xp_nn_load", "xp_pulp_binsert", "xp_pulp_pack4", "xp_pulp_nn_load", "xp_hart_id"}
    assert called - helpers <= {c_name(insn) for insn in INSNS}


def test_signs_of_results():
    signed = {item.name for item in INTRINSICS if "int32_t xp_rd" in "".join(item.lines()).replace("uint32_t", "")}
    assert {"xp_lb_post", "xp_clip", "xp_addNi", "xp_mulhhsNR", "xp_mlsdotsup_c", "xp_dotusp_h"} <= signed
    assert not {"xp_lbu_post", "xp_clipu", "xp_adduNi", "xp_mulhhuNR", "xp_mlsdotup_c", "xp_dotup_h"} & signed


def assembled(kind: str, text: str, folder: Path) -> list[int]:
    if kind == "clang":
        pytest.skip("with clang, cc assembles by GNU as")
    translated, problems = translate(text, FULL)
    assert problems == []
    assert translated.count("\n") == text.count("\n")
    source = folder / "text.s"
    source.write_text(translated)
    compiler = compilers.find_compiler(kind)
    command = [*compiler.command, *compilers.TARGETS[kind], "-c", str(source), "-o", str(folder / "object.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return words_of(sections(folder)[".text"])


@pytest.mark.flow
def test_every_instruction_is_assembled(kind: str, tmp_path: Path):
    """Targets as distances and as labels; what is assembled are the words, and the nops after them."""
    rng = random.Random(SEED)
    lines: list[str] = [".option norvc"]
    words: list[int] = []
    nop = find("addi").encode(rd=0, rs1=0, imm12=0)
    for number, insn in enumerate(OURS):
        targets = {token.field.name: 8 for token in insn.tokens if token.field.kind is FieldKind.TARGET}
        word = insn.encode(**drawn(insn, rng, registers=True) | targets)
        text = render(insn, word)
        lines.append(f" {text} # {number}")
        words.append(word)
        if "pc+8" in text:
            lines += [f" {text.replace('pc+8', f'end{number}')}; nop", f"end{number}: nop"]
            lines += [f"\t{text.replace('pc+8', '7f')}", " nop", "7:\tnop # here"]
            words += [word, nop, nop] * 2
    assert len(words) > 480
    assert assembled(kind, "\n".join(lines), tmp_path) == words


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
    assert assembled(kind, text, tmp_path)[: len(words)] == words


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


def test_expressions():
    values = {"2+3*4": 14, "(2+3)*-4": -20, "1<<4|1": 17, "-7%4": -3, "~0x0f & 0xff": 0xF0}
    assert {text: evaluate(text, {}, 0) for text in values} == values


def test_places():
    text = '\t.file 1 "/src" "a.c"\n\t.loc 1 7 2\n\tnop\n#APP\n# 9 "b.c" 1\n\tone\n\ttwo\n# 0 "" 2\n\tthree'
    places = SourcePlaces(text, Path("a.c"))
    assert [places.source_line(line) for line in (1, 3, 6, 7, 9)] == ["a.c", "/src/a.c:7", "b.c:9", "b.c:10", "b.c:12"]
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
    own = CoreNote.of(PRESETS["xpulpnn3"], "a core of its own")
    changed = CoreNote.of(PRESETS["xpulpnn3"], "xpulpnn3 qnt=true")
    for parts, name in (
        ([], DEFAULT_PRESET),
        ([cores["ri5cy"]], "ri5cy"),
        ([cores["ri5cy"], cores["xpulpnn"]], "xpulpnn"),
        ([cores["xpulpnn-cu"], cores["xpulpnn"]], "xpulpnn-full"),
        ([own], "xpulpnn3"),
        ([cores["ri5cy"], changed], "xpulpnn3 qnt=true"),
    ):
        assert named_core(parts) == name
    narrow = ["elements of 4 bits", "elements of 2 bits"]
    assert cores["ri5cy"].lacks(cores["xpulpnn"]) == ["XpulpNN", "XpulpMLnn", *narrow]
    assert cores["xpulpnn-cu"].lacks(cores["xpulpnn"]) == ["XpulpMLnn"]
