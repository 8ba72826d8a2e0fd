"""Emitted Verilog of configurations, as the flows take it."""

from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.exploration.results import Configuration, EmittedDesign


def emit_design(top: str, config: Configuration) -> EmittedDesign:
    """Verilog and manifest of the component ``top``, one of ``top_names.ALL_TOPS``, through the cache.

    Raises :class:`~xpulpnn.errors.ConfigError` if the configuration has no such component.
    """
    verilog, manifest = cached_emission(top, config)
    return EmittedDesign(top=top, module=manifest["top"], config=config, verilog=verilog, manifest=manifest)
