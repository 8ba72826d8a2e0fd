"""All layers of a network as one function, which calls a kernel for each; results stay in memory for the next layer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import TEXT_BASE, WORD_BYTES
from xpulpnn_sw.assembly.disasm import register_number
from xpulpnn_sw.kernels.builder import ZERO, Builder, Label
from xpulpnn_sw.kernels.frame import ARGUMENTS_POINTER, CORE, CORES, RA, SP, STACK_ALIGNMENT
from xpulpnn_sw.kernels.kernel import STACK_STRIDE, Function, KernelRun
from xpulpnn_sw.kernels.layout import MAX_DATA, ImageBuilder, Ints, OutputLayout
from xpulpnn_sw.kernels.program import Program
from xpulpnn_sw.networks.kernels import (
    BUFFERS,
    OUTPUT,
    SHARED,
    input_pieces,
    inputs_of,
    kernels,
    length,
    map_bytes,
    own_symbols,
    structure,
    weight_bytes,
)
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage

# where the arguments of the function are while it calls kernels
_KEPT = dict(zip((ARGUMENTS_POINTER, CORE, CORES), map(register_number, ("s0", "s1", "s2")), strict=True))

_MOST_CODE = (1 << 20) - (1 << 16)  # bytes of functions that a jump from the one before them reaches
# bytes of input, weights and maps: there are argument structures, a buffer and a stack besides
_MOST_DATA = MAX_DATA - (1 << 20)


@dataclass(frozen=True, eq=False, kw_only=True)
class ChainedLayer:
    """A layer in memory."""

    stage: Stage
    run: KernelRun  # how it is computed
    results: OutputLayout  # where its results are afterwards


@dataclass(frozen=True, eq=False, kw_only=True)
class Chain:
    """A network as a function."""

    function: Function  # code and data
    steps: tuple[ChainedLayer, ...]


def chain(network: Network, image: Ints, variants: Sequence[str]) -> Chain:
    """The function that computes a network for an input on one core, each layer by a variant.

    Results of every layer have memory of their own, so that all of them are there afterwards. Raises
    :class:`LayerError` for layers that do not fit together, or into memory.
    """
    runs = kernels(network, image, variants, cores=1)
    _check_size(network, runs)
    memory, sizes = ImageBuilder(), map_bytes(network, runs)
    buffer = memory.reserve(SHARED, max(length(run, name) for run in runs for name in BUFFERS))
    # of each layer and each symbol of its kernel where that is
    places: list[dict[str, int]] = [dict.fromkeys(BUFFERS, buffer) for _ in runs]
    for name, (words, readers) in input_pieces(network, runs).items():
        address = memory.place(name, words)
        for edge in readers:
            places[edge.reader][edge.symbol] = address
    maps: dict[str, int] = {}
    structures: list[list[int]] = []
    steps: list[ChainedLayer] = []
    for number, (stage, run, own) in enumerate(zip(network.stages, runs, places, strict=True)):
        results, size = replace(run.output, symbol=f"{stage.name}.output"), length(run, OUTPUT)
        maps[stage.name] = own[OUTPUT] = memory.reserve(results.symbol, size)
        memory.reserve(f"{stage.name}.ahead", sizes[stage.name] - size)
        for symbol, source in zip(inputs_of(run), network.sources(number), strict=True):
            if source != NETWORK_INPUT:
                own[symbol] = maps[source]
        for name in own_symbols(run):
            own[name] = memory.place(f"{stage.name}.{name}", run.image.view(name).view("<u4"))
        structures.append(structure(run, own))
        steps.append(ChainedLayer(stage=stage, run=run, results=results))
    memory.place("arguments", np.array([word for words in structures for word in words], dtype=np.uint32))
    memory.reserve("stack", STACK_STRIDE)
    offsets = np.cumsum([0, *map(len, structures)]) * WORD_BYTES
    function = Function(
        name=network.name,
        function=_program(network.stages, runs, offsets.tolist()),
        extensions=frozenset[Extension]().union(*(run.extensions for run in runs)),
        image=memory.finish(),
        output=steps[-1].results,
        macs=network.macs,
    )
    return Chain(function=function, steps=tuple(steps))


def _check_size(network: Network, runs: Sequence[KernelRun]) -> None:
    """Raise :class:`LayerError` unless code and data have room where the program has them."""
    inputs = sum(words.nbytes for words, _ in input_pieces(network, runs).values())
    data = inputs + sum(map_bytes(network, runs).values()) + sum(map(weight_bytes, runs))
    code = sum(run.function.words.nbytes for run in runs)
    for name, size, most in (("data", data, _MOST_DATA), ("code", code, _MOST_CODE)):
        if size > most:
            raise LayerError(f"{name} of {network.name} must be at most {most} bytes, not {size}")


def _program(stages: Sequence[Stage], runs: Sequence[KernelRun], offsets: Sequence[int]) -> Program:
    """The function that calls those of the kernels, which follow it."""
    b = Builder(TEXT_BASE, xpulp=False)
    saved = (RA, *_KEPT.values())
    b("addi", SP, SP, -STACK_ALIGNMENT)
    for number, register in enumerate(saved):
        b("sw", register, number * WORD_BYTES, SP)
    for argument, register in _KEPT.items():
        b.mv(register, argument)
    labels = [Label() for _ in runs]
    for stage, label, offset in zip(stages, labels, offsets, strict=False):
        with b.region(stage.name):
            b.mv(ARGUMENTS_POINTER, _KEPT[ARGUMENTS_POINTER])
            b.add(ARGUMENTS_POINTER, offset, CORE)
            b.mv(CORE, _KEPT[CORE])
            b.mv(CORES, _KEPT[CORES])
            b.jump(label, link=RA)
    for number, register in enumerate(saved):
        b("lw", register, number * WORD_BYTES, SP)
    b("addi", SP, SP, STACK_ALIGNMENT)
    b("jalr", ZERO, 0, RA)
    position = b.here
    for label, run in zip(labels, runs, strict=True):
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
