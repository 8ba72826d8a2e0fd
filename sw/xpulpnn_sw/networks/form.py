"""Networks in files: layers as JSON, which can be written by hand, weights as npz beside it.

The object has ``name``; ``arrays``, the name of the npz file beside it; ``layers``, in their order; and, if images are
to be scaled, ``input`` with ``subtract`` (by colour), ``multiply``, ``add`` and ``shift``: the network computes with
``clip(((sample - subtract) * multiply + add) >> shift)``, clipped to the range of its inputs.

A layer has ``name``, ``kernel`` (one of :data:`CHAINED`), ``layer`` and ``precision`` as on the command line, and
``requantise`` for another rule than ``bn32``. The arrays of a layer are those of ``xpulpnn pack``, each with the
layer's name and a dot before it: ``conv1.weights``, ``conv1.bias``, ``conv1.shift``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np

from xpulpnn.errors import InputError, LayerError
from xpulpnn_sw.clibrary.packed_layer import Arrays, read_arrays
from xpulpnn_sw.clibrary.packing import PACKED_KERNELS, trained_tensors
from xpulpnn_sw.kernels.kind import Kind
from xpulpnn_sw.kernels.kinds import kind, kind_of
from xpulpnn_sw.kernels.requantisation import (
    MAX_SHIFT,
    Multiplication,
    Requantisation,
    Rule,
    Shifting,
    Thresholds,
    WideRequantisation,
)
from xpulpnn_sw.layers.image import ImageConvLayer
from xpulpnn_sw.layout import Ints
from xpulpnn_sw.networks.network import Network, Stage
from xpulpnn_sw.precision import SIGN_BITS, Precision

CHAINED = ("conv", "pointwise", "linear", "maxpool", "avgpool", "relu")
"""Kernels of layers that compute with the results of one before, as they are in memory."""

_SCALED = "scaled"
_NETWORK = ("name", "arrays", "layers", "input")
_LAYER = ("name", "kernel", "layer", "precision", "requantise")
_INPUT = ("subtract", "multiply", "add", "shift")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """What a network's inputs are, of the samples of an image.

    Parameters
    ----------
    subtract : tuple of int
        From the samples, by colour; empty: nothing.
    multiply, add, shift : int
        Of ``((sample - subtract) * multiply + add) >> shift``.
    """

    subtract: tuple[int, ...] = ()
    multiply: int = 1
    add: int = 0
    shift: int = 0

    def scaled(self, samples: Ints, bits: int, *, signed: bool) -> Ints:
        """The samples, channels last, as inputs of so many bits."""
        differences = samples.astype(np.int64) - (np.array(self.subtract) if self.subtract else 0)
        least = -(1 << (bits - 1)) if signed else 0
        return np.clip((differences * self.multiply + self.add) >> self.shift, least, least + (1 << bits) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A network out of a file, and what its inputs are."""

    network: Network
    scaling: Scaling

    @property
    def classes(self) -> int:
        """Results of the last layer."""
        last = self.network.stages[-1].layer
        return prod(last.out_shape) * last.out_channels

    def random_input(self, seed: int) -> Ints:
        """An input anywhere in the range of the first layer's."""
        first = self.network.stages[0]
        least = -(1 << (first.precision.x - 1)) if first.precision.x_signed else 0
        shape: tuple[int, ...] = first.tensors.activations.shape
        return np.random.default_rng(seed).integers(least, least + (1 << first.precision.x), shape)

    def inputs(self, samples: Ints) -> Ints:
        """The input for an image, in the shape of the first layer's; raises :class:`LayerError` for another size."""
        first = self.network.stages[0]
        shape: tuple[int, ...] = first.tensors.activations.shape
        if samples.size != prod(shape) or samples.shape[-1] not in (shape[-1], samples.size, 1):
            raise LayerError(f"image must have the shape {shape}, not {samples.shape}")
        if self.scaling.subtract and len(self.scaling.subtract) != samples.shape[-1]:
            raise LayerError(f"subtract must have {samples.shape[-1]} numbers, not {len(self.scaling.subtract)}")
        scaled = self.scaling.scaled(samples, first.precision.x, signed=first.precision.x_signed)
        return scaled.reshape(shape)


