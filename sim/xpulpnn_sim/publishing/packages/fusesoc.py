"""The FuseSoC core file (CAPI2): what to read, lint and simulate, and options of the simulators."""

from collections.abc import Iterable

from xpulpnn_sim.publishing.packages.design import GENERATED, LICENCE, Design
from xpulpnn_sim.publishing.packages.ipxact import LIBRARY, VENDOR

VERILATOR_BINARY = ("--timing", "-Wno-fatal", "-CFLAGS", "-std=gnu++20", "-LDFLAGS", "-pthread")
"""For ``verilator --binary``.

Warnings of a newer Verilator do not keep the testbench from running. C++20 and threads are named because a Verilator
that was not configured on the machine, such as the Python wheel, does not know how to ask for them.
"""

VERILATOR_MAKE = "VM_PARALLEL_BUILDS=1 CFG_CXXFLAGS_PCH_I=-include CFG_GCH_IF_CLANG="
"""Variables of Verilator's makefiles.

A compiler run per file, since joining them takes Python; and how GCC and clang read the precompiled header, which is
made in any case and which the wheel leaves out.
"""


def _file_list(files: Iterable[str]) -> str:
    return "".join(f"      - {name}\n" for name in files)


_SIMULATED_FILES = """\
  tb:
    files:
{bench}\
    file_type: verilogSource-2005

  data:
    files:
{data}\

"""

_SIMULATION = """
  sim:
    <<: *default
    description: Self-checking testbench with Icarus Verilog; --tool=verilator behind the name takes Verilator
    flow: sim
    flow_options:
      tool: icarus
      iverilog_options: [-g2005]
      mode: binary
      verilator_options: [{options}]
    filesets: [rtl, tb, data]
    toplevel: {toplevel}
"""


def core_file(design: Design, testbench: Iterable[str]) -> str:
    """``TOP.core``; ``testbench`` are the paths of the files in ``tb``, if there are any."""
    bench = [name for name in testbench if name.endswith(".v")]
    data = [name for name in testbench if name.endswith(".hex")]
    copied = "".join(f"      - {name}: {{file_type: user, copyto: {name}}}\n" for name in data)
    options = ", ".join([*VERILATOR_BINARY, "-MAKEFLAGS", f"'\"{VERILATOR_MAKE}\"'"])
    toplevel = f"{design.identifier}_tb"
    filesets = _SIMULATED_FILES.format(bench=_file_list(bench), data=copied) if bench else ""
    target = _SIMULATION.format(options=options, toplevel=toplevel) if bench else ""
    return f"""\
CAPI=2:
# {GENERATED}
# {LICENCE}

name: {VENDOR}:{LIBRARY}:{design.module}:{design.version}
description: {design.top} of the xpulpnn generator

filesets:
  rtl:
    files:
{_file_list(design.rtl_files)}\
    file_type: verilogSource-2005

{filesets}\
  constraints:
    files:
      - constraints/{design.top}.sdc
    file_type: SDC

targets:
  default: &default
    filesets: [rtl]
    toplevel: {design.module}

  lint:
    <<: *default
    description: Lint with Verilator, all warnings on
    flow: lint
    flow_options:
      tool: verilator
      verilator_options: [-Wall]
{target}\
"""
