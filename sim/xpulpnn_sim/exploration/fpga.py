"""FPGA flow: Yosys, then nextpnr with several placement seeds, for a component between registers."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Any

from xpulpnn.errors import ToolError, require
from xpulpnn_sim.exploration.library import DESIGN, flow_folder
from xpulpnn_sim.exploration.results import CriticalPath, EmittedDesign, FlowOutput, FlowResult, PathStep
from xpulpnn_sim.tools.netlists import NetlistModule, read_module
from xpulpnn_sim.tools.yosys import command_output, find_yosys

WRAPPER = "registered_wrapper"
INSTANCE = "design"  # instance of the component in the wrapper
INPUTS, OUTPUTS = "source.driven", "sink.sampled"  # registers at the component's ports, in the flat netlist
_PINS = ("clk", "rst")


class Wrapper:
    """Registers at every port of a component, in modules that must not be flattened, or tools would merge them."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        ports = [port for port in manifest["ports"] if port["name"] not in _PINS]
        clocking = [port["name"] for port in manifest["ports"] if port["name"] in _PINS]
        connections = [f".{name}({'clk' if name == 'clk' else 'reset'})" for name in clocking]
        # port bits of the component, such as `rs1[3]`, without clock and reset, in the order of the wrapper's registers
        self.input_bits, self.output_bits = list[str](), list[str]()
        for port in ports:
            name, width = port["name"], port["width"]
            bus, known = ("driven", self.input_bits) if port["direction"] == "input" else ("result", self.output_bits)
            connections.append(f".{name}({bus}[{len(known) + width - 1}:{len(known)}])")
            known += [f"{name}[{bit}]" for bit in range(width)] if width > 1 else [name]
        # without the component
        self.verilog = _TEMPLATE.format(
            inputs=len(self.input_bits),
            outputs=len(self.output_bits),
            wrapper=WRAPPER,
            module=manifest["top"],
            instance=INSTANCE,
            connections=",\n".join(f"        {connection}" for connection in connections),
        )


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

REVISION = "3"  # part of the cache key: raised when results change although no setting does
_TARGET_MHZ = 100
"""Default clock constraint for placement and routing; large components do not reach it, so the tools optimise fully."""

_PS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFamily:
    part: str
    synthesis: str
    options: tuple[str, ...]
    luts: Mapping[str, int]  # look-up tables that each cell type counts as
    dsps: str  # cell type
    brams: str  # cell type
    flip_flops: re.Pattern[str]  # cell types
    capacity: int  # look-up tables of the part
    note: str


DEVICE_FAMILIES: Mapping[str, DeviceFamily] = {
    "ecp5": DeviceFamily(
        part="LFE5U-45F, package CABGA381, speed grade 6",
        synthesis="synth_ecp5",
        options=("--45k", "--package", "CABGA381", "--speed", "6"),
        luts={"LUT4": 1, "CCU2C": 2},
        dsps="MULT18X18D",
        brams="DP16KD",
        flip_flops=re.compile("TRELLIS_FF"),
        capacity=43848,
        note="A carry cell CCU2C counts as two look-up tables.",
    ),
    "ice40": DeviceFamily(
        part="HX8K, package CT256",
        synthesis="synth_ice40",
        options=("--hx8k", "--package", "ct256"),
        luts={"SB_LUT4": 1},
        dsps="SB_MAC16",
        brams="SB_RAM40_4K",
        flip_flops=re.compile("SB_DFF.*"),
        capacity=7680,
        note="The part has no multipliers: they are built from look-up tables and carry cells (SB_CARRY, not counted).",
    ),
}


