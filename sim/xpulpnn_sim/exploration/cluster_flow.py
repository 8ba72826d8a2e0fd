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
from xpulpnn_sim.exploration.placement import Placer
from xpulpnn_sim.exploration.placement_result import ClockTree, PlacementResult
from xpulpnn_sim.exploration.results import (
    CriticalPath,
    EmittedDesign,
    FlowOutput,
    GrantPath,
    MemoryUse,
    ModuleArea,
    cached_flow,
)
from xpulpnn_sim.exploration.sizing import resized
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
REVISION = "4"  # part of the cache key: raised when results change although no setting does
CORE = "xpulpnn.core.core.Core"
_REQUEST = ("data__req", "data__addr", "data__we", "data__be", "data__wdata")
_GRANT = "data__gnt"


_FLOORPLAN = (
    "Floorplan: each part is placed by itself, with memories outside of it, those of a cache in a square. Rows of such "
    "blocks, by simulated annealing, make the wires between blocks short; each begins behind the smallest buffer that "
    "is almost the fastest for it. Gates are sized in each part for its own longest paths, then in all parts together. "
    "Wires from ports of the cluster, and of the clock to the parts, are not counted."
)


class _JoinedCluster:
    """The netlists of the parts of a cluster, mapped one by one, joined, and with a placer on a floorplan."""

    def __init__(self, asic: AsicFlow, design: EmittedDesign) -> None:
        self.design, self.library = design, asic.library
        self.instances, self.memories = part_instances(design), memory_paths(design)
        self.table = memory_table(self.library)
        self.uses = memory_uses(design, self.table)
        modules = frozenset(self.instances.values())
        mapped = {module: cached_flow(asic, extract_module(design, module))[0] for module in modules}
        mapped[design.module] = cached_flow(asic, extract_module(design, design.module, modules))[0]
        self.files = {f"{module}/{name}": text for module, own in mapped.items() for name, text in own.files.items()}
        self.rest = mapped[design.module].result
        self.parts = {name: mapped[module].result for name, module in self.instances.items()}
        self.results = [self.rest, *self.parts.values()]
        self.netlists = {module: unpacked(output.netlist) for module, output in mapped.items()}
        joined, self.pins = join_netlists(self.netlists[design.module], self.netlists)
        self.netlist = replace(joined, read_fo4=self._read_fo4(joined))
        self.placement: PlacementResult | None = None
        self.wires_um2 = 0.0  # area of the buffers and larger gates for wires between parts
        if self.library.placer:
            plan = self._floorplan(self.library.placer)
            plan = replace(plan, netlist=resized(plan.netlist, self.library))
            self.placement = self._placement(plan)
            before, after = (sum(gate.cell.area for gate in each.gates) for each in (self.netlist, plan.netlist))
            self.netlist, self.wires_um2 = plan.netlist, after - before

    def _read_fo4(self, netlist: MappedNetlist) -> dict[int, float]:
        """Return when the words that memories read arrive, after the time at which those of registers do."""
        register_ps = (self.library.register_times_ps or (0.0, 0.0))[0]
        return {
            net: (self.uses[self.memories[path]].access_ps - register_ps) / self.library.fo4_ps
            for cell in netlist.unmapped
            if (path := instance_path(cell.name)) in self.memories
            for _, net in pin_bits(cell, outputs=True)
        }

    def _block_of(self, path: str) -> str:
        if path in self.memories:
            return ".".join(path.split(".")[:2])
        head = path.partition(".")[0]
        return head if head in self.instances else REST

    def _floorplan(self, placer: Placer) -> Floorplan:
        placed = {name: one.placement for name, one in {REST: self.rest, **self.parts}.items() if one.placement}
        blocks: dict[str, Block] = {name: (one.width_um, one.height_um) for name, one in placed.items()}
        inside: defaultdict[str, list[MemoryUse]] = defaultdict(list)
        for path, module in self.memories.items():
            inside[self._block_of(path)].append(self.uses[module])
        for name, (first, *others) in inside.items():
            side = sqrt(sum(use.area_um2 for use in (first, *others)) / placer.utilisation)
            blocks[name] = (side, side) if others else (first.width_um, first.height_um)
        driven_ff = dict(self.netlists[self.design.module].wires_ff)
        for instance, module in self.instances.items():
            part = self.netlists[module]
            outputs = ((self.pins.get(f"{instance}.{name}"), net) for name, net in part.outputs.items())
            driven_ff |= {joined: part.wires_ff.get(net, 0.0) for joined, net in outputs if joined is not None}
        return floorplan(self.netlist, blocks, self._block_of, driven_ff, self.library)

    def _placement(self, plan: Floorplan) -> PlacementResult:
        placed = [result.placement for result in self.results if result.placement]
        trees, names = [one.clock for one in placed if one.clock], [item.name for item in fields(ClockTree)]
        clock = {name: (max if name.endswith("_ps") else sum)(getattr(tree, name) for tree in trees) for name in names}
        (width, height), (modules, tiles) = plan.size_um, plan.tiles()
        delays = (Analysis(replace(self.netlist, **wires), self.library).worst_ns for wires in ({"wires_ff": {}}, {}))
        wireless_ps, unsized_ps = (round(1e3 * delay, 2) for delay in delays)
        return replace(
            placed[0],
            width_um=round(width, 2),
            height_um=round(height, 2),
            wire_mm=round(sum(one.wire_mm for one in (*placed, *plan.wires)), 3),
            resized=sum(one.resized for one in placed)
            + sum(gate.cell is not own.cell for gate, own in zip(plan.netlist.gates, self.netlist.gates, strict=False)),
            buffers=sum(one.buffers for one in placed) + len(plan.netlist.gates) - len(self.netlist.gates),
            wireless_ps=wireless_ps,
            unsized_ps=unsized_ps,
            modules=modules,
            tiles=tiles,
            clock=ClockTree(**clock),
            blocks=plan.places,
            wires=plan.wires,
        )

    def paths(self) -> tuple[CriticalPath | None, GrantPath | None]:
        modules = self.design.manifest["modules"]
        cores = [name for name, module in self.instances.items() if modules[module]["component"] == CORE]
        requests = {
            net
            for pin, net in self.pins.items()
            for instance, _, port in [pin.rpartition(".")]
            if instance in cores and port.partition("[")[0] in _REQUEST
        }
        grants = {self.pins[f"{core}.{_GRANT}"] for core in cores}
        path, granted, times = longest_paths(self.netlist, self.library, (requests, grants))
        path = path and replace(path, others=opensta_delays(self.netlist, self.library, self.files, ""))
        if granted is None:
            return path, None
        fo4 = granted.delay_ps / self.library.fo4_ps
        return path, GrantPath(path=granted, request_ps=times[0], grant_ps=times[1], fo4=fo4)

    def modules(self) -> Iterator[ModuleArea]:
        top, ge_area = self.design.module, self.library.ge_area
        sizes = {name: use.count * use.area_um2 / ge_area for name, use in self.uses.items()}
        memory_ge = sum(sizes.values())
        for area in self.rest.modules:
            name = area.path.removeprefix(f"{top}.")
            if name not in self.parts:
                is_top = area.path == top
                wires = self.wires_um2 / ge_area * is_top
                inside = (memory_ge + sum(result.modules[0].total_ge for result in self.parts.values())) * is_top
                yield replace(area, own_ge=area.own_ge + wires, total_ge=area.total_ge + inside + wires)
                continue
            for inner in self.parts[name].modules:
                _, dot, below = inner.path.partition(".")
                yield replace(inner, path=f"{area.path}{dot}{below}")
        path = f"{top}.{MEMORIES}"
        yield ModuleArea(path=path, module="", own_ge=0.0, total_ge=memory_ge, own_cells=0)
        for name, size in sizes.items():
            yield ModuleArea(path=f"{path}.{name}", module=name, own_ge=size, total_ge=size, own_cells=0)

    def origins(self) -> dict[str, float]:
        whole = sum(result.area_kge or 0.0 for result in self.results) or 1.0
        names = {name for result in self.results for name in result.origins}
        return {
            name: sum(result.origins.get(name, 0.0) * (result.area_kge or 0.0) for result in self.results) / whole
            for name in sorted(names)
        }


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
        cluster, clock_ps = _JoinedCluster(self._asic, design), self._asic.clock_ps
        path, grant = cluster.paths()
        results, netlist, uses = cluster.results, cluster.netlist, cluster.uses.values()
        leakage_nw = sum(use.count * use.leakage_nw for use in uses)
        areas = [result.area_um2 for result in results if result.area_um2 is not None]
        more_um2 = sum(use.count * use.area_um2 for use in uses), cluster.wires_um2
        result = replace(
            cluster.rest,
            area_um2=round(sum(areas) + more_um2[0] + more_um2[1], 4) if len(areas) == len(results) else None,
            area_kge=sum(result.area_kge or 0.0 for result in results) + sum(more_um2) / self.library.ge_area / 1e3,
            cells=len(netlist.gates),
            flip_flops=sum(result.flip_flops or 0 for result in results),
            **asdict(at_corner(netlist, self.library, clock_ps, path and path.delay_ps, leakage_nw)),
            other_corners=[at_corner(netlist, other, clock_ps, None, leakage_nw) for other in self._asic.other_corners],
            path=path,
            grant=grant,
            modules=list(cluster.modules()),
            memories=list(uses),
            placement=cluster.placement,
            origins=cluster.origins(),
            runs=[],
            area_run=1,
            delay_run=1,
            conditions=self._conditions(cluster),
            wall_s=round(time.monotonic() - started, 2),
        )
        return FlowOutput(result=result, files=cluster.files)

    def _conditions(self, cluster: _JoinedCluster) -> list[str]:
        counted = Counter(cluster.instances.values())
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
            cluster.table.text,
            (
                "Each memory is built of the macros that take least area. A path may begin with a word that one reads, "
                "at its access time less the clock-to-output time of a flip-flop, and end at its pins; what selects "
                "between macros of one memory is not counted. Queues of a few words are registers."
            ),
            (
                f"The delay is the longest path of the netlists put together, {cluster.design.module} with all its "
                "parts, from input or register to output or register, without clock-to-output and setup times, by "
                "the explorer's timer."
            ),
            (
                "The grant path is the longest one from a register or memory through a core's request for data, the "
                "demux and the crossbar to the grant of a core and on to where it ends."
            ),
        ]
