"""Selection of the operators of a TFLite model that become layers; others are folded into these or removed."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.networks.importers.tflite_file import TfliteModel, TfliteOperator

# operators at the end that do not change which result is the greatest
END_KINDS = ("SOFTMAX", "LOG_SOFTMAX", "LOGISTIC", "DEQUANTIZE")
# operators on shapes, for flattening with an unknown batch
_SHAPES = ("SHAPE", "STRIDED_SLICE", "PACK", "CONCATENATION")
_INTEGERS = ("INT32", "INT64")
_RESHAPES = ("EXPAND_DIMS", "RESHAPE", "SQUEEZE")
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
_VALID = 1


def layer_operators(model: TfliteModel, note: Callable[[str], object]) -> tuple[list[TfliteOperator], int, int]:
    """Return the operators that become layers, and the input and output tensors' indices; report removed ones."""
    operators, (first,), (last,) = list(model.operators), model.inputs, model.outputs
    if not operators:
        raise InputError("operators of the model must be one at least, not none")
    if operators[0].kind == "QUANTIZE" and operators[0].inputs == (first,):
        removed = operators.pop(0)
        note(f"{removed} is left out: inputs are the codes behind it")
        first = removed.outputs[0]
    while operators and operators[-1].inputs and operators[-1].outputs[:1] == (last,) and _is_end(model, operators):
        removed = operators.pop()
        note(f"{removed} is left out: results are the codes before it")
        last = removed.inputs[0]
    remaining = [
        operator
        for operator in operators
        if operator.kind not in _SHAPES or _type(model, operator.outputs) not in _INTEGERS
    ]
    return _with_gaps(model, remaining), first, last


def _type(model: TfliteModel, tensors: Sequence[int]) -> str:
    return model.tensors[tensors[0]].type if tensors else ""


def _is_end(model: TfliteModel, operators: Sequence[TfliteOperator]) -> bool:
    """Return whether the last operator only changes how results are represented."""
    end = operators[-1]
    is_behind = len(operators) > 1 and operators[-2].kind in END_KINDS and operators[-2].outputs[:1] == end.inputs[:1]
    return end.kind in END_KINDS or (end.kind == "QUANTIZE" and (is_behind or _type(model, end.outputs) == "UINT8"))


def _with_gaps(model: TfliteModel, operators: Sequence[TfliteOperator]) -> list[TfliteOperator]:
    """Replace convolutions between ``SPACE_TO_BATCH_ND`` and ``BATCH_TO_SPACE_ND`` by dilated convolutions."""
    merged: list[TfliteOperator] = []
    rest = list(operators)
    while rest:
        first = rest.pop(0)
        if first.kind != "SPACE_TO_BATCH_ND":
            merged.append(first)
            continue
        inner = [first]
        while inner[-1].kind != "BATCH_TO_SPACE_ND":
            if not rest or inner[-1].outputs[:1] != rest[0].inputs[:1]:
                raise InputError(f"{first}: a convolution and BATCH_TO_SPACE_ND must follow, not others")
            inner.append(rest.pop(0))
        merged.append(_merged(model, inner))
    return merged


def _merged(model: TfliteModel, operators: Sequence[TfliteOperator]) -> TfliteOperator:
    before, *inner, behind = operators
    computing = [operator for operator in inner if operator.kind not in _RESHAPES]
    if len(computing) != 1 or computing[0].kind not in _CONVOLUTIONS:
        raise InputError(f"{before}: a convolution alone must be in front of {behind}, not others")
    convolution, options = computing[0], computing[0].options
    distances, around = _numbers(model, before, 1), _numbers(model, before, 2).reshape(-1, 2)
    cut = _numbers(model, behind, 2).reshape(-1, 2)
    axes, steps = len(distances), [options[f"Stride{way}"] for way in "HW"]
    gaps = [options[f"Dilation{way}Factor"] for way in "HW"]
    is_same = np.array_equal(distances, _numbers(model, behind, 1)) and around.shape == cut.shape == (
        axes,
        2,
    )
    is_plain = options["Padding"] == _VALID and steps == [1, 1] == gaps
    if not (is_same and is_plain and 1 <= axes <= len(gaps) and (around >= cut).all() and (cut >= 0).all()):
        raise InputError(f"{before}: blocks must be those of a convolution with gaps in its filters, not others")
    # the axis of a sequence is that of columns
    pads = [0, 0] * (len(gaps) - axes) + (around - cut).reshape(-1).tolist()
    gaps = [1] * (len(gaps) - axes) + distances.tolist()
    wider = {"DilationHFactor": gaps[0], "DilationWFactor": gaps[1], "Around": tuple(pads)}
    return replace(
        convolution,
        inputs=(before.inputs[0], *convolution.inputs[1:]),
        outputs=behind.outputs,
        options={**options, **wider},
    )


def _numbers(model: TfliteModel, operator: TfliteOperator, place: int) -> Ints:
    data = model.tensors[operator.inputs[place]].data if place < len(operator.inputs) else None
    if data is None or data.dtype.kind != "i" or data.size % place:
        raise InputError(f"{operator}: input {place} must be integers in the file, a pair for each axis, not others")
    return data.astype(np.int64).reshape(-1)