class FpgaFlow:
    def __init__(self, device: str, seeds: int = 3, *, clock_ns: float | None = None, yosys: str = "") -> None:
        self.name: str = device
        self.script: str = ""
        self.seeds, self.clock_ns, self.yosys = seeds, clock_ns, yosys
        self._family = DEVICE_FAMILIES[device]
        self._target_mhz = _TARGET_MHZ if clock_ns is None else _PS / clock_ns
        self._nextpnr = f"nextpnr-{device}"

    def tools(self) -> dict[str, str]:
        return {"yosys": find_yosys(self.yosys).tools["yosys"], self._nextpnr: _find(self._nextpnr)[1]}

    def settings(self) -> Mapping[str, str]:
        family = self._family
        return {
            **self.tools(),
            "synthesis": family.synthesis,
            "options": " ".join(family.options),
            "seeds": str(self.seeds),
            "target_mhz": f"{self._target_mhz:g}",
            "revision": REVISION,
        }

    def run(self, design: EmittedDesign) -> FlowOutput:
        started, tools, wrapper = time.monotonic(), self.tools(), Wrapper(design.manifest)
        files: dict[str, str] = {}
        with flow_folder(files) as folder:
            inside, netlist = self._synthesise(design, wrapper, folder)
            kinds = Counter(cell.type for cell in netlist.cells)
            own = Counter(cell.type for cell in inside.cells if cell.type in kinds)
            (luts, flip_flops), around = self._sizes(own), self._sizes(kinds - own)
            if luts + around[0] > self._family.capacity:
                raise ToolError(
                    f"{design.top} must fit the {self._family.part} with {self._family.capacity} look-up tables, "
                    f"not need {luts + around[0]}"
                )
            names = _Names(netlist, wrapper)
            placed = [self._place(folder, seed, names) for seed in range(1, self.seeds + 1)]
        # the tables show the median clock, so the path is that of its placement
        _, path = sorted(placed, key=lambda placement: placement[0])[(len(placed) - 1) // 2]
        result = FlowResult(
            flow=self.name,
            tools=tools,
            conditions=self._conditions(wrapper, kinds, *around),
            cells=kinds.total() - sum(around),
            luts=luts,
            flip_flops=flip_flops,
            dsps=kinds[self._family.dsps],
            brams=kinds[self._family.brams],
            fmax_mhz=[clock for clock, _ in placed],
            delay_ps=path.delay_ps,
            clock_ps=None if self.clock_ns is None else self.clock_ns * _PS,
            path=path,
            wall_s=time.monotonic() - started,
        )
        return FlowOutput(result=result, files=files)

    def _conditions(self, wrapper: Wrapper, counted: Mapping[str, int], luts: int, flip_flops: int) -> list[str]:
        family, inputs, outputs = self._family, len(wrapper.input_bits), len(wrapper.output_bits)
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(counted.items()))
        clock = f"Clock after routing for {self._target_mhz:g} MHz, placement seeds 1 to {self.seeds}"
        return [
            f"Part: {family.part}.",
            (
                f"Every port of the component is registered: a shift register drives its {inputs} inputs, its "
                f"{outputs} outputs are sampled and folded into one pin by a pipelined chain of XOR gates, so that "
                "four pins suffice and no logic is unused."
            ),
            f"Its {flip_flops} registers and {luts} look-up tables are subtracted from the figures.",
            f"Cells with the wrapper, after synthesis: {kinds}. {family.note}",
            (
                f"{clock}: the median, of two in the middle the lower one; path and delay are those of that placement, "
                "with clock-to-output and setup times."
            ),
        ]

    def _sizes(self, kinds: Counter[str]) -> tuple[int, int]:
        luts = sum(kinds[kind] * weight for kind, weight in self._family.luts.items())
        return luts, sum(number for kind, number in kinds.items() if self._family.flip_flops.fullmatch(kind))

    def _synthesise(self, design: EmittedDesign, wrapper: Wrapper, folder: Path) -> tuple[NetlistModule, NetlistModule]:
        (folder / DESIGN).write_text(design.verilog)
        (folder / "wrapper.v").write_text(wrapper.verilog)
        script = (
            f"read_verilog {DESIGN} wrapper.v\n{self._family.synthesis} -top {WRAPPER}\n"
            "write_json inside.json\nsetattr -mod -unset keep_hierarchy *\nflatten\n"
            "delete */t:$scopeinfo\nclean\nwrite_json netlist.json\n"
            "write_verilog -noattr mapped.v\n"
        )
        find_yosys(self.yosys).run(script, folder, what=design.top, results=["netlist.json", "mapped.v"])
        return read_module(folder / "inside.json", WRAPPER), read_module(folder / "netlist.json", WRAPPER)

    def _place(self, folder: Path, seed: int, names: "_Names") -> tuple[float, CriticalPath]:
        report = f"report{seed}.json"
        options = ["--json", "netlist.json", "--report", report, "--seed", str(seed), "--freq", f"{self._target_mhz:g}"]
        options = [*self._family.options, *options, "--timing-allow-fail"]
        command, version = _find(self._nextpnr)
        done = subprocess.run([*command, *options], cwd=folder, capture_output=True, errors="replace", check=False)
        shown = shlex.join([self._nextpnr, *options])
        (folder / f"nextpnr{seed}.log").write_text(f"$ {shown}\n{done.stdout}{done.stderr}")
        if done.returncode or not (folder / report).exists():
            lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if "ERROR" in line]
            raise ToolError(f"{self._nextpnr} must finish, not stop: {lines[0] if lines else 'no message'}")
        figures = json.loads((folder / report).read_text())
        require(figures["fmax"], f"{self._nextpnr} must report the clock frequency, not none", ToolError)
        tool = f"{self._nextpnr} {version}, seed {seed}"
        routed = next(path for path in figures["critical_paths"] if path["from"] == path["to"])
        clock = min(clock["achieved"] for clock in figures["fmax"].values())
        return round(clock, 2), names.path(routed["path"], tool)


