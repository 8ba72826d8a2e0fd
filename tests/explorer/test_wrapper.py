"""The registered wrapper of the FPGA flow."""

import re

import pytest

from xpulpnn_sim.explorer.wrapper import WRAPPER, wrap

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
        "clk": "clk",
        "rst": "reset",
        "a": "driven[2:0]",
        "go": "driven[3:3]",
        "y": "result[1:0]",
    }


def test_pins_stay_four_whatever_the_ports():
    header = next(line for line in wrap(manifest(*PORTS)).verilog.splitlines() if f"module {WRAPPER}" in line)
    assert header == f"module {WRAPPER} (input clk, input rst, input serial_in, output serial_out);"


def test_component_without_clock_gets_none():
    wrapper = wrap(manifest(("a", "input", 1), ("y", "output", 1)))
    assert "clk(" not in wrapper.verilog.partition("thing design (")[2]


def test_condition_names_the_registers():
    assert "4 inputs, its 2 outputs" in wrap(manifest(*PORTS)).condition
