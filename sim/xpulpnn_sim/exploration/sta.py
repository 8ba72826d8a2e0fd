"""OpenSTA: the longest combinational path of a mapped netlist."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.mapped_netlist import Combinational, MappedNetlist
from xpulpnn_sim.exploration.results import CriticalPath, PathStep
from xpulpnn_sim.tools.netlists import ONE

_TIMEOUT_S = 600.0

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
_STEP = re.compile(r"^\s*(-?[\d.]+)\s+(-?[\d.]+)\s+[v^]\s+(\S+)\s+\((\S+)\)$")
_CELL_PIN = re.compile(r"g(\d+)/(\S+)")


@dataclass(frozen=True, slots=True)
class OpenSta:
    """An installed OpenSTA."""

    program: str
    version: str

    def longest_path(self, netlist: MappedNetlist, library: Library, folder: Path) -> CriticalPath | None:
        """The longest path between inputs, registers and outputs, registers cut as in ABC; None if there is none."""
        part = netlist.combinational()
        if not part.starts or not part.ends:
            return None
        (folder / "timing.v").write_text(_verilog(part))
        liberty = library.path.read_text(encoding="utf-8", errors="replace")
        (folder / _LIBRARY).write_text(_WIRE_LOAD.sub("", liberty), encoding="utf-8")
        driver = library.cells[library.driving_cell]
        (folder / "timing.tcl").write_text(
            _SCRIPT.format(
                library=_LIBRARY,
                report=_REPORT,
                top=_TOP,
                driver=driver.name,
                pin=driver.outputs[0].name,
                load=library.output_load_ff / 1e3,
            )
        )
        report = folder / _REPORT
        report.unlink(missing_ok=True)
        try:
            done = subprocess.run(
                [self.program, "-no_splash", "-no_init", "-exit", "timing.tcl"],
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ToolError(f"opensta must be able to time {netlist.module} in {_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise ToolError(f"opensta must be runnable, not {self.program} ({error.strerror})") from error
        said = done.stdout + done.stderr
        if failed := re.search(r"^(?:Error:|.*, line \d+ Error:?) *(.*)$", said, re.MULTILINE):
            raise ToolError(f"opensta must be able to time {netlist.module}: {failed[1]}")
        if done.returncode or not report.exists():
            raise ToolError(f"opensta must be able to time {netlist.module}: it wrote no report")
        return _path(report.read_text(), part, netlist.names, f"OpenSTA {self.version}")


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


def _path(report: str, part: Combinational, names: Mapping[int, str], tool: str) -> CriticalPath | None:
    """The path in a report; None if it holds none."""
    start = end = ""
    steps: list[PathStep] = []
    arrival = before = 0.0
    for line in report.splitlines():
        found = _STEP.match(line)
        if found is None:
            continue
        arrival, where, what = float(found[2]) * 1e3, found[3], found[4]
        if what == "in":
            start, before = part.starts[int(where[1:])], arrival
        elif what == "out":
            end = part.ends[int(where[1:])][1]
        elif pin := _CELL_PIN.match(where):
            gate = part.gates[int(pin[1])]
            if gate.cell.pins[pin[2]].direction == "output":
                steps.append(
                    PathStep(
                        net=names[gate.pins[pin[2]]],
                        cell=gate.cell.name,
                        delay_ps=round(arrival - before, 2),
                        arrival_ps=round(arrival, 2),
                    )
                )
                before = arrival
    if not end:
        return None
    return CriticalPath(tool=tool, netlist="mapped", start=start, end=end, delay_ps=round(before, 2), steps=steps)


def find_opensta() -> OpenSta | None:
    """The OpenSTA on the path, if there is one that runs."""
    program = shutil.which("sta") or shutil.which("opensta")
    return _installed(program) if program else None


@cache
def _installed(program: str) -> OpenSta | None:
    try:
        done = subprocess.run(
            [program, "-version"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\d+(?:\.\d+)+", done.stdout)
    return OpenSta(program, found[0]) if found else None
