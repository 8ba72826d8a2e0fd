"""Gate-level simulation: an interpreter of the netlist in the place of the top module of the compiled model.

The library does not depend on the netlist but on its ports, so that it is compiled once for all configurations alike.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.retirement import WIDTHS
from xpulpnn_sim.cosimulation.model.build import build_model
from xpulpnn_sim.cosimulation.model.libraries import backend_rig, core_rig
from xpulpnn_sim.exploration.energy.circuit import CLOCK, Circuit, expression

_SOURCE = Path(__file__).with_name("gate_model.cpp")
_RETIREMENT = {
    "core": {"valid": "1'b1", "insn": "32'h13", "pc_rdata": "boot_addr", "pc_wdata": "boot_addr + 4"},
    "backend": {"valid": "insn__valid & insn__ready", "insn": "insn__payload__word", "pc_rdata": "insn__payload__pc"},
}
"""Retirement that a netlist without a retirement port pretends: the core a no-operation at its first address in every
cycle, the back end what it accepts."""

_RIGS = {"core": ("rvfi_", core_rig), "backend": ("rvfi__", backend_rig)}
"""Prefix of the retirement port and ports of each top."""


class _LoadedNetlist(ctypes.Structure):
    """The netlist for ``gate_model.cpp``."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("nets", "gates", "registers", "inputs", "outputs")] + [
        (name, ctypes.c_void_p)
        for name in (
            *("tables", "pins_at", "pins", "driven", "fanout_at", "fanout", "data", "enable"),
            *("state_at", "states", "input_nets", "output_nets"),
        )
    ]


class GateModel:
    """A circuit ready to run in the compiled model."""

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        _, rig = _RIGS[circuit.top]
        self.library = build_model(
            rig(gate_module(circuit), _manifest(circuit)), added={_SOURCE.name: _SOURCE.read_text()}
        )
        self._loaded = ctypes.CDLL(str(self.library))
        self._loaded.gate_cycles.restype = ctypes.c_uint64
        self._arrays = _arrays(circuit)
        self._netlist = _LoadedNetlist(
            nets=circuit.net_count,
            gates=len(circuit.gates),
            registers=len(circuit.registers),
            inputs=len(circuit.sources),
            outputs=len(_output_nets(circuit)),
            **{name: array.ctypes.data for name, array in self._arrays.items()},
        )

    def count(self, run: Callable[[Path], object]) -> int:
        """Clock cycles of a run, which is given the library."""
        self._load(np.zeros(0, np.uint64), 0, np.zeros(0, np.uint8))
        run(self.library)
        return int(self._loaded.gate_cycles())

    def watch(self, run: Callable[[Path], object], starts: Sequence[int], cycles: int) -> NDArray[np.uint8]:
        """Bits [cycle, source or register] in ``cycles`` cycles of a run from each of ``starts`` on."""
        begins = np.array(starts, np.uint64)
        rows = np.zeros((len(begins) * cycles, len(self.circuit.sources) + len(self.circuit.registers)), np.uint8)
        self._load(begins, cycles, rows)
        run(self.library)
        return rows

    def _load(self, starts: NDArray[np.uint64], cycles: int, rows: NDArray[np.uint8]) -> None:
        self._loaded.gate_load(
            ctypes.byref(self._netlist),
            ctypes.c_void_p(starts.ctypes.data),
            ctypes.c_uint64(len(starts)),
            ctypes.c_uint64(cycles),
            ctypes.c_void_p(rows.ctypes.data),
        )


def _retirement_ports(circuit: Circuit) -> dict[str, str]:
    """Values that stand for the retirement port, by port."""
    prefix, _ = _RIGS[circuit.top]
    return {prefix + name: _RETIREMENT[circuit.top].get(name, "0") for name in WIDTHS}


