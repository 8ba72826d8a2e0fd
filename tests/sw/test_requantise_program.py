"""A C program with the instructions of XpulpNN 2, on the simulator; other cores refuse it."""

from pathlib import Path

import pytest

from xpulpnn.config import preset
from xpulpnn_sim.elf import load
from xpulpnn_sim.iss.session import Session
from xpulpnn_sw.toolchain import CompileError, Options, build

pytestmark = pytest.mark.flow

SOURCE = Path(__file__).parent / "c/requantise.c"


def test_results(tmp_path):
    elf, printed = tmp_path / "program.elf", bytearray()
    build([SOURCE], elf, options=Options(config=preset("xpulpnn2")))
    session = Session(load(elf), preset("xpulpnn2"), output=lambda output: printed.extend(output.data))
    assert session.run(1_000_000).text == "pass"
    assert printed.decode() == "64 25119412 4 2\n"


def test_a_core_without_them_refuses_the_source(tmp_path):
    with pytest.raises(CompileError):
        build([SOURCE], tmp_path / "program.elf", options=Options(config=preset("xpulpnn")))
