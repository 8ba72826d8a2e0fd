"""Runs a module of LiteX with the CPUs of this package."""

import runpy
import sys

from litex.soc.cores import cpu

from xpulpnn_sim.publishing.litex.cpu.core import CPUS

cpu.CPUS.update(CPUS)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
