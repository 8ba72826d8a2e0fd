"""Networks as the kernels compute them, out of networks as they are meant."""

from collections.abc import Collection
from dataclasses import replace

from xpulpnn_sw.kernels.channelwise.maps import MapTensors
from xpulpnn_sw.layers.channelwise import DepthwiseLayer, TransposeLayer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.networks.network import NETWORK_INPUT, Network, Stage
from xpulpnn_sw.networks.whole_words import in_whole_words

_ENDING = "planes"


def _in_planes(network: Network) -> Network:
    """The network with a transposition of each map that depthwise convolutions read.

    It is called like the map with ``.planes`` behind, and all of them read it. A layer that reads the network's input,
    which is there as its readers want it, needs none, nor does one behind a transposition.
    """
    stages: list[Stage] = []
    planes: dict[str, str] = {}
    names = {stage.name for stage in network.stages}
    ready = {NETWORK_INPUT, *(stage.name for stage in network.stages if isinstance(stage.layer, TransposeLayer))}
    for number, stage in enumerate(network.stages):
        sources = network.sources(number)
        if isinstance(stage.layer, DepthwiseLayer) and sources[0] not in ready:
            source = sources[0]
            if source not in planes:
                planes[source] = _other(f"{source}.{_ENDING}", names)
                stages.append(_transposed(stage, source, planes[source]))
            sources = (planes[source],)
        stages.append(replace(stage, sources=sources))
    return replace(network, stages=tuple(stages))


def _other(name: str, known: Collection[str]) -> str:
    """The name, with something behind if there is one like it."""
    while name in known:
        name += "'"
    return name


def _transposed(stage: Stage, source: str, name: str) -> Stage:
    """The transposition of the map that a layer reads."""
    height, width, channels = stage.input_shapes[0]
    bits, signed = stage.input_elements[0]
    return Stage(
        name=name,
        layer=TransposeLayer(height=height, width=width, channels=channels),
        precision=Precision(bits, bits, bits, x_signed=signed, y_signed=signed),
        tensors=MapTensors(activations=stage.tensors.activations),
        sources=(source,),
    )


def suited(network: Network) -> Network:
    """The network whose maps are in memory as the kernels that read them want them.

    What was there is there under the same name, in the first channels of a map: see
    :func:`~xpulpnn_sw.networks.whole_words.in_whole_words` for channels that come behind them, and for its input,
    ``.planes`` for layers that come between.
    """
    return _in_planes(in_whole_words(network))
