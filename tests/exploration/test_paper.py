"""The comparisons of Table II: which points they run, and how their rows come from figures; blocks of clusters."""

from dataclasses import replace

import pytest
from tests.exploration.sample_results import energy, flow, point, spent_by

from xpulpnn.config import CLUSTER_PRESETS
from xpulpnn_sim.exploration import paper
from xpulpnn_sim.exploration.options import ExploreOptions
from xpulpnn_sim.exploration.report.cluster_blocks import REST, block_areas, block_of, cluster_tables
from xpulpnn_sim.exploration.report.hierarchy import energy_plots
from xpulpnn_sim.exploration.results import CriticalPath, EnergyResult, FlowResult, GrantPath, ModuleArea, PointResult

EX_STAGES = {"ri5cy": 20.0, "xpulpnn": 25.0, "xpulpnn2": 25.5, "xpulpnn3": 30.6}
CORES = {"ri5cy": 50.0, "xpulpnn": 55.0, "xpulpnn2": 57.2, "xpulpnn3": 64.3}
AREAS = {f"{name} ex-stage": area for name, area in EX_STAGES.items()}
AREAS |= {f"{name} core": area for name, area in CORES.items()}
SCALES = {"ri5cy": 1.0, "xpulpnn": 1.02, "xpulpnn2": 1.03, "xpulpnn3": 1.2}
SAME = "matmul:8:xpulpv2_4x2:32x64x16"
VARIANTS = {"ri5cy": "xpulpv2_4x2", "xpulpnn": "nn_4x4", "xpulpnn2": "x2_4x4", "xpulpnn3": "x3_4x4"}
OWN = [("matmul:8", "32x64x16"), *((f"conv:{bits}", "4x16x32:64x3x3") for bits in (8, 4, 2))]


def mapped(area, script, library):
    scale, delay = (1.0, 80.0) if script == "area" else (1.1, 60.0)
    conditions = [f"Library {library} at 1 V."]
    return flow(script=script, conditions=conditions, area_kge=area * scale, delay_fo4=delay)


def spent(workload, macs, femtojoule):
    per_mac = femtojoule / 2 if macs else None
    return energy(workload=workload, macs=macs, energy_per_cycle_fj=femtojoule, energy_per_mac_fj=per_mac)


def results(library="plain", with_energy=True, without=""):
    points = []
    for label, area in AREAS.items():
        name, top = label.split()
        scale, energies, kernels = SCALES[name], [], []
        flows = [] if label == without else [mapped(area, script, library) for script in ("area", "speed")]
        if with_energy and top == "core":
            energies = [spent(SAME, 200.0, 6000.0 * scale), spent("general", 0.0, 3000.0 * scale * scale)]
            energies += [spent(f"{what}:{VARIANTS[name]}:{layer}", 300.0, 9000.0 / scale) for what, layer in OWN]
            run = {"layer": "16x16x32:64x3x3", "variant": VARIANTS[name]}
            kernels = [{**run, "bits": bits, "macs_per_cycle": 24 * scale / bits} for bits in (8, 4, 2)]
        points.append(point(label, top=top, preset=name, flows=flows, energies=energies, kernels=kernels))
    return points


def near(*values):
    return [pytest.approx(value) for value in values]


def rows(table, keys=1):
    """Cells by the figure, or by the first ``keys`` cells."""
    return {row[0] if keys == 1 else tuple(row[:keys]): list(row[keys:]) for row in table.rows}


def test_points_and_steps(monkeypatch):
    monkeypatch.setattr(paper, "flow_steps", lambda options: ["area", "speed"])
    monkeypatch.setattr(paper, "libraries", lambda paths: ["cells"])

    def energy_step(cells, spec, core=False, yosys="", window=0):
        return cells, str(spec), core, window

    monkeypatch.setattr(paper, "energy_step", energy_step)
    monkeypatch.setattr(paper, "kernel_step", str)
    space, steps = paper.paper_points(ExploreOptions(paper=True))
    assert [point.label for point in space.points] == list(AREAS)
    assert [(point.preset, point.top) for point in space.points] == [tuple(label.split()) for label in AREAS]
    assert steps[:4] == [["area", "speed"]] * 4
    for (name, variant), those in zip(VARIANTS.items(), steps[4:], strict=True):
        matmul = [] if name == "ri5cy" else [("cells", f"matmul:8:{variant}:32x64x16", True, 0)]
        assert those == [
            *("area", "speed", ("cells", SAME, True, 0), ("cells", "general code", True, 0)),
            *matmul,
            *(f"conv:{bits}:{variant}:16x16x32:64x3x3" for bits in (8, 4, 2)),
            *(("cells", f"conv:{bits}:{variant}:4x16x32:64x3x3", True, 32768) for bits in (8, 4, 2)),
        ]
    assert paper.paper_points(ExploreOptions(paper=True, no_energy=True))[1] == [["area", "speed"]] * 8


