"""Lock step: a second simulator plays the design; every field it gets wrong is found, and nothing else."""

import numpy as np
import pytest
from tests.programs import program_of

from xpulpnn.config import PRESETS
from xpulpnn.isa.table import find
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.lockstep import HISTORY, Lockstep
from xpulpnn_sim.reference.iss.session import HostChannel, loaded_memory
from xpulpnn_sim.reference.programs.retirements import RETIREMENT

CODE, DATA = 0x1C00_0000, 0x1000_0000
ENTRY = CODE + 0x80
CONFIG = PRESETS["xpulpnn-full"]

PROGRAM = """
    li x8, data
    li x9, 5
main: lp.setupi 0, 3, 1f
    p.lw x10, 4(x8!)
    pv.mlsdotsup.b x0, (x8!), 8
    pv.mlsdotsup.b x11, (x8!), 16
    p.sw x10, x9(x8!)
    pv.mlsdotsp.h x12, (x8!), 0
    pv.cusdotusp.n.1 x12, (x8!), x10
    c.addi x13, 1
1:  p.mac x11, x9, x10
    beq x0, x0, over
    .word 0
over: ecall
    csrrw x14, mscratch, x9
    csrrs x15, mcycle, x0
    sh x15, 2(x8)
    jal x1, function
    li x31, tohost; li x30, 1; sw x30, 0(x31)
    j pc+0
function: p.sb x9, -1(x8!)
    c.jr x1
"""
HANDLER = "csrrs x6, mepc, x0; addi x6, x6, 4; csrrw x0, mepc, x6; mret"


class Design:
    """A simulator that reports what it retires, as a core does; its cycle counter runs three times as fast."""

    def __init__(self, executable, config=CONFIG):
        self.iss = Iss.of(config, executable.entry, memory=loaded_memory(executable))
        HostChannel(executable, (self.iss,))
        self.rows = []

    def retire(self, count, lines=0):
        self.iss.csrs["mip"] = lines
        total = len(self.rows) + count
        while len(self.rows) < total:
            self.iss.csrs["mcycle"] += 2
            retired = self.iss.step().retired
            if retired is not None:
                number = len(self.rows)
                self.rows.append({"order": number, "cycle": 3 * number} | retired.record)
        return self

    def records(self):
        rows = [tuple(row.get(name, 0) for name in RETIREMENT.names) for row in self.rows]
        return np.array(rows, RETIREMENT)


@pytest.fixture
def executable():
    return program_of(PROGRAM, HANDLER, bytes(range(1, 256)))


@pytest.fixture
def records(executable):
    return Design(executable).retire(50).records()


def at(records, mnemonic_field, value=None):
    """Position of the first record with a field set, or equal to ``value``."""
    column = records[mnemonic_field]
    return int(np.flatnonzero(column if value is None else column == value)[0])


@pytest.mark.flow
def test_a_correct_design_agrees(executable, records):
    lockstep = Lockstep(executable, CONFIG)
    for start in range(0, 50, 7):
        assert lockstep.compare(records[start : start + 7]) is None
    assert lockstep.compared == 50
    assert lockstep.iss.state.pc == records["pc_wdata"][-1]


def test_timed_values_come_from_the_design(executable, records):
    lockstep = Lockstep(executable, CONFIG)
    lockstep.compare(records)
    number = at(records, "insn", 0xB000_27F3)
    assert lockstep.iss.state.regs[15] == records["rd_wdata"][number] > number + 1
    assert records["mem_wdata"][number + 1] == records["rd_wdata"][number]


WRONG = {
    "pc_rdata insn pc_wdata mem_rmask mem_wmask nn_act_rdata nn_wgt_rdata": "",
    "rs1_rdata rs1_addr base_wdata base_addr": "base_we",
    "rs2_rdata rs2_addr mem_addr mem_wdata": "mem_wmask",
    "rd_rdata nn_addr nn_wdata": "nn_we",
    "rd_wdata rd_addr": "rd_we",
    "mem_addr mem_rdata": "mem_rmask",
    "cause": "trap",
}
"""Fields, and the one that tells which records have them; nothing where each tells itself."""


@pytest.mark.parametrize(
    ("field", "where"), [(field, where or field) for fields, where in WRONG.items() for field in fields.split()]
)
def test_every_wrong_field_is_found(executable, records, field, where):
    number = at(records, where)
    want = int(records[field][number])
    records[field][number] = want ^ 1
    difference = Lockstep(executable, CONFIG).compare(records)
    assert (difference.order, difference.field, difference.got) == (number, field, want ^ 1)
    assert difference.expected == want
    assert f"{field} must be " in difference.text


