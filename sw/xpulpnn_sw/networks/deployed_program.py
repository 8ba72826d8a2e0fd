"""A network as a program of a cluster: core 0 commands the DMA engine, all cores share every layer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import LayerError
from xpulpnn.isa.cluster import (
    ICACHE_LINE_BYTES,
    TCDM_BASE,
    Dma,
)
from xpulpnn.isa.machine import TEXT_BASE, WORD_BYTES
from xpulpnn.isa.table import find
from xpulpnn_sw.assembly.asm import assemble
from xpulpnn_sw.kernels.frame import STACK_ALIGNMENT
from xpulpnn_sw.kernels.kernel import STACK_BYTES, STACK_STRIDE
from xpulpnn_sw.kernels.layout import Image, Ints, OutputLayout, Symbol, Words
from xpulpnn_sw.kernels.programs.bare import CLUSTER_ADDRESSES, BareProgram
from xpulpnn_sw.kernels.programs.tiled import CORE_START, OUTSIDE_DATA, TILE_STACK_BYTES, TIMES
from xpulpnn_sw.kernels.tiling.division import DmaTransfer, command_words
from xpulpnn_sw.networks.deployed_memory import REPORTS, DeployedMemory
from xpulpnn_sw.networks.deployment import DeployedStep, Deployment, results_name
from xpulpnn_sw.networks.kernels import OUTPUT, length
from xpulpnn_sw.networks.network import Network
from xpulpnn_sw.networks.planning import deployed

STACKS = "stacks"  # piece of memory that is needed all the time, as are the reports
_REPORT_BYTES = len(TIMES) * WORD_BYTES
_STACK_STRIDE = STACK_STRIDE - STACK_BYTES + TILE_STACK_BYTES
_NOISE = 0xA5  # what the memory of the cluster is full of at the beginning: nothing may rely on zeros there
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
"""Code that all cores run first. The barrier gathers arrivals also before core 0 has set its masks."""

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
"""From one barrier to the next. Core 0 lets the host have the results of the layer before, which are read at once and
cost no more than the store, commands what is to be moved meanwhile, does its share, and waits until all is moved."""

_WORK = """
    li a0, {arguments}
    mv a1, s2
    li a2, {cores}
    jal ra, kernel{layer}
"""
_SOME = """
    li t0, {cores}
    bge s2, t0, idle{number}
    {work}
idle{number}:
"""
"""Work for the first cores only."""

_WAIT = """
    li t0, 1
    sll t0, t0, s8
wait{number}:
    lw t1, {status}(s7)
    and t1, t1, t0
    bne t1, zero, wait{number}
    sw t0, {status}(s7)
