"""Random TFLite models whose activations clip anywhere in the range of the codes."""

from dataclasses import replace
from typing import Any

import numpy as np

from .tflite_models import KINDS, NONE, RELU, RELU6, RELU_1, SAME, VALID, Graph, convolving, results, window

_ACTIVATIONS = (NONE, NONE, RELU, RELU6, RELU_1)
_BATCH = 16


class RandomGraph(Graph):
    """A model, ``inputs``, and the codes of its last operator for these."""

    def __init__(self, seed: int) -> None:
        self.draws = np.random.default_rng((seed, 7))
        shape = (1, 8, 8, int(self.draws.choice([1, 3, 4])))
        super().__init__(shape, 0.02, int(self.draws.choice([-128, 0, 5])), seed)
        self.inputs = self.draws.integers(-128, 128, (_BATCH, *shape[1:]))
        self.known: dict[int, Any] = {0: self.inputs}
        last, maps = 0, [0]
        for _ in range(int(self.draws.integers(2, 6))):
            last = self._grown(last, maps)
            maps.append(last)
        last = self._operator("MEAN", (last, self.numbers([1, 2])), (1, self._shape(last)[-1]), last)
        self._weighted("FULLY_CONNECTED", last, (6, self._shape(last)[-1]), (1, 6), WeightsFormat=0)

    def _shape(self, tensor: int) -> tuple[int, ...]:
        return self.tensors[tensor].shape

    def _activation(self) -> int:
        return int(self.draws.choice(_ACTIVATIONS))

    def _range(self, values: Any) -> tuple[float, int]:
        """Scale and zero point for real numbers, sometimes for a part of them or far more."""
        low, high = min(0.0, float(values.min())), max(0.05, float(values.max()))
        wide = self.draws.choice([0.6, 1, 1, 1.5])
        scale = max((high - low) / 255 * wide, 1e-3)
        zero = int(np.clip(round(-128 - low / scale), -128, 127))
        return float(np.float32(scale)), zero

    def _operator(
        self, kind: str, inputs: tuple[int, ...], shape: tuple[int, ...], like: int | None, **options: Any
    ) -> int:
        scale, zero = (1.0, 0) if like is None else (self.tensors[like].scales[0], int(self.tensors[like].zeros[0]))
        output = self.operator(kind, inputs, shape, scale, zero, **options)
        return self._coded(output, fitted=like is None)

    def _weighted(self, kind: str, x: int, filters: tuple[int, ...], shape: tuple[int, ...], **options: Any) -> int:
        options.setdefault("FusedActivationFunction", self._activation())
        axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
        output = self.weighted(kind, x, filters, shape, 1.0, 0, axis=axis, **options)
        return self._coded(output, fitted=True)

    def _coded(self, output: int, *, fitted: bool) -> int:
        node, tensor = self.operators[-1], self.tensors[output]
        if fitted:
            # codes of a fine and wide kind tell what the results are
            self.tensors[output] = replace(tensor, scales=np.array([1e-3]))
            plain = {key: NONE if key == "FusedActivationFunction" else value for key, value in node.options.items()}
            wide = replace(node, options=plain)
            values = _unclipped(self.tensors, wide, self.known)
            scale, zero = self._range(values)
            self.tensors[output] = replace(tensor, scales=np.array([scale]), zeros=np.array([zero]))
        self.known[output] = results(self.tensors, node, self.known)
        return output

    def _grown(self, last: int, maps: list[int]) -> int:
        _, rows, columns, channels = shape = self._shape(last)
        same_shape = [number for number in maps if number != last and self._shape(number) == shape]
        kinds = ["CONV_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "RELU", "LEAKY_RELU", "LOGISTIC"]
        kinds += ["AVERAGE_POOL_2D", "MAX_POOL_2D"] if rows >= 4 else []
        kinds += ["ADD", "SUB", "CONCATENATION"] * 2 if same_shape else []
        kind = str(self.draws.choice(kinds))
        match kind:
            case "CONV_2D":
                filters, reach = int(self.draws.choice([4, 8])), int(self.draws.choice([1, 3]))
                padding = VALID if rows > 4 and self.draws.integers(2) else SAME
                less = reach - 1 if padding == VALID else 0
                options = convolving((1, 1), padding, self._activation())
                size = (1, rows - less, columns - less, filters)
                return self._weighted(kind, last, (filters, reach, reach, channels), size, **options)
            case "DEPTHWISE_CONV_2D":
                options = convolving((1, 1), SAME, self._activation()) | {"DepthMultiplier": 1}
                return self._weighted(kind, last, (1, 3, 3, channels), shape, **options)
            case "AVERAGE_POOL_2D" | "MAX_POOL_2D":
                options = window((2, 2), VALID, self._activation(), FilterHeight=2, FilterWidth=2)
                return self._operator(kind, (last,), (1, rows // 2, columns // 2, channels), last, **options)
            case "ADD" | "SUB":
                other = int(self.draws.choice(same_shape))
                return self._operator(kind, (last, other), shape, None, FusedActivationFunction=self._activation())
            case "CONCATENATION":
                # of numbers of the same codes: what another has becomes these first
                other = self._operator("QUANTIZE", (int(self.draws.choice(same_shape)),), shape, last)
                both = (*shape[:3], 2 * channels)
                return self._operator(kind, (last, other), both, last, Axis=3, FusedActivationFunction=NONE)
            case "LEAKY_RELU":
                return self._operator(kind, (last,), shape, None, Alpha=0.1)
            case "LOGISTIC":
                output = self.operator(kind, (last,), shape, 1 / 256, -128)
                return self._coded(output, fitted=False)
            case _:
                kind = str(self.draws.choice([name for name in KINDS if name != "QUANTIZE"]))
                return self._operator(kind, (last,), shape, None)

    @property
    def is_telling(self) -> bool:
        return bool(np.unique(self.known[self.operators[-1].outputs[0]]).size > 10)


def _unclipped(tensors: Any, node: Any, known: Any) -> Any:
    """Real results of an operator, by the codes of the finest scale that has them all."""
    output = node.outputs[0]
    for scale in (1e-3, 1e-2, 0.1, 1.0, 10.0):
        tensors[output] = replace(tensors[output], scales=np.array([scale]))
        codes = results(tensors, node, known)
        if -128 < codes.min() and codes.max() < 127:
            break
    return codes * scale
