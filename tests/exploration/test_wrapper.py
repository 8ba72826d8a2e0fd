"""The registered wrapper of the FPGA flow."""

import re

import pytest

from xpulpnn_sim.exploration.fpga import WRAPPER, wrap

pytestmark = pytest.mark.unit


def manifest(*ports: tuple[str, str, int]) -> dict[str, object]:
    return {"top": "thing", "ports": [{"name": n, "direction": d, "width": w} for n, d, w in ports]}


PORTS = (("clk", "input", 1), ("rst", "input", 1), ("a", "input", 3), ("go", "input", 1), ("y", "output", 2))


def test_every_port_bit_has_its_own_register():
    wrapper = wrap(manifest(*PORTS))
    assert wrapper.input_bits == ("a[0]", "a[1]", "a[2]", "go")
    assert wrapper.output_bits == ("y[0]", "y[1]")
    connected = dict(re.findall(r"\.(\w+)\((.*?)\)", wrapper.verilog.partition("thing design (")[2]))
    assert connected == {
        "clk": "clk", "rst": "reset", "a": "driven[2:0]", "go": "driven[3:3]", "y": "result[1:0]",
    }  # fmt: skip


def test_the_wrapper_has_four_pins_and_names_its_registers():
    wrapper = wrap(manifest(*PORTS))
    header = next(line for line in wrapper.verilog.splitlines() if f"module {WRAPPER}" in line)
    assert header == f"module {WRAPPER} (input clk, input rst, input serial_in, output serial_out);"
    assert "4 inputs, its 2 outputs" in wrapper.condition
    assert "clk(" not in wrap(manifest(*PORTS[2:])).verilog.partition("thing design (")[2]
