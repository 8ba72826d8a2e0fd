"""Every figure of the papers that a table shows, with the place where it is printed.

Kept as text, because the digits printed tell how exact a figure is: 1.65 stands for anything that rounds or is cut to
it.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Published(NamedTuple):
    """A printed figure."""

    text: str  # as printed, in the unit of its row
    where: str  # Section, table or figure

    @property
    def value(self) -> float:
        """As a number."""
        return float(self.text)

    @property
    def last_digit(self) -> float:
        """Worth of the last digit printed."""
        return 10.0 ** -len(self.text.partition(".")[2])


PAPERS: Mapping[str, str] = {
    "xpulpnn": "XpulpNN: Enabling Energy Efficient and Flexible Inference of Quantized Neural Networks on RISC-V based "
    "IoT End Nodes, IEEE TETC 2021",
    "pulp-nn": "PULP-NN: Accelerating Quantized Neural Networks on Parallel Ultra-Low-Power RISC-V Processors, "
    "Phil. Trans. R. Soc. A 378, 2020",
    "pulp-nn-mixed": "Enabling Mixed-Precision Quantized Neural Networks in Extreme-Edge Devices, ACM CF 2020",
    "ulppack": "ULPPACK: Fast Sub-8-bit Matrix Multiply on Commodity SIMD Hardware, MLSys 2022",
    "classifier": "Binarized vehicle classifier on RISC-V with a popcount instruction",
}
"""Titles by the name of the table."""

OPEF: Mapping[str, Published] = {
    "simd_4x2": Published("0.57", "section IV-C"),
    "cu_4x2": Published("0.80", "section IV-C"),
    "nn_4x2": Published("0.88", "section IV-D"),
    "nn_4x4": Published("0.94", "section IV-D"),
}
"""XpulpNN: products per instruction of the inner loop, by variant."""

CYCLES_PER_SDOTP = Published("1.08", "section IV-D")  # XpulpNN: cycles per SIMD product of the 8-bit MatMul, 4x4 layout

MATMUL_RATIOS: Mapping[tuple[str, str, int], Published] = {
    ("cu_4x2", "simd_4x2", 8): Published("1.39", "section IV-D"),
    ("nn_4x2", "cu_4x2", 8): Published("1.10", "section IV-D"),
    ("nn_4x2", "simd_4x2", 8): Published("1.53", "section IV-D"),
    ("nn_4x4", "nn_4x2", 8): Published("1.07", "section IV-D"),
    ("nn_4x4", "simd_4x2", 8): Published("1.65", "section IV-D"),
    ("nn_4x4", "simd_4x2", 4): Published("1.66", "section VI-B"),
    ("nn_4x4", "simd_4x2", 2): Published("1.56", "section VI-B"),
}
"""XpulpNN: how much faster the MatMul of a variant is than that of another, at a width."""

CONV_RATIOS: Mapping[tuple[str, int], Published] = {
    ("simd_4x2", 8): Published("1.55", "section VI-B"),
    ("simd_4x2", 4): Published("1.45", "section VI-B"),
    ("simd_4x2", 2): Published("1.32", "section VI-B"),
    ("xpulpv2_4x2", 8): Published("1.6", "section VI-C"),
    ("xpulpv2_4x2", 4): Published("6", "section VI-C"),
    ("xpulpv2_4x2", 2): Published("8.7", "section VI-C"),
}
"""XpulpNN: how much faster ``nn_4x4`` is over a whole convolution on eight cores than a variant, at a width."""

BANK_GAIN = Published("1.05", "section V-A")  # XpulpNN: cycles of C&U with 16 banks over those with 32, eight cores

CONV_KILOCYCLES: Mapping[int, Published] = {
    1: Published("2586", "table 2"),
    2: Published("1299", "table 2"),
    4: Published("660", "table 2"),
    8: Published("361", "table 2"),
}
"""PULP-NN: thousands of cycles of the 8-bit convolution, by cores."""

CONV_SPEED_UPS: Mapping[int, Published] = {
    2: Published("1.99", "table 2"),
    4: Published("3.92", "table 2"),
    8: Published("7.16", "table 2"),
}
"""PULP-NN: over one core."""

LINEAR_KILOCYCLES: Mapping[int, Published] = {
    1: Published("33", "table 2"),
    2: Published("17.6", "table 2"),
    4: Published("8.4", "table 2"),
    8: Published("4.4", "table 2"),
}
"""PULP-NN: thousands of cycles of the fully connected layer, by cores."""

LINEAR_SPEED_UPS: Mapping[int, Published] = {
    2: Published("1.89", "table 2"),
    4: Published("3.92", "table 2"),
    8: Published("7.52", "table 2"),
}
"""PULP-NN: over one core."""

PEAK = Published("15.5", "section 5(c)")  # PULP-NN: MAC per cycle of the 8-bit convolution on eight cores, 4x2 blocks

CYCLES_PER_MAC: Mapping[int, Published] = {
    4: Published("0.186", "section 5(b)"),
    2: Published("0.181", "section 5(b)"),
}
"""PULP-NN: of narrower convolutions on eight cores, by width."""

OVER_RV32IMC: Mapping[int, Published] = {
    8: Published("8.8", "section 5(a)"),
    4: Published("3.69", "section 5(a)"),
    2: Published("4.22", "section 5(a)"),
}
"""PULP-NN: how much faster a convolution is on one core than without the extensions, by width."""

EIGHT_OVER_RV32IMC = Published("63", "section 5(b)")
"""PULP-NN: the 8-bit convolution on eight cores over one core without the extensions."""

CHANNELWISE_SPEED_UP = Published("7", "section 5(b), never lower")  # PULP-NN: pooling and ReLU on eight cores over one

MIXED_PEAK = Published("16", "abstract")  # PULP-NN-mixed: MAC per cycle on eight cores, the fastest of its 27 kernels

CIFAR10_KILOCYCLES: Mapping[int, Published] = {
    1: Published("4862", "section 5(e), 28.6 ms at 170 MHz"),
    8: Published("705", "section 5(e), 241 frames/s at 170 MHz"),
}
"""PULP-NN: thousands of cycles of the CIFAR-10 network, by cores."""

CIFAR10_SPEED_UPS: Mapping[int, Published] = {
    2: Published("1.99", "section 5(e)"),
    4: Published("3.79", "section 5(e)"),
    8: Published("7", "section 5(e), slightly less"),
}
"""PULP-NN: of the CIFAR-10 network over one core."""

CLASSIFIER_MILLION_INSTRUCTIONS: Mapping[str, Published] = {
    "software": Published("84.08", "table IV"),
    "hardware": Published("37.83", "table IV"),
}
"""Classifier: by how bits are counted."""

CLASSIFIER_MILLION_CYCLES: Mapping[str, Published] = {
    "software": Published("86.5", "table III, 2.62 s at 33 MHz"),
    "hardware": Published("38.9", "table III, 1.18 s at 33 MHz"),
}
"""Classifier: by how bits are counted."""

CLASSIFIER_OPERATIONS: Mapping[str, Published] = {
    "xor": Published("3302048", "table IV"),
    "compare": Published("2553032", "table IV"),
}
"""Classifier: words compared, and numbers that become bits."""

CLASSIFIER_GAIN = Published("2.22", "table IV, 55 % fewer instructions")
"""Classifier: instructions with bits counted in software over those with an instruction for it."""

DEEPEST: Mapping[tuple[str, int, int], Published] = {
    ("P1-16", 1, 1): Published("5", "figure 7"),
    ("P1-16", 1, 2): Published("4", "section 3"),
    ("P1-16", 2, 1): Published("4", "section 3"),
    ("P2-16", 2, 2): Published("3", "section 3"),
}
"""ULPPACK: most operands packed into one, by scheme and register, bits of weights and of activations."""

OVER_OTHERS: Mapping[str, Published] = {
    "bytes": Published("1.8", "abstract, over QNNPACK"),
    "p.cnt": Published("2.7", "abstract, over bit-serial"),
}
"""ULPPACK: the packed product of three by three bits over others, on an ARM core."""

PROTOTYPE: Mapping[tuple[str, int, int], Published] = {
    (product, w, a): Published(text, "prototype")
    for product, cells in {
        "mul": {(1, 1): "0.653", (1, 2): "0.807", (2, 2): "0.870", (2, 4): "1.206", (3, 3): "1.237"}
        | {(4, 4): "1.604", (7, 7): "2.260"},
        "p.mac": {(1, 1): "0.369", (1, 2): "0.458", (2, 2): "0.517", (2, 4): "0.687", (3, 3): "0.703"}
        | {(4, 4): "0.889", (7, 7): "1.381"},
        "pv.sdotup.h": {(1, 1): "0.310", (1, 2): "0.350", (2, 2): "0.446", (2, 4): "0.469", (3, 3): "0.459"}
        | {(4, 4): "0.567"},
        "pv.sdotup.b": {(1, 1): "0.245"},
        "p.cnt": {(1, 1): "0.1259"},
    }.items()
    for (w, a), text in cells.items()
}
"""Cycles per MAC of packed products on this core as first written, by instruction, bits of weights and activations."""

PROTOTYPE_RIVALS: Mapping[tuple[str, int], Published] = {
    ("rv32im_2x2", 8): Published("4.758", "prototype"),
    ("xpulpv2_4x2", 8): Published("0.4428", "prototype"),
    ("xpulpv2_4x2", 4): Published("1.130", "prototype"),
    ("xpulpv2_4x2", 2): Published("1.099", "prototype"),
    ("nn_4x4", 8): Published("0.2707", "prototype"),
    ("nn_4x4", 4): Published("0.1376", "prototype"),
    ("nn_4x4", 2): Published("0.0712", "prototype"),
}
"""The same of products that need no packing, by kernel and width."""
