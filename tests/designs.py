"""Designs that many tests run, so that one model of each is compiled."""

from dataclasses import replace
from typing import Any

from xpulpnn.config import ClusterConfig, preset
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case
from xpulpnn_sw.kernels.catalogue import KERNELS
from xpulpnn_sw.layers.precision import Precision

FULL = simulated(preset("xpulpnn-full"))
"""The core on which the command line runs kernels unless another one is selected."""

ADDED = ("mac_load_cross", "mac_load_dot", "mac_load_pair", "mixed_weights", "requantise")
OPTIONS = ("qnt", *ADDED, "requantise_exact")
EVERY_ROW = replace(preset("xpulpnn-full"), **dict.fromkeys(OPTIONS, True))
"""Executes every row of the instruction table."""

BEYOND = simulated(EVERY_ROW)
"""The same with structures that simulate fast: runs every variant of the kernels."""

FOUR = ClusterConfig(
    core=simulated(replace(preset("xpulpnn-full"), **dict.fromkeys(ADDED, True))), cores=4, icache_private=0
)
"""Four cores that execute every variant of the kernels."""

PAIR = ClusterConfig(core=simulated(preset("ri5cy")), cores=2, banks=4, dma=False)
"""Two cores that fetch through their caches."""


def kernel_case(kernel: str, text: str, precision: str | int, variant: str, config=FULL, **options: Any) -> Case:
    """A layer from its text; a number is the width of all operands."""
    layer = KERNELS[kernel].layer.parse(text)
    widths = KERNELS[kernel].uniform(precision) if isinstance(precision, int) else Precision.parse(precision)
    return Case(layer=layer, precision=widths, variant=variant, config=config, **options)
