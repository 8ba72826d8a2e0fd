"""The properties between instructions: what each says, and what it needs of the core; the rest takes any values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from xpulpnn.config import CoreConfig
from xpulpnn.errors import InputError

WINDOW = 16
"""Cycles in which something retires with prompt memories, in ``progress``, but for those in which a unit computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineProperty:
    """A property."""

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


_UNITS = ("ex_stage/mult", "ex_stage/div", "ex_stage/dotp", "ex_stage/dotp2", "wb_stage/requantiser")
_COUNTERS = ("csr_file/mcycle", "csr_file/minstret")
_FETCHED = ("prefetch_buffer/w:first", "prefetch_buffer/w:second")
_CSRS = ("csr_file/w:*_bits",)
_OPERANDS = ("id_stage/regfile",)
_ALU = ("ex_stage/alu",)
_NNRF = ("ex_stage/nnrf",)
_LOADED = ("lsu/w:aligned",)
_LOOPS = ("hw_loops/w:lp*",)


def _any(high: int, low: int = 0) -> str:
    """32 bits, of which those from ``low`` up to ``high`` are free."""
    return "0" * (32 - high) + "x" * (high - low) + "0" * low


_LOOPS_RULE = PipelineProperty(
    name="loops",
    statement="where each instruction goes on, and what is left of the counts, whatever the loops were before",
    cutpoints=(*_UNITS, *_COUNTERS, *_FETCHED, *_CSRS, *_OPERANDS, *_ALU, *_NNRF),
    initial={
        **{f"hw_loops/w:{name}{loop}": _any(32, 1) for name in ("lpstart", "lpend") for loop in range(2)},
        **{f"hw_loops/w:lpcount{loop}": _any(32) for loop in range(2)},
    },
)

_NN_RULE = PipelineProperty(
    name="mac_load",
    statement="each factor is what the last older load of its entry brought, each load goes to the entry it names",
    cutpoints=(*_UNITS, *_COUNTERS, *_FETCHED, *_CSRS, *_OPERANDS, *_ALU, *_LOADED, *_LOOPS),
    initial={"nn_rf/w:nn_*": _any(32)},
)

_HALTS_RULE = PipelineProperty(
    name="halts",
    statement="halts, steps and resumptions lose no instruction, repeat none, come in time, and enter no trap",
    cutpoints=(*_UNITS, *_COUNTERS, *_FETCHED, *_OPERANDS, *_ALU, *_NNRF, *_LOADED, *_LOOPS),
    halts=True,
    depth=20,
)

_COMMON = (
    PipelineProperty(
        name="obi",
        statement="requests stay until granted, whole words, bytes next to each other, no more under way than allowed",
        cutpoints=(*_UNITS, *_COUNTERS, *_FETCHED, *_CSRS, *_OPERANDS, *_NNRF, *_LOADED),
    ),
    PipelineProperty(
        name="fetches",
        statement="each instruction is what memory holds at its address, and traps if the bus fails there",
        limits="memory that does not change",
        cutpoints=(*_UNITS, *_COUNTERS, *_CSRS, *_OPERANDS, *_ALU, *_NNRF, *_LOADED, *_LOOPS),
        fixed_memory=True,
    ),
    PipelineProperty(
        name="interrupts",
        statement="none late, lost, taken twice or imprecise; mret returns; wfi wakes",
        cutpoints=(*_UNITS, *_COUNTERS, *_FETCHED, *_OPERANDS, *_ALU, *_NNRF, *_LOADED, *_LOOPS),
    ),
    PipelineProperty(
        name="registers",
        statement="each register read, in any of three fields, has what was written there last, through either port",
        cutpoints=(*_UNITS, *_COUNTERS, *_FETCHED, *_CSRS, *_ALU, *_NNRF, *_LOADED, *_LOOPS),
    ),
    PipelineProperty(
        name="data",
        statement="each load brings what the last older store put there, whatever sizes and addresses",
        cutpoints=(*_UNITS, *_COUNTERS, *_FETCHED, *_CSRS, *_OPERANDS, *_NNRF, *_LOOPS),
        initial={"scene/w:data_value": "x"},
        fixed_memory=True,
    ),
    PipelineProperty(
        name="system",
        statement="CSRs keep what is written; exceptions, mret and fence.i do what they must, and nothing else does",
        cutpoints=(*_UNITS, *_COUNTERS, *_FETCHED, *_OPERANDS, *_ALU, *_NNRF, *_LOADED, *_LOOPS),
    ),
    PipelineProperty(
        name="progress",
        statement=(
            f"something retires within {WINDOW} cycles or an interrupt is taken, unless wfi waits or a unit computes"
        ),
        limits="memories that answer in the next cycle",
        cutpoints=(*_UNITS, *_COUNTERS, *_FETCHED, *_CSRS, *_OPERANDS, *_ALU, *_NNRF, *_LOADED, *_LOOPS),
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
    found = [_LOOPS_RULE] if config.xpulpv2 else []
    found += [_NN_RULE] if config.mac_load else []
    return [*found, *_COMMON, *([_HALTS_RULE] if config.debug else [])]
