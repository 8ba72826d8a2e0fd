"""The properties between instructions: what each says, and what it needs of the core; the rest takes any values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.tools.probes import LOOP_REGISTERS, NNRF_REGISTERS, PIPELINE_CUTS

WINDOW = 16
"""Cycles in which something retires with prompt memories, in ``progress``, but for those in which a unit computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineProperty:
    name: str
    statement: str  # what must hold
    limits: str = ""  # what it leaves out, or an empty string
    # instances and wires whose values are free in every cycle, as Yosys selects them: `MODULE/INSTANCE` and
    # `MODULE/w:WIRE`
    cutpoints: tuple[str, ...]
    # registers that start with any values: their bits, `x` for any, by `MODULE/w:REGISTER`
    initial: Mapping[str, str] = field(default_factory=dict[str, str])
    prompt: bool = False  # the memories grant at once and answer in the next cycle
    # at one address the instruction memory holds always the same, the data memory what was stored there
    fixed_memory: bool = False
    halts: bool = False  # a debug module may ask the core to halt in any cycle
    # if not 0, nothing is wrong this number of cycles after any state that keeps the invariants in which what `counts`
    # is 0, so that it never is; else that follows from one cycle to the next
    within: int = 0
    counts: str = ""  # A register that is counted from 0 up to where something is wrong
    # last cycle that is searched where the property is not proved of every cycle, unless another is asked for
    depth: int = 15


_DATA = ("units", "counters", "fetched", "csrs", "operands", "alu", "nnrf", "loaded", "loops")


def _cut_but(*needed: str) -> tuple[str, ...]:
    """Cutpoints of all data of the core but some."""
    return tuple(selection for name in _DATA if name not in needed for selection in PIPELINE_CUTS[name])


def _any(high: int, low: int = 0) -> str:
    """32 bits, of which those from ``low`` up to ``high`` are free."""
    return "0" * (32 - high) + "x" * (high - low) + "0" * low


_LOOPS = PipelineProperty(
    name="loops",
    statement="where each instruction goes on, and what is left of the counts, whatever the loops were before",
    cutpoints=_cut_but("loaded", "loops"),
    initial={
        f"{register}{loop}": _any(32, int(name != "count"))
        for name, register in LOOP_REGISTERS.items()
        for loop in range(2)
    },
)

_MAC_LOAD = PipelineProperty(
    name="mac_load",
    statement="each factor is what the last older load of its entry brought, each load goes to the entry it names",
    cutpoints=_cut_but("nnrf"),
    initial={NNRF_REGISTERS: _any(32)},
)

_HALTS = PipelineProperty(
    name="halts",
    statement="halts, steps and resumptions lose no instruction, repeat none, come in time, and enter no trap",
    cutpoints=_cut_but("csrs"),
    halts=True,
    depth=20,
)

_COMMON = (
    PipelineProperty(
        name="obi",
        statement="requests stay until granted, whole words, bytes next to each other, no more under way than allowed",
        cutpoints=_cut_but("alu", "loops"),
    ),
    PipelineProperty(
        name="fetches",
        statement="each instruction is what memory holds at its address, and traps if the bus fails there",
        limits="memory that does not change",
        cutpoints=_cut_but("fetched"),
        fixed_memory=True,
    ),
    PipelineProperty(
        name="interrupts",
        statement="none late, lost, taken twice or imprecise; mret returns; wfi wakes",
        cutpoints=_cut_but("csrs"),
    ),
    PipelineProperty(
        name="registers",
        statement="each register read, in any of three fields, has what was written there last, through either port",
        cutpoints=_cut_but("operands"),
    ),
    PipelineProperty(
        name="data",
        statement="each load brings what the last older store put there, whatever sizes and addresses",
        cutpoints=_cut_but("alu", "loaded"),
        initial={"harness/w:data_value": "x"},
        fixed_memory=True,
    ),
    PipelineProperty(
        name="system",
        statement="CSRs keep what is written; exceptions, mret and fence.i do what they must, and nothing else does",
        cutpoints=_cut_but("csrs"),
    ),
    PipelineProperty(
        name="progress",
        statement=(
            f"something retires within {WINDOW} cycles or an interrupt is taken, unless wfi waits or a unit computes"
        ),
        limits="memories that answer in the next cycle",
        cutpoints=_cut_but(),
        prompt=True,
        within=WINDOW + 1,
        counts="progress_quiet",
        depth=40,
    ),
)


def pipeline_properties(config: CoreConfig) -> list[PipelineProperty]:
    """The properties that a core has something to do with."""
    if config.qnt:
        raise InputError("qnt must be false for these properties, not true")
    properties = [_LOOPS] if config.xpulpv2 else []
    properties += [_MAC_LOAD] if config.mac_load else []
    return [*properties, *_COMMON, *([_HALTS] if config.debug else [])]
