"""Planning of a network in the memory of a cluster: as it is if it fits, else with less there at a time.

Where too much is needed, filters and maps are fetched later; then maps that a layer does not need leave for a while;
then the layer is computed in tiles, which become smaller until there is room.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.kernels.tiling.plan import aligned
from xpulpnn_sw.networks.deployment import Deployment, first_step
from xpulpnn_sw.networks.kernels import ARGUMENTS, buffer_of, kernels
from xpulpnn_sw.networks.lifetimes import arranged, demand, results_name, weights_name
from xpulpnn_sw.networks.network import Network
from xpulpnn_sw.networks.residence import Residence, located
from xpulpnn_sw.networks.tiled_layer import TiledLayer, can_be_tiled, tiled_layer
from xpulpnn_sw.networks.timetable import BEFORE, BETWEEN, FetchChoices, Fixed, pieces_of, steps_of

_SHRINKING = 7 / 8  # part of their memory that tiles are left with if they find no room


def deployed(
    network: Network, image: Ints, variants: Sequence[str], *, cores: int, memory: int, fixed: Fixed
) -> Deployment:
    """The network for an input, each layer by a variant, on ``cores`` cores with ``memory`` bytes.

    ``fixed`` has the bytes of what is needed all the time. Raises :class:`LayerError` for layers that do not fit
    together, or into the memory.
    """
    return _Planner(network, image, variants, cores, memory, fixed).found()


class _Planner:
    """Tries, and changes what memory is short for."""

    def __init__(
        self, network: Network, image: Ints, variants: Sequence[str], cores: int, memory: int, fixed: Fixed
    ) -> None:
        self._network, self._variants, self._cores = network, variants, cores
        self._memory, self._fixed = memory, fixed
        self._runs = kernels(network, image, variants, cores=cores)
        self._choices = FetchChoices([0 for _ in self._runs])
        self._tiled: dict[int, TiledLayer] = {}
        self._general: dict[tuple[int, int], KernelRun] = {}
        self._always = {ARGUMENTS, *fixed(1)}
        self._refused: LayerError | None = None

    def found(self) -> Deployment:
        """The first attempt that fits."""
        while True:
            plan = self._plan()
            # places are looked for only where there may be room
            if max(map(plan.demand, range(len(plan.steps)))) <= self._memory:
                plan = replace(plan, places=arranged(plan.pieces))
                if plan.extent <= self._memory:
                    return plan
            if not self._relieved(plan):
                raise self._refused or LayerError(_too_much(plan, self._memory))

    def _plan(self) -> Deployment:
        network, runs, tiled = self._network, self._runs, dict(self._tiled)
        maps = located(network, runs, tiled.keys(), self._choices.away)
        steps = steps_of(network, runs, maps, tiled, self._choices)
        pieces = pieces_of(network, runs, maps, tiled, steps, self._fixed)
        return Deployment(
            network=network,
            runs=runs,
            maps=maps,
            tiled=tiled,
            steps=steps,
            pieces=pieces,
            places={},
        )

    def _relieved(self, plan: Deployment) -> bool:
        """Change something about where most is needed; False if there is nothing left to change."""
        self._refused = None
        by_demand = sorted(range(len(plan.steps)), key=plan.demand, reverse=True)
        short = [step for step in by_demand if plan.demand(step) > self._memory] or by_demand
        # one that needs too much by itself is no better off without what others have there
        alone = [step for step in short if self._own(plan, step) > self._memory]
        return any(self._divided(plan, step) for step in alone) or any(
            self._delayed(plan, step) or self._sent_away(plan, step) or self._divided(plan, step) for step in short
        )

    def _layer(self, plan: Deployment, step: int) -> int | None:
        return next((one.layer for one in plan.steps[step:] if one.layer is not None), None)

    def _own(self, plan: Deployment, step: int) -> int:
        """Bytes that a step needs whatever else there is."""
        layer = plan.steps[step].layer
        if layer is None or layer in plan.tiled:
            return 0
        stage, run = plan.network.stages[layer], plan.runs[layer]
        inputs = {name for (reader, _), name in plan.maps.inputs.items() if reader == layer}
        names = {weights_name(stage.name), f"{stage.name}.{buffer_of(run)}", results_name(stage.name), *inputs}
        used = [one for one in plan.pieces if one.name in names or one.name in self._always]
        return demand(used, step)

    def _delayed(self, plan: Deployment, step: int) -> bool:
        """Fetch later what is there too soon: the largest."""
        pieces = {one.name: one for one in plan.pieces}
        waiting: list[tuple[int, int, Residence | None]] = []
        for number, stage in enumerate(plan.network.stages):
            own = pieces.get(weights_name(stage.name))
            # filters that only this step fetches need memory nowhere else
            if own and self._choices.filters[number] < BETWEEN and own.first <= step < first_step(plan.steps, number):
                waiting.append((own.size, number, None))
        for one in plan.maps.residences:
            reader, own = (one.readers or [0])[0], pieces[one.name]
            level = self._choices.maps.get((one.content, reader), BEFORE)
            if one.writer is None and level < BETWEEN and own.first <= step < first_step(plan.steps, reader):
                waiting.append((own.size, reader, one))
        if not waiting:
            return False
        _, number, found = max(waiting, key=lambda one: one[:2])
        if found is None:
            self._choices.filters[number] += 1
        else:
            self._choices.maps[found.content, number] = BETWEEN
        return True

    def _sent_away(self, plan: Deployment, step: int) -> bool:
        """Let a map leave that the layer does not need: the largest."""
        pieces = {one.name: one for one in plan.pieces}
        here = self._layer(plan, step)
        candidates: list[tuple[int, Residence, int]] = []
        for one in plan.maps.residences:
            own = pieces[one.name]
            later = [reader for reader in one.readers if first_step(plan.steps, reader) > step]
            uses = {one.writer, *one.readers}
            if own.first < step <= own.last and later and here not in uses and later[0] != here:
                candidates.append((own.size, one, later[0]))
        if not candidates:
            return False
        _, one, reader = max(candidates, key=lambda one: one[0])
        self._choices.away.add((one.content, reader))
        if one.writer is not None and first_step(plan.steps, one.writer) + 1 == step:
            self._choices.at_once.add(one.content)
        if here is not None and reader - 1 <= here:
            self._choices.maps[one.content, reader] = BETWEEN
        return True

    def _divided(self, plan: Deployment, step: int) -> bool:
        """Compute the layer in tiles, or in smaller ones."""
        layer = self._layer(plan, step)
        if layer is None or not can_be_tiled(self._runs[layer]):
            return False
        stage = self._network.stages[layer]
        always = sum(aligned(one.size) for one in plan.pieces if one.name in self._always)
        budget, is_smaller = self._memory, layer in self._tiled
        if is_smaller:
            budget = min(int(self._choices.budgets[layer] * _SHRINKING), self._tiled[layer].plan.bytes - 1)
        refused: LayerError | None = None
        for cores in _fewer(self._cores):
            try:
                self._tiled[layer] = tiled_layer(stage, self._kernel(layer, cores), cores, budget, always)
            except LayerError as error:
                refused = error
                continue
            self._choices.budgets[layer] = budget
            return True
        self._refused = self._refused if is_smaller else refused
        return False

    def _kernel(self, layer: int, cores: int) -> KernelRun:
        """A kernel for tiles of any size, with buffers for so many cores."""
        if (layer, cores) not in self._general:
            stage = self._network.stages[layer]
            self._general[layer, cores] = stage.kind.build(
                stage.layer, stage.precision, self._variants[layer], stage.tensors, cores=cores
            )
        return self._general[layer, cores]


def _fewer(cores: int) -> Iterator[int]:
    """All cores, and fewer of them, whose buffers take less."""
    while cores:
        yield cores
        cores //= 2


def _too_much(found: Deployment, memory: int) -> str:
    """Return the memory that each layer needs, and its purpose."""
    work = [number for number, step in enumerate(found.steps) if step.layer is not None]
    most = max(work, key=found.demand)
    layer = found.steps[most].layer
    assert layer is not None
    needed = max(found.demand(most), found.extent if found.places else 0)
    parts = [f"{one.name} {one.size}" for one in found.pieces if one.first <= most <= one.last]
    return (
        f"operands, buffers and stacks must be at most the TCDM's {memory} bytes, not {needed} in "
        f"{found.network.stages[layer].name}: {', '.join(parts)}"
    )
