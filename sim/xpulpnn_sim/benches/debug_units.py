"""The units of external debugging that have a bench."""

from collections.abc import Callable

from amaranth.lib import wiring

from xpulpnn.debug.config import DebugConfig
from xpulpnn.debug.dtm import JtagDtm
from xpulpnn.debug.module import DebugModule


def debug_units() -> dict[str, tuple[str, Callable[[], wiring.Component], dict[str, int]]]:
    """Bench, component and what the bench is told, by the name of the unit."""
    # many harts take turns, which takes time
    counts = {"dm": (1, 50), "dm-3": (3, 30), "dm-8": (8, 12)}
    found: dict[str, tuple[str, Callable[[], wiring.Component], dict[str, int]]] = {
        name: (
            "debug_module",
            lambda harts=harts: DebugModule(DebugConfig(harts=harts)),
            {"harts": harts, "steps": steps, "flags": 200, "accesses": 100},
        )
        for name, (harts, steps) in counts.items()
    }
    found["jtag-dtm"] = "jtag_dtm", lambda: JtagDtm(DebugConfig()), {"idcode": DebugConfig().idcode, "scans": 60}
    return found