"""
_TELL = """
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
    """Memory contents and addresses of a network's program; ``cycles`` is where the reports of the cores are."""

    deployment: Deployment  # what is where when
    outside: Image  # the memory outside: operands, `output`, the words of the host
    # of the layers; each is at the beginning of an image of its own, as the host takes them
    outputs: tuple[OutputLayout, ...]
    transfers: tuple[tuple[DmaTransfer, ...], ...]
    # addresses of the first instruction of each step, behind the barrier, and of the first behind the last step; the
    # barrier at its end belongs to a step
    starts: tuple[int, ...]
    kernels: tuple[int, ...]  # addresses of the functions of the layers, and the one behind
    cores: int  # that share the work

    def times(self, inside: NDArray[np.uint8], outside: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Reports of the steps, ``[step][core][time]`` in the order of ``TIMES``, from the memories after a run."""
        steps, slots, size = len(self.deployment.steps), self.deployment.report_slots, self.cores * _REPORT_BYTES
        first = self.cycles - self.data_base
        reports = inside[first : first + slots * size]
        if slots < steps:
            last = reports[(steps - 1) % slots * size :][:size]
            reports = np.append(self.outside.view(REPORTS, outside), last)
        return reports.view("<u4").astype(np.int64).reshape(steps, self.cores, len(TIMES))

    def results(self, told: bytes) -> list[NDArray[np.int64]]:
        """Results of all layers but the last out of what the host has been told in a run, zeros where that is short."""
        found: list[NDArray[np.int64]] = []
        for run, output in zip(self.deployment.runs[:-1], self.outputs, strict=False):
            size = length(run, OUTPUT)
            found.append(_decoded(output, told[:size].ljust(size, b"\0")))
            told = told[size:]
        return found

    def final(self, stored: bytes) -> NDArray[np.int64]:
        """Results of the last layer out of what is stored outside."""
        return _decoded(self.outputs[-1], stored)


def _decoded(output: OutputLayout, content: bytes) -> NDArray[np.int64]:
    data = np.frombuffer(content, np.uint8)
    return output.decode(Image(0, data, {output.symbol: Symbol(0, data.size)}), data)


def _in_lines(words: Words) -> Words:
    """A function filled up to whole lines of an instruction cache, so that the next one begins with a line."""
    return np.pad(words, (0, -len(words) % (ICACHE_LINE_BYTES // WORD_BYTES)), constant_values=_NOP)


def deployed_program(
    network: Network, image: Ints, variants: Sequence[str], *, cores: int, memory: int
) -> DeployedProgram:
    """The program in which ``cores`` cores compute a network for an input with ``memory`` bytes of TCDM.

    Raises :class:`~xpulpnn.errors.LayerError` for a network that does not fit, or whose layers do not.
    """
    plan = deployed(
        network,
        image,
        variants,
        cores=cores,
        memory=memory,
        fixed=lambda reports: {STACKS: cores * _STACK_STRIDE, REPORTS: reports * cores * _REPORT_BYTES},
    )
    return _Writer(plan, cores).program()


class _Writer:
    def __init__(self, plan: Deployment, cores: int) -> None:
        self.plan, self.cores = plan, cores
        self.memory = DeployedMemory(plan, OUTSIDE_DATA, cores * _REPORT_BYTES)

    def program(self) -> DeployedProgram:
        runs, memory = self.plan.runs, self.memory
        transfers = tuple(memory.transfers())
        moved = [(*own, *besides) for own, besides in zip(transfers, memory.upkeep(), strict=True)]
        functions = [_in_lines(words) for words in memory.functions]
        kernels = np.cumsum([TEXT_BASE, *(words.nbytes for words in functions)]).tolist()
        caller = assemble(self._text(kernels, moved), kernels[-1])
        text = b"".join(words.astype("<u4").tobytes() for words in functions) + caller.to_bytes()
        if TEXT_BASE + len(text) > OUTSIDE_DATA:
            most = OUTSIDE_DATA - TEXT_BASE
            raise LayerError(f"code of {self.plan.network.name} must be at most {most} bytes, not {len(text)}")
        stages = self.plan.network.stages
        return DeployedProgram(
            entry=caller.labels["start"],
            text_base=TEXT_BASE,
            text=text,
            data_base=TCDM_BASE,
            data=bytes([_NOISE]) * self.plan.extent,
            tohost=memory.tohost,
            cycles=memory.inside[REPORTS],
            deployment=self.plan,
            outside=memory.outside.image(),
            outputs=tuple(
                replace(run.output, symbol=results_name(stage.name)) for run, stage in zip(runs, stages, strict=True)
            ),
            transfers=transfers,
            starts=tuple(caller.labels[f"released{number}"] for number in range(len(self.plan.steps) + 1)),
            kernels=tuple(kernels),
            cores=self.cores,
        )

    def _text(self, kernels: Sequence[int], transfers: Sequence[Sequence[DmaTransfer]]) -> str:
        steps = self.plan.steps
        parts = [f".equ kernel{number}, {address}" for number, address in enumerate(kernels[:-1])]
        parts.append(
            _START.format(
                stack_stride=_STACK_STRIDE,
                stack=self.memory.inside[STACKS] + TILE_STACK_BYTES & -STACK_ALIGNMENT,
                **CLUSTER_ADDRESSES,
                report_bytes=_REPORT_BYTES,
                reports=self.memory.inside[REPORTS],
                team=(1 << self.cores) - 1,
            )
        )
        told = 0
        for number, (step, moved) in enumerate(zip(steps, transfers, strict=True)):
            # results are there until the layer that computes with them is done
            is_due = told < len(self.memory.calls) and self.plan.ends(told) == number - 1
            tell = self._tell(self.memory.calls[told]) if is_due else ""
            told += bool(tell)
            words = command_words(list(moved))
            issue = "; ".join(f"li t3, {word}; sw t3, {int(Dma.COMMAND)}(s7)" for word in words)
            parts.append(
                _STEP.format(
                    number=number,
                    **CLUSTER_ADDRESSES,
                    tell=tell,
                    commands=f"lw s8, {int(Dma.COMMAND)}(s7); {issue}" if words else "",
                    work=self._work(number, step) if self.plan.computes(step) else "",
                    wait=_WAIT.format(number=number, **CLUSTER_ADDRESSES) if words else "",
                    advance=self._advance(number),
                )
            )
        end = _END.format(
            number=len(steps),
            **CLUSTER_ADDRESSES,
            tell=self._tell(1),
        )
        return "\n".join([*parts, end])

    def _work(self, number: int, step: DeployedStep) -> str:
        assert step.layer is not None
        cores = self.plan.cores(step.layer) or self.cores
        work = _WORK.format(arguments=self.memory.arguments(step), cores=cores, layer=step.layer)
        return work if cores == self.cores else _SOME.format(number=number, cores=cores, work=work)

    def _advance(self, step: int) -> str:
        """Go to where the next step is reported, if there is one: one place further, or back to the first of two."""
        if step + 1 == len(self.plan.steps):
            return ""
        return f"addi s5, s5, {self.memory.report(step + 1) - self.memory.report(step)}"

    def _tell(self, value: int) -> str:
        return _TELL.format(tohost=self.memory.tohost, value=value)