def read_network(path: Path) -> Described:
    """The network in a JSON file with its npz file; raises :class:`InputError` or :class:`LayerError` for another."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"network must be a JSON file that can be read, not {path}: {error}") from None
    entries = _object(content, "network", _NETWORK, optional=("input",))
    name, layers = _text(entries, "name", "network"), entries["layers"]
    if not isinstance(layers, list) or not layers:
        raise InputError("layers must be a list with a layer at least, not something else")
    arrays = read_arrays(path.parent / _text(entries, "arrays", "network"))
    stages: list[Stage] = []
    for number, entry in enumerate(cast("list[Any]", layers)):
        stage = _stage(entry, number, arrays)
        if stage.name in {one.name for one in stages}:
            raise InputError(f"names of layers must be different, not {stage.name} twice")
        stages.append(stage)
    strange = [one for one in arrays if one.rpartition(".")[0] not in {stage.name for stage in stages}]
    if strange:
        raise InputError(f"arrays must be called LAYER.NAME, not {strange[0]}")
    return Described(network=Network(name=name, stages=tuple(stages)), scaling=_scaling(entries.get("input", {})))


def description(network: Network, arrays: str, scaling: Scaling | None = None) -> str:
    """The JSON text of a network whose arrays are in a file called ``arrays``."""
    layers: list[dict[str, str]] = []
    for stage in network.stages:
        text = {"name": stage.name, "kernel": stage.kind.name, "layer": str(stage.layer)}
        rule = getattr(getattr(stage.tensors, "requantisation", None), "rule", Rule.BN32)
        rest = {} if rule is Rule.BN32 else {"requantise": rule.value}
        layers.append(text | {"precision": str(stage.precision)} | rest)
    scaled = {} if scaling is None else {"input": asdict(scaling)}
    return f"{json.dumps({'name': network.name, 'arrays': arrays, **scaled, 'layers': layers}, indent=2)}\n"


def arrays_of(network: Network) -> dict[str, Ints]:
    """What the npz file of a network has."""
    found: dict[str, Ints] = {}
    for stage in network.stages:
        if not stage.multiplies:
            continue
        own = {"weights": stage.tensors.weights, "bias": stage.tensors.bias}
        match stage.tensors.requantisation:
            case Requantisation() | WideRequantisation() as rule:
                own |= {"kappa": rule.kappa, "lambda": rule.lam, "shift": rule.shift}
            case Multiplication() as rule:
                own |= {"factor": rule.factor, "shift": rule.shift}
            case Shifting() as rule:
                own |= {"shift": rule.shift}
            case Thresholds() as rule:
                own |= {"thresholds": rule.values}
            case _:
                pass
        found |= {f"{stage.name}.{name}": np.asarray(values) for name, values in own.items() if values is not None}
    return found


def _stage(content: Any, number: int, arrays: Arrays) -> Stage:
    where = f"layers[{number}]"
    entry = _object(content, where, _LAYER, optional=("requantise",))
    name, text = _text(entry, "name", where), _text(entry, "layer", where)
    chosen = _text(entry, "kernel", where)
    if chosen not in CHAINED:
        raise InputError(f"kernel of {name} must be one of {', '.join(CHAINED)}, not {chosen}")
    # pv.qnt wants its thresholds at addresses that layers which follow each other in memory do not have
    rules = {rule.value: rule for rule in Rule if rule is not Rule.QNT}
    rule = entry.get("requantise", Rule.BN32.value)
    if rule not in rules:
        raise InputError(f"requantise of {name} must be one of {', '.join(rules)}, not {rule}")
    is_image = chosen == "conv" and text.endswith(":image")
    layer = (ImageConvLayer if is_image else kind(chosen).layer).parse(text)
    computing = kind_of(layer)
    precision = computing.precision(layer, Precision.parse(_text(entry, "precision", where)))
    if SIGN_BITS in (precision.x, precision.w, precision.y):
        raise InputError(f"precision of {name} must be widths of two bits or more, not {precision}")
    own = {key.rpartition(".")[2]: values for key, values in arrays.items() if key.rpartition(".")[0] == name}
    try:
        tensors = _tensors(computing, layer, precision, own, rules[rule])
    except (InputError, LayerError) as error:
        raise InputError(f"{name}: {error}") from None
    return Stage(name=name, layer=layer, precision=precision, tensors=tensors)


def _tensors(computing: Kind, layer: Any, precision: Precision, arrays: Arrays, rule: Rule) -> Any:
    if computing.name in PACKED_KERNELS:
        tensors = trained_tensors(computing, layer, precision, arrays, rule)
        tensors.check(getattr(layer, "geometry", layer), precision, activations=tensors.activations.shape)
        return tensors
    if arrays:
        raise InputError(f"arrays must be left out with {computing.name}, not {next(iter(arrays))}")
    if getattr(layer, _SCALED, False):
        raise InputError(f"averages must be plain ones, not {layer}")
    example = computing.tensors(layer, precision, np.random.default_rng(0))
    return replace(example, activations=np.zeros_like(example.activations))


def _scaling(content: Any) -> Scaling:
    entry = _object(content, "input", _INPUT, optional=_INPUT)
    subtract = entry.get("subtract", [])
    numbers = [entry.get(name, default) for name, default in (("multiply", 1), ("add", 0), ("shift", 0))]
    colours: list[Any] = cast("list[Any]", subtract) if isinstance(subtract, list) else [None]
    if not all(isinstance(value, int) for value in (*numbers, *colours)):
        raise InputError("input must be whole numbers, subtract a list of them, not something else")
    multiply, add, shift = numbers
    if not 0 <= shift <= MAX_SHIFT:
        raise InputError(f"shift of the input must be 0..{MAX_SHIFT}, not {shift}")
    return Scaling(subtract=tuple(colours), multiply=multiply, add=add, shift=shift)


def _object(content: Any, what: str, known: Sequence[str], *, optional: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(content, dict):
        raise InputError(f"{what} must be an object with {', '.join(known)}, not something else")
    entries = cast("dict[str, Any]", content)
    for name in known:
        if name not in entries and name not in optional:
            raise InputError(f"{what} must be an object with {name}, not without")
    for name in entries:
        if name not in known:
            raise InputError(f"{what} must be an object of {', '.join(known)}, not also {name}")
    return entries


def _text(entry: Mapping[str, Any], name: str, where: str) -> str:
    value = entry[name]
    if not isinstance(value, str) or not value:
        raise InputError(f"{name} of {where} must be a text, not {value}")
    return value
