"""Weights, parameters and scales of a layer in the order in which its kernel reads them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.channelwise.avgpool import AvgPoolTensors
from xpulpnn_sw.kernels.channelwise.elementwise import AddTensors, Scale
from xpulpnn_sw.kernels.kinds import Kind
from xpulpnn_sw.kernels.requantisation import (
    MAX_SHIFT,
    AnyRequantisation,
    Multiplication,
    Requantisation,
    Rule,
    SearchedThresholds,
    Shifting,
    Thresholds,
    WideRequantisation,
)
from xpulpnn_sw.layers.channelwise import AddLayer, AvgPoolLayer, DepthwiseLayer
from xpulpnn_sw.layers.convolution import Layer
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS, SIGN_BITS, Precision
from xpulpnn_sw.library.functions import library_run
from xpulpnn_sw.library.packed_layer import Arrays, PackedLayer, check_names, packed_run, ranged, single_number

_MAPS = 2  # maps of an addition

# what makes each rule, and its arrays besides `weights` and `bias`
_RULES: Mapping[Rule, tuple[Callable[..., AnyRequantisation], tuple[str, ...]]] = {
    Rule.BN32: (Requantisation, ("kappa", "lambda", "shift")),
    Rule.BN64: (WideRequantisation, ("kappa", "lambda", "shift")),
    Rule.MULTIPLY: (Multiplication, ("factor", "shift")),
    Rule.SHIFT: (Shifting, ("shift",)),
    Rule.THRESHOLDS: (Thresholds, ("thresholds",)),
    Rule.QNT: (SearchedThresholds, ("thresholds",)),
}
_FIELDS = {"lambda": "lam", "thresholds": "values"}  # of rules, where an array is not called like it


def packed(
    computing: Kind, layer: Layer, precision: Precision, variant: str, arrays: Arrays, rule: Rule
) -> PackedLayer:
    """Pack a layer for a variant of a kernel."""
    widths = computing.precision(layer, precision)
    computing.variant(variant).check_precision(widths)
    tensors = layer_operands(computing, layer, precision, arrays, rule)
    contents = ("first_table", "second_table") if "shifts" in arrays else ()
    if computing.rules:
        contents = ("weights", "parameters")
    return packed_run(library_run(computing.build(layer, widths, variant, tensors)), contents)


def layer_operands(computing: Kind, layer: Layer, precision: Precision, arrays: Arrays, rule: Rule) -> Any:
    """The operands of a layer, with zeros for its inputs; raises :class:`InputError` for arrays that do not fit."""
    if computing.rules:
        return _trained(computing, layer, precision, arrays, rule)
    if rule is not Rule.BN32:
        raise InputError(f"requantisation must be left out with {computing.name}, not {rule.value}")
    return _maps(computing, layer, computing.precision(layer, precision), arrays)


def layer_arrays(layer: Layer, tensors: Any) -> dict[str, Any]:
    """The arrays of which :func:`layer_operands` makes these operands; None for one that is left out."""
    if hasattr(tensors, "weights"):
        after = tensors.requantisation
        names = () if after is None else _RULES[after.rule][1]
        own = {"weights": tensors.weights, "bias": tensors.bias}
        return own | {name: getattr(after, _FIELDS.get(name, name)) for name in names}
    names = _map_arrays(layer)
    if "shifts" in names:
        return {name: [getattr(one, name.removesuffix("s")) for one in tensors.scales] for name in names}
    return {name: getattr(tensors, name) for name in names}


def _trained(computing: Kind, layer: Layer, precision: Precision, arrays: Arrays, rule: Rule) -> Any:
    rule = _rule_of(computing, precision, rule)
    precision = computing.precision(layer, precision)
    check_names(arrays, ("weights", "bias", *(_RULES[rule][1] if precision.requantised else ())), "bias")
    weights = ranged("weights", arrays["weights"], precision.w, signed=precision.w_signed)
    bias = ranged("bias", arrays["bias"], ACCUMULATOR_BITS) if "bias" in arrays else None
    # for the shapes of everything else
    example = computing.tensors(layer, precision, np.random.default_rng(0), rule)
    after = _requantisation(arrays, rule) if precision.requantised else None
    if isinstance(layer, DepthwiseLayer):
        bias = np.zeros_like(example.bias) if bias is None else bias
    inputs = np.zeros_like(example.activations)
    return replace(example, activations=inputs, weights=weights, bias=bias, requantisation=after)


def _rule_of(computing: Kind, precision: Precision, rule: Rule) -> Rule:
    if precision.y == SIGN_BITS and rule not in (Rule.BN32, Rule.THRESHOLDS):
        raise InputError(f"requantisation must be thresholds for results of one bit, not {rule.value}")
    if precision.y == SIGN_BITS:
        rule = Rule.THRESHOLDS
    if rule not in computing.rules:
        known = ", ".join(one.value for one in computing.rules)
        raise InputError(f"requantisation must be one of {known} with {computing.name}, not {rule.value}")
    return rule


def _requantisation(arrays: Arrays, rule: Rule) -> AnyRequantisation:
    make, names = _RULES[rule]
    bits = 2 * ACCUMULATOR_BITS if rule is Rule.BN64 else ACCUMULATOR_BITS
    fields: dict[str, Any] = {}
    for name in names:
        values = arrays[name]
        if name == "thresholds" and values.ndim != 2:
            raise InputError(f"thresholds must be [channel][level], not of shape {values.shape}")
        is_single = name in ("factor", "shift")
        fields[_FIELDS.get(name, name)] = single_number(name, values) if is_single else ranged(name, values, bits)
    return make(**fields)


def _map_arrays(layer: Layer) -> tuple[str, ...]:
    """Names of the arrays of a layer without weights."""
    match layer:
        case AddLayer(shifted=True):
            return ("factors", "summand", "shift")
        case AddLayer():
            return ("factors", "summands", "shifts")
        case AvgPoolLayer(scaled=True):
            return ("factor", "summand", "shift")
        case _:
            return ()


def _maps(computing: Kind, layer: Layer, precision: Precision, arrays: Arrays) -> Any:
    names = _map_arrays(layer)
    check_names(arrays, names, "summand" if isinstance(layer, AddLayer) else "")
    tensors = computing.tensors(layer, precision, np.random.default_rng(0))
    if isinstance(tensors, AddTensors):
        tensors = replace(tensors, first=np.zeros_like(tensors.first), second=np.zeros_like(tensors.second))
        return replace(tensors, **_scales(arrays))
    tensors = replace(tensors, activations=np.zeros_like(tensors.activations))
    if isinstance(tensors, AvgPoolTensors) and arrays:
        return replace(tensors, **{name: single_number(name, arrays[name]) for name in names})
    return tensors


def _scales(arrays: Arrays) -> dict[str, Any]:
    factors = _pair("factors", arrays)
    if "shifts" in arrays:
        shifts = [_shift(shift) for shift in _pair("shifts", arrays)]
        return {"scales": tuple(map(Scale, factors, _pair("summands", arrays), shifts))}
    shift = _shift(single_number("shift", arrays["shift"]))
    summand = single_number("summand", arrays["summand"]) if "summand" in arrays else 0
    return {"factors": tuple(factors), "shift": shift, "summand": summand}


def _pair(name: str, arrays: Arrays) -> list[int]:
    values = ranged(name, arrays[name], ACCUMULATOR_BITS)
    if values.shape != (_MAPS,):
        raise InputError(f"{name} must be [2], a number for each map, not of shape {values.shape}")
    return [int(value) for value in values]


def _shift(shift: int) -> int:
    if not 0 <= shift <= MAX_SHIFT:
        raise InputError(f"shift must be 0..{MAX_SHIFT}, not {shift}")
    return shift
