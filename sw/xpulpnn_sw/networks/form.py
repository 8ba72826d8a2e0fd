"""Networks made layer by layer, each checked as it is given; and in files: layers as JSON, weights as npz beside it.

The JSON can be written by hand. Its object has ``name``; ``version``, 2; ``arrays``, the name of the npz file beside
it; ``layers``, in their order; if images are to be scaled, ``input`` with ``subtract``, ``multiply``, ``add`` (lists by
colour, of the last two also numbers for all) and ``shift``: the network computes with ``clip(((sample - subtract) *
multiply + add) >> shift)``, clipped to the range of its inputs; and if the results have names, ``classes``, a list of
them.

A layer has ``name``, ``kernel`` (one of :data:`~xpulpnn_sw.networks.form.NETWORK_KERNELS`), ``layer`` and
``precision`` as on the command line, ``requantise`` for another rule than ``bn32``, ``inputs``, names of layers before
it or ``input``, unless it computes with the results of the one before, and ``pad`` for another value around its map
than 0. The arrays of a layer are those of ``xpulpnn pack``, each with the layer's name and a dot before it:
``conv1.weights``, ``conv1.bias``, ``conv1.shift``. Files without ``version`` have layers without ``inputs`` and
``pad``.
"""

import io
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np

from xpulpnn.errors import InputError, LayerError
from xpulpnn_sw.kernels.kernel import Kind
from xpulpnn_sw.kernels.kinds import kind, kind_of
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.kernels.requantisation import MAX_SHIFT, Rule
from xpulpnn_sw.layers.layer import ImageConvLayer, Layer
from xpulpnn_sw.layers.npz import npz_arrays
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS, Precision
from xpulpnn_sw.library.packed_layer import Arrays, layer_arrays, layer_operands
from xpulpnn_sw.networks.network import NETWORK_INPUT, Described, Network, Scaling, Stage, check_network

# kernels of the layers of networks
NETWORK_KERNELS = ("conv", "pointwise", "conv1d", "linear", "depthwise", "add", "avgpool", "maxpool", "relu")
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


VERSION = 2  # of the form that is written
_NETWORK = ("name", "arrays", "layers", "input")
_LAYER = ("name", "kernel", "layer", "precision", "requantise")
_INPUT = ("subtract", "multiply", "add", "shift")
_NETWORK_2, _LAYER_2 = ("version", "classes"), ("inputs", "pad")  # what version 2 has besides


