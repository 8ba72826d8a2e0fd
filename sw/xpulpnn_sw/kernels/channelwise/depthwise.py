"""Depthwise convolution kernels and their random operands."""

from collections.abc import Mapping

import numpy as np

from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, WORD_MASK
from xpulpnn_sw.kernels import kernel
from xpulpnn_sw.kernels import requantisation as rules
from xpulpnn_sw.kernels.channelwise.depthwise_code import DepthwiseCode
from xpulpnn_sw.kernels.channelwise.depthwise_in_place import InPlaceCode, computes_in_place
from xpulpnn_sw.kernels.channelwise.depthwise_rows import rows_stride
from xpulpnn_sw.kernels.channelwise.maps import PlacedMaps, map_kernel, random_window_text
from xpulpnn_sw.kernels.kernel import ArgumentField, KernelRequest, KernelRun
from xpulpnn_sw.kernels.layout import Program, pack_words
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.tensors import random_tensors
from xpulpnn_sw.layers.layer import DepthwiseLayer

_MOST_HELD = 3  # largest height and width of filters held in registers
_LONGEST_STEP = 2  # longest step of filters of so many rows
_READ_AHEAD = 2  # words behind the input that may be read


DEPTHWISE_ARGUMENTS = kernel.argument_structure(
    "depthwise",
    ArgumentField("input", "activations, a feature map channel by channel", pointer=True),
    ArgumentField("weights", "filter rows, each of whole words of bytes", pointer=True),
    ArgumentField(
        "parameters",
        "for each channel lambda, which includes the bias, and kappa; by rules other than bn32, with pv.rq other than "
        "bn32, multiply and shift, the bias and the parameters of the rule",
        pointer=True,
    ),
    ArgumentField("output", "results", pointer=True),
    ArgumentField("buffer", "row buffers of all cores, core 0 first", pointer=True),
    ArgumentField("buffer_stride", "bytes between the row buffers of two cores"),
    ArgumentField("channels", "channels"),
    ArgumentField("row_bytes", "bytes from one input row to the next"),
    ArgumentField("out_pixel_bytes", "bytes of an output pixel"),
    kernel.SHIFT,
    *kernel.SIZES,
    *kernel.OUT_SIZES,
    *kernel.WINDOW,
    ArgumentField("pad_right", "zero columns right of the input"),
    notes="""\
The input is [channel][row][column], each row of whole words; two words behind it may be read. The output is
[row][column][channel]. weights, parameters: as `xpulpnn pack` lays them out. Filters Kx3_s1 are for K rows, at most 3
columns and steps of one column, 3x3_s2 for 3 rows and steps of two columns; functions without either are for all other
filters. Buffer: buffer_stride for each core, a row of whole words for each row of the padded input, and 32 bytes.""",
)
DEPTHWISE_OUTSIDE_ARGUMENTS = kernel.with_outside(DEPTHWISE_ARGUMENTS)


def depthwise_kernel(request: KernelRequest) -> KernelRun:
    """Return a depthwise convolution of ``input`` (CHW) to ``output`` (HWC) with a row ``buffer`` per core."""
    layer, precision, tensors, level = request.layer, request.precision, request.tensors, request.level
    tensors.check(layer, precision)
    if not level.requantises:
        tensors = tensors.in_software(precision)
    outside = precision.around(layer.outside)
    is_valued = outside != precision.outside and any(layer.padding)
    structure = DEPTHWISE_OUTSIDE_ARGUMENTS if is_valued else DEPTHWISE_ARGUMENTS
    memory = request.memory
    maps = PlacedMaps(request, precision.y)
    top, bottom, _, right = layer.padding
    rows = pack_words(np.ascontiguousarray(tensors.activations.transpose(2, 0, 1)), precision.x)
    rule, requantisation = tensors.rule, tensors.requantisation
    if level.requantises:
        requantisation = rules.with_channel_factors(requantisation, layer.channels)
    bias = np.zeros(layer.channels, np.int64) if tensors.bias is None else tensors.bias.astype(np.int64)
    if isinstance(requantisation, rules.ExactRequantisation):
        parameters = rules.scaled_parameters(bias, requantisation, layer.channels, 1)
    else:
        parameters = rules.block_parameters(bias, requantisation, layer.channels, 1)
    if isinstance(requantisation, rules.Requantisation):
        parameters = np.stack([requantisation.lam + requantisation.kappa * bias, requantisation.kappa], axis=-1)
    buffer_stride = rows_stride(layer, layer.height + top + bottom, request.placement)
    arguments = {
        "input": memory.place("input", rows, spare=_READ_AHEAD),
        "weights": memory.place("weights", pack_words(tensors.weights, BYTE_BITS)),
        "parameters": memory.place("parameters", (parameters & WORD_MASK).astype(np.uint32)),
        "output": maps.reserve("output", layer.out_height * layer.out_width, precision.y),
        "buffer": memory.reserve("buffer", request.cores * buffer_stride),
        "buffer_stride": buffer_stride,
        "channels": layer.channels,
        "row_bytes": rows.shape[-1] * WORD_BYTES,
        "out_pixel_bytes": maps.pixel_bytes(precision.y),
        "shift": requantisation.applied_shift,
        **kernel.window_arguments(layer),
        "pad_right": right,
        "outside": outside & WORD_MASK,
    }
    step = layer.stride[1]
    is_small = max(layer.kernel_height, layer.kernel_width) <= _MOST_HELD and level.xpulp
    is_held = is_small and (step == 1 or (step == _LONGEST_STEP and layer.kernel_height == _MOST_HELD))
    held_rows = layer.kernel_height if is_held else None
    function = "depthwise_outside" if is_valued else "depthwise"
    name = function if held_rows is None else f"{function}_{held_rows}x{_MOST_HELD}_s{step}"

    def write(known: Mapping[str, int]) -> Program:
        if not is_valued and computes_in_place(request, known, requantisation.rule):
            return InPlaceCode(request, structure, known, requantisation.rule).write()
        return DepthwiseCode(request, structure, known, held_rows, requantisation.rule).write()

    return request.finish(name, structure, arguments, write, rule)


DEPTHWISE = map_kernel(
    name="depthwise",
    help="depthwise convolution",
    layer=DepthwiseLayer,
    usual="16x16x32:3x3",
    write=depthwise_kernel,
    rules=(Rule.BN32, Rule.BN64, Rule.EXACT, Rule.MULTIPLY, Rule.SHIFT, Rule.THRESHOLDS),
    random=random_tensors,
    drawn=lambda rng: random_window_text(rng, 9),
    structures=(DEPTHWISE_ARGUMENTS, DEPTHWISE_OUTSIDE_ARGUMENTS),
    samples=tuple(
        f"8x8x4:{window},v={outside}"
        for outside in range(2)
        for window in ("3x3:s=1", "3x3:s=2", "2x3:s=1", "1x3:p=0x0x1x1", "5x5:p=2")
    ),
)
