"""Memory of a network that is a C program: maps, buffers and, on a cluster, weights, each for the time it is needed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.networks.deployment import (
    Piece,
    PlannedMemory,
    arranged,
    buffer_name,
    results_name,
    weights_name,
)
from xpulpnn_sw.networks.kernels import buffer_of, edges, input_pieces, length, map_bytes, weight_bytes
from xpulpnn_sw.networks.network import Network

_USED = ("", "weights", "buffer")  # what names of pieces end in, from those used least on; of maps in anything
_ANYTIME = -1  # of a layer whose weights are where they are


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """A layer and a load between two barriers."""

    layer: int | None = None  # number of the layer that is computed
    load: int | None = None  # number of the layer whose weights are brought meanwhile


@dataclass(frozen=True, eq=False, kw_only=True)
class MemoryPlan(PlannedMemory):
    """Memory of every layer over time."""

    steps: tuple[PlanStep, ...]  # what happens one after the other
    outside: PlannedMemory = field(default_factory=PlannedMemory)  # maps and buffers for which there is no room in it
    left: tuple[int, ...] = ()  # numbers of the layers whose weights stay outside for want of room

    @property
    def record(self) -> dict[str, Any]:
        """The plan for machines."""
        steps = [
            {"layer": step.layer, "load": step.load, "bytes": self.demand(number)}
            for number, step in enumerate(self.steps)
        ]
        return {
            "bytes": self.extent,
            "outside_bytes": self.outside.extent,
            "steps": steps,
            "pieces": _records(self),
            "outside": _records(self.outside),
            "weights_outside": list(self.left),
        }


def _records(memory: PlannedMemory) -> list[dict[str, Any]]:
    return [
        {"name": one.name, "offset": memory.places[one.name], "bytes": one.size, "first": one.first, "last": one.last}
        for one in memory.pieces
    ]


def planned_memory(network: Network, runs: Sequence[KernelRun], memory: int | None = None) -> MemoryPlan:
    """The plan for layers with these kernels."""
    outside: set[str] = set()
    weighted = [number for number, run in enumerate(runs) if weight_bytes(run)]
    # weights come during the layer with weights before; before the first 0, as for those of it
    soonest = dict.fromkeys(range(len(runs)), _ANYTIME) | dict(zip(weighted, [0, *weighted], strict=False))
    while True:
        left = [number for number, stage in enumerate(network.stages) if weights_name(stage.name) in outside]
        loads = [_ANYTIME if memory is None or number in left else soonest[number] for number in range(len(runs))]
        while True:
            steps = _steps(loads, is_brought=memory is not None)
            pieces = tuple(_pieces(network, runs, steps))
            inside = arranged(piece for piece in pieces if piece.name not in outside)
            found = MemoryPlan(steps=steps, pieces=inside.pieces, places=inside.places, left=tuple(left))
            late = None if memory is None or found.extent <= memory else _later(network, found, loads)
            if late is None:
                break
            loads[late] += 1
        if memory is None or found.extent <= memory:
            return replace(found, outside=arranged(piece for piece in pieces if piece.name in outside))
        outside.add(_least_used(found, memory))


def _steps(loads: Sequence[int], *, is_brought: bool) -> tuple[PlanStep, ...]:
    """A step for each layer, and one before it for weights that come during no other; ``loads`` says when they do.

    Where the input ``is_brought``, it comes in a step before all layers.
    """
    during = {when: number for number, when in enumerate(loads) if when not in (_ANYTIME, number)}
    steps: list[PlanStep] = []
    for number, when in enumerate(loads):
        if when == number:
            steps.append(PlanStep(load=number))
        elif is_brought and not steps:
            steps.append(PlanStep())
        steps.append(PlanStep(layer=number, load=during.get(number)))
    return tuple(steps)


def _pieces(network: Network, runs: Sequence[KernelRun], steps: Sequence[PlanStep]) -> Iterator[Piece]:
    computed = [number for number, step in enumerate(steps) if step.layer is not None]
    loaded = {step.load: number for number, step in enumerate(steps) if step.load is not None}
    for name, (words, readers) in input_pieces(network, runs).items():
        last = max(computed[edge.reader] for edge in readers)
        yield Piece(name=name, size=words.nbytes, first=0, last=last)
    sizes = map_bytes(network, runs)
    last_use = {stage.name: computed[-1] for stage in network.stages[-1:]}
    for edge in edges(network, runs):
        last_use[edge.source] = computed[edge.reader]
    for number, (stage, run) in enumerate(zip(network.stages, runs, strict=True)):
        here = computed[number]
        yield Piece(name=results_name(stage.name), size=sizes[stage.name], first=here, last=last_use[stage.name])
        buffer = buffer_of(run)
        if buffer is not None:
            yield Piece(name=buffer_name(stage.name), size=length(run, buffer), first=here, last=here)
        if number in loaded:
            yield Piece(name=weights_name(stage.name), size=weight_bytes(run), first=loaded[number], last=here)


def _later(network: Network, found: MemoryPlan, loads: Sequence[int]) -> int | None:
    """The layer whose weights come too early where most memory is needed; None: all come as late as they can."""
    pieces = {piece.name: piece for piece in found.pieces}
    early = {
        number: pieces[weights_name(network.stages[number].name)]
        for number, when in enumerate(loads)
        if when not in (_ANYTIME, number)
    }
    for step in sorted(range(len(found.steps)), key=found.demand, reverse=True):
        for number, piece in early.items():
            if piece.first <= step < piece.last:
                return number
    return None


def _least_used(found: MemoryPlan, memory: int) -> str:
    """The piece to have outside, out of those needed when most memory is.

    Maps are used less than weights, and these less than buffers, which are written and read for every pixel. The
    smallest of its kind that makes room enough, or the largest where none does; no buffer unless there is nothing else.
    """
    most = max(range(len(found.steps)), key=found.demand)
    missing = max(found.demand(most), found.extent if found.demand(most) <= memory else 0) - memory
    kinds: list[list[Piece]] = [[], [], []]
    for piece in found.pieces:
        if piece.first <= most <= piece.last:
            ending = piece.name.rpartition(".")[2]
            kinds[_USED.index(ending) if ending in _USED else 0].append(piece)
    for kind in kinds[:-1]:
        enough = [piece for piece in kind if piece.size >= missing]
        if enough:
            return min(enough, key=lambda piece: piece.size).name
    others = [*kinds[0], *kinds[1]] or kinds[2]
    return max(others, key=lambda piece: piece.size).name
