"""PULP performance counters and the machine counters over whole programs (guide, "Performance counters")."""

import pytest
from tests.reference.iss.conftest import booted

from xpulpnn.isa.csr import PERFORMANCE_EVENTS, CsrGroup
from xpulpnn_sw.assembly.asm import assemble

BASE = 0x1000
ALL = 0x1_FFFF
COUNTING = frozenset({CsrGroup.BASE, CsrGroup.HWLOOP, CsrGroup.PERFORMANCE})


def run(source):
    """Registers after a program that ends at ``ebreak``; x5 = all ones, x8 points to data."""
    iss = booted(f"{source}; ebreak", BASE, groups=COUNTING)
    iss.state.regs[5], iss.state.regs[8] = 0xFFFF_FFFF, 0x2000
    iss.run(10_000, until=BASE + len(assemble(source, BASE).to_bytes()))
    return iss


def counts(iss):
    values = {name: iss.csrs[f"pccr{event}"] for event, name in enumerate(PERFORMANCE_EVENTS)}
    return {name: value for name, value in values.items() if value}


BODY = """
    lw x6, 0(x8)
    lh x6, 3(x8)
    p.lw x6, 2(x8!)
    pv.mlsdotsup.b x0, (x8!), 8
    pv.mlsdotsup.b x0, (x8!), 0
    sw x6, 0(x8)
    sw x6, 2(x8)
    sb x6, 3(x8)
    jal x1, pc+4
    beq x0, x0, pc+4
    bne x0, x0, pc+4
    c.nop
    lp.setupi 0, 3, pc+4
    addi x7, x7, 1
"""


def test_every_event():
    """Misaligned accesses count twice, Mac&Load and store at offset 2 included; a Mac&Load without update is none."""
    iss = run(f"csrrw x0, 0xcc0, x5; {BODY}; csrrwi x0, 0xcc0, 0; lw x6, 0(x8)")
    assert counts(iss) == {
        "cycles": 17,
        "instructions": 17,
        "loads": 1 + 2 + 1 + 2,
        "stores": 2 + 1 + 1,
        "jumps": 1,
        "branches": 2,
        "taken_branches": 1,
        "compressed": 1,
    }


@pytest.mark.parametrize(
    ("source", "counted"),
    [
        ("lw x6, 0(x8); addi x6, x6, 1; lw x6, 0(x8)", {}),
        (f"li x6, 0x42; csrrw x0, 0xcc0, x6; {BODY}; csrrwi x0, 0xcc0, 0", {"instructions": 17, "stores": 4}),
        (f"csrrw x0, 0xcc0, x5; csrrwi x0, 0xcc1, 0; {BODY}", {"cycles": 1, "instructions": 1}),
    ],
    ids=["disabled", "chosen", "stopped"],
)
def test_only_what_is_enabled_counts(source, counted):
    assert counts(run(source)) == counted


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "csrrw x6, pcer, x5; csrrw x7, pcmr, x5; csrrs x9, pcer, x0; csrrwi x0, pcer, 0; csrrs x10, pcmr, x0",
            {6: 0, 7: 3, 9: ALL, 10: 3},
        ),
        ("csrrwi x0, 0xcc0, 2; csrrwi x0, 0x781, 9; csrrs x6, 0x781, x0; nop; csrrs x7, 0x781, x0", {6: 9, 7: 11}),
        (
            "li x6, 77; csrrw x7, 0x79f, x6; csrrs x9, 0x79f, x0",
            {7: 0, 9: 0} | {f"pccr{event}": 77 for event in range(17)},
        ),
        *(
            (
                f"csrrwi x0, pcmr, {mode}; li x6, -2; csrrw x0, pccr1, x6; csrrwi x0, pcer, 2; nop; nop; nop",
                {"pccr1": end},
            )
            for mode, end in ((3, 0xFFFF_FFFF), (1, 1))
        ),
        # bursts count the machine counters, which carry into the upper half
        (
            "li x6, 7; lp.setupi 0, 100, pc+4; addi x6, x6, 1; csrrs x9, minstret, x0; csrrs x10, mcycle, x0",
            {9: 102, 10: 103},
        ),
        ("csrrw x0, minstret, x5; nop; nop; csrrs x6, minstreth, x0; csrrs x7, minstret, x0", {6: 1, 7: 2}),
    ],
    ids=["fields", "written", "all", "saturating", "wrapping", "burst", "carry"],
)
def test_values(source, expected):
    iss = run(source)
    assert {key: iss.csrs[key] if isinstance(key, str) else iss.state.regs[key] for key in expected} == expected


def test_instructions_that_trap_are_not_counted():
    iss = booted("csrrw x0, 0xcc0, x5; ecall; nop; csrrwi x0, 0xcc0, 0", BASE + 0x80, groups=COUNTING)
    handler = "csrrs x6, mepc, x0; addi x6, x6, 4; csrrw x0, mepc, x6; mret"
    iss.memory.write_bytes(BASE, assemble(handler, BASE).to_bytes())
    iss.state.regs[5] = 0xFFFF_FFFF
    iss.run(8)
    assert counts(iss) == {"cycles": 7, "instructions": 6}
    assert iss.csrs["minstret"] == 7


def test_sleep_counts_cycles_only():
    iss = booted("csrrwi x0, 0xcc0, 3; wfi", BASE, groups=COUNTING)
    for _ in range(6):
        iss.step()
    assert counts(iss) == {"cycles": 5, "instructions": 1}
