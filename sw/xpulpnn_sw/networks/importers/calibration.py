"""Calibration of floating-point models: scales with the least squared error on sample images."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.networks.importers.quantiser import Quantiser, uniform_quantiser
from xpulpnn_sw.networks.importers.registry import ImportOptions, ReadingLayer, WidthRequest
from xpulpnn_sw.networks.importers.values import Quantised, Sums

Reals = NDArray[np.floating[Any]]
_STEPS = 60  # scales that are tried
_LEAST = 0.3  # the smallest of them, relative to the one that clips nothing
_DAMPING = 0.01  # regularisation of the Hessian, relative to its mean diagonal element
_PASSES = 3  # passes of rounding; each but the first starts from refitted scales
_KEPT = 1 << 14  # samples that are kept of a tensor
_WINDOWS = 256  # samples of windows of a layer in an image
_MOST_WEIGHTS = 2048  # of filters whose rounding errors are compensated, which takes cubic time
Tensors = Mapping[str, NDArray[Any]]  # by name, for an image
Compute = Callable[[Tensors], Tensors]  # the tensors of all nodes from the inputs
# the inputs of a layer's filters, `[window][weight]`, from all tensors; empty if unsupported
Probe = Callable[[Tensors], NDArray[Any]]


def best_scale(values: Reals, low: int, high: int) -> float:
    """Return the scale with the least squared error when values are quantised to ``low..high``."""
    most = max(float(values.max()) / high, float(values.min()) / low if low else 0.0)
    if most <= 0:
        return 1.0
    tried = most * np.linspace(_LEAST, 1, _STEPS)
    errors = [float(np.square(np.clip(np.rint(values / scale), low, high) * scale - values).sum()) for scale in tried]
    return float(tried[int(np.argmin(errors))])


def rounded(rows: Reals, most: int, products: Reals | None, *, one_scale: bool) -> tuple[Ints, Reals]:
    """Round weights to integers ``-most..most``; each row has its own scale unless all share ``one_scale``.

    With ``products``, the second moments of the inputs, ``[weight][weight]`` (the Hessian of the squared error), later
    weights compensate rounding errors of earlier ones (GPTQ).
    """
    if one_scale:
        scales = np.full(len(rows), best_scale(rows, -most, most))
    else:
        scales = np.array([best_scale(row, -most, most) for row in rows])
    if products is None:
        return np.clip(np.rint(rows / scales[:, np.newaxis]), -most, most).astype(np.int64), scales
    own = np.diag(products)
    damped = products + np.eye(len(products)) * max(_DAMPING * float(own.mean()), np.finfo(np.float64).tiny)
    # weights of the largest inputs are rounded first
    order = np.argsort(-own, kind="stable")
    spread = np.linalg.cholesky(np.linalg.inv(damped[np.ix_(order, order)])).T
    whole = _compensated(rows[:, order], scales, most, spread)
    for _ in range(_PASSES - 1):
        scales = _fitted(rows[:, order], whole, damped[np.ix_(order, order)], scales, one_scale=one_scale)
        whole = _compensated(rows[:, order], scales, most, spread)
    result = np.empty_like(whole)
    result[:, order] = whole
    return result.astype(np.int64), scales


def _compensated(rows: Reals, scales: Reals, most: int, spread: Reals) -> Reals:
    left = rows.copy()
    whole = np.empty_like(left)
    for place in range(rows.shape[1]):
        whole[:, place] = np.clip(np.rint(left[:, place] / scales), -most, most)
        error = (left[:, place] - whole[:, place] * scales) / spread[place, place]
        left[:, place + 1 :] -= np.outer(error, spread[place, place + 1 :])
    return whole


def _fitted(rows: Reals, whole: Reals, products: Reals, scales: Reals, *, one_scale: bool) -> Reals:
    weighed = whole @ products
    to_rows, to_itself = (weighed * rows).sum(axis=1), (weighed * whole).sum(axis=1)
    if one_scale:
        to_rows, to_itself = (np.full(len(rows), total.sum()) for total in (to_rows, to_itself))
    fits = (to_rows > 0) & (to_itself > 0)
    return np.where(fits, to_rows / np.where(fits, to_itself, 1), scales)


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibration:
    """Samples of the tensors of a floating-point model, computed for calibration images."""

    readers: tuple[ReadingLayer, ...]
    samples: Mapping[str, NDArray[Any]]  # elements by tensor
    results: Reals  # of the network, `[image][element]`
    inputs: Mapping[str, Reals]  # second moments of layer inputs, by the tensor of the weights
    widths: Mapping[str, int] = field(default_factory=dict[str, int])  # bits by tensor
    _scales: dict[tuple[str, int, int, float], float] = field(default_factory=dict[tuple[str, int, int, float], float])
    _weights: dict[tuple[str, int, bool], Quantised] = field(default_factory=dict[tuple[str, int, bool], Quantised])

    @classmethod
    def on_images(
        cls,
        compute: Compute,
        name: str,
        shape: tuple[int, ...],
        options: ImportOptions,
        readers: Sequence[ReadingLayer],
        probed: Mapping[str, Probe],
        end: str,
    ) -> "Calibration":
        """Run a model with the input ``name`` and the output ``end`` on the images of ``options``.

        ``probed`` holds the probe of each tensor of weights. Raises :class:`InputError` for images of another size than
        the input, and for models that cannot be run.
        """
        if options.images is None or not len(options.images):
            raise InputError("calibration must have images, not none")
        images = options.images if options.images.ndim == 4 else options.images[..., np.newaxis]
        low, high = options.ends
        real = images.astype(np.float64) * (float(high - low) / 255) + float(low)
        if spread := options.by_colour(images.shape[-1]):
            means, deviations = np.array(spread, np.float64).T
            real = (real - means) / deviations
        real = real.astype(np.float32)
        if len(shape) == 4 and images.shape[1:] != shape[1:]:
            real = real.transpose(0, 3, 1, 2)
        if real[0].size != int(np.prod(shape)) or (len(shape) == 4 and real.shape[1:] != shape[1:]):
            raise InputError(f"images must have the shape of the model's input {shape[1:]}, not {images.shape[1:]}")
        samples, inputs, results = _run_model(compute, name, real.reshape(-1, *shape), probed, end)
        return cls(readers=tuple(readers), samples=samples, inputs=inputs, results=results)

    def with_widths(self, request: WidthRequest) -> "Calibration":
        return replace(self, widths=request.tensors(self.readers))

    def scale(self, tensor: str, low: int, high: int, floor: float = 0) -> float:
        """Return the best scale with which integers ``low..high`` represent a tensor minus ``floor``."""
        key = tensor, low, high, floor
        if key not in self._scales:
            self._scales[key] = best_scale(self.samples[tensor] - floor, low, high)
        return self._scales[key]

    def weights(self, tensor: str, values: NDArray[Any], *, one_scale: bool) -> Quantised:
        bits = self.widths[tensor]
        key = tensor, bits, one_scale
        if key not in self._weights:
            self._weights[key] = _integers(values, bits, self.inputs.get(tensor), one_scale=one_scale)
        return self._weights[key]

    def quantiser(self, tensor: str, sums: Sums) -> Quantiser:
        """Return the quantiser of a tensor, unsigned if samples are not negative or clipped inside the signed range."""
        values, bits = self.samples[tensor], self.widths[tensor]
        lows = [channel.low for channel in sums.channels if channel.low is not None]
        floor = min(lows) if len(lows) == len(sums.channels) else None
        is_positive = float(values.min()) >= 0 or (floor is not None and floor >= 0)
        low, high = (0, (1 << bits) - 1) if is_positive else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        scale, zero = Fraction(self.scale(tensor, low, high)), Fraction(0)
        if floor is not None and floor < 0 and round(floor / scale) > low:
            low, high = 0, (1 << bits) - 1
            scale = Fraction(self.scale(tensor, low, high, float(floor)))
            zero = Fraction(round(-floor / scale))
        return replace(uniform_quantiser(scale, zero, low, high, "ROUND"), is_free=True)


def _integers(values: NDArray[Any], bits: int, products: Reals | None, *, one_scale: bool) -> Quantised:
    rows = values.reshape(len(values), -1).astype(np.float64)
    if products is not None and len(products) != rows.shape[1]:
        products = None
    whole, scales = rounded(rows, (1 << (bits - 1)) - 1, products, one_scale=one_scale)
    exact = np.repeat(np.array([Fraction(float(scale)) for scale in scales], object), rows.shape[1])
    return Quantised(values=whole.reshape(values.shape), scale=exact.reshape(values.shape))


def _run_model(
    compute: Compute, name: str, images: NDArray[Any], probed: Mapping[str, Probe], end: str
) -> tuple[dict[str, NDArray[Any]], dict[str, Reals], Reals]:
    elements = defaultdict[str, list[NDArray[Any]]](list)
    moments: dict[str, NDArray[np.float64]] = {}
    results: list[NDArray[Any]] = []
    counts: dict[str, int] = {}
    rng = np.random.default_rng(0)
    for image in images:
        computed = compute({name: image})
        tensors = {name: image, **computed}
        results.append(np.asarray(tensors[end]).ravel())
        for tensor, values in computed.items():
            flat = np.asarray(values).ravel()
            most = max(1, _KEPT // len(images))
            elements[tensor].append(flat if len(flat) <= most else rng.choice(flat, most, replace=False))
        for weights, probe in probed.items():
            rows = probe(tensors)
            if not 0 < rows.shape[1] <= _MOST_WEIGHTS:
                continue
            if len(rows) > _WINDOWS:
                rows = rows[rng.choice(len(rows), _WINDOWS, replace=False)]
            rows = rows.astype(np.float64)
            moments[weights] = moments.get(weights, 0.0) + rows.T @ rows
            counts[weights] = counts.get(weights, 0) + len(rows)
    samples = {tensor: np.concatenate(values).astype(np.float64) for tensor, values in elements.items()}
    return samples, {tensor: sums / counts[tensor] for tensor, sums in moments.items()}, np.array(results, np.float64)
