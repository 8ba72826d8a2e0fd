"""ASIC flow: Yosys and ABC on a Liberty file, as in the reference flow of the project's figures.

A design is mapped twice. Flattened, it gives area, cells and delay. Module by module, it gives the area of every
instance and the longest path by the names of the emitted Verilog.
"""

import re
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from xpulpnn.errors import InputError, ToolError
from xpulpnn_sim.explorer.cache import content_key
from xpulpnn_sim.explorer.library import Library
from xpulpnn_sim.explorer.mapped_netlist import GATED, MappedNetlist, read_mapped
from xpulpnn_sim.explorer.results import CriticalPath, EmittedDesign, FlowResult, ModuleArea
from xpulpnn_sim.explorer.sta import find_opensta
from xpulpnn_sim.explorer.timing import longest_path
from xpulpnn_sim.files import write_text
from xpulpnn_sim.harness.build import cache_directory
from xpulpnn_sim.yosys import Yosys, find_yosys

REVISION = "2"
"""Part of the settings: raised when this flow's results change without any setting changing."""

_PREPARE = "strash; &get -n; &fraig -x; &put; scorr; dc2"
_DEEP = "balance; rewrite; refactor; balance; rewrite; rewrite -z; balance; refactor -z; rewrite -z; balance"
_BUFFER = "topo; buffer -N 16 -S 400"
ABC_SCRIPTS: Mapping[str, str] = {
    "area": f"{_PREPARE}; dch -f; map -B 0.9; {_BUFFER}; upsize; dnsize; stime -p -d",
    "speed": f"{_PREPARE}; {_DEEP}; if -g -K 6; strash; dch -f; map -B 0.9 -D 1000; {_BUFFER}; "
    "upsize; dnsize; upsize; dnsize; stime -p -d",
}
"""ABC commands. ``stime -d`` writes the delay, in whole ps, to :data:`_STATISTICS`: the wheel loses what ABC prints."""

_STATISTICS = "stats.txt"
_NATIVE_ALIAS = "alias stat print_stats"

_DFF = "xpulpnn_gated_dff"
_REGISTERS = ("$_DFF_P_", GATED, "$_SDFF_PP?_", "$_SDFFE_PP?P_", "$_SDFFCE_PP?P_")
_GATED = 3
"""Registers that share an enable, at least, before they get a clock gate."""

_GATED_BOX = f"(* blackbox *) module {_DFF}(input C, input D, input E, output Q); endmodule\n"


