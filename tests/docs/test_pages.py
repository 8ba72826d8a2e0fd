"""Contents of the pages of the guide."""

import json
import re
from html import unescape
from pathlib import Path

import pytest
from docs.generate import pages
from docs.generate.instructions import (
    ALL_INSNS,
    anchor,
    c_call,
    encoding,
    presets_of,
    records,
    shown_cycles,
)
from docs.generate.machine import TABLES
from docs.generate.pages import expand_page

from xpulpnn.config import PRESETS, CoreConfig, preset
from xpulpnn.emit.declarations import declared_meanings
from xpulpnn.errors import InputError
from xpulpnn.isa.cluster import Barrier, Control, EventRegister, Timer, TimerConfig
from xpulpnn.isa.csr import CSRS
from xpulpnn.isa.formats import BASE_EXTENSIONS
from xpulpnn.isa.machine import ExceptionCause, cycles
from xpulpnn.isa.semantics import statements
from xpulpnn.isa.table import INSNS, enabled, find
from xpulpnn_sim.cli.tree import COMMANDS, commands
from xpulpnn_sw.toolchain.headers.generate import headers

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    """Every row of the instruction reference by its anchor, as text."""
    rows: dict[str, str] = {}
    for page in sorted((DOCS / "isa").glob("*.md")):
        text = expand_page(page.read_text(), commands=commands)
        for row in re.findall(r"<tr>.*?</tr>", text, re.DOTALL):
            name = re.search(r'id="(insn-[^"]*)"', row)
            if name:
                assert name[1] not in rows, name[1]
                rows[name[1]] = unescape(re.sub(r"<[^>]+>", " ", row.replace("<pre>", "\n").replace("</pre>", "\n")))
    return rows


@pytest.mark.flow
def test_every_instruction_is_there_once_with_all_that_is_to_be_said(reference):
    assert reference.keys() == {anchor(insn) for insn in ALL_INSNS}
    for insn in ALL_INSNS:
        row = reference[anchor(insn)]
        parts = (insn.mnemonic, "\n".join(statements(insn)), encoding(insn), c_call(insn))
        assert all(part in row for part in parts), insn
        assert all(name in row for name in presets_of(insn)) or " all " in row


def test_the_same_for_programs():
    rows = json.loads(json.dumps(records()))
    assert len(rows) == len(ALL_INSNS)
    row = next(row for row in rows if row["mnemonic"] == "pv.avgu.sci.b")
    assert row["operation"] == ["rd[i] = zx(rs1[i] + uimm6, 8) >> 1"]
    assert (row["c"], row["cycles"], row["presets"]) == ("xp_avgu_sci_b(rs1, uimm6)", "1 cycle", list(PRESETS))


@pytest.mark.flow
def test_c_names_are_those_of_the_header():
    config = preset("xpulpnn-full")
    header = headers(config)["xpulpnn.h"]
    for insn in enabled(config.extensions - BASE_EXTENSIONS, config.widths, aliases=True):
        name, arguments = c_call(insn).rstrip(")").split("(")
        assert re.search(rf"#define {name}\({re.escape(arguments)}\)|XP_INLINE \w+ {name}\(", header), name


def test_presets_of_an_instruction():
    assert presets_of(find("add")) == list(PRESETS)
    assert presets_of(find("pv.sdotusp.n")) == ["xpulpnn", "xpulpnn-cu", "xpulpnn-full", "xpulpnn2", "xpulpnn3"]
    assert presets_of(find("pv.mlsdotup.b")) == ["xpulpnn", "xpulpnn-full", "xpulpnn2", "xpulpnn3"]
    assert presets_of(find("pv.mldotup.b")) == presets_of(find("pv.rqld")) == ["xpulpnn2", "xpulpnn3"]
    assert presets_of(find("pv.mlsdotup.b", "rd~,(rs1!),nnimm5'")) == ["xpulpnn2", "xpulpnn3"]
    assert presets_of(find("pv.qnt.n")) == []


def test_encodings_have_a_letter_for_every_bit_of_an_operand():
    assert encoding(find("pv.add.sci.b")) == "000000i iiiii sssss 111 ddddd 1010111"
    assert encoding(find("sw")) == "iiiiiii ttttt sssss 010 iiiii 0100011"
    for insn in INSNS:
        free = {bit for token in insn.tokens for low, _v, width in token.field.parts for bit in range(low, low + width)}
        letters = encoding(insn).replace(" ", "")[::-1]
        for bit, (fixed, letter) in enumerate(zip(insn.pattern[::-1], letters, strict=True)):
            assert (letter not in "01-") == (bit in free)
            assert bit in free or letter == fixed


