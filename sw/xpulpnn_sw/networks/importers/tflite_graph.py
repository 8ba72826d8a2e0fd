"""The choice of the operators of a TFLite model that become layers, and the shapes that the model computes itself."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import floor, prod
from typing import Any

import numpy as np

from xpulpnn.errors import InputError, require
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.networks.importers.moved_maps import nearest_places
from xpulpnn_sw.networks.importers.onnx_ends import ONE_BY_ONE
from xpulpnn_sw.networks.importers.tflite_file import TfliteModel, TfliteOperator, TfliteTensor
from xpulpnn_sw.networks.importers.tflite_normalisation import with_normalisations

# operators at the end that do not change which result is the greatest
END_KINDS = ("SOFTMAX", "LOG_SOFTMAX", "LOGISTIC", "DEQUANTIZE", "ARG_MAX")
_INTEGERS = ("INT32", "INT64")
_RESHAPES = ("EXPAND_DIMS", "RESHAPE", "SQUEEZE")
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
_VALID, _MAP_RANK = 1, 4


def layer_operators(
    model: TfliteModel, note: Callable[[str], object]
) -> tuple[list[TfliteOperator], list[int], list[int]]:
    """Return the operators that become layers, and the input and output tensors' indices; report removed ones."""
    operators, inputs, outputs = _needed(model.operators, model.outputs), [*model.inputs], [*model.outputs]
    require(operators, "operators of the model must be one at least, not none")
    for place, first in enumerate(inputs):
        readers = [operator for operator in operators if first in operator.inputs]
        if [operator.kind for operator in readers] == ["QUANTIZE"]:
            note(f"{readers[0]} is left out: inputs are the codes behind it")
            operators.remove(readers[0])
            inputs[place] = readers[0].outputs[0]
    for place in range(len(outputs)):
        is_behind = False
        while (end := _end(model, operators, outputs[place], is_behind=is_behind)) is not None:
            note(f"{end} is left out: results are the codes before it")
            operators.remove(end)
            outputs[place], is_behind = end.inputs[0], end.kind == "QUANTIZE"
    computing = [operator for operator in operators if model.tensors[operator.outputs[0]].data is None]
    remaining = [operator for operator in computing if _type(model, operator.outputs) not in _INTEGERS]
    merged = with_normalisations(model, _without_floats(remaining), note)
    return _needed(_with_dilations(model, merged), outputs), inputs, outputs


def _needed(operators: Sequence[TfliteOperator], outputs: Sequence[int]) -> list[TfliteOperator]:
    wanted, kept = {*outputs}, list[TfliteOperator]()
    for operator in reversed(operators):
        if wanted & {*operator.outputs}:
            kept.append(operator)
            wanted.update(operator.inputs)
    return kept[::-1]


def _without_floats(operators: Sequence[TfliteOperator]) -> list[TfliteOperator]:
    """Join a function of numbers in floating point with DEQUANTIZE before it and QUANTIZE, also behind other shapes."""
    merged: list[TfliteOperator] = []
    readers = Counter(tensor for operator in operators for tensor in operator.inputs)
    for operator in operators:
        chain = [operator]
        for before in reversed(merged if operator.kind == "QUANTIZE" else ()):
            if before.outputs != chain[0].inputs[:1] or readers[before.outputs[0]] > 1:
                break
            chain.insert(0, before)
        first, *inner = [each for each in chain[:-1] if each.kind not in _RESHAPES][-2:] or [operator]
        if first.kind == "DEQUANTIZE" and len(inner) == 1 and inner[0].inputs == first.outputs:
            del merged[merged.index(first) :]
            operator = replace(inner[0], inputs=first.inputs, outputs=operator.outputs)
        merged.append(operator)
    return merged


def _type(model: TfliteModel, tensors: Sequence[int]) -> str:
    return model.tensors[tensors[0]].type if tensors else ""


def _end(
    model: TfliteModel, operators: Sequence[TfliteOperator], output: int, *, is_behind: bool
) -> TfliteOperator | None:
    """Return the operator that gives an output if it only changes the representation of results, and no other reads it.

    ``is_behind`` says that a quantiser behind it has been removed.
    """
    end = next((operator for operator in operators if operator.outputs[:1] == (output,)), None)
    if end is None or not end.inputs or any(output in operator.inputs for operator in operators):
        return None
    before = next((operator for operator in operators if operator.outputs[:1] == end.inputs[:1]), None)
    is_quantiser = (before is not None and before.kind in END_KINDS) or _type(model, end.outputs) == "UINT8"
    return end if end.kind in END_KINDS or (end.kind == "QUANTIZE" and is_quantiser and not is_behind) else None