def test_overheads_beside_the_paper():
    table = paper.paper_table(results())
    by_figure = rows(table)
    area = by_figure["ex-stage, area [kGE], area script"]
    assert area == [20.0, 25.0, 25.5, 30.6, *near(25.0, 2.0, 20.0), "+32.6"]
    assert by_figure["ex-stage, area [kGE], speed script"][:5] == near(22.0, 27.5, 28.05, 33.66, 25.0)
    assert by_figure["core, area [kGE], area script"][4:6] == near(10.0, 4.0)
    assert by_figure["core, delay [FO4], speed script"] == [*[60.0] * 4, 0.0, 0.0, 0.0, "same clock"]
    beyond = [100 * (1.03 / 1.02 - 1), 100 * (1.2 / 1.03 - 1)]
    matmul = by_figure["core with clock gates, energy per cycle on 8-bit MatMul [pJ]"]
    assert matmul == [6.0, *near(6.12, 6.18, 7.2, 2.0, *beyond), "+2.1 to +2.5"]
    general = by_figure["core with clock gates, energy per cycle on general code [pJ]"]
    squared = [100 * ((1 + percent / 100) ** 2 - 1) for percent in beyond]
    assert general[4:] == [*near(4.04, *squared), "+2.17 to +3.7"]
    # the baseline's own kernel is the program that all run
    own = by_figure["8-bit MatMul, own kernels, energy [pJ/MAC]"]
    assert own[:4] == near(3.0, 4.5 / 1.02, 4.5 / 1.03, 4.5 / 1.2)
    assert own[-1] is None
    for bits in (8, 4, 2):
        layer = by_figure[f"layer at {bits} bit, own kernels, energy [pJ/MAC]"]
        assert layer[:6] == near(4.5, 4.5 / 1.02, 4.5 / 1.03, 4.5 / 1.2, 100 / 1.02 - 100, 100 * (1.02 / 1.03 - 1))
        speed = by_figure[f"layer at {bits} bit, own kernels, speed [MAC/cycle]"]
        assert speed[:4] == near(24 / bits, 24.48 / bits, 24.72 / bits, 28.8 / bits)
    assert len(by_figure) == 17
    assert all(len(row) == len(table.columns) for row in table.rows)


@pytest.mark.flow
def test_authors_figures_need_their_flow():
    plain = paper.paper_table(results())
    assert not any("authors" in column.group for column in plain.columns)
    table = paper.paper_table(results(library=paper.REFERENCE_LIBRARY))
    assert [column.group for column in table.columns][-1] == "authors' RTL, same flow"
    by_figure = rows(table)
    assert by_figure["ex-stage, area [kGE], area script"][8:] == [27.1, 37.4, pytest.approx(38.0, abs=0.05)]
    assert by_figure["core with clock gates, energy per cycle on general code [pJ]"][8:] == [None, None, None]


def test_missing_figures_leave_gaps():
    by_figure = rows(paper.paper_table(results(with_energy=False, without="xpulpnn ex-stage")))
    missing = by_figure["ex-stage, area [kGE], area script"]
    assert missing == [20.0, None, 25.5, 30.6, None, None, *near(20), "+32.6"]
    assert by_figure["core, area [kGE], area script"][4] == pytest.approx(10.0)
    assert not any("energy" in figure for figure in by_figure)


INSTANCES = {"core0": 50e3, "core1": 50e3, "demux0": 1e3, "external": 2e3, "tcdm": 30e3, "dma": 40e3, "(shared)": 500.0}
FO4_PS = 50.0


