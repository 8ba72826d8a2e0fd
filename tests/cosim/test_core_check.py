"""The fast check of the core: silent on a good run, and every kind of wrong retirement found."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from xpulpnn.config import preset
from xpulpnn.isa.table import INSNS, Decoder, by_mnemonic
from xpulpnn_sim.elf import Executable, Segment
from xpulpnn_sim.harness.core_check import CoreCheck
from xpulpnn_sim.harness.core_run import Machine, load_memory, run
from xpulpnn_sim.harness.models import core_library
from xpulpnn_sim.retirement import Records
from xpulpnn_sw.asm import assemble

pytestmark = pytest.mark.cosim

CONFIG = preset("xpulpnn-full")
TOHOST, FROMHOST, DATA, TEXT, ENTRY = 0x3000, 0x3008, 0x2000, "hello", 0x80

VECTORS = "\n".join(["j exception"] + ["j interrupt"] * 31)
PROGRAM = f"""
start:
    lui sp, 2
    addi s0, sp, 0x400
    csrr a0, mhartid
    csrr a0, mtvec
    csrw mscratch, s0
    csrr a1, mscratch
    csrrsi a1, mscratch, 3
    csrrc a1, mscratch, s0
    csrr a2, misa
    csrr a3, minstret
    csrr a3, mcycle
    csrr a3, mip
    li a4, 37
    li a5, -5
    div a6, a4, a5
    mul a7, a4, a5
    c.mv s1, a4
    c.add s1, a5
    sub s2, a4, a5
    sw a4, 0(sp)
    sb a5, 1(sp)
    lw t0, 0(sp)
    lh t1, 1(sp)
    lbu t2, 1(sp)
    p.sw a5, 4(s0!)
    p.lw t3, -4(s0!)
    p.lw s0, 4(s0!)
    addi s0, sp, 0x40
    p.mac a6, a4, a5
    pv.sdotsp.b a6, a4, a5
    pv.add.sc.n a7, a6, a4
    pv.mlsdotup.h x0, (s0!), 8
    pv.mlsdotup.h x0, (s0!), 16
    li t4, 6
    lp.setup 0, t4, 1f
    pv.mlsdotsup.n a0, (s0!), 17
    c.addi s2, 1
1:  pv.mlsdotsup.b a1, (s0!), 0
    lp.starti 1, 2f
    lp.endi 1, 3f
    lp.counti 1, 3
2:  lp.setupi 0, 2, 3f
    csrr t5, lpcount1
3:  addi s3, s3, 1
    beq a4, a5, never
    bne a4, a5, 4f
never:
    addi s4, s4, 1
4:  p.beqimm t4, 6, 5f
    addi s4, s4, 1
5:  jal ra, function
    la t0, function
    jalr ra, 0(t0)
    ecall
    c.ebreak
    .word 0xffffffff
    csrw 0x123, a0
    csrw mhartid, a0
    li a0, -1
    csrw mie, a0
    csrsi mstatus, 8
    li t4, 60
6:  addi s5, s5, 3
    mul s6, s5, s5
    addi t4, t4, -1
    bne t4, zero, 6b
    csrci mstatus, 8
    csrr t0, mstatus
    csrr t0, mcause
    li t0, {DATA + 0x800}
    li t1, {TOHOST}
    sw t0, 0(t1)
wait:
    lw t2, {FROMHOST - TOHOST}(t1)
    beq t2, zero, wait
    lb t2, 3(t1)
    lw t2, 0(t1)
    li t0, 1
    sw t0, 0(t1)
stop:
    j stop
function:
    addi s7, s7, 1
    ret
exception:
    csrw mscratch, t6
    csrr t6, mcause
    csrr t6, mepc
    lhu t6, 0(t6)
    andi t6, t6, 3
    addi t6, t6, -3
    beq t6, zero, 7f
    csrr t6, mepc
    addi t6, t6, 2
    j 8f
7:  csrr t6, mepc
    addi t6, t6, 4
8:  csrw mepc, t6
    csrr t6, mscratch
    mret
interrupt:
    csrw mscratch, t6
    csrr t6, mcause
    csrr t6, mepc
    csrr t6, mstatus
    csrr t6, mscratch
    mret
