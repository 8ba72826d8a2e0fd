"""All tables by name."""

from collections.abc import Mapping

from xpulpnn_sim.papers.table import Table
from xpulpnn_sim.papers.tables import xpulpnn

TABLES: Mapping[str, Table] = {module.TABLE.name: module.TABLE for module in (xpulpnn,)}
"""In the order shown."""
