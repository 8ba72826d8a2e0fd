"""Layer normalisations of TFLite models: the operators that Keras writes for one become one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sw.networks.importers.tflite_file import TfliteModel, TfliteOperator, TfliteTensor

Reals = NDArray[np.floating[Any]]
_TINY = 1e-30
_FUNCTIONS: Mapping[str, Callable[[Reals, Reals], Reals]] = {
    "MEAN": lambda values, _: values.mean(-1, keepdims=True),
    "NEG": lambda values, _: -values,
    "SQUARED_DIFFERENCE": lambda values, others: (values - others) ** 2,
    "ADD": lambda values, others: values + others,
    "SUB": lambda values, others: values - others,
    "MUL": lambda values, others: values * others,
    "RSQRT": lambda values, _: 1 / np.sqrt(np.maximum(values, _TINY)),
}
_ROWS, _SPREAD = 1000, 32  # random rows on which results are compared, and their standard deviation in codes


def with_normalisations(
    model: TfliteModel, operators: Sequence[TfliteOperator], note: Callable[[str], object]
) -> list[TfliteOperator]:
    """Put LAYER_NORMALIZATION in the place of the last of the operators that compute one; note how codes differ."""
    merged = list(operators)
    for operator in operators:
        chain = _chain(model, operators, operator) if operator.kind == "SQUARED_DIFFERENCE" else []
        if chain and (own := _normalisation(model, chain, operator, note)):
            merged[merged.index(chain[-1])] = own
    return merged


def _chain(model: TfliteModel, operators: Sequence[TfliteOperator], square: TfliteOperator) -> list[TfliteOperator]:
    """Return the operators from a mean to the first sum of two results behind a reciprocal root; [] for others."""
    source, *inner = square.inputs
    chain: list[TfliteOperator] = []
    for operator in operators:
        given = {tensor for tensor in operator.inputs if model.tensors[tensor].data is None}
        is_mean = operator.kind == "MEAN" and operator.outputs == tuple(inner[:1]) and given == {source}
        is_inside = chain and given <= {source, *inner} and not given.isdisjoint(inner)
        if operator.kind not in _FUNCTIONS or not (is_mean or is_inside):
            continue
        inner += operator.outputs
        chain.append(operator)
        is_behind = any(before.kind == "RSQRT" for before in chain[:-1])
        if is_behind and operator.kind in ("ADD", "SUB") and len(given) > 1:
            return chain
    return []


def _normalisation(
    model: TfliteModel, chain: Sequence[TfliteOperator], square: TfliteOperator, note: Callable[[str], object]
) -> TfliteOperator | None:
    source, behind = (model.tensors[tensor] for tensor in (square.inputs[0], chain[-1].outputs[0]))
    tensors = [model.tensors[tensor] for operator in chain for tensor in (*operator.inputs, *operator.outputs)]
    axes = [
        axis for own in tensors if own.type == "INT32" and own.data is not None for axis in own.data.ravel().tolist()
    ]
    is_last = all(axis % len(source.shape) == len(source.shape) - 1 for axis in axes)
    is_known = is_last and all(len(own.scales) == 1 for own in tensors if own.type == "INT8")
    root = next(operator for operator in chain if operator.kind == "RSQRT")
    added = next((operator for operator in chain if operator.outputs == root.inputs and operator.kind == "ADD"), None)
    if added is None or not is_known or any(own.options.get("FusedActivationFunction") for own in chain[:-1]):
        return None
    epsilon = float(_real(next(model.tensors[own] for own in added.inputs if model.tensors[own].data is not None))[0])
    random = np.random.default_rng(1).normal(0, _SPREAD * source.scales[0], (_ROWS, 1, source.shape[-1]))
    values = _nearest(source, random)
    centred = values - values.mean(-1, keepdims=True)
    whitened = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    exact = _evaluated(model, chain, square.inputs[0], values, rounds=False)
    beta = _evaluated(model, chain, square.inputs[0], values[:1] * 0, rounds=False)[0, 0]
    gamma = ((exact - beta) * whitened).sum((0, 1)) / (whitened**2).sum((0, 1))
    if not np.allclose(exact, gamma * whitened + beta, rtol=1e-4, atol=float(behind.scales[0]) / 100):
        return None
    theirs = _evaluated(model, chain, square.inputs[0], values, rounds=True)
    away = np.abs(np.rint((_nearest(behind, exact) - theirs) / behind.scales[0]))
    text = f"operators {chain[0].index} to {chain[-1].index} are one layer normalisation, without their roundings"
    note(
        f"{text}: on random rows {np.mean(away > 0):.0%} of codes differ from theirs, by {int(away.max())} at the most"
    )
    options = {"Gamma": gamma, "Beta": beta, "Epsilon": epsilon, **chain[-1].options}
    kind, inputs = "LAYER_NORMALIZATION", square.inputs[:1]
    return TfliteOperator(index=square.index, kind=kind, inputs=inputs, outputs=chain[-1].outputs, options=options)


def _real(tensor: TfliteTensor) -> Reals:
    data = np.zeros(1) if tensor.data is None else tensor.data.ravel().astype(np.float64)
    return (data - tensor.zeros[0]) * tensor.scales[0]


def _nearest(tensor: TfliteTensor, values: Reals) -> Reals:
    scale, zero = tensor.scales[0], tensor.zeros[0]
    return (np.clip(np.rint(values / scale) + zero, -128, 127) - zero) * scale


def _evaluated(
    model: TfliteModel, chain: Sequence[TfliteOperator], source: int, values: Reals, *, rounds: bool
) -> Reals:
    """Compute operators on rows; if ``rounds``, each result is the nearest that its tensor can be."""
    known, result = {source: values}, values
    for operator in chain:
        operands = [own for own in operator.inputs if model.tensors[own].type == "INT8"]
        first, *others = [known[own] if own in known else _real(model.tensors[own]) for own in operands]
        result = _FUNCTIONS[operator.kind](first, others[0] if others else first)
        if rounds:
            result = _nearest(model.tensors[operator.outputs[0]], result)
        known[operator.outputs[0]] = result
    return result
