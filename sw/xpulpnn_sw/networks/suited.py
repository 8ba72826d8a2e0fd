"""Networks as the kernels compute them, out of networks as they are meant."""

from xpulpnn_sw.networks.network import Network
from xpulpnn_sw.networks.planes import in_planes
from xpulpnn_sw.networks.whole_words import in_whole_words


def suited(network: Network) -> Network:
    """The network whose maps are in memory as the kernels that read them want them.

    What was there is there under the same name, in the first channels of a map: see
    :func:`~xpulpnn_sw.networks.whole_words.in_whole_words` for channels that come behind them, and for its input,
    :func:`~xpulpnn_sw.networks.planes.in_planes` for layers that come between.
    """
    return in_planes(in_whole_words(network))
