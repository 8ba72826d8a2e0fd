"""Energy of clusters: pieces of a run, accesses to memories, instances that stand for several."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.exploration.sample_results import spent_by

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.energy import cluster
from xpulpnn_sim.exploration.energy.estimate import chunk_starts, group_instances, placed_modules


def test_pieces_are_spread_over_a_run() -> None:
    assert chunk_starts(1000, 3000, 512, 128) == ([1000, 1624, 2248, 2872], 128)
    assert chunk_starts(1000, 3000, 100, 128) == ([1936], 128)
    # a run that is shorter than a piece, in whole words of cycles
    assert chunk_starts(0, 130, 512, 512) == ([1], 128)
    with pytest.raises(ToolError, match="workload must take at least 64 cycles, not 63"):
        chunk_starts(5, 68, 512, 512)


def test_accesses_are_told_by_ports() -> None:
    way = "shared.bank0.ways.way0.lines.port__"
    requests = {
        "banks__0__req": (3, 1),
        "private3.ways.way1.lines.read": (4, 4),
        f"{way}req": (2, 2),
        "events__req": (9, 9),
    }
    circuit = SimpleNamespace(requests=requests)
    accesses = cluster.memory_accesses(circuit, SimpleNamespace(requests=np.array([*requests.values()])))
    counts = {"TCDM reads": 2, "TCDM writes": 1, "private cache lookups": 4, "shared cache writes": 2}
    assert {what: count for what, count in accesses.items() if count} == counts


def test_cores_stand_together() -> None:
    together = group_instances(["", "core0", "tcdm", "core1", "core12"])
    assert together == {"": [""], "cores": ["core0", "core1", "core12"], "tcdm": ["tcdm"]}
    placed = list(placed_modules([spent_by("core", 2.0), spent_by("lsu", 1.5)], "cluster.cores", 3))
    assert [(energy.path, energy.total) for energy in placed] == [("cluster.cores", 6.0), ("cluster.cores.lsu", 4.5)]
