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

    @property
    def names(self) -> list[str]:
        """Names of the fields."""
        return [field.name for field in self.fields]

    def constants(self, arguments: dict[str, int]) -> dict[str, int]:
        """The arguments that are constants of a function for one layer: all that are no addresses."""
        return {field.name: arguments[field.name] for field in self.fields if not field.pointer}


def _structure(name: str, *fields: Field) -> Structure:
    return Structure(f"xp_{name}_arguments", fields)


def _with_outside(structure: Structure) -> Structure:
    """The structure of a function around whose input there is a value that it is told, in place of zeros."""
    told = (replace(field, meaning=field.meaning.removeprefix("zero ")) for field in structure.fields)
    outside = Field("outside", "value around the input, as of its elements")
    return Structure(structure.name.replace("_arguments", "_outside_arguments"), (*told, outside))


_OPERANDS = (
    Field("input", "activations", pointer=True),
    Field("weights", "packed filter rows", pointer=True),
    Field("parameters", "biases, lambda and kappa", pointer=True),
    Field("output", "results, room for whole pixel groups", pointer=True),
)
_WEIGHT_STRIDE = Field("weight_stride", "bytes from one weight stream to the next")
_SHIFT = Field("shift", "right shift of the requantisation")
_ROW_WORDS = Field("row_words", "words of a packed filter row")
_RESULTS = (
    Field("out_channels", "output channels"),
    Field("out_stride", "bytes from one output pixel to the next"),
    _WEIGHT_STRIDE,
    Field("row_stride", "bytes from one activation row to the next"),
    _SHIFT,
)
_HEIGHT, _WIDTH = Field("height", "input rows"), Field("width", "input columns")
_OUT_HEIGHT, _OUT_WIDTH = Field("out_height", "output rows"), Field("out_width", "output columns")
_WINDOW = (
    Field("kernel_height", "filter rows"),
    Field("kernel_width", "filter columns"),
    Field("stride_y", "step in y"),
    Field("stride_x", "step in x"),
    Field("pad_top", "zero rows above the input"),
    Field("pad_left", "zero columns left of the input"),
)

MATMUL_ARGUMENTS = _structure("matmul", *_OPERANDS, *_RESULTS, Field("pixels", "activation rows"), _ROW_WORDS)
CONV_ARGUMENTS = _structure(
    "conv",
    *_OPERANDS,
    Field("buffer", "im2col rows of core 0, then those of the others", pointer=True),
    Field("buffer_stride", "bytes from one core's im2col rows to the next's"),
    *_RESULTS,
    _HEIGHT,
    _WIDTH,
    Field("pixel_bytes", "bytes of an input pixel"),
    _OUT_HEIGHT,
    _OUT_WIDTH,
    *_WINDOW,
)
CONV1D_ARGUMENTS = _structure(
    "conv1d", *CONV_ARGUMENTS.fields, Field("dilation", "input rows from one filter row to the next")
)
CONV_OUTSIDE_ARGUMENTS = _with_outside(CONV_ARGUMENTS)
CONV1D_OUTSIDE_ARGUMENTS = _with_outside(CONV1D_ARGUMENTS)
LINEAR_ARGUMENTS = _structure(
    "linear", *_OPERANDS, Field("out_channels", "output neurons"), _WEIGHT_STRIDE, _SHIFT, _ROW_WORDS
)

DEPTHWISE_ARGUMENTS = _structure(
    "depthwise",
    Field("input", "activations, a feature map of one channel after the other", pointer=True),
    Field("weights", "filter rows, each of whole words of bytes", pointer=True),
    Field(
        "parameters",
        "of each channel lambda, the bias's share included, and kappa; by other rules than bn32, with the "
        "requantiser than bn32, multiply and shift, its bias and what the rule needs",
        pointer=True,
    ),
    Field("output", "results", pointer=True),
    Field("buffer", "rows of core 0, then those of the others", pointer=True),
    Field("buffer_stride", "bytes from one core's rows to the next's"),
    Field("channels", "channels"),
    Field("row_bytes", "bytes from one input row to the next"),
    Field("out_pixel_bytes", "bytes of an output pixel"),
    _SHIFT,
    _HEIGHT,
    _WIDTH,
    _OUT_HEIGHT,
    _OUT_WIDTH,
    *_WINDOW,
    Field("pad_right", "zero columns right of the input"),
)
DEPTHWISE_OUTSIDE_ARGUMENTS = _with_outside(DEPTHWISE_ARGUMENTS)

