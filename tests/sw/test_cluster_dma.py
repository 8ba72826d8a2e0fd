"""Copies by the DMA engine in C programs, on the simulator and on the design."""

import pytest

from xpulpnn.config import ClusterConfig
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.programs.elf import load
from xpulpnn_sim.reference.programs.exits import Reason

from .elf import ClusterBuild, simulate

SOURCE = "cluster_dma.c"
BYTES = 66_000

OUTSIDE = """#include <pmsis.h>
PI_L1 static char inside[64];
int main(void) {
    pi_cl_dma_cmd_t copy;
    pi_cl_dma_cmd(0x30000000u, (uint32_t)(uintptr_t)inside, 64, PI_CL_DMA_DIR_EXT2LOC, &copy);
    pi_cl_dma_cmd_wait(&copy);
    return 0;
}
"""

EXHAUSTED = """#include <pmsis.h>
int main(void) {
    for (int i = 0; i < 17; ++i) xp_dma_identifier();
    return 0;
}
"""


@pytest.mark.flow
@pytest.mark.parametrize(("cores", "quantum"), [(8, 64), (3, 5)])
def test_copies(build: ClusterBuild, cores: int, quantum: int):
    ran = simulate(build(SOURCE, cores=cores), cores, quantum)
    assert ran.end.ok, f"{ran.end.text}: line of {SOURCE}"
    assert ran.output.startswith(f"{BYTES} bytes in ")


@pytest.mark.cosim
def test_copies_on_the_design(build: ClusterBuild):
    executable, printed = load(build(SOURCE)), []
    machine = Machine(max_cycles=400_000, l2_latency=4)
    result = run_program(
        executable,
        simulated(ClusterConfig(icache_private=0)),
        machine,
        check=True,
        output=lambda output: printed.append(output.data),
    )
    assert result.exit.ok, f"{result.exit.text}: line of {SOURCE}"
    assert result.mismatches == 0
    cycles = int(b"".join(printed).split()[-2])
    # 8 bytes per cycle but for the calls, whose code may have to be fetched, the latency and the last write
    assert BYTES / 8 < cycles < BYTES / 8 + 1000


@pytest.mark.cosim
def test_copies_from_nowhere_end_the_run(build: ClusterBuild):
    path = build(OUTSIDE)
    result = run_program(load(path), simulated(ClusterConfig(icache_private=0)), Machine(max_cycles=100_000))
    assert result.exit.reason is Reason.BAD_ACCESS
    assert result.exit.text == "the DMA engine reads outside memory: address 0x30000000"
    end = simulate(path, 8).end
    assert end.reason is Reason.BAD_ACCESS
    assert "address 0x30000000" in end.text


@pytest.mark.flow
def test_without_identifiers_there_is_a_deadlock(build: ClusterBuild):
    end = simulate(build(EXHAUSTED, cores=2), 2).end
    assert end.reason is Reason.DEADLOCK
    assert "core 0: waits for an identifier of the DMA engine at 0x1c" in end.text
