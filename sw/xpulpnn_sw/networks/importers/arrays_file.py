"""Importer of CIFAR-10 networks whose weights are in npz files, recognised by the names of the arrays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError, require
from xpulpnn.isa.machine import BYTE_BITS
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.npz import npz_arrays
from xpulpnn_sw.networks.importers.registry import ImportOptions
from xpulpnn_sw.networks.network import NetworkModel, Scaling
from xpulpnn_sw.networks.network_file import NetworkBuilder

Arrays = Mapping[str, NDArray[Any]]
LABELS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_SIDE, _COLOURS = 32, 3
# of CMSIS-NN: half of the difference from the mean of the training images, rounded
SCALING = Scaling(subtract=(125, 123, 114), multiply=128, add=128, shift=8)
CMSIS_SHAPES: Mapping[str, tuple[int, ...]] = {
    "conv1": (32, 5, 5, 3),
    "conv2": (16, 5, 5, 32),
    "conv3": (32, 5, 5, 16),
    "ip1": (10, 512),
    "b1": (32,),
    "b2": (16,),
    "b3": (32,),
    "bi": (10,),
}
_SHIFTS = ((6, 9), (4, 9), (1, 7), (1, 8))  # left shifts of biases and right shifts of sums, convolutions first
_CONVOLUTIONS, _LAYERS, _KERNEL, _CLASSES = 6, 9, 3, 10  # of CNV
_POOLED = (1, 3)  # convolutions of CNV before a pooling
_CNV_ARRAYS = (*(f"w{number}" for number in range(_LAYERS)), *(f"t{number}" for number in range(_LAYERS - 1)))


def _cmsis(arrays: Arrays, name: str) -> NetworkModel:
    """Build the network of CMSIS-NN and of the PULP-NN paper: three convolutions with ReLU and pooling, a classifier.

    With the shifts ``l`` and ``r`` of a layer, results are ``clip((sum + (bias << l) + (1 << (r - 1))) >> r, -128,
    127)``.
    """
    for key, shape in CMSIS_SHAPES.items():
        values = arrays[key]
        require(values.shape == shape, f"shape of {key} must be {shape}, not {values.shape}")
        if values.min() < -128 or values.max() > 127:
            raise InputError(f"{key} must be -128..127, not {values.min()}..{values.max()}")
    builder, names = NetworkBuilder(name), tuple(CMSIS_SHAPES)
    for number, (key, bias, (left, right)) in enumerate(zip(names[:4], names[4:], _SHIFTS, strict=True)):
        weights = arrays[key].astype(np.int64)
        whole = (arrays[bias].astype(np.int64) << left) + (1 << (right - 1))
        own = {"weights": weights, "bias": whole, "shift": np.array(right)}
        if key == "ip1":
            builder.add("classify", "linear", "512:10", "i8x8xi8", own, requantise="shift")
            break
        side, (filters, _, _, channels) = _SIDE >> number, weights.shape
        text = f"{side}x{side}x{channels}:{filters}x5x5:s=1,p=2{'' if number else ':image'}"
        builder.add(f"conv{number + 1}", "conv", text, "i8x8xi8", own, requantise="shift")
        pool = f"{side}x{side}x{filters}:3x3:s=2,p=0x1x0x1:relu"
        builder.add(f"pool{number + 1}", "maxpool", pool, "i8xi8xi8")
    return builder.finish(SCALING, LABELS)


def _cnv(arrays: Arrays, name: str) -> NetworkModel:
    """Build the CNV network of BNN-PYNQ; arrays hold packed bits of weights, and thresholds of all layers but the last.

    All elements have one bit, except inputs and weights of the first layer, which have 8. Results of the first layer
    are 1 where ``2 * sum > t``, else -1. In other layers, sums of ``K`` products of -1 and 1 give 1 where ``(sum + K) /
    2 > t``. The last layer gives its sums.
    """
    builder = NetworkBuilder(name)
    side, channels = _SIDE, _COLOURS
    for number in range(_LAYERS):
        is_first, is_last = not number, number == _LAYERS - 1
        reach = _KERNEL if number < _CONVOLUTIONS else side if number == _CONVOLUTIONS else 1
        weights = _signs(arrays[f"w{number}"], f"w{number}", reach**2 * channels)
        if is_last:
            weights = weights[: _classes(arrays, len(weights))]
        outputs, products = weights.shape
        own = {"weights": weights}
        if not is_last:
            own["thresholds"] = _sums(arrays[f"t{number}"], number, outputs, products)
        precision = f"{'i8x8' if is_first else '1x1'}x{'i32' if is_last else '1'}"
        if number >= _CONVOLUTIONS:
            text = f"{products}:{outputs}{':raw' if is_last else ''}"
            builder.add(f"linear{number}", "linear", text, precision, own, requantise="thresholds")
            side, channels = 1, outputs
            continue
        own["weights"] = weights.reshape(outputs, _KERNEL, _KERNEL, channels)
        text = f"{side}x{side}x{channels}:{outputs}x{_KERNEL}x{_KERNEL}:p=0{':image' if is_first else ''}"
        builder.add(f"conv{number}", "conv", text, precision, own, requantise="thresholds")
        side, channels = side - _KERNEL + 1, outputs
        if number in _POOLED:
            builder.add(f"pool{number}", "maxpool", f"{side}x{side}x{channels}:2x2:s=2", "1x1x1")
            side //= 2
    # `floor((sample / 255 * 2 - 1) * 128)`, clipped to 8 bits, is the sample less 128 for every sample
    return builder.finish(Scaling(add=-128))


def _signs(packed: NDArray[Any], name: str, products: int) -> Ints:
    row = -(-products // BYTE_BITS)
    if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] < row:
        shape = "x".join(map(str, packed.shape))
        raise InputError(f"{name} must be uint8, {row} bytes at least for each output, not {packed.dtype} of {shape}")
    return np.unpackbits(packed, axis=1, bitorder="little")[:, :products].astype(np.int64) * 2 - 1


def _sums(thresholds: NDArray[Any], number: int, outputs: int, products: int) -> Ints:
    require(thresholds.shape == (outputs,), f"shape of t{number} must be ({outputs},), not {thresholds.shape}")
    whole = thresholds.astype(np.int64)
    return (2 * whole - products if number else whole >> 1)[:, np.newaxis]


def _classes(arrays: Arrays, outputs: int) -> int:
    given = arrays.get("classes", np.array(_CLASSES))
    require(given.size == 1, f"classes must be one number, not of shape {given.shape}")
    count = int(given.ravel()[0])
    require(0 < count <= outputs, f"classes must be 1..{outputs}, not {count}")
    return count


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFormat:
    name: str
    arrays: tuple[str, ...]
    optional: tuple[str, ...] = ()
    network: Callable[[Arrays, str], NetworkModel]

    def __str__(self) -> str:
        return f"{', '.join(self.arrays)} ({self.name})"


CMSIS = ArrayFormat(name="CMSIS-NN's CIFAR-10", arrays=tuple(CMSIS_SHAPES), network=_cmsis)
ARRAY_FORMATS = (CMSIS, ArrayFormat(name="BNN-PYNQ's CNV", arrays=_CNV_ARRAYS, optional=("classes",), network=_cnv))


def import_arrays(path: Path, options: ImportOptions) -> NetworkModel:
    require(options.quantise is None, "bits must be left out with an npz file, whose weights are quantised")
    if options.samples is not None or options.normalisation:
        raise InputError("samples, mean and deviation must be left out with an npz file, whose network has its own")
    return network_in(path, options.name)


def network_in(path: Path, name: str, forms: Sequence[ArrayFormat] = ARRAY_FORMATS) -> NetworkModel:
    """Build a network from a file; raises :class:`InputError` for other arrays than those of ``forms``."""
    arrays = npz_arrays(path, "weights")
    for key, values in arrays.items():
        if values.dtype.kind not in "iu" or not values.size:
            raise InputError(f"{key} must be integers, not {values.dtype} of shape {values.shape}, in {path}")
    form = next((candidate for candidate in forms if len(forms) == 1 or candidate.arrays[0] in arrays), None)
    if form is None:
        raise InputError(f"arrays must be {' or '.join(map(str, forms))}, not {', '.join(arrays) or 'none'}, in {path}")
    for key in form.arrays:
        require(key in arrays, f"arrays must be {form}, not without {key}, in {path}")
    for key in arrays:
        require(key in (*form.arrays, *form.optional), f"arrays must be {form}, not also {key}, in {path}")
    return form.network(arrays, name)