def _manifest(circuit: Circuit) -> dict[str, Any]:
    """The ports of :func:`gate_module`, as ``emit`` would tell them."""
    ports = [(name, "input", len(nets)) for name, nets in circuit.inputs.items()]
    ports += [(name, "output", len(nets)) for name, nets in circuit.outputs.items()]
    ports += [(name, "output", XLEN) for name in _retirement_ports(circuit)]
    return {
        "top": circuit.top,
        "ports": [dict(zip(("name", "direction", "width"), port, strict=True)) for port in ports],
    }


def gate_module(circuit: Circuit) -> str:
    """SystemVerilog of a module with the ports of the circuit that leaves the logic to ``gate_model.cpp``.

    It pretends to have a retirement port too.
    """
    names = _retirement_ports(circuit)
    lines = [f"module {circuit.top}({', '.join([*circuit.inputs, *circuit.outputs, *names])});"]
    for way, group in (("input", circuit.inputs), ("output", circuit.outputs)):
        lines += [f"  {way} wire [{len(nets) - 1}:0] {name};" for name, nets in group.items()]
    for name, value in names.items():
        lines += [f"  output wire [{XLEN - 1}:0] {name};", f"  assign {name} = {value};"]
    ports = [name for name in circuit.inputs if name != CLOCK]
    inputs, width = len(circuit.sources), len(_output_nets(circuit))
    lines += [
        f'  import "DPI-C" function void gate_settle(input bit [{inputs - 1}:0] in, output bit [{width - 1}:0] out);',
        '  import "DPI-C" function void gate_clock();',
        "  reg edges = 0;",
        f"  reg [{width - 1}:0] settled;",
        "  // the state is part of what the outputs depend on; edges stands for it",
        "  always_comb begin",
        "    settled = 0;",
        f"    if (edges | 1) gate_settle({{{', '.join(reversed(ports))}}}, settled);",
        "  end",
        f"  always @(posedge {CLOCK}) begin",
        "    gate_clock();",
        "    edges <= ~edges;",
        "  end",
        f"  assign {{{', '.join(reversed(list(circuit.outputs)))}}} = settled;",
        "endmodule",
    ]
    return "\n".join(lines) + "\n"


def _output_nets(circuit: Circuit) -> list[int]:
    return [net for nets in circuit.outputs.values() for net in nets]


def _arrays(circuit: Circuit) -> Mapping[str, NDArray[Any]]:
    """The arrays of the netlist by name."""
    tables = [_truth_table(gate.cell.pins[gate.pin].function, tuple(gate.inputs)) for gate in circuit.gates]
    users: list[list[int]] = [[] for _ in range(circuit.net_count)]
    for number, gate in enumerate(circuit.gates):
        for net in set(gate.inputs.values()):
            users[net].append(number)
    pins_at, pins = _lists([list(gate.inputs.values()) for gate in circuit.gates])
    fanout_at, fanout = _lists(users)
    state_at, states = _lists([[2 * net + inverse for _, net, inverse in item.outputs] for item in circuit.registers])
    return {
        "tables": np.array(tables, np.uint64),
        "pins_at": pins_at,
        "pins": pins,
        "driven": np.array([gate.output for gate in circuit.gates], np.uint32),
        "fanout_at": fanout_at,
        "fanout": fanout,
        "data": np.array([item.data for item in circuit.registers], np.uint32),
        "enable": np.array([item.enable for item in circuit.registers], np.uint32),
        "state_at": state_at,
        "states": states,
        "input_nets": np.array(circuit.sources, np.uint32),
        "output_nets": np.array(_output_nets(circuit), np.uint32),
    }


@cache
def _truth_table(function: str, inputs: tuple[str, ...]) -> int:
    return expression(function).truth_table(inputs)


def _lists(lists: Sequence[Sequence[int]]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Lists as (starts, elements)."""
    starts = np.cumsum([0, *map(len, lists)]).astype(np.uint32)
    return starts, np.array([item for items in lists for item in items], np.uint32)
