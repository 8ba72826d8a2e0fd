"""Figures of programs that the DMA engine feeds: tiles of a layer, and what was computed and moved when."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sim.cosimulation.model.session import RunResult
from xpulpnn_sw.kernels.programs.tiled import TIMES, TiledProgram
from xpulpnn_sw.kernels.tiling.plan import TileStep

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
