"""All layers of a network as one function, which calls a kernel for each; results stay in memory for the next layer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn.isa.cluster import PRIVATE_EVENT_UNIT, Barrier, EventRegister
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import TEXT_BASE, WORD_BYTES
from xpulpnn_sw.kernels.builder import ZERO, Builder, Label
from xpulpnn_sw.kernels.frame import ARGUMENTS_POINTER, CORE, CORES, RA, SP, STACK_ALIGNMENT
from xpulpnn_sw.kernels.function import STACK_STRIDE, Function
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.program import Program
from xpulpnn_sw.kernels.variants import BYTE_BITS
from xpulpnn_sw.layout import ImageBuilder, Ints, OutputLayout
from xpulpnn_sw.networks.network import Network, Stage
from xpulpnn_sw.registers import register_number

_KEPT = dict(zip((ARGUMENTS_POINTER, CORE, CORES), map(register_number, ("s0", "s1", "s2")), strict=True))
"""Where the arguments of the function are while it calls kernels."""

_MASK = 0xFFFF_FFFF
_PASSED = ("input", "output")
"""Symbols of a kernel that other layers know too."""

_SHARED = "im2col"
"""Symbol of what a kernel needs while it runs, for which all use the same memory."""

_OF_THE_CALL = ("arguments", "stack")


@dataclass(frozen=True, eq=False, kw_only=True)
class Step:
    """A layer in memory.

    Parameters
    ----------
    stage : Stage
        The layer.
    variant : str
        How it is computed.
    results : OutputLayout
        Where its results are afterwards.
    weight_bytes : int
        Weights and parameters in memory.
    """

    stage: Stage
    variant: str
    results: OutputLayout
    weight_bytes: int

    @property
    def result_bytes(self) -> int:
        """Its results in memory."""
        return int(np.prod(self.results.shape[:-1])) * self.results.pixel_bytes


@dataclass(frozen=True, eq=False, kw_only=True)
class Chain:
    """A network as a function.

    Parameters
    ----------
    function : Function
        Code and data. The parts of its program are called after the layers, besides ``setup``.
    steps : tuple of Step
        The layers.
    """

    function: Function
    steps: tuple[Step, ...]


def chain(network: Network, image: Ints, variants: Sequence[str], *, cores: int = 1) -> Chain:
    """The function that computes a network for an input, each layer by a variant, with room for ``cores`` cores.

    Results of every layer have memory of their own, so that all of them are there afterwards. Raises
    :class:`LayerError` for layers that do not fit together.
    """
    runs = [
        stage.kind.build(
            stage.layer,
            stage.precision,
            name,
            stage.fed(image) if stage is network.stages[0] else stage.tensors,
            cores=cores,
            specialise=True,
        )
        for stage, name in zip(network.stages, variants, strict=True)
    ]
    _check(network.stages, runs)
    memory = ImageBuilder()
    buffer = memory.reserve(_SHARED, max(_length(run, _SHARED) for run in runs))
    source = memory.place("input", runs[0].image.view("input").view("<u4"))
    structures: list[list[int]] = []
    steps: list[Step] = []
    for stage, run, after in zip(network.stages, runs, [*runs[1:], None], strict=True):
        results, length = replace(run.output, symbol=f"{stage.name}.output"), _length(run, "output")
        places = {"input": source, "output": memory.reserve(results.symbol, length), _SHARED: buffer}
        if after is not None:
            # kernels read ahead, as far as their inputs have words to spare
            memory.reserve(f"{stage.name}.ahead", max(0, _length(after, "input") - length))
        own = [name for name in run.image.symbols if name not in (*_PASSED, _SHARED, *_OF_THE_CALL)]
        for name in own:
            places[name] = memory.place(f"{stage.name}.{name}", run.image.view(name).view("<u4"))
        structures.append(_structure(run, places))
        weight_bytes = sum(_length(run, name) for name in own)
        steps.append(Step(stage=stage, variant=run.variant.name, results=results, weight_bytes=weight_bytes))
        source = places["output"]
    memory.place("arguments", np.array([word for words in structures for word in words], dtype=np.uint32))
    memory.reserve("stack", cores * STACK_STRIDE)
    offsets = np.cumsum([0, *map(len, structures)]) * WORD_BYTES
    function = Function(
        name=network.name,
        function=_program(network.stages, runs, offsets.tolist(), cores),
        extensions=frozenset[Extension]().union(*(run.variant.extensions for run in runs)),
        image=memory.finish(),
        output=steps[-1].results,
        macs=network.macs,
    )
    return Chain(function=function, steps=tuple(steps))


def _length(run: KernelRun, name: str) -> int:
    """Bytes of a symbol, 0 if a kernel has none such."""
    return run.image.symbols[name].length if name in run.image.symbols else 0


def _check(stages: Sequence[Stage], runs: Sequence[KernelRun]) -> None:
    """Raise :class:`LayerError` unless what each layer writes is what the next one reads."""
    for before, run, stage, following in zip(stages, runs, stages[1:], runs[1:], strict=False):
        written, read = before.precision, stage.precision
        if (written.y, written.y_signed) != (read.x, read.x_signed):
            raise LayerError(f"inputs of {stage.name} must be like the results of {before.name}, not {read}")
        elements = int(np.prod(run.output.shape))
        if elements != stage.tensors.activations.size:
            raise LayerError(f"inputs of {stage.name} must be {elements}, not {stage.tensors.activations.size}")
        # pixels without padding between them are in order for every kernel
        channels, taken = run.output.shape[-1], stage.tensors.activations.shape[-1]
        dense = run.output.pixel_bytes * BYTE_BITS == channels * written.y
        if (
            not dense
            or following.arguments.get("pixel_bytes", taken * read.x // BYTE_BITS) * BYTE_BITS != taken * read.x
        ):
            raise LayerError(f"channels of {before.name} must fill whole words, not {channels}")


def _structure(run: KernelRun, places: dict[str, int]) -> list[int]:
    """The argument structure of a kernel whose symbols have moved."""

    def moved(address: int) -> int:
        for name, symbol in run.image.symbols.items():
            if name in places and symbol.address <= address < symbol.address + symbol.length:
                return places[name] + address - symbol.address
        raise AssertionError(address)

    fields = ((field, run.arguments[field.name]) for field in run.structure.fields)
    return [moved(value) if field.pointer else value & _MASK for field, value in fields]


def _program(stages: Sequence[Stage], runs: Sequence[KernelRun], offsets: Sequence[int], cores: int) -> Program:
    """The function that calls those of the kernels, which follow it."""
    b = Builder(TEXT_BASE, xpulp=False)
    saved = (RA, *_KEPT.values())
    b("addi", SP, SP, -STACK_ALIGNMENT)
    for number, register in enumerate(saved):
        b("sw", register, number * WORD_BYTES, SP)
    for argument, register in _KEPT.items():
        b.mv(register, argument)
    kernels = [Label() for _ in runs]
    for stage, label, offset in zip(stages, kernels, offsets, strict=False):
        with b.region(stage.name):
            b("addi", ARGUMENTS_POINTER, _KEPT[ARGUMENTS_POINTER], offset)
            b.mv(CORE, _KEPT[CORE])
            b.mv(CORES, _KEPT[CORES])
            b.jump(label, link=RA)
            if cores > 1:
                b.li(RA, PRIVATE_EVENT_UNIT + EventRegister.BARRIER + Barrier.TRIGGER_WAIT_CLEAR)
                b("p.elw", RA, 0, RA)
    for number, register in enumerate(saved):
        b("lw", register, number * WORD_BYTES, SP)
    b("addi", SP, SP, STACK_ALIGNMENT)
    b("jalr", ZERO, 0, RA)
    position = b.here
    for label, run in zip(kernels, runs, strict=True):
        label.position = position
        position += len(run.function)
    caller = b.finish()
    parts = [caller, *(run.function for run in runs)]
    words = np.concatenate([part.words for part in parts])
    names = ((stage.name,) * len(run.function) for stage, run in zip(stages, runs, strict=True))
    return Program(
        words=words,
        pcs=np.arange(len(words), dtype=np.uint32) * np.uint32(WORD_BYTES) + np.uint32(TEXT_BASE),
        insns=sum((part.insns for part in parts), ()),
        regions=sum(names, caller.regions),
        hwloop_end=np.concatenate([part.hwloop_end for part in parts]),
        inner=np.concatenate([part.inner for part in parts]),
    )
