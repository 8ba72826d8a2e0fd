"""Options of the simulators, for the Makefile and the FuseSoC core file alike."""

VERILATOR_BINARY = ("--timing", "-Wno-fatal", "-CFLAGS", "-std=gnu++20", "-LDFLAGS", "-pthread")
"""For ``verilator --binary``.

Warnings of a newer Verilator do not keep the testbench from running. C++20 and threads are named because a Verilator
that was not configured on the machine, such as the Python wheel, does not know how to ask for them.
"""

VERILATOR_MAKE = "VM_PARALLEL_BUILDS=1 VK_PCH_I_FAST= VK_PCH_I_SLOW="
"""Variables of Verilator's makefiles.

A compiler run per file, since joining them takes Python, and no precompiled header, for which the wheel lacks the
option.
"""
