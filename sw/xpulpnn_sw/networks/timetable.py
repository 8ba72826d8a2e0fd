"""The steps of a network on a cluster from barrier to barrier, and the lifetime of each piece of memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.networks.deployment import DeployedStep, first_step, last_step, report_slots
from xpulpnn_sw.networks.kernels import ARGUMENTS, buffer_of, input_pieces, length, map_bytes, weight_bytes
from xpulpnn_sw.networks.lifetimes import Piece, results_name, weights_name
from xpulpnn_sw.networks.network import Network
from xpulpnn_sw.networks.residence import Maps, Residence
from xpulpnn_sw.networks.tiled_layer import TiledLayer

# when filters are fetched: while the layer with filters before is computed, while the layer before is, or between the
# layers. Maps know the last two.
SOONEST, BEFORE, BETWEEN = range(3)

# names and bytes of what is needed all the time, with room for the reports of so many steps
Fixed = Callable[[int], Mapping[str, int]]


@dataclass(slots=True)
class FetchChoices:
    """Choices that may change where memory is short."""

    filters: list[int]  # when those of each layer are fetched
    # when a map is fetched for a layer, unless while the layer before is computed
    maps: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    # maps that are fetched for a layer although they have been in the memory before
    away: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    # results that are stored before the next layer begins, not while it is computed
    at_once: set[str] = field(default_factory=set[str])
    budgets: dict[int, int] = field(default_factory=dict[int, int])  # bytes for the layers in tiles


def steps_of(
    network: Network, runs: Sequence[KernelRun], maps: Maps, tiled: Mapping[int, TiledLayer], choices: FetchChoices
) -> tuple[DeployedStep, ...]:
    """Input and first filters, the layers, the results; between them what can come no sooner.

    What a layer leaves is stored, if it must be, while the next one is computed.
    """
    during, between = _fetches(network, runs, maps, tiled, choices)
    contents = {one.name: one.content for one in maps.residences}
    steps = [DeployedStep(loads=(ARGUMENTS, *during[-1]))]
    waiting: tuple[str, ...] = ()
    for number, stage in enumerate(network.stages):
        needed = {contents.get(name, name) for name in between[number]}
        if number in tiled:
            needed |= {name for (layer, _), name in maps.inputs.items() if layer == number}
        if needed & {*waiting}:
            steps.append(DeployedStep(stores=waiting))
            waiting = ()
        if between[number]:
            steps.append(DeployedStep(loads=tuple(between[number]), stores=waiting))
            waiting = ()
        last = len(tiled[number].steps) - 1 if number in tiled else 0
        for part in range(last + 1):
            tile, loads = (part if number in tiled else None), (tuple(during[number]) if part == last else ())
            steps.append(DeployedStep(layer=number, tile=tile, loads=loads, stores=waiting))
            waiting = ()
        if results_name(stage.name) in maps.stored:
            waiting = (results_name(stage.name),)
        if results_name(stage.name) in choices.at_once:
            steps.append(DeployedStep(stores=waiting))
            waiting = ()
    return (*steps, DeployedStep(stores=waiting)) if waiting else tuple(steps)


def _fetches(
    network: Network, runs: Sequence[KernelRun], maps: Maps, tiled: Mapping[int, TiledLayer], choices: FetchChoices
) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """Return the pieces fetched during a layer, -1 for before the first, and the pieces fetched between two layers."""
    during: dict[int, list[str]] = {number: [] for number in range(-1, len(runs))}
    between: dict[int, list[str]] = {number: [] for number in range(len(runs))}
    writers = {results_name(stage.name): number for number, stage in enumerate(network.stages)}
    for one in maps.residences:
        if one.writer is not None:
            continue
        reader = one.readers[0]
        is_late = choices.maps.get((one.content, reader), BEFORE) == BETWEEN
        if reader and (is_late or reader - 1 < _outside_from(one, writers, tiled)):
            between[reader].append(one.name)
        else:
            during[reader - 1].append(one.name)
    before = -1
    for number, run in enumerate(runs):
        if not weight_bytes(run):
            continue
        if number not in tiled:
            name, when = weights_name(network.stages[number].name), choices.filters[number]
            if when == BETWEEN and number:
                between[number].append(name)
            else:
                during[before if when == SOONEST else number - 1].append(name)
        before = number
    return during, between


def _outside_from(one: Residence, writers: Mapping[str, int], tiled: Mapping[int, TiledLayer]) -> int:
    """The first layer during whose last step a map can be fetched."""
    if one.content not in writers:
        return -1
    writer = writers[one.content]
    # results leave while the next layer is computed, or have left with the last tile
    return writer + 1 if writer in tiled else writer + 2


def pieces_of(
    network: Network,
    runs: Sequence[KernelRun],
    maps: Maps,
    tiled: Mapping[int, TiledLayer],
    steps: Sequence[DeployedStep],
    fixed: Fixed,
) -> tuple[Piece, ...]:
    """Return the pieces of memory of the cluster and the steps that need them."""
    last = len(steps) - 1
    loaded = {name: number for number, step in enumerate(steps) for name in step.loads}
    stored = {name: number for number, step in enumerate(steps) for name in step.stores}
    # the argument structures of all layers that are computed as a whole
    words = sum(length(run, ARGUMENTS) for number, run in enumerate(runs) if number not in tiled)
    always = {ARGUMENTS: words, **fixed(report_slots(len(steps), is_tiled=bool(tiled)))}
    pieces = [Piece(name=name, size=size, first=0, last=last) for name, size in always.items()]
    sizes = {name: content.nbytes for name, (content, _) in input_pieces(network, runs).items()}
    written = map_bytes(network, runs)
    sizes |= {results_name(stage.name): written[stage.name] for stage in network.stages}
    for one in maps.residences:
        first = loaded[one.name] if one.writer is None else first_step(steps, one.writer)
        ends = [first, stored.get(one.name, first), *(last_step(steps, reader) for reader in one.readers)]
        pieces.append(Piece(name=one.name, size=sizes[one.content], first=first, last=max(ends)))
    for number, (run, stage) in enumerate(zip(runs, network.stages, strict=True)):
        first, after = first_step(steps, number), last_step(steps, number)
        if number in tiled:
            pieces += [Piece(name=name, size=size, first=first, last=after) for name, size in tiled[number].pieces()]
            continue
        if (name := weights_name(stage.name)) in loaded:
            pieces.append(Piece(name=name, size=weight_bytes(run), first=loaded[name], last=after))
        if (shared := buffer_of(run)) is not None:
            pieces.append(Piece(name=f"{stage.name}.{shared}", size=length(run, shared), first=first, last=after))
    return tuple(pieces)
