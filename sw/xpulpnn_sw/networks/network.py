"""A network in integers: its layers, each with its precision, its operands and the rule of its results."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from xpulpnn.errors import LayerError
from xpulpnn.isa.formats import Extension
from xpulpnn_sw.kernels.channelwise.elementwise import AddTensors
from xpulpnn_sw.kernels.kinds import Kind, kind_of
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.layers.convolution import Layer
from xpulpnn_sw.layers.precision import Precision

NETWORK_INPUT = "input"  # what layers call the input of the network


@dataclass(frozen=True, eq=False, kw_only=True)
class Stage:
    """A layer of a network."""

    name: str  # its name, another for each layer of a network
    layer: Layer
    precision: Precision  # widths and signs of its inputs, weights and results
    tensors: Any  # what its kernel computes with
    # names of the layers whose results it computes with, NETWORK_INPUT for the input of the network; two of an addition
    sources: tuple[str, ...] = ()
    # the value around its map, in the range of its inputs; of inputs of one bit, which know no 0, 0 means -1
    pad: int = 0

    @property
    def maps(self) -> tuple[Ints, ...]:
        """The maps among its operands, one or two."""
        own = self.tensors
        return (own.first, own.second) if isinstance(own, AddTensors) else (own.activations,)

    @property
    def input_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the maps it computes with."""
        return tuple(one.shape for one in self.maps)

    @property
    def input_elements(self) -> tuple[tuple[int, bool], ...]:
        """Width and sign of the elements of these maps."""
        read = self.precision
        first, second = (read.x, read.x_signed), (read.w, read.w_signed)
        return (first, second) if isinstance(self.tensors, AddTensors) else (first,)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of its results, channels last."""
        return (*self.layer.out_shape, self.layer.out_channels)

    @property
    def kind(self) -> Kind:
        """The kernel."""
        return kind_of(self.layer)

    @property
    def multiplies(self) -> bool:
        """Return whether it has weights, so that its operations are multiplications."""
        return hasattr(self.tensors, "weights")

    def fed(self, *maps: Ints | None) -> Any:
        """The operands with these maps, None for one that stays; raises :class:`LayerError` for another size."""
        own = self.tensors
        names = ("first", "second") if isinstance(own, AddTensors) else ("activations",)
        given: dict[str, Ints] = {}
        for name, shape, values in zip(names, self.input_shapes, maps, strict=True):
            if values is None:
                continue
            if values.size != prod(shape):
                raise LayerError(f"inputs of {self.name} must be {shape}, not {values.shape}")
            given[name] = values.reshape(shape)
        return replace(own, **given)

    def fastest(self, extensions: Collection[Extension], widths: Collection[int]) -> str:
        """The last variant of the kernel, in the order of speed, that a core can run.

        ``extensions`` are those of the core, ``widths`` those of its products. Raises :class:`LayerError` if it can
        run none.
        """
        able = [
            name
            for name, level in self.kind.variants.items()
            if level.extensions <= {*extensions}
            and level.vectors(self.precision) <= {*widths}
            and level.computes(self.precision)
        ]
        if not able:
            raise LayerError(f"core must be one that computes {self.kind.name} of {self.precision} in {self.name}")
        return able[-1]


@dataclass(frozen=True, eq=False, kw_only=True)
class Network:
    """Layers that compute with the input of the network and with results of layers before them."""

    name: str
    # the layers, each behind those whose results it computes with; those of the last are the network's
    stages: tuple[Stage, ...]

    def sources(self, number: int) -> tuple[str, ...]:
        """Return the names of the layers that layer ``number`` reads, or :data:`NETWORK_INPUT`."""
        if self.stages[number].sources:
            return self.stages[number].sources
        return (self.stages[number - 1].name if number else NETWORK_INPUT,)

    @property
    def macs(self) -> int:
        """Multiplications of convolutions and fully connected layers."""
        return sum(stage.layer.macs for stage in self.stages if stage.multiplies)
