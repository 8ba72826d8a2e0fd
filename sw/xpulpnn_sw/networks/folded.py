"""Poolings part of which is done by the convolution before them.

Cores that requantise have the results of four pixels in registers, as words, when a block ends: an instruction for the
greater ones of two words is cheaper there than two loads in the pooling.
"""

from collections.abc import Sequence
from dataclasses import replace

from xpulpnn_sw.kernels.layout import FOLDED_COLUMNS, takes_folded
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.variants import VARIANTS
from xpulpnn_sw.layers.channelwise import MaxPoolLayer
from xpulpnn_sw.layers.convolution import ConvLayer
from xpulpnn_sw.networks.network import Network, Stage


def folded(network: Network, variants: Sequence[str]) -> Network:
    """The network in which convolutions fold the columns of their results where a pooling alone reads them and can.

    ``variants`` are those of the layers.
    """
    stages = list(network.stages)
    for number, (before, name) in enumerate(zip(network.stages, variants, strict=True)):
        readers = [after for after in range(len(stages)) if before.name in network.sources(after)]
        if len(readers) != 1 or not _fold(before, name):
            continue
        after = stages[readers[0]]
        if isinstance(after.layer, MaxPoolLayer) and takes_folded(after.layer):
            for place, stage in ((number, before), (readers[0], after)):
                stages[place] = replace(stage, tensors=replace(stage.tensors, folded=True))
    return replace(network, stages=tuple(stages))


def _fold(stage: Stage, variant: str) -> bool:
    """Return whether a convolution can fold its results: the pixels of a block are all in one row."""
    layer = stage.layer
    if not isinstance(layer, ConvLayer) or layer.out_width % FOLDED_COLUMNS or variant not in VARIANTS:
        return False
    return Blocking(VARIANTS[variant], stage.precision, stage.tensors.rule).folds
