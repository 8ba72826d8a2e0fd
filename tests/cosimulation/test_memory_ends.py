"""Programs at the ends of memory: ``run`` ends them as ``iss`` does, in lock step and checked or not."""

from dataclasses import replace
from random import Random

import pytest
from tests.designs import FULL, PAIR
from tests.programs import DATA_BASE, program_of

from xpulpnn.config import ClusterConfig
from xpulpnn.isa.cluster import TCDM_BASE
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.program_run import run_program
from xpulpnn_sim.reference.iss.cluster import ClusterSession
from xpulpnn_sim.reference.iss.session import IssSession
from xpulpnn_sw.assembly.asm import assemble

pytestmark = pytest.mark.cosim

BASE, SIZE, GAP = 0x2000_0000, 0x1000, 8
END = BASE + SIZE
RAM = (BASE, SIZE), (END + GAP, SIZE)
TCDM_END = TCDM_BASE + PAIR.tcdm_bytes
PASS = "li x31, tohost; li x30, 1; sw x30, 0(x31)\nstay: j stay\n"
# the code that a program reports is the cause of its last trap
HANDLER = "handler: csrrs x30, mcause, x0; slli x30, x30, 1; addi x30, x30, 1; li x31, tohost; sw x30, 0(x31)\nj stay\n"
LIMIT = 10_000
SLOW = {"grant_stalls": 0.3, "response_latency": 4, "fetch_latency": 3, "fetch_grant_stalls": 0.3, "seed": 5}
CHECKED = {"check": True, "lockstep": True}


def called(code, address, memory=RAM):
    """Text that calls ``code`` at ``address``, as much of it as is inside ``memory``."""
    data = assemble(code).to_bytes()
    inside = [at for at in range(address, address + len(data)) if any(low <= at < low + size for low, size in memory)]
    stores = [f"li x5, {at}; li x6, {data[at - address]}; sb x6, 0(x5)\n" for at in inside]
    return f"{''.join(stores)}fence.i\nli x7, {address}; jalr x1, 0(x7)\n"


def ends(source, config=FULL, slow=SLOW):
    """The reports of ``iss``, of a plain run, and of a checked one in slow memory, which find no difference."""
    program = replace(program_of(source + PASS + HANDLER, "jal x0, handler\n" * 32), symbols={}, functions=())
    simulator = ClusterSession if isinstance(config, ClusterConfig) else IssSession
    yield simulator(program, config, ram=RAM, output=lambda printed: None).run(LIMIT).text
    for options, timing in ({}, {}), (CHECKED, slow):
        result = run_program(program, config, Machine(ram=RAM, max_cycles=LIMIT, **timing), **options)
        assert (result.mismatches, result.difference) == (0, None)
        yield result.exit.text


WORD = "addi x9, x9, 1"
BOTH = f"c.nop; {WORD}"
FAULT = "fail: the program reports code 5"


@pytest.mark.parametrize(
    ("code", "address", "pc"),
    [
        # the upper half of the last instruction is outside, whatever it does with zeros there
        *((code, END - 2, END - 2) for code in (WORD, "sw x0, 0(x1)", "jalr x0, 0(x1)", "jal x9, pc+0")),
        *((code, END - 2, END - 2) for code in ("ecall", "fence.i", ".word 0x7b", "p.lw x9, 0(x1!)")),
        ("c.nop; c.nop; c.nop; " + WORD, END - 8, END - 2),
        ("beq x0, x0, pc+6; c.nop; " + WORD, END - 8, END - 2),
        ("lp.setupi 0, 4, pc+16; addi x9, x9, 1; c.nop; addi x9, x9, 1; addi x9, x9, 1", END - 16, END - 2),
        # the lower half
        (WORD, END + GAP - 2, END + GAP - 2),
        # a whole instruction
        (WORD, END - 4, END),
        ("c.nop", END - 2, END),
        ("c.nop; c.nop", END + 2, END + 2),
        # what is fetched ahead is none
        ("c.jr x1", END - 2, None),
        ("jalr x0, 0(x1)", END - 4, None),
        ("beq x0, x0, pc+8; c.nop; c.nop; c.jr x1; c.j pc-2", END - 10, None),
        ("lp.setupi 0, 4, pc+16; addi x9, x9, 1; addi x9, x9, 1; addi x9, x9, 1; c.jr x1", END - 18, None),
        (BOTH + "; c.jr x1", END + GAP, None),
    ],
)
def test_an_instruction_that_is_executed_must_be_inside(code, address, pc):
    expected = "pass" if pc is None else f"execution outside memory: pc 0x{pc:08x}, coming from "
    texts = list(ends(called(code, address)))
    assert texts[0].startswith(expected)
    assert texts == texts[:1] * 3


