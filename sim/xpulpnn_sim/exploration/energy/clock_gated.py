"""Mapped netlists whose registers stand behind clock gates, for energies."""

import json
from collections.abc import Iterator
from pathlib import Path

from xpulpnn.user_cache import cache_directory, counts, store
from xpulpnn_sim.exploration.flow_files import flow_folder
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.mapped_netlist import GATED
from xpulpnn_sim.exploration.mapping import DESIGN, LIBRARY, abc_commands, map_gates, read_verilog, write_inputs
from xpulpnn_sim.exploration.results import EmittedDesign
from xpulpnn_sim.tools.results import digest
from xpulpnn_sim.tools.yosys import find_yosys

REVISION = "3"  # part of the name in the cache: raised when the netlists change without any setting changing

METHOD = "mapped module by module for area, registers with an enable behind clock gates"
"""Difference from the netlists that areas and delays are told of."""

_DFF = "xpulpnn_gated_dff"
_REGISTERS = ("$_DFF_P_", GATED, "$_SDFF_PP?_", "$_SDFFE_PP?P_", "$_SDFFCE_PP?P_")
_GATED = 3  # registers that share an enable, at least, before they get a clock gate

_GATED_BOX = f"(* blackbox *) module {_DFF}(input C, input D, input E, output Q); endmodule\n"
_COMMANDS = "modules.abc"


def clock_gated_netlist(design: EmittedDesign, library: Library, yosys: str = "") -> Path:
    """File with the netlist mapped module by module and flattened after that, as ``write_json`` of Yosys writes it.

    Names of cells and nets keep the instance path, as in ``$flatten\\dotp.\\array.$abc$1`` and ``dotp.array.sum``. The
    registers with an enable that clock gates pay for stay cells of the type :data:`GATED` (pins C, D, E, Q), to be seen
    as D flip-flops behind a clock gate. The file stays in the cache.
    """
    tools = find_yosys(yosys)
    lines = [
        *read_verilog(design.module),
        f"synth -noabc -top {design.module}",
        f"dfflegalize -mince {_GATED} " + " ".join(f"-cell {kind} 01" for kind in _REGISTERS),
        "read_verilog -lib gated_box.v",
        "techmap -map gated.v",
        "simplemap",
        # one enable for all registers that share it, so that they share a clock gate
        "opt_merge",
        "opt_clean",
        f"dfflibmap -liberty {LIBRARY}",
        map_gates(_COMMANDS),
        "opt_clean",
        "flatten",
        f"chtype -set {GATED} t:{_DFF}",
        f"delete ={_DFF}",
        "write_json mapped.json",
        "write_verilog -noattr mapped.v",
    ]
    surroundings = [library.sha256, library.driving_cell, library.output_load_ff]
    commands = [abc_commands("area"), lines, list(_gated_registers())]
    key = digest(REVISION, tools.tools, surroundings, commands, design.module, design.code)
    entry = cache_directory() / "netlists" / f"{design.top}-{key}.json"
    kept = _files_of(entry)
    if counts(entry) and counts(kept):
        return entry
    files: dict[str, str] = {}
    with flow_folder(files) as folder:
        write_inputs(folder, library, {_COMMANDS: abc_commands("area")}, tools)
        (folder / DESIGN).write_text(design.verilog)
        (folder / "gated.v").write_text("".join(_gated_registers()))
        (folder / "gated_box.v").write_text(_GATED_BOX)
        tools.run("\n".join(lines), folder, what=design.module, results=["mapped.json", "mapped.v"])
        found = (folder / "mapped.json").read_text()
        # the point has the source
        (folder / DESIGN).unlink()
    store(kept, json.dumps(files))
    store(entry, found)
    return entry


def netlist_files(netlist: Path) -> dict[str, str]:
    """Scripts, logs and Verilog of a netlist that :func:`clock_gated_netlist` made: text by name."""
    return json.loads(_files_of(netlist).read_text())


def _files_of(netlist: Path) -> Path:
    return netlist.with_name(f"{netlist.stem}.files.json")


def _gated_registers() -> Iterator[str]:
    """Maps every register with an enable to the gated one; a synchronous reset becomes logic that also enables it."""
    yield _register(GATED, "E", "D", "E")
    for value, reset in (("0", "D & ~R"), ("1", "D | R")):
        yield _register(f"$_SDFFE_PP{value}P_", "R, E", reset, "E | R")
        yield _register(f"$_SDFFCE_PP{value}P_", "R, E", reset, "E")
        yield _register(f"$_SDFF_PP{value}_", "R", reset, "")


def _register(kind: str, controls: str, data: str, enable: str) -> str:
    inside, pin = (_DFF, f", .E({enable})") if enable else ("\\$_DFF_P_ ", "")
    return (
        f'(* techmap_celltype = "{kind}" *)\nmodule map_{kind.strip("$_")}(input C, D, {controls}, output Q);\n'
        f"  {inside} _TECHMAP_REPLACE_ (.C(C), .D({data}){pin}, .Q(Q));\nendmodule\n"
    )
