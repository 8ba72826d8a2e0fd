"""Copies by the DMA engine in C programs, on the simulator and on the design."""

from pathlib import Path

import pytest

from xpulpnn.config import ClusterConfig
from xpulpnn_sim.elf import load
from xpulpnn_sim.exits import Reason
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.models import simulated
from xpulpnn_sim.harness.program_run import run_program
from xpulpnn_sim.iss.cluster import ClusterSession
from xpulpnn_sw import toolchain
from xpulpnn_sw.cluster_layout import ClusterLayout
from xpulpnn_sw.toolchain import Options

SOURCE = Path(__file__).parent / "c" / "cluster_dma.c"
BYTES = 66_000
LIMIT = 2_000_000

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


def built(source: Path, folder: Path, cores: int) -> Path:
    path = folder / "main.elf"
    toolchain.build([source], path, options=Options(cluster=ClusterLayout(cores=cores)))
    return path


@pytest.mark.flow
@pytest.mark.parametrize(("cores", "quantum"), [(8, 64), (3, 5)])
def test_copies(tmp_path: Path, cores: int, quantum: int):
    printed: list[bytes] = []
    session = ClusterSession(
        load(built(SOURCE, tmp_path, cores)),
        ClusterConfig(cores=cores),
        quantum=quantum,
        output=lambda output: printed.append(output.data),
    )
    end = session.run(LIMIT)
    assert end.ok, f"{end.text}: line of {SOURCE.name}"
    assert b"".join(printed).startswith(b"%d bytes in " % BYTES)


@pytest.mark.cosim
def test_copies_on_the_design(tmp_path: Path):
    executable, printed = load(built(SOURCE, tmp_path, 8)), []
    machine = Machine(max_cycles=400_000, l2_latency=4)
    result = run_program(
        executable,
        simulated(ClusterConfig(icache_private=0)),
        machine,
        check=True,
        output=lambda output: printed.append(output.data),
    )
    assert result.exit.ok, f"{result.exit.text}: line of {SOURCE.name}"
    assert result.mismatches == 0
    cycles = int(b"".join(printed).split()[-2])
    # 8 bytes per cycle but for the calls, whose code may have to be fetched, the latency and the last write
    assert BYTES / 8 < cycles < BYTES / 8 + 1000


@pytest.mark.cosim
def test_copies_from_nowhere_end_the_run(tmp_path: Path):
    source = tmp_path / "main.c"
    source.write_text(OUTSIDE)
    executable = load(built(source, tmp_path, 8))
    result = run_program(executable, simulated(ClusterConfig(icache_private=0)), Machine(max_cycles=100_000))
    assert result.exit.reason is Reason.BAD_ACCESS
    assert result.exit.text == "the DMA engine reads outside memory: address 0x30000000"
    end = ClusterSession(executable, ClusterConfig(), output=lambda output: None).run(LIMIT)
    assert end.reason is Reason.BAD_ACCESS
    assert "address 0x30000000" in end.text


@pytest.mark.flow
def test_without_identifiers_there_is_a_deadlock(tmp_path: Path):
    source = tmp_path / "main.c"
    source.write_text(EXHAUSTED)
    executable = load(built(source, tmp_path, 2))
    end = ClusterSession(executable, ClusterConfig(cores=2), output=lambda output: None).run(LIMIT)
    assert end.reason is Reason.DEADLOCK
    assert "core 0: waits for an identifier of the DMA engine at 0x1c" in end.text