"""


def executable(text: str = PROGRAM) -> Executable:
    """The program behind its vector table; data with a string for the host."""
    # labels of the handlers are known to the table only if both are one text
    code = assemble(f"{VECTORS}\n{text}", 0).to_bytes()
    data = bytearray(np.random.default_rng(5).bytes(0x1000))
    data[0x800:0x820] = b"".join(word.to_bytes(8, "little") for word in (64, 1, DATA + 0x900, len(TEXT)))
    data[0x900 : 0x900 + len(TEXT)] = TEXT.encode()
    return Executable(
        path=Path("program"),
        entry=ENTRY,
        segments=(Segment(0, code, 0x1000), Segment(DATA, bytes(data), 0x1000), Segment(TOHOST, b"", 16)),
        symbols={"start": ENTRY},
        functions=(),
        tohost=TOHOST,
        fromhost=FROMHOST,
    )


def recorded(program: Executable, machine: Machine) -> Records:
    """The retirements of a run that ends well."""
    blocks: list[Records] = []

    class Recorder:
        def __call__(self, records: Records) -> None:
            blocks.append(records.copy())

    result = run(program, CONFIG, machine, observer=Recorder())
    assert result.exit.ok, result.exit.text
    return np.concatenate(blocks)


MACHINES = (
    Machine(irqs=((300, 16), (340, 3), (380, 11), (381, 31)), hart_id=3),
    Machine(
        irq_rate=0.01,
        grant_stalls=0.3,
        response_latency=4,
        fetch_grant_stalls=0.3,
        fetch_latency=4,
        seed=9,
        hart_id=3,
    ),
)


@pytest.fixture(scope="module")
def library() -> Path:
    return core_library(CONFIG)


@pytest.fixture(scope="module")
def good() -> Records:
    return recorded(executable(), MACHINES[1])


def checker(library: Path, program: Executable | None = None, hart_id: int | None = 3) -> CoreCheck:
    program = program or executable()
    return CoreCheck(program, CONFIG, load_memory(program, ()), library, hart_id=hart_id)


@pytest.mark.parametrize("machine", MACHINES)
def test_good_run_has_no_difference(machine: Machine, library: Path) -> None:
    records = recorded(executable(), machine)
    assert records["intr"].sum() >= 3
    assert records["trap"].sum() == 5
    check = checker(library)
    # the state goes on from block to block
    assert [check(block) for block in np.array_split(records, 97)] == [(0, None)] * 97


def test_run_checks_long_programs() -> None:
    result = run(executable(PROGRAM.replace("li t4, 60", "li t4, 40000")), CONFIG, Machine(), check=True)
    assert result.exit.ok
    assert result.instructions > 2 * 65536
    assert (result.mismatches, result.difference, result.output) == (0, None, TEXT.encode())


_decoder = Decoder(INSNS)


def mnemonics(records: Records) -> list[str]:
    return [insn.mnemonic if (insn := _decoder.decode(raw)) else "illegal" for raw in records["insn"].tolist()]


@dataclass(frozen=True)
class Fault:
    """A field of one retirement changed.

    Parameters
    ----------
    where : str
        Mnemonic of the retirement, and which of them.
    field : str
        Field changed.
    flip : int
        Its bits.
    found : str
        Field in which the first difference is seen; empty: the same.
    """

    where: str
    field: str
    flip: int = 1
    found: str = ""
    number: int = 0

    @property
    def reported(self) -> str:
        return self.found or self.field


FAULTS = (
    Fault("sub", "order"),
    Fault("sub", "insn", 1 << 20),
    Fault("c.add", "insn", 1 << 7),
    Fault("sub", "pc_rdata", 4),
    Fault("sub", "pc_wdata", 2),
    Fault("c.add", "pc_wdata", 2),
    Fault("sub", "trap"),
    Fault("sub", "cause", 2),
    Fault("sub", "intr"),
    Fault("ecall", "trap", found="trap"),
    Fault("ecall", "cause", 1),
    Fault("ecall", "pc_wdata", 4),
    Fault("ecall", "rd_we"),
    Fault("ecall", "mem_wmask"),
    Fault("illegal", "cause", 1),
    Fault("illegal", "trap", found="trap"),
    Fault("c.ebreak", "nn_we"),
    # operands, results
    Fault("sub", "rs1_rdata", 1 << 31),
    Fault("sub", "rs2_rdata"),
    Fault("sub", "rs1_addr", 16),
    Fault("sub", "rs2_addr"),
    Fault("sub", "rd_addr", 2),
    Fault("sub", "rd_we"),
    Fault("sub", "rd_wdata", 1 << 17),
    Fault("sub", "base_we", found=""),
    Fault("c.add", "rd_wdata"),
    Fault("div", "rd_wdata"),
    Fault("p.mac", "rd_rdata"),
    Fault("pv.sdotsp.b", "rd_wdata"),
    Fault("pv.add.sc.n", "rd_wdata", 1 << 31),
    # memory
    Fault("sw", "mem_addr", 4),
    Fault("sw", "mem_wmask", 8),
    Fault("sw", "mem_wdata"),
    Fault("sb", "mem_wdata", 0x80),
    Fault("sb", "mem_rmask"),
    Fault("lw", "mem_rdata", 1 << 8),
    Fault("lw", "rd_wdata"),
    Fault("lh", "mem_addr", 1),
    Fault("lh", "mem_rmask", 4),
    Fault("lh", "mem_rdata", 1 << 16),
    Fault("lbu", "rd_wdata", 1 << 8),
    Fault("p.sw", "base_wdata", 4),
    Fault("p.sw", "base_addr"),
    Fault("p.sw", "base_we"),
    Fault("p.lw", "base_wdata", 8),
    # Mac&Load
    Fault("pv.mlsdotsup.n", "nn_act_rdata"),
    Fault("pv.mlsdotsup.n", "nn_wgt_rdata"),
    Fault("pv.mlsdotsup.n", "nn_addr"),
    Fault("pv.mlsdotsup.n", "nn_we"),
    Fault("pv.mlsdotsup.n", "nn_wdata"),
    Fault("pv.mlsdotsup.n", "mem_rdata"),
    Fault("pv.mlsdotsup.n", "mem_addr", 4),
    Fault("pv.mlsdotsup.n", "rd_wdata"),
    Fault("pv.mlsdotsup.n", "base_wdata", 4),
    Fault("pv.mlsdotsup.b", "base_we"),
    # control
    Fault("beq", "pc_wdata", 4),
    Fault("bne", "pc_wdata", 4),
    Fault("p.beqimm", "pc_wdata", 8),
    Fault("jal", "pc_wdata", 4),
    Fault("jal", "rd_wdata", 4, number=-1),
    Fault("jalr", "pc_wdata", 8),
    Fault("mret", "pc_wdata", 4),
    Fault("pv.mlsdotsup.b", "pc_wdata", 4, number=0),
    Fault("pv.mlsdotsup.b", "pc_wdata", 4, number=5),
    # CSRs
    *(Fault("csrrs", "rd_wdata", flip, number=number) for number, flip in ((0, 1), (1, 1), (2, 1 << 31), (3, 1 << 5))),
    Fault("csrrsi", "rd_wdata", 1 << 4),
    Fault("csrrc", "rd_wdata"),
)


def corrupted(good: Records, fault: Fault) -> tuple[Records, int]:
    """The retirements with the fault, and where it is."""
    records = good.copy()
    # jumps without a link have no result
    places = [
        at
        for at, name in enumerate(mnemonics(records))
        if name == fault.where and (fault.field != "rd_wdata" or records["rd_addr"][at])
    ]
    at = places[fault.number]
    records[fault.field][at] ^= np.array(fault.flip, records[fault.field].dtype)
    return records, at


@pytest.mark.parametrize(
    "fault", FAULTS, ids=lambda fault: f"{fault.where}-{fault.field}-{fault.number}-{fault.flip:x}"
)
def test_wrong_field_is_found(fault: Fault, good: Records, library: Path) -> None:
    records, at = corrupted(good, fault)
    count, text = checker(library)(records)
    assert count > 0
    assert text is not None
    lines = text.splitlines()
    assert lines[0].startswith(f"difference at retirement {records['order'][at]}, cycle {records['cycle'][at]}, pc 0x")
    if fault.field != "insn":
        assert fault.where.removeprefix("c.").removeprefix("p.")[:2] in lines[1] or fault.where == "illegal"
    assert lines[2].split()[0] == fault.reported
    assert lines[2].endswith(f"not 0x{int(records[fault.reported][at]):x}")
    assert "rs1_rdata=" in lines[3]