class _Names:
    def __init__(self, module: NetlistModule, wrapper: Wrapper) -> None:
        self._cells = {cell.name: cell for cell in module.cells}
        self._ports = dict(zip(module.wires[INPUTS].nets, wrapper.input_bits, strict=True))
        self._ports |= zip(module.wires[OUTPUTS].nets, wrapper.output_bits, strict=True)
        wires = sorted(module.wires.values(), key=lambda wire: len(wire.name), reverse=True)
        self._nets = {name: net for wire in wires for name, net in wire.bits}
        self._names = {net: name for name, net in self._nets.items()}
        # of each net at the data input of a flip-flop, its output
        registers = [cell.pins for cell in module.cells if "Q" in cell.pins]
        self._register_of = {pins.get("DI", pins.get("D", pins["Q"]))[0]: pins["Q"][0] for pins in registers}

    def path(self, routed: list[dict[str, Any]], tool: str) -> CriticalPath:
        """Return a path with a step for each cell and the net that follows it; the total includes the setup time."""
        steps: list[PathStep] = []
        arrival = pending = 0.0
        for part in routed:
            arrival += part["delay"] * _PS
            pending += part["delay"] * _PS
            if part["type"] == "routing":
                name = part["from"]["cell"]
                cell = self._cells[name].type if name in self._cells else name
                net = self._readable(part["net"])
                times = {"delay_ps": round(pending, 1), "arrival_ps": round(arrival, 1)}
                steps.append(PathStep(net=net, cell=cell, instance=net.rpartition(".")[0], **times))
                pending = 0.0
        return CriticalPath(
            tool=tool,
            netlist="routed",
            start=steps[0].net if steps else "",
            end=self._end(routed[-1]["to"]["cell"]),
            delay_ps=round(arrival, 1),
            steps=steps,
        )

    def _readable(self, name: str) -> str:
        net = self._nets.get(name)
        return name if net is None else self._ports.get(net, name).removeprefix(f"{INSTANCE}.")

    def _end(self, name: str) -> str:
        """Return the register in the placed cell ``name``, which may also contain the gate at the register's input."""
        cell = self._cells.get(name) or self._cells.get(name.rsplit("_", 1)[0])
        if cell is None:
            return name
        registers = cell.pins.get("Q") or [self._register_of[net] for net in cell.driven if net in self._register_of]
        return self._readable(self._names[registers[0]]) if registers else name


def _find(program: str) -> tuple[list[str], str]:
    """Return command and version of ``program``: the native program if installed, else the one from the wheel."""
    if native := shutil.which(program):
        number = re.search(r"\d+(\.\d+)+", command_output([native, "--version"]))
        return [native], number[0] if number else "unknown"
    wheel = f"yowasp-{program}"
    if util.find_spec(wheel.replace("-", "_")) is None:
        raise ToolError(f"{program} must be installed for this flow: pip install {wheel}")
    entry = next(point for point in metadata.distribution(wheel).entry_points if point.name == wheel)
    call = f"import sys; from {entry.module} import {entry.attr} as run; sys.exit(run())"
    return [sys.executable, "-c", call], f"{metadata.version(wheel)} (wheel)"
