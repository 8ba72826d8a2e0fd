"""The hardware units that have a bench: how each is built and what its bench is told."""

from collections.abc import Mapping

from xpulpnn_sim.bench.benched import BenchedUnit
from xpulpnn_sim.bench.cluster_units import CLUSTER_UNITS
from xpulpnn_sim.bench.core_units import CORE_UNITS

UNITS: Mapping[str, BenchedUnit] = {**CORE_UNITS, **CLUSTER_UNITS}
"""The units by name."""
