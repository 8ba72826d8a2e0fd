"""Builder of networks, and the network file: layers as JSON, weights as an npz file beside it.

The JSON can be written by hand. Its object has ``name``; ``version``, 2; ``arrays``, the name of the npz file beside
it; and ``layers``, in their order. If images are to be scaled, ``input`` has ``subtract``, ``multiply``, ``add`` (lists
by colour; ``multiply`` and ``add`` may be one number for all) and ``shift``: inputs are ``((sample - subtract) *
multiply + add) >> shift``, clipped to the range of the network's inputs. If the results have names, ``classes`` is a
list of them.

A layer has ``name``, ``kernel`` (one of :data:`~xpulpnn_sw.networks.network_file.NETWORK_KERNELS`), ``layer`` and
``precision`` as on the command line; ``requantise``, unless the rule is ``bn32``; ``inputs``, names of earlier layers
or ``input``, unless it reads the results of the layer before it; and ``pad``, the value of its padding unless that is
0. The arrays of a layer are those of ``xpulpnn pack``, each with the layer's name and a dot before it:
``conv1.weights``, ``conv1.bias``, ``conv1.shift``. Files without ``version`` have layers without ``inputs`` and
``pad``.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np

from xpulpnn.errors import InputError, LayerError, require, unreadable
from xpulpnn_sw.kernels.catalogue import find_kernel, kernel_of
from xpulpnn_sw.kernels.kernel import Kernel
from xpulpnn_sw.kernels.layout import Ints
from xpulpnn_sw.kernels.requantisation import MAX_SHIFT, Rule
from xpulpnn_sw.layers.layer import Conv1dLayer, ImageConvLayer, Layer
from xpulpnn_sw.layers.npz import npz_arrays
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS, Precision
from xpulpnn_sw.library.packed_layer import Arrays, layer_arrays, layer_operands
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, NetworkModel, Scaling, Stage, check_network

NETWORK_KERNELS = (
    *("conv", "pointwise", "conv1d", "linear", "depthwise", "add", "avgpool", "maxpool", "relu"),
    *("gather", "lookup", "multiply", "batchmatmul", "softmax", "layernorm"),
)
# without pv.qnt, whose thresholds need an alignment that consecutive layers in memory do not have
NETWORK_RULES = {rule.value: rule for rule in Rule if rule is not Rule.QNT}
_IMAGE = ":image"


_MOST_ELEMENTS = 1 << 26  # of a map
VERSION = 2  # of the files that are written
# what the value of an entry must be, in words, and a check of it
_Rule = tuple[str, Callable[[Any], bool]]
_NEWER = ("version", "classes", "inputs", "pad")  # entries that version 1 lacks


def _check_size(layer: Layer) -> None:
    before = [getattr(layer, name, 1) for name in ("height", "width", "length", "channels", "inputs")]
    for elements in (prod(before), prod(layer.out_shape) * layer.out_channels):
        if elements > _MOST_ELEMENTS:
            raise LayerError(f"maps must have {_MOST_ELEMENTS} elements at most, not {elements}")


def _with_pad(layer: Any, pad: int) -> Any:
    if pad and not hasattr(layer, "outside"):
        raise LayerError(f"pad must be left out with {kernel_of(layer).name}, not {pad}")
    if pad and layer.outside not in (0, pad):
        raise LayerError(f"pad must be that of the layer {layer}, not {pad}")
    return replace(layer, outside=pad) if pad else layer


def _check_precision(computing: Kernel, precision: Precision) -> None:
    refused: LayerError | None = None
    for level in computing.variants.values():
        try:
            level.check_precision(precision)
        except LayerError as error:
            refused = error
        else:
            return
    raise refused or LayerError(f"precision must be one of {computing.name}, not {precision}")


def _tensors(computing: Kernel, layer: Any, precision: Precision, arrays: Arrays, rule: Rule) -> Any:
    if not computing.rules:
        return layer_operands(computing, layer, precision, arrays, Rule.BN32)
    tensors = layer_operands(computing, layer, precision, arrays, rule)
    checked = tensors
    if isinstance(layer, Conv1dLayer):
        tensors.check_shapes(tensors.activations.shape, (layer.out_channels, layer.kernel, layer.channels))
        checked = tensors.reshaped(layer.geometry)
    checked.check(getattr(layer, "geometry", layer), precision, activations=checked.activations.shape)
    return tensors


@dataclass(eq=False)
class NetworkBuilder:
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
        """Append a layer; raises :class:`InputError`, which names the layer, if it is not valid."""
        if kernel not in NETWORK_KERNELS:
            raise InputError(f"kernel of {name} must be one of {', '.join(NETWORK_KERNELS)}, not {kernel}")
        if requantise not in NETWORK_RULES:
            raise InputError(f"requantise of {name} must be one of {', '.join(NETWORK_RULES)}, not {requantise}")
        try:
            is_image = kernel == "conv" and layer.endswith(_IMAGE)
            computed = (ImageConvLayer if is_image else find_kernel(kernel).layer).parse(layer)
            _check_size(computed)
            computing = kernel_of(computed)
            widths = computing.precision(computed, Precision.parse(precision))
            _check_precision(computing, widths)
            tensors = _tensors(computing, computed, widths, arrays or {}, NETWORK_RULES[requantise])
            computed = _with_pad(computed, pad)
        except (InputError, LayerError) as error:
            raise InputError(f"{name}: {error}") from None
        self.stages.append(Stage(name=name, layer=computed, precision=widths, tensors=tensors, sources=tuple(sources)))
        return self.stages[-1]

    def finish(self, scaling: Scaling | None = None, labels: Sequence[str] = ()) -> NetworkModel:
        """Return the network; raises :class:`LayerError` unless its layers fit together."""
        require(self.stages, "layers must be one at least, not none", LayerError)
        network = Network(name=self.name, stages=tuple(self.stages))
        check_network(network)
        described = NetworkModel(network=network, scaling=scaling or Scaling(), labels=tuple(labels))
        if labels and len(labels) != described.classes:
            raise LayerError(f"classes must be {described.classes} names, not {len(labels)}")
        return described


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << (ACCUMULATOR_BITS - 1)


def _are(fits: Callable[[Any], bool], values: Any) -> bool:
    return isinstance(values, list) and all(map(fits, cast("list[Any]", values)))


_TEXT: _Rule = ("a text", _is_text)
_TEXTS: _Rule = ("a list of texts", lambda value: bool(value) and _are(_is_text, value))
_COLOURS: _Rule = ("a list of whole numbers by colour", partial(_are, _is_whole))
_FACTORS: _Rule = ("a whole number, or a list of them by colour", lambda value: _is_whole(value) or _COLOURS[1](value))
# entries of the objects of the JSON file
_NETWORK: Mapping[str, _Rule] = {
    "name": _TEXT,
    "arrays": _TEXT,
    "layers": ("a list with a layer at least", lambda value: bool(value) and isinstance(value, list)),
    "input": ("an object", lambda _: True),
    "version": (f"{VERSION} or left out", lambda value: value == VERSION),
    "classes": _TEXTS,
}
_LAYER: Mapping[str, _Rule] = {
    **dict.fromkeys(("name", "kernel", "layer", "precision", "requantise"), _TEXT),
    "inputs": _TEXTS,
    "pad": ("a whole number", _is_whole),
}
_INPUT: Mapping[str, _Rule] = {
    "subtract": _COLOURS,
    "multiply": _FACTORS,
    "add": _FACTORS,
    "shift": (f"0..{MAX_SHIFT}", lambda value: _is_whole(value) and 0 <= value <= MAX_SHIFT),
}
_OPTIONAL = ("requantise", "input", *_NEWER, *_INPUT)


def _object(content: Any, what: str, rules: Mapping[str, _Rule], *, is_first: bool = False) -> dict[str, Any]:
    known = [name for name in rules if not (is_first and name in _NEWER)]
    if not isinstance(content, dict):
        raise InputError(f"{what} must be an object with {', '.join(known)}, not something else")
    entries = cast("dict[str, Any]", content)
    if missing := [name for name in known if name not in (*entries, *_OPTIONAL)]:
        raise InputError(f"{what} must be an object with {missing[0]}, not without")
    for name, value in entries.items():
        require(name in known, f"{what} must be an object of {', '.join(known)}, not also {name}")
        rule, fits = rules[name]
        require(fits(value), f"{name} of {what} must be {rule}, not {value}")
    return entries


def read_network(path: Path) -> NetworkModel:
    """Read a network from its JSON file and the npz file named there; raises InputError or LayerError if invalid."""
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"network {unreadable(path, error)}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"network must be a JSON file that can be read, not {path}: {error}") from None
    is_first = isinstance(content, dict) and "version" not in content
    entries = _object(content, "network", _NETWORK, is_first=is_first)
    weights = path.parent / entries["arrays"]
    if not weights.is_file():
        missing = f"{entries['arrays']}, which is not there"
        raise InputError(f"arrays of {path} must be a file in {path.resolve().parent}, not {missing}")
    builder, arrays = NetworkBuilder(entries["name"]), npz_arrays(weights, f"arrays of {path}")
    names: set[str] = set()
    for number, layer in enumerate(entries["layers"]):
        entry = _object(layer, f"layers[{number}]", _LAYER, is_first=is_first)
        name, sources = entry["name"], entry.pop("inputs", ())
        # checked first, since layers of equal names would share arrays
        if name in names or name == NETWORK_INPUT:
            twice = f"{name} twice" if name in names else f"{name}, the input of the network"
            raise InputError(f"names of layers must be different, not {twice}")
        names.add(name)
        own = {key.rpartition(".")[2]: values for key, values in arrays.items() if key.rpartition(".")[0] == name}
        builder.add(**entry, arrays=own, sources=sources)
    strange = [key for key in arrays if key.rpartition(".")[0] not in names]
    if strange:
        raise InputError(f"arrays in {weights} must be called LAYER.NAME, with a layer of {path}, not {strange[0]}")
    scaling = _object(entries.get("input", {}), "input", _INPUT)
    scaling |= {name: tuple(value) for name, value in scaling.items() if not isinstance(value, int)}
    return builder.finish(Scaling(**scaling), entries.get("classes", ()))


def serialised(described: NetworkModel, arrays: str) -> tuple[str, bytes]:
    """Return the contents of the JSON file and the npz file of a network; ``arrays`` is the npz file's name."""
    network, layers = described.network, list[dict[str, Any]]()
    for stage in network.stages:
        layer: Any = stage.layer
        # written as the entry pad
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
    arrays: dict[str, Ints] = {}
    for stage in network.stages:
        own = layer_arrays(stage.layer, stage.tensors)
        arrays |= {f"{stage.name}.{name}": np.asarray(values) for name, values in own.items() if values is not None}
    return arrays
