"""Channel-wise kernels on the RTL: every retirement and result right, whatever the memory and the interrupts do."""

from dataclasses import replace

import pytest
from tests.designs import FOUR, FULL

from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.cluster_run import run_cluster_case
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, run_case
from xpulpnn_sw.kernels.kinds import kind

LAYERS = {
    "depthwise": "5x6x5:3x3",
    "add": "2x3x9",
    "maxpool": "6x7x9:3x3:s=2,p=1",
    "avgpool": "5x6x9:2x2:s=2,p=1:scaled",
    "relu": "3x3x9",
    "transpose": "3x7x9",
}


def case(name: str, bits: int, level: str, **timing) -> Case:
    chosen = kind(name)
    return Case(
        layer=chosen.layer.parse(LAYERS[name]),
        precision=chosen.uniform(bits),
        variant=level if level in chosen.variants else "xpulpv2",
        config=FULL,
        machine=Machine(**timing),
    )


@pytest.mark.cosim
@pytest.mark.parametrize(("number", "name"), list(enumerate(LAYERS)))
def test_slow_memory(number: int, name: str):
    chosen = (8, 4, 2)[number % 3], ("xpulpnn", "xpulpv2", "rv32im")[number // 2]
    quick = run_case(case(name, *chosen))
    slow = run_case(case(name, *chosen, grant_stalls=0.4, response_latency=4, seed=number))
    assert (quick.reports, slow.reports) == ([], [])
    assert quick.record["mismatches"] == slow.record["mismatches"] == 0
    assert slow.record["cycles"] > quick.record["cycles"]


@pytest.mark.cosim
@pytest.mark.parametrize(("number", "name"), list(enumerate(LAYERS)))
def test_interrupts_at_any_time(number: int, name: str):
    result = run_case(case(name, (2, 8, 4)[number % 3], "xpulpnn", irq_rate=0.02), "core")
    assert result.record["mismatches"] == 0, result.reports


@pytest.mark.cosim
@pytest.mark.parametrize("name", LAYERS)
def test_on_four_cores(name: str):
    result = run_cluster_case(replace(case(name, 2, "xpulpnn"), config=FOUR))
    assert result.record["mismatches"] == 0, result.reports
