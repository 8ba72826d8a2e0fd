"""Planner of a network's deployment in the TCDM of a cluster.

If a step needs too much memory, the planner first fetches filters and maps later, then spills maps that the step's
layer does not need, then tiles the layer, with smaller and smaller tiles.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sw.kernels.kernel import ARGUMENTS, STACK_BYTES, STACK_STRIDE, KernelRun
from xpulpnn_sw.kernels.programs.tiled import TILE_STACK_BYTES, TIMES
from xpulpnn_sw.kernels.tiling.transfer import aligned
from xpulpnn_sw.layers.layer import DepthwiseLayer
from xpulpnn_sw.networks.deployment import (
    DeployedStep,
    Deployment,
    MapPlacement,
    Piece,
    PlannedMemory,
    Residence,
    TiledLayer,
    arrange,
    first_step,
    last_step,
    place_maps,
    report_slots,
    results_name,
    tiled_layer,
    weights_name,
)
from xpulpnn_sw.networks.kernels import input_pieces, map_bytes
from xpulpnn_sw.networks.network import Network

# when filters are fetched: during the previous layer with filters, during the previous layer, or between the layers
SOONEST, BEFORE, BETWEEN = range(3)
STACKS, REPORTS = "stacks", "reports"  # pieces of memory for the whole run; reports are readings of mcycle
STACK_DISTANCE = STACK_STRIDE - STACK_BYTES + TILE_STACK_BYTES  # bytes between stacks of cores
REPORT_BYTES = len(TIMES) * WORD_BYTES  # for each core and step
_ALWAYS = {ARGUMENTS, STACKS, REPORTS}

_SHRINKING = 7 / 8  # factor of the memory of tiles that find no room


@dataclass(eq=False)
class Planner:
    """Plans a deployment, and changes steps that need too much memory until the plan fits into TCDM."""

    _network: Network
    _variants: Sequence[str]
    _runs: tuple[KernelRun, ...]
    _cores: int
    _memory: int  # bytes of the TCDM
    # maps, and layers before which they are fetched instead of during the layer before
    _late_maps: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    # maps that are spilled, and layers for which they are fetched again
    _spilled: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    # results that are stored before the next layer instead of during it
    _stored_at_once: set[str] = field(default_factory=set[str])
    _budgets: dict[int, int] = field(default_factory=dict[int, int])
    _tiled: dict[int, TiledLayer] = field(default_factory=dict[int, TiledLayer])
    _general: dict[tuple[int, int], KernelRun] = field(default_factory=dict[tuple[int, int], KernelRun])
    _refused: LayerError | None = None

    def __post_init__(self) -> None:
        self._fetch_times = [SOONEST for _ in self._runs]

    def deploy(self) -> Deployment:
        while True:
            plan = self._plan()
            if max(map(plan.demand, range(len(plan.steps)))) <= self._memory:
                plan = replace(plan, offsets=arrange(plan.pieces).offsets)
                if plan.extent <= self._memory:
                    return plan
            if not self._relieve(plan):
                raise self._refused or LayerError(_memory_message(plan, self._memory))

    def _plan(self) -> Deployment:
        network, runs, tiled = self._network, self._runs, dict(self._tiled)
        maps = place_maps(network, runs, tiled.keys(), self._spilled)
        steps = self.steps(maps)
        pieces = self.pieces(maps, steps)
        return Deployment(network=network, runs=runs, maps=maps, tiled=tiled, steps=steps, pieces=pieces)

    def _relieve(self, plan: Deployment) -> bool:
        self._refused = None
        by_demand = sorted(range(len(plan.steps)), key=plan.demand, reverse=True)
        short = [step for step in by_demand if plan.demand(step) > self._memory] or by_demand
        # tiling alone helps steps whose own data do not fit
        alone = [step for step in short if self._own_bytes(plan, step) > self._memory]
        return any(self._tile(plan, step) for step in alone) or any(
            self._delay_fetch(plan, step) or self._spill(plan, step) or self._tile(plan, step) for step in short
        )

    def _layer(self, plan: Deployment, step: int) -> int | None:
        return next((later.layer for later in plan.steps[step:] if later.layer is not None), None)

    def _own_bytes(self, plan: Deployment, step: int) -> int:
        layer = plan.steps[step].layer
        if layer is None or layer in plan.tiled:
            return 0
        stage, run = plan.network.stages[layer], plan.runs[layer]
        inputs = {name for (reader, _), name in plan.maps.inputs.items() if reader == layer}
        names = {weights_name(stage.name), f"{stage.name}.{run.buffer}", results_name(stage.name), *inputs}
        return PlannedMemory(pieces=tuple(piece for piece in plan.pieces if piece.name in names | _ALWAYS)).demand(step)

    def _delay_fetch(self, plan: Deployment, step: int) -> bool:
        pieces = {piece.name: piece for piece in plan.pieces}
        waiting: list[tuple[int, int, Residence | None]] = []
        for number, stage in enumerate(plan.network.stages):
            own = pieces.get(weights_name(stage.name))
            if own and self._fetch_times[number] < BETWEEN and own.first <= step < first_step(plan.steps, number):
                waiting.append((own.size, number, None))
        for residence in plan.maps.residences:
            reader, own = (residence.readers or [0])[0], pieces[residence.name]
            is_late = (residence.content, reader) in self._late_maps
            if residence.writer is None and not is_late and own.first <= step < first_step(plan.steps, reader):
                waiting.append((own.size, reader, residence))
        if not waiting:
            return False
        _, number, late_map = max(waiting, key=lambda candidate: candidate[:2])
        if late_map is None:
            self._fetch_times[number] += 1
        else:
            self._late_maps.add((late_map.content, number))
        return True

    def _spill(self, plan: Deployment, step: int) -> bool:
        pieces = {piece.name: piece for piece in plan.pieces}
        current = self._layer(plan, step)
        candidates: list[tuple[int, Residence, int]] = []
        for residence in plan.maps.residences:
            own = pieces[residence.name]
            later = [reader for reader in residence.readers if first_step(plan.steps, reader) > step]
            uses = {residence.writer, *residence.readers}
            if own.first < step <= own.last and later and current not in uses and later[0] != current:
                candidates.append((own.size, residence, later[0]))
        if not candidates:
            return False
        _, residence, reader = max(candidates, key=lambda candidate: candidate[0])
        self._spilled.add((residence.content, reader))
        if residence.writer is not None and first_step(plan.steps, residence.writer) + 1 == step:
            self._stored_at_once.add(residence.content)
        if current is not None and reader - 1 <= current:
            self._late_maps.add((residence.content, reader))
        return True

    def _tile(self, plan: Deployment, step: int) -> bool:
        layer = self._layer(plan, step)
        if layer is None:
            return False
        stage = self._network.stages[layer]
        always = sum(aligned(piece.size) for piece in plan.pieces if piece.name in _ALWAYS)
        budget, is_smaller = self._memory, layer in self._tiled
        if is_smaller:
            budget = min(int(self._budgets[layer] * _SHRINKING), self._tiled[layer].plan.bytes - 1)
        refused: LayerError | None = None
        # fewer cores need smaller buffers; filters or maps are read from main memory if nothing else helps
        counts = [self._cores >> bits for bits in range(self._cores.bit_length())]
        for direct, cores in product((False, True), counts):
            try:
                run = self._kernel(layer, cores)
                self._tiled[layer] = tiled_layer(stage, run, cores, budget, always, direct=direct)
                self._budgets[layer] = budget
                return True
            except LayerError as error:
                refused = error
        self._refused = self._refused if is_smaller else refused
        return False

    def _kernel(self, layer: int, cores: int) -> KernelRun:
        if (layer, cores) not in self._general:
            stage = self._network.stages[layer]
            own = (stage.layer, stage.precision, self._variants[layer], stage.tensors)
            specialise = not stage.multiplies or isinstance(stage.layer, DepthwiseLayer)
            self._general[layer, cores] = stage.kind.build(*own, cores=cores, specialise=specialise)
        return self._general[layer, cores]

    def steps(self, maps: MapPlacement) -> tuple[DeployedStep, ...]:
        """Return the steps of a plan; the results of a layer are stored to main memory during the step after it."""
        tiled, (during, between) = self._tiled, self._fetches(maps)
        contents = {residence.name: residence.content for residence in maps.residences}
        steps: list[DeployedStep] = []
        waiting: tuple[str, ...] = ()

        def add(layer: int | None = None, loads: Sequence[str] = (), tile: int | None = None) -> None:
            nonlocal waiting
            steps.append(DeployedStep(layer=layer, loads=tuple(loads), stores=waiting, tile=tile))
            waiting = ()

        add(loads=(ARGUMENTS, *during[-1]))
        for number, stage in enumerate(self._network.stages):
            needed = {contents.get(name, name) for name in between[number]}
            if number in tiled:
                needed |= {name for (layer, _), name in maps.inputs.items() if layer == number}
            if needed & {*waiting}:
                add()
            if between[number]:
                add(loads=between[number])
            last = len(tiled[number].steps) - 1 if number in tiled else 0
            for part in range(last + 1):
                add(number, during[number] if part == last else (), part if number in tiled else None)
            if results_name(stage.name) in maps.stored:
                waiting = (results_name(stage.name),)
            if results_name(stage.name) in self._stored_at_once:
                add()
        if waiting:
            add()
        return tuple(steps)

    def _fetches(self, maps: MapPlacement) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
        network, runs, tiled = self._network, self._runs, self._tiled
        during: dict[int, list[str]] = {number: [] for number in range(-1, len(runs))}
        between: dict[int, list[str]] = {number: [] for number in range(len(runs))}
        writers = {results_name(stage.name): number for number, stage in enumerate(network.stages)}
        for residence in maps.residences:
            if residence.writer is not None:
                continue
            reader = residence.readers[0]
            is_late = (residence.content, reader) in self._late_maps
            writer = writers.get(residence.content, -2)
            # results are stored during the next layer, or with the last tile
            ready = writer + 1 if writer in tiled else writer + 2 if writer >= 0 else -1
            if reader and (is_late or reader - 1 < ready):
                between[reader].append(residence.name)
            else:
                during[reader - 1].append(residence.name)
        before = -1
        for number, run in enumerate(runs):
            if not run.weight_bytes:
                continue
            if number not in tiled:
                name, when = weights_name(network.stages[number].name), self._fetch_times[number]
                if when == BETWEEN and number:
                    between[number].append(name)
                else:
                    during[before if when == SOONEST else number - 1].append(name)
            before = number
        return during, between

    def pieces(self, maps: MapPlacement, steps: Sequence[DeployedStep]) -> tuple[Piece, ...]:
        network, runs, tiled, last = self._network, self._runs, self._tiled, len(steps) - 1
        loaded = {name: number for number, step in enumerate(steps) for name in step.loads}
        stored = {name: number for number, step in enumerate(steps) for name in step.stores}
        # argument structures of all layers that are not tiled
        words = sum(run.length(ARGUMENTS) for number, run in enumerate(runs) if number not in tiled)
        reports = self._cores * REPORT_BYTES * report_slots(len(steps), is_tiled=bool(tiled))
        always = {ARGUMENTS: words, STACKS: self._cores * STACK_DISTANCE, REPORTS: reports}
        pieces = [Piece(name=name, size=size, first=0, last=last) for name, size in always.items()]
        sizes = {name: content.nbytes for name, (content, _) in input_pieces(network, runs).items()}
        written = map_bytes(network, runs)
        sizes |= {results_name(stage.name): written[stage.name] for stage in network.stages}
        for residence in maps.residences:
            first = loaded[residence.name] if residence.writer is None else first_step(steps, residence.writer)
            ends = [first, stored.get(residence.name, first), *(last_step(steps, at) for at in residence.readers)]
            pieces.append(Piece(name=residence.name, size=sizes[residence.content], first=first, last=max(ends)))
        for number, (run, stage) in enumerate(zip(runs, network.stages, strict=True)):
            first, after = first_step(steps, number), last_step(steps, number)
            if number in tiled:
                pieces += [Piece(name=name, size=own, first=first, last=after) for name, own in tiled[number].pieces()]
                continue
            if (name := weights_name(stage.name)) in loaded:
                pieces.append(Piece(name=name, size=run.weight_bytes, first=loaded[name], last=after))
            if (shared := run.buffer) is not None:
                pieces.append(Piece(name=f"{stage.name}.{shared}", size=run.length(shared), first=first, last=after))
        return tuple(pieces)


def _memory_message(plan: Deployment, memory: int) -> str:
    work = [number for number, step in enumerate(plan.steps) if step.layer is not None]
    most = max(work, key=plan.demand)
    layer = plan.steps[most].layer
    assert layer is not None
    needed = max(plan.demand(most), plan.extent if plan.offsets else 0)
    parts = [f"{piece.name} {piece.size}" for piece in plan.pieces if piece.first <= most <= piece.last]
    return (
        f"operands, buffers and stacks must be at most the TCDM's {memory} bytes, not {needed} in "
        f"{plan.network.stages[layer].name}: {', '.join(parts)}"
    )
