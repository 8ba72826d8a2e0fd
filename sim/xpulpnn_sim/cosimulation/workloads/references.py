"""The expected results of single layers, by the golden model of networks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sim.reference.golden.network import stage_results
from xpulpnn_sw.layers.convolution import Layer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.networks.network import Stage

_Results = NDArray[np.int32]


def reference(layer: Layer, tensors: Any, precision: Precision) -> _Results:
    """Return the results of a layer, of the width and sign of the precision."""
    pad = getattr(layer, "outside", 0)
    stage = Stage(name=str(layer), layer=layer, precision=precision, tensors=tensors, pad=pad)
    return stage_results(stage, *(one[np.newaxis] for one in stage.maps))[0]


def largest_share(results: _Results) -> float:
    """Return the fraction of the results that are equal to the most frequent one."""
    return float(np.unique(results, return_counts=True)[1].max() / results.size)
