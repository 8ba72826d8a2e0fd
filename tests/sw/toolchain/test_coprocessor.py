"""C programs for RV32IMC and the coprocessor: ``cc --xif``, and the header with a compiler alone."""

import subprocess
from pathlib import Path

import pytest

from xpulpnn_sim import simulate
from xpulpnn_sim.cli import main as cli
from xpulpnn_sw.toolchain.compilers import TARGETS, find_compiler

from ..elf import SOURCES

pytestmark = pytest.mark.flow

SOURCE = str(SOURCES / "coprocessor.c")
SETTINGS = ("--set", "memory=obi", "--set", "requantise=plain")


def built(*words: str) -> Path:
    assert cli.main(["cc", "--xif", *SETTINGS, *words, "-o", "program.elf"]) == 0
    return Path("program.elf")


@pytest.mark.parametrize("opcode", ["pulp", "custom"])
def test_program(kind, opcode, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = built("--set", f"opcode={opcode}", "-O1", "--compiler", kind, "--pass=-Wall", "--pass=-Werror", SOURCE)
    ran = simulate(program)
    assert ran.exit.ok, ran.exit.text


def test_header_with_a_compiler_alone(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["cc", "--xif", *SETTINGS, "--headers", "sdk"]) == 0
    sources = (SOURCE, "-c", "-O2", "-Isdk", "-Isdk/picolibc/libc/include", "-DXPULPNN_XIF_OPCODE=XPULPNN_XIF_CUSTOM")
    subprocess.run([*find_compiler(kind).command, *TARGETS[kind], *sources, "-o", "alone.o"], check=True)
    program = built("--set", "opcode=custom", "alone.o")
    ran = simulate(program)
    assert ran.exit.ok, ran.exit.text


def test_machine_of_a_program(compiler, tmp_path, monkeypatch, refused, capfd):
    monkeypatch.chdir(tmp_path)
    built("--set", "opcode=custom", "--compiler", compiler, SOURCE)
    assert cli.main(["iss", "program.elf", "--trace", "trace.txt"]) == 0
    assert cli.main(["objdump", "program.elf", "--function", "main", "--no-source"]) == 0
    for text in (Path("trace.txt").read_text(), capfd.readouterr().out):
        assert {"pa.blkusp.b", "pa.stepusp.b", "pv.add.b"} <= set(text.split())
    assert cli.main(["iss", "program.elf", "--xif", "--set", "requantise=exact"]) == 0
    needs = (
        "core must be xif memory=obi requantise=plain opcode=custom, which program.elf is compiled for, or have as much"
    )
    words = refused("iss", "program.elf", "--xif", "--set", "opcode=pulp")
    assert words.startswith(f"{needs}, not xif")
    assert "which has no XpulpXifCustom;" in words
    assert refused("iss", "program.elf", "--preset", "xpulpnn3").startswith(needs)
    assert refused("run", "program.elf").startswith("core must be one of ours")
    assert refused("cc", "--xif", "--preset", "ri5cy", SOURCE) == "--preset must be left out with --xif, not ri5cy"
