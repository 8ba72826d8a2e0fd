"""The properties: what a core has of them, the command; what they see and find wrong in records, on buses, in words."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from amaranth.hdl import Const, Module, Signal
from tests.programs import read_results
from tests.rtl.replay import simulate

from xpulpnn.config import preset
from xpulpnn.core.obi import ObiSignature
from xpulpnn.errors import InputError, ToolError
from xpulpnn.isa.retirement import WIDTHS
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cosimulation.model.libraries import cached_emission
from xpulpnn_sim.proofs.engine.outcomes import PASSED, PROVED, Outcome
from xpulpnn_sim.proofs.faults.catalog import faults_for
from xpulpnn_sim.proofs.pipeline import harness_gates
from xpulpnn_sim.proofs.pipeline.catalog import pipeline_properties
from xpulpnn_sim.proofs.pipeline.harness_gates import core_probes
from xpulpnn_sim.proofs.pipeline.proof import Prover
from xpulpnn_sim.proofs.pipeline.properties.harness import bus_violations, joined, progress_property
from xpulpnn_sim.proofs.pipeline.properties.invariants import Probes
from xpulpnn_sim.proofs.pipeline.properties.memory import FixedInstruction, TrackedBit
from xpulpnn_sim.proofs.pipeline.properties.system import system_property

_OF_RI5CY = ("loops", "obi", "fetches", "interrupts", "registers", "data", "system", "progress")


def test_rules_follow_from_the_core():
    names = {name: [rule.name for rule in pipeline_properties(preset(name))] for name in ("ri5cy", "xpulpnn2")}
    assert names["xpulpnn2"] == ["loops", "mac_load", *_OF_RI5CY[1:]]
    assert set(names["xpulpnn2"]) - set(names["ri5cy"]) == {"mac_load"}
    assert min(len(faults_for(preset("xpulpnn2"), [name])) for name in names["xpulpnn2"]) >= 2
    halts = [rule.name for rule in pipeline_properties(replace(preset("ri5cy"), debug=True))]
    assert halts == [*names["ri5cy"], "halts"]
    assert not faults_for(preset("ri5cy"), ["halts"])
    assert faults_for(replace(preset("ri5cy"), debug=True), ["halts"])
    with pytest.raises(InputError, match=r"^qnt must be false for these properties, not true$"):
        pipeline_properties(replace(preset("xpulpnn"), qnt=True))


def test_list(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["prove", "pipeline", "--list", "--preset", "ri5cy"]) == 0
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert shown == ["property", *_OF_RI5CY]


def test_what_a_core_with_its_unit_does_not_have_is_told(monkeypatch: pytest.MonkeyPatch):
    verilog, manifest = cached_emission("core", replace(preset("ri5cy"), rvfi=True))
    renamed = json.loads(json.dumps(manifest).replace('"late"', '"later"'))
    monkeypatch.setattr(f"{harness_gates.__name__}.cached_emission", lambda *_: (verilog, renamed))
    with pytest.raises(ToolError, match=r"^the emitted core must have core\.hwloops\.late, which is seen as late$"):
        core_probes(preset("ri5cy"))


def test_more_parts_than_a_property_can_have():
    parts = {str(number): Signal(name=f"part{number}") for number in range(3)}
    assert len(joined("obi", parts, 3)) == 3
    with pytest.raises(ToolError, match=r"^obi must have at most 2 parts or invariants, not 3$"):
        joined("obi", parts, 2)


def test_table(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    verdicts = {
        "obi": Outcome(name="obi", verdict=PROVED, cycle=-1, seconds=1.5),
        "loops": Outcome(name="loops", verdict=PASSED, cycle=15, seconds=2, broken=("EX counts late",)),
    }
    monkeypatch.setattr(Prover, "prove", lambda self, rule, harness, depth: verdicts[rule.name])
    monkeypatch.setattr("xpulpnn_sim.cli.prove_core.emit_harness", lambda config: None)
    monkeypatch.setattr("xpulpnn_sim.cli.proof_shell.find_abc", lambda: "abc")
    words = ["prove", "pipeline", "obi", "loops", "-o", str(tmp_path), "--json", str(tmp_path / "found.json")]
    assert cli.main(words) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {"loops 15 2.0 passes", "obi any 1.5 proved"} <= {*lines}
    assert "loops is not proved of every cycle: EX counts late" in lines
    records = read_results(tmp_path / "found.json")[0]["properties"]
    assert [(each["property"], each["verdict"]) for each in records] == [("loops", "passes"), ("obi", "proved")]


def stepped(module: Module, inputs: dict[str, Signal], cycles: list[dict[str, int]], wrong) -> list[list[str]]:
    """The rules that are broken in each cycle."""
    shown: list[list[str]] = []

    async def bench(ctx):
        for values in cycles:
            for name, signal in inputs.items():
                ctx.set(signal, values.get(name, 0))
            shown.append([name for name, value in wrong.items() if ctx.get(value)])
            await ctx.tick()

    simulate(module, bench, clocked=True)
    return shown


def test_bus():
    module, port, under_way = Module(), ObiSignature().create(), Signal(3)
    wrong = bus_violations(module, "data", port, under_way, 1)
    names = ("req", "gnt", "addr", "we", "be", "wdata", "rvalid")
    inputs = {name: getattr(port, name) for name in names} | {"under_way": under_way}
    word = {"req": 1, "addr": 8, "be": 0b1111}
    cycles = [word, word | {"gnt": 1}, {}, word, {}, word, word | {"wdata": 1}, word | {"gnt": 1}]
    cycles += [word | {"under_way": 1, "gnt": 1}, word | {"under_way": 1, "rvalid": 1, "gnt": 1}]
    cycles += [{"req": 1, "gnt": 1, "addr": 2, "be": 0b0101}]
    assert stepped(module, inputs, cycles, wrong) == [
        *([[]] * 4),
        ["data request withdrawn", "data request changed"],
        [],
        ["data request changed"],
        ["data request changed"],
        ["data too many"],
        [],
        ["data address", "data bytes"],
    ]


def test_progress():
    class Port:
        rvfi_valid, irq_ack = Signal(), Signal()

    names = ("ex_valid", "ex_access", "ex_done", "booted", "fetch_running", "late", "gives_back")
    names += ("sleeping", "any_pending")
    module, seen = Module(), Probes((name, Signal(name=name)) for name in names)
    watched = progress_property(module, Port, seen, 3)
    inputs = {"valid": Port.rvfi_valid, **seen}
    computing, accessing = {"ex_valid": 1}, {"ex_valid": 1, "ex_access": 1}
    cycles = [{"valid": 1}, *[{}] * 3, {"valid": 1}, *[{"sleeping": 1}] * 6, *[computing] * 6, *[accessing] * 5]
    shown = stepped(module, inputs, cycles, watched.wrong)
    assert shown == [*([[]] * 21), ["nothing retires"]]
    assert stepped(module, inputs, [{"sleeping": 1, "any_pending": 1}] * 5, watched.wrong)[-1] == ["nothing retires"]
    cycles = [{"booted": 1}, {"booted": 1, "fetch_running": 1, "late": 1}]
    broken = [["what counts late is in EX"], ["what is booted fetches"]]
    assert stepped(module, inputs, cycles, watched.invariants) == broken


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
    return {"rd_we": 1, "rd_addr": 5, "rd_wdata": value}


def fails(cycles: list[dict[str, int]]) -> list[list[str]]:
    """The rules that are broken in each cycle, given by fields of the record and signals of the core."""
    module = Module()
    core = SimpleNamespace(instr=ObiSignature().create(), irq_ack=Signal(), irq_id=Signal(5))
    record = {name: Signal(width, name=f"rvfi_{name}") for name, width in WIDTHS.items()}
    for name, signal in record.items():
        setattr(core, f"rvfi_{name}", signal)
    seen = Probes({name: Signal(probe.width, name=name) for name, probe in core_probes(preset("ri5cy")).items()})
    under_way = Signal(3)
    watched = system_property(module, core, seen, Const(_BOOT, 32), under_way)
    inputs = record | seen | {"irq_ack": core.irq_ack, "irq_id": core.irq_id, "under_way": under_way}
    inputs |= {name: getattr(core.instr, name) for name in ("req", "gnt", "rvalid")}
    return stepped(module, inputs, [{"booted": 1, **cycle} for cycle in cycles], watched.wrong)


@pytest.mark.flow
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
    assert fails(cycles) == [wrong.get(number, []) for number in range(len(cycles))]


@pytest.mark.flow
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
    assert fails(cycles) == [wrong.get(number, []) for number in range(len(cycles))]


@pytest.mark.flow
def test_fence_i():
    leaves = {"id_leaves": 1, "id_raw": _FENCE_I, "id_valid": 1}
    dropped, stale = {"under_way": 2, "fetch_drops": 2}, {"req": 1, "fetch_held": 1, "fetch_stale": 1}
    assert fails([leaves | {"has_ex": 1}, leaves | {"has_wb": 1}, leaves | {"has_wb": 1, "valid": 1}, {}]) == [
        ["fence.i"],
        ["fence.i"],
        # nothing of what was there may be there in the cycle behind
        ["fence.i"],
        [],
    ]
    assert fails([leaves, {"id_valid": 1}, {}]) == [[], ["fence.i"], []]
    assert fails([leaves, {"fetch_count": 1}, {}]) == [[], ["fence.i"], []]
    # two fetches under way: both are dropped, or one of them is used; what is asked for later is used
    under_way = {"under_way": 2, "fetch_live": 2}
    assert fails([under_way, leaves | under_way, dropped, dropped | {"rvalid": 1}]) == [[]] * 4
    assert fails([under_way, leaves | under_way, {"under_way": 2, "fetch_drops": 1, "fetch_live": 1}])[2] == ["fence.i"]
    asks = {"req": 1, "gnt": 1}
    later = {"under_way": 2, "fetch_drops": 1, "fetch_live": 1}
    assert fails([leaves | {"under_way": 1}, {"under_way": 1, "fetch_drops": 1} | asks, later]) == [[]] * 3
    # a request that waits for its grant is stale from then on, and its answer dropped
    waiting = {"req": 1, "fetch_held": 1}
    assert fails([waiting, leaves | waiting, stale, stale | {"gnt": 1}, {"under_way": 1, "fetch_drops": 1}]) == [[]] * 5
    assert fails([leaves | waiting, waiting])[1] == ["fence.i"]
    assert fails([leaves | waiting, stale | {"gnt": 1}, {"under_way": 1, "fetch_live": 1}])[2] == ["fence.i"]


_FREE = 0x5A5A_A5A5
"""Answer of memory where nothing is held."""


@pytest.mark.parametrize("address", [0x80, 0x82, 0xFFFF_FFFE])
@pytest.mark.parametrize("halves", [(0x4503, 0x1234), (0x4501, 0x1234)])
def test_an_instruction_is_held(address: int, halves: tuple[int, int]):
    memory = {(address + 2 * index) & 0xFFFF_FFFF: half for index, half in enumerate(halves)}
    wide = halves[0] & 3 == 3
    module = Module()
    fails, place = Signal(2), Signal(30)
    held = FixedInstruction(module, Const(address, 32), Const(halves[0] | halves[1] << 16, 32), fails)
    data, err = held.answered(held.parts(place), Const(_FREE, 32), Const(0, 1))

    async def bench(ctx):
        assert ctx.get(held.raw) == (halves[0] | halves[1] << 16 if wide else halves[0])
        for first_fails, second_fails in itertools.product((0, 1), repeat=2):
            if address & 2 == 0 and first_fails != second_fails:
                # both are in one word
                continue
            ctx.set(fails, first_fails | second_fails << 1)
            assert ctx.get(held.fault) == (first_fails | (wide and second_fails))
            for word in ((address & ~3) - 4, address & ~3, (address + 2) & 0xFFFF_FFFC):
                ctx.set(place, word >> 2)
                low, high = memory.get(word, _FREE & 0xFFFF), memory.get(word + 2, _FREE >> 16)
                failing = {address: first_fails, (address + 2) & 0xFFFF_FFFF: second_fails}
                assert ctx.get(data) == low | high << 16
                assert ctx.get(err) == max(failing.get(word, 0), failing.get(word + 2, 0))
                assert ctx.get(held.is_in(place, data, err)) == 1
                assert ctx.get(held.is_in(place, data ^ 1, err)) == (word not in memory)
        assert ctx.get(held.is_at(Const(address, 32))) == 1
        assert ctx.get(held.is_at(Const(address ^ 2, 32))) == 0

    simulate(module, bench)


def test_a_bit_of_data_is_held():
    module, port = Module(), ObiSignature().create()
    held = TrackedBit(module, port, Const(0x46, 32), Const(0b01_101, 5), Const(0, 32))
    bit = 1 << 5 + 16

    async def bench(ctx):
        async def access(address: int, *, store: int | None = None, be: int = 0b1111, err: int = 0) -> int:
            values = {"req": 1, "gnt": 1, "addr": address, "we": store is not None, "be": be, "wdata": store or 0}
            for name, value in values.items():
                ctx.set(getattr(port, name), value)
            await ctx.tick()
            ctx.set(port.req, 0)
            ctx.set(port.rvalid, 1)
            ctx.set(port.err, err)
            answer = ctx.get(held.rdata)
            await ctx.tick()
            ctx.set(port.rvalid, 0)
            return answer

        assert await access(0x44) == 0
        for address, be, err in ((0x48, 0b1111, 0), (0x44, 0b1011, 0), (0x44, 0b1111, 1)):
            await access(address, store=0xFFFF_FFFF, be=be, err=err)
            assert await access(0x44) == 0
        await access(0x44, store=bit, be=0b0100)
        assert await access(0x44) == bit
        assert await access(0x44, be=0b0011) == 0
        assert await access(0x40) == 0

    simulate(module, bench, clocked=True)
