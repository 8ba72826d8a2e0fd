"""``xpulpnn prove riscv-formal``: what it refuses and shows; a check that holds, and a fault."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.abc_program import needs_abc

from xpulpnn.config import preset
from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.proofs.engine.outcomes import VACUOUS, retirements, write_waveform
from xpulpnn_sim.proofs.riscv_formal import model_check
from xpulpnn_sim.proofs.riscv_formal.suite import NO_TRAPS, VARIABLE, Check, Suite, find_suite
from xpulpnn_sim.tools.yosys import find_abc

MACROS = "`ifdef RISCV_FORMAL_CSR_MSCRATCH\n`endif\n`ifdef RISCV_FORMAL_CSR_MCYCLE\n`endif\n"
DIVISION = ("mul", "mulh", "mulhsu", "mulhu", "div", "divu", "rem", "remu")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for name in ("checks", "insns"):
        (tmp_path / name).mkdir()
    (tmp_path / "checks/rvfi_macros.vh").write_text(MACROS)
    (tmp_path / "insns/isa_rv32imc.txt").write_text("add\nc_lw\n")
    for name in DIVISION:
        (tmp_path / f"insns/insn_{name}.v").write_text("wire [31:0] altops_bitmask = 64'h0123456789abcdef;\n")
    return tmp_path


def test_checks_follow_from_core_and_suite(small: Path):
    suite = find_suite(small)
    assert set(suite.masks.values()) == {0x89AB_CDEF}
    checks = {check.name: check for check in suite.checks(preset("ri5cy"), 12)}
    assert {"insn_add", "insn_c_lw", "csrw_mscratch", "csrc_any_mscratch", "csrc_inc_mcycle", "reg"} <= checks.keys()
    assert "csrw_mepc" not in checks
    assert checks["insn_add"].assumed
    assert checks["insn_add"].cycle == 12 < checks["liveness"].cycle
    assert checks["liveness"].delay
    assert checks["hang"].first == checks["hang"].cycle
    assert all(check.cutpoints for check in checks.values())


def test_list(small: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["prove", "riscv-formal", "--riscv-formal", str(small), "--list", "--checks", "insn_*,reg"]) == 0
    shown = [line.split(maxsplit=3) for line in capsys.readouterr().out.splitlines()[1:]]
    rows = [["reg", "15", "moves"], ["insn_add", "15", "operation"], ["insn_c_lw", "15", "access"]]
    assert [row[:3] for row in shown[:3]] == rows
    assert shown[1][3].strip() == "no hardware loops"
    assert shown[4][:2] == ["moves", "fetched"]
    words = ["prove", "riscv-formal", "--riscv-formal", str(small)]
    assert cli.main([*words, "--list", "--checks", "reg", "--uncut"]) == 0
    assert "nothing" in capsys.readouterr().out.splitlines()[1]
    assert cli.main([*words, "--checks", "insn_mul"]) == 2
    assert capsys.readouterr().err == "error: --checks must be names of checks (--list shows them), not insn_mul\n"


def test_no_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(ToolError, match=r"^riscv-formal must be there: git clone https://\S+, then --riscv-formal "):
        find_suite(None)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match=rf"^{VARIABLE} must be the folder of riscv-formal, with checks and insns"):
        find_suite(None)
    with pytest.raises(InputError, match=r"/insns/isa_rv32imc\.txt must be readable, as in riscv-formal, not failing"):
        Suite(tmp_path / "nowhere").checks(preset("ri5cy"))


def test_no_abc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"^abc must be installed: apt-get install berkeley-abc$"):
        find_abc()


def test_examples_for_readers(tmp_path: Path):
    quiet = {"rvfi_valid": 0, "rvfi_pc_rdata": 0}
    fields = {"valid": 1, "insn": 0x00A5_0513, "pc_rdata": 0x100, "pc_wdata": 0x104, "trap": 0, "intr": 1}
    fields |= {"rs1_addr": 10, "rs1_rdata": 5, "rs2_addr": 0, "rd_addr": 10, "rd_wdata": 16}
    addi = {f"rvfi_{name}": value for name, value in (fields | {"mem_rmask": 0, "mem_wmask": 0}).items()}
    (line,) = retirements([quiet, addi])
    expected = "cycle 1: 00000100 00a50513 addi a0, a0, 10 rs1 x10=00000005 x10<-00000010 next 00000104 intr"
    assert " ".join(line.split()) == expected
    assert "no instruction" in retirements([addi | {"rvfi_insn": 0}])[0]
    write_waveform([quiet, {"rvfi_valid": 1, "rvfi_pc_rdata": 0x10C}], tmp_path / "example.vcd")
    assert re.search(r"\$var wire 9 .*^b100001100 ", (tmp_path / "example.vcd").read_text(), re.DOTALL | re.MULTILINE)


def that_assumes_anything(checks: Callable[..., list[Check]]) -> Callable[..., list[Check]]:
    """The same checks, which also assume that there are no traps."""
    return lambda *given: [replace(check, assumed=(NO_TRAPS,)) for check in checks(*given)]


@pytest.mark.flow
@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} does not say where riscv-formal is")
@needs_abc
def test_a_check_holds_and_a_fault_is_found(tmp_path, monkeypatch, capsys):
    if shutil.which("yosys"):
        # several times as fast as the wheel
        monkeypatch.setenv("XPULPNN_YOSYS", "native")
    words = ["prove", "riscv-formal", "--preset", "ri5cy", "--depth", "7", "--jobs", "1"]
    words += ["-o", str(tmp_path), "--checks", "ill", "--set", "xpulpv2=false"]
    assert cli.main(words) == 0
    (row,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(" ill ")]
    assert (row[1], row[3]) == ("7", "passes")
    assert cli.main(words) == 0
    assert cli.main([*words, "--self-test"]) == 0
    assert "1 of 1 faults found" in capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setattr("xpulpnn_sim.proofs.riscv_formal.suite.Suite.checks", that_assumes_anything(Suite.checks))
        patch.setitem(model_check._ASSUMED, NO_TRAPS, "1'b0")
        assert cli.main(words) == 1
    assert VACUOUS in capsys.readouterr().out
    (stored,) = (tmp_path / "faults").glob("*/results/ill.json")
    trace = json.loads(stored.read_text())["value"]["outcome"]["trace"]
    assert trace[-1]["rvfi_valid"] == 1
    assert "no instruction" in retirements(trace)[-1]