_MAPS = (
    Field("first", "one feature map", pointer=True),
    Field("second", "the other feature map", pointer=True),
    Field("output", "results", pointer=True),
)
_STEPS = Field("steps", "elements of a map over those of a word of the widest one")
ADD_ARGUMENTS = _structure(
    "add",
    *_MAPS,
    Field("first_table", "scaled values of the first map's elements, a byte each", pointer=True),
    Field("second_table", "the same of the second map", pointer=True),
    _STEPS,
)
ADD_SHIFT_ARGUMENTS = _structure(
    "add_shift",
    *_MAPS,
    Field("first_factor", "factor of the first map"),
    Field("second_factor", "factor of the second map"),
    Field("summand", "what is added to both products"),
    Field("shift", "right shift of their sum"),
    _STEPS,
)

_POOL = (
    Field("input", "feature map, not changed", pointer=True),
    Field("output", "results", pointer=True),
    Field("pixel_bytes", "bytes of an input pixel"),
    Field("out_pixel_bytes", "bytes of an output pixel"),
    _HEIGHT,
    _WIDTH,
    _OUT_HEIGHT,
    _OUT_WIDTH,
    Field("kernel_height", "window rows, those that the function is for"),
    Field("kernel_width", "window columns, those that the function is for"),
    Field("stride_y", "step in y, that which the function is for"),
    Field("stride_x", "step in x, that which the function is for"),
    Field("pad_top", "rows of a window that may lie above the input"),
    Field("pad_left", "columns of a window that may lie left of the input"),
)
MAXPOOL_ARGUMENTS = _structure("maxpool", *_POOL)
AVGPOOL_ARGUMENTS = _structure("avgpool", *_POOL)
AVGPOOL_SCALED_ARGUMENTS = _structure(
    "avgpool_scaled",
    *_POOL,
    Field("factor", "factor of a window's sum, not negative"),
    Field("summand", "added to the quotient"),
    Field("shift", "right shift of the result"),
)
RELU_ARGUMENTS = _structure(
    "relu",
    Field("input", "feature map", pointer=True),
    Field("output", "results, may be the input", pointer=True),
    Field("words", "words of the map"),
)
TRANSPOSE_ARGUMENTS = _structure(
    "transpose",
    Field("input", "feature map, pixel by pixel", pointer=True),
    Field("output", "the same channel by channel", pointer=True),
    Field("height", "rows"),
    Field("width", "columns"),
    Field("pixel_bytes", "bytes of an input pixel"),
    Field("row_bytes", "bytes from one output row to the next"),
)

STRUCTURES = (
    CONV_ARGUMENTS,
    CONV_OUTSIDE_ARGUMENTS,
    CONV1D_ARGUMENTS,
    CONV1D_OUTSIDE_ARGUMENTS,
    MATMUL_ARGUMENTS,
    LINEAR_ARGUMENTS,
    DEPTHWISE_ARGUMENTS,
    DEPTHWISE_OUTSIDE_ARGUMENTS,
    ADD_ARGUMENTS,
    ADD_SHIFT_ARGUMENTS,
    MAXPOOL_ARGUMENTS,
    AVGPOOL_ARGUMENTS,
    AVGPOOL_SCALED_ARGUMENTS,
    RELU_ARGUMENTS,
    TRANSPOSE_ARGUMENTS,
)
"""Structures of all kernels, in the order of the C header."""


def window_arguments(layer: Windows) -> dict[str, int]:
    """Sizes and steps of a layer, as functions with windows are told them."""
    top, _, left, _ = layer.padding
    names = ("height", "width", "out_height", "out_width", "kernel_height", "kernel_width")
    sizes = {name: getattr(layer, name) for name in names}
    return {**sizes, "stride_y": layer.stride[0], "stride_x": layer.stride[1], "pad_top": top, "pad_left": left}
