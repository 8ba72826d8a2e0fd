"""The DMA engine of clusters of every size."""

import pytest

from xpulpnn.cluster.dma.unit import Dma
from xpulpnn.config import ClusterConfig
from xpulpnn.verilog import emit

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("cores", "identifiers"), [(1, 1), (16, 3)])
def test_ports_follow_the_configuration(cores: int, identifiers: int):
    config = ClusterConfig(cores=cores, dma_transfers=identifiers)
    emitted = emit(Dma(config), "dma", config=config)
    widths = {port["name"]: port["width"] for port in emitted.manifest["ports"]}
    assert widths["events"] == widths["interrupts"] == cores
    assert sum(name.startswith("cores__") and name.endswith("__req") for name in widths) == cores
    assert (widths["ext__wdata"], widths["ext__be"], widths["ext__beats"]) == (64, 8, 6)
    counters = [row["name"] for row in emitted.manifest["modules"]["identifiers"]["registers"]]
    assert sum(name.startswith("under_way") for name in counters) == identifiers
