"""Emitted Verilog of configurations, as the flows take it."""

from xpulpnn_sim.explorer.results import Configuration, EmittedDesign
from xpulpnn_sim.harness.models import cached_emission


def emit_design(top: str, config: Configuration) -> EmittedDesign:
    """Verilog and manifest of the component ``top``, one of :data:`xpulpnn_sim.top_names.ALL_TOPS`, through the cache.

    Raises :class:`~xpulpnn.errors.ConfigError` if the configuration has no such component.
    """
    verilog, manifest = cached_emission(top, config)
    return EmittedDesign(top=top, module=manifest["top"], config=config, verilog=verilog, manifest=manifest)
