"""Memory of a network on a cluster: operands outside, addresses inside, and the transfers between them."""

from collections.abc import Iterator

import numpy as np

from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import Words
from xpulpnn_sw.kernels.tiling.division import DmaTransfer, LayerAddresses, OutsideMemory, PlacedLayer
from xpulpnn_sw.networks.deployment import (
    CALL_SLOTS,
    CALLS,
    DeployedStep,
    Deployment,
    TiledLayer,
    results_name,
    weights_name,
)
from xpulpnn_sw.networks.kernels import (
    ARGUMENTS,
    OUTPUT,
    buffer_of,
    input_pieces,
    inputs_of,
    length,
    map_bytes,
    own_symbols,
    structure,
)

REPORTS = "reports"  # piece of memory with readings of mcycle
_SYS_WRITE, _STDOUT = 64, 1


class DeployedMemory:
    """Puts what is outside into place, from the address ``base`` on."""

    def __init__(self, plan: Deployment, base: int, report_bytes: int) -> None:
        self._plan, self.report_bytes = plan, report_bytes
        self.inside = {name: TCDM_BASE + offset for name, offset in plan.places.items()}
        self.outside = OutsideMemory(base)
        self.tohost = self.outside.place("tohost", bytes(WORD_BYTES))
        if self.has_stored_reports:
            self.outside.place(REPORTS, bytes((len(plan.steps) - 1) * report_bytes))
        self._contents = {one.name: one.content for one in plan.maps.residences}
        self._place_maps()
        self._arguments: dict[int, int] = {}
        self._tiles: dict[int, PlacedLayer] = {}
        self.functions: list[Words] = []
        self._place_layers()
        self.calls = [self._call(number) for number in range(len(plan.runs) - 1)]

    def _place_maps(self) -> None:
        """The input, and room for maps that are outside for a while or at the end."""
        plan = self._plan
        for name, (words, _) in input_pieces(plan.network, plan.runs).items():
            self.outside.place(name, words.astype("<u4").tobytes())
        sizes = map_bytes(plan.network, plan.runs)
        for number, stage in enumerate(plan.network.stages):
            if results_name(stage.name) in plan.maps.stored or number in plan.tiled:
                self.outside.place(results_name(stage.name), bytes(sizes[stage.name]))

    def _place_layers(self) -> None:
        words: list[int] = []
        for number, (stage, run) in enumerate(zip(self._plan.network.stages, self._plan.runs, strict=True)):
            if number in self._plan.tiled:
                self.functions.append(self._in_tiles(number, self._plan.tiled[number]))
                continue
            self.functions.append(run.function.words)
            if own_symbols(run):
                content = b"".join(run.image.view(one).tobytes() for one in own_symbols(run))
                self.outside.place(weights_name(stage.name), content)
            self._arguments[number] = self.inside[ARGUMENTS] + len(words) * WORD_BYTES
            words += structure(run, self._symbols(number, run))
        self.outside.place(ARGUMENTS, np.array(words, "<u4").tobytes())

    def _symbols(self, number: int, run: KernelRun) -> dict[str, int]:
        stage, maps = self._plan.network.stages[number], self._plan.maps
        places = {symbol: self.inside[name] for (reader, symbol), name in maps.inputs.items() if reader == number}
        places[OUTPUT] = self.inside[results_name(stage.name)]
        at = self.inside.get(weights_name(stage.name), 0)
        for one in own_symbols(run):
            places[one] = at
            at += length(run, one)
        if (shared := buffer_of(run)) is not None:
            places[shared] = self.inside[f"{stage.name}.{shared}"]
        return places

    def _in_tiles(self, number: int, layer: TiledLayer) -> Words:
        """Filters and argument structures of a layer in tiles, and its function."""
        stage, symbols = self._plan.network.stages[number], self.outside.symbols
        sources = [self._plan.maps.inputs[number, symbol] for symbol in inputs_of(layer.division.run)]
        addresses = LayerAddresses(
            sources=tuple(symbols[source].address for source in sources),
            output=symbols[results_name(stage.name)].address,
            buffers={
                operand: tuple(self.inside[layer.buffer(operand, slot)] for slot in range(count))
                for operand, (count, _) in layer.plan.buffers.items()
            },
            buffer=None if layer.shared is None else self.inside[layer.shared],
        )
        placed = self._tiles[number] = layer.division.place(f"{layer.name}.", self.outside, layer.plan, addresses)
        calls = [placed.arguments(step.work.tile, step.work.slots) for step in layer.steps if step.work]
        fields = layer.division.run.structure.fields
        content = np.zeros((len(calls), layer.call_bytes // WORD_BYTES), "<u4")
        for row, values in zip(content, calls, strict=True):
            row[: len(fields)] = [values[field.name] & WORD_MASK for field in fields]
        self.outside.place(f"{layer.name}.{CALLS}", content.tobytes())
        return layer.division.function(calls)

    def _call(self, layer: int) -> int:
        stage, run = self._plan.network.stages[layer], self._plan.runs[layer]
        name = results_name(stage.name)
        at = self.outside.symbols[name].address if layer in self._plan.tiled else self.inside[name]
        block = (_SYS_WRITE, _STDOUT, at, length(run, OUTPUT))
        return self.outside.place(f"{stage.name}.call", np.array(block, "<u8").tobytes())

    def arguments(self, step: DeployedStep) -> int:
        """Address of the argument structure of what the cores compute in a step."""
        assert step.layer is not None
        tile = self._plan.tile_step(step)
        if tile is None or tile.work is None:
            return self._arguments[step.layer]
        return self.inside[self._plan.tiled[step.layer].call(tile.work.number % CALL_SLOTS)]

    def transfers(self) -> Iterator[tuple[DmaTransfer, ...]]:
        """Operands and results that are moved in each step."""
        for step in self._plan.steps:
            tile, found = self._plan.tile_step(step), list[DmaTransfer]()
            if tile is not None and step.layer is not None:
                found += [one for move in tile.moves for one in self._tiles[step.layer].transfers(move)]
            found += [self._whole(name, inwards=name in step.loads) for name in (*step.loads, *step.stores)]
            yield tuple(found)

    def _whole(self, name: str, *, inwards: bool) -> DmaTransfer:
        symbol = self.outside.symbols[self._contents.get(name, name)]
        return DmaTransfer(inside=self.inside[name], outside=symbol.address, line=symbol.length, inwards=inwards)

    def upkeep(self) -> Iterator[tuple[DmaTransfer, ...]]:
        """Yield the transfers of each step besides: reports of the step before, the arguments of the next tile."""
        steps = self._plan.steps
        for number, step in enumerate(steps):
            moves: list[DmaTransfer] = []
            if number and self.has_stored_reports:
                outside = self.outside.symbols[REPORTS].address + (number - 1) * self.report_bytes
                inside = self.report(number - 1)
                moves.append(DmaTransfer(inside=inside, outside=outside, line=self.report_bytes, inwards=False))
            layer = None if step.layer is None else self._plan.tiled.get(step.layer)
            following = None if layer is None or step.tile is None else layer.fetched_call(step.tile)
            if layer is not None and following is not None:
                calls = self.outside.symbols[f"{layer.name}.{CALLS}"].address
                moves.append(
                    DmaTransfer(
                        inside=self.inside[layer.call(following % CALL_SLOTS)],
                        outside=calls + following * layer.call_bytes,
                        line=layer.call_bytes,
                        inwards=True,
                    )
                )
            yield tuple(moves)

    @property
    def has_stored_reports(self) -> bool:
        """Tell whether reports are stored outside, all but the last."""
        return self._plan.report_slots < len(self._plan.steps)

    def report(self, step: int) -> int:
        """Address in the cluster of what the cores report of a step."""
        return self.inside[REPORTS] + step % self._plan.report_slots * self.report_bytes
