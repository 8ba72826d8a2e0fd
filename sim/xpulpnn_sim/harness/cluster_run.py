"""One kernel on the cores of a cluster: what :mod:`xpulpnn_sim.harness.kernel_run` does on one core."""

from dataclasses import dataclass, fields, replace

import numpy as np

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import InputError, LayerError
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn.isa.machine import HALF_BYTES, WORD_BYTES
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.elf import Executable, Segment
from xpulpnn_sim.harness.kernel_run import (
    Case,
    KernelFigures,
    Result,
    case_kernel,
    case_tensors,
    executable_of,
    figures,
    wrong_results,
)
from xpulpnn_sim.harness.program_run import run_program
from xpulpnn_sim.harness.session import RunResult, stalls_of
from xpulpnn_sim.harness.target import Target
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.layout import Placement
from xpulpnn_sw.programs.cluster import ClusterProgram, cluster_program
from xpulpnn_sw.programs.tiled import TiledProgram, Tiling, tiled_program
from xpulpnn_sw.tiling.geometry import divides

ENGINE = "cluster"
"""What ran a kernel, in its record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCase:
    """A kernel to run on a cluster."""

    case: Case  # the kernel, its configuration that of every core, and the surroundings of the cluster
    cluster: ClusterConfig  # the cluster, with the same core
    placement: Placement = "padded"  # how what the cores read side by side lies in the banks
    # the tiles that the layer is computed in, its operands outside the cluster; None: none if it fits into the TCDM,
    # else as it takes least time
    tiling: Tiling | None = None

    @property
    def name(self) -> str:
        """What it is called where it goes wrong."""
        case = self.case
        return f"{case.kernel} {case.layer} {case.precision} {case.variant} on {self.cluster.cores} cores"

    def kernel(self, tensors: LayerTensors) -> KernelRun:
        """The kernel with room for all cores."""
        return case_kernel(self.case, tensors, cores=self.cluster.cores, placement=self.placement)

    def check(self) -> None:
        """Raise an error unless the cores have the instructions and the TCDM has the room."""
        self.case.check()
        tensors = case_tensors(self.case)
        kernel = self.kernel(tensors)
        program = self.tiles(kernel, tensors) or cluster_program(kernel, self.cluster.cores)
        target = Target.of(self.cluster, self.case.machine)
        target.require(self.executable(program), self.case.machine.ram)

    def tiles(self, kernel: KernelRun, tensors: LayerTensors) -> TiledProgram | None:
        """The program that computes the layer in tiles; None if it shall not, and need not.

        Raises :class:`LayerError` if it needs tiles and cannot have them.
        """
        if self.tiling is None:
            needed = len(cluster_program(kernel, self.cluster.cores).data)
            if needed <= self.cluster.tcdm_bytes:
                return None
            if not self.cluster.dma or not divides(kernel):
                raise LayerError(
                    f"operands, buffers and stacks must be at most the TCDM's {self.cluster.tcdm_bytes} bytes, "
                    f"not {needed} of {self.name}{'' if self.cluster.dma else ' without DMA'}"
                )
        elif not self.cluster.dma:
            raise InputError("dma of the cluster must be true for tiles, not false")
        return tiled_program(
            kernel,
            tensors,
            self.cluster.cores,
            self.cluster.tcdm_bytes,
            self.tiling or Tiling(),
            specialise=self.case.specialise,
        )

    def executable(self, program: ClusterProgram | TiledProgram) -> Executable:
        """The program as the runner takes it."""
        found = executable_of(program, self.name)
        if isinstance(program, ClusterProgram):
            return found
        outside = program.run.image
        segment = Segment(outside.base, outside.data.tobytes(), outside.data.size)
        return replace(found, segments=(*found.segments, segment))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFigures(KernelFigures):
    """Figures of a case on a cluster, under the names of its JSON record.

    ``cycles`` are those from the release of the barrier before the kernel to that of the barrier after it.
    """

    banks: int
    arbiter: str  # who is granted a bank; how operands lie in the banks
    placement: str  # who is granted a bank; how operands lie in the banks
    l2_latency: int  # cycles that memory outside the cluster takes to answer
    icache: int  # bytes of the instruction cache of each core; 0 for fetching without delay
    shares: list[int]  # cycles that each core took for its share
    barrier: int  # cycles of all cores together that they waited for the last one
    stalls_by_core: list[dict[str, int]]  # cycles without a retirement by cause, of each core


def run_cluster_case(case: ClusterCase) -> Result:
    """Run a case and check it: the memory afterwards against the reference layer, on request every retirement.

    With instruction caches the kernel runs twice, and the accounts of a program that runs it once are taken off.
    """
    tensors = case_tensors(case.case)
    kernel = case.kernel(tensors)
    warm = case.cluster.icache_private > 0
    program = cluster_program(kernel, case.cluster.cores, passes=1 + warm)
    outcome = run_program(
        case.executable(program), case.cluster, case.case.machine, check=case.case.checked, account=True
    )
    if warm and outcome.exit.ok:
        first = run_program(
            case.executable(cluster_program(kernel, case.cluster.cores)), case.cluster, case.case.machine, account=True
        )
        outcome.accounts = [both - one for both, one in zip(outcome.accounts, first.accounts, strict=True)]
    memory = outcome.memory[TCDM_BASE]
    wrong = wrong_results(kernel, memory, case.case, tensors)
    reports = [text for text in (outcome.difference, wrong[1] if wrong else None) if text]
    if not outcome.exit.ok:
        reports.append(outcome.exit.text)
    mismatches = outcome.mismatches + (wrong[0] if wrong else 0)
    return Result(
        figures=cluster_figures(
            case,
            kernel,
            outcome,
            program.measured(memory),
            program.shares(memory),
            mismatches if outcome.exit.ok else max(mismatches, 1),
        ),
        reports=reports,
        mismatch_position=outcome.mismatch_position,
    )


def cluster_figures(
    case: ClusterCase, kernel: KernelRun, outcome: RunResult, cycles: int, shares: list[int], mismatches: int
) -> ClusterFigures:
    """The figures of a run: its cycles, those that each core worked, and how much was wrong."""
    function = kernel.function
    # the function lies before what calls it
    slots = len(function) * WORD_BYTES // HALF_BYTES
    rows = [account[:slots] for account in outcome.accounts]
    total = np.sum(rows, axis=0)[:: WORD_BYTES // HALF_BYTES]
    stalls_by_core = [stalls_of(account, devices=True) for account in rows]
    stalls = {cause: sum(stalls[cause] for stalls in stalls_by_core) for cause in stalls_by_core[0]}
    common = figures(
        case.case,
        kernel,
        engine=ENGINE,
        executions=total[:, WaitCause.NONE],
        cycles_at=total.sum(axis=1),
        cycles=cycles,
        stalls=stalls,
        mismatches=mismatches,
        wall_s=outcome.wall_s,
        simulated_cycles=outcome.cycles,
        cores=case.cluster.cores,
    )
    return ClusterFigures(
        **{item.name: getattr(common, item.name) for item in fields(common)},
        banks=case.cluster.banks,
        arbiter=case.cluster.arbiter,
        placement=case.placement,
        l2_latency=case.case.machine.l2_latency,
        icache=case.cluster.icache_private,
        shares=shares,
        barrier=cycles * len(shares) - sum(shares),
        stalls_by_core=stalls_by_core,
    )
