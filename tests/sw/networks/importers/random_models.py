"""Random models with clips, negative factors and normalisation anywhere, and how near their networks are to them."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from xpulpnn_sim.reference.golden.network import Agreement, agreement
from xpulpnn_sw.networks.importers.onnx_file import import_onnx
from xpulpnn_sw.networks.importers.registry import ImportOptions, request_of

from .onnx_models import OPERATORS, Model

FORMS = ("float", "qdq", "qonnx")
IMAGES = 24
_SIDE, _CLASSES, _LEAST_SPREAD = 8, 6, 0.02
_ENDS = ("Softmax", "ArgMax", "ArgMin", "TopK least", "TopK", "")


class RandomModel:
    """An ONNX model; ``expected`` has its results in front of what chooses among them, for ``images``."""

    def __init__(self, seed: int, form: str) -> None:
        self._rng, self.form = np.random.default_rng((seed, FORMS.index(form))), form
        channels = int(self._rng.integers(1, 4))
        self.model = Model((1, channels, _SIDE, _SIDE))
        self.images = _pictures(self._rng, channels)
        if form != "float":
            self._quantise(Fraction(1, 255), signed=False)
        maps: dict[tuple[int, ...], list[str]] = {}
        for _ in range(int(self._rng.integers(1, 4))):
            self._change(1)
            self._layer(maps)
            self._change(3)
            if self._is_likely(0.9):
                self._measured()
            maps.setdefault(self._values().shape[1:], []).append(self.model.last)
        self._end()

    def _is_likely(self, chance: float) -> bool:
        return bool(self._rng.random() < chance)

    def _pick(self, *values: Any) -> Any:
        return values[self._rng.integers(len(values))]

    def _values(self, images: int = 4) -> NDArray[np.float32]:
        evaluator = ReferenceEvaluator(self.model.proto(), new_ops=OPERATORS)
        given = self.images[:images].astype(np.float32).transpose(0, 3, 1, 2)[:, np.newaxis] / np.float32(255)
        outputs: list[Any] = [evaluator.run(None, {"image": image})[0] for image in given]
        return np.concatenate(outputs)

    def _quantise(self, scale: Any, *, signed: bool, zero: int = 0) -> None:
        if self.form == "qdq":
            self.model.pair(float(scale), zero, np.int8 if signed else np.uint8)
        else:
            self.model.quant(float(scale), 8, signed=signed, zero=zero)

    def _measured(self) -> None:
        """A quantiser for the range of the last tensor, in the quantised forms."""
        if self.form == "float":
            return
        values = self._values()
        low, high = min(0.0, float(values.min())), max(float(values.max()), 1e-3)
        high *= self._pick(1, 1, 0.7)
        if self.form == "qdq" and self._is_likely(0.5):
            scale = (high - low) / 255
            self._quantise(np.float32(scale), signed=False, zero=int(np.clip(round(-low / scale), 0, 255)))
        else:
            signed = low < 0
            scale = max(high, -low) / (127 if signed else 255)
            self._quantise(np.float32(scale), signed=signed)

    def _weights(self, shape: tuple[int, ...]) -> str:
        values = self._rng.normal(0, 1, shape) / np.sqrt(np.prod(shape[1:]))
        if self.form == "float":
            return self.model.constant(values)
        bits = 8 if self.form == "qdq" else int(self._pick(4, 8))
        most = 2 ** (bits - 1) - 1
        rows = np.abs(values).reshape(len(values), -1).max(axis=1) / most
        scales = rows.astype(np.float32).reshape(-1, *[1] * (len(shape) - 1))
        if len(shape) == 2:
            scales = np.full_like(scales, scales.max())
        if self.form == "qonnx":
            return self.model.weights(values, scales, bits)
        whole = np.clip(np.rint(values / scales), -most, most)
        return self.model.integers(whole, scales.ravel() * self._pick(1, 1, -1), np.int8)

    def _change(self, most: int) -> None:
        """Operators on every element: clips, factors, normalisation."""
        for _ in range(int(self._rng.integers(most + 1))):
            values = self._values()
            column = (values.shape[1], *[1] * (values.ndim - 2))
            kinds = ["Relu", "Relu6", "Clip", "Mul", "Div", "Add", "Sub", "turned Sub", "Neg", "BatchNormalization"]
            kind = self._pick(*kinds, *(["LeakyRelu", "Sigmoid"] if self._is_likely(0.3) else []))
            size = self._pick((), column)
            spread = float(values.std()) + 1e-3
            factor = self._rng.uniform(0.3, 2, size) * self._rng.choice([-1, 1], size)
            match kind:
                case "Relu" | "Neg" | "Sigmoid":
                    self.model.node(kind)
                case "LeakyRelu":
                    self.model.node(kind, alpha=0.1)
                case "Relu6":
                    self.model.node("Clip", self.model.constant(0), self.model.constant(6))
                case "Clip":
                    low, high = sorted(float(bound) for bound in np.quantile(values, self._rng.uniform(0, 1, 2)))
                    ends = [self.model.constant(low), self.model.constant(max(high, low + spread / 2))]
                    match self._pick("both", "both", "low", "high"):
                        case "low":
                            ends.pop()
                        case "high":
                            ends[0] = ""
                    self.model.node("Clip", *ends)
                case "Mul" | "Div":
                    self.model.node(kind, self.model.constant(factor))
                case "Add" | "Sub":
                    self.model.node(kind, self.model.constant(self._rng.normal(0, spread, size)))
                case "turned Sub":
                    last = self.model.last
                    self.model.node("Sub", last, source=self.model.constant(self._rng.normal(0, spread, size)))
                case _:
                    axes = tuple(axis for axis in range(values.ndim) if axis != 1)
                    parameters = (
                        np.ravel(factor),
                        self._rng.normal(0, 1, column[0]),
                        values.mean(axis=axes),
                        values.var(axis=axes) + 1e-2,
                    )
                    names = [self.model.constant(np.ravel(parameter) * np.ones(column[0])) for parameter in parameters]
                    self.model.node("BatchNormalization", *names)

    def _layer(self, maps: dict[tuple[int, ...], list[str]]) -> None:
        values = self._values(1)
        channels, rows = values.shape[1:3]
        others = maps.get(values.shape[1:], [])
        kinds = ["conv", "conv", "depthwise", "pointwise"] + (["MaxPool", "AveragePool"] if rows >= 4 else [])
        kind = self._pick(*kinds, *(["Add", "Sub"] * 2 if others else []))
        if self.form != "float" and kind != "MaxPool" and not self.model.last.startswith(("dequan", "quant")):
            self._measured()
        match kind:
            case "conv" | "pointwise":
                filters, reach = int(self._pick(4, 8)), 1 if kind == "pointwise" else 3
                pads = [self._pick(0, 1) if reach > 1 and rows > 2 else reach // 2] * 4
                strides = [self._pick(1, 1, 2)] * 2
                weights = self._weights((filters, channels, reach, reach))
                bias = [self.model.constant(self._rng.normal(0, 0.3, filters))] if self.form == "float" else []
                self.model.node("Conv", weights, *bias, kernel_shape=[reach] * 2, pads=pads, strides=strides)
            case "depthwise":
                weights = self._weights((channels, 1, 3, 3))
                self.model.node("Conv", weights, kernel_shape=[3, 3], pads=[1] * 4, group=channels)
            case "MaxPool" | "AveragePool":
                self.model.node(kind, kernel_shape=[2, 2], strides=[2, 2])
            case _:
                self.model.node(kind, self._pick(*others))

    def _end(self) -> None:
        if self._is_likely(0.6):
            self.model.node("GlobalAveragePool")
            self._change(1)
        self._measured()
        self.model.node("Flatten")
        self.model.node("Gemm", self._weights((_CLASSES, self._values(1).shape[1])), transB=1)
        self._change(2)
        if self._is_likely(0.5):
            self._measured()
        if self._is_likely(0.2):
            self.model.node(self._pick("Neg", "Relu"))
        self.expected, self.result = self._values(IMAGES), self.model.last
        end = self._pick(*_ENDS)
        self.sign = -1 if end in ("ArgMin", "TopK least") else 1
        if end.startswith("TopK"):
            self.model.node("TopK", self.model.constant([1], np.int64), largest=int(self.sign > 0))
            self.model.nodes[-1].output.append("places")
        elif end:
            self.model.node(end, axis=1)

    @property
    def is_telling(self) -> bool:
        """Whether results depend on the image at all."""
        spread = self.expected.std(axis=0).max()
        return bool(np.isfinite(self.expected).all() and spread > _LEAST_SPREAD * (np.abs(self.expected).max() + 1e-6))

    def network(self, path: Path, notes: Callable[[str], object]) -> tuple[Agreement, Agreement | None]:
        """How near the network is to the model, and what the importer says; raises InputError where it refuses."""
        said: list[Any] = []
        options: dict[str, Any] = {}
        if self.form == "float":
            options = {"quantise": request_of("8"), "images": self.images}
        self.model.saved(path)
        described = import_onnx(path, ImportOptions(name="model", note=notes, scores=said.append, **options))
        inputs = described.batch(self.images)
        own = agreement(described.network, inputs, self.expected.reshape(IMAGES, -1).astype(np.float64) * self.sign)
        return own, agreement(described.network, inputs, said[0]) if said else None


def _pictures(rng: np.random.Generator, channels: int) -> NDArray[np.uint8]:
    shape = (IMAGES, _SIDE, _SIDE, channels)
    down, across, level = (rng.normal(0, 1, (IMAGES, 1, 1, channels)) for _ in range(3))
    rows, columns = np.mgrid[-1 : 1 : _SIDE * 1j, -1 : 1 : _SIDE * 1j][:, np.newaxis, :, :, np.newaxis]
    waves = 128 + 60 * (down * rows + across * columns + level) + rng.normal(0, 15, shape)
    return np.clip(waves, 0, 255).astype(np.uint8)
