"""The synthesis flows by their names on the command line, as steps of a point."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from xpulpnn.errors import InputError
from xpulpnn.settings import apply_settings
from xpulpnn_sim.exploration.asic import AsicFlow
from xpulpnn_sim.exploration.builtin import builtin_library
from xpulpnn_sim.exploration.cache import cached_flow, emit_design
from xpulpnn_sim.exploration.cluster_flow import ClusterFlow, part
from xpulpnn_sim.exploration.fpga import DEVICE_FAMILIES, FpgaFlow
from xpulpnn_sim.exploration.library import Library, load_library
from xpulpnn_sim.exploration.options import WHOLE_CLUSTERS
from xpulpnn_sim.exploration.results import EmittedDesign, Flow
from xpulpnn_sim.exploration.task import ResultField, StepOutcome
from xpulpnn_sim.tools.top_names import CLUSTER_NAMES

FLOWS = ("asic", "builtin", "ecp5", "ice40")

INFERRED: Mapping[str, str] = {
    "multipliers": "replicated",
    "adders": "inferred",
    "multiplier": "inferred",
}
"""Structures for FPGAs with multipliers and carry chains of their own, which the tool finds only in plain operators."""

_INFERRING = frozenset({"ecp5"})

_NS_MHZ = 1e3
_CLOCK = re.compile(r"(?P<number>\d+(\.\d*)?|\.\d+) *(?P<unit>ns|mhz|)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Flows that are asked for."""

    flows: tuple[str, ...]
    scripts: tuple[str, ...]  # out of SCRIPTS, for the flows that have them
    liberty: Path | None  # Liberty file of the flow `asic`
    seeds: int  # placements of the FPGA flows
    repeat: int = 1  # runs of the ASIC flows, each with cells and nets in another order
    clock_ns: float | None = None  # clock period to reach
    yosys: str = ""  # which Yosys (see find_yosys)
    # parameters of the configurations that the user has chosen, which no flow may change
    chosen: frozenset[str] = frozenset()


def parse_clock(text: str) -> float:
    """A clock as a period in ns: ``5``, ``5ns`` or ``200MHz``; raises :class:`InputError` for anything else."""
    found = _CLOCK.fullmatch(text.strip())
    number = float(found["number"]) if found else 0.0
    if found is None or not number:
        raise InputError(f"clock must be a positive period in ns or a frequency such as 200MHz, not {text or 'empty'}")
    return _NS_MHZ / number if found["unit"].lower() == "mhz" else number


@dataclass(frozen=True, slots=True)
class FlowStep:
    """A synthesis flow, through the cache."""

    flow: Flow
    # parameters that stay as they are even if the flow would do better with others
    chosen: frozenset[str] = frozenset()
    kind: ResultField = "flows"

    @property
    def name(self) -> str:
        """Flow and script, such as ``asic-speed``."""
        return f"{self.flow.name}-{self.flow.script}" if self.flow.script else self.flow.name

    @property
    def structures(self) -> dict[str, str]:
        """Parameters that the flow sets in all configurations."""
        if self.flow.name not in _INFERRING:
            return {}
        return {key: value for key, value in INFERRED.items() if key not in self.chosen}

    def settings(self) -> Mapping[str, str]:
        """Settings of the flow, and the structures it sets."""
        return {**self.flow.settings(), **self.structures}

    def run(self, design: EmittedDesign) -> StepOutcome:
        """Area and timing of the design."""
        is_part = design.top in CLUSTER_NAMES and design.top not in WHOLE_CLUSTERS
        changed = part(design, design.module) if is_part else design
        if self.structures:
            changed = emit_design(design.top, apply_settings(design.config, self.structures))
        output, hit = cached_flow(self.flow, changed)
        if not self.structures or changed.code == design.code:
            return StepOutcome(result=output.result, cached=hit, files=output.files)
        told = ", ".join(f"{key}={value}" for key, value in self.structures.items())
        text = f"Structures: {told}, as this FPGA wants them, whatever the preset has; settings can choose others."
        result = replace(output.result, structures=self.structures, conditions=[text, *output.result.conditions])
        return StepOutcome(result=result, cached=hit, files={f"{design.top}.v": changed.verilog, **output.files})


def library(request: Request) -> Library:
    """The user's library, or the built-in one without one."""
    return builtin_library() if request.liberty is None else load_library(request.liberty)


def flow_steps(request: Request, top: str = "") -> list[FlowStep]:
    """A step for each flow and script."""
    steps: list[FlowStep] = []
    for name in request.flows:
        if name in DEVICE_FAMILIES:
            if top in CLUSTER_NAMES:
                raise InputError(f"flow must be asic or builtin for {top}, not {name}")
            flows: list[Flow] = [FpgaFlow(name, request.seeds, clock_ns=request.clock_ns, yosys=request.yosys)]
        else:
            cells = library(replace(request, liberty=None) if name == "builtin" else request)
            keep = top in WHOLE_CLUSTERS
            how = {"repeat": request.repeat, "clock_ns": request.clock_ns, "yosys": request.yosys, "keep": keep}
            mapping = [AsicFlow(cells, name, script, **how) for script in request.scripts]
            flows = [ClusterFlow(flow) for flow in mapping] if keep else [*mapping]
        steps += [FlowStep(flow, request.chosen) for flow in flows]
    return steps
