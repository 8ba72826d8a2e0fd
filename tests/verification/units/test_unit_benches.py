"""``verify unit``: our Verilog, Verilog with faults, other ports, netlists, waveforms; configurations of units."""

import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.programs import read_results

from xpulpnn_sim.benches.runner import available
from xpulpnn_sim.benches.units import UNITS
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.verification.units.bench_tasks import chosen_units

pytestmark = [pytest.mark.bench, pytest.mark.skipif(not available("icarus"), reason="icarus is not installed")]

_WIDENER = UNITS["widener"].emit().text


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a compiled model, which the tests of the module share."""
    return tmp_path_factory.mktemp("benches")


def run(words: str, output: Path, code: int = 0) -> list[dict]:
    path = output / "result.json"
    path.unlink(missing_ok=True)
    assert main(["verify", "unit", *shlex.split(words), "-o", str(output), "--jobs", "1", "--json", str(path)]) == code
    return read_results(path) if path.exists() else []


def test_units_are_listed(output: Path, capsys: pytest.CaptureFixture[str]):
    assert run("", output) == []
    assert capsys.readouterr().out.count("bench_") == len(UNITS)


def test_seeds_run_once(output: Path):
    records = run("widener --repeat 2", output)
    assert [(record["seed"], record["verdict"], record["tests"]) for record in records] == [
        (1, "passed", 1),
        (2, "passed", 1),
    ]
    assert all(record["cycles"] > 100 for record in records)
    assert run("widener --repeat 2", output) == records
    again = run("widener --fresh", output)
    assert again[0]["cycles"] == records[0]["cycles"]
    tree = ElementTree.parse(Path(records[1]["results"], "results.xml"))
    assert [case.get("name") for case in tree.iter("testcase")] == ["rows_match_golden"]


def test_a_fault_is_shown_with_test_seed_and_values(output: Path, capsys: pytest.CaptureFixture[str]):
    assert _WIDENER.count(" ? ") > 1
    file = output / "mine.v"
    file.write_text(_WIDENER.replace(" | ", " ^ ", 1).replace(" ? ", " ? ~", 1))
    (record,) = run(f"widener --seed 5 --verilog {file}", output, code=1)
    assert record["verdict"] == "FAILED"
    assert "rows_match_golden" in record["failures"]
    shown = capsys.readouterr().out
    assert "FAILED widener on icarus, seed 5: rows_match_golden" in shown
    assert "expected 0x" in shown
    assert f"again: xpulpnn verify unit widener --simulator icarus --seed 5 --verilog {file} --waves" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "input wire [31:0] word",
            "input wire [30:0] word",
            "port word of the unit with this --preset, an input of 32 bits, not an input of 31 bits",
        ),
        (
            "input wire is_signed",
            "input wire sign",
            "port is_signed of the unit with this --preset, an input of 1 bit, not none",
        ),
        ("input wire half,", "input wire half, input wire more,", "must not have the input more"),
    ],
)
def test_other_ports_are_refused(output: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str):
    file = output / "ports.v"
    assert old in _WIDENER
    file.write_text(_WIDENER.replace(old, new, 1))
    assert run(f"widener --verilog {file}", output, code=2) == []
    assert message in capsys.readouterr().err


def test_broken_verilog_is_one_line(output: Path, capsys: pytest.CaptureFixture[str]):
    file = output / "broken.v"
    file.write_text("module rows(input clk; endmodule\n")
    assert run(f"widener --verilog {file}", output, code=2) == []
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.parametrize(("read", "verdict"), [("~{word}", "passed"), ("wdata", "passed"), (None, "FAILED")])
def test_caches_with_other_memories(output: Path, read: str | None, verdict: str):
    """Memories with one port lose what was read when they write; others read ``read`` of a word that is written."""
    lost = r"\g<0>\n        else if (write__en) port__rdata <= ~port__rdata;"
    text, singles = re.subn(
        r"if \(read__en\) port__rdata <= words\[port__addr\];", lost, UNITS["icache-small"].emit().text
    )

    def other(match: re.Match[str]) -> str:
        data, addr = match.groups()
        word = f"words[{addr}]"
        collides = "1" if read is None else f"write && waddr == {addr}"
        return f"if (read) {data} <= {collides} ? {(read or '~{word}').format(word=word)} : {word};"

    text, doubles = re.subn(r"if \(read\) (rdata__\d) <= words\[(raddr__\d)\];", other, text)
    assert singles == 2
    assert doubles == 3
    file, name = output / "icache.v", UNITS["icache-small"].emit().manifest["top"]
    file.write_text(text)
    (record,) = run(f"icache-small --verilog {file} --top {name}", output, code=int(verdict == "FAILED"))
    assert record["verdict"] == verdict


def test_a_netlist_of_gates_passes(output: Path):
    (record,) = run("widener --netlist yosys --vectors 1", output)
    assert record["verdict"] == "passed"
    assert (Path(record["results"]) / "yosys" / "netlist.v").exists()


@pytest.mark.parametrize("suffix", ["fst", "vcd"])
def test_waveforms(output: Path, suffix: str):
    file = output / "new \xf6" / f"waves.{suffix}"
    run(f"widener --vectors 1 --waves '{file}'", output)
    assert file.stat().st_size > 1000
    assert "rows." in file.with_suffix(".gtkw").read_text()


def test_a_configuration_has_its_units():
    chosen, left_out = chosen_units([], "ri5cy", [])
    assert {"alu", "mult", "div", "decoder-ri5cy", "core-2"} <= chosen.keys()
    assert chosen["core-2"].design == "ri5cy rvfi=on"
    assert any(text.startswith("quantiser: ") for text in left_out)
    assert "simd-alu" in chosen
    assert "core-late" not in chosen
    exact, _ = chosen_units([], "xpulpnn3", [])
    assert "mult-dot-product" in exact
    assert "mult" not in exact
    clusters, left_out = chosen_units([], "cluster3", ["cores=2"])
    assert clusters["event-unit"].design == "cluster3 cores=2"
    assert "alu: it is in a core" in left_out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nothing", "NAME must be all, or one that the command without a name shows, not nothing"),
        ("quantiser --preset ri5cy", "NAME must be a unit of that configuration, not quantiser"),
        ("nnrf-6 --vectors 2", "--vectors must be left out for nnrf-6"),
        ("widener div --verilog pyproject.toml", "--verilog must be for one unit, not 2"),
        ("widener --top x", "--cells and --top must be left out without --verilog"),
        ("widener --repeat 2 --waves x.fst", "--waves must be a file .fst or .vcd for one run, not x.fst for 2"),
        ("widener --simulator questa", "--simulator must be installed, not missing as questa"),
    ],
)
def test_refused(output: Path, capsys: pytest.CaptureFixture[str], words: str, message: str):
    assert run(words, output, code=2) == []
    assert message in capsys.readouterr().err


def test_a_path_that_icarus_cannot_quote_is_refused(output: Path, capsys: pytest.CaptureFixture[str]):
    assert run("widener", output / 'o"d', code=2) == []
    assert '--output must be a folder without " in its path for icarus, not ' in capsys.readouterr().err
    assert not (output / 'o"d').exists()
