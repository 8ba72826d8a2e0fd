"""Programs on a cluster: every retirement of every core checked, ends told, faults of the hardware found."""

from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.hdl import Mux, Signal

from xpulpnn.cluster import cluster as top
from xpulpnn.cluster.event_unit.unit import EventUnit
from xpulpnn.config import ClusterConfig, preset
from xpulpnn.isa.cluster import NO_MASTER, TCDM_BASE, EventLine
from xpulpnn.verilog import emit
from xpulpnn_sim.elf import Executable, Function, Segment
from xpulpnn_sim.exits import Reason
from xpulpnn_sim.harness import program_run, session
from xpulpnn_sim.harness.build import build_model
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.models import cluster_rig, simulated
from xpulpnn_sim.harness.session import RunResult
from xpulpnn_sim.harness.testbench import Rig
from xpulpnn_sw.asm import assemble

pytestmark = pytest.mark.cosim

CORES, BANKS = 4, 8
CONFIG = simulated(
    ClusterConfig(core=preset("xpulpnn"), cores=CORES, banks=BANKS, tcdm_bytes=4096, memories="ports", rvfi=True)
)
TEXT, L2 = 0x1C00_0080, 0x1C01_0000
TOHOST, FAULT = TCDM_BASE + 0x100, TCDM_BASE + 0x7FC
PROGRAM = Path(__file__).with_suffix(".s").read_text()
ROUNDS = 30
LATE = 2
"""The core that comes to barriers last."""

LOST_EVENT, EARLY_BARRIER, DROPPED_GRANT, SWAPPED_BANKS, WRONG_STORE, UNMARKED = range(1, 7)


class FaultyEventUnit(EventUnit):
    """Loses the barrier's events of a core, or takes the trigger of one core for that of another too.

    Which, the events from outside the cluster say, which nobody waits for.
    """

    def elaborate(self, platform):
        """Put the faults behind what the event unit says."""
        m = super().elaborate(platform)
        units, barrier = [getattr(m.submodules, f"core_{core}") for core in range(CORES)], m.submodules.barrier_0
        with m.If(self.cluster_events == LOST_EVENT):
            m.d.comb += units[1].events[EventLine.BARRIER].eq(0)
        with m.If(self.cluster_events == EARLY_BARRIER):
            m.d.comb += [
                getattr(barrier.accesses[LATE], name).eq(getattr(units[1].access, name)) for name in ("offset", "read")
            ]
        return m


class FaultyCluster(top.Cluster):
    """A cluster that goes wrong once core 0 has stored the number of a fault at ``FAULT``."""

    def elaborate(self, platform):
        """Put the faults behind what the cluster says."""
        fault = Signal(range(UNMARKED + 1))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(top, "EventUnit", FaultyEventUnit)
            m = super().elaborate(platform)
        port, tcdm = m.submodules.core0.data, m.submodules.tcdm
        with m.If(port.req & port.gnt & port.we & (port.addr == FAULT)):
            m.d.sync += fault.eq(port.wdata)
        m.d.comb += m.submodules.event_unit.cluster_events.eq(Mux(fault <= EARLY_BARRIER, fault, 0))
        with m.If(fault == DROPPED_GRANT):
            m.d.comb += [tcdm.ports[3].req.eq(0), m.submodules.demux3.tcdm.gnt.eq(0)]
        with m.If(fault == SWAPPED_BANKS):
            for one, other in ((0, 1), (1, 0)):
                for name in ("req", "we", "be", "addr", "wdata"):
                    m.d.comb += getattr(self.banks[one], name).eq(getattr(tcdm.banks[other], name))
                m.d.comb += getattr(self, f"bank_master_{one}").eq(tcdm.bank_masters[other])
                m.d.comb += tcdm.banks[one].rdata.eq(self.banks[other].rdata)
        with m.If(fault == WRONG_STORE):
            m.d.comb += self.banks[2].wdata.eq(tcdm.banks[2].wdata ^ 1)
        for bank in range(BANKS):
            with m.If((fault == UNMARKED) & (tcdm.bank_masters[bank] == NO_MASTER)):
                m.d.comb += self.banks[bank].req.eq(0)
        return m