class AsicFlow:
    """The flow on one library with one script.

    Parameters
    ----------
    library : Library
        Cells.
    name : str
        ``asic`` or ``builtin``.
    script : str
        ``area`` or ``speed``: which ABC commands.
    """

    def __init__(self, library: Library, name: str, script: str) -> None:
        if script not in ABC_SCRIPTS:
            raise InputError(f"script must be one of {', '.join(ABC_SCRIPTS)}, not {script}")
        self.library = library
        self.name = name
        self.script = script

    def settings(self) -> dict[str, str]:
        """Versions of the tools, the library's hash and the script."""
        yosys, opensta = find_yosys(), find_opensta()
        return {
            **yosys.tools,
            "opensta": opensta.version if opensta else "none",
            "library": self.library.sha256,
            "driver": self.library.driving_cell,
            "load": f"{self.library.output_load_ff:g}",
            "commands": ABC_SCRIPTS[self.script],
            "revision": REVISION,
        }

    def run(self, design: EmittedDesign) -> FlowResult:
        """Map the design; raises :class:`ToolError` with the tool's own message if that fails."""
        yosys, opensta = find_yosys(), find_opensta()
        started = time.monotonic()
        library = self.library
        with tempfile.TemporaryDirectory(prefix="xpulpnn-flow-") as name:
            folder = Path(name)
            _prepare(folder, design.verilog, library, self.script, yosys)
            script = [
                _read(design.module),
                *_flat(design.module),
                "design -reset",
                _read(design.module),
                *_by_module(design.module),
                "flatten",
                "write_json modules.json",
            ]
            results = ["flat.json", "flat.log", "modules.json"]
            yosys.run("\n".join(script), folder, what=design.module, results=results)
            flat, by_module = (
                read_mapped(folder / name, design.module, library.cells) for name in ("flat.json", "modules.json")
            )
            delay = _delay_ps(folder)
            path = opensta.longest_path(by_module, library, folder) if opensta else None
            path = path or longest_path(by_module, library)
        types = Counter(gate.cell.name for gate in flat.gates)
        area = sum(library.cells[kind].area * count for kind, count in types.items())
        tools = {**yosys.tools, **({"opensta": opensta.version} if opensta else {})}
        return FlowResult(
            flow=self.name,
            script=self.script,
            tools=tools,
            conditions=self._conditions(path),
            area_um2=round(area, 4) if library.physical else None,
            area_kge=area / library.ge_area / 1e3,
            cells=sum(types.values()),
            flip_flops=sum(count for kind, count in types.items() if library.cells[kind].flip_flop),
            delay_ps=delay,
            delay_fo4=delay / library.fo4_ps if delay is not None else None,
            path=path,
            modules=module_areas(by_module, design, library),
            wall_s=round(time.monotonic() - started, 2),
        )

    def _conditions(self, path: CriticalPath | None) -> list[str]:
        library, commands = self.library, ABC_SCRIPTS[self.script].removesuffix(" -d")
        volt, celsius = library.liberty.voltage, library.liberty.temperature
        corner = (
            f"Library {library.name} at {volt:g} V and {celsius:g} degrees Celsius, one corner; "
            f"1 GE is {library.nand2}, 1 FO4 is {library.fo4_ps:g} ps ({library.fo4_inverter})."
        )
        surroundings = (
            f"Inputs and register outputs driven by {library.driving_cell}, outputs and register inputs loaded with "
            f"{library.output_load_ff:g} fF; no wire load, no placement, no clock tree, no scan chain."
        )
        delay = (
            "The delay is the longest combinational path by ABC's estimate, from input or register to output or "
            "register, without clock-to-output and setup times."
        )
        noise = (
            "The order of cells and nets alone moves ABC's area by up to 6 % and its delay by up to 3 % (four "
            "orders of the multiplier): smaller differences between two results mean little."
        )
        areas = "Areas by instance come from a second mapping, module by module: their sum differs from the flat total."
        lines = [corner, f"Flattened; ABC script {self.script}: {commands}.", surroundings, delay, noise, areas]
        if path is not None:
            lines.append(
                f"The path shown is that of the netlist mapped module by module, by {path.tool}: its delay is not that "
                "of the result."
            )
        return lines


def mapped_netlist(design: EmittedDesign, library: Library) -> Path:
    """File with the netlist mapped module by module and flattened after that, as ``write_json`` of Yosys writes it.

    Names of cells and nets keep the instance path, as in ``$flatten\\dotp.\\array.$abc$1`` and ``dotp.array.sum``. The
    registers with an enable that clock gates pay for stay cells of the type :data:`GATED` (pins C, D, E, Q), to be seen
    as D flip-flops behind a clock gate. The file stays in the cache.

    Raises
    ------
    ToolError
        If the tools fail or are missing.
    """
    yosys = find_yosys()
    lines = [
        _read(design.module),
        *_by_module(design.module, _GATE_CLOCKS),
        "flatten",
        f"chtype -set {GATED} t:{_DFF}",
        f"delete ={_DFF}",
        "write_json mapped.json",
    ]
    surroundings = [library.sha256, library.driving_cell, library.output_load_ff]
    commands = [ABC_SCRIPTS["area"], lines, list(_gated_registers())]
    key = content_key([REVISION, sorted(yosys.tools.items()), surroundings, commands, design.module, design.verilog])
    entry = cache_directory() / "netlists" / f"{design.top}-{key}.json"
    if entry.exists():
        return entry
    with tempfile.TemporaryDirectory(prefix="xpulpnn-flow-") as name:
        folder = Path(name)
        _prepare(folder, design.verilog, library, "area", yosys)
        yosys.run("\n".join(lines), folder, what=design.module, results=["mapped.json"])
        write_text(entry, (folder / "mapped.json").read_text())
    return entry


