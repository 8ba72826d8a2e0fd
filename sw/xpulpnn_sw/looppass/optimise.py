"""The pass over one file of assembly."""

from dataclasses import dataclass, field

from xpulpnn.config import CoreConfig
from xpulpnn_sw.looppass.hwloops import HardwareLoops, Outcome
from xpulpnn_sw.looppass.listing import Listing


@dataclass(slots=True)
class Report:
    """What the pass did to a file.

    Members
    -------
    loops : list of Outcome
        Every loop.
    skipped : dict of str to str
        Functions left as they are, with the reason.
    accesses : int
        Loads and stores that now increment their base.
    indexed : int
        Loads that now add two registers.
    """

    loops: list[Outcome] = field(default_factory=list[Outcome])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    accesses: int = 0
    indexed: int = 0


def optimise(assembly: str, config: CoreConfig, *, report: Report | None = None) -> str:
    """The same program with hardware loops and post-increment accesses.

    Parameters
    ----------
    assembly : str
        What GCC or clang wrote for RV32IMC, with or without instructions of the extensions from intrinsics.
    config : CoreConfig
        The core it is for; without XpulpV2 the text comes back as it is.
    report : Report, optional
        Collects what was done.
    """
    if not config.xpulpv2:
        return assembly
    found = Report() if report is None else report
    listing = Listing(assembly)
    for number, function in enumerate(listing.functions):
        if function.obstacle:
            found.skipped[function.name] = function.obstacle
            continue
        found.loops += HardwareLoops(function, f".Lxp_end_{number}_").run()
    return listing.text()
