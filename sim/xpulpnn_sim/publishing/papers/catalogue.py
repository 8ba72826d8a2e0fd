"""All tables by name."""

from collections.abc import Mapping

from xpulpnn_sim.publishing.papers.table import Table
from xpulpnn_sim.publishing.papers.tables import cifar10, classifier, mixed, pulp_nn, ulppack, xpulpnn

TABLES: Mapping[str, Table] = {
    module.TABLE.name: module.TABLE for module in (xpulpnn, pulp_nn, mixed, ulppack, classifier, cifar10)
}
"""In the order shown."""
