"""Gates of the core together with the properties, and the probes that the properties read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from xpulpnn.config import CoreConfig
from xpulpnn.errors import ToolError
from xpulpnn.verilog import EmittedVerilog, emit
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.proofs.engine.clocked_gates import ClockedGates
from xpulpnn_sim.proofs.faults.fault import Fault
from xpulpnn_sim.proofs.pipeline.catalog import PipelineProperty
from xpulpnn_sim.tools.netlists import read_module
from xpulpnn_sim.tools.probes import CORE_NETS, CORE_WORDS, ONLY_WITH
from xpulpnn_sim.tools.yosys import Yosys


class Probe(NamedTuple):
    width: int
    paths: tuple[str, ...]  # instance path and wire of each part, lowest bits first


def core_probes(config: CoreConfig) -> Mapping[str, Probe]:
    """Return probes by name except those in absent units; raise :class:`ToolError` if a unit lacks a signal."""
    _, manifest = cached_emission("core", replace(config, rvfi=True))
    widths = {
        f"{place}.{net['name']}": net["width"]
        for place, module in manifest["hierarchy"].items()
        for kind in ("ports", "registers", "signals")
        for net in manifest["modules"][module][kind]
    }
    # alternative names of each part of a signal
    parts = {name: [each.split() for each in paths] for name, paths in CORE_WORDS.items()}
    for place, written in CORE_NETS.items():
        for name, _, inside in (each.partition("=") for each in written.split()):
            parts.setdefault(name, [[]])[0].append(f"{place}.{inside or name}")
    absent = tuple(path for setting, paths in ONLY_WITH.items() if not getattr(config, setting) for path in paths)
    paths_of: dict[str, tuple[str, ...]] = {}
    for name, names in ((name, names) for name, each in parts.items() for names in each):
        existing = next((each for each in names if each in widths), "")
        if existing:
            paths_of[name] = (*paths_of.get(name, ()), existing)
        elif not names[0].startswith(absent):
            raise ToolError(f"the emitted core must have {' or '.join(names)}, which is seen as {name}")
    return {name: Probe(sum(widths[path] for path in each), each) for name, each in paths_of.items()}


MODULE = "harness"  # module with the core, its memories and the properties

CONSTANT = ("boot_addr", "hart_id", "watched_register", "watched_entry", "watched_bit")
CONSTANT += ("debug_halt_addr", "debug_exception_addr")
CONSTANT += ("held_address", "held_halves", "held_fails")

_SCRIPT = f"""read_verilog -sv core.v
hierarchy -check -top {MODULE}
proc -noopt
{{first}}
{{cutpoints}}
flatten
{{outputs}}
{{ties}}
opt_clean
memory -nordff
opt -fast -nodffe -nosdff
opt_clean -purge
techmap
dffunmap
opt -fast -nodffe -nosdff
opt_clean
write_json rule.json
"""


@dataclass(frozen=True, slots=True)
class EmittedHarness:
    emitted: EmittedVerilog
    description: Any

    def with_fault(self, fault: Fault) -> "EmittedHarness":
        with fault.seeded():
            return emit_harness(self.description.config, self.description.seen)


def emit_harness(config: CoreConfig, probes: Mapping[str, Probe] | None = None) -> EmittedHarness:
    """Emit the core with its properties; raise :class:`InputError` for a core that is not supported."""
    # avoids a cyclic import
    from xpulpnn_sim.proofs.pipeline.properties.harness import CoreHarness

    description = CoreHarness(replace(config, rvfi=True), probes or core_probes(config))
    return EmittedHarness(emit(description, MODULE, config=description.config), description)


def script(checked: PipelineProperty, harness: EmittedHarness) -> str:
    def exists(selection: str) -> bool:
        return selection.partition("/")[0] in harness.emitted.modules

    starts = {selection: bits for selection, bits in checked.initial.items() if exists(selection)}
    first = [f"setattr -set init {len(bits)}'b{bits} {selection}" for selection, bits in starts.items()]
    cutpoints = [f"cutpoint {selection}" for selection in checked.cutpoints if exists(selection)]
    others = [name for name in harness.description.parts if name != checked.name]
    outputs = [f"delete -output {MODULE}/w:{kind}_{name}" for name in others for kind in ("wrong", "broken")]
    ties = {"rst": "1'b0", "prompt": f"1'b{checked.prompt:d}", "holds": f"1'b{checked.fixed_memory:d}"}
    if harness.description.config.debug and not checked.halts:
        ties["debug_req"] = "1'b0"
    for name, probe in harness.description.seen.items():
        ties[f"seen_{name}"] = f"{probe.width}'d0" if _is_cut(probe, checked, harness) else ",".join(probe.paths[::-1])
    tied = [f"delete -input w:{name}\nconnect -nounset -set {name} {value}" for name, value in ties.items()]
    return _SCRIPT.format(
        first="\n".join(first),
        cutpoints="\n".join(cutpoints),
        outputs="\n".join(outputs),
        ties="\n".join([f"cd {MODULE}", *tied, "cd .."]),
    )


def _is_cut(probe: Probe, checked: PipelineProperty, harness: EmittedHarness) -> bool:
    inner, places = harness.emitted.manifest["hierarchy"], (path.split(".") for path in probe.paths)
    return any(
        f"{inner['.'.join([MODULE, *names[:depth]])]}/{names[depth]}" in checked.cutpoints
        for names in places
        for depth in range(len(names) - 1)
    )


def build_gates(checked: PipelineProperty, harness: EmittedHarness, folder: Path, yosys: Yosys) -> ClockedGates:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "core.v").write_text("\n".join(harness.emitted.modules.values()))
    yosys.run(script(checked, harness), folder, what=checked.name, results=["rule.json"], name="rule")
    return ClockedGates(read_module(folder / "rule.json", MODULE))