def whole(scale: float = 1.0) -> FlowResult:
    sizes = {f"cluster.{name}": scale * size for name, size in INSTANCES.items()}
    total = 100 + sum(sizes.values())
    modules = [ModuleArea(path="cluster", module="cluster", own_ge=100, total_ge=total, own_cells=9)]
    for path, size in {**sizes, "cluster.core0.lsu": 7e3}.items():
        modules.append(ModuleArea(path=path, module="m", own_ge=size, total_ge=size, own_cells=1))
    path = CriticalPath(tool="t", netlist="mapped", start="a", end="b", delay_ps=5000.0 * scale)
    grant = GrantPath(path=path, request_ps=1000.0, grant_ps=2500.0, fo4=path.delay_ps / FO4_PS)
    figures = {"area_kge": total / 1e3, "delay_ps": 6000.0 * scale, "delay_fo4": 6000.0 * scale / FO4_PS}
    return flow(script="area", modules=modules, grant=grant, **figures)


def cluster(label: str, scale: float = 1.0) -> PointResult:
    return point(label, top="cluster", flows=[whole(scale)])


def test_blocks_add_up() -> None:
    areas = block_areas(whole())
    known = {"cores": 100.0, "crossbar": 30.0, "DMA": 40.0, "demuxes, ports": 3.0, REST: pytest.approx(0.6)}
    assert areas == {**dict.fromkeys(("event unit", "caches", "peripherals", "memories"), 0.0), **known}
    sizes, paths = cluster_tables([cluster("cluster")])
    named = dict(zip([column.name for column in sizes.columns], sizes.rows[0], strict=True))
    assert (named["sum"], named["memories"]) == (pytest.approx(173.6), 0.0)
    assert paths.rows[0][3:7] == pytest.approx([20, 30, 50, 100])
    assert paths.rows[0][7:] == ["a", "b"]
    names = ("core12", "host_demux", "timer", "control", "icache", "bridge")
    blocks = ["cores", "demuxes, ports", "peripherals", "peripherals", "caches", "bridge"]
    assert [block_of(name) for name in names] == blocks
    assert cluster_tables([replace(cluster("core"), flows=[])]) == []


CLUSTERS = {"cluster-ri5cy": 1.0, "cluster": 1.02, "cluster-bf4": 1.05, "cluster2": 1.03, "cluster3": 1.2}


def test_points_of_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "flow_steps", lambda options: [options.component])
    space, steps = paper.paper_points(ExploreOptions(paper=True, top="cluster", no_energy=True))
    assert [point.label for point in space.points] == list(CLUSTERS)
    assert [point.config for point in space.points] == [CLUSTER_PRESETS[point.label] for point in space.points]
    assert steps == [["cluster"]] * 5
    monkeypatch.setattr(paper, "libraries", lambda paths: ["cells"])
    _, steps = paper.paper_points(ExploreOptions(paper=True, top="cluster"))
    names = [[step.name for step in own[1:]] for own in steps]
    assert names[2] == []
    layer = "16x16x32:64x3x3"
    for own, variant in zip((*names[:2], *names[3:]), VARIANTS.values(), strict=True):
        assert own[0] == "energy of matmul:8:xpulpv2_4x2:32x288x32"
        assert own[-6:-3] == [f"energy of conv:{bits}:{variant}:4{layer[2:]}" for bits in (8, 4, 2)]
        assert own[-3:] == [f"conv:{bits}:{variant}:{layer}" for bits in (8, 4, 2)]
    # the baseline's own MatMul at 8 bit is the one that all run
    assert [len(own) for own in names] == [9, 10, 0, 10, 10]


def cluster_energy(workload: str, femtojoule: float) -> EnergyResult:
    shares = {"cluster": 0.05, "cluster.cores": 0.5, "cluster.cores.lsu": 0.25, "cluster.tcdm": 0.2}
    modules = [spent_by(path, share * femtojoule) for path, share in shares.items()]
    figures = {"cycles": 100, "macs": 2000.0, "accesses": {"TCDM reads": 5.0, "TCDM writes": 0.5}}
    figures |= {"energy_per_cycle_fj": femtojoule, "energy_per_mac_fj": femtojoule / 20}
    return energy(workload=workload, top="cluster", modules=modules, **figures)


