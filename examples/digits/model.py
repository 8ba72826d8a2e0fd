"""A network of two fully connected layers in numpy: its gradients, and the integers its training ends in."""

from dataclasses import dataclass, field

import numpy as np

from xpulpnn_sw.networks.network import NetworkModel, Scaling
from xpulpnn_sw.networks.network_file import NetworkBuilder
from xpulpnn_sw.networks.normalisation import largest_sums, normalised

PIXELS, HIDDEN, CLASSES = 64, 64, 10
SCALINGS = {8: Scaling(), 4: Scaling(), 2: Scaling(add=2, shift=2)}
"""How samples of 0 to 16 become inputs of so many bits; what is beyond their range is clipped to it."""

_DECAY, _SMALL = (0.9, 0.999), 1e-8


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Values that an integer stands for, once the network computes with integers.

    Parameters
    ----------
    bits : int
        Of weights and activations.
    hidden : array of float, [out][1]
        Of the weights of the first layer.
    activation : float
        Of its results.
    scores : float
        Of the weights of the second layer.
    """

    bits: int
    hidden: np.ndarray
    activation: float
    scores: float


@dataclass
class Net:
    """The network, trained by Adam.

    Parameters
    ----------
    rng : Generator
        Of the first weights.
    """

    rng: np.random.Generator
    steps: Steps | None = None
    values: dict[str, np.ndarray] = field(default_factory=dict)
    _moments: dict[str, list[np.ndarray]] = field(default_factory=dict)
    _updates: int = 0

    def __post_init__(self) -> None:
        """Draw weights of the usual variance."""
        shapes = {"hidden": (HIDDEN, PIXELS), "scores": (CLASSES, HIDDEN)}
        for name, shape in shapes.items():
            self.values[name] = self.rng.normal(0, (2 / shape[1]) ** 0.5, shape)
            self.values[f"{name}_bias"] = np.zeros(shape[0])

    def start(self, bits: int, inputs: np.ndarray) -> None:
        """Compute with integers of so many bits from now on, by steps that fit weights and activations."""
        most = (1 << (bits - 1)) - 1
        rows, whole = self.values["hidden"], self.values["scores"].reshape(1, -1)
        first, _ = self._activations(inputs)
        self.steps = Steps(
            bits=bits,
            hidden=_fitting(rows, -most - 1, most),
            activation=float(_fitting(first.reshape(1, -1), 0, (1 << bits) - 1)[0, 0]),
            scores=float(_fitting(whole, -most - 1, most)[0, 0]),
        )
        self._moments, self._updates = {}, 0

    def _weights(self, name: str) -> np.ndarray:
        if self.steps is None:
            return self.values[name]
        return self.integers(name) * getattr(self.steps, name)

    def integers(self, name: str) -> np.ndarray:
        """The weights of a layer in steps."""
        assert self.steps is not None
        least = -(1 << (self.steps.bits - 1))
        return np.clip(np.floor(self.values[name] / getattr(self.steps, name) + 0.5), least, -least - 1)

    def _activations(self, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Results of the first layer, and where a change of its sums would change them."""
        sums = inputs @ self._weights("hidden").T + self.values["hidden_bias"]
        if self.steps is None:
            return np.maximum(sums, 0), sums > 0
        most = (1 << self.steps.bits) - 1
        scaled = sums / self.steps.activation
        return np.clip(np.floor(scaled + 0.5), 0, most) * self.steps.activation, (scaled > 0) & (scaled < most)

    def learn(self, inputs: np.ndarray, labels: np.ndarray, rate: float) -> None:
        """A step down the gradient of the cross entropy; rounding counts as if it were not there."""
        first, open_ = self._activations(inputs)
        scores = first @ self._weights("scores").T + self.values["scores_bias"]
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        error = odds / odds.sum(axis=1, keepdims=True)
        error[np.arange(len(labels)), labels] -= 1
        error /= len(labels)
        before = (error @ self._weights("scores")) * open_
        self._updates += 1
        gradients = {
            "scores": error.T @ first,
            "scores_bias": error.sum(axis=0),
            "hidden": before.T @ inputs,
            "hidden_bias": before.sum(axis=0),
        }
        for name, gradient in gradients.items():
            moments = self._moments.setdefault(name, [np.zeros_like(gradient), np.zeros_like(gradient)])
            for place, (decay, power) in enumerate(zip(_DECAY, (gradient, gradient**2), strict=True)):
                moments[place] = decay * moments[place] + (1 - decay) * power
            mean, square = (one / (1 - decay**self._updates) for one, decay in zip(moments, _DECAY, strict=True))
            self.values[name] -= rate * mean / (np.sqrt(square) + _SMALL)

    def described(self, unit: float) -> NetworkModel:
        """The network in integers, inputs of which stand for ``unit`` each."""
        assert self.steps is not None
        steps = self.steps
        inputs = (1 << steps.bits) - 1
        hidden, scores = self.integers("hidden").astype(np.int64), self.integers("scores").astype(np.int64)
        after = normalised(
            steps.hidden[:, 0] * unit / steps.activation,
            self.values["hidden_bias"] / steps.activation,
            largest_sums(hidden, 0, inputs),
        )
        bias = np.rint(self.values["scores_bias"] / (steps.scores * steps.activation)).astype(np.int64)
        bits = steps.bits
        builder = NetworkBuilder(f"digits{bits}")
        width = f"{bits}x{bits}x{bits}"
        builder.add("hidden", "linear", f"{PIXELS}:{HIDDEN}", width, {"weights": hidden, **after})
        arrays = {"weights": scores, "bias": bias}
        builder.add("scores", "linear", f"{HIDDEN}:{CLASSES}:raw", f"{bits}x{bits}xi32", arrays)
        return builder.finish(SCALINGS[bits], [str(digit) for digit in range(CLASSES)])


def _fitting(rows: np.ndarray, least: int, most: int) -> np.ndarray:
    """The step of each row with the least error, out of some below what holds its largest value, ``[row][1]``."""
    tried = np.abs(rows).max(axis=1, keepdims=True) / most * np.linspace(0.15, 1, 35)[:, None, None]
    near = np.clip(np.floor(rows / tried + 0.5), least, most) * tried
    best = ((near - rows) ** 2).sum(axis=2).argmin(axis=0)
    return tried[best, np.arange(len(rows))]
