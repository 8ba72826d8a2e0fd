"""The check of every retirement: silent on a good run, and every kind of wrong retirement and access found."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.cosimulation.conftest import Recording
from tests.designs import EVERY_ROW as CONFIG

from xpulpnn.config import preset
from xpulpnn_sim.cosimulation.checks.retirements import RetirementCheck
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.iss.lockstep import Lockstep
from xpulpnn_sim.reference.programs.elf import Executable, FunctionSymbol, Segment
from xpulpnn_sim.reference.programs.exits import DifferenceError
from xpulpnn_sim.reference.programs.retirements import Records
from xpulpnn_sim.reference.programs.trace import text_of
from xpulpnn_sw.assembly.asm import assemble
from xpulpnn_sw.assembly.disasm import ABI_NAMES

pytestmark = pytest.mark.cosim

TOHOST, FROMHOST, DATA, TEXT, ENTRY = 0x3000, 0x3008, 0x2000, "hello", 0x80

NOP = 0x00000013

VECTORS = "\n".join(["j exception"] + ["j interrupt"] * 31)
PROGRAM = Path(__file__).with_name("check.s").read_text()


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
        functions=(FunctionSymbol(ENTRY, len(code) - ENTRY, "start"),),
        tohost=TOHOST,
        fromhost=FROMHOST,
    )


MACHINES = (
    Machine(irqs=((300, 16), (340, 3), (380, 11), (381, 31)), hart_id=3),
    Machine(
        irq_rate=0.01, grant_stalls=0.3, response_latency=4, fetch_grant_stalls=0.3, fetch_latency=4, seed=9, hart_id=3
    ),
)


@pytest.fixture(scope="module")
def good(recorded: Callable[..., Recording]) -> Recording:
    return recorded(executable(), CONFIG, MACHINES[1])


def checker(program: Executable | None = None, *, hart_id=3, config=CONFIG) -> Lockstep:
    return Lockstep(program or executable(), config, hart_id=hart_id)


def judged(check: Lockstep, records: Records, grants: NDArray[Any]) -> str:
    """Report of the first difference, of which there must be one."""
    difference = check.compare(records, None, grants)
    assert difference is not None
    return difference.text


@pytest.mark.parametrize("machine", MACHINES)
def test_good_run_has_no_difference(machine: Machine, recorded: Callable[..., Recording]) -> None:
    records, grants, lines = recorded(executable(), CONFIG, machine)
    assert records["intr"].sum() >= 3
    assert records["trap"].sum() == 5
    check = checker()
    # the state goes on from block to block
    bounds = [block[-1]["cycle"] for block in np.array_split(records, 97)][:-1]
    granted = np.split(grants, np.searchsorted(grants["cycle"], bounds, "right"))
    pieces = zip(np.array_split(records, 97), granted, np.array_split(lines, 97), strict=True)
    for part, accesses, irqs in pieces:
        assert check.compare(part, irqs, accesses) is None


def test_run_checks_long_programs() -> None:
    result = run_program(executable(PROGRAM.replace("li t4, 60", "li t4, 40000")), CONFIG, Machine(), check=True)
    assert result.exit.ok
    assert result.instructions > 2 * 65536
    assert (result.mismatches, result.difference, result.output) == (0, None, TEXT.encode())


def texts(records: Records) -> list[str]:
    """The instructions in assembly; the first of an interrupt handler is called so."""
    pairs = zip(records["insn"].tolist(), records["pc_rdata"].tolist(), records["intr"].tolist(), strict=True)
    return ["interrupt" if intr else text_of(raw, pc) for raw, pc, intr in pairs]


class Fault(NamedTuple):
    where: str  # text of the instruction
    field: str
    flip: int = 1  # bits that change
    reported: str = ""  # the field in which the first difference is seen
    number: int = 0  # among the instructions with this text


def fault_of(where: str, text: str) -> Fault:
    """``field[=flip][>found]`` of the instruction ``text [#number]``."""
    place, _, number = where.partition(" #")
    change, _, reported = text.partition(">")
    field, _, flip = change.partition("=")
    return Fault(place, field, int(flip or "1", 0), reported or field, int(number or "0"))


FAULTS = tuple(
    fault_of(where, text)
    for where, _, faults in (
        line.partition(": ")
        for line in Path(__file__).with_name("check_faults.txt").read_text().splitlines()
        if not line.startswith("#")
    )
    for text in faults.split()
)
"""Bits flipped in one field of a retirement, and after > the field where that shows first if it is another."""


def place_of(records: Records, where: str, number: int = 0) -> int:
    """The retirement of the instruction whose text starts so."""
    places = [
        at
        for at, text in enumerate(texts(records))
        if f"{text} ".startswith(f"{where} ") or text.startswith(f"{where},")
    ]
    return places[number]


def corrupted(good: Records, fault: Fault) -> tuple[Records, int]:
    records, at = good.copy(), place_of(good, fault.where, fault.number)
    records[fault.field][at] ^= np.array(fault.flip, records[fault.field].dtype)
    return records, at


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: "-".join(map(str, fault)))
def test_wrong_field_is_found(fault: Fault, good: Recording) -> None:
    records, at = corrupted(good.records, fault)
    text = judged(checker(), records, good.grants)
    lines = text.splitlines()
    assert lines[0].startswith(f"difference at retirement {records['order'][at]}, cycle {records['cycle'][at]}, pc 0x")
    if fault.field not in ("insn", "pc_rdata"):
        assert lines[1].endswith(text_of(int(records["insn"][at]), int(records["pc_rdata"][at])))
    got = int(records[fault.reported][at])
    if fault.reported == "mem_wdata":
        got &= (1 << 8 * int(records["mem_wmask"][at]).bit_length()) - 1
    assert lines[2].startswith(f"  {fault.reported} must be ")
    shown = lines[2].partition(": ")[0].partition(", address")[0].split(", not ")[1]
    assert shown in (f"0x{got:08x}", str(got), ABI_NAMES[got % 32], "none")
    assert any(line.startswith("  operands: rs1_rdata=") for line in lines[3:6])


