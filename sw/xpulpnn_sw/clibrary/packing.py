"""Weights and parameters of a trained layer in the order in which a kernel reads them."""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError
from xpulpnn_sw.clibrary.functions import library_run
from xpulpnn_sw.kernels.channelwise.depthwise import DepthwiseTensors
from xpulpnn_sw.kernels.kernel import KernelRun
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
from xpulpnn_sw.layout import Ints, Words
from xpulpnn_sw.precision import ACCUMULATOR_BITS, SIGN_BITS, Precision

Arrays = Mapping[str, NDArray[Any]]

PACKED_KERNELS = ("conv", "conv1d", "pointwise", "linear", "matmul", "depthwise")
"""Kernels with weights."""

RULE_ARRAYS: Mapping[Rule | None, tuple[str, ...]] = {
    None: (),
    Rule.BN32: ("kappa", "lambda", "shift"),
    Rule.BN64: ("kappa", "lambda", "shift"),
    Rule.MULTIPLY: ("factor", "shift"),
    Rule.SHIFT: ("shift",),
    Rule.THRESHOLDS: ("thresholds",),
    Rule.QNT: ("thresholds",),
}
"""What each rule takes besides ``weights`` and ``bias``, which may be left out."""


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file; raises :class:`InputError` unless it is one of ``numpy.savez``."""
    if not path.is_file():
        raise InputError(f"weights must be an existing file, not {path}")
    try:
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise ValueError
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise InputError(f"weights must be a file of numpy.savez with numbers, not {path}") from None


@dataclass(frozen=True, eq=False, kw_only=True)
class Packed:
    """A layer for a function of the library.

    Parameters
    ----------
    run : KernelRun
        The function, and the layer with zeros for inputs.
    weights, parameters : array of uint32
        What its argument structure points to; read-ahead is part of the weights.
    input_bytes, output_bytes : int
        Room of the activations with what is read ahead, and of the results with what is written beyond.
    buffer_bytes : int
        Of one core; 0: there is no buffer.
    """

    run: KernelRun
    weights: Words
    parameters: Words
    input_bytes: int
    output_bytes: int
    buffer_bytes: int

    @property
    def constants(self) -> dict[str, int]:
        """The arguments that are no addresses."""
        return {f.name: self.run.arguments[f.name] for f in self.run.structure.fields if not f.pointer}


def packed(computing: Kind, layer: Layer, precision: Precision, variant: str, arrays: Arrays, rule: Rule) -> Packed:
    """A trained layer packed for a variant of a kernel.

    Parameters
    ----------
    computing : Kind
        One of :data:`PACKED_KERNELS`.
    layer : Layer
        Its layer.
    precision : Precision
        Widths of inputs, weights and results.
    variant : str
        How it is computed.
    arrays : mapping of str to array of int
        ``weights``, ``[out][ky][kx][channel]`` of a convolution, ``[out][k][channel]`` in one direction,
        ``[channel][ky][kx]`` depthwise, ``[out][in]`` of products; ``bias``, ``[out]``; and those of
        :data:`RULE_ARRAYS`, ``kappa`` and ``lambda`` ``[out]``, ``thresholds`` ``[out][levels - 1]``, the others
        single numbers.
    rule : Rule
        How results below 32 bits come of accumulators; of one bit by thresholds in any case.

    Raises
    ------
    InputError, LayerError
        Arrays that are missing or too many, have other shapes, or elements out of their range.
    """
    rule = _rule_of(computing, precision, rule)
    precision = computing.precision(layer, precision)
    computing.variant(variant).check_precision(precision)
    run = library_run(
        computing.build(layer, precision, variant, trained_tensors(computing, layer, precision, arrays, rule))
    )
    symbols, image = run.image.symbols, run.image
    return Packed(
        run=run,
        weights=image.view("weights").view("<u4"),
        parameters=image.view("parameters").view("<u4"),
        input_bytes=symbols["input"].length,
        output_bytes=symbols["output"].length,
        buffer_bytes=run.arguments.get("buffer_stride", 0),
    )


def trained_tensors(computing: Kind, layer: Layer, precision: Precision, arrays: Arrays, rule: Rule) -> Any:
    """The operands of a trained layer, zeros for its inputs: parameters and errors as of :func:`packed`."""
    rule = _rule_of(computing, precision, rule)
    precision = computing.precision(layer, precision)
    _check_names(arrays, rule if precision.requantised else None)
    weights = _ranged("weights", arrays["weights"], precision.w, signed=precision.w_signed)
    bias = _ranged("bias", arrays["bias"], ACCUMULATOR_BITS) if "bias" in arrays else None
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
    """How the results come of accumulators, where ``rule`` is asked for."""
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


def _check_names(arrays: Arrays, rule: Rule | None) -> None:
    needed = ("weights", *RULE_ARRAYS[rule])
    known = (*needed[:1], "bias", *needed[1:])
    for name in needed:
        if name not in arrays:
            raise InputError(f"arrays must be {', '.join(known)} (bias if there is one), not without {name}")
    for name in arrays:
        if name not in known:
            raise InputError(f"arrays must be {', '.join(known)} (bias if there is one), not also {name}")


def _ranged(name: str, values: NDArray[Any], bits: int, *, signed: bool = True) -> Ints:
    """The values; raises :class:`InputError` unless they are integers of so many bits."""
    if values.dtype.kind not in "iu":
        raise InputError(f"{name} must be integers, not {values.dtype}")
    if not values.size:
        raise InputError(f"{name} must have elements, not the shape {values.shape}")
    least = -(1 << (bits - 1)) if signed else 0
    greatest = least + (1 << bits) - 1
    low, high = int(values.min()), int(values.max())
    if bits == SIGN_BITS:
        if (others := values[np.abs(values) != 1]).size:
            raise InputError(f"{name} of one bit must be -1 or 1, not {others[0]}")
    elif low < least or high > greatest:
        raise InputError(f"{name} must be {least}..{greatest}, not {low if low < least else high}")
    return values.astype(np.int64)


def _number(name: str, values: NDArray[Any]) -> int:
    if values.size != 1:
        raise InputError(f"{name} must be a single number, not of shape {values.shape}")
    return int(_ranged(name, values, ACCUMULATOR_BITS).reshape(()))


def _requantisation(arrays: Arrays, rule: Rule) -> AnyRequantisation:
    """What the rule needs."""
    if rule in (Rule.THRESHOLDS, Rule.QNT):
        values = arrays["thresholds"]
        if values.ndim != 2:
            raise InputError(f"thresholds must be [channel][level], not of shape {values.shape}")
        kind = SearchedThresholds if rule is Rule.QNT else Thresholds
        return kind(values=_ranged("thresholds", values, ACCUMULATOR_BITS))
    shift = _number("shift", arrays["shift"])
    if rule is Rule.SHIFT:
        return Shifting(shift=shift)
    if rule is Rule.MULTIPLY:
        return Multiplication(factor=_number("factor", arrays["factor"]), shift=shift)
    wide = rule is Rule.BN64
    bits = 2 * ACCUMULATOR_BITS if wide else ACCUMULATOR_BITS
    kappa, lam = (_ranged(name, arrays[name], bits) for name in ("kappa", "lambda"))
    return (WideRequantisation if wide else Requantisation)(kappa=kappa, lam=lam, shift=shift)
