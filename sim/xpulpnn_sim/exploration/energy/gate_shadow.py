"""Netlists that run beside the RTL modules of a design and are compared with them in every cycle."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn_sim.cosimulation.model.build import TOP, build_model
from xpulpnn_sim.cosimulation.model.libraries import RIGS, cached_emission, observed
from xpulpnn_sim.exploration.energy.gate_model import CLOCK, Circuit, Gates, gate_sources

_SHADOW = "gate_shadow"
_WORD_BITS = 32
_SOURCE = f"""
import "DPI-C" function int gate_instance(input string name);
import "DPI-C" function void gate_port(input int instance_number, input int place, input int word);
import "DPI-C" function void gate_follow(input int instance_number);
module {_SHADOW} #(parameter WORDS = 1)(input wire clk, input wire [{_WORD_BITS}*WORDS-1:0] ports);
  int number;
  initial number = gate_instance($sformatf("%m"));
  always @(posedge clk) if (number >= 0) begin
    for (int i = 0; i < WORDS; i = i + 1) gate_port(number, i, ports[{_WORD_BITS}*i +: {_WORD_BITS}]);
    gate_follow(number);
  end
endmodule
"""
"""Verilog of a module that passes the ports of its bound instance to ``gate_model.cpp`` at every clock edge."""


def _bound(module: str, circuit: Circuit) -> str:
    """Return the Verilog bind statement for all instances of ``module``; it passes inputs, then outputs."""
    ports = {name: nets for name, nets in circuit.inputs.items() if name != CLOCK} | circuit.outputs
    bits = sum(map(len, ports.values()))
    words = bits // _WORD_BITS + 1
    joined = ", ".join([f"{words * _WORD_BITS - bits}'d0", *reversed(ports)])
    return f"bind {module} {_SHADOW} #(.WORDS({words})) {_SHADOW}(.clk({CLOCK}), .ports({{{joined}}}));\n"


class ShadowedDesign:
    """The compiled model of a core, back end or cluster, with netlists that run beside its modules."""

    def __init__(self, top: str, config: CoreConfig | ClusterConfig, circuits: Mapping[str, Circuit]) -> None:
        self._circuits = circuits
        rig = next(rig for name, rig in RIGS.values() if name == top)
        whole = rig(*cached_emission(top, observed(config)))
        bound = "".join(_bound(module, circuit) for module, circuit in circuits.items())
        self.library = build_model(replace(whole, verilog=whole.verilog + _SOURCE + bound), added=gate_sources())
        self._gates = Gates(self.library)  # without instances, nothing is shadowed
        self._place = f"{TOP}.{TOP}.{whole.manifest['top']}"  # the model and its wrapper have the same name

    def count(self, run: Callable[[Path], object]) -> int:
        """Run the design with the netlist of its top; return the number of clock cycles."""
        (top,) = self._circuits
        self.watch(run, {"": top})
        return self._gates.cycles(0)

    def watch(
        self,
        run: Callable[[Path], object],
        instances: Mapping[str, str],
        starts: Mapping[str, Sequence[int]] | None = None,
        cycles: int = 0,
    ) -> dict[str, NDArray[np.uint8]]:
        """Run the design; return a bit array [cycle, signal] of each instance.

        ``instances`` maps paths below the top to modules; the top has an empty path. ``cycles`` cycles are recorded
        from each of an instance's ``starts``. Raises :class:`ToolError` if an output of a netlist differs from that of
        its module.
        """
        self._gates = gates = Gates(self.library)
        rows: dict[str, NDArray[np.uint8]] = {}
        for path, module in instances.items():
            name = ".".join(filter(None, (self._place, path, _SHADOW)))
            rows[path] = gates.create(self._circuits[module], name, (starts or {}).get(path, ()), cycles)
        run(self.library)
        for number, (path, module) in enumerate(instances.items()):
            if (difference := gates.difference(number)) is not None:
                cycle, sink = difference
                ports = [name for name, nets in self._circuits[module].outputs.items() for _ in nets]
                port = ".".join(filter(None, (path, ports[sink])))
                raise ToolError(f"{port} of the netlist must be what the design has in cycle {cycle}, not another")
            if not gates.cycles(number):
                raise ToolError(f"netlist of {path or module} must follow the design, not rest")
        return rows
