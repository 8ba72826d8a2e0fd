"""The Verilog between a design and the compiled driver, made from the design's manifest.

All inputs of the design are registers of the wrapper, loaded at the clock edge with what the driver has chosen. The
simulator thus evaluates the combinational logic once per cycle; inputs that act between two edges would cost a second
pass. The driver is not called from Verilog: a function with foreign calls keeps all its signals in memory, and the
whole design is one function.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from xpulpnn.errors import ToolError
from xpulpnn_sim.cosimulation.model.schema import KINDS, RETIRE, PortKind, cpp_header
from xpulpnn_sim.reference.programs.retirement import WORD_FIELDS

TOP = "testbench"  # module of the wrapper

CONTROL_FILE = f"{TOP}.vlt"  # file of instructions to the simulator

RECORD_BITS = 32 * len(WORD_FIELDS)

_CLOCKING = ("clk", "rst")


@dataclass(frozen=True, slots=True)
class Adapter:
    """Ports of a design that the driver serves together."""

    kind: PortKind  # what they are
    ports: Mapping[str, str]  # port of the design by field of the kind, or by field of a record for a retirement port


@dataclass(frozen=True, eq=False, kw_only=True)
class Rig:
    """A design ready to be simulated: a top and adapters for its ports."""

    verilog: str
    manifest: Mapping[str, Any]  # what `emit` says of it: top and ports
    # one retirement port for each hart, in their order; inputs that no adapter drives are 0
    adapters: tuple[Adapter, ...]
    both_edges: bool = False  # whether every change of the clock is an edge of the design
    # module of which there are several instances, compiled once for all; empty: everything becomes one function
    repeated: str = ""

    def __post_init__(self) -> None:
        known = {port["name"] for port in self.manifest["ports"]}
        used = {
            name.partition("[")[0]
            for adapter in self.adapters
            for names in adapter.ports.values()
            for name in names.split()
        }
        if missing := sorted(used - known):
            raise ToolError(
                f"module {self.manifest['top']} must have the port {missing[0]} to be simulated, not lack it"
            )

    def sources(self) -> dict[str, str]:
        """Generated files: the wrapper, what the simulator is told of modules, and the C++ header."""
        return {
            f"{TOP}.sv": self._wrapper(),
            CONTROL_FILE: "\n".join(["`verilator_config", *self._kept_apart(), ""]),
            "schema.hpp": cpp_header(self._counts(), both_edges=self.both_edges),
        }

    def _kept_apart(self) -> Iterator[str]:
        """Instructions that make all instances of the repeated module run the same function. It is not merged with what
        surrounds it, and its inputs are variables of its own: the simulator would replace them by what drives each."""
        if not self.repeated:
            return
        yield f'no_inline -module "{self.repeated}"'
        ports = re.search(rf"^module {self.repeated}\b.*?^\);$", self.verilog, re.MULTILINE | re.DOTALL)
        assert ports, self.repeated
        for name in re.findall(r"^\s*input wire (?:\[\d+:0\] )?(\w+)", ports[0], re.MULTILINE):
            if name not in _CLOCKING:
                yield f'public_flat_rd -module "{self.repeated}" -var "{name}"'

    def _of(self, kind: PortKind) -> list[Adapter]:
        return [adapter for adapter in self.adapters if adapter.kind is kind]

    def _counts(self) -> dict[str, int]:
        return {kind.name: len(self._of(kind)) for kind in KINDS}

    def _wrapper(self) -> str:
        widths = {port["name"]: port["width"] for port in self.manifest["ports"]}
        top = self.manifest["top"]
        seen, driven = self._fields("seen"), self._fields("driven")
        inputs = {
            name: f"driven[{32 * at} +: {widths[name]}]" for at, names in enumerate(driven) for name in names.split()
        }
        pins, wires = [], []
        for port in self.manifest["ports"]:
            name, width = port["name"], port["width"]
            if name in _CLOCKING:
                pins.append(f".{name}({name})")
            elif port["direction"] == "input":
                pins.append(f".{name}({inputs.get(name, f'{width}' + chr(39) + 'd0')})")
            else:
                wires.append(f"  wire [{width - 1}:0] {name};")
                pins.append(f".{name}({name})")
        observed = ", ".join(f"32'({name})" if name else "32'd0" for name in reversed(seen))
        collect = f"driven[{32 * len(driven)}]"
        records = "\n".join(
            f"  always @* if ({valid} & {collect}) {target} = {{{row}}};" for valid, target, row in self._records()
        )
        coming_bits, observed_bits = 32 * (len(driven) + 1), 32 * len(seen)
        edge = "edge" if self.both_edges else "posedge"
        joined_wires, joined_pins = "\n".join(wires), ",\n    ".join(pins)
        return f"""// Generated by xpulpnn_sim.cosimulation.model.testbench.
module {TOP}(
  input wire clk, input wire rst,
  input wire [{coming_bits - 1}:0] coming,
  output wire [{observed_bits - 1}:0] observed,
  output reg [{len(self._of(RETIRE)) * RECORD_BITS - 1}:0] records
);
{joined_wires}
  reg [{coming_bits - 1}:0] driven;
  always @({edge} clk) driven <= coming;
  assign observed = {{{observed}}};
{records}
  {top} {top}(
    {joined_pins}
  );
endmodule
"""

    def _fields(self, direction: Literal["seen", "driven"]) -> list[str]:
        """Ports of the design by word of the struct Observed or Driven, empty where there is none."""
        nothing = Adapter(KINDS[0], {})
        places = [(kind, adapter) for kind in KINDS for adapter in self._of(kind) or [nothing]]
        return [adapter.ports.get(field, "") for kind, adapter in places for field in getattr(kind, direction)]

    def _records(self) -> Iterator[tuple[str, str, str]]:
        """The signal that a hart retires an instruction, the place of its record and the record, of each."""
        for hart, adapter in enumerate(self._of(RETIRE)):
            fields = [adapter.ports.get(name, "") for name in reversed(WORD_FIELDS)]
            row = ", ".join(f"32'({name})" if name else "32'd0" for name in fields)
            yield adapter.ports["valid"], f"records[{RECORD_BITS * hart} +: {RECORD_BITS}]", row
