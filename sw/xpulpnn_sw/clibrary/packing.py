"""Weights and parameters of a trained layer in the order in which a kernel reads them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.clibrary.functions import library_run
from xpulpnn_sw.clibrary.packed_layer import Arrays, Packed, check_names, number, packed_run, ranged
from xpulpnn_sw.kernels.channelwise.depthwise import DepthwiseTensors
from xpulpnn_sw.kernels.kind import Kind
from xpulpnn_sw.kernels.requantisation import (
    AnyRequantisation,
    Multiplication,
    Requantisation,
    Rule,
    SearchedThresholds,
    Shifting,
    Thresholds,
    WideRequantisation,
)
from xpulpnn_sw.layer import Layer
from xpulpnn_sw.precision import ACCUMULATOR_BITS, SIGN_BITS, Precision

PACKED_KERNELS = ("conv", "conv1d", "pointwise", "linear", "matmul", "depthwise")  # kernels with weights

# what each rule takes besides `weights` and `bias`, which may be left out
RULE_ARRAYS: Mapping[Rule | None, tuple[str, ...]] = {
    None: (),
    Rule.BN32: ("kappa", "lambda", "shift"),
    Rule.BN64: ("kappa", "lambda", "shift"),
    Rule.MULTIPLY: ("factor", "shift"),
    Rule.SHIFT: ("shift",),
    Rule.THRESHOLDS: ("thresholds",),
    Rule.QNT: ("thresholds",),
}


def packed(computing: Kind, layer: Layer, precision: Precision, variant: str, arrays: Arrays, rule: Rule) -> Packed:
    """A trained layer packed for a variant of a kernel."""
    rule = _rule_of(computing, precision, rule)
    precision = computing.precision(layer, precision)
    computing.variant(variant).check_precision(precision)
    run = library_run(
        computing.build(layer, precision, variant, trained_tensors(computing, layer, precision, arrays, rule))
    )
    return packed_run(run, ("weights", "parameters"))


def trained_tensors(computing: Kind, layer: Layer, precision: Precision, arrays: Arrays, rule: Rule) -> Any:
    """The operands of a trained layer, zeros for its inputs: parameters and errors as of :func:`packed`."""
    rule = _rule_of(computing, precision, rule)
    precision = computing.precision(layer, precision)
    check_names(arrays, ("weights", *RULE_ARRAYS[rule if precision.requantised else None]), "bias")
    weights = ranged("weights", arrays["weights"], precision.w, signed=precision.w_signed)
    bias = ranged("bias", arrays["bias"], ACCUMULATOR_BITS) if "bias" in arrays else None
    # for the shapes of everything else
    example = computing.tensors(layer, precision, np.random.default_rng(0), rule)
    after = _requantisation(arrays, rule) if precision.requantised else None
    if isinstance(example, DepthwiseTensors):
        bias = np.zeros_like(example.bias) if bias is None else bias
    return replace(
        example,
        activations=np.zeros_like(example.activations),
        weights=weights,
        bias=bias,
        requantisation=after,
    )


def _rule_of(computing: Kind, precision: Precision, rule: Rule) -> Rule:
    if computing.name not in PACKED_KERNELS:
        raise InputError(f"kernel must be one with weights ({', '.join(PACKED_KERNELS)}), not {computing.name}")
    if precision.y == SIGN_BITS and rule not in (Rule.BN32, Rule.THRESHOLDS):
        raise InputError(f"--requantise must be thresholds for results of one bit, not {rule.value}")
    if precision.y == SIGN_BITS:
        rule = Rule.THRESHOLDS
    if rule not in computing.rules:
        known = ", ".join(one.value for one in computing.rules)
        raise InputError(f"--requantise must be one of {known} with {computing.name}, not {rule.value}")
    return rule


def _requantisation(arrays: Arrays, rule: Rule) -> AnyRequantisation:
    if rule in (Rule.THRESHOLDS, Rule.QNT):
        values = arrays["thresholds"]
        if values.ndim != 2:
            raise InputError(f"thresholds must be [channel][level], not of shape {values.shape}")
        kind = SearchedThresholds if rule is Rule.QNT else Thresholds
        return kind(values=ranged("thresholds", values, ACCUMULATOR_BITS))
    shift = number("shift", arrays["shift"])
    if rule is Rule.SHIFT:
        return Shifting(shift=shift)
    if rule is Rule.MULTIPLY:
        return Multiplication(factor=number("factor", arrays["factor"]), shift=shift)
    wide = rule is Rule.BN64
    bits = 2 * ACCUMULATOR_BITS if wide else ACCUMULATOR_BITS
    kappa, lam = (ranged(name, arrays[name], bits) for name in ("kappa", "lambda"))
    return (WideRequantisation if wide else Requantisation)(kappa=kappa, lam=lam, shift=shift)
