"""Options of the simulators, for the Makefile and the FuseSoC core file alike."""

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
