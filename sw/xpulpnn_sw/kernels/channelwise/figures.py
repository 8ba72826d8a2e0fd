"""Cycles of other libraries' kernels for the layers meant by none."""

from collections.abc import Mapping

PUBLIC_CYCLES: Mapping[tuple[str, str, int], int] = {
    ("add", "16x16x32", 8): 145_000,
    ("add", "16x16x32", 4): 242_000,
    ("add", "16x16x32", 2): 243_000,
    ("avgpool", "16x16x32:2x2:s=2:scaled", 8): 137_000,
    ("avgpool", "16x16x32:2x2:s=2:scaled", 4): 86_000,
    ("avgpool", "16x16x32:2x2:s=2:scaled", 2): 65_000,
    ("depthwise", "16x16x32:3x3", 8): 390_000,
    ("depthwise", "16x16x32:3x3", 4): 716_000,
    ("maxpool", "32x32x32:3x3:s=2,p=0x1x0x1", 8): 82_000,
    ("maxpool", "32x32x32:3x3:s=2,p=0x1x0x1", 4): 45_000,
    ("maxpool", "32x32x32:3x3:s=2,p=0x1x0x1", 2): 27_000,
}
"""By kernel, layer and width of the elements: cycles of the public PULP-NN kernels in C, compiled by GCC with -O2, on
one core like ours. For the depthwise convolution of 8 bits that is their special kernel for this window, of 4 bits the
general one. The sizes of the pools are not told with the figures, but follow from what the inner loops must take: an
average pooling that reads each channel's window by itself and multiplies, with a division before all loops, needs more
than 60 cycles for a result, so that there are 2048 of them."""


def public_cycles(kernel: str, layer: str, bits: int) -> int | None:
    """The figure, if there is one."""
    return PUBLIC_CYCLES.get((kernel, layer, bits))
