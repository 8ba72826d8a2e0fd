"""Flows, kernels and energies as steps of a point: what is run and on what, files, the clock, structures for FPGAs."""

from dataclasses import replace
from unittest.mock import Mock

import pytest
from tests.exploration.sample_results import RecordingFlow, design, energy

from xpulpnn.config import CLUSTER_PRESETS, PRESETS, ClusterConfig, preset
from xpulpnn.errors import InputError
from xpulpnn_sim.exploration import flows
from xpulpnn_sim.exploration.energy import estimate
from xpulpnn_sim.exploration.energy.programs import GENERAL_CODE
from xpulpnn_sim.exploration.flows import (
    INFERRED,
    KernelSpec,
    energy_step,
    flow_step,
    flow_steps,
    kernel_step,
    parse_clock,
)
from xpulpnn_sim.exploration.library import FlowError, Library, flow_folder
from xpulpnn_sim.exploration.options import ExploreOptions
from xpulpnn_sim.exploration.paper import VARIANTS
from xpulpnn_sim.exploration.report.comparison import kernel_conditions
from xpulpnn_sim.exploration.results import EmittedDesign, emit_design
from xpulpnn_sim.exploration.space import build_space
from xpulpnn_sim.exploration.task import StepOutcome, run_step

pytestmark = [pytest.mark.flow, pytest.mark.usefixtures("own_cache")]
SPEC = KernelSpec.parse("matmul:8:nn_4x4:8x32x8")


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
    booth = emit_design("mult", preset("xpulpnn"))
    outcome = flow_step(flow).run(booth)
    (seen,) = flow.seen
    assert booth.config.multiplier == "booth"
    assert (seen.config.multiplier, seen.config.dotp.adders) == ("inferred", "inferred")
    assert seen.config.dotp.multipliers == "replicated"
    assert seen.verilog != booth.verilog
    assert outcome.files["mult.v"] == seen.verilog
    assert outcome.result.structures["multiplier"] == "inferred"
    assert outcome.result.conditions[0].startswith("Structures: multipliers=replicated, adders=inferred, mult")
    # structures that the user chose stay
    flow = RecordingFlow("ecp5")
    flow_step(flow, {"multiplier"}).run(booth)
    assert flow.seen[0].config.multiplier == "booth"
    (step,) = flow_steps(ExploreOptions(flow="ecp5", settings=("dotp.adders=inferred",)))
    settings = step.settings()
    inferred = {"multipliers": "replicated", "multiplier": "inferred", "adders": None}
    assert {name: settings.get(name) for name in INFERRED} == inferred


def test_other_flows_take_the_point_as_it_is() -> None:
    for name, top in (("ice40", "mult"), ("ecp5", "nnrf")):
        flow = RecordingFlow(name)
        emitted = emit_design(top, preset("xpulpnn"))
        outcome = flow_step(flow).run(emitted)
        assert flow.seen[0].code == emitted.code
        assert (outcome.result.structures, outcome.result.conditions) == ({}, ["Made up."])
        assert outcome.files.keys() == {"run1/tool.log"}


class FailingStep:
    name, kind = "bad", "flows"

    def settings(self) -> dict[str, str]:
        return {}

    def run(self, design: EmittedDesign) -> StepOutcome:
        raise FlowError("tool must end, not stop", {"tool.log": f"no {design.top}\n"})


def test_files_go_into_the_folder_of_the_point() -> None:
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


def test_a_kernel_runs_on_all_cores_of_the_point(monkeypatch: pytest.MonkeyPatch) -> None:
    run_kernel = Mock(return_value=Mock(record={"mismatches": 3}))
    monkeypatch.setattr(flows, "run_kernel", run_kernel)
    config = ClusterConfig(cores=4, banks=8, arbiter="strict")
    outcome = kernel_step(SPEC).run(design(top="cluster", config=config))
    ((case,), _) = run_kernel.call_args
    config = case.config
    assert (config.cores, config.banks, config.arbiter, config.icache_private) == (4, 8, "strict", 512)
    assert case.checked
    assert outcome.error == "results must equal the reference, not differ 3 times"


def test_kernels_that_the_cores_cannot_run() -> None:
    assert "not nn_4x4 (needs XpulpMLnn: " in SPEC.obstacle(CLUSTER_PRESETS["cluster-ri5cy"])
    assert SPEC.obstacle(CLUSTER_PRESETS["cluster"]) == ""
    rule = "no variant of it computes with 16 bit on this configuration"
    assert KernelSpec.parse("matmul:16").obstacle(PRESETS["ri5cy"]) == rule


@pytest.mark.parametrize("bits", [8, 2])
def test_the_fastest_kernel_of_each_core_is_that_of_the_comparison_of_the_paper(bits: int) -> None:
    spec = KernelSpec.parse(f"matmul:{bits}")
    for name, variant in VARIANTS.items():
        assert spec.for_config(PRESETS[name]) == KernelSpec.parse(f"matmul:{bits}:{variant}")
    assert spec.for_config(CLUSTER_PRESETS["cluster3"]).variant == "x3_4x4"


CLUSTER = design(top="cluster", config=replace(CLUSTER_PRESETS["cluster"], core=PRESETS["xpulpnn-full"]))


def test_energy_of_a_kernel_is_that_of_the_cluster(monkeypatch: pytest.MonkeyPatch, library: Library) -> None:
    result = energy(workload="kernel", top="cluster")
    estimated = Mock(return_value=(result, {"mapped.v": "module"}, True))
    monkeypatch.setattr(estimate, "estimate_energy", estimated)
    outcome = energy_step(library, SPEC, window=512).run(CLUSTER)
    assert outcome == StepOutcome(result=result, cached=True, files={"mapped.v": "module"})
    config, workload, _, window, _ = estimated.call_args.args
    case = workload.run.args[0]
    # the cores as they are mapped, not as they are simulated
    assert (config, case.config, workload.top, window) == (CLUSTER.config, CLUSTER.config, "cluster", 512)
    assert (case.variant, str(case.layer)) == (SPEC.variant, str(SPEC.layer))


def test_energy_of_general_code_is_that_of_one_core_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    result = energy(workload="general code", conditions=["Library of cells."])
    estimated = Mock(return_value=(result, {}, False))
    monkeypatch.setattr(estimate, "estimate_energy", estimated)
    outcome = energy_step(None, GENERAL_CODE).run(CLUSTER)
    config, workload, *_ = estimated.call_args.args
    assert (config, workload.top, workload.name) == (PRESETS["xpulpnn-full"], "core", "general code")
    assert outcome.result.conditions[0].startswith("The program runs on one core of the cluster, by itself")
    assert outcome.result.conditions[1:] == ["Library of cells."]


def test_conditions_of_kernels() -> None:
    record = {"arbiter": "counter", "icache": 512, "l2_latency": 1}
    assert "second pass" in kernel_conditions(record)
    assert "without delay" in kernel_conditions(record | {"icache": 0})
    assert kernel_conditions({"engine": "stream"}).startswith("On the RTL, results checked, ideal memory. Adders ")
