"""Random networks: layers of every kernel, width and rule that read whatever maps there are, with any channels."""

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sw.kernels.catalogue import find_kernel
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage

RULES = (Rule.BN32, Rule.BN64, Rule.EXACT, Rule.MULTIPLY, Rule.SHIFT, Rule.THRESHOLDS)
"""Rules of networks."""

_WIDTHS = (8, 4, 2)

_APART = ("depthwise", "depthwise", "maxpool", "avgpool", "relu", "add")

_MOVING = ("gather", "lookup", "multiply", "multiply", "depthwise", "add")
"""Layers without filters over all channels; those of networks that move elements or multiply maps."""

_MOST_CHANNELS = 19
"""More than a word has of the widest elements, and than half a word of the narrowest."""

_PIXELS = (4, 3)
"""Rows and columns of the input."""

_DIMENSIONS = 3
"""Dimensions of a map."""

_T = TypeVar("_T")


def random_graph(
    seed: int, layers: int = 8, *, single_bits: bool = True, images: int = 3, moving: bool = False
) -> tuple[Network, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    grown = _Graph(rng, single_bits=single_bits, moving=moving)
    source = NETWORK_INPUT
    for _ in range(layers - 1):
        # mostly what was made last
        source = grown.pick(source, source, source, *grown.maps)
        shape, bits, _ = grown.maps[source]
        can_be_apart = len(shape) == _DIMENSIONS and shape[0] > 1 and bits != SIGN_BITS
        source = grown.add_apart(source) if can_be_apart and grown.flip() else grown.add_product(source)
    grown.add_last(source)
    shape, bits, signed = grown.maps[NETWORK_INPUT]
    if bits == SIGN_BITS:
        return grown.network(), 2 * rng.integers(0, 2, (images, *shape)) - 1
    least = -(1 << (bits - 1)) if signed else 0
    return grown.network(), rng.integers(least, least + (1 << bits), (images, *shape))


class _Graph:
    """A network that is being made; ``maps`` has shape, width and sign of each."""

    def __init__(self, rng: np.random.Generator, *, single_bits: bool, moving: bool = False) -> None:
        self._apart = _MOVING if moving else _APART
        self._rng, self._stages = rng, list[Stage]()
        self._signs = (SIGN_BITS,) if single_bits else ()
        shape = (*_PIXELS, self._channels())
        bits, signed = self._element((*_WIDTHS, *self._signs))
        self.maps: dict[str, tuple[tuple[int, ...], int, bool]] = {NETWORK_INPUT: (shape, bits, signed)}

    def pick(self, *values: _T) -> _T:
        return values[self._rng.integers(len(values))]

    def flip(self) -> bool:
        return bool(self._rng.integers(2))

    def _channels(self) -> int:
        return int(self._rng.integers(1, _MOST_CHANNELS, endpoint=True))

    def _element(self, widths: tuple[int, ...]) -> tuple[int, bool]:
        bits = self.pick(*widths)
        return bits, bits != SIGN_BITS and self.flip()

    def _add(
        self, name: str, text: str, precision: Precision, sources: tuple[str, ...], rule: Rule = Rule.BN32, pad: int = 0
    ) -> str:
        chosen = find_kernel(name)
        layer: Any = chosen.layer.parse(text)
        precision = chosen.precision(layer, precision)
        if pad:
            layer = replace(layer, outside=pad)
        stage = Stage(
            name=f"{name}{len(self._stages)}",
            layer=layer,
            precision=precision,
            tensors=chosen.tensors(layer, precision, self._rng, rule),
            sources=sources,
        )
        self._stages.append(stage)
        self.maps[stage.name] = (stage.output_shape, precision.y, precision.y_signed)
        return stage.name

    def add_last(self, source: str) -> str:
        shape, x, x_signed = self.maps[source]
        precision = Precision(x, self._weight_bits(x), x, x_signed, y_signed=x_signed)
        return self._add("linear", f"{int(np.prod(shape))}:{self._channels()}:raw", precision, (source,))

    def _weight_bits(self, x: int) -> int:
        # what every variant can compute: both of one bit or neither
        return self.pick(*self._signs) if x == SIGN_BITS else self.pick(*_WIDTHS)

    def add_product(self, source: str) -> str:
        shape, x, x_signed = self.maps[source]
        w = self._weight_bits(x)
        y, y_signed = self._element((*_WIDTHS, *self._signs))
        precision = Precision(x, w, y, x_signed, y_signed=y_signed)
        rule = Rule.THRESHOLDS if y == SIGN_BITS else self.pick(*RULES)
        least = -(1 << (x - 1)) if x_signed else 0
        pad = int(self._rng.integers(least, least + (1 << x))) if x != SIGN_BITS and self.flip() else 0
        filters, sources = self._channels(), (source,)
        if len(shape) != _DIMENSIONS:
            return self._add("linear", f"{int(np.prod(shape))}:{filters}", precision, sources, rule)
        rows, columns, channels = shape
        size = f"{rows}x{columns}x{channels}:{filters}"
        match self.pick("conv", "conv", "pointwise", "conv1d"):
            case "conv1d" if columns == 1:
                text = f"{rows}x{channels}:{filters}x3:d=2,p=2"
                return self._add("conv1d", text, precision, sources, rule, pad)
            case "pointwise":
                return self._add("pointwise", size, precision, sources, rule)
            case _:
                padding = "p=1" if columns > 1 and self.flip() else "p=1x1x0x0"
                kernel = f"3x{min(columns, 3)}"
                return self._add("conv", f"{size}x{kernel}:{padding}", precision, sources, rule, pad)

    def add_apart(self, source: str) -> str:
        shape, x, x_signed = self.maps[source]
        size, (y, y_signed), sources = "x".join(map(str, shape)), self._element(_WIDTHS), (source,)
        same = Precision(x, x, x, x_signed, y_signed=x_signed)
        match kind := self.pick(*self._apart):
            case "gather":
                moved = f"{size}:{shape[1]}x{shape[0]}x{self._channels()}"
                return self._add("gather", moved, same, sources)
            case "lookup":
                precision = Precision(x, x, y, x_signed, y_signed=y_signed)
                return self._add("lookup", size, precision, sources)
            case "depthwise":
                precision = Precision(x, self.pick(*_WIDTHS), y, x_signed, y_signed=y_signed)
                return self._add("depthwise", f"{size}:3x3", precision, sources, self.pick(*RULES))
            case "maxpool":
                return self._add("maxpool", f"{size}:2x1", same, sources)
            case "avgpool" if self.flip():
                precision = Precision(x, x, y, x_signed, y_signed=y_signed)
                return self._add("avgpool", f"{size}:2x1:p=1x0x0x0:scaled", precision, sources)
            case "avgpool":
                return self._add("avgpool", f"{size}:2x1", same, sources)
            case "relu" if x_signed:
                return self._add("relu", size, same, sources)
            case _:
                others = [name for name, (other, bits, _) in self.maps.items() if other == shape and bits != SIGN_BITS]
                other = self.pick(*others)
                _, w, w_signed = self.maps[other]
                precision = Precision(x, w, y, x_signed, w_signed, y_signed)
                if kind == "multiply":
                    return self._add(kind, size, precision, (source, other))
                return self._add("add", size + self.pick("", ":shift"), precision, (source, other))

    def network(self) -> Network:
        needed = {self._stages[-1].name}
        for stage in reversed(self._stages):
            if stage.name in needed:
                needed.update(stage.sources)
        return Network(name="random", stages=tuple(stage for stage in self._stages if stage.name in needed))
