"""Layers without weights packed for their functions: additions with their scales, pools, ReLU, transpositions."""

from dataclasses import replace
from typing import Any

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.clibrary.functions import library_run
from xpulpnn_sw.clibrary.packed_layer import Arrays, Packed, check_names, number, packed_run, ranged
from xpulpnn_sw.kernels.channelwise.add import AddTensors, Scale
from xpulpnn_sw.kernels.channelwise.avgpool import AvgPoolTensors
from xpulpnn_sw.kernels.kind import Kind
from xpulpnn_sw.kernels.requantisation import MAX_SHIFT, Rule
from xpulpnn_sw.layer import Layer
from xpulpnn_sw.layers.channelwise import AddLayer, AvgPoolLayer
from xpulpnn_sw.precision import ACCUMULATOR_BITS, Precision

MAP_KERNELS = ("add", "avgpool", "maxpool", "relu", "transpose")  # kernels without weights
_MAPS = 2  # maps of an addition


def map_arrays(layer: Layer) -> tuple[str, ...]:
    """The arrays that a layer needs."""
    if isinstance(layer, AddLayer):
        return ("factors", "shift") if layer.shifted else ("factors", "summands", "shifts")
    if isinstance(layer, AvgPoolLayer) and layer.scaled:
        return ("factor", "summand", "shift")
    return ()


def packed_maps(
    computing: Kind, layer: Layer, precision: Precision, variant: str, arrays: Arrays, rule: Rule
) -> Packed:
    """A layer packed for a variant of a kernel."""
    if rule is not Rule.BN32:
        raise InputError(f"--requantise must be left out with {computing.name}, not {rule.value}")
    precision = computing.precision(layer, precision)
    computing.variant(variant).check_precision(precision)
    tensors = map_tensors(computing, layer, precision, arrays)
    contents = ("first_table", "second_table") if "shifts" in arrays else ()
    return packed_run(library_run(computing.build(layer, precision, variant, tensors)), contents)


def map_tensors(computing: Kind, layer: Layer, precision: Precision, arrays: Arrays) -> Any:
    """The operands of a layer, zeros for its maps: parameters and errors as of :func:`packed_maps`."""
    is_shifted = isinstance(layer, AddLayer) and layer.shifted
    check_names(arrays, map_arrays(layer), "summand" if is_shifted else "")
    tensors = computing.tensors(layer, precision, np.random.default_rng(0))
    if isinstance(tensors, AddTensors):
        factors = _pair("factors", arrays)
        tensors = replace(tensors, first=np.zeros_like(tensors.first), second=np.zeros_like(tensors.second))
        if "shifts" in arrays:
            shifts = [_shift(shift) for shift in _pair("shifts", arrays)]
            first, second = map(Scale, factors, _pair("summands", arrays), shifts)
            return replace(tensors, scales=(first, second))
        shift = _shift(number("shift", arrays["shift"]))
        summand = number("summand", arrays["summand"]) if "summand" in arrays else 0
        return replace(tensors, factors=(factors[0], factors[1]), shift=shift, summand=summand)
    tensors = replace(tensors, activations=np.zeros_like(tensors.activations))
    if isinstance(tensors, AvgPoolTensors) and arrays:
        factor, summand, shift = (number(name, arrays[name]) for name in ("factor", "summand", "shift"))
        return replace(tensors, factor=factor, summand=summand, shift=shift)
    return tensors


def _pair(name: str, arrays: Arrays) -> list[int]:
    values = ranged(name, arrays[name], ACCUMULATOR_BITS)
    if values.shape != (_MAPS,):
        raise InputError(f"{name} must be [2], a number for each map, not of shape {values.shape}")
    return [int(value) for value in values]


def _shift(shift: int) -> int:
    if not 0 <= shift <= MAX_SHIFT:
        raise InputError(f"shift must be 0..{MAX_SHIFT}, not {shift}")
    return shift
