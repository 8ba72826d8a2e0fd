"""Emitted designs and results of flows on disk, under a hash of everything that determines them."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import TypeVar

from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.exploration.results import Configuration, EmittedDesign, EnergyResult, Flow, FlowOutput, from_json
from xpulpnn_sim.tools import results
from xpulpnn_sim.tools.results import cached_results, digest

_Result = TypeVar("_Result", FlowOutput, EnergyResult)


_SHOWS_ONLY = frozenset({"benches", "cli", "proofs", "publishing", "report", "verification"})
"""Folders of sources that no result depends on."""


def design_sources_digest() -> str:
    """Hash of the sources of generator, kernels and simulation, and of the version of the hardware language."""
    return results.sources_digest(_SHOWS_ONLY)


def emit_design(top: str, config: Configuration) -> EmittedDesign:
    """Verilog and manifest of the component ``top``, one of ``top_names.ALL_TOPS``, through the cache.

    Raises :class:`~xpulpnn.errors.ConfigError` if the configuration has no such component.
    """
    verilog, manifest = cached_emission(top, config)
    return EmittedDesign(top=top, module=manifest["top"], config=config, verilog=verilog, manifest=manifest)


def cached(folder: str, key: str, kind: type[_Result], make: Callable[[], _Result]) -> tuple[_Result, bool]:
    """The result kept as ``key``, and whether it was there; an entry that cannot be read is made anew."""
    results = cached_results(folder)
    if (found := results.find(key)) is not None:
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            return from_json(kind, found), True
    result = make()
    results.keep(key, asdict(result))
    return result, False


def cached_flow(flow: Flow, design: EmittedDesign) -> tuple[FlowOutput, bool]:
    """Result and files of a flow, and whether it came from the cache; raises what :meth:`Flow.run` raises."""
    key = digest(flow.name, flow.script, flow.settings(), design.module, design.code, design.memories)
    return cached("flows", key, FlowOutput, lambda: flow.run(design))
