"""Program that computes a network on a cluster: core 0 programs the DMA engine, the cores compute layers together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import LayerError
from xpulpnn.isa.cluster import ICACHE_LINE_BYTES, TCDM_BASE, Dma
from xpulpnn.isa.machine import TEXT_BASE, WORD_BYTES, WORD_MASK
from xpulpnn.isa.table import find
from xpulpnn_sw.assembly.asm import assemble
from xpulpnn_sw.kernels.frame import STACK_ALIGNMENT
from xpulpnn_sw.kernels.kernel import ARGUMENTS, OUTPUT, KernelRun
from xpulpnn_sw.kernels.layout import Image, ImageBuilder, Ints, OutputLayout, Symbol, Words
from xpulpnn_sw.kernels.programs.bare import CLUSTER_ADDRESSES, BareProgram
from xpulpnn_sw.kernels.programs.tiled import CORE_START, OUTSIDE_DATA, TILE_STACK_BYTES, TIMES
from xpulpnn_sw.kernels.tiling.division import DMA_ALIGNMENT, DmaTransfer, command_words
from xpulpnn_sw.kernels.tiling.plan import PlacedLayer
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
    li t1, {report_bytes}
    mul t1, t1, s2
    li s5, {reports}
    add s5, s5, t1
    li s7, {dma}
    bne s2, zero, step0
    li t1, {team}
    sw t1, {target}(gp)
    sw t1, {trigger}(gp)
"""
)
"""Start code of all cores. The barrier also counts cores that arrive before core 0 has set its masks."""

_STEP = """
step{number}:
    p.elw t0, {barrier}(gp)
released{number}:
    csrr s9, mcycle
    bne s2, zero, work{number}
    {tell}
    {commands}
work{number}:
    csrr s10, mcycle
    {work}
    csrr s11, mcycle
    bne s2, zero, arrived{number}
    {wait}
arrived{number}:
    csrr t1, mcycle
    sw s9, 0(s5)
    sw s10, 4(s5)
    sw s11, 8(s5)
    sw t1, 12(s5)
    {advance}
"""
"""Code of a step between two barriers. Core 0 reports the results of the previous layer to the host, which reads them
at once, starts DMA transfers, computes its part of the layer, and waits for the transfers."""

_CALL_KERNEL = """
    li a0, {arguments}
    mv a1, s2
    li a2, {cores}
    jal ra, kernel{layer}
"""
_SOME_CORES = """
    li t0, {cores}
    bge s2, t0, idle{number}
    {work}
idle{number}:
"""
"""Code with which only the first ``cores`` cores call a kernel."""

