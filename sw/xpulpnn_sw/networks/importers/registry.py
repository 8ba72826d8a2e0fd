"""Registry of importers: their options, requests for bit widths, and the choice by file type."""

from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError, require, unreadable
from xpulpnn_sw.networks.importers.quantiser import ELEMENT_WIDTHS
from xpulpnn_sw.networks.network import NetworkModel

_MAGIC_BYTES = 8
TFLITE_MAGIC = b"TFL3"


@dataclass(frozen=True, slots=True, order=True)
class LayerWidths:
    weights: int
    activations: int  # of the maps it reads

    def __str__(self) -> str:
        return str(self.weights) if self.weights == self.activations else f"{self.weights}/{self.activations}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingLayer:
    name: str
    inputs: tuple[str, ...]  # names of tensors, without its weights
    weights: str = ""  # name of the tensor of its weights; empty: none
    is_first: bool = False  # whether it reads the network's input


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthRequest:
    # for all layers, or for each layer with weights, in the order of the model
    listed: tuple[LayerWidths, ...] = ()
    # by name of the layer; these override the list
    named: Mapping[str, LayerWidths] = field(default_factory=dict[str, LayerWidths])

    def tensors(self, readers: Sequence[ReadingLayer]) -> defaultdict[str, int]:
        """Return the bits of all tensors: the maximum that a tensor's readers request, or 8 without readers.

        A layer without weights that the request does not name has the bits of the next layer with weights. Raises
        :class:`InputError` unless every layer has bits and every name is that of a layer.
        """
        chosen = self._by_layer(readers)
        widths: defaultdict[str, int] = defaultdict(lambda: max(ELEMENT_WIDTHS))
        last: LayerWidths | None = None
        for reader in reversed(readers):
            own = chosen.get(reader.name, last)
            if own is None:
                raise InputError(f"bits must name {reader.name}, behind which no layer has weights")
            if reader.weights:
                last = own
                widths[reader.weights] = max(widths.get(reader.weights, 0), own.weights)
            for tensor in reader.inputs:
                widths[tensor] = max(widths.get(tensor, 0), own.activations)
        return widths

    def _by_layer(self, readers: Sequence[ReadingLayer]) -> dict[str, LayerWidths]:
        names = [reader.name for reader in readers]
        weighted = [reader.name for reader in readers if reader.weights]
        for name in self.named:
            require(name in names, f"bits must name one of {', '.join(names)}, not {name}")
        if len(self.listed) == 1:
            return {**dict.fromkeys(names, self.listed[0]), **self.named}
        if self.listed and len(self.listed) != len(weighted):
            raise InputError(
                f"bits must have one width, or one for each of {len(weighted)} layers with weights "
                f"({', '.join(weighted)}), not {len(self.listed)}"
            )
        chosen = {**dict(zip(weighted, self.listed, strict=False)), **self.named}
        missing = [name for name in weighted if name not in chosen]
        if missing:
            raise InputError(f"bits must have bits for every layer, not be without those of {missing[0]}")
        return chosen


def widths_of(text: str) -> LayerWidths:
    """Parse ``4/8``, for weights and activations, or ``4`` for both; raises :class:`InputError` for other text."""
    known = {str(bits): bits for bits in ELEMENT_WIDTHS}
    parts = text.split("/")
    if not 1 <= len(parts) <= 2 or any(part not in known for part in parts):
        raise InputError(f"bits must have widths of {', '.join(known)}, or two of them as 4/8, not {text}")
    return LayerWidths(known[parts[0]], known[parts[-1]])


def request_of(text: str) -> WidthRequest:
    """Parse ``8``, ``8,4,4/8``, ``NAME=4,OTHER=8/4`` or ``8,NAME=4``; raises :class:`InputError` for other text."""
    listed: list[LayerWidths] = []
    named: dict[str, LayerWidths] = {}
    for item in text.split(","):
        name, equals, bits = item.rpartition("=")
        if not equals:
            listed.append(widths_of(bits))
        elif not name or name in named:
            raise InputError(f"bits must name every layer once, not {item} in {text}")
        else:
            named[name] = widths_of(bits)
    return WidthRequest(listed=tuple(listed), named=named)