def module_areas(netlist: MappedNetlist, design: EmittedDesign, library: Library) -> list[ModuleArea]:
    """Area of every instance, depth first, the top first."""
    top = design.manifest["top"]
    hierarchy: Mapping[str, str] = design.manifest["hierarchy"]
    own: defaultdict[str, float] = defaultdict(float)
    total: defaultdict[str, float] = defaultdict(float)
    cells: Counter[str] = Counter()
    for gate in netlist.gates:
        path = f"{top}.{gate.path}" if gate.path else top
        own[path] += gate.cell.area / library.ge_area
        cells[path] += 1
    if strange := sorted(own.keys() - hierarchy.keys()):
        raise ToolError(f"instances of the netlist must be those of the manifest, not {strange[0]}")
    for path, area in own.items():
        parts = path.split(".")
        for depth in range(1, len(parts) + 1):
            total[".".join(parts[:depth])] += area
    return [
        ModuleArea(
            path=path, module=module, own_ge=round(own[path], 3), total_ge=round(total[path], 3), own_cells=cells[path]
        )
        for path, module in sorted(hierarchy.items(), key=lambda item: item[0].split("."))
    ]


def _prepare(folder: Path, verilog: str, library: Library, script: str, yosys: Yosys) -> None:
    """Write the inputs of the scripts."""
    (folder / "design.v").write_text(verilog)
    try:
        (folder / "library.lib").write_bytes(library.path.read_bytes())
    except OSError as error:
        raise ToolError(f"--liberty must be readable, not {library.path} ({error.strerror})") from error
    commands = ABC_SCRIPTS[script].replace("; ", "\n")
    (folder / "flat.abc").write_text((f"{_NATIVE_ALIAS}\n" if yosys.native else "") + commands + "\n")
    # Each mapping counts; the statistics file tells of the flat one only.
    (folder / "modules.abc").write_text((folder / "flat.abc").read_text().replace("stime -p -d\n", ""))
    constraints = f"set_driving_cell {library.driving_cell}\nset_load {library.output_load_ff:g} [all_outputs]\n"
    (folder / "library.constr").write_text(constraints)
    (folder / "gated.v").write_text("".join(_gated_registers()))
    (folder / "gated_box.v").write_text(_GATED_BOX)


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


def _read(module: str) -> str:
    return f"read_verilog design.v\nhierarchy -check -top {module}"


def _abc(script: str) -> str:
    return f"abc -liberty library.lib -constr library.constr -script {script}"


def _flat(module: str) -> Sequence[str]:
    return [
        f"synth -noabc -flatten -top {module}",
        "dfflibmap -liberty library.lib",
        f"tee -o flat.log {_abc('flat.abc')}",
        "opt_clean",
        "write_json flat.json",
    ]


_GATE_CLOCKS = (
    f"dfflegalize -mince {_GATED} " + " ".join(f"-cell {kind} 01" for kind in _REGISTERS),
    "read_verilog -lib gated_box.v",
    "techmap -map gated.v",
    "simplemap",
    # one enable for all registers that share it, so that they share a clock gate
    "opt_merge",
    "opt_clean",
)


def _by_module(module: str, prepared: Sequence[str] = ()) -> Sequence[str]:
    return [
        f"synth -noabc -top {module}",
        *prepared,
        "dfflibmap -liberty library.lib",
        _abc("modules.abc"),
        "opt_clean",
    ]


def _delay_ps(folder: Path) -> float | None:
    """Delay that ABC printed, or wrote to its statistics in whole ps; None for a design without gates."""
    printed = re.findall(r"Delay = *([\d.]+) ps", (folder / "flat.log").read_text(errors="replace"))
    if printed:
        return float(printed[-1])
    try:
        return float((folder / _STATISTICS).read_text().split()[-1])
    except (OSError, ValueError, IndexError):
        return None