@pytest.mark.parametrize(
    ("mnemonic", "text"),
    [
        ("add", "1 cycle"),
        ("mulh", "5 cycles"),
        ("jal", "2 cycles; +1 to a 32-bit instruction across a word boundary"),
        ("beq", "1 cycle; +2 taken; +1 to a 32-bit instruction across a word boundary"),
        ("lw", "1 cycle; +1 across a word boundary; +1 if the next instruction uses the value"),
        ("lb", "1 cycle; +1 if the next instruction uses the value"),
        ("sw", "1 cycle; +1 across a word boundary"),
        ("divu", "3 to 35 cycles, by the divisor: 3 and as many as it has places to move up, 35 for 0"),
        ("pv.sdotsp.c", "1 cycle"),
        ("pv.qnt.n", "9 cycles"),
        ("pv.qnt.c", "5 cycles"),
        ("pv.rqld", "1 cycle; +1 across a word boundary; +1 if the next instruction requantises"),
        ("pv.rqu.b", "1 cycle; +1 if the next instruction reads the result"),
    ],
)
def test_cycles_in_words(mnemonic, text):
    assert shown_cycles(cycles(find(mnemonic))) == text


def test_every_csr_and_every_exception_has_its_row():
    shown = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td>", TABLES["csrs"])
    addresses: list[int] = []
    for cell, names in shown:
        ends = [int(text, 16) for text in re.findall(r"0x([0-9a-f]+)", cell)]
        addresses += range(ends[0], ends[-1] + 1)
        assert all(csr.name in names for csr in CSRS if csr.address in ends)
    assert sorted(addresses) == sorted(csr.address for csr in CSRS)
    assert all(f"<tr><td>{cause.value}</td>" in TABLES["causes"] for cause in ExceptionCause)


def test_signs_are_those_of_the_table():
    text = TABLES["signs"]
    assert re.search(r"pv.\(s\)dotusp.*?rs1: unsigned.*?immediate: <strong>signed", text)
    assert re.search(r"pv.mlsdotsup</code></td><td>weight: <strong>signed</strong></td><td>activation: unsigned", text)


def test_selectors():
    text = TABLES["selectors"]
    assert text.count("nothing") == 8
    assert "<td>NN[5] * NN[1]</td><td>NN[5]</td>" in text
    assert re.search(r"30<.*?11110<.*?<td>NN\[5\] \* NN\[0\]</td><td>NN\[1\]</td>", TABLES["other-selectors"])
    assert '<code class="docutils literal">24</code>' not in text


def test_every_setting_has_its_meaning():
    assert declared_meanings(CoreConfig)["mac_load_cu"].startswith("Compute&Update")
    for name in ("CoreConfig", "DotpConfig"):
        assert "<td></td></tr>" not in pages.settings(name)


@pytest.mark.flow
def test_every_command_is_in_the_reference():
    text = expand_page((DOCS / "commands.md").read_text(), commands=commands)
    assert all(f"\n## {name}\n" in text and f"Usage: xpulpnn {name}" in text for name in COMMANDS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("% generated: nothing", "generated must be one of fields, .*, not % generated: nothing"),
        ("% generated: instructions rv64", "instructions must be one of rv32i, .*, not rv64"),
        ("% generated: settings Core", "settings must be of a class of xpulpnn.config, not Core"),
        ("% generated: ports soc", "ports must be of one of dotp, .*, not soc"),
        ("% generated: registers nix", "registers must be of one of control, timer, event-unit, barrier, not nix"),
    ],
)
def test_what_cannot_be_generated(text, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        expand_page(text)


def test_every_register_of_the_cluster_is_described():
    page = expand_page((DOCS / "cluster" / "index.md").read_text())
    for register in (*Control, *Timer, *EventRegister, *Barrier, *TimerConfig):
        assert f">{register.name}</code>" in page
    for address in ("0x0000_0000", "0x1010_0000", "0x1020_0800", "0x1020_4000", "0x1C00_0000"):
        assert address in page
    assert "instr__0__req" in page or "refill__req" in page
    assert "host__req" in page