def grants_of(good: Recording, at: int) -> list[int]:
    """Numbers of the grants that the retirement must claim."""
    records = good.records
    searches = {"pv.qnt.n": 8, "pv.qnt.c": 4}
    accesses = [
        searches.get(text.partition(" ")[0], 0) if not mask else 1 + (address % 4 + mask.bit_length() > 4)
        for text, address, mask in zip(
            texts(records),
            records["mem_addr"].tolist(),
            (records["mem_rmask"] | records["mem_wmask"]).tolist(),
            strict=True,
        )
    ]
    first = sum(accesses[:at])
    return list(range(first, first + accesses[at]))


@pytest.mark.parametrize(
    ("where", "field", "flip", "reported"),
    [
        ("sw", "address", 4, "bus_addr"),
        ("sb", "address", 0x80, "bus_addr"),
        ("sw", "wdata", 1 << 31, "bus_wdata"),
        ("sb", "wdata", 1 << 8, "bus_wdata"),
        ("sb", "be", 1 << 2, "bus_be"),
        ("p.sw", "be", 1, "bus_be"),
        ("sw", "we", 1, "bus_we"),
        ("lw", "address", 8, "bus_addr"),
        ("lw", "we", 1, "bus_we"),
        ("pv.mlsdotsup.n", "address", 1 << 30, "bus_addr"),
        ("lh", "address", 4, "bus_addr"),
        # the last of many
        ("pv.qnt.n", "address", 4, "bus_addr"),
        ("pv.qnt.c", "we", 1, "bus_we"),
        # the second of two accesses
        ("sh", "wdata", 1, "bus_wdata"),
        ("sh", "be", 1 << 1, "bus_be"),
        ("lhu", "address", 8, "bus_addr"),
    ],
)
def test_wrong_access_is_found(where: str, field: str, flip: int, reported: str, good: Recording) -> None:
    at, grants = place_of(good.records, where), good.grants.copy()
    grants[field][grants_of(good, at)[-1]] ^= flip
    text = judged(checker(), good.records, grants)
    lines = text.splitlines()
    assert lines[0].startswith(f"difference at retirement {good.records['order'][at]},")
    assert lines[2].startswith(f"  {reported} must be ")
    assert lines[2].endswith(f", address 0x{good.records['mem_addr'][at]:08x}")


def test_lanes_that_are_not_stored_do_not_matter(good: Recording) -> None:
    grants = good.grants.copy()
    number = grants_of(good, place_of(good.records, "sb"))[0]
    grants["wdata"][number] ^= 0xFFFF_00FF
    grants["be"][grants_of(good, place_of(good.records, "lw"))[0]] ^= 0xF
    assert checker().compare(good.records, None, grants) is None


def late(grants: NDArray[Any], number: int, retired: int) -> NDArray[Any]:
    grants["cycle"][number] = retired
    return grants


def swapped(grants: NDArray[Any], number: int, retired: int) -> NDArray[Any]:
    grants[[number, number + 1]] = grants[[number + 1, number]]
    return grants


@pytest.mark.parametrize(
    ("spoil", "reported"),
    [
        # the next access is taken for the missing one
        (lambda grants, number, retired: np.delete(grants, number), "bus_"),
        (lambda grants, number, retired: grants[:number], "bus_req must be 1, not 0, address 0x"),
        (lambda grants, number, retired: np.insert(grants, number, grants[number]), "bus_req must be 0, not 1"),
        (late, "bus_req must be 1, not 0, address 0x"),
        (swapped, "bus_"),
    ],
    ids=["missing", "none from here", "twice", "late", "swapped"],
)
@pytest.mark.parametrize("where", ["sw", "sb", "p.sw", "pv.mlsdotsup.n"])
def test_wrong_order_of_accesses_is_found(where: str, spoil, reported: str, good: Recording) -> None:
    at = place_of(good.records, where)
    grants = spoil(good.grants.copy(), grants_of(good, at)[0], int(good.records["cycle"][at]))
    text = judged(checker(), good.records, grants)
    assert text.startswith(f"difference at retirement {good.records['order'][at]},")
    assert text.splitlines()[2].startswith(f"  {reported}")