@pytest.mark.parametrize(
    ("enable", "reported"),
    [("rd_we", "rd_addr"), ("base_we", "base_addr"), ("nn_we", "nn_we"), ("mem_rmask", "mem_rmask"), ("trap", "trap")],
)
@pytest.mark.parametrize("missing", [False, True])
def test_missing_and_additional_effects_are_found(executable, records, enable, reported, missing):
    if missing:
        number = at(records, enable)
        records[enable][number] = 0
    else:
        # the compressed addition of a program that has every effect elsewhere
        number = at(records, "insn", 0x0685) if enable != "rd_we" else at(records, "mem_wmask")
        records[enable][number] = 1
        records["rd_addr" if enable == "rd_we" else "base_addr"][number] = 21
    difference = Lockstep(executable, CONFIG).compare(records)
    assert (difference.order, difference.field) == (number, reported)


@pytest.mark.parametrize("enable", ["rd_we", "base_we", "nn_we", "mem_rmask", "mem_wmask"])
def test_a_trap_with_an_effect_is_found(executable, records, enable):
    number = at(records, "trap")
    records[enable][number] = 1
    assert Lockstep(executable, CONFIG).compare(records).field == enable


def test_other_csrs_are_compared(executable, records):
    number = at(records, "insn", find("csrrw").encode(rd=14, rs1=9, csr=0x340))
    records["rd_wdata"][number] += 1
    assert Lockstep(executable, CONFIG).compare(records).field == "rd_wdata"


@pytest.mark.parametrize("reported", [False, True])
def test_an_increment_that_is_lost_may_be_reported(reported):
    """The base is rd as well: the loaded value stays."""
    executable = program_of("li x8, data; p.lw x8, 4(x8!); addi x9, x8, 0", data=bytes(range(8)))
    records = Design(executable).retire(3).records()
    if reported:
        records["base_we"][1], records["base_addr"][1], records["base_wdata"][1] = 1, 8, DATA + 4
    assert Lockstep(executable, CONFIG).compare(records) is None


@pytest.mark.parametrize(
    ("where", "value", "field", "wrong"),
    [
        # writes of x0, the base of a Mac&Load without access, store data above its size
        ("mem_wmask", None, "rd_we", 1),
        ("insn", find("pv.mlsdotsp.h").encode(rd=12, rs1=8, nnimm5=0), "rs1_rdata", 4),
        ("mem_wmask", 0b11, "mem_wdata", 0xABCD_0000),
    ],
)
def test_what_does_not_matter(executable, records, where, value, field, wrong):
    records[field][at(records, where, value)] ^= wrong
    assert Lockstep(executable, CONFIG).compare(records) is None


def test_a_skipped_instruction_is_found(executable, records):
    number = at(records, "nn_we")
    difference = Lockstep(executable, CONFIG).compare(np.delete(records, number))
    assert (difference.order, difference.field) == (number + 1, "pc_rdata")


OPERANDS = ("rs1_rdata", "rs2_rdata", "rd_rdata", "nn_act_rdata", "nn_wgt_rdata", "mem_rdata")


def lanes(word, *, signed):
    return [*word.to_bytes(4, "little")] if not signed else [*memoryview(word.to_bytes(4, "little")).cast("b")]


def test_the_report(executable, records):
    number = at(records, "nn_we") + 1
    records["rd_wdata"][number] ^= 0xF0
    text = Lockstep(executable, CONFIG).compare(records).text.splitlines()
    expected = int(records["rd_wdata"][number]) ^ 0xF0
    operands = {name: int(records[name][number]) for name in OPERANDS}
    assert text[:6] == [
        f"difference at retirement {number}, cycle {3 * number}, pc 0x1c000094 (main+0xc)",
        f"  instruction: {records['insn'][number]:08x}  pv.mlsdotsup.b a1, (s0!), 16",
        f"  rd_wdata must be 0x{expected:08x}, not 0x{expected ^ 0xF0:08x}",
        "  operands: " + "  ".join(f"{name}=0x{value:08x}" for name, value in operands.items()),
        f"  wgt lanes {lanes(operands['nn_wgt_rdata'], signed=True)}",
        f"  act lanes {lanes(operands['nn_act_rdata'], signed=False)}",
    ]
    assert text[6] == "before it, and as the design reports it:"
    assert len(text) == 7 + min(number, HISTORY) + 1
    assert text[-1].split()[:2] == [str(3 * number), "1c000094"]


@pytest.fixture
def interrupted():
    """Handlers of all usable lines that return at once."""
    vectors = "; ".join(["j pc+0"] * 3 + ["mret"] * 29)
    return program_of(
        "csrrwi x0, mie, 8; li x5, 0xffff0888; csrrw x0, mie, x5; csrrsi x0, mstatus, 8;" + "addi x6, x6, 1;" * 40,
        vectors,
    )


