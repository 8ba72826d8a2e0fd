"""OpenSTA: the delay of the longest combinational path of a mapped netlist, beside that of the explorer's timer."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.mapped_netlist import Combinational, MappedNetlist
from xpulpnn_sim.tools.netlists import ONE

_TIMEOUT_S = 600.0
_QUIET: Mapping[str, Any] = {
    "capture_output": True,
    "text": True,
    "errors": "replace",
    "stdin": subprocess.DEVNULL,
    "check": False,
}

_TOP = "combinational"
_LIBRARY = "timing.lib"
# A library may name wire loads to be used unless told otherwise; the flow has none.
_WIRE_LOAD = re.compile(r"^\s*default_wire_load(?:_selection)?\s*:.*$", re.MULTILINE)
_REPORT = "timing.rpt"
# The period is near the delays: slacks are single-precision floats, which lose picoseconds in a much longer one.
_SCRIPT = """\
read_liberty {library}
set_cmd_units -time ns -capacitance pF
read_verilog timing.v
link_design {top}
create_clock -name longest -period 10
set_input_delay 0 -clock longest [all_inputs]
set_output_delay 0 -clock longest [all_outputs]
set_driving_cell -lib_cell {driver} -pin {pin} [all_inputs]
set_load {load} [all_outputs]
report_checks -path_delay max -format full -digits 6 > {report}
"""
_ARRIVAL = re.compile(r"^\s*-?[\d.]+\s+(-?[\d.]+)\s+[v^]\s+o\d+\s+\(out\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OpenSta:
    """An installed OpenSTA."""

    program: str
    version: str

    @property
    def tool(self) -> str:
        """Name and version."""
        return f"OpenSTA {self.version}"

    def delay_ps(self, netlist: MappedNetlist, library: Library, folder: Path) -> float | None:
        """The longest path between inputs, registers and outputs, registers cut as in ABC; None if there is none."""
        part = netlist.combinational()
        if not part.starts or not part.ends:
            return None
        (folder / "timing.v").write_text(_verilog(part))
        liberty = library.path.read_text(encoding="utf-8", errors="replace")
        (folder / _LIBRARY).write_text(_WIRE_LOAD.sub("", liberty), encoding="utf-8")
        driver = library.cells[library.driving_cell]
        pin, load = driver.outputs[0].name, library.output_load_ff / 1e3
        script = _SCRIPT.format(library=_LIBRARY, report=_REPORT, top=_TOP, driver=driver.name, pin=pin, load=load)
        (folder / "timing.tcl").write_text(script)
        report = folder / _REPORT
        report.unlink(missing_ok=True)
        try:
            command = [self.program, "-no_splash", "-no_init", "-exit", "timing.tcl"]
            done = subprocess.run(command, cwd=folder, timeout=_TIMEOUT_S, **_QUIET)
        except subprocess.TimeoutExpired as error:
            raise ToolError(f"opensta must be able to time {netlist.module} in {_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise ToolError(f"opensta must be runnable, not {self.program} ({error.strerror})") from error
        said = done.stdout + done.stderr
        if failed := re.search(r"^(?:Error:|.*, line \d+ Error:?) *(.*)$", said, re.MULTILINE):
            raise ToolError(f"opensta must be able to time {netlist.module}: {failed[1]}")
        if done.returncode or not report.exists():
            raise ToolError(f"opensta must be able to time {netlist.module}: it wrote no report")
        arrival = _ARRIVAL.search(report.read_text())
        return round(float(arrival[1]) * 1e3, 2) if arrival else None


def _verilog(part: Combinational) -> str:
    """The source for OpenSTA: inputs ``i<net>``, outputs ``o<number>``, gates ``g<number>``."""

    def name(net: int) -> str:
        if net <= ONE:
            return "1'b1" if net == ONE else "1'b0"
        return f"i{net}" if net in part.starts else f"n{net}"

    ports = [f"i{net}" for net in part.starts] + [f"o{number}" for number in range(len(part.ends))]
    lines = [f"module {_TOP} ({', '.join(ports)});"]
    lines += [f"  input i{net};" for net in part.starts]
    lines += [f"  output o{number};" for number in range(len(part.ends))]
    for number, gate in enumerate(part.gates):
        pins = ", ".join(f".{pin}({name(net)})" for pin, net in gate.pins.items())
        lines.append(f"  {gate.cell.name} g{number} ({pins});")
    lines += [f"  assign o{number} = {name(net)};" for number, (net, _) in enumerate(part.ends)]
    return "\n".join([*lines, "endmodule", ""])


def find_opensta() -> OpenSta | None:
    """The OpenSTA on the path, if there is one that runs."""
    program = shutil.which("sta") or shutil.which("opensta")
    return _installed(program) if program else None


@cache
def _installed(program: str) -> OpenSta | None:
    try:
        done = subprocess.run([program, "-version"], timeout=60, **_QUIET)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\d+(?:\.\d+)+", done.stdout)
    return OpenSta(program, found[0]) if found else None
