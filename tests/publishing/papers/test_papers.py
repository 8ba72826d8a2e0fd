"""``xpulpnn bench``: rows, verdicts, records that are kept, the page; a few runs on the RTL."""

import shlex
from dataclasses import dataclass
from typing import Any

import pytest
from tests.programs import plots_of, read_results
from tests.sw.networks.importers.tflite_models import NONE, Graph

from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cli.main import parse_command
from xpulpnn_sim.publishing.papers import measure
from xpulpnn_sim.publishing.papers.measure import TABLES, charts, measure_tables, runs_of, tables_of
from xpulpnn_sim.publishing.papers.mlperf_tiny import ModelRun
from xpulpnn_sim.publishing.papers.runs import BYTES, CosimRun, PackedRun
from xpulpnn_sim.publishing.papers.table import (
    Bar,
    MeasuredRow,
    Metric,
    PaperTable,
    Published,
    RowVerdict,
    TableRow,
    joined_cells,
    measured,
)

CALLS: list[str] = []
"""Names of the runs that were made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretended:
    """A run without a design."""

    name: str
    cycles: int = 100
    mismatches: int = 0

    @property
    def command(self) -> str:
        return f"xpulpnn cosim {self.name}"

    def measure(self, *, check: bool) -> dict[str, object]:
        CALLS.append(self.name)
        return {"cycles": self.cycles, "layers": {"first": 7}, "mismatches": self.mismatches, "checked": check}


def table_of(*rows: TableRow, **fields: Any) -> PaperTable:
    return PaperTable(name="small", title="Small table", printed_by="A paper", rows=rows, **fields)


def row(run: Pretended, published: str | None, better: str = "less", metric: dict | None = None, **changes) -> TableRow:
    printed = None if published is None else Published(published, "table 1")
    return TableRow(f"{run} {published}", Metric(unit="cycles", better=better, **metric or {}), printed, run, **changes)


def verdict(ours: float, published: str | None, better: str = "less", mismatches: int = 0) -> RowVerdict:
    compared = row(Pretended(name="a"), published, better)
    return MeasuredRow(row=compared, ours=ours, mismatches=mismatches).verdict


SMALL = table_of(
    row(Pretended(name="slow", cycles=300), "250", bar=Bar("cycles", "ours", "slow")),
    row(Pretended(name="fast"), "250", bar=Bar("cycles", "ours", "fast")),
    row(Pretended(name="fast"), "2.0", "more", over=Pretended(name="slow", cycles=300)),
    row(Pretended(name="fast"), None, metric={"field": "layers.first", "per": 10.0}, quick=False),
    notes=("What holds.",),
)


@pytest.fixture(autouse=True)
def fresh(request, monkeypatch, tmp_path):
    """A cache of its own for what is only pretended; models are shared."""
    CALLS.clear()
    if request.node.get_closest_marker("unit"):
        monkeypatch.setenv("XPULPNN_CACHE", str(tmp_path / "cache"))


def test_verdicts():
    # 1.65 stands for what rounds to it and for what is cut to it, not for the next digit
    verdicts = [verdict(ours, "1.65", "more").name for ours in (1.6401, 1.6599, 1.6399, 1.6601)]
    assert verdicts == ["EQUAL", "EQUAL", "WORSE", "BETTER"]
    assert (verdict(2489, "2586"), verdict(2600, "2586")) == (RowVerdict.BETTER, RowVerdict.WORSE)
    assert verdict(3, "2586", "") is RowVerdict.DIFFERENT
    assert verdict(3, None) is RowVerdict.NONE
    assert verdict(2489, "2586", mismatches=1) is RowVerdict.WRONG


def test_figures_come_from_the_records_of_their_runs():
    records = dict(measure_tables(runs_of([SMALL], quick=False), check=True, jobs=1))
    assert CALLS == ["slow", "fast"]
    table = measured(SMALL, records, quick=False)
    assert [row_measured.ours for row_measured in table.rows] == [300, 100, 3, 0.7]
    assert [row_measured.verdict.name for row_measured in table.rows] == ["WORSE", "BETTER", "BETTER", "NONE"]
    assert [row_measured.advantage for row_measured in table.rows] == [pytest.approx(250 / 300), 2.5, 1.5, None]
    assert table.summary == "2 better, 1 worse, 1 without a printed figure"
    assert measured(SMALL, records, quick=True).summary == "2 better, 1 worse, 1 left out"


def test_records_are_kept_unless_they_are_wrong():
    right, wrong = Pretended(name="right"), Pretended(name="wrong", mismatches=2)
    for _ in range(2):
        assert len(dict(measure_tables([right, wrong], check=True, jobs=1))) == 2
    assert CALLS == ["right", "wrong", "wrong"]
    assert dict(measure_tables([right], check=False, jobs=1))[right]["checked"] is False


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.flow
def test_commands_of_a_table_are_valid(name):
    table = TABLES[name]
    figures = [row.figure for row in table.rows]
    assert len(figures) == len(set(figures))
    for command in {command for row in table.rows for command in row.commands}:
        first, second, *words = shlex.split(command)
        assert (first, second) == ("xpulpnn", "cosim")
        assert parse_command([second, *words])


@pytest.mark.flow
def test_models_of_mlperf_tiny(tmp_path, refused):
    """Files are told apart by their contents; commands are valid; a file that is not there is named."""
    message = "models of mlperf-tiny must be in a folder that is named, not left out"
    assert refused("bench", "--table", "mlperf-tiny") == message
    names = ("resnet8_int8", "vww_96_int8", "kws_dscnn_int8", "ad01_int8")
    for number, name in enumerate(names[:3]):
        (tmp_path / f"{name}.tflite").write_bytes(bytes([number]))
    message = "anomaly detection must be a file that can be read, not "
    assert refused("bench", "--models", tmp_path).startswith(message)
    (tmp_path / f"{names[3]}.tflite").write_bytes(b"")
    (table,) = tables_of(["mlperf-tiny"], tmp_path, None)
    assert len({row.figure for row in table.rows}) == len(table.rows) == 4 * 8
    assert {row.published.where: row.published.value for row in table.rows[-8:]} == {
        "Cortex-M85": 0.255, "Cortex-M7": 0.343, "Cortex-M4": 0.631, "GAP9 with its accelerator": 0.065,
    }  # fmt: skip
    for command in {command for row in table.rows for command in row.commands}:
        for part in command.split(" && "):
            assert parse_command(shlex.split(part)[1:])
    runs = runs_of([table], quick=False)
    assert len(runs) == 4 * 6
    (tmp_path / f"{names[3]}.tflite").write_bytes(b"other")
    again = runs_of(tables_of(["mlperf-tiny"], tmp_path, None), quick=False)
    assert [first == other for first, other in zip(runs, again, strict=True)] == [True] * 18 + [False] * 6


@pytest.mark.cosim
def test_a_model_on_the_design(tmp_path):
    g = Graph((1, 12), 0.02, 11)
    options = {"FusedActivationFunction": NONE, "WeightsFormat": 0}
    g.weighted("FULLY_CONNECTED", g.input, (8, 12), (1, 8), 0.1, 3, **options)
    path = g.written(tmp_path / "small.tflite")
    common = {"model": path, "preset": "xpulpnn-full", "cores": 1, "liberty": None, "contents": ""}
    exact, fast = (ModelRun(is_fast=is_fast, **common).measure(check=True) for is_fast in (False, True))
    assert exact["mismatches"] == fast["mismatches"] == 0
    assert exact["cycles"] > fast["cycles"]


def test_two_commands_are_one_where_one_will_do():
    joined = joined_cells("a conv --variant x --cores 1", "a conv --variant y --cores 1")
    assert joined == "a conv --variant x,y --cores 1"
    assert joined_cells("a conv --variant x --cores 1", "a conv --variant y --cores 8") is None
    assert joined_cells("a conv --layer x", "a conv --layer y") is None
    assert joined_cells("a conv --variant x", "a conv --variant x --cores 8") is None


def test_table_and_page(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(measure, "TABLES", {"small": SMALL})
    page, path = tmp_path / "page.html", tmp_path / "rows.json"
    assert cli.main(["bench", "--jobs", "1", "--report", str(page), "--json", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "2 better, 1 worse, 1 without a printed figure" in shown
    rows = read_results(path)
    verdicts = [(row["ours"], row["paper"], row["verdict"]) for row in rows]
    assert verdicts[:2] == [(300.0, 250.0, "worse"), (100.0, 250.0, "better")]
    assert rows[2]["commands"] == ["xpulpnn cosim slow", "xpulpnn cosim fast"]
    text = page.read_text()
    for part in ("Small table", "What holds.", "xpulpnn cosim slow", ">1.20<", '<td class="text bad">worse<'):
        assert part in text
    bars, ratios = (plot["variants"][""] for plot in plots_of(text))
    assert [(trace["name"], trace["x"], trace["y"]) for trace in bars["data"]] == [
        ("paper", ["slow", "fast"], [250, 250]),
        ("ours", ["slow", "fast"], [300, 100]),
    ]
    assert {trace["name"]: trace["x"] for trace in ratios["data"]} == {"better": [2.5, 1.5], "worse": [250 / 300]}
    axes = [(plot["layout"]["xaxis"]["type"], plot["layout"]["yaxis"].get("type")) for plot in (bars, ratios)]
    assert axes == [("category", None), ("log", "category")]
    assert 'src="' not in text


def test_printed_figures_of_their_own_stand_beside_each_series():
    printed = (("one", "50"), ("two", "60"))
    table = table_of(*(row(Pretended(name=name), text, bar=Bar("cycles", name, "at")) for name, text in printed))
    records = dict(measure_tables(runs_of([table], quick=True), check=True, jobs=1))
    bars, _ = charts(measured(table, records, quick=True))
    assert [trace["name"] for trace in bars["data"]] == ["one, paper", "one", "two, paper", "two"]


def test_wrong_results_fail_and_are_told(monkeypatch, capsys):
    table = table_of(row(Pretended(name="wrong", mismatches=3), "250"))
    monkeypatch.setattr(measure, "TABLES", {"small": table})
    assert cli.main(["bench", "--jobs", "1"]) == 1
    assert "1 wrong results" in capsys.readouterr().out


@pytest.mark.cosim
def test_the_command_of_a_kernel_repeats_it(tmp_path):
    run = CosimRun("xpulpnn cosim matmul --layer 8x32x8 --precision 4x4xi32 --variant nn_4x4")
    path = tmp_path / "records.json"
    assert cli.main([*shlex.split(run.command)[1:], "--json", str(path)]) == 0
    (written,) = read_results(path)
    record = run.measure(check=True)
    for name in ("cycles", "opef", "cycles_per_sdotp", "macs_per_cycle", "mismatches"):
        assert record[name] == written[name]
    assert record["mismatches"] == 0


@pytest.mark.cosim
def test_packed_products_on_the_design():
    deepest = PackedRun("P2-16", 2, 2).measure(check=True)
    assert (deepest["most_depth"], deepest["depth"], deepest["most_iterations"], deepest["mismatches"]) == (3, 3, 4, 0)
    packed = PackedRun("p.mac", 1, 1).measure(check=False)
    rival = PackedRun(BYTES, 8, 8).measure(check=False)
    assert (packed["product"], packed["kind"], rival["kind"]) == ("p.mac", "ulppack", "bytes")
    assert packed["mismatches"] == rival["mismatches"] == 0
    assert packed["cycles"] < rival["cycles"]
