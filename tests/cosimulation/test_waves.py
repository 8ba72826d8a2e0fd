"""Waveforms of the core and their save file: every signal exists, words and states have names."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from tests.designs import FULL as CONFIG

from xpulpnn.config import preset
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.cosimulation.model.waves import SIGNAL_GROUPS, contents, instruction_names
from xpulpnn_sim.tools.files import is_generated

pytestmark = pytest.mark.cosim

SOURCE = """
_start: li x8, data
    lw x6, 0(x8)
    c.addi x9, 3
    lp.setupi 0, 5, 77f
    c.nop
77: pv.sdotsp.n x5, x6, x6
    csrrw x0, mscratch, x5
"""

HIERARCHY = 6
"""Compressed as LZ4."""
BLOCK_HEADER, LENGTH_BYTES = 9, 8
ENTRY = re.compile(
    rb"\xfe.(?P<scope>[^\0]*)\0[^\0]*\0|(?P<end>\xff)|\xfc..[^\0]*\0[\x80-\xff]*.|\xfd"
    rb"|..(?P<name>[^\0]*)\0(?P<width>[\x80-\xff]*.)[\x80-\xff]*.",
    re.DOTALL,
)
"""Beginnings and ends of scopes, attributes and their ends, and signals; numbers have seven bits in a byte."""


def hierarchy(content):
    """The names of an FST file, in an LZ4 block of literals only, which is what our model writes."""
    at = 0
    while content[at] != HIERARCHY:
        at += 1 + int.from_bytes(content[at + 1 : at + BLOCK_HEADER], "big")
    end = at + 1 + int.from_bytes(content[at + 1 : at + BLOCK_HEADER], "big")
    block = content[at + BLOCK_HEADER + LENGTH_BYTES : end]
    size = re.match(rb"[\xf0-\xff](\xff*.)", block, re.DOTALL)
    return block[size.end() : size.end() + 15 + sum(size[1])]


def signals(path):
    """Full name, as GTKWave shows it, and width of each signal of an FST file."""
    content, scopes, widths, at = hierarchy(path.read_bytes()), [], {}, 0
    while at < len(content):
        entry = ENTRY.match(content, at)
        at = entry.end()
        if entry["scope"] is not None:
            scopes.append(entry["scope"].decode())
        elif entry["end"]:
            scopes.pop()
        elif entry["name"]:
            widths[".".join([*scopes, entry["name"].decode().replace(" [", "[")])] = entry["width"]
    return widths


def run(*arguments):
    return main(["run", "--preset", "xpulpnn-full", *(str(argument) for argument in arguments)])


def test_the_save_file_fits_the_waveform(core_elf, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    wave = Path("out.fst")
    assert run(core_elf(SOURCE), "--waves", wave) == 0
    assert capfd.readouterr().err.endswith("\nout.fst is written, with out.gtkw and out.filters for GTKWave\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.filters", "out.fst", "out.gtkw", "program.elf"]
    known = signals(wave)
    lines = (tmp_path / "out.gtkw").read_text().splitlines()
    shown = [line.split("} ", 1)[1] for line in lines if line.startswith("+{")]
    assert len(shown) > 150
    assert set(shown) <= known.keys()
    begun = [line[1:] for before, line in pairwise(lines) if before in ("@800200", "@c00200")]
    assert begun == list(SIGNAL_GROUPS)
    assert '[dumpfile] "out.fst"' in lines
    assert not any(str(tmp_path) in line for line in lines)
    for line in lines:
        if line.startswith("^"):
            assert Path(line.split(" ", 1)[1]).is_file()


def test_the_window_is_kept(core_elf, tmp_path, capfd):
    source = "li x9, 5000\nloop: addi x9, x9, -1\n bne x9, x0, loop"
    small, large = tmp_path / "small.fst", tmp_path / "large.fst"
    path = core_elf(source)
    assert run(path, "--waves", small, "--wave-window", "10000:10100") == 0
    assert is_generated(small.with_suffix(".gtkw"))
    saved = large.with_suffix(".gtkw")
    saved.write_text("[*] GTKWave Analyzer v3.3.118\n")
    assert run(path, "--waves", large, "--wave-window", "5000:15000") == 0
    assert saved.read_text() == "[*] GTKWave Analyzer v3.3.118\n"
    assert signals(small) == signals(large)
    assert "behind the end of the run" not in capfd.readouterr().err
    assert run(path, "--waves", tmp_path / "none.fst", "--wave-window", "90000:90001") == 0
    assert "--wave-window begins behind the end of the run, 20" in capfd.readouterr().err
    # a hundred cycles against ten thousand; most of the small file are the names
    assert small.stat().st_size < large.stat().st_size / 2


def test_every_signal_of_the_list_exists_somewhere(core_program):
    program = core_program(SOURCE)
    groups, filters = contents(program, CONFIG)
    # arrays that multiply have other ports; the faults of proofs are tested in this core too
    beyond, _ = contents(program, replace(preset("xpulpnn3"), debug=True))
    listed = {
        (instance, text.partition(":")[0])
        for instances in SIGNAL_GROUPS.values()
        for instance, names in instances.items()
        for text in names.split()
    }
    shown_in = [*groups.values(), *beyond.values()]
    assert {(shown.instance, shown.name) for group in shown_in for shown in group} == listed
    assert {"dotp_form", "dotp2_format", "second"} <= {shown.name for shown in beyond["EX"]}
    named = {shown.name: filters[shown.filter] for group in groups.values() for shown in group if shown.filter}
    assert "4 WFI\n" in named["system__kind"]
    assert "3 DOTP\n" in named["ctrl_unit"]
    assert "1 WRITE\n" in named["csr__op"]
    assert "5 SETUP\n" in named["setup__op"]
    assert "340 mscratch\n" in named["csr__addr"]
    assert "1f t6\n" in named["rvfi_rd_addr"]
    assert "0b environment call\n" in named["rvfi_cause"]
    assert "27 interrupt 7\n" in named["rvfi_cause"]


def test_words_of_the_program_have_names(core_program):
    names = instruction_names(core_program(SOURCE))
    assert names[0x048D] == "c.addi s1, 3"
    assert names[0x00348493] == "addi s1, s1, 3"
    assert names[0x0001] == "c.nop"
    assert names[0x00000013] == "addi zero, zero, 0"
    assert names[0x00042303] == "lw t1, 0(s0)"
    assert "pv.sdotsp.n t0, t1, t1" in names.values()
