"""Signatures of the public kernel libraries for PULP, and what becomes of their parameters.

Types are those of C with ``{x}``, ``{y}`` for an element of inputs and of results, ``{k}`` for kappa and lambda.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_MAPS = "{x} *input, uint8_t *im2col, int8_t *bias, {y} *output, int8_t *weights"
_NORMALISATION = "{k} *kappa, {k} *lambda, uint16_t out_mul, uint16_t out_shift"
_SIZES = (
    "uint16_t dim_in_x, uint16_t dim_in_y, uint16_t ch_in, uint16_t dim_out_x, uint16_t dim_out_y, uint16_t ch_out, "
    "uint16_t dim_kernel_x, uint16_t dim_kernel_y, uint16_t padding_y_top, uint16_t padding_y_bottom, "
    "uint16_t padding_x_left, uint16_t padding_x_right, uint16_t stride_x, uint16_t stride_y"
)
_FLAGS = "uint8_t flag_relu, uint8_t flag_batch_norm"
_POOL_SIZES = _SIZES.replace("uint16_t ch_out, ", "")

# parameters of the functions, by kind
SIGNATURES: Mapping[str, str] = {
    "conv": f"{_MAPS}, {_NORMALISATION}, {_SIZES}, {_FLAGS}",
    "depthwise": f"{_MAPS}, int8_t *weight_buffer, {_NORMALISATION}, {_SIZES}, {_FLAGS}",
    "linear": "{x} *input, int8_t *bias, {y} *output, int8_t *weights, "
    f"{_NORMALISATION}, uint16_t dim_vec, uint16_t num_o_neurons, {_FLAGS}",
    # results are int32_t
    "linear_sums": "{x} *input, int8_t *bias, {y} *output, int8_t *weights, uint16_t dim_vec, uint16_t num_o_neurons",
    "maxpool": f"{{x}} *input, {{y}} *output, {_POOL_SIZES}",
    "avgpool": f"{{x}} *input, {{y}} *output, {{k}} lambda, uint16_t out_shift, {{k}} out_add, {_POOL_SIZES}, "
    "int flag_requant",
    "add": "{x} *input, {w} *input2, {y} *output, {k} in_mult1, {k} in_add1, uint16_t in_shift1, {k} in_mult2, "
    "{k} in_add2, uint16_t in_shift2, {k} out_mult, {k} out_add, uint16_t out_shift, uint16_t dim_in_x, "
    "uint16_t dim_in_y, uint16_t ch_in, int out_requant_flag",
    "add_shift": "{x} *input, {w} *input2, {y} *output, uint16_t out_mult1, uint16_t out_mult2, uint16_t out_shift, "
    "uint16_t dim_in_x, uint16_t dim_in_y, uint16_t ch_in",
}

# fields of `struct xp_nn_layer` by the parameter that they are
_FIELDS: Mapping[str, str] = {
    "input": "input",
    "bias": "bias",
    "output": "output",
    "weights": "weights",
    "input2": "weights",
    "kappa": "kappa",
    "lambda": "lambda",
    "out_shift": "shift",
    "dim_in_x": "width",
    "dim_in_y": "height",
    "ch_in": "channels",
    "dim_out_x": "out_width",
    "dim_out_y": "out_height",
    "ch_out": "out_channels",
    "dim_kernel_x": "kernel_width",
    "dim_kernel_y": "kernel_height",
    "padding_y_top": "top",
    "padding_y_bottom": "bottom",
    "padding_x_left": "left",
    "padding_x_right": "right",
    "stride_x": "stride_x",
    "stride_y": "stride_y",
    "dim_vec": "channels",
    "num_o_neurons": "out_channels",
}

_POINTERS = ("kappa", "lambda")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter."""

    type: str  # in C, with the asterisk of a pointer
    name: str

    @property
    def text(self) -> str:
        """As in a declaration."""
        return f"{self.type}{self.name}" if self.type.endswith("*") else f"{self.type} {self.name}"


def parameters_of(kind: str, types: Mapping[str, str]) -> list[Parameter]:
    """The parameters of a function of :data:`SIGNATURES` for types of elements and parameters."""
    texts = SIGNATURES[kind].format(**types).split(", ")
    return [
        Parameter(text[: -len(name)].rstrip(" "), name) for text in texts for name in [text.split(" ")[-1].lstrip("*")]
    ]


def layer_fields(given: list[Parameter]) -> list[str]:
    """Initialisers of ``struct xp_nn_layer``, those of its fields that the parameters say."""
    fields: list[str] = []
    for one in given:
        if one.name in _POINTERS and not one.type.endswith("*"):
            continue
        if one.name == "out_mul":
            fields.append(".factor = (int16_t)out_mul")
        elif one.name in _FIELDS:
            fields.append(f".{_FIELDS[one.name]} = {one.name}")
    if any(one.name == "flag_relu" for one in given):
        fields.append(".flags = xp_nn_flags(flag_relu, flag_batch_norm)")
    return fields
