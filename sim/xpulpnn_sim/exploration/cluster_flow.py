"""Map a cluster for ASICs: map each module once, then join the netlists."""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from math import sqrt
from typing import Any

from xpulpnn_sim.exploration.asic import AsicFlow
from xpulpnn_sim.exploration.floorplan import Block, Floorplan, floorplan
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.mapped_netlist import MappedNetlist, instance_path, pin_bits, unpacked
from xpulpnn_sim.exploration.memories import MACROS, memory_paths, memory_table, memory_uses
from xpulpnn_sim.exploration.placement_result import ClockTree, PlacementResult
from xpulpnn_sim.exploration.results import (
    CriticalPath,
    EmittedDesign,
    FlowOutput,
    FlowResult,
    GrantPath,
    MemoryUse,
    ModuleArea,
    cached_flow,
)
from xpulpnn_sim.exploration.timing import Analysis, at_corner, longest_paths, opensta_delays
from xpulpnn_sim.tools.netlists import ONE, ZERO
from xpulpnn_sim.tools.results import digest

PARTS = frozenset(
    {
        "xpulpnn.core.core.Core",
        "xpulpnn.cluster.tcdm.tcdm.Tcdm",
        "xpulpnn.cluster.event_unit.unit.EventUnit",
        "xpulpnn.cluster.dma.unit.Dma",
        "xpulpnn.cluster.icache.unit.InstructionCache",
    }
)

_MODULE = re.compile(r"^module (\w+) .*?^\);$.*?^endmodule$", re.MULTILINE | re.DOTALL)
_HEADER = re.compile(r"^module .*?^\);$", re.MULTILINE | re.DOTALL)


def part_instances(design: EmittedDesign) -> dict[str, str]:
    """Return the module of each instance that is mapped by itself, by its path below the top, such as ``core0``."""
    modules, hierarchy = design.manifest["modules"], design.manifest["hierarchy"]
    return {
        path.removeprefix(f"{design.module}."): module
        for path, module in hierarchy.items()
        if path != design.module and modules[module]["component"] in PARTS
    }


def extract_module(design: EmittedDesign, module: str, black_boxes: frozenset[str] = frozenset()) -> EmittedDesign:
    """Return ``module`` with its submodules; modules in ``black_boxes`` are left empty, and memories unmapped."""
    modules: Mapping[str, Any] = design.manifest["modules"]
    hierarchy, waiting = dict[str, str](), [(module, module)]
    while waiting:
        path, inside = waiting.pop()
        hierarchy[path] = inside
        if inside not in black_boxes:
            waiting += [(f"{path}.{name}", inner) for name, inner in modules[inside]["instances"].items()]
    texts = {match[1]: match[0] for match in _MODULE.finditer(design.verilog)}
    required = set(hierarchy.values())
    for name in black_boxes & texts.keys():
        header = _HEADER.match(texts[name])
        texts[name] = f"(* blackbox *)\n{header[0] if header else texts[name]}\nendmodule"
    required_texts = [text for name, text in texts.items() if name in required]
    return EmittedDesign(
        top=design.top,
        module=module,
        config=design.config,
        verilog="\n\n".join(required_texts) + "\n",
        manifest={**design.manifest, "top": module, "hierarchy": hierarchy},
        black_boxes=black_boxes,
        memories=tuple(sorted(name for name in required - black_boxes if modules[name]["component"] in MACROS)),
    )