def test_interrupts_follow_the_design(interrupted):
    design = Design(interrupted).retire(9).retire(1, 1 << 19).retire(8).retire(1, 1 << 3).retire(6)
    records = design.records()
    assert records["intr"].sum() == 2
    assert records["cause"][records["intr"] == 1].tolist() == [0x20 | 19, 0x20 | 3]
    lockstep = Lockstep(interrupted, CONFIG)
    assert lockstep.compare(records) is None
    assert lockstep.iss.csrs["mcause"] == 0x8000_0003


def test_interrupts_that_may_not_be_taken(interrupted):
    records = Design(interrupted).retire(9).retire(1, 1 << 19).retire(3).records()
    number = at(records, "intr")
    for line, why in ((5, "interrupt 5 is not enabled"), (12, "interrupt 12 is not enabled")):
        wrong = records.copy()
        wrong["cause"][number] = 0x20 | line
        difference = Lockstep(interrupted, CONFIG).compare(wrong)
        assert (difference.order, difference.field) == (number, "intr")
        assert why in difference.text
    early = records.copy()
    early["intr"][2], early["cause"][2] = 1, 0x20 | 19
    assert "interrupts are disabled" in Lockstep(interrupted, CONFIG).compare(early).text


def test_wrong_vector_and_wrong_return(interrupted):
    records = Design(interrupted).retire(9).retire(1, 1 << 19).retire(3).records()
    number = at(records, "intr")
    wrong = records.copy()
    wrong["cause"][number] = 0x20 | 20
    assert Lockstep(interrupted, CONFIG).compare(wrong).field == "pc_rdata"
    records["pc_rdata"][number + 1] += 4
    assert Lockstep(interrupted, CONFIG).compare(records).order == number + 1


def test_an_interrupt_that_is_never_taken(interrupted):
    records = Design(interrupted).retire(30).records()
    lines = np.zeros(30, np.uint32)
    assert Lockstep(interrupted, CONFIG).compare(records, lines) is None
    lines[20:] = 1 << 19
    assert Lockstep(interrupted, CONFIG).compare(records, lines).field == "interrupt"
    assert Lockstep(interrupted, CONFIG).compare(records) is None
    difference = Lockstep(interrupted, CONFIG).compare(records, lines)
    assert difference.order == 28
    assert "interrupt 19 has been pending and enabled for 9 retirements" in difference.text
    lines[20:] = 1 << 5
    assert Lockstep(interrupted, CONFIG).compare(records, lines) is None


ENABLING = "li x5, 0x110000; csrrw x0, mie, x5; csrrsi x0, mstatus, 8; nop"
PRINTED = b"".join(number.to_bytes(8, "little") for number in (64, 1, DATA + 64, 0))
FOLLOWED = {
    "pending interrupts": (
        "nop; csrrs x5, mip, x0; add x6, x5, x5",
        "",
        [(1, 0), (2, 1 << 19)],
        {"rd_wdata": [0, 1 << 19, 1 << 20]},
    ),
    # the record tells the exception and not the interrupt: the vector does, of several that are enabled
    "a handler that traps at once": (
        f"{ENABLING}; nop",
        "mret; " + "nop;" * 15 + "ecall",
        [(4, 0), (1, 1 << 16), (1, 0)],
        {"intr": [0] * 4 + [1, 0], "trap": [0] * 4 + [1, 0], "cause": [0] * 4 + [11, 0]},
    ),
    "a common handler that traps at once": (
        ENABLING.replace("csrrsi", "csrrwi x0, mtvec, 0; csrrsi"),
        "nop",
        [(5, 0), (1, 1 << 16)],
        {"intr": [0] * 5 + [1], "trap": [0] * 5 + [1], "pc_rdata": [*range(ENTRY, ENTRY + 20, 4), 0]},
    ),
    "sleep ends with the next record": (
        "li x5, 0x10000; csrrw x0, mie, x5; wfi; addi x6, x6, 1; addi x6, x6, 1",
        "",
        [(3, 0), (2, 1 << 16)],
        {"rd_wdata": [0x10000, 0, 0, 1, 2]},
    ),
    "printing changes the channel in both": (
        "li x31, tohost; li x30, data; sw x30, 0(x31); lw x5, 0(x31); lw x6, 8(x31)",
        "",
        [(6, 0)],
        {"mem_rdata": [0] * 5 + [1]},
    ),
    "memory outside the program": ("li x5, 0x70000000; sw x5, 0(x5); lw x6, 0(x5)", "", [(3, 0)], {}),
}
"""Programs, vectors, how many instructions retire with which interrupt lines, and what the design then reports."""


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_only_the_design_knows_is_followed(name):
    """Memory outside the program too: the design decides what it is, the simulator has the whole address space."""
    source, vectors, steps, reported = FOLLOWED[name]
    executable = program_of(source, vectors, PRINTED)
    design = Design(executable)
    design.iss.memory._windows = None
    for count, lines in steps:
        design.retire(count, lines)
    records = design.records()
    assert {field: records[field].tolist() for field in reported} == reported
    assert Lockstep(executable, CONFIG).compare(records) is None
