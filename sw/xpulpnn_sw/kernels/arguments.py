"""Argument structures of the kernel functions, a 32-bit word per field."""

from dataclasses import dataclass, replace

from xpulpnn_sw.layers.windows import Windows


@dataclass(frozen=True, slots=True)
class ArgumentField:
    """A field."""

    name: str  # name in C and in the kernel
    meaning: str
    pointer: bool = False  # whether it is an address; those are never constants of a specialised kernel


@dataclass(frozen=True, slots=True)
class Structure:
    """An argument structure."""

    name: str
    fields: tuple[ArgumentField, ...]  # in their order in memory

    @property
    def names(self) -> list[str]:
        """Names of the fields."""
        return [field.name for field in self.fields]

    def constants(self, arguments: dict[str, int]) -> dict[str, int]:
        """The arguments that are constants of a function for one layer: all that are no addresses."""
        return {field.name: arguments[field.name] for field in self.fields if not field.pointer}


def _structure(name: str, *fields: ArgumentField) -> Structure:
    return Structure(f"xp_{name}_arguments", fields)


def _with_outside(structure: Structure) -> Structure:
    """The structure of a function around whose input there is a value that it is told, in place of zeros."""
    told = (replace(field, meaning=field.meaning.removeprefix("zero ")) for field in structure.fields)
    outside = ArgumentField("outside", "value around the input, as of its elements")
    return Structure(structure.name.replace("_arguments", "_outside_arguments"), (*told, outside))


_OPERANDS = (
    ArgumentField("input", "activations", pointer=True),
    ArgumentField("weights", "packed filter rows", pointer=True),
    ArgumentField("parameters", "biases, lambda and kappa", pointer=True),
    ArgumentField("output", "results, room for whole pixel groups", pointer=True),
)
_WEIGHT_STRIDE = ArgumentField("weight_stride", "bytes from one weight stream to the next")
_SHIFT = ArgumentField("shift", "right shift of the requantisation")
_ROW_WORDS = ArgumentField("row_words", "words of a packed filter row")
_RESULTS = (
    ArgumentField("out_channels", "output channels"),
    ArgumentField("out_stride", "bytes from one output pixel to the next"),
    _WEIGHT_STRIDE,
    ArgumentField("row_stride", "bytes from one activation row to the next"),
    _SHIFT,
)
_HEIGHT, _WIDTH = ArgumentField("height", "input rows"), ArgumentField("width", "input columns")
_OUT_HEIGHT, _OUT_WIDTH = ArgumentField("out_height", "output rows"), ArgumentField("out_width", "output columns")
_WINDOW = (
    ArgumentField("kernel_height", "filter rows"),
    ArgumentField("kernel_width", "filter columns"),
    ArgumentField("stride_y", "step in y"),
    ArgumentField("stride_x", "step in x"),
    ArgumentField("pad_top", "zero rows above the input"),
    ArgumentField("pad_left", "zero columns left of the input"),
)

MATMUL_ARGUMENTS = _structure("matmul", *_OPERANDS, *_RESULTS, ArgumentField("pixels", "activation rows"), _ROW_WORDS)
CONV_ARGUMENTS = _structure(
    "conv",
    *_OPERANDS,
    ArgumentField("buffer", "im2col rows of core 0, then those of the others", pointer=True),
    ArgumentField("buffer_stride", "bytes from one core's im2col rows to the next's"),
    *_RESULTS,
    _HEIGHT,
    _WIDTH,
    ArgumentField("pixel_bytes", "bytes of an input pixel"),
    _OUT_HEIGHT,
    _OUT_WIDTH,
    *_WINDOW,
)
CONV1D_ARGUMENTS = _structure(
    "conv1d", *CONV_ARGUMENTS.fields, ArgumentField("dilation", "input rows from one filter row to the next")
)
CONV_OUTSIDE_ARGUMENTS = _with_outside(CONV_ARGUMENTS)
CONV1D_OUTSIDE_ARGUMENTS = _with_outside(CONV1D_ARGUMENTS)
LINEAR_ARGUMENTS = _structure(
    "linear", *_OPERANDS, ArgumentField("out_channels", "output neurons"), _WEIGHT_STRIDE, _SHIFT, _ROW_WORDS
)

