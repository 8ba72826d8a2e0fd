"""The loop pass, which optimises the assembly of one compiled file."""

import re
from collections import Counter
from dataclasses import dataclass, field

from xpulpnn.config import CoreConfig
from xpulpnn.isa.csr import CSR_BY_NAME
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sw.assembly.looppass.accesses import Tally, merge_additions, spread_loads
from xpulpnn_sw.assembly.looppass.counting import FlowGraph, live_before
from xpulpnn_sw.assembly.looppass.hwloops import HardwareLoops, LoopOutcome
from xpulpnn_sw.assembly.looppass.listing import ListedFunction, Listing, strip_comment
from xpulpnn_sw.assembly.looppass.operation import SP, FlowKind, ListedOperation, parse_operation

# in the order in which they are restored: the count arms a loop, so it comes last
_SAVED = tuple(CSR_BY_NAME[f"lp{part}{loop}"].address for loop in (0, 1) for part in ("start", "end", "count"))
_FRAME = 32  # bytes of the six registers and one more, on a stack that stays aligned to 16
_SPARE_AT = WORD_BYTES * len(_SAVED)
_ASM = re.compile(r"\b(?:__asm__|__asm|asm)\s+(?:__)?volatile(?:__)?\b")
_VOLATILE = re.compile(r"\b(?:__)?volatile(?:__)?\b|\b_Atomic\b|\b__(?:atomic|sync|c11)_")


def _is_compiled(function: ListedFunction) -> bool:
    """Return whether the compiler, and not inline assembly, wrote the return and the stack frame of a function."""
    in_statement, has_return = False, False
    for line in function.text:
        marker = line.strip()
        if marker in ("#APP", "#NO_APP"):
            in_statement = marker == "#APP"
        elif strip_comment(line) == "mret":
            if in_statement:
                return False
            has_return = True
    first = next((op for block in function.blocks[:1] for op in block.operations), None)
    return has_return and first is not None and (first.step(SP) or 0) < 0


def _instructions(text: str) -> list[ListedOperation]:
    return [parse_operation(statement.strip()) for statement in text.split(";")]


def save_loop_registers(function: ListedFunction) -> bool:
    """Save the loop registers in a function that is an interrupt handler with calls; return whether it is one."""
    calls = any(operation.kind is FlowKind.CALL for block in function.blocks for operation in block.operations)
    entry = function.blocks[0]
    if not calls or not _is_compiled(function) or entry.predecessors:
        return False
    places = [(csr, WORD_BYTES * number) for number, csr in enumerate(_SAVED)]
    loads = "; ".join(f"lw t0, {place}(sp); csrw 0x{csr:x}, t0" for csr, place in places)
    restoring = _instructions(f"{loads}; lw t0, {_SPARE_AT}(sp); addi sp, sp, {_FRAME}")
    for block in function.blocks:
        if block.terminator is not None and block.terminator.name == "mret":
            block.replace_body([*block.body, *restoring])
    # in front of the frame of the compiler, which is the first thing in the block
    stores = "; ".join(f"csrr t0, 0x{csr:x}; sw t0, {place}(sp)" for csr, place in places)
    entry.setup = _instructions(f"addi sp, sp, {-_FRAME}; sw t0, {_SPARE_AT}(sp); {stores}")
    return True


@dataclass(slots=True)
class PassReport:
    loops: list[LoopOutcome] = field(default_factory=list[LoopOutcome])
    skipped: dict[str, str] = field(default_factory=dict[str, str])  # unchanged functions with the reason
    handlers: int = 0  # interrupt handlers that save the loop registers for the functions they call
    increments: int = 0  # loads and stores that increment their base
    sums: int = 0  # loads and stores that add two registers

    def merge(self, other: "PassReport") -> None:
        self.loops += other.loops
        self.skipped |= other.skipped
        self.handlers += other.handlers
        self.increments += other.increments
        self.sums += other.sums

    @property
    def turned(self) -> int:
        return sum(outcome.level is not None for outcome in self.loops)

    def refusals(self) -> dict[str, int]:
        return dict(Counter(outcome.reason for outcome in self.loops if outcome.level is None).most_common())


def has_volatile(source: str) -> bool:
    return _VOLATILE.search(_ASM.sub("", source)) is not None


def optimise(assembly: str, config: CoreConfig, *, swap_loads: bool = False, report: PassReport | None = None) -> str:
    """Return the assembly with hardware loops and post-increment accesses; without XpulpV2 it is unchanged."""
    if not config.xpulpv2:
        return assembly
    summary = PassReport() if report is None else report
    listing, tally = Listing(assembly), Tally()
    for number, function in enumerate(listing.functions):
        if function.obstacle:
            summary.skipped[function.name] = function.obstacle
            continue
        loops = HardwareLoops(function, f".Lxp_end_{number}_")
        summary.loops += loops.run()
        if not loops.has_own:
            _improve(function, tally, swap_loads=swap_loads)
        summary.handlers += save_loop_registers(function)
    summary.increments += tally["increments"]
    summary.sums += tally["sums"]
    return listing.text()


def _improve(function: ListedFunction, tally: Tally, *, swap_loads: bool) -> None:
    flow = FlowGraph(function)
    looping = {index for loop in flow.natural_loops() for index in loop.blocks}
    for index, block in enumerate(function.blocks):
        tail = [block.terminator] if block.terminator else []
        live = live_before(tail, flow.live_out[index])
        block.replace_body(merge_additions(block.body, live, tally, swap_loads=swap_loads))
        if index in looping:
            block.operations = spread_loads(block.operations, swap_loads=swap_loads)