def test_memory_and_retirements_after_the_run_are_compared(good: Recording) -> None:
    reference = checker()
    assert reference.compare(good.records, None, good.grants) is None
    check, count = RetirementCheck(reference, changing=(TOHOST, FROMHOST)), len(good.records)
    memory = {base: np.frombuffer(reference.iss.memory.read_bytes(base, 0x1000), np.uint8).copy() for base in (0, DATA)}
    check.finish(memory, [count])
    memory[DATA][0x123] ^= 1
    with pytest.raises(DifferenceError, match=f"^memory word at 0x{DATA + 0x120:08x} must be 0x") as caught:
        check.finish(memory, [count])
    assert (caught.value.count, caught.value.order) == (1, None)
    with pytest.raises(DifferenceError, match=rf"^retirements in lock step must be \[{count + 1}\], not \[{count}\]$"):
        check.finish(memory, [count + 1])


def without(records: Records, first: int, count: int) -> Records:
    rest = np.delete(records, range(first, first + count))
    rest["order"] = np.arange(len(rest))
    return rest


def test_missing_retirements_are_found(good: Recording) -> None:
    named = texts(good.records)
    loop = [at for at, text in enumerate(named) if text.startswith("pv.mlsdotsup.n")]
    handler = named.index("interrupt")
    for first, count, expected in (
        (named.index("sub s2, a4, a5"), 1, "pc_rdata"),
        (loop[2], loop[3] - loop[2], "rs1_rdata"),
        (handler, 1, "pc_rdata"),
    ):
        text = judged(checker(), without(good.records, first, count), good.grants)
        assert expected in text.splitlines()[2], text
        assert f"retirement {first}," in text


def test_loop_left_too_early_is_found(good: Recording) -> None:
    named = texts(good.records)
    last = max(at for at, text in enumerate(named) if text.startswith("pv.mlsdotsup.n"))
    records = good.records.copy()
    records["pc_wdata"][last - 1] = records["pc_rdata"][last - 1] + 4
    records = without(records, last, 3)
    text = judged(checker(), records, good.grants)
    start = int(good.records["pc_rdata"][last])
    assert f"retirement {last - 1}," in text
    assert text.splitlines()[2] == f"  pc_wdata must be 0x{start:08x}, not 0x{start + 10:08x}"


@pytest.mark.parametrize(
    ("line", "shown"), [("csrsi mstatus, 8", "csrrsi zero, mstatus"), ("csrw mie, a0", "csrrw zero, mie")]
)
def test_interrupt_while_disabled_is_found(line: str, shown: str, good: Recording) -> None:
    records = good.records.copy()
    # the design forgets the write that enables interrupts, and takes them nevertheless
    enabling = next(at for at, text in enumerate(texts(records)) if text.startswith(shown))
    for field, value in (("insn", NOP), ("rs1_addr", 0), ("rs2_addr", 0), ("rs1_rdata", 0)):
        records[field][enabling] = value
    program = executable(PROGRAM.replace(line, "nop"))
    text = judged(checker(program), records, good.grants)
    assert text.splitlines()[2].startswith("  intr must be 0, not 1")


def test_memory_that_differs_is_found(good: Recording) -> None:
    for address, field in ((DATA + 0x44, "mem_rdata"), (ENTRY + 1, "insn")):
        check = checker()
        check.iss.memory.write_bytes(address, bytes([check.iss.memory.read(address, 1) ^ 1]))
        text = judged(check, good.records, good.grants)
        assert text.splitlines()[2].startswith(f"  {field} must be")


def test_instruction_the_configuration_lacks_must_trap(good: Recording) -> None:
    text = judged(checker(config=preset("ri5cy")), good.records, good.grants)
    assert "pv.add.sc.n" in text.splitlines()[1]
    assert text.splitlines()[2] == "  trap must be 1, not 0"


def test_number_of_the_hart_is_compared(good: Recording) -> None:
    text = judged(checker(hart_id=4), good.records, good.grants)
    assert "rd_wdata must be 0x00000004, not 0x00000003" in text
    assert "csrrs a0, mhartid" in text


def test_report_names_the_place_and_what_came_before(good: Recording) -> None:
    records, at = corrupted(good.records, Fault("sub", "rd_wdata", 4))
    check = checker()
    assert check.compare(records[: at - 2], None, good.grants) is None
    text = judged(check, records[at - 2 :], good.grants[:0])
    lines = text.splitlines()
    assert lines[0].endswith(f"pc 0x{records['pc_rdata'][at]:08x} (start+0x{records['pc_rdata'][at] - ENTRY:x})")
    # eight retirements of both blocks, then the wrong one
    shown = lines[lines.index("before it, and as the design reports it:") + 1 :]
    assert len(shown) == 9
    assert "sub s2, a4, a5" in shown[-1]
    assert "c.add s1, a5" in shown[-2]
