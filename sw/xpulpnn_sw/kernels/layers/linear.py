"""Kernels of fully connected layers: four neurons at a time, the cores share the neurons."""

from dataclasses import replace

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.arguments import LINEAR_ARGUMENTS
from xpulpnn_sw.kernels.kernel import KernelRun, kernel_run
from xpulpnn_sw.kernels.layers.conv import receptive_fields
from xpulpnn_sw.kernels.operands import Blocking, place_operands
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.tensors import LayerTensors, random_tensors
from xpulpnn_sw.kernels.variants import ONE_PIXEL, Variant
from xpulpnn_sw.layer import ConvLayer
from xpulpnn_sw.layers.linear import LinearLayer
from xpulpnn_sw.layout import ImageBuilder, Placement, pack_words
from xpulpnn_sw.precision import Precision

_AHEAD = 2
"""Words that may be read behind the inputs: one fetched ahead, and one that fills up a pair."""


def linear_variant(name: str) -> Variant:
    """The variant called ``name``; raises :class:`LayerError` for an unknown one."""
    try:
        return ONE_PIXEL[name]
    except KeyError:
        raise LayerError(f"variant must be one of {', '.join(ONE_PIXEL)}, not {name}") from None


def linear_precision(layer: LinearLayer, precision: Precision) -> Precision:
    """That of a layer: accumulators if it is raw."""
    return precision.accumulators if layer.raw else precision


def linear_kernel(
    layer: LinearLayer,
    precision: Precision,
    name: str,
    tensors: LayerTensors,
    *,
    cores: int = 1,
    specialise: bool = False,
    placement: Placement = "padded",
) -> KernelRun:
    """The layer of ``tensors``, activations ``[input]``, weights ``[output][input]``.

    Inputs as wide as the weights are read where they are; others become a row of each core's buffer first.
    Memory symbols: ``input``, ``weights`` (streams of rows), ``parameters``, ``output``, ``arguments``, ``stack``, and
    ``im2col`` if there are buffers. A specialised function is for this layer only.
    """
    chosen, geometry = linear_variant(name), layer.geometry
    chosen.check_precision(precision)
    precision = chosen.computed(precision)
    tensors.check_shapes((layer.inputs,), (layer.outputs, layer.inputs))
    if chosen.row_bits(precision.w) != precision.x:
        pixel = ConvLayer(
            height=1,
            width=1,
            channels=layer.inputs,
            out_channels=layer.outputs,
            kernel_height=1,
            kernel_width=1,
            padding=(0, 0, 0, 0),
        )
        shaped = replace(
            tensors,
            activations=tensors.activations.reshape(1, 1, -1),
            weights=tensors.weights.reshape(layer.outputs, 1, 1, -1),
        )
        return receptive_fields("linear", layer, pixel, precision, chosen, shaped, cores, specialise, placement)
    tensors.check(geometry, precision, activations=(layer.inputs,))
    rows = pack_words(tensors.weights, precision.w)
    # the end of the inputs tells where RV32IM is through, so that they fill whole words of weights
    inputs = pack_words(tensors.activations[np.newaxis], precision.x)
    # accumulators, that of one layer alone
    unbiased = specialise and tensors.bias is None and not precision.requantised
    blocking = Blocking(chosen, precision, tensors.rule, has_biases=not unbiased)
    memory = ImageBuilder()
    missing = blocking.filled(rows.shape[1]) * (precision.x // precision.w) - inputs.shape[1]
    arguments = {
        "input": memory.place("input", inputs, spare=missing + _AHEAD),
        **place_operands(memory, blocking, geometry, tensors, rows, placement),
        "row_words": rows.shape[1],
    }
    return kernel_run(
        "linear",
        layer,
        blocking,
        LINEAR_ARGUMENTS,
        memory,
        arguments,
        cores=cores,
        specialise=specialise,
        placement=placement,
    )


def random_linear(
    layer: LinearLayer, precision: Precision, rng: np.random.Generator, *, rule: Rule = Rule.BN32
) -> LayerTensors:
    """Operands as of :func:`~xpulpnn_sw.kernels.tensors.random_tensors`."""
    tensors = random_tensors(layer.geometry, precision, rng, rule=rule)
    return replace(tensors, activations=tensors.activations[0])
