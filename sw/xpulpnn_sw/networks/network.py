"""A network in integers: its layers, each with its precision, its operands and the rule of its results."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from xpulpnn.errors import LayerError
from xpulpnn.isa.formats import Extension
from xpulpnn_sw.kernels.kind import Kind
from xpulpnn_sw.kernels.kinds import kind_of
from xpulpnn_sw.layer import Layer
from xpulpnn_sw.layout import Ints
from xpulpnn_sw.precision import Precision


@dataclass(frozen=True, eq=False, kw_only=True)
class Stage:
    """A layer of a network.

    Parameters
    ----------
    name : str
        Its name, another for each layer of a network.
    layer : Layer
        What it computes.
    precision : Precision
        Widths and signs of its inputs, weights and results.
    tensors : LayerTensors, PoolTensors or ReluTensors
        What its kernel computes with. Of the activations only the shape counts: the layer before gives the values.
    """

    name: str
    layer: Layer
    precision: Precision
    tensors: Any

    @property
    def kind(self) -> Kind:
        """The kernel."""
        return kind_of(self.layer)

    @property
    def multiplies(self) -> bool:
        """Whether it has weights, so that its operations are multiplications."""
        return hasattr(self.tensors, "weights")

    def fed(self, activations: Ints) -> Any:
        """The operands with these activations; raises :class:`LayerError` if there are too many or too few."""
        shape = self.tensors.activations.shape
        if activations.size != self.tensors.activations.size:
            raise LayerError(f"inputs of {self.name} must be {shape}, not {activations.shape}")
        return replace(self.tensors, activations=activations.reshape(shape))

    def fastest(self, extensions: Collection[Extension], widths: Collection[int]) -> str:
        """The last variant of the kernel, in the order of speed, that a core can run.

        ``extensions`` are those of the core, ``widths`` those of its products. Raises :class:`LayerError` if it can
        run none.
        """
        able = [
            name
            for name, level in self.kind.variants.items()
            if level.extensions <= {*extensions} and level.vectors(self.precision) <= {*widths}
        ]
        if not able:
            raise LayerError(f"core must be one that computes {self.kind.name} of {self.precision} in {self.name}")
        return able[-1]


@dataclass(frozen=True, eq=False, kw_only=True)
class Network:
    """Layers, each of which computes with the results of the one before.

    Parameters
    ----------
    name : str
        What it is.
    stages : tuple of Stage
        The layers; the first computes with the input of the network.
    """

    name: str
    stages: tuple[Stage, ...]

    @property
    def macs(self) -> int:
        """Multiplications of convolutions and fully connected layers."""
        return sum(stage.layer.macs for stage in self.stages if stage.multiplies)