def _with_dilations(model: TfliteModel, operators: Sequence[TfliteOperator]) -> list[TfliteOperator]:
    sources = {tensor: operator for operator in operators for tensor in operator.outputs}
    merged: list[TfliteOperator] = []
    for operator in operators:
        inner = [operator]
        while operator.kind == "BATCH_TO_SPACE_ND" and inner[0].kind != "SPACE_TO_BATCH_ND":
            before = sources.get(inner[0].inputs[0])
            if before is None:
                raise InputError(f"{operator}: SPACE_TO_BATCH_ND and a convolution must be before it, not others")
            inner.insert(0, before)
        merged.append(_merged(model, inner) if len(inner) > 1 else operator)
    return merged


def _merged(model: TfliteModel, operators: Sequence[TfliteOperator]) -> TfliteOperator:
    before, *inner, behind = operators
    computing = [operator for operator in inner if operator.kind not in _RESHAPES]
    if len(computing) != 1 or computing[0].kind not in (*_CONVOLUTIONS, "MAX_POOL_2D"):
        raise InputError(f"{before}: a convolution alone must be in front of {behind}, not others")
    convolution, options = computing[0], computing[0].options
    distances, around = _numbers(model, before, 1), _numbers(model, before, 2).reshape(-1, 2)
    cut = _numbers(model, behind, 2).reshape(-1, 2)
    axes, steps = len(distances), [options[f"Stride{way}"] for way in "HW"]
    gaps = [options.get(f"Dilation{way}Factor", 1) for way in "HW"]
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


def with_shapes(model: TfliteModel, note: Callable[[str], object]) -> TfliteModel:
    """Return a model of one image with the shapes that it computes, in place of those of an open or larger batch.

    Tensors of several rows without a batch get one.
    """
    batch = next((model.tensors[first].shape[0] for first in model.inputs if model.tensors[first].shape), 1)
    if batch > 1:
        note(ONE_BY_ONE.format(batch))
    tensors, numbers = [_of_one_image(tensor, batch) for tensor in model.tensors], dict[int, Ints]()
    for operator in model.operators:
        given = [_known(model, numbers, tensor) for tensor in operator.inputs]
        output, source = operator.outputs[:1], operator.inputs[:1]
        if not output or not source or min(source) < 0:
            continue
        shape = tensors[source[0]].shape
        if (value := _numbers_of(operator, shape, given)) is not None:
            numbers[output[0]] = value
        elif (
            operator.kind == "RESHAPE" and len(given) > 1 and given[1] is not None and not model.tensors[output[0]].data
        ):
            first, *sizes = given[1].reshape(-1).tolist() or [1]
            new = np.empty(shape, np.int8).reshape(1 if first == batch else first, *sizes).shape
            tensors[output[0]] = replace(tensors[output[0]], shape=_batched(new))
        elif operator.kind == "FILL" and given[0] is not None and given[-1] is not None:
            filled = np.full(given[0].reshape(-1), given[-1].reshape(()))
            tensors[output[0]] = replace(tensors[output[0]], shape=filled.shape, data=filled)
        elif operator.kind == "FULLY_CONNECTED" and len(operator.inputs) > 1:
            outputs, inputs = (*tensors[operator.inputs[1]].shape, 0, 0)[:2]
            rows = prod(shape) // max(inputs, 1)
            tensors[output[0]] = replace(tensors[output[0]], shape=_batched((rows, outputs)))
        elif any(tensors[own].shape != model.tensors[own].shape for own in operator.inputs if own >= 0):
            for place, own in enumerate(_shapes(operator, tensors, [value for value in given if value is not None])):
                tensors[operator.outputs[place]] = replace(tensors[operator.outputs[place]], shape=own)
    return replace(model, tensors=tuple(tensors))


