"""Networks made layer by layer, each checked as it is given: what files and importers have in common."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from xpulpnn.errors import InputError, LayerError
from xpulpnn_sw.kernels.kernel import Kind
from xpulpnn_sw.kernels.kinds import kind, kind_of
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.convolution import ImageConvLayer, Layer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.library.packed_layer import Arrays, layer_operands
from xpulpnn_sw.networks.network import Described, Network, Scaling, Stage, check_network

# kernels of the layers of networks
NETWORK_KERNELS = (
    "conv",
    "pointwise",
    "conv1d",
    "linear",
    "depthwise",
    "add",
    "avgpool",
    "maxpool",
    "relu",
)
# pv.qnt wants its thresholds at addresses that layers which follow each other in memory do not have
NETWORK_RULES = {rule.value: rule for rule in Rule if rule is not Rule.QNT}  # how results come of accumulators, by name
_IMAGE = ":image"


_MOST_ELEMENTS = 1 << 26  # of a map, far more than any memory of the design has


def _check_size(layer: Layer) -> None:
    """Raise :class:`LayerError` for maps that nobody has memory for."""
    before = [getattr(layer, name, 1) for name in ("height", "width", "length", "channels", "inputs")]
    for elements in (prod(before), prod(layer.out_shape) * layer.out_channels):
        if elements > _MOST_ELEMENTS:
            raise LayerError(f"maps must have {_MOST_ELEMENTS} elements at most, not {elements}")


def _surrounded(layer: Any, pad: int) -> tuple[Any, int]:
    """A layer with this value around its map, or with what its text says, and the value.

    Raises :class:`LayerError` if both are given and differ. What may have no padding is left as it is.
    """
    if not hasattr(layer, "outside"):
        return layer, pad
    if pad and layer.outside and pad != layer.outside:
        raise LayerError(f"pad must be that of the layer {layer}, not {pad}")
    value = pad or layer.outside
    return replace(layer, outside=value), value


def _check_precision(computing: Kind, precision: Precision) -> None:
    """Raise :class:`LayerError` unless some variant of the kernel computes with it."""
    refused: LayerError | None = None
    for level in computing.variants.values():
        try:
            level.check_precision(precision)
        except LayerError as error:
            refused = error
        else:
            return
    raise refused or LayerError(f"precision must be one of {computing.name}, not {precision}")


def _tensors(computing: Kind, layer: Any, precision: Precision, arrays: Arrays, rule: Rule) -> Any:
    if not computing.rules:
        return layer_operands(computing, layer, precision, arrays, Rule.BN32)
    tensors = layer_operands(computing, layer, precision, arrays, rule)
    tensors.check(getattr(layer, "geometry", layer), precision, activations=tensors.activations.shape)
    return tensors


@dataclass(eq=False)
class NetworkBuilder:
    """A network that is being made."""

    name: str
    stages: list[Stage] = field(default_factory=list[Stage], init=False)

    def add(
        self,
        name: str,
        kernel: str,
        layer: str,
        precision: str,
        arrays: Arrays | None = None,
        *,
        requantise: str = Rule.BN32.value,
        sources: Sequence[str] = (),
        pad: int = 0,
    ) -> Stage:
        """Add a layer behind those there are; raises :class:`InputError`, which names it, for one that cannot be."""
        if kernel not in NETWORK_KERNELS:
            raise InputError(f"kernel of {name} must be one of {', '.join(NETWORK_KERNELS)}, not {kernel}")
        if requantise not in NETWORK_RULES:
            raise InputError(f"requantise of {name} must be one of {', '.join(NETWORK_RULES)}, not {requantise}")
        try:
            is_image = kernel == "conv" and layer.endswith(_IMAGE)
            computed = (ImageConvLayer if is_image else kind(kernel).layer).parse(layer)
            _check_size(computed)
            computing = kind_of(computed)
            widths = computing.precision(computed, Precision.parse(precision))
            _check_precision(computing, widths)
            tensors = _tensors(computing, computed, widths, arrays or {}, NETWORK_RULES[requantise])
            computed, pad = _surrounded(computed, pad)
        except (InputError, LayerError) as error:
            raise InputError(f"{name}: {error}") from None
        self.stages.append(
            Stage(name=name, layer=computed, precision=widths, tensors=tensors, sources=tuple(sources), pad=pad)
        )
        return self.stages[-1]

    def finish(self, scaling: Scaling | None = None, labels: Sequence[str] = ()) -> Described:
        """The network; raises :class:`LayerError` unless its layers fit together."""
        if not self.stages:
            raise LayerError("layers must be one at least, not none")
        network = Network(name=self.name, stages=tuple(self.stages))
        check_network(network)
        described = Described(network=network, scaling=scaling or Scaling(), labels=tuple(labels))
        if labels and len(labels) != described.classes:
            raise LayerError(f"classes must be {described.classes} names, not {len(labels)}")
        return described
