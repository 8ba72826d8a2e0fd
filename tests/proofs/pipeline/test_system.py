"""What the property of CSRs, exceptions, mret and fence.i finds wrong in records of instructions."""

from types import SimpleNamespace

import pytest
from amaranth.hdl import Const, Module, Signal
from tests.proofs.pipeline.test_rules import stepped

from xpulpnn.config import preset
from xpulpnn.core.obi import ObiSignature
from xpulpnn.isa.retirement import WIDTHS
from xpulpnn_sim.proofs.pipeline.gates import seen_signals
from xpulpnn_sim.proofs.pipeline.properties.system import watch_system

pytestmark = pytest.mark.unit

_BOOT = 0x1C00_0000
_WRITE_MSCRATCH = {"insn": 0x3401_92F3, "rs1_rdata": 0x1234_5678}
"""csrrw x5, mscratch, x3."""

_READ_MSCRATCH, _READ_MSTATUS, _READ_MCAUSE, _READ_MEPC = (
    {"insn": word} for word in (0x3400_22F3, 0x3000_22F3, 0x3420_22F3, 0x3410_22F3)
)
_ENABLE = {"insn": 0x3004_6073}
"""csrsi mstatus, 8."""

_ECALL, _EBREAK, _MRET = {"insn": 0x73, "trap": 1, "cause": 11}, {"insn": 0x9002, "trap": 1, "cause": 3}, 0x3020_0073
_FENCE_I, _FENCE = 0x100F, 0xF


def brings(value: int) -> dict[str, int]:
    """x5 gets a value."""
    return {"rd_we": 1, "rd_addr": 5, "rd_wdata": value}


def found(cycles: list[dict[str, int]]) -> list[list[str]]:
    """What is wrong in each cycle, given by fields of the record and signals of the core."""
    module = Module()
    core = SimpleNamespace(instr=ObiSignature().create(), irq_ack=Signal(), irq_id=Signal(5))
    record = {name: Signal(width, name=f"rvfi_{name}") for name, width in WIDTHS.items()}
    for name, signal in record.items():
        setattr(core, f"rvfi_{name}", signal)
    config = preset("ri5cy")
    seen = {name: Signal(one.width, name=name) for name, one in seen_signals(config).items()}
    under_way = Signal(3)
    watched = watch_system(module, core, seen, Const(_BOOT, 32), under_way)
    inputs = record | seen | {"irq_ack": core.irq_ack, "irq_id": core.irq_id, "under_way": under_way}
    inputs |= {name: getattr(core.instr, name) for name in ("req", "gnt", "rvalid")}
    return stepped(module, inputs, [{"booted": 1, **cycle} for cycle in cycles], watched.wrong)


def test_registers():
    retired = {"valid": 1}
    cycles = [
        {"booted": 0},
        retired | _WRITE_MSCRATCH | brings(0),
        retired | _READ_MSCRATCH | brings(0x1234_5678),
        retired | _READ_MSCRATCH | brings(0x1234_5679),
        retired | _READ_MSCRATCH,
        retired | _READ_MSTATUS | brings(0x1800),
        retired | _ENABLE,
        retired | _READ_MSTATUS | brings(0x1808),
        {"irq_ack": 1, "irq_id": 19, "enter_pc": 0x1C00_0101},
        retired | _READ_MSTATUS | brings(0x1880),
        retired | _READ_MCAUSE | brings(0x8000_0013),
        retired | _READ_MEPC | brings(0x1C00_0100),
        retired | _READ_MEPC | brings(0x1C00_0101),
        retired | _READ_MEPC | {"trap": 1, "cause": 2, "pc_wdata": _BOOT},
    ]
    wrong = {3: ["reads mscratch"], 4: ["reads mscratch"], 12: ["reads mepc"], 13: ["exception"]}
    assert found(cycles) == [wrong.get(number, []) for number in range(len(cycles))]


def test_exceptions():
    retired, trapped = {"valid": 1}, {"valid": 1, "pc_rdata": 0x1C00_0040, "pc_wdata": _BOOT}
    cycles = [
        {"booted": 0},
        retired | _ENABLE,
        trapped | _ECALL,
        retired | _READ_MSTATUS | brings(0x1880),
        retired | _READ_MCAUSE | brings(11),
        retired | {"insn": _MRET, "pc_wdata": 0x1C00_0040},
        retired | _READ_MSTATUS | brings(0x1888),
        retired | {"insn": _MRET, "pc_wdata": 0x1C00_0044},
        trapped | _EBREAK,
        trapped | _EBREAK | {"cause": 11},
        trapped | _EBREAK | {"trap": 0},
        trapped | _ECALL | {"pc_wdata": _BOOT + 4},
        trapped | _ECALL | brings(0),
        trapped | {"insn": _MRET, "trap": 1, "cause": 2},
        trapped | {"insn": _FENCE, "trap": 1, "cause": 2},
        trapped | {"insn": 0x13, "trap": 1, "cause": 11},
        # a word that the bus could not read, and an illegal one
        trapped | {"insn": 0, "trap": 1, "cause": 1},
        trapped | {"insn": 0xFFFF_FFFF, "trap": 1, "cause": 2},
    ]
    wrong = {7: ["mret"], 9: ["exception"], 10: ["exception"], 11: ["handler"], 12: ["effect of what traps"]}
    wrong |= {13: ["exception", "mret"], 14: ["exception"], 15: ["exception"]}
    assert found(cycles) == [wrong.get(number, []) for number in range(len(cycles))]


def test_fence_i():
    leaves = {"id_leaves": 1, "id_raw": _FENCE_I, "id_valid": 1}
    dropped, stale = {"under_way": 2, "fetch_drops": 2}, {"req": 1, "fetch_held": 1, "fetch_stale": 1}
    assert found([leaves | {"has_ex": 1}, leaves | {"has_wb": 1}, leaves | {"has_wb": 1, "valid": 1}, {}]) == [
        ["fence.i"],
        ["fence.i"],
        # nothing of what was there may be there in the cycle behind
        ["fence.i"],
        [],
    ]
    assert found([leaves, {"id_valid": 1}, {}]) == [[], ["fence.i"], []]
    assert found([leaves, {"fetch_count": 1}, {}]) == [[], ["fence.i"], []]
    # two fetches under way: both are dropped, or one of them is used; what is asked for later is used
    under_way = {"under_way": 2, "fetch_live": 2}
    assert found([under_way, leaves | under_way, dropped, dropped | {"rvalid": 1}]) == [[]] * 4
    assert found([under_way, leaves | under_way, {"under_way": 2, "fetch_drops": 1, "fetch_live": 1}])[2] == ["fence.i"]
    asks = {"req": 1, "gnt": 1}
    later = {"under_way": 2, "fetch_drops": 1, "fetch_live": 1}
    assert found([leaves | {"under_way": 1}, {"under_way": 1, "fetch_drops": 1} | asks, later]) == [[]] * 3
    # a request that waits for its grant is stale from then on, and its answer dropped
    waiting = {"req": 1, "fetch_held": 1}
    assert found([waiting, leaves | waiting, stale, stale | {"gnt": 1}, {"under_way": 1, "fetch_drops": 1}]) == [[]] * 5
    assert found([leaves | waiting, waiting])[1] == ["fence.i"]
    assert found([leaves | waiting, stale | {"gnt": 1}, {"under_way": 1, "fetch_live": 1}])[2] == ["fence.i"]
