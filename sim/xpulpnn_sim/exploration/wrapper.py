"""Registered wrapper that lets place and route measure a component with more ports than a package has pins."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WRAPPER = "registered_wrapper"  # name of the wrapper's module

INSTANCE = "design"  # name of the component in it

INPUTS, RESET, OUTPUTS, FOLD = "source.driven", "source.reset", "sink.sampled", "sink.folded"
"""Registers of the wrapper, by their names in the flat netlist."""

_PINS = ("clk", "rst")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """A wrapper and its size."""

    verilog: str  # its module; the component is not included
    # port bits of the component, clock and reset excluded, such as `rs1[3]`; bit i of the wrapper's input and output
    # registers belongs to entry i
    input_bits: tuple[str, ...]
    output_bits: tuple[str, ...]

    @property
    def condition(self) -> str:
        """Sentence about the wrapper for readers of the figures."""
        inputs, outputs = len(self.input_bits), len(self.output_bits)
        return (
            f"Every port of the component is registered: a shift register drives its {inputs} inputs, its {outputs} "
            "outputs are sampled and folded into one pin by a pipelined chain of XOR gates, so that four pins suffice "
            "and no logic is unused."
        )


def wrap(manifest: Mapping[str, Any]) -> Wrapper:
    """Wrapper of the component that ``manifest`` describes.

    The wrapper has the pins ``clk``, ``rst``, ``serial_in`` and ``serial_out``. Each path through the component starts
    at a register bit that nothing else loads but the next bit of the shift register, and ends at one that feeds
    a single two-input gate: the longest register-to-register path is that of the component. The registers sit in two
    modules ``source`` and ``sink`` whose hierarchy is to be kept while synthesis runs, or a register of the component
    that samples a port would be merged with one of theirs.
    """
    ports = [port for port in manifest["ports"] if port["name"] not in _PINS]
    clocking = [port["name"] for port in manifest["ports"] if port["name"] in _PINS]
    connections = [f".{name}({'clk' if name == 'clk' else 'reset'})" for name in clocking]
    bits: dict[str, list[str]] = {"input": [], "output": []}
    for port in ports:
        name, width, known = port["name"], port["width"], bits[port["direction"]]
        bus = "driven" if port["direction"] == "input" else "result"
        connections.append(f".{name}({bus}[{len(known) + width - 1}:{len(known)}])")
        known += [f"{name}[{bit}]" for bit in range(width)] if width > 1 else [name]
    verilog = _TEMPLATE.format(
        inputs=len(bits["input"]),
        outputs=len(bits["output"]),
        wrapper=WRAPPER,
        module=manifest["top"],
        instance=INSTANCE,
        connections=",\n".join(f"        {connection}" for connection in connections),
    )
    return Wrapper(verilog=verilog, input_bits=tuple(bits["input"]), output_bits=tuple(bits["output"]))


_TEMPLATE = """\
(* keep_hierarchy *)
module wrapper_source (input clk, input rst, input serial_in, output reg [{inputs}-1:0] driven, output reg reset);
    always @(posedge clk) begin
        driven <= {{driven, serial_in}};
        reset <= rst;
    end
endmodule

(* keep_hierarchy *)
module wrapper_sink (input clk, input [{outputs}-1:0] result, output serial_out);
    reg [{outputs}-1:0] sampled, folded;
    assign serial_out = folded[{outputs}-1];
    always @(posedge clk) begin
        sampled <= result;
        folded <= {{folded, 1'b0}} ^ sampled;
    end
endmodule

module {wrapper} (input clk, input rst, input serial_in, output serial_out);
    wire [{inputs}-1:0] driven;
    wire [{outputs}-1:0] result;
    wire reset;
    wrapper_source source (.clk(clk), .rst(rst), .serial_in(serial_in), .driven(driven), .reset(reset));
    wrapper_sink sink (.clk(clk), .result(result), .serial_out(serial_out));
    {module} {instance} (
{connections}
    );
endmodule
"""
