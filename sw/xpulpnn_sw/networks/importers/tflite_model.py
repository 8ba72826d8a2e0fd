"""TFLite models of 8 bits as networks in integers.

Every value ``scale * (q - zero)`` keeps its code ``q``: as it is, signed, or plus 128, unsigned, if its zero point is
-128, which then is 0. Zero points of inputs become values around the map and parts of biases; scales become a factor of
each channel. What differs from TFLite is the rounding of that factor.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from xpulpnn.errors import InputError, LayerError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.networks.importers.tflite_file import TfliteModel, TfliteOperator, TfliteTensor
from xpulpnn_sw.networks.importers.values import NO_PADS, Pads, same_margins

_BYTE = 8
LEAST, GREATEST = -128, 127  # codes of 8 bits
CODES = 256

# where fused activations clip
ENDS: Mapping[str, tuple[float | None, float | None]] = {
    "NONE": (None, None),
    "RELU": (0, None),
    "RELU6": (0, 6),
    "RELU_N1_TO_1": (-1, 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TfliteMap:
    """A map of the network."""

    source: str  # the layer that computes it, or `input`
    shape: tuple[int, ...]  # without the batch
    scale: float
    zero: int  # the code of 0, as it is in the network
    signed: bool  # whether codes are, in the network
    # of zeros that an operator has put around it and no layer has yet: top, bottom, left, right
    pads: Pads = NO_PADS
    # the greatest code if the model clips before memory does, where codes begin at 0; None: memory clips
    top: int | None = None

    @property
    def width(self) -> str:
        """As in the text of a precision."""
        return f"{'i' if self.signed else 'u'}{_BYTE}"

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the greatest code."""
        return (LEAST, GREATEST) if self.signed else (0, GREATEST - LEAST)

    def reshaped(self, shape: tuple[int, ...]) -> "TfliteMap":
        """The same elements in another shape."""
        if prod(shape) != prod(self.shape) or self.pads != NO_PADS:
            raise InputError(f"shape must be of {prod(self.shape)} elements, not {dims(shape)}")
        return replace(self, shape=shape)


def expect(held: bool, what: str) -> None:
    """Raise :class:`InputError` with this text unless it holds."""
    if not held:
        raise InputError(what)


