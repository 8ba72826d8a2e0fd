"""Run a LiteX module with the CPUs of this package."""

import runpy
import sys
from argparse import ArgumentParser

from litex.soc.cores import cpu

from xpulpnn_sim.publishing.litex.cpu.core import CPUS

cpu.CPUS.update(CPUS)
sys.argv = sys.argv[1:]
known = ArgumentParser(add_help=False, allow_abbrev=False)
known.add_argument("--cpu-type")
known.add_argument("--cpu-variant")
known.add_argument("--with-jtagremote", action="store_true")
asked, _ = known.parse_known_args()
if asked.cpu_type in CPUS and asked.cpu_variant not in (None, *CPUS[asked.cpu_type].variants):
    # LiteX reports this after a page of log
    variants = ", ".join(CPUS[asked.cpu_type].variants)
    print(f"error: --cpu-variant must be one of {variants}, not {asked.cpu_variant}", file=sys.stderr)
    sys.exit(2)
variant = asked.cpu_variant or "standard"
if asked.cpu_type in CPUS and asked.with_jtagremote and not variant.endswith("+debug"):
    print(f"error: --cpu-variant must end with +debug for --with-jtagremote, not be {variant}", file=sys.stderr)
    sys.exit(2)
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
