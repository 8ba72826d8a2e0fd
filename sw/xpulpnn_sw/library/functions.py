"""Functions of a library and their names, and the signatures of the public kernel libraries for PULP."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError, LayerError, require
from xpulpnn.isa.formats import Extension
from xpulpnn_sw.kernels.catalogue import KERNELS, kernel_of
from xpulpnn_sw.kernels.kernel import Kernel, KernelRun
from xpulpnn_sw.kernels.operands import check_rule
from xpulpnn_sw.kernels.products import CONV_ARGUMENTS, CONV_OUTSIDE_ARGUMENTS
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.tensors import for_core
from xpulpnn_sw.kernels.variants import ELEMENT_LEVELS, ONE_PIXEL, VARIANTS, Level
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS, SIGN_BITS, Precision

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

# fields of `struct xp_nn_layer` with the names of parameters, and parameters with other names
_FIELDS = (
    *("input", "bias", "output", "weights", "kappa", "lambda", "out_shift", "dim_in_x", "dim_in_y", "ch_in"),
    *("dim_out_x", "dim_out_y", "ch_out", "dim_kernel_x", "dim_kernel_y", "padding_y_top", "padding_y_bottom"),
    *("padding_x_left", "padding_x_right", "stride_x", "stride_y"),
)
_OTHER_NAMES = {"input2": "weights", "dim_vec": "ch_in", "num_o_neurons": "ch_out"}


def layer_fields(parameters: Sequence[str]) -> list[str]:
    """Return the initialisers of the fields of ``struct xp_nn_layer`` that the declared parameters determine."""
    fields: list[str] = []
    for text in parameters:
        name = text.split(" ")[-1].lstrip("*")
        if name in ("kappa", "lambda") and "*" not in text:
            continue
        if name == "out_mul":
            fields.append(".factor = (int16_t)out_mul")
        elif (field := _OTHER_NAMES.get(name, name)) in _FIELDS:
            fields.append(f".{field} = {name}")
        elif name == "flag_relu":
            fields.append(".flags = xp_nn_flags(flag_relu, flag_batch_norm)")
    return fields


WINDOWS = ("2x2:s=2", "3x3:s=2")  # default windows of pools
_WIDTHS = (8, 4, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    kernels: Sequence[str] = ()  # names of kernels; empty: all
    # empty: all of 8, 4 and 2 bits with the default signs, and those with accumulators as results
    precisions: Sequence[Precision] = ()
    variants: Sequence[str] = ()  # empty: the fastest variant for the core
    windows: Sequence[str] = WINDOWS  # windows of pools, `KyxKx[:s=]`
    rule: Rule = Rule.BN32  # rule that turns accumulators into results
    outside: bool = False  # whether to add functions that take the padding value


def library_run(run: KernelRun) -> KernelRun:
    """Return the kernel under its name in the library, in which all kernels with im2col are called ``conv``."""
    kernel = run.name.partition("_")[0]
    name = run.name.replace(f"_{run.precision}_", f"_{'x'.join(elements(run, usual='uiu'))}_")
    if run.structure in (CONV_ARGUMENTS, CONV_OUTSIDE_ARGUMENTS) and kernel != "image":
        name = f"conv{name.removeprefix(kernel)}"
    return replace(run, name=f"xp_{name}")


def elements(run: KernelRun, usual: str = "") -> list[str]:
    """Return sign and width, such as ``u8``, of all operands; the sign is left out if it is the ``usual`` one."""
    precision = run.precision
    signs = (precision.x_signed, precision.w_signed, precision.y_signed)
    letters = ["ui"[sign] for sign in signs]
    shown = ["" if letter == known else letter for letter, known in zip(letters, usual or "   ", strict=True)]
    widths = (precision.x, precision.w, precision.y)
    texts = [f"{letter if width > 1 else ''}{width}" for letter, width in zip(shown, widths, strict=True)]
    return texts if kernel_of(run.layer).has_weights else texts[::2]


def runs_on(level: Level, precision: Precision, config: CoreConfig) -> bool:
    return level.extensions <= config.extensions and level.vectors(precision) <= config.widths


def library_functions(selection: Selection, config: CoreConfig) -> Iterator[KernelRun]:
    _check_among("--kernels", selection.kernels, KERNELS)
    _check_among("--variant", selection.variants, (*VARIANTS, *ONE_PIXEL, *ELEMENT_LEVELS))
    for window in selection.windows:
        KERNELS["avgpool"].layer.parse(f"64x64x4:{window}")
    if selection.rule is Rule.QNT and Extension.XPULPQNT not in config.extensions:
        raise InputError("requantisation must be a rule without pv.qnt, unless --set qnt=true, not qnt")
    seen: set[str] = set()
    used: set[str] = set()
    for name in selection.kernels or KERNELS:
        kernel = KERNELS[name]
        for precision in _precisions(selection, kernel):
            for variant in _variants(selection, kernel, precision, config):
                for run in _sample_runs(selection, kernel, precision, variant, config):
                    used |= {name, str(precision), variant}
                    if run.name not in seen:
                        seen.add(run.name)
                        yield run
    precisions = [str(precision) for precision in selection.precisions]
    requested = {"--kernels": selection.kernels, "--precision": precisions, "--variant": selection.variants}
    for option, values in requested.items():
        _check_among(option, values, used, "what some function of the library can have")


def _check_among(option: str, requested: Iterable[str], known: Collection[str], rule: str | None = None) -> None:
    for value in requested:
        require(value in known, f"{option} must be {rule or 'among ' + ', '.join(known)}, not {value}")


def _precisions(selection: Selection, kernel: Kernel) -> Sequence[Precision]:
    if selection.precisions:
        return selection.precisions
    usual = kernel.uniform(_WIDTHS[0])
    triples = product(_WIDTHS, _WIDTHS, (*_WIDTHS, ACCUMULATOR_BITS) if kernel.rules else _WIDTHS)
    signs = usual.x_signed, usual.w_signed, usual.y_signed and usual.requantised
    precisions = [Precision(x, w, y, *signs) for x, w, y in triples if kernel.has_weights or x == w]
    return [precision if precision.requantised else precision.accumulators for precision in precisions]


def _variants(selection: Selection, kernel: Kernel, precision: Precision, config: CoreConfig) -> list[str]:
    able = [name for name, level in kernel.variants.items() if runs_on(level, precision, config)]
    if selection.variants:
        return [name for name in able if name in selection.variants]
    return able[-1:]


def _sample_runs(
    selection: Selection, kernel: Kernel, precision: Precision, variant: str, config: CoreConfig
) -> Iterator[KernelRun]:
    rng = np.random.default_rng(0)
    is_around = selection.outside and precision.x != SIGN_BITS
    for sample in kernel.samples:
        for window in selection.windows if "{window}" in sample else ("",):
            side = max(8, *map(int, window.partition(":")[0].split("x"))) if window else 0
            layer = kernel.layer.parse(sample.format(window=window, side=side))
            if getattr(layer, "outside", 0) and not is_around:
                continue
            try:
                widths = kernel.precision(layer, precision)
                kernel.variant(variant).check_precision(widths)
                check_rule(kernel.variant(variant), widths, selection.rule)
            except LayerError:
                continue
            tensors = for_core(kernel.tensors(layer, widths, rng, selection.rule), widths, config.extensions)
            yield library_run(kernel.build(layer, widths, variant, tensors))