class OperatorReader:
    """Reads what an operator computes with."""

    def __init__(self, model: TfliteModel, operator: TfliteOperator, values: Mapping[int, TfliteMap]) -> None:
        self.operator, self.model, self._values = operator, model, values

    def tensor(self, place: int) -> TfliteTensor:
        """An input."""
        expect(place < len(self.operator.inputs), f"inputs must be {place + 1} at least")
        return self.model.tensors[self.operator.inputs[place]]

    def value(self, place: int) -> TfliteMap:
        """An input that a layer or the network's input gives."""
        tensor = self.tensor(place)
        found = self._values.get(self.operator.inputs[place])
        if found is None:
            raise InputError(f"input must be a result of an operator before, not {tensor.name}")
        return found

    def map(self, place: int, *, padded: bool = False) -> tuple[TfliteMap, int, int, int]:
        """The same, of rows, columns and channels, and these; unless ``padded`` with nothing around it."""
        value = self.value(place)
        expect(
            len(value.shape) == len(("row", "column", "channel")),
            f"map must be [1, row, column, channel], not {dims(value.shape)}",
        )
        expect(padded or value.pads == NO_PADS, "padding must be before a convolution, not here")
        height, width, channels = value.shape
        return value, height, width, channels

    def constant(self, place: int, type_: str) -> Ints:
        """An input that is in the file."""
        tensor = self.tensor(place)
        expect(tensor.type == type_, f"{tensor.name} must be {type_}, not {tensor.type}")
        if tensor.data is None:
            raise InputError(f"{tensor.name} must be in the file, not computed")
        return tensor.data.astype(np.int64)

    def result(self, source: str) -> TfliteMap:
        """The output, which the layer ``source`` computes.

        Where its activation clips inside the range of its codes, these are numbered from there on.
        """
        result = value_of(self.model.tensors[self.operator.outputs[0]], source)
        low, high = ends = result.ends
        for end, is_low in zip(ENDS[self._activation()], (True, False), strict=True):
            if end is None:
                continue
            clipped = result.zero + round(end / result.scale)
            low, high = (max(low, clipped), high) if is_low else (low, min(high, clipped))
        expect(low < high, f"activation must leave some of the results' codes, not those from {low} to {high}")
        if (low, high) == ends:
            return result
        return replace(result, signed=False, zero=result.zero - low, top=high - low)

    def check_same_codes(self) -> None:
        """Raise :class:`InputError` unless the output has the scale and the zero point of the first input."""
        one, other = self.tensor(0), self.model.tensors[self.operator.outputs[0]]
        same = [(*tensor.scales.tolist(), *tensor.zeros.tolist()) for tensor in (one, other)]
        expect(same[0] == same[1], "scale and zero point of the results must be those of the input")

    def _activation(self) -> str:
        if self.operator.kind in ENDS:
            return self.operator.kind
        if "FusedActivationFunction" not in self.operator.options:
            return "NONE"
        name = self.model.activations.get(self.option("FusedActivationFunction"), "another")
        expect(name in ENDS, f"fused activation must be one of {', '.join(ENDS)}, not {name}")
        return name

    def option(self, name: str) -> int:
        """A number."""
        return self.operator.options[name]

    def padding(self, size: tuple[int, int], window: tuple[int, int], stride: tuple[int, int]) -> Pads:
        """Rows and columns around a map of this size, for windows that reach so far."""
        name = self.model.paddings.get(self.option("Padding"), "another")
        expect(name in ("SAME", "VALID"), f"padding must be SAME or VALID, not {name}")
        if name == "VALID":
            return NO_PADS
        rows, columns = same_margins(size, window, stride)
        return rows // 2, rows - rows // 2, columns // 2, columns - columns // 2


def value_of(tensor: TfliteTensor, source: str) -> TfliteMap:
    """A tensor of codes as a map of the network."""
    expect(tensor.type == "INT8", f"{tensor.name} must be INT8, not {tensor.type}")
    expect(len(tensor.scales) == 1, f"{tensor.name} must have one scale, not {len(tensor.scales)}")
    expect(tensor.shape[:1] == (1,), f"{tensor.name} must be a batch of 1, not {dims(tensor.shape)}")
    zero = int(tensor.zeros[0])
    expect(LEAST <= zero <= GREATEST, f"zero point of {tensor.name} must be {LEAST}..{GREATEST}, not {zero}")
    signed = zero != LEAST
    return TfliteMap(
        source=source,
        shape=tensor.shape[1:],
        scale=float(tensor.scales[0]),
        zero=zero if signed else 0,
        signed=signed,
    )


def weight_scales(tensor: TfliteTensor, axis: int, channels: int) -> list[float]:
    """A scale for each of the channels, which lie along ``axis``."""
    count = len(tensor.scales)
    other = next((int(zero) for zero in tensor.zeros if zero), 0)
    expect(not other, f"zero points of {tensor.name} must be 0, not {other}")
    if count == 1:
        return [float(tensor.scales[0])] * channels
    expect(count == channels and tensor.axis == axis, f"scales of {tensor.name} must be 1 or {channels}, not {count}")
    return [float(scale) for scale in tensor.scales]


def named(operator: TfliteOperator, compute: Callable[[], None]) -> None:
    """Do something; raises :class:`InputError` that names the operator for what it cannot do."""
    try:
        compute()
    except (InputError, LayerError) as error:
        raise InputError(f"{operator}: {error}") from None


def dims(shape: tuple[int, ...]) -> str:
    """A shape as layers and messages have it."""
    return "x".join(map(str, shape)) or "nothing"
