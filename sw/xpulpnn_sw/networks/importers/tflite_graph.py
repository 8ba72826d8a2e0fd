"""The choice of the operators of a TFLite model that become layers, and the shapes that the model computes itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.networks.importers.tflite_file import TfliteModel, TfliteOperator

# operators at the end that do not change which result is the greatest
END_KINDS = ("SOFTMAX", "LOG_SOFTMAX", "LOGISTIC", "DEQUANTIZE", "ARG_MAX")
_INTEGERS = ("INT32", "INT64")
_RESHAPES = ("EXPAND_DIMS", "RESHAPE", "SQUEEZE")
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
_VALID = 1


def layer_operators(model: TfliteModel, note: Callable[[str], object]) -> tuple[list[TfliteOperator], int, int]:
    """Return the operators that become layers, and the input and output tensors' indices; report removed ones."""
    operators, (first,), (last,) = _needed(model.operators, model.outputs), model.inputs, model.outputs
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
    remaining = [operator for operator in operators if _type(model, operator.outputs) not in _INTEGERS]
    return _with_dilations(model, remaining), first, last


def _needed(operators: Sequence[TfliteOperator], outputs: Sequence[int]) -> list[TfliteOperator]:
    """Return the operators whose results the outputs depend on."""
    wanted, kept = {*outputs}, list[TfliteOperator]()
    for operator in reversed(operators):
        if wanted & {*operator.outputs}:
            kept.append(operator)
            wanted.update(operator.inputs)
    return kept[::-1]


def _type(model: TfliteModel, tensors: Sequence[int]) -> str:
    return model.tensors[tensors[0]].type if tensors else ""


def _is_end(model: TfliteModel, operators: Sequence[TfliteOperator]) -> bool:
    """Return whether the last operator only changes the representation of the results, and can be removed."""
    end = operators[-1]
    is_behind = len(operators) > 1 and operators[-2].kind in END_KINDS and operators[-2].outputs[:1] == end.inputs[:1]
    return end.kind in END_KINDS or (end.kind == "QUANTIZE" and (is_behind or _type(model, end.outputs) == "UINT8"))


def _with_dilations(model: TfliteModel, operators: Sequence[TfliteOperator]) -> list[TfliteOperator]:
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
    is_same = np.array_equal(distances, _numbers(model, behind, 1)) and around.shape == cut.shape == (axes, 2)
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


# operators, and the number of their first input that moves
MOVES = {
    **dict.fromkeys(("TRANSPOSE", "SPLIT_V", "SLICE", "STRIDED_SLICE", "GATHER", "TILE", "MIRROR_PAD"), 0),
    **dict.fromkeys(("SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "REVERSE_V2", "UNPACK"), 0),
    **dict.fromkeys(("BROADCAST_TO", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"), 0),
    "SPLIT": 1,
}


def moved(kind: str, places: Ints, given: Sequence[Ints], options: Mapping[str, Any], outputs: int) -> list[Ints]:
    """Return the elements of each output of an operator, as numbers of elements of its input.

    ``given`` are the operator's constants, in their order.
    """
    first = given[0].reshape(-1).tolist() if given else []
    match kind:
        case "TRANSPOSE":
            return [places.transpose(first)]
        case "SPLIT":
            return np.split(places, outputs, axis=first[0])
        case "SPLIT_V":
            return np.split(places, np.cumsum(first)[:-1], axis=int(given[1].reshape(-1)[0]))
        case "SLICE":
            sizes = given[1].reshape(-1).tolist()
            ends = (None if size < 0 else begin + size for begin, size in zip(first, sizes, strict=True))
            return [places[tuple(map(slice, first, ends))]]
        case "STRIDED_SLICE":
            ends, steps = (own.reshape(-1).tolist() for own in given[1:])
            return [places[_slices(first, ends, steps, options)]]
        case "GATHER":
            return [np.take(places, given[0], axis=options["Axis"])]
        case "TILE":
            return [np.tile(places, first)]
        case "MIRROR_PAD":
            around = given[0].reshape(-1, 2).tolist()
            return [np.pad(places, around, mode="symmetric" if options["Mode"] else "reflect")]
        case "SPACE_TO_DEPTH" | "DEPTH_TO_SPACE":
            return [_blocks(places, options["BlockSize"], is_deep=kind == "SPACE_TO_DEPTH")]
        case "REVERSE_V2":
            return [np.flip(places, tuple(first))]
        case "BROADCAST_TO":
            return [np.broadcast_to(places, first)]
        case "UNPACK":
            return [np.take(places, number, axis=options["Axis"]) for number in range(outputs)]
        case _:
            raise InputError("a convolution alone must be between the two operators of its blocks, not others")


def _slices(begins: list[int], ends: list[int], steps: list[int], options: Mapping[str, Any]) -> tuple[Any, ...]:
    if options["EllipsisMask"] or options["NewAxisMask"]:
        raise InputError("masks of axes must be 0, not others")
    slices: list[Any] = []
    for axis, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        if options["ShrinkAxisMask"] >> axis & 1:
            slices.append(begin)
            continue
        start, stop = (None if options[f"{name}Mask"] >> axis & 1 else value for name, value in _pairs(begin, end))
        slices.append(slice(start, stop, step))
    return tuple(slices)


def _pairs(begin: int, end: int) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("Begin", begin), ("End", end)


def _blocks(places: Ints, size: int, *, is_deep: bool) -> Ints:
    _, height, width, channels = places.shape
    if is_deep:
        parts = places.reshape(1, height // size, size, width // size, size, channels).transpose(0, 1, 3, 2, 4, 5)
        return parts.reshape(1, height // size, width // size, -1)
    parts = places.reshape(1, height, width, size, size, -1).transpose(0, 1, 3, 2, 4, 5)
    return parts.reshape(1, height * size, width * size, -1)
