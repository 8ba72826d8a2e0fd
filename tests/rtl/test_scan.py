"""A scan chain through a netlist of a core with a debugger: clock gates and resets made inside do not break it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.rtl.replay import run, tool

from xpulpnn.config import PRESETS
from xpulpnn_sim.tools.components import emit_top
from xpulpnn_sim.tools.yosys import find_yosys

pytestmark = pytest.mark.flow

TOP, CHAINS, PATTERN = "core_debug", 16, 40
GATES = f"""
read_verilog core.v
hierarchy -top {TOP}
proc; flatten; opt; memory; opt -fast; dffunmap; simplemap; techmap; opt -fast; dfflegalize -cell $_DFF_P_ x
    -cell $_DFF_N_ x -cell $_DFF_PN?_ x -cell $_DFF_NN?_ x -cell $_DLATCH_N_ x; opt_clean
write_json gates.json
""".replace("\n    ", " ")
FLIP_FLOPS = ("$_DFF_P_", "$_DFF_PN0_", "$_DFF_PN1_")

BENCH = """
module bench;
    reg clk = 0, rst_n = 0, scan_enable = 0; reg [{last}:0] noise = 0; reg [{chains}-1:0] scan_in = 0;
    wire [{chains}-1:0] scan_out; integer i;
    always #5 clk = ~clk;
    {top} dut(.clk(clk), .tck_clk(1'b0), .rst_n(rst_n), .tck_rst_n(1'b1), .test_en(1'b{test_en}),
        .scan_enable(scan_enable), .scan_in(scan_in), .scan_out(scan_out), {noise});
    initial begin
        #32 rst_n = 1; #40 @(negedge clk) scan_enable = 1;
        for (i = 0; i < {cycles}; i = i + 1) begin
            scan_in = $random; noise = {{noise, $random, $random, $random}}; $display("%b %b", scan_in, scan_out);
            @(negedge clk);
        end
        $finish;
    end
endmodule
"""


def with_chains(folder: Path) -> list[int]:
    """Put a multiplexer in front of every flip-flop but those of JTAG's clock; return the lengths of the chains."""
    design = json.loads((folder / "gates.json").read_text())
    module = design["modules"][TOP]
    cells, ports = module["cells"], module["ports"]
    drivers = {bit: cell for cell in cells.values() for bit in cell["connections"].get("Y", [])}
    (clock,) = ports["clk"]["bits"]

    def is_clocked(bit: int) -> bool:
        behind = drivers.get(bit)
        inputs = behind["connections"] if behind and behind["type"] == "$_AND_" else {}
        return bit == clock or any(is_clocked(own[0]) for pin, own in inputs.items() if pin != "Y")

    flip_flops = [
        each for each in cells.values() if each["type"] in FLIP_FLOPS and is_clocked(each["connections"]["C"][0])
    ]
    of_clocks = [each["connections"]["C"] for each in cells.values() if "DFF" in each["type"]]
    assert len(flip_flops) + of_clocks.count(ports["tck_clk"]["bits"]) == len(of_clocks)
    new = max(bit for net in module["netnames"].values() for bit in net["bits"] if isinstance(bit, int)) + 1
    enable, *ends = range(new, new + 1 + CHAINS)
    inputs, directions = list(ends), {"A": "input", "B": "input", "S": "input", "Y": "output"}
    for number, cell in enumerate(flip_flops):
        chain, behind = number % CHAINS, new + 1 + CHAINS + number
        pins = {"A": cell["connections"]["D"], "B": [ends[chain]], "S": [enable], "Y": [behind]}
        known = {"hide_name": 1, "parameters": {}, "attributes": {}, "port_directions": directions}
        cells[f"scan{number}"] = {**known, "type": "$_MUX_", "connections": pins}
        cell["connections"]["D"], ends[chain] = [behind], cell["connections"]["Q"][0]
    ports["scan_in"] = {"direction": "input", "bits": inputs}
    ports["scan_enable"] = {"direction": "input", "bits": [enable]}
    ports["scan_out"] = {"direction": "output", "bits": ends}
    (folder / "chain.json").write_text(json.dumps(design))
    return [len(flip_flops[chain::CHAINS]) for chain in range(CHAINS)]


@pytest.fixture(scope="module")
def chained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int], dict[str, int]]:
    """Folder with a netlist that has scan chains, their lengths, and the widths of its other inputs."""
    folder = tmp_path_factory.mktemp("scan")
    config = replace(PRESETS["ri5cy"], xpulpv2=False, clock_gate=True, test_en=True)
    emitted = emit_top("core-debug", config, reset="async-low", initial=False)
    (folder / "core.v").write_text(emitted.text)
    yosys = find_yosys()
    yosys.run(GATES, folder, what=TOP, results=["gates.json"])
    lengths = with_chains(folder)
    script = "read_json chain.json\nwrite_verilog -noattr chain.v\n"
    yosys.run(script, folder, what=TOP, results=["chain.v"], name="chain")
    own = ("clk", "tck_clk", "rst_n", "tck_rst_n", "test_en")
    inputs = (port for port in emitted.manifest["ports"] if port["direction"] == "input" and port["name"] not in own)
    return folder, lengths, {port["name"]: port["width"] for port in inputs}


@pytest.mark.parametrize("test_en", [1, 0])
def test_patterns_come_through_all_flip_flops(chained: tuple[Path, list[int], dict[str, int]], test_en: int):
    """Whatever the other inputs do; without ``test_en`` sleep stops clocks, and requests of the debugger reset."""
    folder, lengths, inputs = chained
    assert sum(lengths) > 2000
    first, noise = 0, list[str]()
    for name, width in inputs.items():
        noise.append(f".{name}(noise[{first + width - 1}:{first}])")
        first += width
    numbers = {"last": first - 1, "cycles": max(lengths) + PATTERN, "chains": CHAINS, "test_en": test_en}
    bench = BENCH.format(top=TOP, noise=", ".join(noise), **numbers)
    (folder / "bench.v").write_text((folder / "chain.v").read_text() + bench)
    run(tool("iverilog"), "-g2005", "-o", folder / "bench", folder / "bench.v")
    rows = [line.split() for line in run(tool("vvp"), "-n", folder / "bench").splitlines()][: numbers["cycles"]]
    sent, seen = (["".join(bits) for bits in zip(*(row[side][::-1] for row in rows), strict=True)] for side in (0, 1))
    right = [seen[chain][length:] == sent[chain][:-length] for chain, length in enumerate(lengths)]
    assert all(right) == bool(test_en)
