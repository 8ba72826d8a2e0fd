"""Program of a cluster for a layer that is larger than the cluster's memory: DMA moves tiles in and out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.cluster import L2_BASE, TCDM_BASE
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sw.kernels.frame import STACK_ALIGNMENT
from xpulpnn_sw.kernels.kernel import STACK_BYTES, KernelRun
from xpulpnn_sw.kernels.layout import ImageBuilder, Symbol
from xpulpnn_sw.kernels.programs.bare import CLUSTER_ADDRESSES, BareProgram, with_caller
from xpulpnn_sw.kernels.tiling.plan import PlacedLayer, TilePlan, TileStep, fastest_plan, schedule
from xpulpnn_sw.kernels.tiling.product_division import ProductDivision
from xpulpnn_sw.kernels.tiling.transfer import DMA_ALIGNMENT, MOST_TRANSFER_BYTES, DmaTransfer, aligned, command_words

OUTSIDE_DATA = L2_BASE + (1 << 20)  # address of operands and results outside the cluster, behind the text
TILE_STACK_BYTES = 512  # bytes of a core's stack, for the frame of the function but no interrupts
TIMES = ("released", "begin", "done", "ready")
"""Names of the cycle counts that a core reports for each step. ``released`` is read when the barrier before the step
opens, ``begin`` and ``done`` before and after the core computes its part, and ``ready``, by core 0, when all transfers
are complete."""

_COMMAND_WORDS = 7  # most words of a command
_HEAD = ("commands", "function", "lasts")
"""Words at the start of a step's description, before its arguments. ``commands`` is the number of words of commands,
``function`` the address of the function that computes a tile or 0, ``lasts`` is 1 in the last step."""

CORE_START = """
start:
    csrr t0, mhartid; andi s2, t0, {cores_mask}; li t1, {stack_stride}; mul t1, t1, s2; li sp, {stack}; add sp, sp, t1
    li gp, {event_unit}; li t1, {line}; sw t1, {mask}(gp)
"""
"""Code at the start of each core, which sets up its stack and the events that it waits for."""

STEP_LOOP = """
step{number}:
    p.elw t0, {barrier}(gp)
{released}
    csrr s9, mcycle; bne s2, zero, compute{number}
    lw s8, {command}(s7); lw t1, {commands_at}(s3); addi t2, s3, {words_at}
issue{number}:
    p.lw t3, 4(t2!); addi t1, t1, -1; sw t3, {command}(s7); bne t1, zero, issue{number}
compute{number}:
    csrr s10, mcycle; lw t0, {function_at}(s3); beq t0, zero, computed{number}
    {guard}
    addi a0, s3, {arguments_at}; mv a1, s2; li a2, {cores}; jalr ra, t0, 0
computed{number}:
    csrr s11, mcycle; bne s2, zero, arrived{number}; li t0, 1; sll t0, t0, s8
wait{number}:
    lw t1, {status}(s7); and t1, t1, t0; bne t1, zero, wait{number}; sw t0, {status}(s7)
arrived{number}:
    csrr t1, mcycle; sw s9, 0(s5); sw s10, 4(s5); sw s11, 8(s5); sw t1, 12(s5)
    lw t2, {lasts_at}(s3); mv t0, s3; mv s3, s4; mv s4, t0; mv t0, s5; mv s5, s6; mv s6, t0; beq t2, zero, step{number}
"""
"""Loop over steps whose descriptions are at ``s3`` and ``s4`` in turn. A step lasts from one barrier to the next: core
0 starts the transfers of the step, computes its part, and waits for all transfers, including the description of the
next step. The barrier counts arrivals even before core 0 has set its masks."""

_CALLER = (
    CORE_START
    + """\
    li s3, {step0}; li s4, {step1}
    li t1, {report_bytes}; mul t1, t1, s2
    li s5, {report0}; add s5, s5, t1; li s6, {report1}; add s6, s6, t1
    li s7, {dma}; bne s2, zero, step
    li t1, {team}; sw t1, {target}(gp); sw t1, {trigger}(gp)
