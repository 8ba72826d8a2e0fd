"""The input of an ONNX model: images, whose samples stand for numbers or are the model's integers."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from xpulpnn.errors import InputError
from xpulpnn_sw.networks.importers.assembly import INPUT, SAMPLE_BITS, NetworkAssembly
from xpulpnn_sw.networks.importers.levels import uniform_levels
from xpulpnn_sw.networks.importers.onnx_quantisers import INPUT_CODES
from xpulpnn_sw.networks.importers.registry import ImportOptions
from xpulpnn_sw.networks.importers.values import Map, Shape, Value, moved, standard_places
from xpulpnn_sw.networks.network import Scaling

_SAMPLES = (1 << SAMPLE_BITS) - 1
_COLOURS = 4  # most of an image, by which the axes of an input are told apart
_REAL = ("FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16", "UNDEFINED")
_SIGNED = {"UINT8": False, "INT8": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInput:
    """The input of a model."""

    name: str
    shape: tuple[int, ...]  # for one image, 1 first
    type: str  # its elements, as onnx calls them

    @classmethod
    def of(cls, proto: Any) -> "ModelInput":
        """Return the input that onnx describes; raises :class:`InputError` for others than one image of numbers."""
        from onnx import TensorProto

        tensor = proto.type.tensor_type
        sizes = [one.dim_value if one.HasField("dim_value") else 0 for one in tensor.shape.dim]
        if not sizes or sizes[0] not in (0, 1) or any(size < 1 for size in sizes[1:]):
            raise InputError(f"input {proto.name} must be one image of known size, not of shape {sizes}")
        known = {number: name for name, number in TensorProto.DataType.items()}
        type_ = known.get(tensor.elem_type, "another type")
        if type_ not in (*_REAL, *_SIGNED):
            raise InputError(f"input {proto.name} must be of FLOAT, UINT8 or INT8, not {type_}")
        return cls(name=proto.name, shape=(1, *sizes[1:]), type=type_)

    def value(self, options: ImportOptions, assembly: NetworkAssembly) -> Value:
        """The samples of an image; raises :class:`InputError` for options that are none of this input.

        Samples that stand for different numbers in each colour are quantised here in floating point, else by the model.
        """
        stored, is_last = _stored_shape(self.shape)
        ordered = standard_places(stored)
        places = np.arange(prod(stored)).reshape(self.shape) if is_last else ordered
        if self.type in _SIGNED:
            return self._codes(options, assembly, stored, places)
        low, high = options.ends
        if high <= low:
            raise InputError(f"range of the input must be ascending, not {float(low)}..{float(high)}")
        levels = uniform_levels(Fraction(high - low, _SAMPLES), Fraction(0), 0, _SAMPLES, "ROUND")
        image = replace(Map.of(levels, INPUT, stored, places), offset=Fraction(low))
        spread = options.by_colour(stored[2])
        if not spread:
            return image
        found = moved(image, [1 / std for _, std in spread], [-mean / std for mean, std in spread])
        if isinstance(found, Map) or assembly.policy is None:
            return found
        most = (1 << (SAMPLE_BITS - 1)) - 1
        scale = max(abs(one.at(end)) for one in found.channels for end in (one.least, one.most)) / most
        return assembly.quantised(found, uniform_levels(scale, Fraction(0), -most - 1, most, "ROUND").freely())

    def _codes(self, options: ImportOptions, assembly: NetworkAssembly, stored: Shape, places: Any) -> Map:
        if options.samples is not None or options.normalisation or options.quantise is not None:
            raise InputError(
                f"samples, normalisation and bits must be left out with an input of {self.type}, whose numbers "
                "are the samples"
            )
        is_signed = _SIGNED[self.type]
        low = -(1 << (SAMPLE_BITS - 1)) if is_signed else 0
        if is_signed:
            assembly.scaling = Scaling(add=low)
        levels = uniform_levels(Fraction(1), Fraction(0), low, low + _SAMPLES, "ROUND")
        return replace(Map.of(levels, INPUT, stored, places), codes=INPUT_CODES)


def _stored_shape(shape: tuple[int, ...]) -> tuple[Shape, bool]:
    """Rows, columns and channels of an input in memory, and whether the model has its channels last."""
    match shape[1:]:
        case (size,):
            return (1, 1, size), True
        case (rows, columns):
            return (rows, columns, 1), True
        case (first, second, third):
            is_last = third <= _COLOURS < first
            return ((first, second, third), True) if is_last else ((second, third, first), False)
        case _:
            raise InputError(f"input must have an axis to three besides the image's, not the shape {shape}")
