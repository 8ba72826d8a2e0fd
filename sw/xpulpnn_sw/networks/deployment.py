"""A network in the memory of a cluster: what is there when, and what the DMA engine brings and takes.

Step by step the cores compute a layer while the DMA engine fetches filters that are needed later. Memory belongs to a
piece of data only as long as that is needed. Input, filters and results of the network are in the memory outside.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.layout import Ints
from xpulpnn_sw.networks.kernels import ARGUMENTS, INPUT, OUTPUT, SHARED, kernels, length, weight_bytes
from xpulpnn_sw.networks.lifetimes import Piece, arranged, demand, extent
from xpulpnn_sw.networks.network import Network, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedStep:
    """What happens between two barriers.

    Parameters
    ----------
    layer : int or None
        Number of the layer that is computed.
    loads, stores : tuple of str
        Pieces of memory that are filled from outside meanwhile, or stored there.
    """

    layer: int | None = None
    loads: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Deployment:
    """Where everything is when.

    Parameters
    ----------
    network : Network
        The layers.
    runs : tuple of KernelRun
        Their kernels.
    steps : tuple of DeployedStep
        What happens when.
    pieces : tuple of Piece
        What needs memory of the cluster in which of the steps.
    places : dict of str to int
        Where, from the beginning of that memory on.
    """

    network: Network
    runs: tuple[KernelRun, ...]
    steps: tuple[DeployedStep, ...]
    pieces: tuple[Piece, ...]
    places: dict[str, int]

    @property
    def extent(self) -> int:
        """Bytes of the memory in use."""
        return extent(self.pieces, self.places)

    def demand(self, step: int) -> int:
        """Bytes that are needed in a step."""
        return demand(self.pieces, step)


def weights_of(stage: Stage) -> str:
    """Name of the piece with the filters of a layer and what goes with them."""
    return f"{stage.name}.weights"


def results_of(stage: Stage) -> str:
    """Name of the piece with the results of a layer."""
    return f"{stage.name}.output"


def deployed(
    network: Network, image: Ints, variants: Sequence[str], *, cores: int, memory: int, fixed: dict[str, int]
) -> Deployment:
    """The network for an input, each layer by a variant, on ``cores`` cores with ``memory`` bytes.

    ``fixed`` has the bytes of what is needed all the time. Filters are fetched while the layer with filters before is
    computed; if there is no room for them yet, during the layer before; if there is none either, between the layers.
    Raises :class:`LayerError` for layers that do not fit together, or into the memory.
    """
    runs = kernels(network, image, variants, cores=cores)
    delays = [0 for _ in runs]
    while True:
        steps = _steps(runs, network.stages, delays)
        pieces = _pieces(runs, network.stages, steps, fixed)
        places = arranged(pieces)
        found = Deployment(network=network, runs=runs, steps=steps, pieces=pieces, places=places)
        if found.extent <= memory:
            return found
        late = _later(found, delays)
        if late is None:
            raise LayerError(_too_much(found, memory))
        delays[late] += 1


_SOONEST, _BEFORE, _BETWEEN = range(3)
"""When filters are fetched: see :func:`deployed`."""


def _later(found: Deployment, delays: Sequence[int]) -> int | None:
    """The layer whose filters, the largest there too soon where most memory is needed, had better come later."""
    size = {piece.name: piece for piece in found.pieces}
    by_demand = sorted(range(len(found.steps)), key=found.demand, reverse=True)
    for step in by_demand:
        waiting = [
            (piece.size, number)
            for number, stage in enumerate(found.network.stages)
            if delays[number] < _BETWEEN and (piece := size.get(weights_of(stage))) is not None
            # filters that only this step fetches need memory nowhere else
            if piece.first <= step and _step_of(found.steps, number) > step
        ]
        if waiting:
            return max(waiting)[1]
    return None


def _step_of(steps: Sequence[DeployedStep], layer: int) -> int:
    return next(number for number, step in enumerate(steps) if step.layer == layer)


def _steps(runs: Sequence[KernelRun], stages: Sequence[Stage], delays: Sequence[int]) -> tuple[DeployedStep, ...]:
    """Input and first filters, the layers, the results; between them filters that can come no sooner."""
    with_weights = [number for number, run in enumerate(runs) if weight_bytes(run)]
    during: dict[int, list[str]] = {number: [] for number in range(-1, len(runs))}
    between: dict[int, list[str]] = {}
    before = -1
    for number in with_weights:
        name = weights_of(stages[number])
        if number == 0 or delays[number] == _SOONEST:
            during[before if number else -1].append(name)
        elif delays[number] == _BEFORE:
            during[number - 1].append(name)
        else:
            between[number] = [name]
        before = number
    steps = [DeployedStep(loads=(ARGUMENTS, INPUT, *during[-1]))]
    for number in range(len(runs)):
        if number in between:
            steps.append(DeployedStep(loads=tuple(between[number])))
        steps.append(DeployedStep(layer=number, loads=tuple(during[number])))
    return (*steps, DeployedStep(stores=(results_of(stages[-1]),)))


def _pieces(
    runs: Sequence[KernelRun], stages: Sequence[Stage], steps: Sequence[DeployedStep], fixed: dict[str, int]
) -> tuple[Piece, ...]:
    last = len(steps) - 1
    loaded = {name: number for number, step in enumerate(steps) for name in step.loads}
    # the argument structures of all layers
    words = {ARGUMENTS: sum(length(run, ARGUMENTS) for run in runs), **fixed}
    pieces = [Piece(name=name, size=size, first=0, last=last) for name, size in words.items()]
    used = [_step_of(steps, number) for number in range(len(runs))]
    pieces.append(Piece(name=INPUT, size=length(runs[0], INPUT), first=0, last=used[0]))
    for number, (run, stage) in enumerate(zip(runs, stages, strict=True)):
        here, after = used[number], used[number + 1] if number + 1 < len(runs) else last
        if weights_of(stage) in loaded:
            name = weights_of(stage)
            pieces.append(Piece(name=name, size=weight_bytes(run), first=loaded[name], last=here))
        if length(run, SHARED):
            pieces.append(Piece(name=f"{stage.name}.{SHARED}", size=length(run, SHARED), first=here, last=here))
        # kernels read ahead, as far as their inputs have words to spare
        needed = max(length(run, OUTPUT), length(runs[number + 1], INPUT) if number + 1 < len(runs) else 0)
        pieces.append(Piece(name=results_of(stage), size=needed, first=here, last=after))
    return tuple(pieces)


def _too_much(found: Deployment, memory: int) -> str:
    """Which layer needs how much, and what for."""
    work = [number for number, step in enumerate(found.steps) if step.layer is not None]
    most = max(work, key=found.demand)
    layer = found.steps[most].layer
    assert layer is not None
    needed = max(found.demand(most), found.extent if found.demand(most) <= memory else 0)
    parts = [f"{one.name} {one.size}" for one in found.pieces if one.first <= most <= one.last]
    return (
        f"operands, buffers and stacks must be at most the TCDM's {memory} bytes, not {needed} in "
        f"{found.network.stages[layer].name}: {', '.join(parts)}"
    )
