"""A cluster of xpulpnn, HARTS cores, as a target of the end-to-end debug tests of riscv-tests."""

import os

from xpulpnn_core import CoreHart, Simulation, XpulpnnCore

HARTS = int(os.environ.setdefault("HARTS", "2"))


class XpulpnnCluster(XpulpnnCore):
    harts = [CoreHart() for _ in range(HARTS)]
    openocd_config_path = "xpulpnn_cluster.cfg"
    timeout_sec = 120

    def create(self):
        return Simulation("--preset", "cluster2", "--cores", str(HARTS))


# the suite takes the one class of this file
del XpulpnnCore
