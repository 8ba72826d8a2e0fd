"""Memory of a network that is a C program: maps, buffers and, on a cluster, weights, each for the time it is needed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.networks.kernels import buffer_of, edges, input_pieces, length, map_bytes, weight_bytes
from xpulpnn_sw.networks.lifetimes import Piece, arranged, demand, extent
from xpulpnn_sw.networks.network import Network

_ANYTIME = -1
"""Of a layer whose weights are where they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """What happens between two barriers.

    Parameters
    ----------
    layer : int or None
        Number of the layer that is computed.
    load : int or None
        Number of the layer whose weights are brought meanwhile.
    """

    layer: int | None = None
    load: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class MemoryPlan:
    """Where everything is when.

    Parameters
    ----------
    steps : tuple of PlanStep
        What happens one after the other.
    pieces : tuple of Piece
        What needs memory in which of the steps.
    places : dict of str to int
        Where, in bytes from the beginning of that memory on.
    """

    steps: tuple[PlanStep, ...]
    pieces: tuple[Piece, ...]
    places: dict[str, int]

    @property
    def extent(self) -> int:
        """Bytes of the memory in use."""
        return extent(self.pieces, self.places)

    def demand(self, step: int) -> int:
        """Bytes that are needed in a step."""
        return demand(self.pieces, step)

    @property
    def record(self) -> dict[str, Any]:
        """The plan for machines."""
        return {
            "bytes": self.extent,
            "steps": [
                {"layer": step.layer, "load": step.load, "bytes": self.demand(number)}
                for number, step in enumerate(self.steps)
            ],
            "pieces": [
                {
                    "name": piece.name,
                    "offset": self.places[piece.name],
                    "bytes": piece.size,
                    "first": piece.first,
                    "last": piece.last,
                }
                for piece in self.pieces
            ],
        }


def results_name(layer: str) -> str:
    """The piece with the results of a layer."""
    return f"{layer}.output"


def buffer_name(layer: str) -> str:
    """The piece with the buffers that a layer needs while it is computed."""
    return f"{layer}.buffer"


def weights_name(layer: str) -> str:
    """The piece with the weights of a layer and what goes with them."""
    return f"{layer}.weights"


def planned(network: Network, runs: Sequence[KernelRun], memory: int | None = None) -> MemoryPlan:
    """The plan for layers with these kernels.

    Parameters
    ----------
    network : Network
        The layers.
    runs : sequence of KernelRun
        Their kernels.
    memory : int, optional
        Bytes of the memory of a cluster, into which weights are brought while the layer with weights before is
        computed; where there is no room for them yet, during a later layer, at last between the layers. Without it
        there is one memory, and weights stay where they are.

    Raises
    ------
    LayerError
        Layers that do not fit into the memory of a cluster.
    """
    loads = [_soonest(runs, number) if memory is not None else _ANYTIME for number in range(len(runs))]
    while True:
        steps = _steps(loads, is_brought=memory is not None)
        pieces = tuple(_pieces(network, runs, steps))
        found = MemoryPlan(steps=steps, pieces=pieces, places=arranged(pieces))
        if memory is None or found.extent <= memory:
            return found
        late = _later(network, found, loads)
        if late is None:
            raise LayerError(_too_much(network, found, memory))
        loads[late] += 1


def _soonest(runs: Sequence[KernelRun], number: int) -> int:
    """The layer during which weights come: the one with weights before; before the first 0, as for those of it."""
    if not weight_bytes(runs[number]):
        return _ANYTIME
    before = [other for other in range(number) if weight_bytes(runs[other])]
    return before[-1] if before else 0


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


def _too_much(network: Network, found: MemoryPlan, memory: int) -> str:
    """Which layer needs how much, and what for."""
    most = max((number for number, step in enumerate(found.steps) if step.layer is not None), key=found.demand)
    layer = found.steps[most].layer
    assert layer is not None
    needed = max(found.demand(most), found.extent if found.demand(most) <= memory else 0)
    parts = [f"{one.name} {one.size}" for one in found.pieces if one.first <= most <= one.last]
    return (
        f"maps, buffers and weights must be at most the {memory} bytes of TCDM beside the stacks, not {needed} in "
        f"{network.stages[layer].name}: {', '.join(parts)}"
    )