_WAIT = """
    li t0, 1
    sll t0, t0, s8
wait{number}:
    lw t1, {status}(s7)
    and t1, t1, t0
    bne t1, zero, wait{number}
    sw t0, {status}(s7)
"""
_REPORT = """
    li t0, {tohost}
    li t1, {value}
    sw t1, 0(t0)
"""
_END = """
step{number}:
    p.elw t0, {barrier}(gp)
released{number}:
    bne s2, zero, sleep
    {tell}
sleep:
    sw zero, {mask}(gp)
    p.elw t0, {wait_event}(gp)
    j sleep
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
    # functions are aligned to lines of the instruction cache
    line = ICACHE_LINE_BYTES // WORD_BYTES
    functions = [np.pad(words, (0, -len(words) % line), constant_values=_NOP) for words in places.functions]
    starts = np.cumsum([TEXT_BASE, *(words.nbytes for words in functions)]).tolist()
    caller = assemble(_text(plan, places, cores, starts, moved), starts[-1])
    text = b"".join(words.astype("<u4").tobytes() for words in functions) + caller.to_bytes()
    if len(text) > (most := OUTSIDE_DATA - TEXT_BASE):
        raise LayerError(f"code of {network.name} must be at most {most} bytes, not {len(text)}")
    return DeployedProgram(
        entry=caller.labels["start"],
        text_base=TEXT_BASE,
        text=text,
        data_base=TCDM_BASE,
        data=bytes([_NOISE]) * plan.extent,
        tohost=places.tohost,
        cycles=places.inside[REPORTS],
        deployment=plan,
        outside=places.outside.finish(),
        outputs=tuple(
            replace(run.output, symbol=results_name(stage.name))
            for run, stage in zip(plan.runs, network.stages, strict=True)
        ),
        transfers=transfers,
        starts=tuple(caller.labels[f"released{number}"] for number in range(len(plan.steps) + 1)),
        kernels=tuple(starts),
        cores=cores,
    )


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
        self._arguments: dict[int, int] = {}
        self._tiles: dict[int, PlacedLayer] = {}
        self.functions = [*self._place_layers()]
        self.calls = [self._call(number) for number in range(len(runs) - 1)]

    def _place_layers(self) -> Iterator[Words]:
        """Place filters and argument structures in main memory; yield the functions of the layers."""
        words: list[int] = []
        for number, (stage, run) in enumerate(zip(self._plan.network.stages, self._plan.runs, strict=True)):
            if number in self._plan.tiled:
                yield self._in_tiles(number, self._plan.tiled[number])
                continue
            if run.own_symbols:
                content = b"".join(run.image.view(symbol).tobytes() for symbol in run.own_symbols)
                self.outside.place(weights_name(stage.name), content)
            self._arguments[number] = self.inside[ARGUMENTS] + len(words) * WORD_BYTES
            words += run.relocated_arguments(self._symbols(number, run))
            yield run.function.words
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
        calls = [placed.arguments(step.work.tile, step.work.slots) for step in layer.steps if step.work]
        fields = run.structure.fields
        content = np.zeros((len(calls), layer.call_bytes // WORD_BYTES), "<u4")
        for row, values in zip(content, calls, strict=True):
            row[: len(fields)] = [values[field.name] & WORD_MASK for field in fields]
        self.outside.place(f"{layer.name}.{CALLS}", content.tobytes())
        return layer.plan.division.function(calls).words

    def _call(self, layer: int) -> int:
        """Place the argument block of the system call that sends a layer's results to the host; return its address."""
        name = results_name(self._plan.network.stages[layer].name)
        at = self.outside.symbols[name].address if layer in self._plan.tiled else self.inside[name]
        block = (_SYS_WRITE, _STDOUT, at, self._plan.runs[layer].length(OUTPUT))
        return self.outside.place(f"{self._plan.network.stages[layer].name}.call", np.array(block, "<u8").tobytes())

    def arguments(self, step: DeployedStep) -> int:
        assert step.layer is not None
        tile = self._plan.tile_step(step)
        if tile is None or tile.work is None:
            return self._arguments[step.layer]
        return self.inside[self._plan.tiled[step.layer].call(tile.work.number % CALL_SLOTS)]

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
        calls, size = self.outside.symbols[f"{layer.name}.{CALLS}"].address, layer.call_bytes
        for following in layer.steps[step.tile + 1 : step.tile + 2]:
            if following.work:
                number = following.work.number
                inside = self.inside[layer.call(number % CALL_SLOTS)]
                yield DmaTransfer(inside=inside, outside=calls + number * size, line=size, inwards=True)

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
        words = command_words(list(moved))
        issue = "; ".join(f"li t3, {word}; sw t3, {int(Dma.COMMAND)}(s7)" for word in words)
        # distance to the slot of the next report
        further = memory.report(number + 1) - memory.report(number)
        parts.append(
            _STEP.format(
                number=number,
                **CLUSTER_ADDRESSES,
                tell=tell(results_calls[number]) if number in results_calls else "",
                commands=f"lw s8, {int(Dma.COMMAND)}(s7); {issue}" if words else "",
                work=_work(plan, memory, cores, number) if plan.computes(step) else "",
                wait=_WAIT.format(number=number, **CLUSTER_ADDRESSES) if words else "",
                advance=f"addi s5, s5, {further}" if number + 1 < len(plan.steps) else "",
            )
        )
    return "\n".join([*parts, _END.format(number=len(plan.steps), **CLUSTER_ADDRESSES, tell=tell(1))])


def _work(plan: Deployment, memory: _Memory, cores: int, number: int) -> str:
    step = plan.steps[number]
    assert step.layer is not None
    able = plan.tiled[step.layer].cores if step.layer in plan.tiled else cores
    work = _CALL_KERNEL.format(arguments=memory.arguments(step), cores=able, layer=step.layer)
    return work if able == cores else _SOME_CORES.format(number=number, cores=able, work=work)
