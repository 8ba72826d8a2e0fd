"""Scripts for Yosys, OpenSTA and OpenROAD-flow-scripts."""

from xpulpnn_sim.publishing.packages.design import Design
from xpulpnn_sim.publishing.packages.template import fill

_PS_PER_NS = 1000


def synthesis_files(design: Design) -> dict[str, str]:
    """Files of the folder ``syn``, by name."""
    files = design.rtl_files
    return {
        "yosys.sh": fill(
            "yosys.sh",
            module=design.module,
            top=design.top,
            files=" ".join(files),
            picoseconds=round(design.clock_ns * _PS_PER_NS),
        ),
        "opensta.tcl": fill("opensta.tcl", module=design.module, top=design.top),
        "orfs/config.mk": fill(
            "config.mk",
            module=design.module,
            top=design.top,
            files=" \\\n".join(f"    $(XPULPNN_PACKAGE)/{name}" for name in files),
        ),
    }