def join_netlists(top: MappedNetlist, parts: Mapping[str, MappedNetlist]) -> tuple[MappedNetlist, dict[str, int]]:
    """Replace black boxes by the netlists in ``parts``; also return the nets of their port bits."""
    driver: dict[int, int] = {}
    gates, names, pins = list(top.gates), dict(top.names), dict[str, int]()
    wires = [*top.wires_ff.items()]
    apart = [cell for cell in top.unmapped if cell.type not in parts]
    offset = 0

    def joined_net(net: int) -> int:
        while net in driver:
            net = driver[net]
        return net

    def all_of(nets: Mapping[str, int]) -> dict[str, int]:
        return {name: joined_net(net) for name, net in nets.items()}

    def join(net: int, driven_by: int) -> None:
        if joined_net(net) != joined_net(driven_by):
            driver[joined_net(net)] = joined_net(driven_by)

    def moved(net: int) -> int:
        return net + offset if net > ONE else net

    latest = top
    for instance in (cell for cell in top.unmapped if cell.type in parts):
        pins_of_gates = (net for gate in latest.gates for net in gate.pins.values())
        offset += max(ONE, *latest.names, *latest.inputs.values(), *latest.outputs.values(), *pins_of_gates)
        part = latest = parts[instance.type]
        entering, leaving = (dict(pin_bits(instance, outputs=outputs)) for outputs in (False, True))
        pins |= entering | leaving
        for name, net in entering.items():
            inner = part.inputs.get(name.removeprefix(f"{instance.name}."), ZERO)
            if inner > ONE:
                join(moved(inner), net)
        for name, net in leaving.items():
            join(net, moved(part.outputs[name.removeprefix(f"{instance.name}.")]))
        for gate in part.gates:
            path = f"{instance.name}.{gate.path}".rstrip(".")
            gates.append(replace(gate, path=path, pins={pin: moved(net) for pin, net in gate.pins.items()}))
        for cell in part.unmapped:
            inner_pins = {pin: [moved(net) for net in nets] for pin, nets in cell.pins.items()}
            apart.append(replace(cell, name=f"{instance.name}.{cell.name}", pins=inner_pins))
        names |= {moved(net): f"{instance.name}.{name}" for net, name in part.names.items() if net > ONE}
        wires += [(moved(net), load_ff) for net, load_ff in part.wires_ff.items()]
    inputs = {name: net for name, net in top.inputs.items() if name not in pins}
    outputs = {name: net for name, net in top.outputs.items() if name not in pins}
    for cell in apart:
        inputs |= dict(pin_bits(cell, outputs=True))
        outputs |= dict(pin_bits(cell, outputs=False))
    wires_ff: defaultdict[int, float] = defaultdict(float)
    for net, load_ff in wires:
        wires_ff[joined_net(net)] += load_ff
    netlist = MappedNetlist(
        module=top.module,
        gates=[replace(gate, pins=all_of(gate.pins)) for gate in gates],
        inputs=all_of(inputs),
        outputs=all_of(outputs),
        # the top's own names win over names in the parts
        names={joined_net(net): name for net, name in reversed(names.items())},
        unmapped=apart,
        wires_ff={net: load_ff for net, load_ff in wires_ff.items() if net > ONE},
    )
    return netlist, all_of(pins)


MEMORIES = "memories"  # part of reports in which all memories are
REST = "rest"  # block of a floorplan: what is in no part
REVISION = "3"  # part of the cache key: raised when results change although no setting does
CORE = "xpulpnn.core.core.Core"
_REQUEST = ("data__req", "data__addr", "data__we", "data__be", "data__wdata")
_GRANT = "data__gnt"


_FLOORPLAN = (
    "Floorplan: each part is placed by itself, with memories outside of it, those of a cache in a square. Rows of such "
    "blocks, by simulated annealing, make the wires between blocks short; each begins behind the smallest buffer that "
    "is almost the fastest for it. Gates are sized in each part for its own longest paths: what sizes the whole makes "
    "paths across parts shorter. Wires from ports of the cluster, and of the clock to the parts, are not counted."
)


