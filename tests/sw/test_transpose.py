"""Maps channel by channel, on the simulator: every element where a depthwise convolution looks for it."""

import numpy as np
import pytest

from xpulpnn_sim.reference.iss.kernel import kernel_memory
from xpulpnn_sw.kernels.channelwise.maps import MapTensors
from xpulpnn_sw.kernels.kinds import kind
from xpulpnn_sw.layers.precision import Precision

from .runs import run_share

TRANSPOSE = kind("transpose")


def built(text, elements, level, **options):
    layer, precision = TRANSPOSE.layer.parse(text), Precision.parse(f"{elements}x8x{elements}")
    tensors = TRANSPOSE.random(layer, precision, np.random.default_rng(7))
    return TRANSPOSE.build(layer, precision, level, tensors, **options), tensors.activations


def run(kernel, cores):
    """The memory afterwards, and the instructions of the core with most."""
    memory, most = kernel_memory(kernel), 0
    for core in range(cores):
        most = max(most, run_share(kernel, core, cores, memory)[1])
    output = kernel.image.symbols["output"]
    return np.frombuffer(memory.read_bytes(output.address, output.length), np.uint8), most


def element(output, bits, row_bytes, height, place):
    """One of a byte somewhere, by hand."""
    row, column, channel = place
    bit = column * bits
    return output[(channel * height + row) * row_bytes + bit // 8] >> bit % 8 & (1 << bits) - 1


@pytest.mark.parametrize("level", TRANSPOSE.variants)
@pytest.mark.parametrize("elements", ["u8", "i8", "u4", "i4", "u2", "i2"])
def test_every_element_is_where_it_belongs(elements, level):
    """Rows that fill their words and others, and so channels."""
    for number, text in enumerate(("4x16x16", "3x5x9", "1x1x1", "2x9x33", "5x3x2")):
        cores = (1, 2, 3, 8, 1)[number]
        kernel, values = built(text, elements, level, cores=cores, specialise=number % 2 == 0)
        height, width, _ = values.shape
        bits = kernel.precision.x
        output, _ = run(kernel, cores)
        row_bytes = -(-width * bits // 32) * 4
        for place in np.ndindex(*values.shape):
            expected = int(values[place]) & (1 << bits) - 1
            assert element(output, bits, row_bytes, height, place) == expected, (text, place)


@pytest.mark.parametrize(("bits", "cycles"), [(8, 10_300), (4, 8_400), (2, 6_400)])
def test_instructions_of_the_usual_layer(bits, cycles):
    """Less than a tenth of the depthwise convolution of 3x3 behind it, which takes more than 110,000."""
    kernel, _ = built("16x16x32", f"u{bits}", "xpulpv2")
    assert run(kernel, 1)[1] < cycles
    assert run(built("16x16x32", f"u{bits}", "xpulpv2", cores=8)[0], 8)[1] < cycles / 7


def test_what_a_depthwise_convolution_reads():
    """Its input in memory, word by word, is the output of the transposition."""
    depthwise, precision = kind("depthwise"), Precision.parse("4x4x4")
    layer = depthwise.layer.parse("5x7x8:3x3")
    tensors = depthwise.random(layer, precision, np.random.default_rng(8))
    wanted = depthwise.build(layer, precision, "xpulpnn", tensors).image.view("input")
    text = MapTensors(activations=tensors.activations)
    output, _ = run(TRANSPOSE.build(TRANSPOSE.layer.parse("5x7x8"), Precision(4, 4, 4), "xpulpv2", text), 1)
    # what is behind a row counts for neither
    rows = (8 * 5, 4)
    mask = np.array([255, 255, 255, 15], np.uint8)
    np.testing.assert_array_equal(output.reshape(rows) & mask, wanted[: 8 * 5 * 4].reshape(rows) & mask)