def rig() -> Rig:
    emitted = emit(FaultyCluster(CONFIG), "cluster", config=CONFIG, both_edges=True)
    return replace(cluster_rig(emitted.text, emitted.manifest), both_edges=True)


@pytest.fixture(scope="module")
def library() -> Path:
    return build_model(rig())


def program(source: str = PROGRAM, *, rounds: int = ROUNDS, fault: int = 0, tohost: int = TOHOST) -> Executable:
    values = {"tcdm": TCDM_BASE, "l2": L2, "tohost": tohost, "rounds": rounds, "fault": fault}
    values |= {"cores": CORES, "cores_mask": (1 << CORES) - 1, "late": LATE, "expected": rounds * CORES}
    text = assemble("".join(f".equ {name}, {value}\n" for name, value in values.items()) + source, TEXT)
    code = text.to_bytes()
    names = sorted((address, name) for name, address in text.labels.items() if address >= TEXT)
    ends = [*(address for address, _ in names[1:]), TEXT + len(code)]
    return Executable(
        path=Path("cluster program"),
        entry=TEXT,
        segments=(Segment(TEXT, code, len(code)), Segment(L2, b"", 0x100)),
        symbols={},
        functions=tuple(
            Function(address, end - address, name) for (address, name), end in zip(names, ends, strict=True)
        ),
        tohost=tohost,
        fromhost=None,
    )


def run(library: Path, executable: Executable, *, check: bool = True, account: bool = False, **machine) -> RunResult:
    surroundings = Machine(max_cycles=1_000_000, **machine)
    return program_run.run_program(executable, CONFIG, surroundings, check=check, account=account, library=library)


@pytest.mark.parametrize("machine", [{}, {"l2_latency": 9, "response_latency": 4, "grant_stalls": 0.3, "seed": 3}])
@pytest.mark.parametrize("tohost", [TOHOST, L2 + 0x80])
def test_every_retirement_is_right(library, machine, tohost):
    result = run(library, program(tohost=tohost), fetch_latency=2, fetch_grant_stalls=0.1, **machine)
    assert (result.exit.text, result.mismatches, result.difference) == ("pass", 0, None)
    words = result.memory[TCDM_BASE][:0x100].view("<u4")
    assert words[:CORES].tolist() == [ROUNDS] * CORES
    assert words[0x48 // 4] == ROUNDS * CORES
    assert result.memory[L2][: 4 * CORES].view("<u4").tolist() == [ROUNDS] * CORES


def test_blocks_end_anywhere(library, monkeypatch):
    monkeypatch.setattr(session, "BLOCK", 16)
    result = run(library, program(rounds=5), l2_latency=5)
    assert (result.exit.text, result.mismatches, result.difference) == ("pass", 0, None)


@pytest.mark.parametrize(
    ("fault", "reasons", "told"),
    [
        (DROPPED_GRANT, {Reason.DEADLOCK}, "core 3: waits for the grant of an access"),
        (SWAPPED_BANKS, {Reason.DIFFERENCE, Reason.FAIL}, "bus_addr must be 0x1000"),
        (LOST_EVENT, {Reason.DEADLOCK}, "core 1: waits for barrier 0"),
        (EARLY_BARRIER, {Reason.FAIL}, "code 1"),
        (WRONG_STORE, {Reason.DIFFERENCE, Reason.FAIL}, "bus_wdata must be"),
        (UNMARKED, {Reason.DIFFERENCE, Reason.FAIL}, "bus_we must be 0x1, not 0x0"),
    ],
)
def test_faults_are_found(library, fault, reasons, told):
    result = run(library, program(fault=fault))
    assert result.exit.reason in reasons, result.exit.text
    assert told in f"{result.exit.text} {result.difference}"
