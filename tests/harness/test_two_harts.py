"""Several harts on one memory: all retirements checked, memory in the order of the grants, and what is wrong found."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from xpulpnn.config import preset
from xpulpnn.core.core import Core
from xpulpnn.core.obi import InstructionPortSignature, ObiSignature
from xpulpnn.isa.retirement import WIDTHS
from xpulpnn.verilog import emit
from xpulpnn_sim.elf import Executable, Segment, functions_of
from xpulpnn_sim.harness import program_run, session
from xpulpnn_sim.harness.build import build_model
from xpulpnn_sim.harness.check import RetirementCheck
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.models import simulated
from xpulpnn_sim.harness.schema import DATA, FETCH, HART, RETIRE
from xpulpnn_sim.harness.session import RunResult
from xpulpnn_sim.harness.testbench import Adapter, Rig
from xpulpnn_sw.asm import assemble

pytestmark = pytest.mark.cosim

CONFIG = replace(simulated(preset("xpulpnn")), rvfi=True)
TEXT, DATA_BASE = 0x1C00_0080, 0x1000_0000
TURNS, TOHOST = DATA_BASE + 0x40, DATA_BASE + 0x80
PROGRAM = Path(__file__).with_suffix(".s").read_text()
ENOUGH = 1_000_000
"""Instructions of the long run."""

HARTS = 2
_DEPTH = 16
_SWALLOWED_LSB = 8
_TAPS = (31, 21, 1, 0)
"""Of the shift register behind the arbiter's choices."""


class TwoHarts(wiring.Component):
    """Two cores whose data ports share one by an arbiter that chooses at random, and sometimes grants nobody.

    Bits 31:8 of ``hart_id1`` are the number of a store of hart 1 that reaches the memory without its bytes; 0: none.

    Parameters
    ----------
    config : CoreConfig
        Of both cores, with the retirement port.
    """

    def __init__(self, config):
        self.config = config
        ports = {"data": Out(ObiSignature()), "data_hart": Out(1), "boot_addr": In(32)}
        for hart in range(HARTS):
            ports |= {f"instr{hart}": Out(InstructionPortSignature()), f"hart_id{hart}": In(32)}
            ports |= {f"rvfi{hart}_{name}": Out(width) for name, width in WIDTHS.items()}
        super().__init__(ports)

    def elaborate(self, platform):
        """Connect the cores to the arbiter."""
        m = Module()
        m.submodules.core0 = core0 = Core(self.config)
        m.submodules.core1 = core1 = Core(self.config)
        cores = (core0, core1)
        for hart, core in enumerate(cores):
            connect(m, core.instr, flipped(getattr(self, f"instr{hart}")))
            m.d.comb += [
                core.boot_addr.eq(self.boot_addr),
                core.hart_id.eq(getattr(self, f"hart_id{hart}")),
                core.fetch_enable.eq(1),
                *(getattr(self, f"rvfi{hart}_{name}").eq(getattr(core, f"rvfi_{name}")) for name in WIDTHS),
            ]
        dice = Signal(32, init=0xACE1)
        m.d.sync += dice.eq((dice << 1) | (dice[_TAPS[0]] ^ dice[_TAPS[1]] ^ dice[_TAPS[2]] ^ dice[_TAPS[3]]))
        chosen = self.data_hart
        m.d.comb += [
            chosen.eq(Mux(core0.data.req & core1.data.req, dice[0], core1.data.req)),
            self.data.req.eq((core0.data.req | core1.data.req) & dice[3:5].any()),
        ]
        owners, count = Signal(_DEPTH), Signal(range(_DEPTH + 1))
        taken = Signal()
        m.d.comb += taken.eq(self.data.req & self.data.gnt)
        # the oldest transfer is at bit count - 1
        with m.If(taken):
            m.d.sync += owners.eq((owners << 1) | chosen)
        m.d.sync += count.eq(count + taken - self.data.rvalid)
        oldest, owner = Signal(range(_DEPTH)), Signal()
        m.d.comb += [oldest.eq(count - 1), owner.eq(owners.bit_select(oldest, 1))]
        stores, be = Signal(32), Signal(4)
        with m.If(taken & self.data.we & chosen):
            m.d.sync += stores.eq(stores + 1)
        m.d.comb += be.eq(Mux(chosen, core1.data.be, core0.data.be))
        with m.If(self.data.we & chosen & stores.any() & (stores == self.hart_id1[_SWALLOWED_LSB:])):
            m.d.comb += be.eq(0)
        m.d.comb += self.data.be.eq(be)
        for name in ("addr", "we", "wdata"):
            m.d.comb += getattr(self.data, name).eq(Mux(chosen, getattr(core1.data, name), getattr(core0.data, name)))
        for hart, core in enumerate(cores):
            m.d.comb += [
                core.data.gnt.eq(taken & (chosen == hart)),
                core.data.rvalid.eq(self.data.rvalid & (owner == hart)),
                core.data.rdata.eq(self.data.rdata),
            ]
        return m


