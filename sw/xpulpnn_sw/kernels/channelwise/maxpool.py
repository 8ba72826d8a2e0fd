"""Operands of maximum poolings, and their kernels; the input stays as it is."""

from dataclasses import dataclass

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.arguments import window_arguments
from xpulpnn_sw.kernels.channelwise.levels import POOL_LEVELS
from xpulpnn_sw.kernels.channelwise.maxpool_code import MAXPOOL_ARGUMENTS, MaxPooling
from xpulpnn_sw.kernels.channelwise.maxpool_folded import FoldedMaxPooling
from xpulpnn_sw.kernels.channelwise.pooling import window_name
from xpulpnn_sw.kernels.channelwise.run import Maps, Options, finished
from xpulpnn_sw.kernels.folding import check_folded, fold
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.layers.channelwise import MaxPoolLayer, WindowLayer
from xpulpnn_sw.layout import ImageBuilder, Ints, Placement
from xpulpnn_sw.precision import SIGN_BITS, Precision


@dataclass(frozen=True, eq=False, kw_only=True)
class PoolTensors:
    """What a maximum pooling computes with."""

    activations: Ints  # the map, `[height][width][channel]`
    folded: bool = False  # whether the map is in memory as fold leaves it


def random_map(layer: WindowLayer, precision: Precision, rng: np.random.Generator) -> Ints:
    """Elements over their whole range, patches of them alike so that what is made of windows spreads over the range."""
    least = -(1 << (precision.x - 1)) if precision.x_signed else 0
    is_sign = precision.x == SIGN_BITS
    patches = (layer.height // (2 * layer.kernel_height) + 1, layer.width // (2 * layer.kernel_width) + 1)
    patch = rng.integers(0, 1 << precision.x, (*patches, layer.channels))
    values = patch.repeat(2 * layer.kernel_height, axis=0).repeat(2 * layer.kernel_width, axis=1)
    values = values[: layer.height, : layer.width]
    lower = rng.integers(0, values, endpoint=True)
    found = np.where(rng.random(values.shape) < 1 / 2, values, lower) + least
    return 2 * found - 1 if is_sign else found


def check_maxpool(layer: MaxPoolLayer, precision: Precision) -> Precision:
    """The precision; raises :class:`LayerError` unless a maximum pooling can have it."""
    if layer.relu and not precision.x_signed:
        raise LayerError(f"precision of maxpool with relu must be signed, not {precision}")
    if (precision.x, precision.x_signed) != (precision.y, precision.y_signed):
        raise LayerError(f"precision of maxpool must be inputs and outputs of one width and sign, not {precision}")
    return precision


def random_maxpool(layer: MaxPoolLayer, precision: Precision, rng: np.random.Generator) -> PoolTensors:
    """A random map."""
    return PoolTensors(activations=random_map(layer, precision, rng))


def maxpool_kernel(
    layer: MaxPoolLayer,
    precision: Precision,
    name: str,
    tensors: PoolTensors,
    *,
    cores: int = 1,
    specialise: bool = False,
    placement: Placement = "padded",
) -> KernelRun:
    """The pooling of ``tensors`` for the level ``name``, with stacks for ``cores`` cores.

    The function is for windows and strides as in ``layer``. Memory symbols: ``input`` and ``output`` (HWC),
    ``arguments``, ``stack``.
    """
    level = POOL_LEVELS[name]
    level.check_precision(precision)
    check_maxpool(layer, precision)
    if tensors.folded:
        check_folded(layer)
    memory = ImageBuilder()
    maps = Maps(memory, layer.channels, precision.x)
    arguments = {
        "input": maps.place("input", fold(tensors.activations) if tensors.folded else tensors.activations, precision.x),
        "output": maps.reserve("output", layer.out_height * layer.out_width, precision.y),
        "pixel_bytes": maps.pixel_bytes(precision.x),
        "out_pixel_bytes": maps.pixel_bytes(precision.y),
        **window_arguments(layer),
    }
    return finished(
        layer,
        precision,
        level,
        Options(
            name=f"maxpool{'_relu' * layer.relu}{'_folded' * tensors.folded}_{window_name(layer)}",
            cores=cores,
            specialise=specialise,
            placement=placement,
        ),
        MAXPOOL_ARGUMENTS,
        memory,
        arguments,
        maps.pixel_bytes(precision.y),
        lambda known: (FoldedMaxPooling if tensors.folded else MaxPooling)(level, precision, layer, known).write(),
    )
