"""Argument structures of the kernel functions, a 32-bit word per field."""

from dataclasses import dataclass, replace

from xpulpnn_sw.windows import Windows


@dataclass(frozen=True, slots=True)
class Field:
    """A field."""

    name: str  # name in C and in the kernel
    meaning: str
    pointer: bool = False  # whether it is an address; those are never constants of a specialised kernel


@dataclass(frozen=True, slots=True)
class Structure:
    """An argument structure."""

    name: str
    fields: tuple[Field, ...]  # in their order in memory


_OPERANDS = (
    Field("input", "activations", pointer=True),
    Field("weights", "packed filter rows", pointer=True),
    Field("parameters", "biases, lambda and kappa", pointer=True),
    Field("output", "results, room for whole pixel groups", pointer=True),
)
_RESULTS = (
    Field("out_channels", "output channels"),
    Field("out_stride", "bytes from one output pixel to the next"),
    Field("weight_stride", "bytes from one weight stream to the next"),
    Field("row_stride", "bytes from one activation row to the next"),
    Field("shift", "right shift of the requantisation"),
)

MATMUL_ARGUMENTS = Structure(
    "xp_matmul_arguments",
    (
        *_OPERANDS,
        *_RESULTS,
        Field("pixels", "activation rows"),
        Field("row_words", "words of a packed filter row"),
    ),
)
"""Of a matrix product."""

CONV_ARGUMENTS = Structure(
    "xp_conv_arguments",
    (
        *_OPERANDS,
        Field("buffer", "im2col rows of core 0, then those of the others", pointer=True),
        Field("buffer_stride", "bytes from one core's im2col rows to the next's"),
        *_RESULTS,
        Field("height", "input rows"),
        Field("width", "input columns"),
        Field("pixel_bytes", "bytes of an input pixel"),
        Field("out_height", "output rows"),
        Field("out_width", "output columns"),
        Field("kernel_height", "filter rows"),
        Field("kernel_width", "filter columns"),
        Field("stride_y", "step in y"),
        Field("stride_x", "step in x"),
        Field("pad_top", "zero rows above the input"),
        Field("pad_left", "zero columns left of the input"),
    ),
)
"""Of a convolution."""

CONV1D_ARGUMENTS = Structure(
    "xp_conv1d_arguments",
    (*CONV_ARGUMENTS.fields, Field("dilation", "input rows from one filter row to the next")),
)
"""Of a convolution whose filter rows are apart."""

_OUTSIDE = Field("outside", "value around the input, as of its elements")


def with_outside(structure: Structure) -> Structure:
    """The structure of a function around whose input there is a value that it is told, in place of zeros."""
    told = tuple(replace(field, meaning=field.meaning.removeprefix("zero ")) for field in structure.fields)
    return Structure(structure.name.replace("_arguments", "_outside_arguments"), (*told, _OUTSIDE))


CONV_OUTSIDE_ARGUMENTS = with_outside(CONV_ARGUMENTS)
"""Of a convolution around whose input there is any value."""

CONV1D_OUTSIDE_ARGUMENTS = with_outside(CONV1D_ARGUMENTS)
"""Of one whose filter rows are apart."""

LINEAR_ARGUMENTS = Structure(
    "xp_linear_arguments",
    (
        *_OPERANDS,
        Field("out_channels", "output neurons"),
        Field("weight_stride", "bytes from one weight stream to the next"),
        Field("shift", "right shift of the requantisation"),
        Field("row_words", "words of a packed filter row"),
    ),
)
"""Of a linear layer whose inputs are as wide as its weights."""


def window_arguments(layer: Windows) -> dict[str, int]:
    """Sizes and steps of a layer, as functions with windows are told them."""
    top, _, left, _ = layer.padding
    return {
        "height": layer.height,
        "width": layer.width,
        "out_height": layer.out_height,
        "out_width": layer.out_width,
        "kernel_height": layer.kernel_height,
        "kernel_width": layer.kernel_width,
        "stride_y": layer.stride[0],
        "stride_x": layer.stride[1],
        "pad_top": top,
        "pad_left": left,
    }