def two_harts(config) -> Rig:
    """The design with its ports."""
    emitted = emit(TwoHarts(config), "two_harts", config=config)
    shared = {name: f"data__{name}" for name in (*DATA.seen, *DATA.driven) if name != "hart"} | {"hart": "data_hart"}
    adapters = [Adapter(DATA, shared)]
    for hart in range(HARTS):
        fetch = {name: f"instr{hart}__{name}" for name in (*FETCH.seen, *FETCH.driven)}
        adapters += [Adapter(FETCH, fetch), Adapter(RETIRE, {name: f"rvfi{hart}_{name}" for name in WIDTHS})]
    adapters += [
        Adapter(HART, {"hart_id": "hart_id0", "boot_addr": "boot_addr"}),
        Adapter(HART, {"hart_id": "hart_id1"}),
    ]
    return Rig(verilog=emitted.text, manifest=emitted.manifest, adapters=tuple(adapters))


@pytest.fixture(scope="module")
def library() -> Path:
    return build_model(two_harts(CONFIG))


def program(rounds: int) -> Executable:
    constants = f".equ data, {DATA_BASE}\n.equ turns, {TURNS}\n.equ tohost, {TOHOST}\n"
    text = assemble(f"{constants}{PROGRAM}".replace("start:", f"start:\n    li a5, {rounds}"), TEXT)
    code = text.to_bytes()
    labels = {name: address for name, address in text.labels.items() if address >= TEXT}
    return Executable(
        path=Path("two harts"),
        entry=TEXT,
        segments=(Segment(DATA_BASE, b"", 0x100), Segment(TEXT, code, len(code))),
        functions=functions_of(labels, TEXT + len(code)),
        tohost=TOHOST,
    )


def run(library: Path, rounds: int, **machine) -> RunResult:
    return program_run.run_program(
        program(rounds), CONFIG, Machine(**machine), check=True, library=library, harts=HARTS
    )


def test_every_retirement_of_both_is_right(library):
    result = run(library, 3300, grant_stalls=0.1, response_latency=3, fetch_latency=2, seed=5)
    assert (result.mismatches, result.difference) == (0, None)
    assert result.exit.ok
    assert result.instructions > ENOUGH


def test_blocks_end_between_a_grant_and_its_retirement(library, monkeypatch):
    monkeypatch.setattr(session, "BLOCK_RETIREMENTS", 16)
    result = run(library, 100, grant_stalls=0.1, response_latency=4, seed=2)
    assert (result.mismatches, result.difference) == (0, None)
    assert result.exit.ok


def test_harts_meet_in_memory(library):
    grants = []

    class Watching(RetirementCheck):
        def check(self, records, accesses, lines=None):
            grants.append(accesses.copy())
            return super().check(records, accesses, lines)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program_run, "RetirementCheck", Watching)
        assert run(library, 100).exit.ok
    log = np.concatenate(grants)
    shared = log[log["address"] < TURNS]
    # a word read by one hart that the other wrote last: what only the order of the bus explains
    writer, exchanged = {}, 0
    for grant in shared.tolist():
        _, hart, address, we, *_ = grant
        exchanged += not we and writer.get(address, hart) != hart
        if we:
            writer[address] = hart
    assert exchanged > 200


def test_wrong_order_of_grants_is_found(library):
    swapped = []

    class Misled(RetirementCheck):
        """Is told of a read and a write of one word by the two harts in the wrong order."""

        def check(self, records, accesses, lines=None):
            told = accesses.copy()
            for at in range(len(told) - 1) if not swapped else ():
                first, second = told[at], told[at + 1]
                same = first["address"] == second["address"] and first["hart"] != second["hart"]
                if same and first["we"] and not second["we"] and first["be"] == 15 and first["address"] >= TURNS:
                    swapped.append((int(second["hart"]), int(second["address"])))
                    told[[at, at + 1]] = told[[at + 1, at]]
                    break
            return super().check(records, told, lines)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program_run, "RetirementCheck", Misled)
        result = run(library, 200)
    [(hart, address)] = swapped
    assert result.mismatches
    lines = result.difference.splitlines()
    assert lines[0].startswith(f"difference at hart {hart}, retirement ")
    assert "lw" in lines[1]
    assert lines[2].startswith("  mem_rdata must be ")
    assert lines[2].endswith(f"address 0x{address:08x}")


def test_swallowed_store_is_found(library):
    result = run(library, 200, hart_id=100 << _SWALLOWED_LSB)
    assert result.mismatches
    lines = result.difference.splitlines()
    assert lines[0].startswith("difference at hart 1, retirement ")
    assert lines[1].split()[2].startswith(("sw", "sb", "sh", "p.s"))
    assert "bus_be must be" in lines[2]
    assert "address 0x1000" in lines[2]