"""
    + STEP_LOOP
    + """\
    p.elw t0, {barrier}(gp); bne s2, zero, sleep; li t0, {tohost}; li t1, 1; sw t1, 0(t0)
sleep:
    sw zero, {mask}(gp); p.elw t0, {wait_event}(gp); j sleep
"""
)


def description_bytes(run: KernelRun, memory: int) -> int:
    """Return the most bytes of the description of a step; ``memory`` is the size of the TCDM."""
    # transfers of operands, each with a remainder, and of description and report
    commands = _COMMAND_WORDS * (len(run.inputs) + 4 + 2 * memory // MOST_TRANSFER_BYTES)
    return aligned((len(_HEAD) + len(run.structure.fields) + commands) * WORD_BYTES)


def description(
    run: KernelRun, function: int, values: Mapping[str, int], words: Sequence[int], *, is_last: bool
) -> list[int]:
    """Return the words of a step: the address of its function or 0, the ``values`` of arguments, DMA commands."""
    arguments = [values.get(field.name, 0) & WORD_MASK for field in run.structure.fields]
    return [len(words), function, int(is_last), *arguments, *words]


def description_offsets(run: KernelRun) -> dict[str, int]:
    """Return the offsets of the parts of a description, by their names in :data:`STEP_LOOP`."""
    size, heads = len(_HEAD) * WORD_BYTES, {f"{name}_at": at * WORD_BYTES for at, name in enumerate(_HEAD)}
    return heads | {"arguments_at": size, "words_at": size + len(run.structure.fields) * WORD_BYTES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    # output rows of a tile, or its pixels if the input is a row per pixel; None: the fastest choice
    rows: int | None = None
    channels: int | None = None  # output channels of a tile; None: the fastest choice
    overlap: bool = True  # whether tiles are moved while others are computed


@dataclass(frozen=True, eq=False, kw_only=True)
class TiledProgram(BareProgram):
    """Program that computes a layer tile by tile; the last report of the cores is at ``cycles``."""

    run: KernelRun  # kernel whose image is the memory outside the cluster, with operands and results
    division: ProductDivision
    plan: TilePlan
    steps: tuple[TileStep, ...]  # schedule of transfers and computation
    moved: tuple[tuple[int, int], ...]  # bytes of operands and results moved into and out of the cluster in each step
    places: dict[str, Symbol]  # symbols in the cluster's memory

    def times(self, inside: NDArray[np.uint8], outside: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the reports ``[step][core][time]`` from the memories after a run; :data:`TIMES` names the times."""
        last = self.cycles - self.data_base
        size = self.plan.cores * len(TIMES) * WORD_BYTES
        reports = np.append(self.run.image.view("reports", outside), inside[last : last + size])
        return reports.view("<u4").astype(np.int64).reshape(len(self.steps), self.plan.cores, len(TIMES))


