"""The hardware units that have a bench: how each is built and what its bench is told."""

from collections.abc import Mapping

from xpulpnn_sim.benches.benched import BenchedUnit
from xpulpnn_sim.benches.cluster_units import CLUSTER_UNITS
from xpulpnn_sim.benches.core_units import CORE_UNITS

UNITS: Mapping[str, BenchedUnit] = {**CORE_UNITS, **CLUSTER_UNITS}  # the units by name