def test_energies_of_clusters_by_block() -> None:
    points = [point(name, energies=[cluster_energy("kernel", size)]) for name, size in (("a", 4e5), ("b", 2e5))]
    (table,) = cluster_tables(points)
    first = dict(zip([column.name for column in table.columns[:12]], table.rows[0], strict=False))
    assert [first[name] for name in ("cores", "crossbar", "DMA", REST)] == near(15.0, 4.0, 0.0, 1.0)
    # the sum per multiply-accumulate and per cycle, then accesses for a thousand of them
    sums = slice(-14, -12)  # before the power of the blocks and of all, for which there is no clock here
    assert (table.rows[0][sums], table.rows[0][-2:]) == (near(20.0, 400.0), near(250.0, 25.0))
    assert table.rows[1][sums] == near(10.0, 200.0)
    assert table.rows[0][-12:-2] == [None] * 10
    whole, _ = energy_plots(points)
    bars = {trace["name"]: trace["x"] for trace in whole.variants[("kernel",)]["data"]}
    assert bars["cores"] == near(300.0, 150.0)
    assert bars[REST] == near(20.0, 10.0)


def test_energies_of_clusters_beside_the_paper() -> None:
    def runs(name: str, variant: str, scale: float) -> PointResult:
        same = [cluster_energy("matmul:8:xpulpv2_4x2:32x288x32", 4e5 * scale)] if variant != "xpulpv2_4x2" else []
        own = [(f"matmul:{bits}", "32x288x32") for bits in (8, 4, 2)]
        own += [(f"conv:{bits}", "4x16x32:64x3x3") for bits in (8, 4, 2)]
        energies = [cluster_energy(f"{what}:{variant}:{layer}", 4e5 * scale) for what, layer in own]
        record = {"layer": "16x16x32:64x3x3", "variant": variant, "bits": 4, "macs_per_cycle": 50.0 / scale}
        return replace(cluster(name), energies=[*same, *energies], kernels=[record])

    scales = {"cluster-ri5cy": 1.0, "cluster": 0.8, "cluster2": 0.4, "cluster3": 0.3}
    names = {name: (variant, scales[name]) for name, variant in zip(scales, VARIANTS.values(), strict=True)}
    table = paper.paper_table([*(runs(name, *settings) for name, settings in names.items()), cluster("cluster-bf4")])
    by_figure = rows(table, 2)
    extension, beyond = "extension of the cores", "additions beyond the paper"
    same = by_figure[extension, "8-bit MatMul, same program, energy [pJ/cycle]"]
    assert same == [*near(400.0, 320.0, -20.0, 100 * (41.6 / 41.8 - 1)), None]
    assert by_figure[extension, "8-bit MatMul, own kernels, energy [pJ/cycle]"][3] == pytest.approx(4.545, abs=1e-3)
    assert by_figure[beyond, "8-bit MatMul, own kernels, energy [pJ/cycle]"] == [*near(320.0, 160.0, -50.0), None, None]
    assert by_figure[beyond, "layer at 2 bit, own kernels, energy [pJ/MAC]"][:3] == near(16.0, 8.0, -50.0)
    assert by_figure[beyond, "layer at 4 bit, own kernels, speed [MAC/cycle]"][:3] == near(62.5, 125.0, 100.0)
    assert by_figure["two products at a time", "MatMul at 8 bit, own kernels, energy [pJ/MAC]"][2:3] == near(-25.0)
    assert not any("MatMul" in figure for what, figure in by_figure if what == "32 instead of 16 banks")
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_overheads_beside_those_of_the_paper() -> None:
    table = paper.paper_table([cluster(name, scale) for name, scale in CLUSTERS.items()])
    by_figure = rows(table, 2)
    assert len(by_figure) == 12
    area, delay = "area [kGE], asic-area", "delay [FO4], asic-area"
    percent = 100 * (177.07 / 173.6 - 1)
    assert by_figure["extension of the cores", area] == near(173.6, 177.07, percent, 4.1, percent / 4.1)
    assert by_figure["32 instead of 16 banks", delay] == [*near(122.4, 126, 100 * (1.05 / 1.02 - 1)), None, None]
    assert by_figure["32 instead of 16 banks", "grant path [FO4], asic-area"][:2] == near(102, 105)
    beyond = near(177.07, 178.805, 100 * (178.805 / 177.07 - 1))
    assert by_figure["additions beyond the paper", area] == [*beyond, None, None]
    assert by_figure["two products at a time", delay][2] == pytest.approx(100 * (1.2 / 1.03 - 1))