@dataclass(frozen=True, eq=False, kw_only=True)
class ImportOptions:
    name: str
    # values of the samples 0 and 255 of an image; None: the default of the format, 0 and 1 in floating point
    samples: tuple[Fraction, Fraction] | None = None
    # mean and standard deviation, by colour or for all, that normalise these values; empty: none
    normalisation: Sequence[tuple[Fraction, Fraction]] = ()
    quantise: WidthRequest | None = None  # bits of a model in floating point; None: models are quantised already
    # calibration images for `quantise`, `[image][row][column][colour]` or without colours
    images: NDArray[Any] | None = None
    allow: int = 1  # most that results may differ from the model's where no rule has them exactly
    is_fast: bool = False  # whether TFLite models are requantised in 32 bits, not exactly
    # receives messages, a line each, on differences from the model; the default can be pickled
    note: Callable[[str], object] = str
    # receives, with `quantise`, results of the model in floating point for the images, `[image][result]`, in the order
    # of the network's results
    scores: Callable[[NDArray[np.floating[Any]]], object] = id

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """Numbers that the samples 0 and 255 stand for in a floating-point model."""
        return self.samples or (Fraction(0), Fraction(1))

    def by_colour(self, colours: int) -> list[tuple[Fraction, Fraction]]:
        """Return mean and deviation by colour; raises :class:`InputError` unless there is one pair, or one for each."""
        pairs = list(self.normalisation) * (colours if len(self.normalisation) == 1 else 1)
        if pairs and len(pairs) != colours:
            raise InputError(f"mean and deviation must have 1 or {colours} numbers, not {len(pairs)}")
        require(all(deviation > 0 for _, deviation in pairs), "deviations must be greater than 0, not others")
        return pairs


Importer = Callable[[Path, ImportOptions], NetworkModel]


@dataclass(frozen=True, slots=True)
class ModelReader:
    name: str  # of the file format
    suffix: str  # of names of files
    importer: str  # module and function, imported when needed
    magic: bytes = b""  # bytes 4..7 of its files; empty: none


READERS = (
    ModelReader("TFLite", ".tflite", "tflite_network.import_tflite", TFLITE_MAGIC),
    ModelReader("ONNX", ".onnx", "onnx_file.import_onnx"),
    ModelReader("weights of CNV or CMSIS-NN's CIFAR-10", ".npz", "arrays_file.import_arrays"),
)


def import_model(path: Path, options: ImportOptions) -> NetworkModel:
    with importer_for(path) as reader:
        if options.is_fast and reader.magic != TFLITE_MAGIC:
            raise InputError(f"fast rule must be for a TFLite model, not {reader.name}")
        module, _, function = reader.importer.partition(".")
        read = cast("Importer", getattr(import_module(f"xpulpnn_sw.networks.importers.{module}"), function))
        return read(path, options)


@contextmanager
def importer_for(path: Path) -> Generator[ModelReader]:
    """Give the importer for a file; raises :class:`InputError` for unknown files, and if its package is missing."""
    try:
        with path.open("rb") as file:
            beginning = file.read(_MAGIC_BYTES)
    except OSError as error:
        raise InputError(unreadable(path, error)) from None
    readers = [reader for reader in READERS if reader.magic and beginning[4:] == reader.magic]
    readers += [reader for reader in READERS if path.suffix.lower() == reader.suffix]
    if not readers:
        known = ", ".join(f"{reader.name} ({reader.suffix})" for reader in READERS)
        raise InputError(f"model must be one of {known}, not {path}")
    try:
        yield readers[0]
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package.startswith("xpulpnn"):
            raise
        needed = f"{package} must be installed to read {readers[0].name}"
        raise InputError(f"{needed}, not missing: pip install '.[networks]'") from None
