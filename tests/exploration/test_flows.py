"""Flows, kernels and energies as steps of a point: what is run and on what, files, the clock, structures for FPGAs."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.exploration.sample_results import RecordingFlow, energy

from xpulpnn.config import CLUSTER_PRESETS, PRESETS, ClusterConfig, preset
from xpulpnn.errors import InputError
from xpulpnn_sim.exploration import flows
from xpulpnn_sim.exploration.energy import cluster, estimate
from xpulpnn_sim.exploration.flows import (
    INFERRED,
    KernelSpec,
    energy_step,
    flow_step,
    flow_steps,
    kernel_step,
    parse_clock,
)
from xpulpnn_sim.exploration.library import FlowError, flow_folder
from xpulpnn_sim.exploration.options import ExploreOptions
from xpulpnn_sim.exploration.paper import VARIANTS
from xpulpnn_sim.exploration.report.comparison import kernel_conditions
from xpulpnn_sim.exploration.results import EmittedDesign, emit_design
from xpulpnn_sim.exploration.space import build_space
from xpulpnn_sim.exploration.task import StepOutcome, run_step

pytestmark = pytest.mark.flow


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPULPNN_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("text", "clock_ns"), [("5", 5.0), ("2.5ns", 2.5), ("200MHz", 5.0), ("400 mhz", 2.5), (".5 ns", 0.5)]
)
def test_clocks(text: str, clock_ns: float) -> None:
    assert parse_clock(text) == clock_ns


@pytest.mark.parametrize("text", ["", "0MHz", "5ps", "5 ns 6"])
def test_what_is_no_clock(text: str) -> None:
    rule = "a positive period in ns or a frequency such as 200MHz"
    with pytest.raises(InputError, match=rf"^clock must be {rule}, not {text or 'empty'}$"):
        parse_clock(text)


def test_ecp5_points_have_the_structures_of_the_fpga() -> None:
    flow = RecordingFlow("ecp5")
    design = emit_design("mult", preset("xpulpnn"))
    outcome = flow_step(flow).run(design)
    (seen,) = flow.seen
    assert design.config.multiplier == "booth"
    assert (seen.config.multiplier, seen.config.dotp.adders) == ("inferred", "inferred")
    assert seen.config.dotp.multipliers == "replicated"
    assert seen.verilog != design.verilog
    assert outcome.files["mult.v"] == seen.verilog
    assert outcome.result.structures["multiplier"] == "inferred"
    text = "Structures: multipliers=replicated, adders=inferred, multiplier=inf"
    assert outcome.result.conditions[0].startswith(text)
    # structures that the user chose stay
    flow = RecordingFlow("ecp5")
    flow_step(flow, {"multiplier"}).run(design)
    assert flow.seen[0].config.multiplier == "booth"
    (step,) = flow_steps(ExploreOptions(flow="ecp5", settings=("dotp.adders=inferred",)))
    settings = step.settings()
    assert {name: settings.get(name) for name in INFERRED} == {
        "multipliers": "replicated",
        "multiplier": "inferred",
        "adders": None,
    }


def test_other_flows_take_the_point_as_it_is() -> None:
    for name, top in (("ice40", "mult"), ("ecp5", "nnrf")):
        flow = RecordingFlow(name)
        design = emit_design(top, preset("xpulpnn"))
        outcome = flow_step(flow).run(design)
        assert flow.seen[0].code == design.code
        assert (outcome.result.structures, outcome.result.conditions) == ({}, ["Made up."])
        assert outcome.files.keys() == {"run1/tool.log"}


class FailingStep:
    name, kind = "bad", "flows"

    def settings(self) -> dict[str, str]:
        return {}

    def run(self, design: EmittedDesign) -> StepOutcome:
        raise FlowError("tool must end, not stop", {"tool.log": f"no {design.top}\n"})


def test_files_go_into_the_folder_of_the_point(tmp_path: Path) -> None:
    (point,) = build_space("mult", ["ri5cy"], [], []).points
    steps = [flow_step(RecordingFlow("ice40")), FailingStep()]
    good, bad = (run_step(point, step, emit_design, 0.0) for step in steps)
    assert (good.error, bad.error) == ("", "bad: tool must end, not stop")
    assert good.files["ice40/run1/tool.log"] == "said\n"
    assert bad.files["bad/tool.log"] == "no mult\n"
    assert set(good.files) - {"ice40/run1/tool.log"} == {"config.json", "mult.v", "mult.json"}


def test_what_is_kept_of_a_flow() -> None:
    files: dict[str, str] = {}
    with flow_folder(files, "run2") as folder:
        for name in ("a.log", "b.ys", "c.v", "library.lib", "big.json"):
            (folder / name).write_text(name)
    assert files == {f"run2/{name}": name for name in ("a.log", "b.ys", "c.v")}
    with pytest.raises(ZeroDivisionError), flow_folder(files):
        raise ZeroDivisionError


SPEC = KernelSpec.parse("matmul:8:nn_4x4:8x32x8")


def design(config: ClusterConfig) -> EmittedDesign:
    return EmittedDesign(top="cluster", module="cluster", config=config, verilog="", manifest={})


def test_a_kernel_runs_on_all_cores_of_the_point(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Ran:
        record = {"mismatches": 3}

    def run(case: object) -> Ran:
        seen.append(case)
        return Ran()

    monkeypatch.setattr(flows, "run_kernel", run)
    outcome = kernel_step(SPEC).run(design(ClusterConfig(cores=4, banks=8, arbiter="strict")))
    (case,) = seen
    config = case.config
    assert (config.cores, config.banks, config.arbiter, config.icache_private) == (4, 8, "strict", 512)
    assert case.checked
    assert outcome.error == "results must equal the reference, not differ 3 times"


def test_kernels_that_the_cores_cannot_run() -> None:
    rule = (
        "variant must be one that the configuration can run, not nn_4x4 (needs XpulpMLnn: preset xpulpnn or "
        "xpulpnn-full or xpulpnn2 or xpulpnn3)"
    )
    assert SPEC.obstacle(CLUSTER_PRESETS["cluster-ri5cy"]) == rule
    assert SPEC.obstacle(CLUSTER_PRESETS["cluster"]) == ""


@pytest.mark.parametrize("bits", [8, 2])
def test_the_fastest_kernel_of_each_core_is_that_of_the_comparison_of_the_paper(bits: int) -> None:
    spec = KernelSpec.parse(f"matmul:{bits}")
    for name, variant in VARIANTS.items():
        assert spec.on(PRESETS[name]) == KernelSpec.parse(f"matmul:{bits}:{variant}")
    assert spec.on(CLUSTER_PRESETS["cluster3"]).variant == "x3_4x4"
    rule = "no variant of it computes with 16 bit on this configuration"
    assert KernelSpec.parse("matmul:16").obstacle(PRESETS["ri5cy"]) == rule


def test_energy_of_a_kernel_is_that_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def estimate_sample(case, library, window, yosys):
        seen.append((case.config, case.variant, str(case.layer), window))
        return energy(workload="kernel", top="cluster", accesses={"TCDM reads": 8.0}), {"mapped.v": "module"}, True

    monkeypatch.setattr(cluster, "estimate_cluster", estimate_sample)
    config = replace(CLUSTER_PRESETS["cluster"], core=PRESETS["xpulpnn-full"])
    outcome = energy_step(None, SPEC, window=512).run(design(config))
    # the cores as they are mapped, not as they are simulated
    assert seen == [(config, SPEC.variant, str(SPEC.layer), 512)]
    assert outcome.result.accesses == {"TCDM reads": 8.0}
    assert (outcome.files, outcome.cached) == ({"mapped.v": "module"}, True)


def test_energy_of_general_code_is_that_of_one_core_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def estimate_sample(config, workload, library, window, yosys):
        seen.append((config, workload.top, workload.name))
        result = energy(workload=workload.name, top=workload.top, conditions=["Library of cells."])
        return result, {}, False

    monkeypatch.setattr(estimate, "estimate_energy", estimate_sample)
    config = replace(CLUSTER_PRESETS["cluster"], core=PRESETS["xpulpnn-full"])
    outcome = energy_step(None, None).run(design(config))
    assert seen == [(PRESETS["xpulpnn-full"], "core", "general code")]
    assert outcome.result.conditions[0].startswith("General code runs on one core of the cluster, by itself")
    assert outcome.result.conditions[1:] == ["Library of cells."]


def test_conditions_of_kernels() -> None:
    record = {"arbiter": "counter", "icache": 512, "l2_latency": 1}
    assert "second pass" in kernel_conditions(record)
    assert "without delay" in kernel_conditions(record | {"icache": 0})
    assert kernel_conditions({"engine": "stream"}).startswith("On the RTL, results checked, ideal memory. Adders ")
