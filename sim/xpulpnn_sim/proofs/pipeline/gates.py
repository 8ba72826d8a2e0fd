"""A property and the core as one graph of gates."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn.verilog import emit
from xpulpnn_sim.proofs.engine.aiger import Aiger, ClockedGraph, Named, at, read_named
from xpulpnn_sim.proofs.engine.gate_graph import FALSE
from xpulpnn_sim.proofs.faults.core_fault import CoreFault
from xpulpnn_sim.proofs.pipeline.rules import Rule, rules
from xpulpnn_sim.proofs.pipeline.seen import Seen, seen_signals
from xpulpnn_sim.tools.yosys import Yosys

MODULE = "scene"  # module of the core, its memories and the properties

WRONG, PARTS = "wrong", "parts"  # outputs of the graph: whether anything is wrong, and what

BROKEN, INVARIANTS = "broken", "invariants"
"""Outputs of the graph: whether anything is wrong or an invariant does not hold, and which invariant."""

_CONSTANT = ("boot_addr", "hart_id", "watched_register", "watched_entry", "watched_bit")
_CONSTANT += ("held_address", "held_halves", "held_fails")
_SCRIPT = """read_verilog -sv core.v
read_verilog -sv -formal top.sv
hierarchy -check -top top
proc -noopt
{first}
{cutpoints}
flatten
{seen}
opt_clean
memory -nordff
opt -fast -nodffe -nosdff
opt_clean -purge
techmap
dffunmap
opt -fast -nodffe -nosdff
setundef -undriven -anyseq
abc -g AND -script +strash;dc2;map
opt_clean
write_aiger -zinit -map rule.map rule.aig
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The emitted core with all properties beside it."""

    config: CoreConfig
    modules: Mapping[str, str]  # Verilog of each module by its name
    hierarchy: Mapping[str, str]  # module of each instance by its path
    ports: Sequence[Mapping[str, Any]]  # Name, direction and width of each port of the top
    parts: Mapping[str, Sequence[str]]  # what may be wrong, by the name of the property, in the order of bits
    invariants: Mapping[str, Sequence[str]]  # what always holds inside the core and helps to prove a property, likewise
    seen: Mapping[str, Seen]  # signals of the core that properties see
    rules: Sequence[Rule]

    def with_fault(self, fault: CoreFault) -> "Scene":
        """The same with a fault in the core; raises :class:`ToolError` if its signal is not there."""
        with fault.seeded():
            return emit_scene(self.config, self.seen)


def emit_scene(config: CoreConfig, seen: Mapping[str, Seen] | None = None) -> Scene:
    """Emit the core with its properties; raises :class:`InputError` for a core that they are not for."""
    # Amaranth takes long to import, and a run that resumes may not need it
    from xpulpnn_sim.proofs.pipeline.properties.scene import Scene as Description

    config = replace(config, rvfi=True)
    chosen = rules(config)
    description = Description(config, seen or seen_signals(config))
    emitted = emit(description, MODULE, config=config)
    return Scene(
        config=config,
        modules=emitted.modules,
        hierarchy=emitted.manifest["hierarchy"],
        ports=emitted.manifest["ports"],
        parts=description.parts,
        invariants=description.invariants,
        seen=description.seen,
        rules=chosen,
    )


def script(rule: Rule, scene: Scene) -> str:
    """The script for Yosys that makes the graph."""

    def there(selection: str) -> bool:
        return selection.partition("/")[0] in scene.modules

    first = [
        f"setattr -set init {len(bits)}'b{bits} {selection}"
        for selection, bits in rule.first.items()
        if there(selection)
    ]
    cutpoints = [f"cutpoint {selection}" for selection in rule.cutpoints if there(selection)]
    seen = [
        f"connect -nounset -set seen_{name}_{index} {MODULE}.{path}"
        for name, one in scene.seen.items()
        if not _is_cut(one, rule, scene)
        for index, path in enumerate(one.paths)
    ]
    return _SCRIPT.format(first="\n".join(first), cutpoints="\n".join(cutpoints), seen="\n".join(seen))


def _is_cut(one: Seen, rule: Rule, scene: Scene) -> bool:
    """Return whether a signal is inside an instance that is free."""
    inner, places = scene.hierarchy, (path.split(".") for path in one.paths)
    return any(
        f"{inner['.'.join([MODULE, *names[:depth]])]}/{names[depth]}" in rule.cutpoints
        for names in places
        for depth in range(len(names) - 1)
    )


def top_text(rule: Rule, scene: Scene) -> str:
    """The Verilog around it: what is constant, what is free, and what is shown."""
    ports, body, connections = ["input clk"], list[str](), [".clk(clk)", ".rst(1'b0)"]
    for port in scene.ports:
        name, bits = port["name"], f"[{port['width'] - 1}:0]"
        signal = name
        if name in ("clk", "rst"):
            continue
        if name in ("prompt", "holds"):
            signal = f"1'b{int(getattr(rule, name))}"
        elif name.startswith("seen_"):
            body += _seen_wires(name, rule, scene)
        elif name in _CONSTANT:
            body.append(f"(* anyconst *) reg {bits} {name};")
        elif port["direction"] == "input":
            ports.append(f"input {bits} {name}")
        elif name == f"wrong_{rule.name}":
            ports += [f"output {WRONG}", f"output {bits} {PARTS}"]
            body.append(f"assign {WRONG} = |{PARTS};")
            signal = PARTS
        elif name == f"broken_{rule.name}":
            ports += [f"output {BROKEN}", f"output {bits} {INVARIANTS}"]
            body.append(f"assign {BROKEN} = |{{{INVARIANTS}{'' if rule.within else f', {PARTS}'}}};")
            signal = INVARIANTS
        elif name.startswith("rvfi_"):
            ports.append(f"output {bits} {name}")
        else:
            continue
        connections.append(f".{name}({signal})")
    header, instance = ",\n    ".join(ports), ",\n    ".join(connections)
    lines = [f"module top (\n    {header}\n);", *body, f"{MODULE} {MODULE} (\n    {instance}\n);", "endmodule"]
    return "\n".join([*lines, ""])


def _seen_wires(name: str, rule: Rule, scene: Scene) -> list[str]:
    """Wires that Yosys connects to signals inside the core, or 0 if these are inside what is free."""
    width, paths = one = scene.seen[name.removeprefix("seen_")]
    if _is_cut(one, rule, scene):
        return [f"wire [{width - 1}:0] {name} = 0;"]
    wires = [f"{name}_{index}" for index in range(len(paths))]
    joined = ", ".join(reversed(wires))
    return [
        *(f"wire [{width // len(paths) - 1}:0] {wire};" for wire in wires),
        f"wire [{width - 1}:0] {name} = {{{joined}}};",
    ]


def latches(end: str, folder: Path, above: int = 0) -> frozenset[int]:
    """Numbers of the latches of a register, from a bit on, by the end of its path."""
    rows = re.findall(r"^latch (\d+) (\d+) (.*)$", (folder / "rule.map").read_text(), re.MULTILINE)
    return frozenset(int(number) for number, bit, name in rows if name.endswith(end) and int(bit) >= above)


def narrowed(rule: Rule, graph: Named, parts: Sequence[str], folder: Path) -> Aiger:
    """The graph that is searched, with 0 in the upper bits of narrow registers.

    It has an output before the others: whether a part that is looked at is wrong.
    """
    kept = list(graph.graph.latches)
    for end, bits in rule.narrow.items():
        for number in latches(end, folder, above=bits):
            kept[number] = (FALSE, 0)
    made = ClockedGraph()
    inputs = made.inputs(graph.graph.inputs)
    state = [made.latch(reset) for _, reset in kept]
    copied = made.copy(graph.graph, [*inputs, *state])
    for latch, (following, _) in zip(state, kept, strict=True):
        made.follow(latch, at(copied, following))
    shown = [at(copied, literal) for literal in graph.graph.outputs]
    numbers = graph.outputs[PARTS]
    looked_at = [
        shown[numbers[bit]] for bit, name in enumerate(parts) if name not in rule.unsearched and bit in numbers
    ]
    return made.aiger([made.any(looked_at), *shown])


def build_graph(rule: Rule, scene: Scene, folder: Path, yosys: Yosys) -> Named:
    """Make the graph in ``folder``; raises :class:`ToolError` if Yosys cannot."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "core.v").write_text("\n".join(scene.modules.values()))
    (folder / "top.sv").write_text(top_text(rule, scene))
    yosys.run(script(rule, scene), folder, what=rule.name, results=["rule.aig", "rule.map"], name="rule")
    return read_named(folder / "rule.aig", folder / "rule.map")