def read_network(path: Path) -> Described:
    """The network in a JSON file with its npz file; raises :class:`InputError` or :class:`LayerError` for another."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"network must be a JSON file that can be read, not {path}: {error}") from None
    is_first = isinstance(content, dict) and "version" not in content
    known = _NETWORK if is_first else (*_NETWORK, *_NETWORK_2)
    entries = _object(content, "network", known, optional=("input", *_NETWORK_2))
    if not is_first and entries["version"] != VERSION:
        raise InputError(f"version of the network must be {VERSION} or left out, not {entries['version']}")
    builder, layers = NetworkBuilder(_text(entries, "name", "network")), entries["layers"]
    if not isinstance(layers, list) or not layers:
        raise InputError("layers must be a list with a layer at least, not something else")
    arrays = npz_arrays(path.parent / _text(entries, "arrays", "network"), "weights")
    names: set[str] = set()
    for number, entry in enumerate(cast("list[Any]", layers)):
        where, keys = f"layers[{number}]", _LAYER if is_first else (*_LAYER, *_LAYER_2)
        names.add(_add(builder, entry, where, keys, arrays, names))
    strange = [one for one in arrays if one.rpartition(".")[0] not in names]
    if strange:
        raise InputError(f"arrays must be called LAYER.NAME, not {strange[0]}")
    return builder.finish(_scaling(entries.get("input", {})), _texts(entries, "classes", "network"))


def written(described: Described, arrays: str) -> tuple[str, bytes]:
    """The contents of both files of a network, the second of which will be called ``arrays``."""
    network, layers = described.network, list[dict[str, Any]]()
    for stage in network.stages:
        layer: Any = stage.layer
        # the value around the map is the pad
        text = str(replace(layer, outside=0) if hasattr(layer, "outside") else layer)
        rule = getattr(getattr(stage.tensors, "requantisation", None), "rule", Rule.BN32)
        own = {"name": stage.name, "kernel": stage.kind.name, "layer": text, "precision": str(stage.precision)}
        rest = {"requantise": rule.value * (rule is not Rule.BN32), "inputs": list(stage.sources), "pad": stage.pad}
        layers.append(own | {name: value for name, value in rest.items() if value})
    whole: dict[str, Any] = {"version": VERSION, "name": network.name, "arrays": arrays}
    whole["input"] = asdict(described.scaling)
    if described.labels:
        whole["classes"] = list(described.labels)
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **arrays_of(network))
    return f"{json.dumps(whole | {'layers': layers}, indent=2)}\n", packed.getvalue()


def arrays_of(network: Network) -> dict[str, Ints]:
    """Return the arrays of the npz file of a network."""
    found: dict[str, Ints] = {}
    for stage in network.stages:
        own = layer_arrays(stage.layer, stage.tensors)
        found |= {f"{stage.name}.{name}": np.asarray(values) for name, values in own.items() if values is not None}
    return found


def _add(
    builder: NetworkBuilder, content: Any, where: str, known: Sequence[str], arrays: Arrays, taken: Collection[str]
) -> str:
    """Add what a layer is described as, and return its name, which must not be one of those ``taken``."""
    entry = _object(content, where, known, optional=("requantise", *_LAYER_2))
    name, pad = _text(entry, "name", where), entry.get("pad", 0)
    # before the arrays, which two layers of one name have in common
    if name in taken or name == NETWORK_INPUT:
        twice = f"{name} twice" if name in taken else f"{name}, the input of the network"
        raise InputError(f"names of layers must be different, not {twice}")
    if not isinstance(pad, int) or isinstance(pad, bool):
        raise InputError(f"pad of {name} must be a whole number, not {pad}")
    builder.add(
        name,
        _text(entry, "kernel", where),
        _text(entry, "layer", where),
        _text(entry, "precision", where),
        {key.rpartition(".")[2]: values for key, values in arrays.items() if key.rpartition(".")[0] == name},
        requantise=_text(entry, "requantise", where) if "requantise" in entry else Rule.BN32.value,
        sources=_texts(entry, "inputs", name),
        pad=pad,
    )
    return name


def _scaling(content: Any) -> Scaling:
    entry = _object(content, "input", _INPUT, optional=_INPUT)
    usual: dict[str, Any] = {"subtract": [], "multiply": 1, "add": 0, "shift": 0}
    numbers: dict[str, Any] = {name: _whole_numbers(entry.get(name, default)) for name, default in usual.items()}
    shift = numbers["shift"]
    if None in numbers.values() or isinstance(numbers["subtract"], int) or not isinstance(shift, int):
        raise InputError("input must be whole numbers, or lists of them by colour, not something else")
    if not 0 <= shift <= MAX_SHIFT:
        raise InputError(f"shift of the input must be 0..{MAX_SHIFT}, not {shift}")
    return Scaling(**numbers)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << (ACCUMULATOR_BITS - 1)


def _whole_numbers(value: Any) -> int | tuple[int, ...] | None:
    """A whole number, or several in a list; None for anything else."""
    if _is_whole(value):
        return value
    several: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [None]
    return tuple(several) if all(map(_is_whole, several)) else None


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


def _texts(entry: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    """A list of texts that may be left out."""
    values = entry.get(name, [])
    texts: list[Any] = cast("list[Any]", values) if isinstance(values, list) else []
    if name in entry and (not texts or not all(isinstance(one, str) and one for one in texts)):
        raise InputError(f"{name} of {where} must be a list of texts, not {values}")
    return tuple(texts)
