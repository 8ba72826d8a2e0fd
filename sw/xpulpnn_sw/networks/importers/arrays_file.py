"""Weights of CIFAR-10 networks in npz files: which network a file is of, by the names of its arrays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.npz import npz_arrays
from xpulpnn_sw.networks.build import NetworkBuilder
from xpulpnn_sw.networks.described import Described, Scaling
from xpulpnn_sw.networks.importers import cmsis
from xpulpnn_sw.networks.importers.options import ImportOptions

_CONVOLUTIONS, _LAYERS = 6, 9
_WEIGHTS = tuple(f"w{number}" for number in range(_LAYERS))
_THRESHOLDS = tuple(f"t{number}" for number in range(_LAYERS - 1))
ARRAYS = (*_WEIGHTS, *_THRESHOLDS)  # weights, a row of bytes for each output, and thresholds of all layers but the last
OPTIONAL = ("classes",)  # how many outputs of the last layer count, 10 unless it is there: the others only fill it up

# `floor((sample / 255 * 2 - 1) * 128)`, clipped to 8 bits, which is the sample less 128 for every sample
SCALING = Scaling(add=-128)
_SIDE, _COLOURS, _KERNEL, _CLASSES = 32, 3, 3, 10
_POOLED = (1, 3)  # convolutions behind which there is a pooling
_BYTE = 8


def network(arrays: Mapping[str, NDArray[Any]], name: str) -> Described:
    """The network.

    Everything is of one bit, but for the input and the first weights, which have the image's 8.
    The first layer's results are 1 where ``2 * sum > t``, those of the others where ``(sum + K) / 2 > t`` for sums of
    ``K`` products of -1 and 1, else -1; the last layer's are its sums.
    """
    builder = NetworkBuilder(name)
    side, channels = _SIDE, _COLOURS
    for number in range(_LAYERS):
        is_first, is_last = not number, number == _LAYERS - 1
        reach = _KERNEL if number < _CONVOLUTIONS else side if number == _CONVOLUTIONS else 1
        weights = _signs(arrays[_WEIGHTS[number]], _WEIGHTS[number], reach**2 * channels)
        if is_last:
            weights = weights[: _classes(arrays, len(weights))]
        outputs, products = weights.shape
        own = {"weights": weights}
        if not is_last:
            own["thresholds"] = _sums(arrays[_THRESHOLDS[number]], number, outputs, products)
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
    return builder.finish(SCALING)


def _signs(packed: NDArray[Any], name: str, products: int) -> Ints:
    row = -(-products // _BYTE)
    if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] < row:
        shape = "x".join(map(str, packed.shape))
        raise InputError(f"{name} must be uint8, {row} bytes at least for each output, not {packed.dtype} of {shape}")
    bits = np.unpackbits(packed, axis=1, bitorder="little")[:, :products]
    return bits.astype(np.int64) * 2 - 1


def _sums(thresholds: NDArray[Any], number: int, outputs: int, products: int) -> Ints:
    """Thresholds of sums, ``[out][1]``."""
    if thresholds.shape != (outputs,):
        raise InputError(f"shape of {_THRESHOLDS[number]} must be ({outputs},), not {thresholds.shape}")
    whole = thresholds.astype(np.int64)
    return (2 * whole - products if number else whole >> 1)[:, np.newaxis]


def _classes(arrays: Mapping[str, NDArray[Any]], outputs: int) -> int:
    given = arrays.get("classes")
    if given is not None and given.size != 1:
        raise InputError(f"classes must be one number, not of shape {given.shape}")
    count = _CLASSES if given is None else int(given.ravel()[0])
    if not 0 < count <= outputs:
        raise InputError(f"classes must be 1..{outputs}, not {count}")
    return count


Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Names of the arrays of a file, and the network they belong to."""

    name: str  # whose they are
    arrays: tuple[str, ...]
    optional: tuple[str, ...] = ()  # those that may be left out
    network: Callable[[Arrays, str], Described]  # makes the network of them

    def __str__(self) -> str:
        return f"{', '.join(self.arrays)} ({self.name})"


CMSIS = Form(name="CMSIS-NN's CIFAR-10", arrays=cmsis.ARRAYS, network=cmsis.network)
# the networks that are known
FORMS = (
    CMSIS,
    Form(name="BNN-PYNQ's CNV", arrays=ARRAYS, optional=OPTIONAL, network=network),
)


def import_arrays(path: Path, options: ImportOptions) -> Described:
    """The network whose weights are in an npz file."""
    if options.quantise is not None:
        raise InputError("--quantise must be left out with an npz file, whose weights are quantised")
    if options.samples is not None or options.normalisation:
        raise InputError("--samples, --mean and --std must be left out with an npz file, whose network has its own")
    return network_in(path, options.name)


def network_in(path: Path, name: str, forms: Sequence[Form] = FORMS) -> Described:
    """The network, called ``name``, whose weights are in a file of one of some forms.

    Raises :class:`InputError` or :class:`LayerError` as :func:`import_arrays`.
    """
    arrays = _read_numbers(path)
    for form in forms:
        if len(forms) == 1 or form.arrays[0] in arrays:
            return _checked(form, arrays, path).network(arrays, name)
    raise InputError(f"arrays must be {' or '.join(map(str, forms))}, not {_listed(arrays)}, in {path}")


def _read_numbers(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file; raises :class:`InputError` unless it is one, whole, of integers."""
    arrays = npz_arrays(path, "weights")
    for name, values in arrays.items():
        if values.dtype.kind not in "iu" or not values.size:
            raise InputError(f"{name} must be integers, not {values.dtype} of shape {values.shape}, in {path}")
    return arrays


def _checked(form: Form, arrays: Arrays, path: Path) -> Form:
    for name in form.arrays:
        if name not in arrays:
            raise InputError(f"arrays must be {form}, not without {name}, in {path}")
    for name in arrays:
        if name not in (*form.arrays, *form.optional):
            raise InputError(f"arrays must be {form}, not also {name}, in {path}")
    return form


def _listed(arrays: Arrays) -> str:
    return ", ".join(arrays) or "none"
