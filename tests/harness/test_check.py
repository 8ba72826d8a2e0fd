"""The fast check of the core: silent on a good run, and every kind of wrong retirement found."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from xpulpnn.config import preset
from xpulpnn_sim.elf import Executable, Function, Segment
from xpulpnn_sim.harness.core_check import CoreCheck
from xpulpnn_sim.harness.core_run import Machine, load_memory, run
from xpulpnn_sim.harness.models import core_library
from xpulpnn_sim.retirement import Records
from xpulpnn_sim.trace import text_of
from xpulpnn_sw.asm import assemble

pytestmark = pytest.mark.cosim

CONFIG = preset("xpulpnn-full")
TOHOST, FROMHOST, DATA, TEXT, ENTRY = 0x3000, 0x3008, 0x2000, "hello", 0x80

NOP = 0x00000013

VECTORS = "\n".join(["j exception"] + ["j interrupt"] * 31)
PROGRAM = Path(__file__).with_name("core_check.s").read_text()


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
        functions=(Function(ENTRY, len(code) - ENTRY, "start"),),
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


def texts(records: Records) -> list[str]:
    """The instructions in assembly; the first of an interrupt handler is called so."""
    pairs = zip(records["insn"].tolist(), records["pc_rdata"].tolist(), records["intr"].tolist(), strict=True)
    return ["interrupt" if intr else text_of(raw, pc) for raw, pc, intr in pairs]


@dataclass(frozen=True)
class Fault:
    """A field of one retirement changed.

    Parameters
    ----------
    where : str
        How the instruction reads.
    field : str
        Field changed.
    flip : int
        Its bits.
    found : str
        Field in which the first difference is seen; empty: the same.
    number : int
        Which of these instructions.
    """

    where: str
    field: str
    flip: int = 1
    found: str = ""
    number: int = 0

    @classmethod
    def parse(cls, where: str, text: str) -> "Fault":
        """``field[=flip][>found]`` of the instruction ``text [#number]``."""
        place, _, number = where.partition(" #")
        change, _, found = text.partition(">")
        field, _, flip = change.partition("=")
        return cls(place, field, int(flip or "1", 0), found, int(number or "0"))

    @property
    def reported(self) -> str:
        return self.found or self.field


FAULTS = tuple(
    Fault.parse(where, text)
    for where, faults in (
        ("sub", "order insn=0x100000 pc_rdata=0x4 pc_wdata=0x2 trap cause=0x2 intr"),
        ("sub", "rs1_rdata=0x80000000 rs2_rdata rs1_addr=0x10 rs2_addr"),
        ("sub", "rd_addr=0x2 rd_we rd_wdata=0x20000 base_we"),
        ("c.add", "insn=0x80 insn=0x10000 pc_wdata=0x2 rd_wdata"),
        ("ecall", "trap cause pc_wdata=0x4 rd_we mem_wmask"),
        ("illegal", "cause trap"),
        ("c.ebreak", "nn_we"),
        ("div", "rd_wdata"),
        ("p.mac", "rd_rdata"),
        ("pv.sdotsp.b", "rd_wdata"),
        ("pv.add.sc.n", "rd_wdata=0x80000000"),
        ("sw", "mem_addr=0x4 mem_wmask=0x8 mem_wdata"),
        ("sb", "mem_wdata=0x80 mem_rmask"),
        ("lw", "mem_rdata=0x100 rd_wdata"),
        ("lh", "mem_addr mem_rmask=0x4 mem_rdata=0x10000"),
        ("lbu", "rd_wdata=0x100"),
        ("p.sw", "base_wdata=0x4 base_addr base_we"),
        ("p.lw", "base_wdata=0x8"),
        ("pv.mlsdotsup.n", "nn_act_rdata nn_wgt_rdata nn_addr nn_we nn_wdata"),
        ("pv.mlsdotsup.n", "mem_rdata mem_addr=0x4 rd_wdata base_wdata=0x4"),
        ("pv.mlsdotsup.b", "base_we pc_wdata=0x4"),
        ("beq", "pc_wdata=0x4"),
        ("bne", "pc_wdata=0x4"),
        ("p.beqimm", "pc_wdata=0x8"),
        ("jal", "pc_wdata=0x4"),
        ("jal ra", "rd_wdata=0x4"),
        ("jalr", "pc_wdata=0x8"),
        ("mret", "pc_wdata=0x4"),
        ("pv.mlsdotsup.b #5", "pc_wdata=0x4"),
        ("jalr zero", "pc_wdata=0x8"),
        ("interrupt", "intr>pc_rdata cause>pc_rdata pc_rdata=0x4 pc_wdata=0x4 cause=0x20"),
        ("csrrs a0, mhartid", "rd_wdata"),
        ("csrrs a0, mtvec", "rd_wdata"),
        ("csrrs a1, mscratch", "rd_wdata"),
        ("csrrsi a1, mscratch", "rd_wdata"),
        ("csrrc a1, mscratch", "rd_wdata"),
        ("csrrs a2, misa", "rd_wdata=0x800000"),
        ("csrrs t5, lpcount1 #3", "rd_wdata"),
        ("csrrs t6, mcause", "rd_wdata"),
        ("csrrs t6, mcause #-1", "rd_wdata"),
        ("csrrs t6, mepc", "rd_wdata=0x2"),
        ("csrrs t6, mepc #-1", "rd_wdata=0x2"),
        ("csrrs t6, mstatus #-1", "rd_wdata=0x80"),
        ("csrrs t0, mstatus", "rd_wdata=0x8"),
    )
    for text in faults.split()
)
"""Bits flipped in one field of a retirement, and after > the field where that shows first if it is another."""


def corrupted(good: Records, fault: Fault) -> tuple[Records, int]:
    """The retirements with the fault, and where it is."""
    records = good.copy()
    places = [
        at
        for at, text in enumerate(texts(records))
        if f"{text} ".startswith(f"{fault.where} ") or text.startswith(f"{fault.where},")
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
    if fault.field not in ("insn", "pc_rdata"):
        assert lines[1].endswith(text_of(int(records["insn"][at]), int(records["pc_rdata"][at])))
    got = int(records[fault.reported][at])
    if fault.reported == "mem_wdata":
        got &= (1 << 8 * int(records["mem_wmask"][at]).bit_length()) - 1
    assert lines[2].startswith(f"  {fault.reported} must be 0x")
    assert lines[2].endswith(f", not 0x{got:x}")
    assert "rs1_rdata=" in lines[3]


def without(records: Records, first: int, count: int) -> Records:
    """The records without some of them, renumbered."""
    rest = np.delete(records, range(first, first + count))
    rest["order"] = np.arange(len(rest))
    return rest


def test_missing_retirements_are_found(good: Records, library: Path) -> None:
    named = texts(good)
    loop = [at for at, text in enumerate(named) if text.startswith("pv.mlsdotsup.n")]
    handler = named.index("interrupt")
    for first, count, expected in (
        (named.index("sub s2, a4, a5"), 1, "pc_rdata"),
        (loop[2], loop[3] - loop[2], "rs1_rdata"),
        (handler, 1, "pc_rdata"),
    ):
        check = checker(library)
        total, text = check(without(good, first, count))
        assert total > 0
        assert text is not None
        assert expected in text.splitlines()[2], text
        assert f"retirement {first}," in text


def test_loop_left_too_early_is_found(good: Records, library: Path) -> None:
    named = texts(good)
    last = max(at for at, text in enumerate(named) if text.startswith("pv.mlsdotsup.n"))
    records = good.copy()
    records["pc_wdata"][last - 1] = records["pc_rdata"][last - 1] + 4
    records = without(records, last, 3)
    total, text = checker(library)(records)
    assert total > 0
    assert text is not None
    start = int(good["pc_rdata"][last])
    assert f"retirement {last - 1}," in text
    assert text.splitlines()[2] == f"  pc_wdata must be 0x{start:x}, not 0x{start + 10:x}"


def test_interrupt_while_disabled_is_found(good: Records, library: Path) -> None:
    records = good.copy()
    # the design forgets the write that enables interrupts, and takes them nevertheless
    enabling = next(at for at, text in enumerate(texts(records)) if text.startswith("csrrsi zero, mstatus"))
    for field, value in (("insn", NOP), ("rs1_addr", 0), ("rs1_rdata", 0)):
        records[field][enabling] = value
    program = executable(PROGRAM.replace("csrsi mstatus, 8", "nop"))
    total, text = checker(library, program)(records)
    assert total > 0
    assert text is not None
    assert text.splitlines()[2] == "  intr must be 0x0, not 0x1"


def test_memory_that_differs_is_found(good: Records, library: Path) -> None:
    program = executable()
    for address, field in ((DATA + 0x44, "mem_rdata"), (ENTRY + 1, "insn")):
        memory = load_memory(program, ())
        base = max(base for base in memory if base <= address)
        memory[base][address - base] ^= 1
        total, text = CoreCheck(program, CONFIG, memory, library)(good)
        assert total > 0
        assert text is not None
        assert text.splitlines()[2].startswith(f"  {field} must be")


def test_instruction_the_configuration_lacks_must_trap(good: Records, library: Path) -> None:
    program = executable()
    total, text = CoreCheck(program, preset("ri5cy"), load_memory(program, ()), library)(good)
    assert total > 0
    assert text is not None
    assert "pv.add.sc.n" in text.splitlines()[1]
    assert text.splitlines()[2] == "  trap must be 0x1, not 0x0"


def test_any_hart_id_is_accepted_if_none_is_given(good: Records, library: Path) -> None:
    assert checker(library, hart_id=None)(good) == (0, None)
    total, text = checker(library, hart_id=4)(good)
    assert total > 0
    assert text is not None
    assert "rd_wdata must be 0x4, not 0x3" in text
    assert "csrrs a0, mhartid" in text


def test_report_names_the_place_and_what_came_before(good: Records, library: Path) -> None:
    records, at = corrupted(good, Fault("sub", "rd_wdata", 4))
    check = checker(library)
    assert check(records[: at - 2]) == (0, None)
    total, text = check(records[at - 2 :])
    assert text is not None
    lines = text.splitlines()
    assert lines[0].endswith(f"pc 0x{records['pc_rdata'][at]:08x} (start+0x{records['pc_rdata'][at] - ENTRY:x})")
    assert total >= 1
    # eight retirements of both blocks, then the wrong one
    shown = lines[lines.index("before it, and as the design reports it:") + 1 :]
    assert len(shown) == 9
    assert "sub s2, a4, a5" in shown[-1]
    assert "c.add s1, a5" in shown[-2]
