"""Run a LiteX module with the CPUs of this package."""

import runpy
import shutil
import sys
from argparse import ArgumentParser

from litex.soc.cores import cpu

from xpulpnn_sim.publishing.litex.cpu.core import CPUS

_TRIPLES = cpu.CPU_GCC_TRIPLE_RISCV32
cpu.CPUS.update(CPUS)
sys.argv = sys.argv[1:]
parser = ArgumentParser(add_help=False, allow_abbrev=False)
parser.add_argument("--cpu-type")
parser.add_argument("--cpu-variant")
parser.add_argument("--with-jtagremote", action="store_true")
requested, _ = parser.parse_known_args()
if requested.cpu_type in CPUS and requested.cpu_variant not in (None, *CPUS[requested.cpu_type].variants):
    # LiteX reports this after a page of log
    variants = ", ".join(CPUS[requested.cpu_type].variants)
    print(f"error: --cpu-variant must be one of {variants}, not {requested.cpu_variant}", file=sys.stderr)
    sys.exit(2)
variant = requested.cpu_variant or "standard"
if requested.cpu_type in CPUS and requested.with_jtagremote and not variant.endswith("+debug"):
    print(f"error: --cpu-variant must end with +debug for --with-jtagremote, not be {variant}", file=sys.stderr)
    sys.exit(2)
software = {"--help", "-h", "--no-compile", "--no-compile-software"}.isdisjoint(sys.argv)
if requested.cpu_type in CPUS and software and not any(shutil.which(f"{name}-gcc") for name in _TRIPLES):
    need = "apt-get install gcc-riscv64-unknown-elf, or --no-compile-software"
    print(f"error: a RISC-V GCC must be installed for the software of LiteX: {need}", file=sys.stderr)
    sys.exit(2)
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
