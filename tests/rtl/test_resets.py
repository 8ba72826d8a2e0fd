# amaranth: UnusedElaboratable=no
"""A reset sets every register of every shipped core and cluster, to its initial value."""

from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import pytest
from amaranth.hdl import Fragment, MemoryInstance
from tests.rtl.replay import run, tool

from xpulpnn.cluster.cluster import Cluster
from xpulpnn.config import CLUSTER_PRESETS, PRESETS
from xpulpnn.core.controller import Controller
from xpulpnn.core.core import Core
from xpulpnn.debug.config import DebugConfig
from xpulpnn_sim.tools.components import emit_top

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


BENCH = """
module bench; reg clk = 0, rst_n = 1, test_en = 0; reg [4:0] seen = 0;
    always #5 clk = ~clk;
    {top} dut(.clk(clk), .rst_n(rst_n), .test_en(test_en));
    {body}
endmodule
"""
RELEASE = """
    always @(posedge clk) #1 seen = {seen[3:0], dut.inner.rst_n};
    initial begin #12 rst_n = 0; #1 if (dut.inner.rst_n !== 0) $display("late"); #19 rst_n = 1; end
    initial #65 $display("%b", seen);
    initial begin #70 rst_n = 0; test_en = 1; #1 rst_n = 1; #1 $display("%b", dut.inner.rst_n); $finish; end
"""
SCAN = """
    initial begin
        force dut.held = 1; force dut.core.core_gate.enable = 0; #1 rst_n = 0; #1 rst_n = 1;
        #15 $display("%b%b", dut.core.rst_n, dut.core.core_gate.gated);
        test_en = 1; #10 $display("%b%b", dut.core.rst_n, dut.core.core_gate.gated); $finish;
    end
"""


def simulated(folder: Path, body: str, top: str, config: object, **options: bool) -> list[str]:
    text = emit_top(top, config, reset="async-low", initial=False, **options).text
    (folder / "bench.v").write_text(text + BENCH.replace("{top}", top.replace("-", "_")).replace("{body}", body))
    run(tool("iverilog"), "-g2005", "-o", folder / "bench", folder / "bench.v")
    return run(tool("vvp"), "-n", folder / "bench").splitlines()[:2]


def test_a_reset_begins_at_once_and_ends_at_the_second_edge(tmp_path: Path):
    """Rising edges at 5, 15, ... 55 ns, reset from 12 to 32 ns; a scan test sees the reset of the top itself."""
    assert simulated(tmp_path, RELEASE, "jtag-dtm", DebugConfig(), reset_sync=True) == ["00011", "1"]


def test_a_scan_test_passes_by_resets_and_clock_gates(tmp_path: Path):
    """The debug module holds the core in reset, and its clock stands, unless ``test_en`` is 1."""
    config = replace(PRESETS["ri5cy"], xpulpv2=False, clock_gate=True, test_en=True)
    assert simulated(tmp_path, SCAN, "core-debug", config) == ["00", "11"]
