"""Map a flattened design with Yosys and ABC onto a Liberty library, and read all results from that one netlist."""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import accumulate, product
from random import Random
from statistics import median_low
from typing import Any

from xpulpnn.errors import ToolError
from xpulpnn_sim.exploration import liberty, mapped_netlist
from xpulpnn_sim.exploration.clock_tree import FANOUT
from xpulpnn_sim.exploration.library import (
    BY_LIBRARY,
    DESIGN,
    LIBRARY,
    NO_WIRES,
    Library,
    abc_commands,
    delay_ps,
    flow_folder,
    map_gates,
    read_verilog,
    write_inputs,
)
from xpulpnn_sim.exploration.mapped_netlist import (
    SHARED,
    VECTORS,
    MappedNetlist,
    mapped_module,
    packed_netlist,
    with_origins,
)
from xpulpnn_sim.exploration.placement import module_tiles
from xpulpnn_sim.exploration.placement_result import PlacementResult
from xpulpnn_sim.exploration.results import (
    CriticalPath,
    EmittedDesign,
    FlowOutput,
    FlowResult,
    FlowRun,
    ModuleArea,
)
from xpulpnn_sim.exploration.sizing import SizedNetlist, place_and_size
from xpulpnn_sim.exploration.timing import at_corner, find_opensta, longest_paths, opensta_delays
from xpulpnn_sim.tools import netlists
from xpulpnn_sim.tools.netlists import NetlistCell, NetlistModule, read_module
from xpulpnn_sim.tools.results import digest
from xpulpnn_sim.tools.yosys import Yosys, find_yosys


def shuffled(netlist: str, seed: int) -> str:
    design: dict[str, Any] = json.loads(netlist)
    random = Random(seed)
    for module in design["modules"].values():
        for part in ("cells", "netnames"):
            module[part] = _in_any_order(module[part], random)
    return json.dumps({**design, "modules": _in_any_order(design["modules"], random)})


def _in_any_order(entries: dict[str, Any], random: Random) -> dict[str, Any]:
    items = list(entries.items())
    random.shuffle(items)
    return dict(items)


REVISION = "8"  # part of the settings: raised when this flow's results change without any setting changing
_AS_WRITTEN, _IN_ORDER = "source.json", "order.json"
_SIZED = (
    "Where wires make the longest paths longer, cells are exchanged for others of the same function, and buffers "
    "inserted, between three placements, of which the best counts. The clock tree is an estimate that is in no other "
    f"figure: up to {FANOUT} neighbours behind a buffer; its skew is between the least and most loaded of each level."
)
_COMMANDS = "flat.abc"
_MAPPED = (
    f"dfflibmap -liberty {LIBRARY}",
    f"tee -o mapped.log {map_gates(_COMMANDS)}",
    "opt_clean",
    "write_json mapped.json",
    "write_verilog -noattr mapped.v",
)
"""Yosys commands that map a flattened design."""

MEMORY = "$mem_v2"  # type of memories in netlists of Yosys
_MACRO = "xpulpnn_macro"  # attribute of memories that are not mapped


@dataclass(frozen=True, eq=False)
class _Run:
    number: int  # from 1; run 1 takes cells and nets in the order of the source
    source: NetlistModule  # gates before flattening, whose names give their instances
    flat: NetlistModule  # mapped netlist of Yosys
    mapped: MappedNetlist  # the same as library cells
    delay: float | None  # longest path, ps: by ABC without wires, by the explorer's timer of a placed netlist
    placed: SizedNetlist | None = None

    @cached_property
    def area(self) -> float:
        types = Counter((gate.cell.name, gate.cell.area) for gate in self.mapped.gates)
        return sum(area * count for (_, area), count in sorted(types.items()))

    @cached_property
    def with_instances(self) -> tuple[MappedNetlist, dict[str, float]]:
        return with_origins(self.source, self.flat, self.mapped)

    @property
    def placement(self) -> PlacementResult | None:
        if self.placed is None:
            return None
        modules, tiles = module_tiles(self.with_instances[0], self.placed.placement)
        return replace(self.placed.result, modules=modules, tiles=tiles)


