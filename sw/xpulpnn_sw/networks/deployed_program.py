"""Program that computes a network on a cluster: core 0 programs the DMA engine, the cores compute layers together."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import LayerError
from xpulpnn.isa.cluster import ICACHE_LINE_BYTES, TCDM_BASE, Dma
from xpulpnn.isa.machine import TEXT_BASE, WORD_BYTES
from xpulpnn.isa.table import find
from xpulpnn_sw.assembly.asm import assemble
from xpulpnn_sw.kernels.frame import STACK_ALIGNMENT
from xpulpnn_sw.kernels.kernel import ARGUMENTS, OUTPUT, KernelRun
from xpulpnn_sw.kernels.layout import Image, ImageBuilder, Ints, OutputLayout, Symbol, Words
from xpulpnn_sw.kernels.programs.bare import CLUSTER_ADDRESSES, BareProgram
from xpulpnn_sw.kernels.programs.tiled import (
    CORE_START,
    OUTSIDE_DATA,
    STEP_LOOP,
    TILE_STACK_BYTES,
    TIMES,
    description,
    description_offsets,
)
from xpulpnn_sw.kernels.tiling.plan import PlacedLayer
from xpulpnn_sw.kernels.tiling.transfer import DMA_ALIGNMENT, DmaTransfer, command_words
from xpulpnn_sw.networks.deployment import (
    CALL_SLOTS,
    CALLS,
    DeployedStep,
    Deployment,
    TiledLayer,
    last_step,
    results_name,
    weights_name,
)
from xpulpnn_sw.networks.kernels import input_pieces, kernels, map_bytes
from xpulpnn_sw.networks.network import Network
from xpulpnn_sw.networks.planning import REPORT_BYTES, REPORTS, STACK_DISTANCE, STACKS, Planner

_SYS_WRITE, _STDOUT = 64, 1
_NOISE = 0xA5  # initial contents of TCDM: nothing may rely on zeros
_NOP = find("addi").encode(rd=0, rs1=0, imm12=0)
_START = (
    CORE_START
    + """\
    li t1, {report_bytes}; mul t1, t1, s2; li s5, {reports}; add s5, s5, t1; li s7, {dma}; bne s2, zero, step0
    li t1, {team}; sw t1, {target}(gp); sw t1, {trigger}(gp)
"""
)
"""Start code of all cores. The barrier also counts cores that arrive before core 0 has set its masks."""

_STEP = """
step{number}:
    p.elw t0, {barrier}(gp)
released{number}:
    csrr s9, mcycle; bne s2, zero, work{number}
    {tell}
    {commands}
work{number}:
    csrr s10, mcycle
    {work}
    csrr s11, mcycle; bne s2, zero, arrived{number}
    {wait}
arrived{number}:
    csrr t1, mcycle; sw s9, 0(s5); sw s10, 4(s5); sw s11, 8(s5); sw t1, 12(s5)
    {advance}
"""
"""Code of a step between two barriers. Core 0 reports the results of the previous layer to the host, which reads them
at once, starts DMA transfers, computes its part of the layer, and waits for the transfers."""

_CALL_KERNEL = "li a0, {arguments}; mv a1, s2; li a2, {cores}; jal ra, kernel{layer}"
_WAIT = """
    li t0, 1; sll t0, t0, s8
wait{number}:
    lw t1, {status}(s7); and t1, t1, t0; bne t1, zero, wait{number}; sw t0, {status}(s7)
"""
_REPORT = "li t0, {tohost}; li t1, {value}; sw t1, 0(t0)"
_END = """
step{number}:
    p.elw t0, {barrier}(gp)
released{number}:
    bne s2, zero, sleep; {tell}
sleep:
    sw zero, {mask}(gp); p.elw t0, {wait_event}(gp); j sleep
