"""A layer larger than the memory of a cluster, in tiles: run, check, and what was computed and moved when."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn_sim.harness.cluster_run import ClusterCase, ClusterFigures, cluster_figures, run_cluster_case
from xpulpnn_sim.harness.kernel_run import Result, case_tensors, wrong_results
from xpulpnn_sim.harness.machine import Memory
from xpulpnn_sim.harness.program_run import run_program
from xpulpnn_sim.harness.session import RunResult
from xpulpnn_sw.programs.tiled import TIMES, TiledProgram
from xpulpnn_sw.tiling.geometry import rows_of, unit_of
from xpulpnn_sw.tiling.schedule import Step

_RELEASED, _BEGIN, _DONE, _READY = range(len(TIMES))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceFigures:
    """A piece of the TCDM."""

    name: str
    address: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFigures:
    """What happened between two barriers; cycles count from the first one."""

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
    """How a layer was divided, and what came of it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledFigures(ClusterFigures):
    """Figures of a case in tiles, under the names of its JSON record.

    ``cycles`` are those from the first command of the DMA engine until all results are in the memory outside.
    """

    tiling: TilingFigures


def run_case_on_cluster(case: ClusterCase) -> Result:
    """Run a case and check it, in tiles if they are asked for or needed."""
    tensors = case_tensors(case.case)
    kernel = case.kernel(tensors)
    program = case.tiles(kernel, tensors)
    if program is None:
        return run_cluster_case(case)
    machine = case.case.machine
    outcome = run_program(case.executable(program), case.cluster, machine, check=case.case.checked, account=True)
    image = program.run.image
    outside = np.frombuffer(Memory(outcome.memory).read(image.base, image.data.size), np.uint8)
    wrong = wrong_results(program.run, outside, case.case, tensors)
    reports = [text for text in (outcome.difference, wrong[1] if wrong else None) if text]
    if not outcome.exit.ok:
        reports.append(outcome.exit.text)
    mismatches = outcome.mismatches + (wrong[0] if wrong else 0)
    times = program.times(outcome.memory[TCDM_BASE], outside)
    begin = times[0, 0, _RELEASED]
    working = np.array([step.work is not None for step in program.steps])
    shares = (times[:, :, _DONE] - times[:, :, _BEGIN])[working].sum(axis=0)
    common = cluster_figures(
        case,
        program.run,
        outcome,
        int(times[-1, 0, _READY] - begin),
        shares.tolist(),
        mismatches if outcome.exit.ok else max(mismatches, 1),
    )
    figures = TiledFigures(
        **{item.name: getattr(common, item.name) for item in fields(common)}, tiling=_tiling(program, outcome, times)
    )
    return Result(figures=figures, reports=reports, mismatch_position=outcome.mismatch_position)


def _tiling(program: TiledProgram, outcome: RunResult, times: NDArray[np.int64]) -> TilingFigures:
    """The figures of the tiles, from the reports of the cores."""
    plan = program.plan
    steps = [
        _step(program, number, step, times, _overlaps(outcome, times, number))
        for number, step in enumerate(program.steps)
    ]
    loaded, stored = (sum(sizes) for sizes in zip(*program.moved, strict=True))
    moving = sum(step.moving for step in steps)
    return TilingFigures(
        tiles=len(plan.tiles),
        rows=len(rows_of(program.run, plan.tiles[0])),
        channels=plan.channels,
        unit=unit_of(program.run),
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


def _overlaps(outcome: RunResult, times: NDArray[np.int64], number: int) -> int:
    """Cycles of a step in which the DMA engine was moving data."""
    first = times[number, 0, _RELEASED]
    after = times[number + 1, 0, _RELEASED] if number + 1 < len(times) else times[number, 0, _READY]
    begins, ends = (outcome.activities[name].astype(np.int64) for name in ("first", "last"))
    return int(np.maximum(np.minimum(ends + 1, after) - np.maximum(begins, first), 0).sum())


def _step(program: TiledProgram, number: int, step: Step, times: NDArray[np.int64], moving: int) -> StepFigures:
    own, start = times[number], times[0, 0, _RELEASED]
    tile = step.work.tile if step.work else None
    computed = int((own[:, _DONE] if tile else own[:, _BEGIN]).max() - start)
    end = int(own[0, _READY] - start)
    loaded, stored = program.moved[number]
    return StepFigures(
        tile=step.work.number if step.work else None,
        rows=_ends(rows_of(program.run, tile)) if tile else [],
        channels=_ends(tile.channels) if tile else [],
        begin=int(own[0, _RELEASED] - start),
        computed=computed,
        end=max(computed, end),
        compute=int((own[:, _DONE] - own[:, _BEGIN]).mean()) if tile else 0,
        waiting=max(end - computed, 0),
        loaded=loaded,
        stored=stored,
        moving=moving,
    )


def _ends(numbers: range) -> list[int]:
    return [numbers.start, numbers.stop]
