"""Feature maps as operands of the kernels that keep channels apart."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn_sw.kernels.kernel import KernelRequest, KernelRun, Structure, window_arguments
from xpulpnn_sw.kernels.layout import Ints, pack_words, pad_axis, padded_channels
from xpulpnn_sw.kernels.program import Program
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.tensors import random_values
from xpulpnn_sw.kernels.variants import BYTE_BITS
from xpulpnn_sw.layers.channelwise import MapLayer, ReluLayer, WindowLayer
from xpulpnn_sw.layers.precision import Precision


@dataclass(frozen=True, eq=False, kw_only=True)
class MapTensors:
    """The operand of a pooling without parameters, a ReLU, or a transposition."""

    activations: Ints  # `[height][width][channel]`
    folded: bool = False  # whether the map is in memory as fold leaves it


class PlacedMaps:
    """Places feature maps of one number of channels, HWC, each pixel filled up to whole words of every map."""

    def __init__(self, request: KernelRequest, *widths: int) -> None:
        self._request, self._memory = request, request.memory
        self.padded = padded_channels(request.layer.channels, min(widths))

    def pixel_bytes(self, bits: int) -> int:
        """Bytes of a pixel."""
        return self.padded * bits // BYTE_BITS

    def place(self, name: str, values: Ints, bits: int, *, spare: int = 0) -> int:
        """Place a map ``[row][column][channel]``, followed by ``spare`` words, and return its address."""
        return self._memory.place(name, pack_words(pad_axis(values, 2, self.padded), bits), spare=spare)

    def reserve(self, name: str, pixels: int, bits: int) -> int:
        """Reserve a map of so many pixels and return its address."""
        return self._memory.reserve(name, pixels * self.pixel_bytes(bits))

    def place_pool(self, activations: Ints) -> dict[str, int]:
        """Place the input of a pooling and reserve its output; returns the arguments about them and its windows."""
        layer, precision = self._request.layer, self._request.precision
        return {
            "input": self.place("input", activations, precision.x),
            "output": self.reserve("output", layer.out_height * layer.out_width, precision.y),
            "pixel_bytes": self.pixel_bytes(precision.x),
            "out_pixel_bytes": self.pixel_bytes(precision.y),
            **window_arguments(layer),
        }

    def finish(
        self,
        name: str,
        structure: Structure,
        arguments: dict[str, int],
        write: Callable[[Mapping[str, int]], Program],
        rule: Rule | None = None,
    ) -> KernelRun:
        """The kernel, as of :meth:`KernelRequest.finish`, whose output is a map."""
        size = self.pixel_bytes(self._request.precision.y)
        return self._request.finish(name, structure, arguments, write, pixel_bytes=size, rule=rule)


def same_form(layer: Any, precision: Precision) -> Precision:
    """The precision; raises :class:`LayerError` unless results may be elements of the input."""
    name = type(layer).__name__.removesuffix("Layer").lower()
    is_same = (precision.x, precision.x_signed) == (precision.y, precision.y_signed)
    if isinstance(layer, ReluLayer):
        if not precision.x_signed or not is_same:
            raise LayerError(f"precision of relu must be signed inputs and outputs of one width, not {precision}")
        return precision
    if getattr(layer, "relu", False) and not precision.x_signed:
        raise LayerError(f"precision of {name} with relu must be signed, not {precision}")
    if not is_same:
        raise LayerError(f"precision of {name} must be inputs and outputs of one width and sign, not {precision}")
    return precision


def random_maps(layer: MapLayer, precision: Precision, rng: np.random.Generator) -> MapTensors:
    """Elements over their whole range."""
    return MapTensors(activations=random_elements(layer, precision.x, rng, signed=precision.x_signed))


def random_elements(layer: MapLayer | WindowLayer, bits: int, rng: np.random.Generator, *, signed: bool) -> Ints:
    """A map of elements over their whole range."""
    return random_values(bits, rng, (layer.height, layer.width, layer.channels), signed=signed)