"""


@dataclass(frozen=True, eq=False, kw_only=True)
class DeployedProgram(BareProgram):
    """Memory contents and addresses of a network's program; the cores write the times of each step to ``cycles``."""

    deployment: Deployment
    outside: Image  # main memory: operands, results, the words of the host
    # results of the layers, each at the beginning of an image of its own
    outputs: tuple[OutputLayout, ...]
    transfers: tuple[tuple[DmaTransfer, ...], ...]
    # addresses of the first instruction of each step, after its opening barrier, and of the end of the last step
    starts: tuple[int, ...]
    kernels: tuple[int, ...]  # addresses of the functions of the layers, and their end
    cores: int

    def times(self, inside: NDArray[np.uint8], outside: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the times of all steps, ``[step][core][time]`` in the order of ``TIMES``, from both memories."""
        steps, slots, size = len(self.deployment.steps), self.deployment.report_slots, self.cores * REPORT_BYTES
        first = self.cycles - self.data_base
        reports = inside[first : first + slots * size]
        if slots < steps:
            last = reports[(steps - 1) % slots * size :][:size]
            reports = np.append(self.outside.view(REPORTS, outside), last)
        return reports.view("<u4").astype(np.int64).reshape(steps, self.cores, len(TIMES))

    def results(self, stdout: bytes) -> list[NDArray[np.int64]]:
        """Return, from the output of a run, the results of all layers except the last; missing bytes count as 0."""
        results: list[NDArray[np.int64]] = []
        for run, output in zip(self.deployment.runs[:-1], self.outputs, strict=False):
            size = run.length(OUTPUT)
            results.append(_decoded(output, stdout[:size].ljust(size, b"\0")))
            stdout = stdout[size:]
        return results

    def final(self, stored: bytes) -> NDArray[np.int64]:
        return _decoded(self.outputs[-1], stored)


def _decoded(output: OutputLayout, content: bytes) -> NDArray[np.int64]:
    data = np.frombuffer(content, np.uint8)
    return output.decode(Image(0, data, {output.symbol: Symbol(0, data.size)}), data)


def deployed_program(
    network: Network, image: Ints, variants: Sequence[str], *, cores: int, memory: int
) -> DeployedProgram:
    """Build the program of a network for a cluster; raises :class:`LayerError` for a network that does not fit."""
    plan = Planner(network, variants, kernels(network, image, variants, cores=cores), cores, memory).deploy()
    places = _Memory(plan, cores * REPORT_BYTES)
    transfers = tuple(tuple(places.transfers(step)) for step in plan.steps)
    moved = [(*own, *places.upkeep(number, plan.steps[number])) for number, own in enumerate(transfers)]
    starts = np.cumsum([TEXT_BASE, *(words.nbytes for words in places.functions)]).tolist()
    caller = assemble(_text(plan, places, cores, starts, moved), starts[-1])
    text = b"".join(words.astype("<u4").tobytes() for words in places.functions) + caller.to_bytes()
    if len(text) > (most := OUTSIDE_DATA - TEXT_BASE):
        raise LayerError(f"code of {network.name} must be at most {most} bytes, not {len(text)}")
    outputs = (
        replace(run.output, symbol=results_name(own.name)) for run, own in zip(plan.runs, network.stages, strict=True)
    )
    labels = (caller.labels[f"released{number}"] for number in range(len(plan.steps) + 1))
    data: dict[str, Any] = {"data_base": TCDM_BASE, "data": bytes([_NOISE]) * plan.extent, "deployment": plan}
    data |= {"tohost": places.tohost, "cycles": places.inside[REPORTS], "outside": places.finish(starts)}
    code: dict[str, Any] = {"entry": caller.labels["start"], "text_base": TEXT_BASE, "text": text, "cores": cores}
    code |= {"starts": tuple(labels), "kernels": tuple(starts), "transfers": transfers}
    return DeployedProgram(**code, **data, outputs=tuple(outputs))


def _in_lines(words: Words) -> Words:
    return np.pad(words, (0, -len(words) % (ICACHE_LINE_BYTES // WORD_BYTES)), constant_values=_NOP)


class _Memory:
    def __init__(self, plan: Deployment, report_bytes: int) -> None:
        network, runs = plan.network, plan.runs
        self._plan, self._report_bytes = plan, report_bytes
        self.inside = {name: TCDM_BASE + offset for name, offset in plan.offsets.items()}
        self.outside = ImageBuilder(OUTSIDE_DATA, DMA_ALIGNMENT)
        self.tohost = self.outside.place("tohost", bytes(WORD_BYTES))
        # with fewer slots than steps, all reports but the last are stored to main memory
        self._stores_reports = plan.report_slots < len(plan.steps)
        if self._stores_reports:
            self.outside.place(REPORTS, bytes((len(plan.steps) - 1) * report_bytes))
        for name, (words, _) in input_pieces(network, runs).items():
            self.outside.place(name, words.astype("<u4").tobytes())
        sizes = map_bytes(network, runs)
        for number, stage in enumerate(network.stages):
            if results_name(stage.name) in plan.maps.stored or number in plan.tiled:
                self.outside.place(results_name(stage.name), bytes(sizes[stage.name]))
        self.arguments: dict[int, int] = {}
        self._tiles: dict[int, PlacedLayer] = {}
        # offsets of the functions of tiles in the code of their layer
        self._offsets: dict[tuple[int, Hashable], int] = {}
        self.functions = [*self._place_layers()]
        self.calls = [self._call(number) for number in range(len(runs) - 1)]

    def _place_layers(self) -> Iterator[Words]:
        words: list[int] = []
        for number, (stage, run) in enumerate(zip(self._plan.network.stages, self._plan.runs, strict=True)):
            if number in self._plan.tiled:
                yield self._in_tiles(number, self._plan.tiled[number])
                continue
            if run.own_symbols:
                content = b"".join(run.image.view(symbol).tobytes() for symbol in run.own_symbols)
                self.outside.place(weights_name(stage.name), content)
            self.arguments[number] = self.inside[ARGUMENTS] + len(words) * WORD_BYTES
            words += run.relocated_arguments(self._symbols(number, run))
            yield _in_lines(run.function.words)
        self.outside.place(ARGUMENTS, np.array(words, "<u4").tobytes())

    def _symbols(self, number: int, run: KernelRun) -> dict[str, int]:
        stage, maps = self._plan.network.stages[number], self._plan.maps
        places = {symbol: self.inside[name] for (reader, symbol), name in maps.inputs.items() if reader == number}
        places[OUTPUT] = self.inside[results_name(stage.name)]
        at = self.inside.get(weights_name(stage.name), 0)
        for symbol in run.own_symbols:
            places[symbol] = at
            at += run.length(symbol)
        if (shared := run.buffer) is not None:
            places[shared] = self.inside[f"{stage.name}.{shared}"]
        return places

    def _in_tiles(self, number: int, layer: TiledLayer) -> Words:
        symbols, run = self.outside.symbols, layer.plan.division.run
        sources = [self._plan.maps.inputs[number, symbol] for symbol in run.inputs]
        placed = self._tiles[number] = PlacedLayer(
            layer.plan,
            f"{layer.name}.",
            self.outside,
            sources=[symbols[source].address for source in sources],
            output=symbols[results_name(layer.name)].address,
            buffers={
                operand: tuple(self.inside[layer.buffer(operand, slot)] for slot in range(count))
                for operand, (count, _) in layer.plan.buffers.items()
            },
            buffer=None if layer.shared is None else self.inside[layer.shared],
        )
        works = [step.work for step in layer.steps if step.work]
        calls = [(work.tile, placed.arguments(work.tile, work.slots)) for work in works]
        self.outside.place(f"{layer.name}.{CALLS}", bytes((len(layer.steps) - 2) * layer.call_bytes))
        code = np.zeros(0, np.uint32)
        for computed, function in layer.plan.division.functions(calls, layer.cores).items():
            self._offsets[number, computed] = code.nbytes
            code = np.append(code, _in_lines(function.words))
        return code

    def finish(self, starts: Sequence[int]) -> Image:
        """Return the contents of main memory, with the descriptions of tiles; the code of layers is at ``starts``."""
        image = self.outside.finish()
        for number, step in enumerate(self._plan.steps):
            if (layer := self._plan.loop_of(step)) is None:
                continue
            at, tile, division = step.layer or 0, step.tile or 0, layer.plan.division
            function, values = 0, dict[str, int]()
            if work := layer.steps[tile].work:
                function = starts[at] + self._offsets[at, division.function_of(work.tile)]
                values = self._tiles[at].arguments(work.tile, work.slots)
            words = command_words([*self.transfers(step), *self.upkeep(number, step)])
            described = description(division.run, function, values, words, is_last=tile + 2 == len(layer.steps))
            view = image.view(f"{layer.name}.{CALLS}").view("<u4")
            view[(tile - 1) * layer.call_bytes // WORD_BYTES :][: len(described)] = described
        return image

    def _call(self, layer: int) -> int:
        name = results_name(self._plan.network.stages[layer].name)
        at = self.outside.symbols[name].address if layer in self._plan.tiled else self.inside[name]
        block = (_SYS_WRITE, _STDOUT, at, self._plan.runs[layer].length(OUTPUT))
        return self.outside.place(f"{self._plan.network.stages[layer].name}.call", np.array(block, "<u8").tobytes())

    def transfers(self, step: DeployedStep) -> Iterator[DmaTransfer]:
        tile = self._plan.tile_step(step)
        if tile is not None and step.layer is not None:
            for move in tile.moves:
                yield from self._tiles[step.layer].transfers(move)
        contents = {residence.name: residence.content for residence in self._plan.maps.residences}
        for name in (*step.loads, *step.stores):
            at = self.outside.symbols[contents.get(name, name)]
            inwards = name in step.loads
            yield DmaTransfer(inside=self.inside[name], outside=at.address, line=at.length, inwards=inwards)

    def upkeep(self, number: int, step: DeployedStep) -> Iterator[DmaTransfer]:
        if number and self._stores_reports:
            outside = self.outside.symbols[REPORTS].address + (number - 1) * self._report_bytes
            yield DmaTransfer(inside=self.report(number - 1), outside=outside, line=self._report_bytes, inwards=False)
        layer = None if step.layer is None else self._plan.tiled.get(step.layer)
        if layer is None or step.tile is None:
            return
        following = step.tile + 1
        if 0 < following < len(layer.steps) - 1:
            calls, size = self.outside.symbols[f"{layer.name}.{CALLS}"].address, layer.call_bytes
            inside, outside = self.inside[layer.call(following % CALL_SLOTS)], calls + (following - 1) * size
            yield DmaTransfer(inside=inside, outside=outside, line=size, inwards=True)

    def report(self, step: int) -> int:
        return self.inside[REPORTS] + step % self._plan.report_slots * self._report_bytes


def _text(
    plan: Deployment, memory: _Memory, cores: int, kernels: Sequence[int], transfers: Sequence[Sequence[DmaTransfer]]
) -> str:
    def tell(value: int) -> str:
        return _REPORT.format(tohost=memory.tohost, value=value)

    parts = [f".equ kernel{number}, {address}" for number, address in enumerate(kernels[:-1])]
    parts.append(
        _START.format(
            stack_stride=STACK_DISTANCE,
            stack=memory.inside[STACKS] + TILE_STACK_BYTES & -STACK_ALIGNMENT,
            **CLUSTER_ADDRESSES,
            report_bytes=REPORT_BYTES,
            reports=memory.inside[REPORTS],
            team=(1 << cores) - 1,
        )
    )
    # results are reported in the step after their layer
    results_calls = {last_step(plan.steps, layer) + 1: call for layer, call in enumerate(memory.calls)}
    for number, (step, moved) in enumerate(zip(plan.steps, transfers, strict=True)):
        # distance to the slot of the next report
        further = memory.report(number + 1) - memory.report(number)
        if plan.loop_of(step):
            if step.tile == 1:
                parts.append(_loop(plan, memory, cores, number, further))
            continue
        words, layer, works = command_words(list(moved)), step.layer or 0, plan.computes(step)
        issue = "; ".join(f"li t3, {word}; sw t3, {int(Dma.COMMAND)}(s7)" for word in words)
        parts.append(
            _STEP.format(
                number=number,
                **CLUSTER_ADDRESSES,
                tell=tell(results_calls[number]) if number in results_calls else "",
                commands=f"lw s8, {int(Dma.COMMAND)}(s7); {issue}" if words else "",
                work=_CALL_KERNEL.format(arguments=memory.arguments[layer], cores=cores, layer=layer) if works else "",
                wait=_WAIT.format(number=number, **CLUSTER_ADDRESSES) if words else "",
                advance=f"addi s5, s5, {further}" if number + 1 < len(plan.steps) else "",
            )
        )
    return "\n".join([*parts, _END.format(number=len(plan.steps), **CLUSTER_ADDRESSES, tell=tell(1))])


def _loop(plan: Deployment, memory: _Memory, cores: int, number: int, further: int) -> str:
    layer = plan.tiled[plan.steps[number].layer or 0]
    places = [memory.inside[layer.call(slot)] for slot in range(CALL_SLOTS)]
    start = f"    li s3, {places[1]}; li s4, {places[0]}; addi s6, s5, {further}"
    guard = f"li t1, {layer.cores}; bge s2, t1, computed{number}" if layer.cores < cores else ""
    return start + STEP_LOOP.format(
        number=number,
        **CLUSTER_ADDRESSES,
        released="\n".join(f"released{number + place}:" for place in range(len(layer.steps) - 2)),
        guard=guard,
        **description_offsets(layer.plan.division.run),
        cores=layer.cores,
    )
