"""Properties of the pipeline with their statements, cutpoints and assumptions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from xpulpnn.config import CoreConfig
from xpulpnn.errors import require
from xpulpnn_sim.tools.probes import LOOP_REGISTERS, NNRF_REGISTERS, PIPELINE_CUTS

WINDOW = 16
"""Cycles after which ``progress`` requires a retirement with prompt memories; cycles of slow units do not count."""


@dataclass(frozen=True, slots=True)
class PipelineProperty:
    name: str
    statement: str
    # cutpoints as Yosys selections `MODULE/INSTANCE` and `MODULE/w:WIRE`
    cutpoints: tuple[str, ...]
    # registers with free initial bits (`x`), by `MODULE/w:REGISTER`
    initial: Mapping[str, str] = field(default_factory=dict[str, str])
    limits: str = ""  # exceptions, or empty
    prompt: bool = False  # memories grant at once and respond in the next cycle
    # at one address, instruction memory is constant and data memory keeps what is stored
    fixed_memory: bool = False
    halts: bool = False  # a debug module may request a halt in any cycle
    # if not 0, the depth of induction: from a state with the invariants in which `counts` is 0, no violation within
    # this many cycles; else one cycle
    within: int = 0
    counts: str = ""  # a register that counts up to a violation
    depth: int = 15  # default search depth in cycles without a proof


_DATA = ("units", "counters", "fetched", "csrs", "operands", "alu", "nnrf", "loaded", "loops")


def _cut_but(*needed: str) -> tuple[str, ...]:
    return tuple(selection for name in _DATA if name not in needed for selection in PIPELINE_CUTS[name])


def _free(high: int, low: int = 0) -> str:
    return "0" * (32 - high) + "x" * (high - low) + "0" * low


_LOOPS = PipelineProperty(
    "loops",
    "hardware loops set the next address and the remaining counts, for any initial loop registers",
    _cut_but("loaded", "loops"),
    {f"{nets}{loop}": _free(32, int(name != "count")) for name, nets in LOOP_REGISTERS.items() for loop in range(2)},
)
_MAC_LOAD = PipelineProperty(
    "mac_load",
    "each factor is the last older load of its NN-RF entry, and each load writes the entry that it names",
    _cut_but("nnrf"),
    {NNRF_REGISTERS: _free(32)},
)
_HALTS = PipelineProperty(
    "halts",
    "halts, steps and resumptions neither lose nor repeat instructions, come in time, and enter no trap",
    _cut_but("csrs"),
    halts=True,
    depth=20,
)
_COMMON = (
    PipelineProperty(
        "obi",
        "requests stay until granted; aligned words, adjacent bytes, no more outstanding than allowed",
        _cut_but("alu", "loops"),
    ),
    PipelineProperty(
        "fetches",
        "each instruction is what memory holds at its address, and traps if the bus fails there",
        _cut_but("fetched"),
        limits="memory that does not change",
        fixed_memory=True,
    ),
    PipelineProperty(
        "interrupts", "interrupts are not late, lost, repeated or imprecise; mret returns; wfi wakes", _cut_but("csrs")
    ),
    PipelineProperty(
        "registers",
        "each register read, in any of three fields, returns the last value written through either port",
        _cut_but("operands"),
    ),
    PipelineProperty(
        "data",
        "each load returns the last older store, for all sizes and addresses",
        _cut_but("alu", "loaded"),
        {"harness/w:data_value": "x"},
        fixed_memory=True,
    ),
    PipelineProperty(
        "system",
        "CSRs keep written values; exceptions, mret and fence.i have their effects, and nothing else has",
        _cut_but("csrs"),
    ),
    PipelineProperty(
        "progress",
        f"an instruction retires or an interrupt is taken within {WINDOW} cycles, unless wfi waits or a unit computes",
        _cut_but(),
        limits="memories that answer in the next cycle",
        prompt=True,
        within=WINDOW + 1,
        counts="progress_quiet",
        depth=40,
    ),
)


def pipeline_properties(config: CoreConfig) -> list[PipelineProperty]:
    """Return the properties that apply to a core; raise :class:`InputError` for a core with pv.qnt."""
    require(not config.qnt, "qnt must be false for these properties, not true")
    properties = [_LOOPS] if config.xpulpv2 else []
    properties += [_MAC_LOAD] if config.mac_load else []
    return [*properties, *_COMMON, *([_HALTS] if config.debug else [])]
