"""Architecture tests found by path: those that apply run, and a signature that differs from another one's is named."""

from pathlib import Path

import pytest
from tests.programs import read_results

from xpulpnn_sim.cli.main import main

pytestmark = pytest.mark.flow

HEADER = """\
#define RVTEST_CODE_BEGIN .section .text.init; .globl rvtest_entry_point; rvtest_entry_point:
"""
TEST = """\
#include "arch_test.h"
#include "model_test.h"
RVTEST_CODE_BEGIN
RVMODEL_BOOT
RVTEST_CASE(0,"//check ISA:=regex(.*32.*);check ISA:=regex(.*I.*{extension}.*);def TEST_CASE_1=True;",{extension})
#ifdef TEST_CASE_1
    li a0, 6; li a1, 7; mul a2, a0, a1; la a3, begin_signature; sw a2, 4(a3)
#endif
RVMODEL_HALT
.data
RVMODEL_DATA_BEGIN
.fill 3, 4, 0xdeadbeef
RVMODEL_DATA_END
"""


def test_architecture_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "arch_test.h").write_text(HEADER + "#define RVTEST_CASE(number, rules, name)\n")
    for extension in "MF":
        sources = tmp_path / "rv32i_m" / extension / "src"
        sources.mkdir(parents=True)
        (sources / f"{extension}-01.S").write_text(TEST.format(extension=extension))
    signature = tmp_path / "M-01.signature"
    command = ["verify", "arch", str(tmp_path), "--reference", str(tmp_path), "--json", str(tmp_path / "arch.json")]
    assert main(command) == 2
    assert "M-01.signature" in capsys.readouterr().err
    signature.write_text("deadbeef\n0000002a\ndeadbeef\n")
    assert main(command) == 0
    summary = read_results(tmp_path / "arch.json")
    assert (summary[0]["tests"], summary[0]["words"], summary[0]["failed"]) == (1, 3, [])
    assert [Path(path).name for path in summary[0]["left_out"]] == ["F-01.S"]
    signature.write_text("deadbeef\n0000002b\ndeadbeef\n")
    assert main([*command, "--engine", "iss"]) == 1
    assert "M-01: reference: word 1 of the signature must be 0x0000002a, not 0x0000002b" in capsys.readouterr().out