DEPTHWISE_ARGUMENTS = _structure(
    "depthwise",
    ArgumentField("input", "activations, a feature map of one channel after the other", pointer=True),
    ArgumentField("weights", "filter rows, each of whole words of bytes", pointer=True),
    ArgumentField(
        "parameters",
        "of each channel lambda, the bias's share included, and kappa; by other rules than bn32, with the "
        "requantiser than bn32, multiply and shift, its bias and what the rule needs",
        pointer=True,
    ),
    ArgumentField("output", "results", pointer=True),
    ArgumentField("buffer", "rows of core 0, then those of the others", pointer=True),
    ArgumentField("buffer_stride", "bytes from one core's rows to the next's"),
    ArgumentField("channels", "channels"),
    ArgumentField("row_bytes", "bytes from one input row to the next"),
    ArgumentField("out_pixel_bytes", "bytes of an output pixel"),
    _SHIFT,
    _HEIGHT,
    _WIDTH,
    _OUT_HEIGHT,
    _OUT_WIDTH,
    *_WINDOW,
    ArgumentField("pad_right", "zero columns right of the input"),
)
DEPTHWISE_OUTSIDE_ARGUMENTS = _with_outside(DEPTHWISE_ARGUMENTS)

_MAPS = (
    ArgumentField("first", "one feature map", pointer=True),
    ArgumentField("second", "the other feature map", pointer=True),
    ArgumentField("output", "results", pointer=True),
)
_STEPS = ArgumentField("steps", "elements of a map over those of a word of the widest one")
ADD_ARGUMENTS = _structure(
    "add",
    *_MAPS,
    ArgumentField("first_table", "scaled values of the first map's elements, a byte each", pointer=True),
    ArgumentField("second_table", "the same of the second map", pointer=True),
    _STEPS,
)
ADD_SHIFT_ARGUMENTS = _structure(
    "add_shift",
    *_MAPS,
    ArgumentField("first_factor", "factor of the first map"),
    ArgumentField("second_factor", "factor of the second map"),
    ArgumentField("summand", "what is added to both products"),
    ArgumentField("shift", "right shift of their sum"),
    _STEPS,
)

_POOL = (
    ArgumentField("input", "feature map, not changed", pointer=True),
    ArgumentField("output", "results", pointer=True),
    ArgumentField("pixel_bytes", "bytes of an input pixel"),
    ArgumentField("out_pixel_bytes", "bytes of an output pixel"),
    _HEIGHT,
    _WIDTH,
    _OUT_HEIGHT,
    _OUT_WIDTH,
    ArgumentField("kernel_height", "window rows, those that the function is for"),
    ArgumentField("kernel_width", "window columns, those that the function is for"),
    ArgumentField("stride_y", "step in y, that which the function is for"),
    ArgumentField("stride_x", "step in x, that which the function is for"),
    ArgumentField("pad_top", "rows of a window that may lie above the input"),
    ArgumentField("pad_left", "columns of a window that may lie left of the input"),
)
MAXPOOL_ARGUMENTS = _structure("maxpool", *_POOL)
AVGPOOL_ARGUMENTS = _structure("avgpool", *_POOL)
AVGPOOL_SCALED_ARGUMENTS = _structure(
    "avgpool_scaled",
    *_POOL,
    ArgumentField("factor", "factor of a window's sum, not negative"),
    ArgumentField("summand", "added to the quotient"),
    ArgumentField("shift", "right shift of the result"),
)
RELU_ARGUMENTS = _structure(
    "relu",
    ArgumentField("input", "feature map", pointer=True),
    ArgumentField("output", "results, may be the input", pointer=True),
    ArgumentField("words", "words of the map"),
)
TRANSPOSE_ARGUMENTS = _structure(
    "transpose",
    ArgumentField("input", "feature map, pixel by pixel", pointer=True),
    ArgumentField("output", "the same channel by channel", pointer=True),
    ArgumentField("height", "rows"),
    ArgumentField("width", "columns"),
    ArgumentField("pixel_bytes", "bytes of an input pixel"),
    ArgumentField("row_bytes", "bytes from one output row to the next"),
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