class AsicFlow:
    def __init__(
        self,
        library: Library,
        name: str,
        script: str,
        *,
        other_corners: Sequence[Library] = (),
        repeat: int = 1,
        clock_ns: float | None = None,
        yosys: str = "",
        keep: bool = False,
    ) -> None:
        self.library, self.name, self.script, self.other_corners = library, name, script, other_corners
        self.clock_ps = None if clock_ns is None else clock_ns * 1e3
        self.repeat, self.yosys, self.keep = repeat, yosys, keep
        self._commands = abc_commands(script, self.clock_ps, wires=library.wires != NO_WIRES)

    def settings(self) -> dict[str, str]:
        yosys, opensta = find_yosys(self.yosys), find_opensta()
        return {
            **yosys.tools,
            "opensta": opensta.version if opensta else "none",
            "library": self.library.sha256,
            "driver": self.library.driving_cell,
            "load": f"{self.library.output_load_ff:g}",
            **self.library.wire_settings,
            **{f"corner {library.corner}": library.sha256 for library in self.other_corners},
            "commands": self._commands,
            "clock": f"{self.clock_ps}",
            "repeat": f"{self.repeat}",
            "revision": REVISION,
            # the files kept with ``keep`` depend on these modules
            **({"netlist": digest(liberty, mapped_netlist, netlists)} if self.keep else {}),
        }

    def run(self, design: EmittedDesign) -> FlowOutput:
        yosys, opensta = find_yosys(self.yosys), find_opensta()
        started, library = time.monotonic(), self.library
        files: dict[str, str] = {}
        runs = self._placed(self._runs(design, yosys, files))
        by_area = _median(runs, [run.area for run in runs])
        by_delay = _median(runs, [run.delay or 0.0 for run in runs])
        netlist, shares = by_area.with_instances
        path = longest_paths(by_delay.with_instances[0], library)[0]
        if path is not None:
            others = {} if by_delay.delay is None or self.library.placer else {"ABC": by_delay.delay}
            timed = opensta_delays(by_delay.mapped, library, files, _folder(by_delay.number, len(runs)))
            path = replace(path, others=others | timed)
        bits, kge_area = memory_bits(by_area.mapped.unmapped), library.ge_area * 1e3
        result = FlowResult(
            flow=self.name,
            script=self.script,
            tools={**yosys.tools, **({"opensta": opensta.version} if opensta else {})},
            conditions=self._conditions(path, design, bits),
            area_um2=round(by_area.area, 4) if library.physical else None,
            area_kge=by_area.area / kge_area,
            cells=len(by_area.mapped.gates),
            flip_flops=sum(gate.cell.flip_flop is not None for gate in by_area.mapped.gates),
            **asdict(at_corner(by_delay.mapped, library, self.clock_ps, by_delay.delay)),
            other_corners=[at_corner(by_delay.mapped, other, self.clock_ps) for other in self.other_corners],
            path=path,
            modules=module_areas(netlist, design, library),
            origins=shares,
            runs=[FlowRun(number=run.number, area_kge=run.area / kge_area, delay_ps=run.delay) for run in runs],
            area_run=by_area.number,
            delay_run=by_delay.number,
            placement=by_delay.placement,
            wall_s=round(time.monotonic() - started, 2),
        )
        return FlowOutput(
            result=result, files=files, netlist=packed_netlist(by_delay.with_instances[0]) if self.keep else ""
        )

    def _placed(self, runs: list[_Run]) -> list[_Run]:
        """Return the runs with every netlist placed with every seed; without placement, as they are."""
        if (placer := self.library.placer) is None:
            return runs
        placed: list[_Run] = []
        for run, seed in product(runs, range(1, placer.seeds + 1)):
            sized = place_and_size(run.mapped, self.library, placer, seed, run.delay)
            more = {"mapped": sized.netlist, "delay": sized.delay_ps, "placed": sized}
            placed.append(replace(run, number=len(placed) + 1, **more))
        return placed

    def _runs(self, design: EmittedDesign, yosys: Yosys, files: dict[str, str]) -> list[_Run]:
        runs: list[_Run] = []
        written = ""
        for number in range(1, self.repeat + 1):
            with flow_folder(files, _folder(number, self.repeat)) as folder:
                write_inputs(folder, design.verilog, self.library, _COMMANDS, self._commands, yosys)
                results = ["mapped.json", "mapped.v", "mapped.log"]
                read = [*read_verilog(design.module)]
                after = list[str]()
                if number == 1:
                    gates = _gates(design, flatten=False)
                    after = ["design -reset", *read, *gates, "flatten", "opt_clean", "write_json instances.json"]
                    results.append("instances.json")
                    if self.repeat > 1:
                        after += ["design -reset", *read, "proc", f"write_json {_AS_WRITTEN}"]
                        results.append(_AS_WRITTEN)
                else:
                    (folder / _IN_ORDER).write_text(shuffled(written, number))
                    comment = f"# {_IN_ORDER}: {DESIGN} after proc, its cells and nets in the order of seed {number}"
                    read = [comment, f"read_json {_IN_ORDER}"]
                cells = f"{self.library.name}, sha256 {self.library.sha256}"
                header = f"# {DESIGN}: the Verilog of the point; {LIBRARY}: {cells}"
                script = [header, *read, *_gates(design, flatten=True), *_MAPPED, *after]
                yosys.run("\n".join(script) + "\n", folder, what=design.module, results=results)
                source = runs[0].source if runs else read_module(folder / "instances.json", design.module)
                if _AS_WRITTEN in results:
                    written = (folder / _AS_WRITTEN).read_text()
                flat = read_module(folder / "mapped.json", design.module)
                apart = {*design.black_boxes, *([MEMORY] if design.memories else [])}
                mapped = mapped_module(flat, self.library.cells, apart)
                runs.append(_Run(number, source, flat, mapped, delay_ps(folder, "mapped.log")))
        return runs

    def circumstances(self) -> list[str]:
        library, texts = self.library, {NO_WIRES: "no wire load", BY_LIBRARY: "wire load by area, as the library says"}
        wires = texts.get(library.wires, f"wire load {library.wires}")
        wires += " in mapping" if library.placer else ", no placement"
        corners = "; ".join(f"{corner.corner}: {corner.corner_text}" for corner in self.other_corners)
        also = f"The same netlist at other corners, by the explorer's timer and their leakage: {corners}."
        return [
            (
                f"Library {library.corner_text}{'' if corners else ', one corner'}; "
                f"1 GE is {library.nand2}, 1 FO4 is {library.fo4_ps:g} ps ({library.fo4_inverter})."
            ),
            *([also] if corners else []),
            f"Flattened; ABC script {self.script}: {self._commands}.",
            (
                f"Inputs and register outputs driven by {library.driving_cell}, outputs and register inputs loaded "
                f"with {library.output_load_ff:g} fF; {wires}, no clock tree, no scan chain."
            ),
            *([f"Placement: {self.library.placer.text}. {_SIZED}"] if self.library.placer else []),
        ]

    def repetitions(self) -> list[str]:
        clock = (
            f"Clock: {(self.clock_ps or 0.0) / 1e3:g} ns asked of mapping and sizing; slack is what the delay leaves "
            f"of it, clock-to-output and setup times {'' if self.library.register_ps else 'not '}taken off."
        )
        if placer := self.library.placer:
            runs = f"Median of {self.repeat} mappings, each placed with {placer.seeds} seeds."
        elif self.repeat == 1:
            runs = (
                "One run: the order of cells and nets alone moves ABC's area by up to 6 % and its delay by up to 3 %, "
                "of a whole core by up to 6 %, so that smaller differences between two results mean little."
            )
        else:
            runs = (
                f"Median of {self.repeat} runs, with cells and nets in different orders, beside least and largest; of "
                "two in the middle the smaller one counts, so that each median is one netlist's."
            )
        return [*([clock] if self.clock_ps is not None else []), runs]

    def _conditions(self, path: CriticalPath | None, design: EmittedDesign, memory_bits: int) -> list[str]:
        timer = "the explorer's timer" if self.library.placer else "ABC's estimate"
        lines = [
            *self.circumstances(),
            (
                f"The delay is the longest combinational path by {timer}, from input or register to output or "
                "register, without clock-to-output and setup times."
            ),
        ]
        if register := self.library.register_ps:
            cell = self.library.flip_flop
            lines.append(f"The clock in MHz adds clock-to-output and setup time of {cell}, {register:.0f} ps together.")
        lines += self.repetitions()
        lines.append(
            "Areas by instance are those of the netlist whose area is shown and add up to it: a gate belongs to the "
            f"instance in which a net has the same values in {VECTORS} random vectors, else to that of the gates it "
            f"drives or is driven by; what serves several instances is {SHARED}."
        )
        if path is not None:
            lines.append(f"The path is that of the netlist whose delay is shown; its steps are by {path.tool}.")
        if design.memories:
            lines.append(
                f"Memories of {', '.join(design.memories)}, {memory_bits} bits, are in no area: their pins end and "
                "begin paths, as those of registers do."
            )
        return lines


