# amaranth: UnusedElaboratable=no
"""A reset sets every register of every shipped core and cluster, to its initial value; none requests in reset."""

import re
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import pytest
from amaranth.hdl import Fragment, MemoryInstance
from tests.rtl.replay import run, tool

from xpulpnn.cluster.cluster import Cluster
from xpulpnn.config import CLUSTER_PRESETS, PRESETS, ClusterConfig
from xpulpnn.core.controller import Controller
from xpulpnn.core.core import Core
from xpulpnn.debug.config import DebugConfig
from xpulpnn_sim.tools.component_names import CORE_BUSES
from xpulpnn_sim.tools.components import emit_top
from xpulpnn_sim.tools.yosys import find_yosys

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
    "*.ways.way*.tags.words": "of lines whose valid bits have resets",
    "*.ways.way*.lines.words": "lines whose valid bits have resets",
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


PLAIN = replace(PRESETS["ri5cy"], xpulpv2=False)
STYLES = {"sync": {}, "async-low": {"reset": "async-low"}, "released": {"reset": "async-low", "reset_sync": True}}
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


@pytest.mark.parametrize(("test_en", "reset_sync"), [(True, False), (False, True)])
def test_a_scan_test_passes_by_resets_and_clock_gates(test_en, reset_sync, tmp_path: Path):
    """The debug module holds the core in reset, and its clock stands, unless ``test_en`` is 1."""
    config = replace(PLAIN, clock_gate=True, test_en=test_en)
    body = SCAN.replace("dut.", "dut.inner.") if reset_sync else SCAN
    assert simulated(tmp_path, body, "core-debug", config, reset_sync=reset_sync) == ["00", "11"]


# a word is fetched, the debugger resets the core for two cycles, and the answer comes later
LATE_ANSWER = """
    reg [15:0] granted = 0; integer fetches = 0;
    assign dut.instr__gnt = 1, dut.instr__rvalid = granted[15], dut.instr__rdata = 32'h13;
    assign dut.fetch_enable = 1, dut.boot_addr = 32'h80, dut.irq = 0, dut.data__rvalid = 0;
    assign dut.instr__err = 0, dut.data__err = 0, dut.tck_clk = 0, dut.tck_rst_n = rst_n;
    always @(posedge clk) granted <= {granted[14:0], dut.instr__req === 1};
    always @(posedge clk) if (dut.core.rst_n & dut.core.instr__rvalid) fetches = fetches + 1;
    initial begin
        #12 rst_n = 0; #20 rst_n = 1; #40 force dut.held = 1; #20 release dut.held; fetches = 0;
        #110 $display("%0d", fetches); #800 $display("%0d", fetches > 4); $finish;
    end
"""


def test_answers_from_before_a_reset_of_the_core_are_not_its_own(tmp_path: Path):
    assert simulated(tmp_path, LATE_ANSWER, "core-debug", replace(PLAIN, test_en=True)) == ["0", "1"]


def test_registers_of_a_domain_made_inside_have_asynchronous_resets():
    config = replace(CLUSTER_PRESETS["cluster"], core=replace(PRESETS["ri5cy"], debug=True))
    text = emit_top("core-axi", config, **STYLES["async-low"]).text
    assert re.findall(r"always @\(posedge clk\)(?: begin)?\s+if \(!?\w*rst", text) == []
    assert "always @(posedge clk or posedge system_rst)" in text


SMALL = ClusterConfig(core=PLAIN, cores=1, banks=2)
FIRST = """
module bench; reg clk = 0, active = 1; always #5 clk = ~clk;
    {wires} wire [{last}:0] requests = {{{requests}}};
    {top} dut({connections});
    initial #31 active = 0;
    initial begin #10 while (requests === 0 && $time < 2000) #1; $display("%0d", $time); $finish; end
endmodule
"""
OWN = {"clk": "clk", "rst": "active", "rst_n": "~active", "test_en": "1'b0"}


def first_request(folder: Path, top: str, config: object, **options: object) -> int:
    """Time of the first request, or grant, when fetching is enabled and others request and grant all the time."""
    emitted = emit_top(top, config, initial=False, **options)
    ports = {port["name"]: port["width"] for port in emitted.manifest["ports"] if port["direction"] == "output"}
    requests = [
        name
        for name in ports
        if re.search("(req|host__gnt|host__a?[rw]+ready|cyc|stb|valid|htrans)$", name) and name != "debug_req"
    ]
    inputs = {port["name"]: f"{{{port['width']}{{1'b1}}}}" for port in emitted.manifest["ports"]} | OWN
    known = {port["name"] for port in emitted.manifest["ports"]}
    bench = FIRST.format(
        wires=" ".join(f"wire [{width - 1}:0] {name};" for name, width in ports.items()),
        last=sum(ports[name] for name in requests) - 1,
        requests=", ".join(requests),
        top=top.replace("-", "_"),
        connections=", ".join(f".{name}({name if name in ports else inputs[name]})" for name in known),
    )
    (folder / "bench.v").write_text(emitted.text + bench)
    run(tool("iverilog"), "-g2005", "-o", folder / "bench", folder / "bench.v")
    return int(run(tool("vvp"), "-n", folder / "bench").splitlines()[0])


@pytest.mark.parametrize(("style", "time"), [("sync", 32), ("async-low", 32), ("released", 46)])
def test_a_core_fetches_as_soon_as_its_reset_ends(style, time, tmp_path):
    """The reset of the top ends at 31 ns, after it a register's at 45 ns; requests are looked at 1 ns later."""
    assert first_request(tmp_path, "core", PLAIN, **STYLES[style]) == time


@pytest.mark.parametrize(
    ("top", "config"),
    [
        ("core-debug", PLAIN),
        *((f"core-{bus}", SMALL) for bus in CORE_BUSES),
        *((f"cluster{kind}", SMALL) for kind in ("", "-axi", "-debug", "-wishbone")),
        ("cluster", replace(SMALL, icache_private=0)),
    ],
)
def test_nothing_is_requested_or_granted_in_reset(top, config, tmp_path):
    assert 46 <= first_request(tmp_path, top, config, **STYLES["released"]) < 200


def test_yosys_takes_asynchronous_resets(tmp_path):
    emitted = emit_top("core", PRESETS["xpulpnn3"], **STYLES["async-low"])
    (tmp_path / "core.v").write_text(emitted.text)
    script = "read_verilog core.v\nhierarchy -check -top core\nproc\nselect -assert-none t:$dlatch t:$memwr*\n"
    find_yosys().run(f"{script}write_rtlil core.il", tmp_path, what="the core", results=["core.il"])
