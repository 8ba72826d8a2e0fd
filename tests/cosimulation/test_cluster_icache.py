"""A kernel that two cores fetch through their instruction caches."""

import pytest
from tests.designs import PAIR, kernel_case

from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.cluster_run import cluster_executable, run_cluster_case
from xpulpnn_sim.cosimulation.workloads.kernel_run import case_kernel, case_tensors
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sw.kernels.programs.bare import cluster_program

pytestmark = pytest.mark.cosim


def test_second_pass_hits():
    machine = Machine(l2_latency=20, max_cycles=100_000)
    case = kernel_case("conv", "6x6x8:8x3x3", 8, "xpulpv2_4x2", PAIR, machine=machine, checked=True)
    result = run_cluster_case(case)
    assert not result.reports
    figures = result.record
    assert (figures["icache"], figures["l2_latency"], figures["mismatches"]) == (512, 20, 0)
    # once only, from memory: the same work takes longer
    program = cluster_program(case_kernel(case, case_tensors(case)), PAIR.cores)
    first = run_program(cluster_executable(case, program), PAIR, machine, account=True)
    cold = program.measured(first.memory[TCDM_BASE])
    lines = len(program.text) // 16
    assert cold > figures["cycles"] + lines * machine.l2_latency / 2
    # all the code is in the shared cache, and a fetch from there takes three cycles
    assert 0 < figures["stalls"]["fetch"] < figures["instructions"] / 20
    assert figures["instructions"] < first.instructions < 2 * figures["instructions"]
