"""The pass over one file of assembly."""

import re
from collections import Counter
from dataclasses import dataclass, field

from xpulpnn.config import CoreConfig
from xpulpnn_sw.assembly.looppass.accesses import AccessTally, improve, spread_loads
from xpulpnn_sw.assembly.looppass.flow import FlowGraph, live_before
from xpulpnn_sw.assembly.looppass.handlers import keep_loops
from xpulpnn_sw.assembly.looppass.hwloops import HardwareLoops, LoopOutcome
from xpulpnn_sw.assembly.looppass.listing import ListedFunction, Listing


@dataclass(slots=True)
class PassReport:
    """Changes that the pass made to a file."""

    loops: list[LoopOutcome] = field(default_factory=list[LoopOutcome])
    skipped: dict[str, str] = field(default_factory=dict[str, str])  # functions left as they are, with the reason
    handlers: int = 0  # interrupt handlers that save the loop registers for the functions they call
    tally: AccessTally = field(default_factory=AccessTally)  # loads and stores that have changed

    def merge(self, other: "PassReport") -> None:
        """Add what was done to other files."""
        self.loops += other.loops
        self.skipped |= other.skipped
        self.handlers += other.handlers
        self.tally.increments += other.tally.increments
        self.tally.sums += other.tally.sums

    @property
    def turned(self) -> int:
        """Loops that are hardware loops now."""
        return sum(outcome.level is not None for outcome in self.loops)

    def refusals(self) -> dict[str, int]:
        """Loops that stay as they were, by reason."""
        return dict(Counter(outcome.reason for outcome in self.loops if outcome.level is None).most_common())


_ASM = re.compile(r"\b(?:__asm__|__asm|asm)\s+(?:__)?volatile(?:__)?\b")
_VOLATILE = re.compile(r"\b(?:__)?volatile(?:__)?\b|\b_Atomic\b|\b__(?:atomic|sync|c11)_")


def has_volatile(source: str) -> bool:
    """Return whether a preprocessed C source may have objects whose accesses must keep their order."""
    return _VOLATILE.search(_ASM.sub("", source)) is not None


def optimise(assembly: str, config: CoreConfig, *, swap_loads: bool = False, report: PassReport | None = None) -> str:
    """The same program with hardware loops and post-increment accesses."""
    if not config.xpulpv2:
        return assembly
    found = PassReport() if report is None else report
    listing = Listing(assembly)
    for number, function in enumerate(listing.functions):
        if function.obstacle:
            found.skipped[function.name] = function.obstacle
            continue
        found.loops += HardwareLoops(function, f".Lxp_end_{number}_").run()
        _improve(function, found.tally, swap_loads=swap_loads)
        found.handlers += keep_loops(function)
    return listing.text()


def _improve(function: ListedFunction, tally: AccessTally, *, swap_loads: bool) -> None:
    """Change the blocks of a function; inside loops, also their order."""
    flow = FlowGraph(function)
    looping = {index for loop in flow.natural_loops() for index in loop.blocks}
    for index, block in enumerate(function.blocks):
        tail = [block.terminator] if block.terminator else []
        live = live_before(tail, flow.live_out[index])
        block.replace_body(improve(block.body, live, tally, swap_loads=swap_loads))
        if index in looping:
            block.operations = spread_loads(block.operations, swap_loads=swap_loads)
