"""Runs kernels on a cluster, with operands in the TCDM or in tiles, and measures computations and transfers."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import InputError, LayerError
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn_sim.cosimulation.model.machine import hart_ids
from xpulpnn_sim.cosimulation.model.session import RunResult, stalls_of
from xpulpnn_sim.cosimulation.workloads import workload
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, KernelWork, case_kernel, case_tensors, kernel_work
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.programs.elf import Executable, require_fitting
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.programs.bare import BareClusterProgram, cluster_program
from xpulpnn_sw.kernels.programs.tiled import TIMES, TiledProgram, Tiling, tiled_program
from xpulpnn_sw.kernels.tensors import LayerTensors
from xpulpnn_sw.kernels.tiling.plan import TileStep
from xpulpnn_sw.kernels.variants import Variant

ENGINE = "cluster"  # field `engine` of a record

RELEASED, BEGIN, DONE, READY = range(len(TIMES))  # indices of the times in the report of a core


def tiling_figures(program: TiledProgram, outcome: RunResult, times: NDArray[np.int64]) -> dict[str, Any]:
    """Return the record of a layer in tiles, from the times that the cores report at the barriers between the steps."""
    plan = program.plan
    steps = [
        _step(program, number, step, times, moving_cycles(outcome, times[number, 0, RELEASED], step_end(times, number)))
        for number, step in enumerate(program.steps)
    ]
    loaded, stored = (sum(sizes) for sizes in zip(*program.moved, strict=True))
    moving = sum(step["moving"] for step in steps)
    return {
        "tiles": len(plan.tiles),
        "rows": len(program.division.rows_of(plan.tiles[0])),  # output rows and channels of a tile
        "channels": plan.channels,
        "unit": program.division.unit,  # of rows: `pixels` if the input has one row for each
        "order": "channels" if plan.channels_first else "rows",  # of the outer loop over tiles
        "overlap": plan.overlap,  # whether transfers and computation overlap
        "tcdm_bytes": len(program.data),
        "tcdm": [{"name": name, "address": at.address, "bytes": at.length} for name, at in program.places.items()],
        "loaded": loaded,  # bytes
        "stored": stored,
        "moving": moving,  # cycles with DMA transfers, with all cores waiting for them, with computation
        "waiting": sum(step["waiting"] for step in steps),
        "computing": sum(step["computed"] - step["begin"] for step in steps if step["tile"] is not None),
        "bytes_per_cycle": round((loaded + stored) / max(moving, 1), 4),
        "steps": steps,
    }


def moving_cycles(outcome: RunResult, begin: int, end: int) -> int:
    first, last = (outcome.activities[name].astype(np.int64) for name in ("first", "last"))
    return int(np.maximum(np.minimum(last + 1, end) - np.maximum(first, begin), 0).sum())


def step_end(times: NDArray[np.int64], number: int) -> int:
    return int(times[number + 1, 0, RELEASED] if number + 1 < len(times) else times[number, 0, READY])


def _step(program: TiledProgram, number: int, step: TileStep, times: NDArray[np.int64], moving: int) -> dict[str, Any]:
    own, start = times[number], times[0, 0, RELEASED]
    tile = step.work.tile if step.work else None
    rows, channels = (program.division.rows_of(tile), tile.channels) if tile else (None, None)
    computed = int((own[:, DONE] if tile else own[:, BEGIN]).max() - start)
    end = int(own[0, READY] - start)
    loaded, stored = program.moved[number]
    return {
        "tile": step.work.number if step.work else None,
        "rows": [rows.start, rows.stop] if rows else [],  # stop is exclusive
        "channels": [channels.start, channels.stop] if channels else [],
        "begin": int(own[0, RELEASED] - start),  # when the barrier opened
        "computed": computed,  # when the last core had finished its share
        "end": max(computed, end),  # when the transfers were complete as well
        "compute": int((own[:, DONE] - own[:, BEGIN]).mean()) if tile else 0,  # cycles of a core, on average
        "waiting": max(end - computed, 0),  # cycles that all cores waited for the DMA engine
        "loaded": loaded,
        "stored": stored,
        "moving": moving,
    }


def cluster_of(case: Case) -> ClusterConfig:
    assert isinstance(case.config, ClusterConfig)
    return case.config


def check_cluster_case(case: Case) -> None:
    case.check()
    cluster, kernel = cluster_of(case), case_kernel(case, case_tensors(case))
    program = tiles_of(case, kernel) or cluster_program(kernel, cluster.cores)
    hart_ids(cluster, case.machine)
    require_fitting(cluster_executable(case, program), cluster, case.machine.ram)


def tiles_of(case: Case, kernel: KernelRun) -> TiledProgram | None:
    """Return the program that computes the layer in tiles, or None if tiles are neither requested nor needed. Raises
    :class:`LayerError` if the layer needs tiles and cannot be divided."""
    cluster = cluster_of(case)
    if case.tiling is None:
        needed = len(cluster_program(kernel, cluster.cores).data)
        if needed <= cluster.tcdm_bytes:
            return None
        if not cluster.dma or not isinstance(kernel.variant, Variant):
            raise LayerError(
                f"operands, buffers and stacks must be at most the TCDM's {cluster.tcdm_bytes} bytes, "
                f"not {needed} of {case.name}{'' if cluster.dma else ' without DMA'}"
            )
    elif not cluster.dma:
        raise InputError("dma of the cluster must be true for tiles, not false")
    tiling = case.tiling or Tiling()
    return tiled_program(kernel, cluster.cores, cluster.tcdm_bytes, tiling, specialise=case.specialise)


def cluster_executable(case: Case, program: BareClusterProgram | TiledProgram) -> Executable:
    return workload.executable_of(program, case.name, [program.run.image] if isinstance(program, TiledProgram) else [])


def run_kernel(case: Case, engine: str = "stream", progress: workload.Progress | None = None) -> workload.Result:
    """Run a case on its core with the given engine, or on its cluster, in tiles if they are requested or needed.

    With instruction caches a kernel without tiles runs twice, and the cycles of the first pass are subtracted.
    ``cycles`` count from barrier to barrier; with tiles from the first DMA command to the last result in L2.
    """
    return work_of(case, engine).run(progress)


def work_of(case: Case, engine: str) -> KernelWork:
    if not isinstance(case.config, ClusterConfig):
        return kernel_work(case, engine)
    tensors = case_tensors(case)
    kernel = case_kernel(case, tensors)
    tiles = tiles_of(case, kernel)
    return ClusterWork(case, tensors, kernel) if tiles is None else TiledWork(case, tensors, tiles)


class ClusterKernel(KernelWork):
    engine = ENGINE

    @abstractmethod
    def span(self, outcome: RunResult) -> tuple[int, int]: ...

    @abstractmethod
    def shares(self, outcome: RunResult) -> list[int]:
        """Return the working cycles of each core."""

    def figures(self, outcome: RunResult, compared: Sequence[workload.Comparison]) -> dict[str, Any]:
        # the account starts with the function
        rows = workload.function_cycles(outcome, self.kernel.function, int(self.kernel.function.pcs[0]))
        begin, end = self.span(outcome)
        cluster, cycles, shares = cluster_of(self.case), end - begin, self.shares(outcome)
        return self.kernel_figures(rows, cycles) | {
            "banks": cluster.banks,
            "arbiter": cluster.arbiter,
            "placement": self.case.placement,
            "l2_latency": self.machine.l2_latency,
            "icache": cluster.icache_private,
            "shares": shares,
            "barrier": cycles * len(shares) - sum(shares),  # cycles that cores waited for the last one
            "stalls_by_core": [stalls_of(account, devices=True) for account in rows],
        }


class ClusterWork(ClusterKernel):
    def __init__(self, case: Case, tensors: LayerTensors, kernel: KernelRun) -> None:
        # instruction caches are warm in the second pass
        self.cached = cluster_of(case).icache_private > 0
        self.program = cluster_program(kernel, case.config.cores, passes=1 + self.cached)
        super().__init__(case, tensors, kernel, cluster_executable(case, self.program))

    def memory(self, outcome: RunResult) -> NDArray[np.uint8]:
        return outcome.memory[TCDM_BASE]

    def figures(self, outcome: RunResult, compared: Sequence[workload.Comparison]) -> dict[str, Any]:
        if self.cached and outcome.exit.ok:
            once = cluster_executable(self.case, cluster_program(self.kernel, self.config.cores))
            first = run_program(once, self.config, self.machine, account=True)
            outcome.accounts = [both - cold for both, cold in zip(outcome.accounts, first.accounts, strict=True)]
        return super().figures(outcome, compared)

    def span(self, outcome: RunResult) -> tuple[int, int]:
        return self.program.span(self.memory(outcome))

    def shares(self, outcome: RunResult) -> list[int]:
        return self.program.shares(self.memory(outcome))


class TiledWork(ClusterKernel):
    def __init__(self, case: Case, tensors: LayerTensors, tiles: TiledProgram) -> None:
        self.tiled = tiles
        super().__init__(case, tensors, tiles.run, cluster_executable(case, tiles))

    def memory(self, outcome: RunResult) -> NDArray[np.uint8]:
        return workload.image_after(outcome, self.tiled.run.image)

    def figures(self, outcome: RunResult, compared: Sequence[workload.Comparison]) -> dict[str, Any]:
        return super().figures(outcome, compared) | {
            "tiling": tiling_figures(self.tiled, outcome, self._times(outcome))
        }

    def span(self, outcome: RunResult) -> tuple[int, int]:
        times = self._times(outcome)
        return int(times[0, 0, RELEASED]), int(times[-1, 0, READY])

    def shares(self, outcome: RunResult) -> list[int]:
        times, working = self._times(outcome), [step.work is not None for step in self.tiled.steps]
        return (times[:, :, DONE] - times[:, :, BEGIN])[working].sum(axis=0).tolist()

    def _times(self, outcome: RunResult) -> NDArray[np.int64]:
        return self.tiled.times(outcome.memory[TCDM_BASE], self.memory(outcome))
