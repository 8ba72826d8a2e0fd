"""Map of the cluster as a core sees it: who answers a data access, as a list of ranges."""

from collections.abc import Sequence

from xpulpnn.config import ClusterConfig

_MIB = 1 << 20


def ranges(config: ClusterConfig) -> Sequence[tuple[int, int, str]]:
    """First address, number of bytes and name of the destination of everything that is mapped inside the cluster.

    Names are those of the ports of the demultiplexer; the later of two ranges that overlap counts.
    """
    tcdm = config.tcdm_bytes
    inside = [
        (0x0000_0000, _MIB, "hole"),
        (0x0000_0000, tcdm, "tcdm"),
        (0x1000_0000, 3 * _MIB, "hole"),
        (0x1000_0000, tcdm, "tcdm"),
        (0x1010_0000, tcdm, "tcdm"),
        (0x1020_0000, 0x4000, "peripherals"),
        (0x1020_4000, 0x400, "event_unit"),
    ]
    if config.dma:
        inside.append((0x1020_4400, 0x400, "dma"))
    return inside


def destination(address: int, config: ClusterConfig) -> str:
    """Name of the port that leads to an address: one of those in :func:`ranges`, or ``ext``."""
    found = "ext"
    for base, size, name in ranges(config):
        if base <= address < base + size:
            found = name
    return found
