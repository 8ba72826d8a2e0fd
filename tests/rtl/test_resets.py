# amaranth: UnusedElaboratable=no
"""A reset sets every register of every shipped core and cluster, to its initial value."""

from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch

import pytest
from amaranth.hdl import Fragment, MemoryInstance

from xpulpnn.cluster.cluster import Cluster
from xpulpnn.config import CLUSTER_PRESETS, PRESETS
from xpulpnn.core.controller import Controller
from xpulpnn.core.core import Core

pytestmark = pytest.mark.flow

# all cores of a cluster are alike; each preset of a core that no cluster has is one of its own
CLUSTERS = {name: Cluster(replace(config, cores=1)) for name, config in CLUSTER_PRESETS.items()}
KNOWN = [config.core for config in CLUSTER_PRESETS.values()]
DESIGNS = {**CLUSTERS, **{name: Core(config) for name, config in PRESETS.items() if config not in KNOWN}}

MEMORIES = {
    "*.tcdm.bank*.words": "data, undefined until a store",
    "*.order.storage": "a queue, whose level has a reset",
    "*.dma.queue.*": "a queue, whose level has a reset",
    "*.dma.engine.reader.*": "queues, whose levels have resets",
    "*.ways.way*.tags": "of lines whose valid bits have resets",
    "*.ways.way*.lines": "lines whose valid bits have resets",
}
"""Memories, which have no reset, and why they need none."""


def without_reset(fragment: Fragment, path: str) -> Iterator[str]:
    """Registers and memories that keep what they hold when a reset comes."""
    for domain, statements in fragment.statements.items():
        if domain != "comb":
            yield from (f"{path}.{signal.name}" for signal in statements._lhs_signals() if signal.reset_less)
    for child, name, _ in fragment.subfragments:
        if isinstance(child, MemoryInstance):
            yield f"{path}.{name}"
        yield from without_reset(child, f"{path}.{name}")


@pytest.mark.parametrize("name", DESIGNS)
def test_every_register_has_a_reset(name):
    paths = without_reset(Fragment.get(DESIGNS[name], None), name)
    assert [path for path in paths if not any(fnmatch(path, known) for known in MEMORIES)] == []


def test_a_register_without_reset_is_found(monkeypatch: pytest.MonkeyPatch):
    elaborate = Controller.elaborate

    def forgets(controller, platform):
        fragment = Fragment.get(elaborate(controller, platform), platform)
        (sleeping,) = (signal for signal in fragment.statements["sync"]._lhs_signals() if signal.name == "sleeping")
        sleeping._reset_less = True
        return fragment

    monkeypatch.setattr(Controller, "elaborate", forgets)
    core = Fragment.get(Core(replace(PRESETS["ri5cy"], xpulpv2=False)), None)
    assert [*without_reset(core, "core")] == ["core.controller.sleeping"]
