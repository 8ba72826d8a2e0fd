"""Kernels and energies of clusters as steps of a point: what is run, and on what."""

from dataclasses import replace

import pytest
from tests.exploration.made_up import energy

from xpulpnn.config import CLUSTER_PRESETS, PRESETS, ClusterConfig
from xpulpnn_sim.exploration import flows
from xpulpnn_sim.exploration.energy import estimate
from xpulpnn_sim.exploration.flows import EnergyStep, KernelSpec, KernelStep
from xpulpnn_sim.exploration.report.comparison import kernel_conditions
from xpulpnn_sim.exploration.results import EmittedDesign

pytestmark = pytest.mark.unit

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

    monkeypatch.setattr(flows, "run_cluster_case", run)
    outcome = KernelStep(SPEC).run(design(ClusterConfig(cores=4, banks=8, arbiter="strict")))
    (case,) = seen
    assert (case.cluster.cores, case.cluster.banks, case.cluster.arbiter, case.cluster.icache_private) == (
        4, 8, "strict", 512,
    )  # fmt: skip
    assert case.case.config == case.cluster.core
    assert case.case.checked
    assert outcome.error == "results must equal the reference, not differ 3 times"


def test_kernels_that_the_cores_cannot_run() -> None:
    rule = "variant must be one that the configuration can run, not nn_4x4 (needs XpulpMLnn)"
    assert SPEC.obstacle(CLUSTER_PRESETS["cluster-ri5cy"]) == rule
    assert SPEC.obstacle(CLUSTER_PRESETS["cluster"]) == ""


def test_energy_is_that_of_one_core_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def made_up(config, workload, library, window, yosys):
        seen.append((config, workload.top, workload.name))
        result = energy(workload=workload.name, top=workload.top, conditions=["Library of cells."])
        return result, {}

    monkeypatch.setattr(estimate, "estimate_energy", made_up)
    config = replace(CLUSTER_PRESETS["cluster"], core=PRESETS["xpulpnn-full"])
    outcome = EnergyStep(None, SPEC, core=True).run(design(config))
    assert seen == [(PRESETS["xpulpnn-full"], "core", str(SPEC))]
    assert outcome.result.conditions[0].startswith("Of one core of the cluster, by itself")
    assert outcome.result.conditions[1:] == ["Library of cells."]


def test_conditions_of_kernels() -> None:
    record = {"arbiter": "counter", "icache": 512, "l2_latency": 1}
    assert "second pass" in kernel_conditions(record)
    assert "without delay" in kernel_conditions(record | {"icache": 0})
    assert kernel_conditions({"engine": "stream"}) == "results checked, ideal memory, sums left to the simulator"
