"""The kernels of a network's layers: whether they fit together, what they need in memory, and their arguments there."""

from collections.abc import Mapping, Sequence

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.variants import BYTE_BITS
from xpulpnn_sw.layers.image import ImageConvLayer
from xpulpnn_sw.layout import Ints
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage
from xpulpnn_sw.precision import SIGN_BITS

INPUT, OUTPUT = "input", "output"
"""Symbols of a kernel that other layers know too."""

CHAINED = ("conv", "pointwise", "linear", "maxpool", "avgpool", "relu")
"""Kernels that compute with the results of one layer before, as they are in memory."""

SHARED = "im2col"
"""Symbol of what a kernel needs while it runs."""

ARGUMENTS, STACK = "arguments", "stack"
"""Symbols of a kernel that belong to its call."""


def kernels(network: Network, image: Ints, variants: Sequence[str], *, cores: int) -> tuple[KernelRun, ...]:
    """The kernels of the layers, each by a variant, the first with the input, with buffers for ``cores`` cores.

    Raises :class:`LayerError` for layers that do not fit together, or that do not follow each other in memory.
    """
    _check_chain(network)
    runs = tuple(
        stage.kind.build(
            stage.layer,
            stage.precision,
            name,
            stage.fed(image) if stage is network.stages[0] else stage.tensors,
            cores=cores,
            specialise=True,
        )
        for stage, name in zip(network.stages, variants, strict=True)
    )
    _check(network.stages, runs)
    return runs


def length(run: KernelRun, name: str) -> int:
    """Bytes of a symbol, 0 if a kernel has none such."""
    return run.image.symbols[name].length if name in run.image.symbols else 0


def own_symbols(run: KernelRun) -> list[str]:
    """What belongs to a layer alone: filters, parameters, tables."""
    return [name for name in run.image.symbols if name not in (INPUT, OUTPUT, SHARED, ARGUMENTS, STACK)]


def weight_bytes(run: KernelRun) -> int:
    """Bytes of what belongs to a layer alone."""
    return sum(length(run, name) for name in own_symbols(run))


def structure(run: KernelRun, places: Mapping[str, int]) -> list[int]:
    """The argument structure of a kernel whose symbols have moved, those there are in ``places``."""

    def moved(address: int) -> int:
        for name, symbol in run.image.symbols.items():
            if name in places and symbol.address <= address < symbol.address + symbol.length:
                return places[name] + address - symbol.address
        raise AssertionError(address)

    fields = ((field, run.arguments[field.name]) for field in run.structure.fields)
    return [moved(value) if field.pointer else value & WORD_MASK for field, value in fields]


def _check_chain(network: Network) -> None:
    """Raise :class:`LayerError` unless every layer can take what the one before has left in memory."""
    for number, stage in enumerate(network.stages):
        if stage.kind.name not in CHAINED:
            raise LayerError(f"kernel of {stage.name} must be one of {', '.join(CHAINED)} here, not {stage.kind.name}")
        before = network.stages[number - 1].name if number else NETWORK_INPUT
        if (found := network.sources(number)) != (before,):
            raise LayerError(f"inputs of {stage.name} must be {before} here, not {', '.join(found)}")
        if SIGN_BITS in (stage.precision.x, stage.precision.w, stage.precision.y):
            raise LayerError(f"precision of {stage.name} must be two bits or more here, not {stage.precision}")
        if getattr(stage.layer, "scaled", False):
            raise LayerError(f"averages of {stage.name} must be plain ones here, not {stage.layer}")


def _check(stages: Sequence[Stage], runs: Sequence[KernelRun]) -> None:
    """Raise :class:`LayerError` unless what each layer writes is what the next one reads."""
    for before, run, stage, following in zip(stages, runs, stages[1:], runs[1:], strict=False):
        written, read = before.precision, stage.precision
        if isinstance(stage.layer, ImageConvLayer):
            raise LayerError(f"layer of an image must be the first, not {stage.name} behind {before.name}")
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
