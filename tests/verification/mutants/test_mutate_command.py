"""Mutants of hardware units: made, found by the benches, proved equivalent by what is known of ports, and shown."""

import sys
from types import ModuleType

import cocotb
import pytest
from tests.programs import read_results

from xpulpnn_sim.benches import bench_mutants
from xpulpnn_sim.benches.runner import available
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.proofs.mutants.mutant_comparison import Handshake, InputCase, StableInputs
from xpulpnn_sim.verification.mutants.unit_mutants import handshakes_of


@pytest.mark.bench
def test_the_bench_of_the_control_registers_finds_its_mutants(tmp_path, capsys, monkeypatch, pytestconfig):
    if not available("verilator"):
        pytest.skip("verilator is not installed")
    monkeypatch.chdir(tmp_path)
    models, unit, report = pytestconfig.rootpath / "build" / "benches", "cluster-control", tmp_path / "report.json"
    models.mkdir(parents=True, exist_ok=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "models").symlink_to(models)
    words = ["mutate", unit, "--mutants", "10", "--proof", "0", "-o", "out", "--json", str(report)]
    assert main(words) == 0
    result = read_results(report)[0]["units"][unit]
    assert result["check"] >= 7
    # what the reset of a register adds belongs to no line
    sources = [mutant["source"] for mutant in result["mutants"] if mutant["source"]]
    assert len(sources) >= 5
    assert all(source.startswith("xpulpnn/c") for source in sources)
    assert all(mutant["port"] != "CLK" for mutant in result["mutants"])
    folder = tmp_path / "out" / unit
    verdicts = {path: path.read_text() for path in (folder / "verdicts").iterdir()}
    assert {path.name for path in verdicts} == {f"{number}.json" for number in range(11)}
    # half of the verdicts are lost: a run that resumes makes them again, and the others stay
    for path in list(verdicts)[:5]:
        path.unlink()
    first = read_results(report)
    assert main(words) == 0
    assert read_results(report) == first
    assert {path: path.read_text() for path in (folder / "verdicts").iterdir()} == verdicts
    assert unit in capsys.readouterr().out
    assert main(["mutate", "--summary", "-o", "out", "--json", str(report)]) == 0
    assert read_results(report)[0]["units"][unit] == result


def test_tests_that_the_bench_leaves_out_judge_nothing(monkeypatch):
    bench = ModuleType("bench_of_two")

    @cocotb.test()
    async def taken(dut):
        pass

    @cocotb.test(skip=True)
    async def left_out(dut):
        pass

    vars(bench).update(left_out=left_out, taken=taken)
    monkeypatch.setitem(sys.modules, bench.__name__, bench)
    tests = bench_mutants.tests_of(bench.__name__)
    assert [test.name.rpartition(".")[2] for test in tests] == ["taken"]


INPUTS = ("core__req", "core__addr", "ext__gnt", "ext__rvalid", "ext__rdata", "run__gnt", "run__rvalid")
OUTPUTS = ("core__gnt", "core__rvalid", "core__rdata", "ext__req", "ext__addr", "run__req", "run__beats", "busy")


def test_what_goes_with_requests_and_answers() -> None:
    constraints = handshakes_of("obi_mux", INPUTS, OUTPUTS)
    assert constraints.cases[0].outputs == ("core__gnt", "core__rvalid", "ext__req", "run__req", "busy")
    assert list(constraints.cases[1:]) == [
        InputCase({"core__rvalid": {1}}, ("core__rdata",)),
        InputCase({"ext__req": {1}}, ("ext__addr",)),
        InputCase({"run__req": {1}}, ("run__beats",)),
    ]
    assert constraints.stable == [StableInputs(("core__addr",), "core__req", ("core__gnt",))]
    assert constraints.answered == [Handshake("ext__req", "ext__gnt", "ext__rvalid")]
    assert constraints.exclusive == [Handshake("core__req", "core__gnt", "core__rvalid")]
    # thresholds are granted to requests, and operands stay while the quantiser searches
    constraints = handshakes_of("quantiser", ("start", "crumbs", "granted"), ("request", "address", "done"))
    assert constraints.always == [({"granted": {0}}, {"request": {1}})]
    assert [(stable.during, stable.until) for stable in constraints.stable] == [("start", ("done",))]
    # initiators of other benches may have several requests
    assert not handshakes_of("icache", INPUTS, OUTPUTS).exclusive
    runs, words = handshakes_of("axi_bridge", ("port__req", "port__beats", "port__addr"), ("busy",)).always
    first, last = ({f"port__addr[{bit}]": {value} for bit in range(3, 8)} for value in (0, 1))
    assert runs[:2] == ({"port__req": {0}}, {**first, "port__beats": {*range(1, 33)}})
    assert runs[-1] == {**last, "port__beats": {1}}
    assert words == ({"port__req": {0}}, {"port__addr[0]": {0}, "port__addr[1]": {0}})