class ClusterFlow:
    def __init__(self, asic: AsicFlow) -> None:
        self._asic = asic
        self.library: Library = asic.library
        self.name = asic.name
        self.script = asic.script

    def settings(self) -> dict[str, str]:
        return {**self._asic.settings(), "parts": REVISION, "memories": digest(memory_table(self.library))}

    def run(self, design: EmittedDesign) -> FlowOutput:
        started = time.monotonic()
        instances = part_instances(design)
        modules = frozenset(instances.values())
        mapped = {module: cached_flow(self._asic, extract_module(design, module))[0] for module in modules}
        rest = cached_flow(self._asic, extract_module(design, design.module, modules))[0]
        outputs = [rest, *(mapped[module] for module in instances.values())]
        results = [output.result for output in outputs]
        files = {
            f"{module}/{name}": text
            for module, output in {**mapped, design.module: rest}.items()
            for name, text in output.files.items()
        }
        parts = {module: unpacked(output.netlist) for module, output in mapped.items()}
        of_parts = {name: mapped[module].result for name, module in instances.items()}
        whole, pins = join_netlists(unpacked(rest.netlist), parts)
        table, clock_ps = memory_table(self.library), self._asic.clock_ps
        uses = memory_uses(design, table)
        whole = replace(whole, read_fo4=_read_fo4(whole, design, self.library, uses))
        placement, wires_um2 = None, 0.0
        if self.library.placer:
            plan = self._plan(
                design, whole, pins, {"": unpacked(rest.netlist), **parts}, {REST: rest.result, **of_parts}
            )
            placement, wires_um2 = self._placement(plan, whole, results), plan.buffer_um2
            whole = plan.netlist
        path, grant = self._paths(design, whole, pins, files)
        leakage_nw = sum(use.count * use.leakage_nw for use in uses.values())
        areas = [result.area_um2 for result in results if result.area_um2 is not None]
        memory_um2 = sum(use.count * use.area_um2 for use in uses.values())
        result = replace(
            rest.result,
            area_um2=round(sum(areas) + memory_um2 + wires_um2, 4) if len(areas) == len(results) else None,
            area_kge=sum(result.area_kge or 0.0 for result in results)
            + (memory_um2 + wires_um2) / self.library.ge_area / 1e3,
            cells=len(whole.gates),
            flip_flops=sum(result.flip_flops or 0 for result in results),
            **asdict(at_corner(whole, self.library, clock_ps, path and path.delay_ps, leakage_nw)),
            other_corners=[at_corner(whole, other, clock_ps, None, leakage_nw) for other in self._asic.other_corners],
            path=path,
            grant=grant,
            modules=list(_modules(design, rest.result, of_parts, uses, wires_um2, self.library.ge_area)),
            memories=list(uses.values()),
            placement=placement,
            origins=_origins(results),
            runs=[],
            area_run=1,
            delay_run=1,
            conditions=self._conditions(design, table.text),
            wall_s=round(time.monotonic() - started, 2),
        )
        return FlowOutput(result=result, files=files)

    def _paths(
        self, design: EmittedDesign, whole: MappedNetlist, pins: Mapping[str, int], files: dict[str, str]
    ) -> tuple[CriticalPath | None, GrantPath | None]:
        modules = design.manifest["modules"]
        cores = [name for name, module in part_instances(design).items() if modules[module]["component"] == CORE]
        requests = {
            net
            for pin, net in pins.items()
            for instance, _, port in [pin.rpartition(".")]
            if instance in cores and port.partition("[")[0] in _REQUEST
        }
        grants = {pins[f"{core}.{_GRANT}"] for core in cores}
        path, granted, times = longest_paths(whole, self.library, (requests, grants))
        path = path and replace(path, others=opensta_delays(whole, self.library, files, ""))
        if granted is None:
            return path, None
        fo4 = granted.delay_ps / self.library.fo4_ps
        return path, GrantPath(path=granted, request_ps=times[0], grant_ps=times[1], fo4=fo4)

    def _plan(
        self,
        design: EmittedDesign,
        whole: MappedNetlist,
        pins: Mapping[str, int],
        netlists: Mapping[str, MappedNetlist],
        results: Mapping[str, FlowResult],
    ) -> Floorplan:
        placer, uses = self.library.placer, memory_uses(design, memory_table(self.library))
        assert placer is not None
        memories, instances = memory_paths(design), part_instances(design)

        def block_of(path: str) -> str:
            if path in memories:
                return ".".join(path.split(".")[:2])
            head = path.partition(".")[0]
            return head if head in instances else REST

        placed = {name: result.placement for name, result in results.items() if result.placement}
        blocks: dict[str, Block] = {name: (one.width_um, one.height_um) for name, one in placed.items()}
        inside: defaultdict[str, list[MemoryUse]] = defaultdict(list)
        for path, module in memories.items():
            inside[block_of(path)].append(uses[module])
        for name, (first, *others) in inside.items():
            side = sqrt(sum(use.area_um2 for use in (first, *others)) / placer.utilisation)
            blocks[name] = (side, side) if others else (first.width_um, first.height_um)
        driven_ff = dict(netlists[""].wires_ff)
        for instance, module in instances.items():
            part = netlists[module]
            outputs = ((pins.get(f"{instance}.{name}"), net) for name, net in part.outputs.items())
            driven_ff |= {joined: part.wires_ff.get(net, 0.0) for joined, net in outputs if joined is not None}
        return floorplan(whole, blocks, block_of, driven_ff, self.library)

    def _placement(self, plan: Floorplan, joined: MappedNetlist, results: list[FlowResult]) -> PlacementResult:
        placed = [result.placement for result in results if result.placement]
        trees, names = [one.clock for one in placed if one.clock], [item.name for item in fields(ClockTree)]
        clock = {name: (max if name.endswith("_ps") else sum)(getattr(tree, name) for tree in trees) for name in names}
        (width, height), (modules, tiles) = plan.size_um, plan.tiles()
        delays = (Analysis(replace(joined, **wires), self.library).worst_ns for wires in ({"wires_ff": {}}, {}))
        wireless_ps, unsized_ps = (round(1e3 * delay, 2) for delay in delays)
        return replace(
            placed[0],
            width_um=round(width, 2),
            height_um=round(height, 2),
            wire_mm=round(sum(one.wire_mm for one in (*placed, *plan.wires)), 3),
            resized=sum(one.resized for one in placed),
            buffers=sum(one.buffers for one in placed) + len(plan.netlist.gates) - len(joined.gates),
            wireless_ps=wireless_ps,
            unsized_ps=unsized_ps,
            modules=modules,
            tiles=tiles,
            clock=ClockTree(**clock),
            blocks=plan.places,
            wires=plan.wires,
        )

    def _conditions(self, design: EmittedDesign, memories: str) -> list[str]:
        counted = Counter(part_instances(design).values())
        counts = ", ".join(f"{count} x {kind}" if count > 1 else kind for kind, count in counted.items())
        return [
            *self._asic.circumstances(),
            (
                f"Mapped part by part, each part flattened by itself and mapped once: {counts}, and what is left. "
                "Areas are the sums of these; nothing is optimised across the borders of parts, constants at their "
                "ports included."
            ),
            *self._asic.repetitions(),
            *([_FLOORPLAN] if self.library.placer else []),
            memories,
            (
                "Each memory is built of the macros that take least area. A path may begin with a word that one reads, "
                "at its access time less the clock-to-output time of a flip-flop, and end at its pins; what selects "
                "between macros of one memory is not counted. Queues of a few words are registers."
            ),
            (
                f"The delay is the longest path of the netlists put together, {design.module} with all its parts, from "
                "input or register to output or register, without clock-to-output and setup times, by the explorer's "
                "timer."
            ),
            (
                "The grant path is the longest one from a register or memory through a core's request for data, the "
                "demux and the crossbar to the grant of a core and on to where it ends."
            ),
        ]


