"""Coverage of lines and bits as Verilator writes it, and the command on the core."""

import re
from dataclasses import replace

import pytest
from tests.programs import read_results

from xpulpnn.config import PRESETS
from xpulpnn.errors import ToolError
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.verification.coverage.coverage_runs import (
    CoveragePoint,
    ModuleCoverage,
    merged,
    module_table,
    read_counts,
    read_points,
    unused_bits,
    unused_lines,
)
from xpulpnn_sim.verification.coverage.crosses import crosses_of

VERILOG = "module alu;\n  assign a = b;\n  if (a) c = 1;\n  else c = 0;\nendmodule\n"


def entry(count, **fields):
    return "C '" + "".join(f"\x01{name}\x02{value}" for name, value in fields.items()) + f"' {count}"


def lines_of(module, instance, *counts):
    place = {"f": "design.v", "h": f"testbench.core.{instance}"}
    return [
        entry(counts[0], l=2, n=1, t="line", page=f"v_line/{module}", o="block", **place),
        entry(counts[1], l=3, n=1, t="branch", page=f"v_branch/{module}", o="if", **place),
        entry(counts[2], l=3, n=2, t="branch", page=f"v_branch/{module}", o="else", **place),
        *(
            entry(counts[3 + bit], l=1, n=3, t="toggle", page=f"v_toggle/{module}", o=f"w__x[{bit}]:0->1", **place)
            for bit in range(4)
        ),
        entry(counts[7], l=1, n=3, t="toggle", page=f"v_toggle/{module}", o="valid:1->0", **place),
    ]


@pytest.fixture
def file(tmp_path):
    lines = lines_of("alu", "first", 1, 0, 0, 0, 0, 5, 0, 0)
    lines += lines_of("alu", "second", 0, 0, 7, 0, 0, 0, 0, 0)
    lines += [entry(0, f="t", l=9, n=1, t="line", page="v_line/testbench", o="block", h="testbench")]
    path = tmp_path / "counts"
    path.write_text("# SystemC::Coverage-3\n" + "\n".join(lines).replace("w__x", "w___05Fx") + "\n")
    return path


def test_points_and_counts(file):
    points, counts = read_points(file), read_counts(file)
    assert len(points) == len(counts) == 17
    assert points[1] == CoveragePoint("branch", "alu", 3, "if")
    assert points[5] == CoveragePoint("toggle", "alu", 1, "w__x", 2, "0->1")
    assert points[7] == CoveragePoint("toggle", "alu", 1, "valid", -1, "1->0")
    assert counts.tolist() == [1, 0, 0, 0, 0, 5, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0]


def test_instances_count_together(file):
    points = merged(read_points(file), read_counts(file) > 0)
    table = module_table(points, {"alu": "xpulpnn.core.alu.Alu"})
    assert table == [ModuleCoverage("alu", "xpulpnn.core.alu.Alu", (1, 1), (1, 2), (1, 5))]
    assert unused_lines(points, VERILOG) == [("alu", [[3, "if (a) c = 1;", "if"]])]
    assert unused_bits(points) == [("alu", [("valid", "never falls"), ("w__x", "3, 1:0 never rises")])]


def test_other_files_are_refused(tmp_path):
    (tmp_path / "counts").write_text("something else\n")
    with pytest.raises(ToolError, match=r"^counts must be coverage in Verilator's format 3, not another one$"):
        read_counts(tmp_path / "counts")


CERTAIN = {
    "add rd,rs1,rs2": ("branch", "jump", "trap", "csr", "sync", "load_use"),
    "lw rd,imm12(rs1)": ("misaligned", "load_use"),
    "div rd,rs1,rs2": ("multicycle", "csr"),
}
"""Waits that programs which aim at them meet on a core with any memory."""


@pytest.mark.flow
def test_programs_on_the_core(tmp_path, capsys):
    page, record = tmp_path / "coverage.html", tmp_path / "coverage.json"
    crosses = crosses_of(replace(PRESETS["ri5cy"], xpulpv2=False))
    names = [f"wait: {row}, {cause}" for row, causes in CERTAIN.items() for cause in causes]
    start, family = crosses.starts["wait"], crosses.families["wait"]
    numbers = [number for number in range(start, start + family.states.size) if crosses.label(number) in names]
    assert len(numbers) == len(names)
    options = f"--preset ri5cy --set xpulpv2=false --instructions 1 --jobs 1 --report {page} --json {record}".split()
    assert main(["verify", "coverage", *options, "--aim", ",".join(map(str, numbers))]) == 0
    coverage = read_results(record)[0]["coverage"]
    assert not {*names} & {*coverage["holes"]}
    assert coverage["impossible"] == []
    assert coverage["crosses"] == sum(family["crosses"] for family in coverage["families"].values())
    assert coverage["reached"] + len(coverage["holes"]) == coverage["crosses"]
    for kind in ("lines", "branches", "changes"):
        assert 0 < coverage["verilog"][kind]["used"] < coverage["verilog"][kind]["counted"]
    text = page.read_text()
    assert not re.search(r"(src|href)=\"(https?:|//)", text)
    assert "xpulpnn.core.decoder.Decoder" in text
    assert "Crosses" in capsys.readouterr().out
