"""Feature maps as operands of channel-wise kernels."""

from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sw.kernels.kernel import Kernel, KernelRequest, window_arguments
from xpulpnn_sw.kernels.layout import Ints, pack_words, pad_axis, padded_channels
from xpulpnn_sw.kernels.tensors import random_values
from xpulpnn_sw.kernels.variants import ELEMENT_LEVELS
from xpulpnn_sw.layers.layer import MapLayer, ReluLayer, WindowLayer
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision


@dataclass(frozen=True, eq=False, kw_only=True)
class MapTensors:
    activations: Ints  # `[height][width][channel]`
    folded: bool = False  # whether the map is folded in memory


class PlacedMaps:
    """Placement in memory of feature maps (HWC) with equally many channels; pixels are padded to whole words."""

    def __init__(self, request: KernelRequest, *widths: int) -> None:
        self._request, self._memory = request, request.memory
        self.padded = padded_channels(request.layer.channels, min(widths))

    def pixel_bytes(self, bits: int) -> int:
        return self.padded * bits // BYTE_BITS

    def place(self, name: str, values: Ints, bits: int, *, spare: int = 0) -> int:
        return self._memory.place(name, pack_words(pad_axis(values, 2, self.padded), bits), spare=spare)

    def reserve(self, name: str, pixels: int, bits: int) -> int:
        return self._memory.reserve(name, pixels * self.pixel_bytes(bits))

    def place_pool(self, activations: Ints) -> dict[str, int]:
        layer, precision = self._request.layer, self._request.precision
        return {
            "input": self.place("input", activations, precision.x),
            "output": self.reserve("output", layer.out_height * layer.out_width, precision.y),
            "pixel_bytes": self.pixel_bytes(precision.x),
            "out_pixel_bytes": self.pixel_bytes(precision.y),
            **window_arguments(layer),
        }


def same_elements(layer: Any, precision: Precision) -> Precision:
    """Return the precision; raise :class:`LayerError` unless results have the width and sign of the input."""
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
    return MapTensors(activations=random_elements(layer, precision.x, rng, signed=precision.x_signed))


def random_elements(layer: MapLayer | WindowLayer, bits: int, rng: np.random.Generator, *, signed: bool) -> Ints:
    return random_values(bits, rng, (layer.height, layer.width, layer.channels), signed=signed)


MOST_CHANNELS = 20  # more than two words of the widest elements and one word of the narrowest
_MOST_WINDOW = 5
"""Largest random window, with more rows and columns than the three up to which code is specialised."""


def random_window_text(rng: Random, most_channels: int) -> str:
    channels = rng.randint(1, most_channels)
    ky, kx = (rng.choice((1, 2, 3, 3, rng.randint(4, _MOST_WINDOW))) for _ in range(2))
    top, bottom = (rng.randint(0, min(2, ky - 1)) for _ in range(2))
    left, right = (rng.randint(0, min(2, kx - 1)) for _ in range(2))
    height = rng.randint(max(1, ky - top - bottom), 9)
    width = rng.randint(max(1, kx - left - right), 9)
    stride = f"{rng.randint(1, 3)}x{rng.randint(1, 3)}"
    return f"{height}x{width}x{channels}:{ky}x{kx}:s={stride},p={top}x{bottom}x{left}x{right}"


# kernels of maps: all, those of one element width, those whose results are elements of the input
map_kernel = partial(Kernel, variants=ELEMENT_LEVELS, usual_variants=("xpulpv2", "xpulpnn"))
element_kernel = partial(map_kernel, uniform=lambda bits: Precision(bits, bits, bits, w_signed=bits == SIGN_BITS))
same_kernel = partial(element_kernel, precision=same_elements)
