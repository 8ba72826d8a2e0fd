"""Kernels as workloads of a cluster, in the TCDM or in tiles, and when tiles were computed and moved."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xpulpnn_sw.kernels.programs.cluster import ClusterProgram, cluster_program

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import InputError, LayerError
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn_sim.cosimulation.model.machine import Target
from xpulpnn_sim.cosimulation.model.session import RunResult, stalls_of
from xpulpnn_sim.cosimulation.workloads.kernel_run import (
    Case,
    KernelFigures,
    KernelWork,
    case_kernel,
    case_tensors,
    kernel_figures,
)
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.cosimulation.workloads.workload import (
    CommonFigures,
    Compared,
    Progress,
    Result,
    executable_of,
    function_accounts,
    image_after,
    run_workload,
)
from xpulpnn_sim.reference.programs.elf import Executable
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import Placement
from xpulpnn_sw.kernels.programs.bare import ClusterProgram, cluster_program
from xpulpnn_sw.kernels.programs.tiled import TIMES, TiledProgram, Tiling, tiled_program
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.tiling.plan import TileStep
from xpulpnn_sw.kernels.tiling.products import divides

RELEASED, BEGIN, DONE, READY = range(len(TIMES))  # places of the times in the report of a core


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceFigures:
    """A piece of the TCDM."""

    name: str
    address: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFigures:
    """Figures of the step between two barriers; cycles count from the first barrier."""

    tile: int | None  # number of the tile that was computed
    rows: list[int]  # first row (of a matrix product: pixel) and channel of the tile, and those after its last
    channels: list[int]  # first row (of a matrix product: pixel) and channel of the tile, and those after its last
    begin: int  # when the barrier opened, the last core had its share done, and everything was moved as well
    computed: int  # when the barrier opened, the last core had its share done, and everything was moved as well
    end: int  # when the barrier opened, the last core had its share done, and everything was moved as well
    compute: int  # cycles that the cores computed, on average
    waiting: int  # cycles that all cores waited for the DMA engine, after the last one had its share done
    loaded: int  # bytes of operands and results that were moved meanwhile
    stored: int  # bytes of operands and results that were moved meanwhile
    moving: int  # cycles in which the DMA engine was moving data


@dataclass(frozen=True, slots=True, kw_only=True)
class TilingFigures:
    """Figures of a division into tiles."""

    tiles: int
    rows: int  # of a tile: output rows and channels
    channels: int  # of a tile: output rows and channels
    unit: str  # what is meant by rows: `rows`, or `pixels` where the input is a row for each of them
    # what comes first, `rows` or `channels`: after a tile the next rows of the same channels, or the other way round
    order: str
    overlap: bool  # whether data were moved while tiles were computed
    tcdm_bytes: int
    tcdm: list[PlaceFigures]  # what they are for
    loaded: int  # bytes of operands and results moved
    stored: int  # bytes of operands and results moved
    # cycles in which the DMA engine was moving data; in which all cores waited for it; in which some computed
    moving: int
    # cycles in which the DMA engine was moving data; in which all cores waited for it; in which some computed
    waiting: int
    # cycles in which the DMA engine was moving data; in which all cores waited for it; in which some computed
    computing: int
    bytes_per_cycle: float  # moved per cycle of `moving`
    steps: list[StepFigures]  # what happened when


def tiling_figures(program: TiledProgram, outcome: RunResult, times: NDArray[np.int64]) -> TilingFigures:
    """The figures of the tiles, from the reports of the cores."""
    plan = program.plan
    steps = [
        _step(program, number, step, times, moving_cycles(outcome, times[number, 0, RELEASED], step_end(times, number)))
        for number, step in enumerate(program.steps)
    ]
    loaded, stored = (sum(sizes) for sizes in zip(*program.moved, strict=True))
    moving = sum(step.moving for step in steps)
    return TilingFigures(
        tiles=len(plan.tiles),
        rows=len(program.division.rows_of(plan.tiles[0])),
        channels=plan.channels,
        unit=program.division.unit,
        order="channels" if plan.channels_first else "rows",
        overlap=plan.overlap,
        tcdm_bytes=len(program.data),
        tcdm=[PlaceFigures(name=name, address=at.address, bytes=at.length) for name, at in program.places.items()],
        loaded=loaded,
        stored=stored,
        moving=moving,
        waiting=sum(step.waiting for step in steps),
        computing=sum(step.computed - step.begin for step in steps if step.tile is not None),
        bytes_per_cycle=round((loaded + stored) / max(moving, 1), 4),
        steps=steps,
    )


def moving_cycles(outcome: RunResult, begin: int, end: int) -> int:
    """Cycles from ``begin`` to before ``end`` in which the DMA engine was moving data."""
    first, last = (outcome.activities[name].astype(np.int64) for name in ("first", "last"))
    return int(np.maximum(np.minimum(last + 1, end) - np.maximum(first, begin), 0).sum())


def step_end(times: NDArray[np.int64], number: int) -> int:
    """The cycle in which the next step begins; of the last one, in which everything is done."""
    return int(times[number + 1, 0, RELEASED] if number + 1 < len(times) else times[number, 0, READY])


def _step(program: TiledProgram, number: int, step: TileStep, times: NDArray[np.int64], moving: int) -> StepFigures:
    own, start = times[number], times[0, 0, RELEASED]
    tile = step.work.tile if step.work else None
    computed = int((own[:, DONE] if tile else own[:, BEGIN]).max() - start)
    end = int(own[0, READY] - start)
    loaded, stored = program.moved[number]
    return StepFigures(
        tile=step.work.number if step.work else None,
        rows=_ends(program.division.rows_of(tile)) if tile else [],
        channels=_ends(tile.channels) if tile else [],
        begin=int(own[0, RELEASED] - start),
        computed=computed,
        end=max(computed, end),
        compute=int((own[:, DONE] - own[:, BEGIN]).mean()) if tile else 0,
        waiting=max(end - computed, 0),
        loaded=loaded,
        stored=stored,
        moving=moving,
    )


def _ends(numbers: range) -> list[int]:
    return [numbers.start, numbers.stop]


ENGINE = "cluster"  # what ran a kernel, in its record


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
        """Name of the case in reports."""
        return f"{self.case.name} on {self.cluster.cores} cores"

    def kernel(self, tensors: LayerTensors) -> KernelRun:
        """The kernel with room for all cores."""
        return case_kernel(self.case, tensors, cores=self.cluster.cores, placement=self.placement)

    def check(self) -> None:
        """Raise an error unless the cores have the instructions and the TCDM has the room."""
        self.case.check()
        tensors = case_tensors(self.case)
        kernel = self.kernel(tensors)
        program = self.tiles(kernel) or cluster_program(kernel, self.cluster.cores)
        target = Target.of(self.cluster, self.case.machine)
        target.require(self.executable(program), self.case.machine.ram)

    def tiles(self, kernel: KernelRun) -> TiledProgram | None:
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
            self.cluster.cores,
            self.cluster.tcdm_bytes,
            self.tiling or Tiling(),
            specialise=self.case.specialise,
        )

    def executable(self, program: ClusterProgram | TiledProgram) -> Executable:
        """The program as the runner takes it."""
        return executable_of(program, self.name, [program.run.image] if isinstance(program, TiledProgram) else [])


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledFigures(ClusterFigures):
    """Figures of a case in tiles, under the names of its JSON record.

    ``cycles`` are those from the first command of the DMA engine until all results are in the memory outside.
    """

    tiling: TilingFigures


def run_cluster_case(case: ClusterCase, progress: Progress | None = None) -> Result:
    """Run a case, in tiles if they are asked for or needed, and check it.

    The memory afterwards is compared with the reference layer, on request every retirement is checked. With instruction
    caches a kernel that is not in tiles runs twice, and the accounts of a program that runs it once are taken off.
    """
    tensors = case_tensors(case.case)
    kernel = case.kernel(tensors)
    tiles = case.tiles(kernel)
    work = ClusterWork(case, tensors, kernel) if tiles is None else TiledWork(case, tensors, tiles)
    return run_workload(work, progress)


class ClusterWork(KernelWork):
    """A kernel that the cores of a cluster share, its operands in the TCDM."""

    engine = ENGINE

    def __init__(self, case: ClusterCase, tensors: LayerTensors, kernel: KernelRun) -> None:
        super().__init__(case.case, tensors, kernel)
        self.config = self.cluster = case.cluster
        self.clustered = case

    @cached_property
    def program(self) -> ClusterProgram:
        """The program, in two passes if instruction caches are to be warm."""
        return cluster_program(self.kernel, self.cluster.cores, passes=1 + (self.cluster.icache_private > 0))

    @property
    def executable(self) -> Executable:
        """The program as the runner takes it."""
        return self.clustered.executable(self.program)

    def memory(self, outcome: RunResult) -> NDArray[np.uint8]:
        """Return the TCDM after a run."""
        return outcome.memory[TCDM_BASE]

    def figures(self, outcome: RunResult, compared: list[Compared], common: CommonFigures) -> ClusterFigures:
        """Return the figures; the cycles are those from barrier to barrier."""
        if self.cluster.icache_private and outcome.exit.ok:
            once = self.clustered.executable(cluster_program(self.kernel, self.cluster.cores))
            first = run_program(once, self.config, self.machine, account=True)
            outcome.accounts = [both - one for both, one in zip(outcome.accounts, first.accounts, strict=True)]
        memory = self.memory(outcome)
        cycles, shares = self.program.measured(memory), self.program.shares(memory)
        return ClusterFigures(**self.fields(outcome, cycles, shares, common))

    def fields(self, outcome: RunResult, cycles: int, shares: list[int], common: CommonFigures) -> dict[str, Any]:
        """Return the fields of the figures from the cycles of all and those that each core worked."""
        # the function lies before what calls it
        rows = function_accounts(outcome, self.kernel.function, int(self.kernel.function.pcs[0]))
        return kernel_figures(self, rows, cycles, common) | {
            "banks": self.cluster.banks,
            "arbiter": self.cluster.arbiter,
            "placement": self.clustered.placement,
            "l2_latency": self.machine.l2_latency,
            "icache": self.cluster.icache_private,
            "shares": shares,
            "barrier": cycles * len(shares) - sum(shares),
            "stalls_by_core": [stalls_of(account, devices=True) for account in rows],
        }


class TiledWork(ClusterWork):
    """A layer in tiles, its operands in the memory outside."""

    def __init__(self, case: ClusterCase, tensors: LayerTensors, program: TiledProgram) -> None:
        super().__init__(case, tensors, program.run)
        self.tiled = program

    @property
    def executable(self) -> Executable:
        """The program as the runner takes it."""
        return self.clustered.executable(self.tiled)

    def memory(self, outcome: RunResult) -> NDArray[np.uint8]:
        """Return the memory outside after a run."""
        return image_after(outcome, self.tiled.run.image)

    def figures(self, outcome: RunResult, compared: list[Compared], common: CommonFigures) -> TiledFigures:
        """Return the figures, those of the tiles among them."""
        times = self.tiled.times(outcome.memory[TCDM_BASE], self.memory(outcome))
        cycles = int(times[-1, 0, READY] - times[0, 0, RELEASED])
        working = np.array([step.work is not None for step in self.tiled.steps])
        shares = (times[:, :, DONE] - times[:, :, BEGIN])[working].sum(axis=0).tolist()
        tiling = tiling_figures(self.tiled, outcome, times)
        return TiledFigures(**self.fields(outcome, cycles, shares, common), tiling=tiling)
