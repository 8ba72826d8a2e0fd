"""The back end of an emitted core as gates, with every signal at hand and some units left out.

The units left out have proofs of their own; what goes in and comes out of them is seen here.
"""

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.elaborate import ClockCycle, ClockedGates
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, GateGraph
from xpulpnn_sim.tools.netlists import NetlistModule, read_module
from xpulpnn_sim.tools.yosys import Yosys

LEFT_OUT = ("ex_stage.mult", "ex_stage.div", "ex_stage.dotp", "ex_stage.quantiser", "id_stage.regfile")
"""Units whose gates are not there, by their place in the back end."""

_IN_EX = ("id_stage.id_ex__", "rvfi_tap.ex_", "rvfi_tap.wb_valid_value")
_IN_WB = ("wb_stage.", "rvfi_tap.wb_", "lsu.wb_")
"""Beginnings of the names of the registers that follow an instruction through EX, and through WB."""

_MODULE = re.compile(r"^module (?P<name>\w+).*?^endmodule$", re.MULTILINE | re.DOTALL)

_SCRIPT = """read_verilog design.v
hierarchy -check -top {top}
blackbox {units}
proc
flatten
expose -evert
opt_expr
pmuxtree
simplemap
techmap t:$sh* t:$lt t:$le t:$gt t:$ge
opt_expr
simplemap
clean
write_json netlist.json
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An emitted core."""

    modules: Mapping[str, str]  # Verilog of each module by its name
    hierarchy: Mapping[str, str]  # module of each instance by its place in the core

    @property
    def place(self) -> str:
        """Instance path of the back end."""
        return f"{next(iter(self.hierarchy))}.backend"

    @property
    def left_out(self) -> list[str]:
        """Modules of the units left out."""
        places = (f"{self.place}.{unit}" for unit in LEFT_OUT)
        return [self.hierarchy[place] for place in places if place in self.hierarchy]


def source_of(verilog: str, hierarchy: Mapping[str, str]) -> Source:
    """An emitted core from its text and the hierarchy in its manifest."""
    found = {match["name"]: match[0] for match in _MODULE.finditer(verilog)}
    return Source(modules=found, hierarchy=hierarchy)


class BackendGates:
    """Gates and registers of a back end, with its signals by their names."""

    def __init__(self, module: NetlistModule) -> None:
        self._module = module
        self.gates = ClockedGates(module)
        self.inputs: Mapping[str, Sequence[int]] = {name: wire.nets for name, wire in module.inputs.items()}

    def registers(self, beginnings: Iterable[str]) -> list[int]:
        """Nets of registers whose names begin so."""
        found: dict[int, None] = {}
        for name, wire in self._module.outputs.items():
            if name.startswith(tuple(beginnings)):
                found |= dict.fromkeys(net for net in wire.nets if net in self.gates.registers)
        return list(found)

    @cached_property
    def in_ex(self) -> list[int]:
        """Registers that follow an instruction through EX."""
        return self.registers(_IN_EX)

    @cached_property
    def in_wb(self) -> list[int]:
        """Registers that follow an instruction through WB."""
        return [net for net in self.registers(_IN_WB) if net not in set(self.in_ex)]

    def has(self, name: str) -> bool:
        """Return whether there is a signal of this name."""
        return name in self.gates.ports


def backend_gates(source: Source, yosys: Yosys) -> BackendGates:
    """The back end of a core as gates; raises :class:`ToolError` if Yosys does not make them."""
    with tempfile.TemporaryDirectory(prefix="xpulpnn-backend-") as name:
        folder = Path(name)
        (folder / "design.v").write_text("\n".join(source.modules.values()))
        top = source.hierarchy[source.place]
        script = _SCRIPT.format(top=top, units=" ".join(source.left_out))
        yosys.run(script, folder, what=top, results=["netlist.json"])
        return BackendGates(read_module(folder / "netlist.json", top))


class BackendFrame:
    """A clock cycle of a back end."""

    def __init__(
        self,
        graph: GateGraph,
        backend: BackendGates,
        given: Mapping[str, Sequence[int]],
        state: Mapping[int, int] | None = None,
    ) -> None:
        self._backend = backend
        self.graph = graph
        self._inputs = {name: graph.inputs(len(nets)) for name, nets in backend.inputs.items() if name not in given}
        self._inputs |= {name: list(literals) for name, literals in given.items()}
        self._inputs["rst"] = list(given.get("rst", [FALSE]))
        self._state = dict(state or {})
        self._state |= {net: graph.input() for net in backend.gates.registers if net not in self._state}
        self._cycle = ClockCycle(graph, backend.gates, self._inputs, self._state)

    def word(self, name: str) -> list[int]:
        """Literals of a signal."""
        if not self._backend.has(name):
            raise ToolError(f"the back end must have a signal {name}")
        return self._cycle.port(name)

    def where(self, values: Mapping[str, int]) -> tuple["BackendFrame", list[int]]:
        """The cycle in the cases in which signals of one bit have these values, and the literals of these cases."""
        cases = [self.bit(name) ^ value ^ 1 for name, value in values.items()]
        given = self._inputs | {name: [value] for name, value in values.items()}
        return BackendFrame(self.graph, self._backend, given, self._state), cases

    def has(self, name: str) -> bool:
        """Return whether there is a signal of this name."""
        return self._backend.has(name)

    def bit(self, name: str) -> int:
        """Literal of a signal of one bit."""
        return self.word(name)[0]

    def now(self, registers: Iterable[int]) -> list[int]:
        """Literals of registers in this cycle."""
        return [self._state[net] for net in registers]

    def following(self, registers: Iterable[int]) -> dict[int, int]:
        """Literals of registers after this cycle."""
        wanted = list(registers)
        data = self._backend.gates.registers
        return dict(zip(wanted, self._cycle.nets(data[net] for net in wanted), strict=True))

    def register(self, name: str) -> list[int]:
        """Nets of a signal that is a register."""
        return list(self._backend.gates.ports[name])

    def supply(self, results: Mapping[str, Sequence[int]]) -> None:
        """Say what comes out of units left out, in place of the variables it has been."""
        self._inputs |= {name: list(literals) for name, literals in results.items()}
        self._cycle = ClockCycle(self.graph, self._backend.gates, self._inputs, self._state)


def backend_fields(ports: Sequence[Mapping[str, Any]]) -> dict[str, slice]:
    """Bits of each field of a unit's word of control, from its manifest."""
    row = next(row for row in ports if row["name"] == "ctrl")
    return {each["name"]: slice(each["lsb"], each["lsb"] + each["width"]) for each in row["fields"]}
