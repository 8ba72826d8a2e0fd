"""The synthesis flows by their names on the command line, as steps of a point."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from xpulpnn.errors import InputError
from xpulpnn_sim.explorer.cache import cached_flow
from xpulpnn_sim.explorer.library import Library, load_library
from xpulpnn_sim.explorer.results import EmittedDesign, Flow
from xpulpnn_sim.explorer.task import ResultField, StepOutcome

FLOWS = ("asic", "builtin", "ecp5", "ice40")
SCRIPTS = ("area", "speed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Flows that are asked for.

    Parameters
    ----------
    flows : tuple of str
        Out of :data:`FLOWS`.
    scripts : tuple of str
        Out of :data:`SCRIPTS`, for the flows that have them.
    liberty : Path or None
        Liberty file of the flow ``asic``.
    seeds : int
        Placements of the FPGA flows.
    """

    flows: tuple[str, ...]
    scripts: tuple[str, ...]
    liberty: Path | None
    seeds: int


@dataclass(frozen=True, slots=True)
class FlowStep:
    """A synthesis flow, through the cache."""

    flow: Flow
    kind: ResultField = "flows"

    @property
    def name(self) -> str:
        """Flow and script, such as ``asic-speed``."""
        return f"{self.flow.name}-{self.flow.script}" if self.flow.script else self.flow.name

    def settings(self) -> Mapping[str, str]:
        """Those of the flow."""
        return self.flow.settings()

    def run(self, design: EmittedDesign) -> StepOutcome:
        """Area and timing of the design."""
        result, hit = cached_flow(self.flow, design)
        return StepOutcome(result=result, cached=hit)


def library(request: Request) -> Library:
    """The user's library, or the built-in one without one."""
    if request.liberty is not None:
        return load_library(request.liberty)
    from xpulpnn_sim.explorer.builtin import builtin_library

    return builtin_library()


def flow_steps(request: Request) -> list[FlowStep]:
    """A step for each flow and script; raises :class:`~xpulpnn.errors.ToolError` for an unreadable library."""
    return [FlowStep(flow) for name in request.flows for flow in _flows(name, request)]


def _flows(name: str, request: Request) -> list[Flow]:
    match name:
        case "ecp5" | "ice40":
            from xpulpnn_sim.explorer.fpga import FpgaFlow

            return [FpgaFlow(name, request.seeds)]
        case "asic" | "builtin":
            from xpulpnn_sim.explorer.asic import AsicFlow

            cells = library(replace(request, liberty=None) if name == "builtin" else request)
            return [AsicFlow(cells, name, script) for script in request.scripts]
        case _:
            raise InputError(f"flow must be one of {', '.join(FLOWS)}, not {name}")
