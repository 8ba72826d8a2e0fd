"""Every figure of the papers that a table shows, with the place where it is printed.

Kept as text, because the digits printed tell how exact a figure is: 1.65 stands for anything that rounds or is cut to
it.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Published(NamedTuple):
    """A printed figure.

    Members
    -------
    text : str
        As printed, in the unit of its row.
    where : str
        Section, table or figure.
    """

    text: str
    where: str

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

CYCLES_PER_SDOTP = Published("1.08", "figure 8")
"""XpulpNN: cycles per SIMD product of the 8-bit MatMul, 4x4 layout."""

MATMUL_RATIOS: Mapping[tuple[str, str, int], Published] = {
    ("cu_4x2", "simd_4x2", 8): Published("1.39", "figure 8"),
    ("nn_4x2", "cu_4x2", 8): Published("1.10", "section IV-D"),
    ("nn_4x2", "simd_4x2", 8): Published("1.53", "section IV-D"),
    ("nn_4x4", "nn_4x2", 8): Published("1.07", "section IV-D"),
    ("nn_4x4", "simd_4x2", 8): Published("1.65", "section IV-D"),
    ("nn_4x4", "simd_4x2", 4): Published("1.66", "figure 11"),
    ("nn_4x4", "simd_4x2", 2): Published("1.56", "figure 11"),
}
"""XpulpNN: how much faster the MatMul of a variant is than that of another, at a width."""

CONV_RATIOS: Mapping[tuple[str, int], Published] = {
    ("simd_4x2", 8): Published("1.55", "figure 11"),
    ("simd_4x2", 4): Published("1.45", "figure 11"),
    ("simd_4x2", 2): Published("1.32", "figure 11"),
    ("xpulpv2_4x2", 8): Published("1.6", "section VI-C"),
    ("xpulpv2_4x2", 4): Published("6", "section VI-C"),
    ("xpulpv2_4x2", 2): Published("8.7", "section VI-C"),
}
"""XpulpNN: how much faster ``nn_4x4`` is over a whole convolution on eight cores than a variant, at a width."""

BANK_GAINS: Mapping[str, Published] = {
    "cu_4x2": Published("1.05", "figure 9"),
    "nn_4x2": Published("1.0", "figure 9, almost the same"),
}
"""XpulpNN: cycles with 16 banks over those with 32, eight cores, by variant."""
