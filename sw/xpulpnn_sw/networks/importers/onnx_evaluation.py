"""Evaluation of ONNX models in floating point by onnx's reference evaluator, with corrections."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError
from xpulpnn_sw.networks.importers.calibration import Compute, Tensors
from xpulpnn_sw.networks.importers.onnx_node import MAP_AXES, OnnxNode, flat_attributes, window_of


def evaluated(model: Any) -> Callable[[Mapping[str, NDArray[Any]]], list[NDArray[Any]]]:
    from onnx.reference import ReferenceEvaluator

    evaluator: Any = ReferenceEvaluator(model, new_ops=_operators())

    def compute(inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        # functions may be infinite for some integers
        with np.errstate(all="ignore"):
            return [np.asarray(output) for output in evaluator.run(None, dict(inputs))]

    return compute


def every_tensor(model: Any) -> Compute:
    """Return a function that computes the outputs of all nodes; it raises :class:`InputError` if that fails."""
    from onnx import ModelProto, ValueInfoProto

    whole = ModelProto()
    whole.CopyFrom(model)
    names = [name for node in model.graph.node for name in node.output if name]
    del whole.graph.output[:]
    whole.graph.output.extend(ValueInfoProto(name=name) for name in names)
    try:
        outputs = evaluated(whole)
    except Exception as error:
        raise _not_computable(error) from None

    def compute(inputs: Tensors) -> Tensors:
        try:
            return dict(zip(names, outputs(inputs), strict=True))
        except Exception as error:
            raise _not_computable(error) from None

    return compute


def _not_computable(error: Exception) -> InputError:
    return InputError(f"model must be computable for its images, but {reason_of(error)}")


def reason_of(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _operators() -> list[Any]:
    """Return operators that replace faulty ones of onnx's reference evaluator."""
    from onnx.reference.op_run import OpRun

    def normalised(
        _: Any, x: Any, scale: Any, bias: Any, mean: Any, variance: Any, epsilon: float = 1e-5, **__: Any
    ) -> tuple[Any]:
        column = (-1, *(1,) * (x.ndim - 2))
        factor = scale / np.sqrt(variance + epsilon)
        return (((x - mean.reshape(column)) * factor.reshape(column) + bias.reshape(column)).astype(x.dtype),)

    def greatest(_: Any, x: Any, **attributes: Any) -> tuple[Any]:
        return (maximum_pool_of(x, {name: value for name, value in attributes.items() if value is not None}),)

    operators = {"BatchNormalization": normalised, "MaxPool": greatest}
    return [type(name, (OpRun,), {"op_domain": "", "_run": run}) for name, run in operators.items()]


def maximum_pool_of(x: NDArray[Any], attributes: Mapping[str, Any]) -> NDArray[Any]:
    node = OnnxNode(operator="MaxPool", name="", inputs=(), outputs=("",), attributes=attributes)
    if x.ndim < MAP_AXES:
        node = replace(node, attributes=flat_attributes(node))
    planes = x.reshape(-1, *x.shape[2:]) if x.ndim == MAP_AXES else x.reshape(-1, 1, x.shape[-1])
    window = window_of(node, (planes.shape[1], planes.shape[2], x.shape[1]), node.numbers("kernel_shape", ()))
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    pooled = window.views(planes, least).max(axis=(3, 4))
    return pooled.reshape(*x.shape[:2], *pooled.shape[1 if x.ndim == MAP_AXES else 2 :])