def module_areas(netlist: MappedNetlist, design: EmittedDesign, library: Library) -> list[ModuleArea]:
    """Return the area of every instance, parents first, then the area of gates shared by several instances."""
    top = design.manifest["top"]
    hierarchy: Mapping[str, str] = design.manifest["hierarchy"]
    own: defaultdict[str, float] = defaultdict(float)
    total: defaultdict[str, float] = defaultdict(float)
    cells: Counter[str] = Counter()
    for gate in netlist.gates:
        path = f"{top}.{gate.path}" if gate.path else top
        own[path] += gate.cell.area / library.ge_area
        cells[path] += 1
    known = dict(hierarchy) | {path: "" for path in own if path.endswith(f".{SHARED}")}
    if strange := sorted(own.keys() - known.keys()):
        raise ToolError(f"instances of the netlist must be those of the manifest, not {strange[0]}")
    for path, area in own.items():
        for above in accumulate(path.split("."), "{}.{}".format):
            total[above] += area

    # parents first, what is shared last
    ordered = sorted(known, key=lambda path: [(part == SHARED, part) for part in path.split(".")])
    return [
        ModuleArea(path=path, module=known[path], own_ge=own[path], total_ge=total[path], own_cells=cells[path])
        for path in ordered
    ]


def _median(runs: Sequence[_Run], figures: Sequence[float]) -> _Run:
    return runs[figures.index(median_low(figures))]


def _folder(number: int, repeat: int) -> str:
    return f"run{number}" if repeat > 1 else ""


def memory_bits(cells: Iterable[NetlistCell]) -> int:
    memories = (cell.parameters for cell in cells if cell.type == MEMORY)
    return sum(int(memory["SIZE"], 2) * int(memory["WIDTH"], 2) for memory in memories)


def _gates(design: EmittedDesign, *, flatten: bool) -> list[str]:
    """Return the Yosys commands that synthesise without ABC; memories that become macros stay memory cells."""
    module, synth = design.module, f"synth -noabc {'-flatten ' if flatten else ''}-top {design.module}"
    if not design.memories:
        return [synth]
    marked = [f"setattr -set {_MACRO} 1 {name}/m:*" for name in design.memories]
    fine = ["opt -fast -full", f"memory_map -attr !{_MACRO}", "opt -undriven -fine", "techmap", "opt -fast"]
    return [f"hierarchy -check -top {module}", "proc", *marked, f"{synth} -run begin:fine", *fine]
