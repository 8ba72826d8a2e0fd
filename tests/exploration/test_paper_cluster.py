"""Table II for the cluster and the blocks of clusters: rows and sums from given figures."""

from dataclasses import replace

import pytest
from tests.exploration.made_up import flow, point

from xpulpnn.config import CLUSTER_PRESETS
from xpulpnn_sim.exploration import paper
from xpulpnn_sim.exploration.options import ExploreOptions
from xpulpnn_sim.exploration.report.headlines import REST, block_areas, block_of, cluster_tables
from xpulpnn_sim.exploration.results import CriticalPath, FlowResult, GrantPath, ModuleArea, PointResult

pytestmark = pytest.mark.unit

INSTANCES = {"core0": 50e3, "core1": 50e3, "demux0": 1e3, "external": 2e3, "tcdm": 30e3, "dma": 40e3, "(shared)": 500.0}
FO4_PS = 50.0


def mapped(scale: float = 1.0) -> FlowResult:
    sizes = {f"cluster.{name}": scale * size for name, size in INSTANCES.items()}
    modules = [
        ModuleArea(path="cluster", module="cluster", own_ge=100, total_ge=100 + sum(sizes.values()), own_cells=9)
    ]
    for path, size in sizes.items():
        modules.append(ModuleArea(path=path, module="m", own_ge=size, total_ge=size, own_cells=1))
    modules.append(ModuleArea(path="cluster.core0.lsu", module="lsu", own_ge=7e3, total_ge=7e3, own_cells=1))
    path = CriticalPath(tool="t", netlist="mapped", start="a", end="b", delay_ps=5000.0 * scale)
    return flow(
        script="area",
        area_kge=modules[0].total_ge / 1e3,
        delay_ps=6000.0 * scale,
        delay_fo4=6000.0 * scale / FO4_PS,
        modules=modules,
        memory_bits=2 << 20,
        grant=GrantPath(path=path, request_ps=1000.0, grant_ps=2500.0, fo4=path.delay_ps / FO4_PS),
    )


def cluster(label: str, scale: float = 1.0) -> PointResult:
    return point(label, top="cluster", flows=[mapped(scale)])


def test_blocks_add_up() -> None:
    areas = block_areas(mapped())
    assert areas == {
        "cores": 100.0,
        "crossbar": 30.0,
        "event unit": 0.0,
        "DMA": 40.0,
        "caches": 0.0,
        "peripherals": 0.0,
        "demuxes, ports": 3.0,
        REST: pytest.approx(0.6),
    }
    sizes, paths = cluster_tables([cluster("cluster")])
    named = dict(zip([column.name for column in sizes.columns], sizes.rows[0], strict=True))
    assert (named["sum"], named["memories"]) == (pytest.approx(173.6), 2048.0)
    assert paths.rows[0][3:7] == pytest.approx([20, 30, 50, 100])
    assert paths.rows[0][7:] == ["a", "b"]


def test_blocks_of_instances() -> None:
    found = {name: block_of(name) for name in ("core12", "host_demux", "timer", "control", "icache", "bridge")}
    assert list(found.values()) == ["cores", "demuxes, ports", "peripherals", "peripherals", "caches", "bridge"]


def test_without_clusters_there_are_no_blocks() -> None:
    assert cluster_tables([replace(cluster("core"), flows=[])]) == []


def test_points_of_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "flow_steps", lambda options: [options.component])
    space, steps = paper.cluster_points(ExploreOptions(paper=True, top="cluster"))
    assert [point.label for point in space.points] == ["cluster-ri5cy", "cluster", "cluster-bf4", "cluster2"]
    assert [point.config for point in space.points] == [CLUSTER_PRESETS[point.label] for point in space.points]
    assert steps == [["cluster"]] * 4


def test_overheads_beside_those_of_the_paper() -> None:
    table = paper.cluster_paper_table(
        [cluster("cluster-ri5cy"), cluster("cluster", 1.02), cluster("cluster-bf4", 1.05), cluster("cluster2", 1.03)]
    )
    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    without, more, percent, published, ratio = rows["extension of the cores", "area [kGE], asic-area"]
    assert (without, more) == (pytest.approx(173.6), pytest.approx(177.07))
    assert percent == pytest.approx(100 * (177.07 / 173.6 - 1))
    assert (published, ratio) == (4.1, pytest.approx(percent / 4.1))
    delay = rows["32 instead of 16 banks", "delay [FO4], asic-area"]
    assert delay == [pytest.approx(122.4), pytest.approx(126.0), pytest.approx(100 * (1.05 / 1.02 - 1)), None, None]
    assert rows["32 instead of 16 banks", "grant path [FO4], asic-area"][:2] == [pytest.approx(102), pytest.approx(105)]
    beyond = rows["additions beyond the paper", "area [kGE], asic-area"]
    assert beyond[:3] == [pytest.approx(177.07), pytest.approx(178.805), pytest.approx(100 * (178.805 / 177.07 - 1))]
    assert beyond[3:] == [None, None]
    assert len(rows) == 9
