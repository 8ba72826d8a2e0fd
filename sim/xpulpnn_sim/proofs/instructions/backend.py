"""The back end of an emitted core as gates, with every signal at hand and some units left out.

The units left out have proofs of their own; what goes in and comes out of them is seen here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn_sim.proofs.engine.elaborate import ClockCycle, gates_between
from xpulpnn_sim.proofs.engine.gate_graph import FALSE, GateGraph
from xpulpnn_sim.tools.yosys import Yosys

LEFT_OUT = ("ex_stage.mult", "ex_stage.div", "ex_stage.dotp", "ex_stage.quantiser", "id_stage.regfile")
"""Units whose gates are not there, by their place in the back end."""

_IN_EX = ("id_stage.id_ex__", "rvfi_tap.ex_", "rvfi_tap.wb_valid_value")
_IN_WB = ("wb_stage.", "rvfi_tap.wb_", "lsu.wb_")
"""Beginnings of the names of the registers that follow an instruction through EX, and through WB."""


class BackendGates:
    """Gates and registers of a back end, with its signals by their names."""

    def __init__(self, verilog: str, manifest: Mapping[str, Any], yosys: Yosys) -> None:
        hierarchy = manifest["hierarchy"]
        core = next(iter(hierarchy))
        places = {unit: f"{core}.backend.{unit}" for unit in LEFT_OUT}
        left_out = {unit: hierarchy[place] for unit, place in places.items() if place in hierarchy}
        self.gates = gates_between(verilog, hierarchy[f"{core}.backend"], [*left_out.values()], yosys)
        self.in_ex = self._registers(_IN_EX)
        self.in_wb = [net for net in self._registers(_IN_WB) if net not in set(self.in_ex)]
        #: Nets of the ports of units left out, and of the fields of their words of control, by their names.
        self.pins = {unit: self._pins(unit, manifest["modules"][name]["ports"]) for unit, name in left_out.items()}

    def _pins(self, unit: str, ports: Sequence[Mapping[str, Any]]) -> Mapping[str, Sequence[int]]:
        found = {port["name"]: self.gates.ports[f"{unit}.{port['name']}"] for port in ports}
        fields = (field for port in ports if port["name"] == "ctrl" for field in port["fields"])
        return found | {each["name"]: found["ctrl"][each["lsb"] :][: each["width"]] for each in fields}

    def _registers(self, beginnings: tuple[str, ...]) -> list[int]:
        """Nets of registers whose names begin so."""
        names = (name for name in self.gates.ports if name.startswith(beginnings))
        nets = dict.fromkeys(net for name in names for net in self.gates.ports[name])
        return [net for net in nets if net in self.gates.registers]

    def has(self, name: str) -> bool:
        """Return whether there is a signal of this name."""
        return name in self.gates.ports


class BackendFrame(ClockCycle):
    """A clock cycle of a back end."""

    def __init__(
        self,
        graph: GateGraph,
        backend: BackendGates,
        given: Mapping[str, Sequence[int]],
        state: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__(graph, backend.gates, {"rst": [FALSE], **given}, state or {})
        self._backend, self._given = backend, given
        self.graph = graph

    def word(self, name: str) -> list[int]:
        """Literals of a signal."""
        if not self._backend.has(name):
            raise ToolError(f"the back end must have a signal {name}")
        return self.port(name)

    def pins(self, unit: str) -> dict[str, list[int]]:
        """Literals of the ports of a unit left out, and of the fields of its word of control."""
        return {name: self.nets(nets) for name, nets in self._backend.pins[unit].items()}

    def bit(self, name: str) -> int:
        """Literal of a signal of one bit."""
        return self.word(name)[0]

    def changed(self, given: Mapping[str, Sequence[int]]) -> "BackendFrame":
        """The same cycle with other literals of some signals."""
        return BackendFrame(self.graph, self._backend, {**self._given, **given}, self.variables())

    def where(self, values: Mapping[str, int]) -> tuple["BackendFrame", list[int]]:
        """The cycle in the cases in which signals of one bit have these values, and the literals of these cases."""
        cases = [self.bit(name) ^ value ^ 1 for name, value in values.items()]
        return self.changed({name: [value] for name, value in values.items()}), cases

    def following(self, registers: Iterable[int]) -> dict[int, int]:
        """Literals of registers after this cycle."""
        wanted = list(registers)
        data = self._backend.gates.registers
        return dict(zip(wanted, self.nets(data[net] for net in wanted), strict=True))

    def register(self, name: str) -> list[int]:
        """Nets of a signal that is a register."""
        return list(self._backend.gates.ports[name])
