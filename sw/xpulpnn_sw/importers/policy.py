"""Quantisers for models in floating point: ranges by images, least squared errors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError
from xpulpnn_sw.importers.levels import Levels, uniform_levels
from xpulpnn_sw.importers.options import ImportOptions
from xpulpnn_sw.importers.values import Quantised, Sums
from xpulpnn_sw.importers.widths import Reader, Request, TensorWidths

_KEPT = 1 << 14
"""Elements of a tensor that a scale is looked for with."""

_STEPS = 60
"""Scales that are tried."""

_LEAST = 0.3
"""The smallest of them, over the one that clips nothing."""


def best_scale(values: NDArray[Any], low: int, high: int) -> float:
    """The scale with the least squared error of ``clip(round(values / scale))``."""
    most = max(float(values.max()) / high, float(values.min()) / low if low else 0.0)
    if most <= 0:
        return 1.0
    tried = most * np.linspace(_LEAST, 1, _STEPS)
    errors = [float(np.square(np.clip(np.rint(values / scale), low, high) * scale - values).sum()) for scale in tried]
    return float(tried[int(np.argmin(errors))])


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibration:
    """What is known of a model in floating point before its bits are.

    Parameters
    ----------
    readers : tuple of Reader
        Its layers that read maps, in their order.
    samples : mapping of str to array
        For each tensor elements that it had for images.
    """

    readers: tuple[Reader, ...]
    samples: Mapping[str, NDArray[Any]]
    _scales: dict[tuple[str, int, int], float] = field(default_factory=dict[tuple[str, int, int], float])
    _weights: dict[tuple[str, int, int | None], Quantised] = field(
        default_factory=dict[tuple[str, int, int | None], Quantised]
    )

    @classmethod
    def computed(
        cls, model: Any, name: str, shape: tuple[int, ...], options: ImportOptions, readers: Sequence[Reader]
    ) -> "Calibration":
        """That of a model, whose input is called ``name``, with the images of ``options``.

        Raises :class:`InputError` for images of other sizes, or models that cannot be computed.
        """
        if options.images is None or not len(options.images):
            raise InputError("--quantise must have images for calibration, not none")
        images = options.images if options.images.ndim == 4 else options.images[..., np.newaxis]
        factor = float(options.high - options.low) / 255
        real = images.astype(np.float64) * factor + float(options.low)
        if spread := options.by_colour(images.shape[-1]):
            means, deviations = np.array(spread, np.float64).T
            real = (real - means) / deviations
        real = real.astype(np.float32)
        if len(shape) == 4 and images.shape[1:] != shape[1:]:
            real = real.transpose(0, 3, 1, 2)
        if real[0].size != int(np.prod(shape)) or (len(shape) == 4 and real.shape[1:] != shape[1:]):
            raise InputError(f"images must have the shape of the model's input {shape[1:]}, not {images.shape[1:]}")
        return cls(readers=tuple(readers), samples=_computed(model, name, real.reshape(-1, *shape)))

    def policy(self, request: Request) -> "Policy":
        """How the model is quantised with these bits; raises :class:`InputError` for other layers."""
        return Policy(calibration=self, widths=request.tensors(self.readers))

    def scale(self, tensor: str, low: int, high: int) -> float:
        """The best one of a tensor for integers ``low..high``."""
        key = tensor, low, high
        if key not in self._scales:
            self._scales[key] = best_scale(self.samples[tensor], low, high)
        return self._scales[key]

    def weights(self, tensor: str, values: NDArray[Any], bits: int, channel_axis: int | None) -> Quantised:
        """Constants as integers, as many below 0 as above, a scale for each number of an axis or for all."""
        key = tensor, bits, channel_axis
        if key not in self._weights:
            self._weights[key] = _rounded(values, bits, channel_axis)
        return self._weights[key]


def _rounded(values: NDArray[Any], bits: int, channel_axis: int | None) -> Quantised:
    most = (1 << (bits - 1)) - 1
    rows = values[np.newaxis] if channel_axis is None else np.moveaxis(values, channel_axis, 0)
    scales = [best_scale(row.ravel(), -most, most) for row in rows]
    column = np.array(scales).reshape(-1, *[1] * (rows.ndim - 1))
    whole = np.clip(np.rint(rows / column), -most, most).astype(np.int64)
    exact = np.broadcast_to(np.array([Fraction(one) for one in scales], object).reshape(column.shape), whole.shape)
    if channel_axis is None:
        return Quantised(values=whole[0], scale=exact[0])
    return Quantised(values=np.moveaxis(whole, 0, channel_axis), scale=np.moveaxis(exact, 0, channel_axis))


@dataclass(frozen=True, eq=False, kw_only=True)
class Policy:
    """How a model in floating point is quantised.

    Parameters
    ----------
    calibration : Calibration
        What its tensors are like.
    widths : TensorWidths
        Their bits.
    """

    calibration: Calibration
    widths: TensorWidths

    def levels(self, tensor: str, sums: Sums) -> Levels:
        """A quantiser for a tensor: unsigned if nothing is negative."""
        values, bits = self.calibration.samples[tensor], self.widths.of(tensor)
        is_positive = float(values.min()) >= 0 or all(one.low is not None and one.low >= 0 for one in sums.channels)
        low, high = (0, (1 << bits) - 1) if is_positive else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        scale = Fraction(self.calibration.scale(tensor, low, high))
        return uniform_levels(scale, Fraction(0), low, high, "ROUND").freely()

    def weights(self, tensor: str, values: NDArray[Any], channel_axis: int | None) -> Quantised:
        """Constants as integers, a scale for each number of an axis or for all."""
        return self.calibration.weights(tensor, values, self.widths.of(tensor), channel_axis)


def evaluated(model: Any) -> Callable[[dict[str, NDArray[Any]]], list[NDArray[Any]]]:
    """The outputs of a model for its inputs, by onnx's own evaluation."""
    from onnx.reference import ReferenceEvaluator

    # onnx has no types of what this returns
    evaluator: Any = ReferenceEvaluator(model)
    return lambda inputs: [np.asarray(one) for one in evaluator.run(None, inputs)]


def reason_of(error: Exception) -> str:
    """The first line of what another package says."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _computed(model: Any, name: str, images: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Elements of all tensors for some images, by onnx's own evaluation."""
    from onnx import ModelProto, ValueInfoProto

    whole = ModelProto()
    whole.CopyFrom(model)
    names = [one for node in model.graph.node for one in node.output if one]
    del whole.graph.output[:]
    whole.graph.output.extend(ValueInfoProto(name=one) for one in names)
    found: dict[str, list[NDArray[Any]]] = {one: [] for one in names}
    rng = np.random.default_rng(0)
    try:
        compute = evaluated(whole)
        for image in images:
            for one, values in zip(names, compute({name: image}), strict=True):
                flat = np.asarray(values).ravel()
                most = max(1, _KEPT // len(images))
                found[one].append(flat if len(flat) <= most else rng.choice(flat, most, replace=False))
    except Exception as error:
        raise InputError(f"model must be computable for its images, but {reason_of(error)}") from None
    return {one: np.concatenate(values).astype(np.float64) for one, values in found.items()}