def _shapes(
    operator: TfliteOperator, tensors: Sequence[TfliteTensor], constants: Sequence[Ints]
) -> list[tuple[int, ...]]:
    """Return the shapes of an operator's results where the file has others, as of maps whose rows it leaves open."""
    source, options, own = tensors[operator.inputs[0]].shape, operator.options, tensors[operator.outputs[0]].shape
    if operator.kind in MOVES:
        places = np.empty(tensors[operator.inputs[MOVES[operator.kind]]].shape, np.int8)
        return [result.shape for result in moved(operator.kind, places, constants, options, len(operator.outputs))]
    if operator.kind == "PAD":
        around = constants[0].reshape(-1, 2).sum(axis=1).tolist()
        return [tuple(size + more for size, more in zip(source, around, strict=True))]
    if "StrideH" in options and len(source) == len(own) == _MAP_RANK:
        reach = options.get("FilterHeight", 0), options.get("FilterWidth", 0)
        reach = reach if all(reach) else tensors[operator.inputs[1]].shape[1:3]
        sizes = [
            -(-(size - (options["Padding"] == _VALID) * (width - 1)) // options[f"Stride{way}"])
            for size, width, way in zip(source[1:3], reach, "HW", strict=True)
        ]
        return [(1, *sizes, own[3])]
    if operator.kind == "CONCATENATION":
        axis, parts = int(options["Axis"]), [tensors[part].shape for part in operator.inputs]
        return [(*source[: axis % len(own)], sum(part[axis] for part in parts), *source[axis % len(own) + 1 :])]
    together = np.broadcast_shapes(*(tensors[part].shape for part in operator.inputs if part >= 0))
    return [together] if len(together) == len(own) and not constants else [own]


def _of_one_image(tensor: TfliteTensor, batch: int) -> TfliteTensor:
    is_of_images = batch > 1 and tensor.data is None and tensor.shape[:1] == (batch,)
    return replace(tensor, shape=(1, *tensor.shape[1:])) if is_of_images else tensor


def _batched(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if shape[:1] == (1,) else (1, *shape)


def _known(model: TfliteModel, numbers: dict[int, Ints], tensor: int) -> Ints | None:
    data = model.tensors[tensor].data if tensor >= 0 else None
    return data.astype(np.int64) if data is not None and data.dtype.kind == "i" else numbers.get(tensor)


def _numbers_of(operator: TfliteOperator, shape: Sequence[int], given: Sequence[Ints | None]) -> Ints | None:
    known = [value for value in given if value is not None]
    if operator.kind == "SHAPE":
        return np.array(shape, np.int64)
    if len(known) != len(given):
        return None
    match operator.kind:
        case "GATHER" | "STRIDED_SLICE":
            return np.asarray(moved(operator.kind, known[0], known[1:], {**_PLAIN, **operator.options}, 1)[0])
        case "REDUCE_PROD":
            return np.asarray(known[0].prod())
        case "PACK" | "CONCATENATION":
            return np.concatenate([value.reshape(-1) for value in known])
        case _:
            return None


_PLAIN = {**dict.fromkeys(("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask"), 0), "ShrinkAxisMask": 1, "Axis": 0}


# operators, and the number of their first input that moves
MOVES = {
    **dict.fromkeys(("TRANSPOSE", "SPLIT_V", "SLICE", "STRIDED_SLICE", "GATHER", "TILE", "MIRROR_PAD"), 0),
    **dict.fromkeys(("SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2", "UNPACK"), 0),
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
        case "RESIZE_NEAREST_NEIGHBOR":
            # half a place of aligned corners is rounded up, the centre of other elements down
            half = Fraction(int(options["AlignCorners"] or options["HalfPixelCenters"]), 2)
            pairs = zip(places.shape[1:3], first, strict=True)
            rows, columns = (nearest_places(own, new, options, lambda place: floor(place + half)) for own, new in pairs)
            return [places[:, rows][:, :, columns]]
        case "REVERSE_V2":
            return [np.flip(places, tuple(first))]
        case "BROADCAST_TO":
            return [np.broadcast_to(places, first)]
        case "UNPACK":
            return [np.take(places, number, axis=options["Axis"]) for number in range(outputs)]
        case _:
            raise InputError("a convolution alone must be between the two operators of its blocks, not others")


def _slices(begins: list[int], ends: list[int], steps: list[int], options: Mapping[str, Any]) -> tuple[Any, ...]:
    require(not options["EllipsisMask"] and not options["NewAxisMask"], "masks of axes must be 0, not others")
    slices: list[Any] = []
    for axis, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        if options["ShrinkAxisMask"] >> axis & 1:
            slices.append(begin)
            continue
        bounds = {"BeginMask": begin, "EndMask": end}
        start, stop = (None if options[mask] >> axis & 1 else bound for mask, bound in bounds.items())
        slices.append(slice(start, stop, step))
    return tuple(slices)


def _blocks(places: Ints, size: int, *, is_deep: bool) -> Ints:
    _, height, width, channels = places.shape
    if is_deep:
        parts = places.reshape(1, height // size, size, width // size, size, channels).transpose(0, 1, 3, 2, 4, 5)
        return parts.reshape(1, height // size, width // size, -1)
    parts = places.reshape(1, height, width, size, size, -1).transpose(0, 1, 3, 2, 4, 5)
    return parts.reshape(1, height * size, width * size, -1)