def tiled_program(run: KernelRun, cores: int, memory: int, tiling: Tiling, *, specialise: bool = False) -> TiledProgram:
    inside = _TcdmLayout(run, cores, memory)
    division = ProductDivision(run)
    lines = None if tiling.rows is None else division.lines_of(tiling.rows)
    fixed = inside.end - TCDM_BASE - division.buffer_bytes(0, 0)
    plan = fastest_plan([division], cores, memory, fixed, lines=lines, channels=tiling.channels, overlap=tiling.overlap)
    buffers = {
        operand: tuple(inside.reserve(f"{operand.value}{slot}", size) for slot in range(count))
        for operand, (count, size) in plan.buffers.items()
    }
    steps = schedule(plan.tiles, overlap=plan.overlap)
    outside = ImageBuilder(OUTSIDE_DATA, DMA_ALIGNMENT)
    output = outside.place("output", bytes(run.image.symbols["output"].length))
    sources = (outside.place("input", run.image.view("input").tobytes()),)
    placed = PlacedLayer(plan, "", outside, sources=sources, output=output, buffers=buffers, buffer=inside.buffer)
    reports = outside.place("reports", bytes((len(steps) - 1) * inside.report_bytes))
    descriptions = outside.place("steps", bytes(len(steps) * inside.description_bytes))
    content = np.zeros((len(steps), inside.description_bytes // WORD_BYTES), np.uint32)
    moved: list[tuple[int, int]] = []
    for number, step in enumerate(steps):
        own = [transfer for move in step.moves for transfer in placed.transfers(move)]
        words = command_words([*inside.upkeep(number, len(steps), descriptions, reports), *own])
        values = placed.arguments(step.work.tile, step.work.slots) if step.work else {}
        function = int(run.function.pcs[0]) if step.work else 0
        described = description(run, function, values, words, is_last=number + 1 == len(steps))
        content[number, : len(described)] = described
        loaded = sum(transfer.bytes for transfer in own if transfer.inwards)
        moved.append((loaded, sum(transfer.bytes for transfer in own) - loaded))
    image = outside.finish()
    image.view("steps")[:] = content.astype("<u4").view(np.uint8).reshape(-1)
    first = inside.finish()
    first.view("step0")[:] = content[0].astype("<u4").view(np.uint8)
    run = replace(run, image=image, specialised=specialise or run.specialised)
    if specialise:
        calls = [(step.work.tile, placed.arguments(step.work.tile, step.work.slots)) for step in steps if step.work]
        run = replace(run, function=division.functions(calls, cores)[division.function_of(calls[0][0])])
    entry, text = _text(run, inside, cores)
    code: dict[str, Any] = {"entry": entry, "text_base": int(run.function.pcs[0]), "text": text, "run": run}
    code |= {"data_base": TCDM_BASE, "data": first.data.tobytes(), "tohost": inside.address("tohost")}
    code |= {"cycles": inside.address(f"report{(len(steps) - 1) % 2}"), "places": inside.symbols}
    return TiledProgram(**code, division=division, plan=plan, steps=tuple(steps), moved=tuple(moved))


class _TcdmLayout(ImageBuilder):
    """Layout of the cluster's memory; the parts whose sizes do not depend on the tiles come first."""

    def __init__(self, run: KernelRun, cores: int, memory: int) -> None:
        super().__init__(TCDM_BASE, DMA_ALIGNMENT)
        self.report_bytes = cores * len(TIMES) * WORD_BYTES
        self.description_bytes = description_bytes(run, memory)
        self.reserve("tohost", WORD_BYTES)
        for slot in range(2):
            self.reserve(f"report{slot}", self.report_bytes)
            self.reserve(f"step{slot}", self.description_bytes)
        self.stack_stride = run.stack_stride - STACK_BYTES + TILE_STACK_BYTES
        self.reserve("stacks", cores * self.stack_stride)
        buffer = run.image.symbols.get("im2col")
        self.buffer = self.reserve("im2col", buffer.length) if buffer else None

    def address(self, name: str) -> int:
        return self.symbols[name].address

    def upkeep(self, number: int, steps: int, descriptions: int, reports: int) -> list[DmaTransfer]:
        pieces = (
            ("step", descriptions, self.description_bytes, number + 1),
            ("report", reports, self.report_bytes, number - 1),
        )
        return [
            DmaTransfer(
                inside=self.address(f"{name}{step % 2}"), outside=base + step * size, line=size, inwards=step > number
            )
            for name, base, size, step in pieces
            if 0 <= step < steps
        ]


def _text(run: KernelRun, inside: _TcdmLayout, cores: int) -> tuple[int, bytes]:
    return with_caller(
        run.function,
        _CALLER,
        int(run.function.pcs[0]) + run.function.words.nbytes,
        stack_stride=inside.stack_stride,
        stack=inside.address("stacks") + TILE_STACK_BYTES & -STACK_ALIGNMENT,
        **CLUSTER_ADDRESSES,
        **{name: inside.address(name) for name in ("step0", "step1", "report0", "report1", "tohost")},
        report_bytes=len(TIMES) * WORD_BYTES,
        team=(1 << cores) - 1,
        **description_offsets(run),
        **dict.fromkeys(("number", "released", "guard"), ""),
        cores=cores,
    )