@pytest.mark.parametrize(
    ("access", "offset", "report"),
    [
        ("lw x9, 0(x8)", -4, None),
        ("lbu x9, 0(x8)", -1, None),
        ("sh x9, 0(x8)", -2, None),
        ("lw x9, 0(x8)", -2, "load of 4 bytes"),
        ("sw x9, 0(x8)", -1, "store of 4 bytes"),
        ("lh x9, 0(x8)", -1, "load of 2 bytes"),
        ("sb x9, 0(x8)", 0, "store of 1 byte"),
        ("lw x9, 0(x8)", GAP - 2, "load of 4 bytes"),
        ("sw x9, 0(x8)", GAP, None),
        ("p.lw x9, 4(x8!)", -3, "load of 4 bytes"),
        ("pv.mlsdotsp.b x9, (x8!), 8", -2, "load of 4 bytes"),
        ("pv.cusdotsp.b.0 x9, (x8!), x10", -1, "load of 4 bytes"),
    ],
)
def test_an_access_must_be_inside(access, offset, report):
    address = END + offset
    expected = "pass" if report is None else f"{report} outside memory: address 0x{address:08x}, instruction at "
    texts = list(ends(f"li x8, {address}\n{access}\naddi x11, x11, 1\n"))
    assert texts[0].startswith(expected)
    assert texts == texts[:1] * 3


@pytest.mark.parametrize(
    ("source", "report"),
    [
        (called(WORD, END - 2), f"core 0: execution outside memory: pc 0x{END - 2:08x}"),
        (called(WORD, TCDM_END - 2, [(TCDM_BASE, PAIR.tcdm_bytes)]), "core 0: execution outside memory: pc 0x1001fffe"),
        (called("c.jr x1", END - 2), "pass"),
        (f"li x8, {END - 2}; sw x9, 0(x8)\n", f"core 0: store of 4 bytes outside memory: address 0x{END - 2:08x}"),
        # where a cluster has nothing the access faults, in the second of two words too
        (f"li x8, {TCDM_END}; lw x9, 0(x8)\n", FAULT),
        (f"li x8, {TCDM_END - 2}; lw x9, 0(x8)\n", FAULT),
        (f"li x8, {TCDM_END - 1}; p.lh x9, 2(x8!)\n", FAULT),
        (f"li x8, {TCDM_END - 3}; sw x9, 0(x8)\n", FAULT.replace("5", "7")),
        (f"li x8, {TCDM_BASE - 2}; sh x9, 0(x8)\n", "core 0: store of 2 bytes outside memory"),
    ],
)
def test_ends_on_a_cluster(source, report):
    alone = f"csrrs x5, mhartid, x0; bne x5, x0, stay\nli x9, {DATA_BASE}\n"
    texts = list(ends(alone + source, PAIR))
    # the report of a program's own code has no number of a core
    assert [text.removeprefix("core 0: ").startswith(report.removeprefix("core 0: ")) for text in texts] == [True] * 3


def drawn(rng):
    """A program that ends somewhere around the end of memory, and accesses what is there."""
    codes = ["c.nop", "addi x9, x9, 1", "lw x10, 0(x8)", "sb x10, 1(x12)", "p.sh x10, 1(x12!)", "c.lw x10, 0(x8)"]
    codes += ["pv.mlsdotsp.b x10, (x8!), 8", "beq x0, x0, pc+4", "bne x0, x0, pc+4", "c.addi x9, 1"]
    body = rng.choices(codes, [9, 9, 1, 1, 1, 1, 1, 2, 2, 9], k=rng.randint(2, 9))
    if rng.random() < 0.4:
        size = len(assemble("; ".join(body)).to_bytes())
        body = [f"lp.setupi 0, {rng.randint(1, 3)}, pc+{size + 4}", *body, *["c.nop"] * rng.randint(0, 1)]
    body += rng.choices(["c.jr x1", "jalr x0, 0(x1)", "c.nop", WORD], [3, 3, 1, 1])
    text = "; ".join(body)
    address = END - len(assemble(text).to_bytes()) + rng.choice((-2, 0, 0, 2, GAP, GAP + 2))
    loaded, stored = END + rng.randint(-12, GAP + 4), END + GAP + SIZE + rng.randint(-12, 1)
    return f"li x8, {loaded}; li x12, {stored}\n{called(text, address)}"


@pytest.mark.parametrize("seed", range(30))
def test_drawn_programs_end_alike(seed):
    rng = Random(seed)
    reference, *others = ends(drawn(rng), slow={**SLOW, "seed": seed})
    assert others == [reference] * 2