def _read_fo4(
    netlist: MappedNetlist, design: EmittedDesign, library: Library, uses: Mapping[str, MemoryUse]
) -> dict[int, float]:
    """Return when the words that memories read arrive, after the time at which those of registers do."""
    modules, register_ps = memory_paths(design), (library.register_times_ps or (0.0, 0.0))[0]
    return {
        net: (uses[modules[path]].access_ps - register_ps) / library.fo4_ps
        for cell in netlist.unmapped
        if (path := instance_path(cell.name)) in modules
        for _, net in pin_bits(cell, outputs=True)
    }


def _modules(
    design: EmittedDesign,
    rest: FlowResult,
    parts: Mapping[str, FlowResult],
    memories: Mapping[str, MemoryUse],
    wires_um2: float,
    ge_area: float,
) -> Iterator[ModuleArea]:
    sizes = {name: use.count * use.area_um2 / ge_area for name, use in memories.items()}
    memory_ge = sum(sizes.values())
    for area in rest.modules:
        name = area.path.removeprefix(f"{design.module}.")
        if name not in parts:
            is_top = area.path == design.module
            wires = wires_um2 / ge_area * is_top
            inside = (memory_ge + sum(result.modules[0].total_ge for result in parts.values())) * is_top
            yield replace(area, own_ge=area.own_ge + wires, total_ge=area.total_ge + inside + wires)
            continue
        for inner in parts[name].modules:
            _, dot, below = inner.path.partition(".")
            yield replace(inner, path=f"{area.path}{dot}{below}")
    path = f"{design.module}.{MEMORIES}"
    yield ModuleArea(path=path, module="", own_ge=0.0, total_ge=memory_ge, own_cells=0)
    for name, size in sizes.items():
        yield ModuleArea(path=f"{path}.{name}", module=name, own_ge=size, total_ge=size, own_cells=0)


def _origins(results: list[FlowResult]) -> dict[str, float]:
    whole = sum(result.area_kge or 0.0 for result in results) or 1.0
    names = {name for result in results for name in result.origins}
    return {
        name: sum(result.origins.get(name, 0.0) * (result.area_kge or 0.0) for result in results) / whole
        for name in sorted(names)
    }
