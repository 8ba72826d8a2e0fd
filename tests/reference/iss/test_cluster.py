"""Harts of a cluster in turns: memory views, peripherals, waits, time, ends."""

from dataclasses import replace

import pytest
from tests.programs import program_of

from xpulpnn.config import PRESETS, ClusterConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.reference.iss.cluster import ClusterSession
from xpulpnn_sim.reference.programs.elf import Segment
from xpulpnn_sim.reference.programs.exits import Reason

ENTRY = 0x1C00_0080
EVENT_UNIT, BARRIER, TIMER = 0x1020_4000, 0x1020_4200, 0x1020_0400
WORK = 0x1000_0C00
"""Free memory of the programs, in the TCDM."""

START = f"""
    csrrs x5, mhartid, x0
    li x31, tohost
    li x20, {EVENT_UNIT}
    li x21, {BARRIER}
    li x22, {WORK}
    li x23, {TIMER}
"""
PASS = "\nend: li x30, 1; sw x30, 0(x31)\nstay: j stay\n"
FAIL = "\nwrong: li x30, 11; sw x30, 0(x31)\nstop: j stop\n"
ALL_WAIT_FOR_BARRIERS = "li x6, {mask}; li x7, 1 << 16; sw x7, 0(x20); sw x6, 0(x21); sw x6, 12(x21)\n"


def session(source, cores=4, *, core=PRESETS["xpulpnn"], config=(), vectors="", replaced=(), **options):
    executable = replace(program_of(START + source + FAIL, vectors), symbols={}, **dict(replaced))
    config = ClusterConfig(cores=cores, core=core, **dict(config))
    return ClusterSession(executable, config, output=lambda printed: None, lines=lambda pc: "", **options)


def ended(made, limit=100_000):
    end = made.run(limit)
    return end.reason, end.text


def passes(source, count=0, limit=100_000, **options):
    made = session(source if PASS in source else source + PASS, **options)
    assert ended(made, limit) == (Reason.PASS, "pass")
    return [made.memory.read(WORK + 4 * index, 4) for index in range(count)]


def test_every_core_has_its_number_and_starts_at_the_entry():
    # a word for each, the first waits for the others by looking
    source = """
        slli x6, x5, 2; add x6, x6, x22; addi x7, x5, 100; sw x7, 0(x6)
        bne x5, x0, rest
    look: lw x8, 12(x22); beq x8, x0, look
    """
    assert passes(source + PASS + "\nrest: j rest", 4) == [100, 101, 102, 103]


@pytest.mark.parametrize("in_turns", [True, False])
def test_turns_of_compiled_code_take_the_same_time(monkeypatch, in_turns):
    """The first hart waits for the event unit behind a loop of 2000 instructions, the others have longer ones."""
    if not in_turns:
        monkeypatch.setattr("xpulpnn_sim.reference.iss.cluster._REPORT", 1)
    source = (
        ALL_WAIT_FOR_BARRIERS.format(mask=0xF)
        + """
        addi x8, x5, 2; slli x8, x8, 9
    delay: addi x8, x8, -1; sw x8, 0(x22); bne x8, x0, delay
        p.elw x0, 0x1c(x21); bne x5, x0, stay
    """
    )
    made = session(source + PASS)
    assert ended(made) == (Reason.PASS, "pass")
    assert [iss.executed for iss in made.harts] == [3093, 4625, 6161, 7700]
    assert (made.cycles, [iss.csrs["mcycle"] for iss in made.harts]) == (7744, [7748, 7744, 7744, 7744])


@pytest.mark.parametrize("quantum", [1, 5, 64, 10_000])
def test_a_barrier_lets_nobody_pass_early(quantum):
    rounds = 20
    source = (
        ALL_WAIT_FOR_BARRIERS.format(mask=0xF)
        + f"""
        li x8, {rounds}; slli x9, x5, 2; add x9, x9, x22; slli x12, x5, 1
    again: addi x10, x12, 1
    delay: addi x10, x10, -1; bne x10, x0, delay
        lw x11, 0(x9); addi x11, x11, 1; sw x11, 0(x9)
        p.elw x0, 0x1c(x21)
        lw x13, 0(x22); lw x14, 4(x22); lw x15, 8(x22); lw x16, 12(x22)
        bne x13, x11, wrong; bne x14, x11, wrong; bne x15, x11, wrong; bne x16, x11, wrong
        p.elw x0, 0x1c(x21)
        addi x8, x8, -1; bne x8, x0, again
    """
    )
    assert passes(source, 4, quantum=quantum) == [rounds] * 4


@pytest.mark.parametrize("instruction", ["p.elw x7, 0x38(x20)", "lw x7, 0x38(x20)"])
def test_loads_that_wait_are_executed_once(instruction):
    """Not before the event, and whatever the load is called."""
    source = (
        f"""
        bne x5, x0, other
        li x6, 2; sw x6, 0(x20)
        {instruction}
        sw x7, 0(x22); lw x8, 0x1c(x20); sw x8, 4(x22); csrrs x9, minstret, x0; sw x9, 8(x22)
    """
        + PASS
        + """
    other: addi x6, x0, 50
    delay: addi x6, x6, -1; bne x6, x0, delay
        li x6, 1; sw x6, 0x104(x20); sw x6, 0x104(x20)
    done: j done
    """
    )
    *events, executed = passes(source, 3, cores=2, quantum=7)
    # buffer & mask; nothing is cleared
    assert events == [2, 2]
    assert executed < 40


PROGRAMS = {
    # the first store enables the timer, the second clears the lower event mask
    "post-incremented stores to peripherals move their base once": """
        addi x6, x23, 0; li x7, 1; p.sw x7, 4(x6!)
        addi x8, x23, 4; bne x6, x8, wrong
        li x9, 8; addi x6, x23, 0; p.sw x0, x9(x6!)
        addi x8, x23, 8; bne x6, x8, wrong
        lw x10, 8(x23); beq x10, x0, wrong
        lw x11, 8(x23); bne x10, x11, wrong
    """,
    # code in the TCDM, changed through its alias between two calls
    "stores to code in the other view are seen": f"""
        li x6, 0x02a00513; sw x6, 0(x22)
        li x6, 0x00008067; sw x6, 4(x22)
        jalr x1, x22, 0; addi x11, x10, 0
        li x6, 0x02b00513; li x7, {WORK - 0x1000_0000}; sw x6, 0(x7)
        jalr x1, x22, 0; addi x11, x11, -42; bne x11, x0, wrong
        addi x10, x10, -43; bne x10, x0, wrong
    """,
    "control registers": f"""
        li x6, 0x10200000
        lw x7, 0x44(x6); li x8, {ENTRY}; bne x7, x8, wrong
        li x7, -1; sw x7, 0(x6); lw x8, 0(x6); li x9, 1; bne x8, x9, wrong
        sw x7, 8(x6); lw x8, 8(x6); li x9, 15; bne x8, x9, wrong
        sh x7, 0x102(x6); lw x8, 0x100(x6); li x9, 0xffff0000; bne x8, x9, wrong
        lbu x8, 0x103(x6); li x9, 0xff; bne x8, x9, wrong
        lw x8, 0x18(x6); bne x8, x0, wrong
    """,
    "time is exact within a turn": """
        li x6, 1; sw x6, 0x18(x23)
        lw x7, 8(x23); nop; nop; nop; lw x8, 8(x23)
        csrrs x9, mcycle, x0; nop; nop; csrrs x10, mcycle, x0
        addi x8, x8, -4; bne x7, x8, wrong
        addi x10, x10, -3; bne x9, x10, wrong
    """,
    "control of caches": """
        li x6, 0x10201400; lw x7, 0(x6); li x8, 1; bne x7, x8, wrong
        sw x0, 0x18(x6); lw x7, 0x18(x6); bne x7, x0, wrong
        sw x8, 4(x6); lw x7, 4(x6); bne x7, x0, wrong
        lw x7, 0x34(x6); bne x7, x0, wrong
    """,
}
"""Code of the first core, which goes to ``wrong`` unless it finds what it must."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_core(name):
    passes(f"bne x5, x0, stay; {PROGRAMS[name]}", config={"icache_private": 512})


def test_waiting_takes_time():
    """Core 1 works for long; core 0 waits for it, and both see the same cycles."""
    source = (
        ALL_WAIT_FOR_BARRIERS.format(mask=3)
        + """
        beq x5, x0, meet
        addi x6, x0, 1000
    delay: addi x6, x6, -1; bne x6, x0, delay
    meet: p.elw x0, 0x1c(x21)
        csrrs x7, mcycle, x0; slli x8, x5, 2; add x8, x8, x22; sw x7, 0(x8)
        p.elw x0, 0x1c(x21)
    """
    )
    first, second = passes(source, 2, cores=2, quantum=16)
    assert first > 2000
    assert abs(first - second) <= 2 * 16


def test_the_timer_wakes_the_only_one():
    source = """
        li x6, 1 << 10; sw x6, 0(x20)
        li x6, 100000; sw x6, 0x10(x23)
        li x6, 0x25; sw x6, 0(x23)
        p.elw x7, 0x3c(x20)
        csrrs x8, mcycle, x0; li x9, 100000; bltu x8, x9, wrong
        sw x7, 0(x22)
    """
    assert passes(source, 1, limit=100, cores=1) == [1 << 10]


def test_interrupts_of_the_event_unit():
    """Core 1 interrupts core 0, which sleeps; the handler ends the program."""
    source = """
        bne x5, x0, other
        li x6, 1 << 11; csrrw x0, mie, x6
        li x6, 4; sw x6, 0xc(x20)
        csrrsi x0, mstatus, 8
        wfi
    spin: j spin
    other: li x6, 1; sw x6, 0x108(x20)
    rest: j rest
    """
    handler = "csrrs x7, mcause, x0; sw x7, 0(x22); lw x8, 0x24(x20); sw x8, 4(x22); li x30, 1; sw x30, 0(x31)"
    made = session(source, cores=2, vectors="nop;" * 11 + handler)
    assert ended(made) == (Reason.PASS, "pass")
    assert [made.memory.read(WORK + 4 * index, 4) for index in range(2)] == [0x8000_000B, 4]


def test_deadlock():
    source = (
        ALL_WAIT_FOR_BARRIERS.format(mask=0xF)
        + """
        li x6, 3; beq x5, x6, sleep
        li x6, 2; beq x5, x6, loop
    meet: p.elw x0, 0x1c(x21)
    sleep: wfi
    loop: j loop
    """
    )
    end = session(source).run(100_000)
    assert end.reason is Reason.DEADLOCK
    places = end.text.removeprefix("deadlock: ").split("; ")
    assert [text.partition(" at ")[0] for text in places] == [
        "cores 0, 1: waits for barrier 0",
        "core 2: endless loop",
        "core 3: sleeps in wfi",
    ]
    assert places[0].endswith("(meet)")
    assert places[1].endswith("(loop)")


def test_ends_name_the_core():
    reason, text = ended(session("li x6, 2; beq x5, x6, wrong\nrest: j rest"))
    assert (reason, text.partition(" at ")[0]) == (Reason.FAIL, "core 2: fail: the program reports code 5")
    reason, text = ended(session("li x6, 0x10300000; bne x5, x0, rest; lw x6, 0(x6)\nrest: j rest"))
    assert reason is Reason.BAD_ACCESS
    assert text.startswith("core 0: load of 4 bytes outside memory: address 0x10300000")
    reason, text = ended(session("beq x5, x0, rest; jalr x0, x0, 0x700\nrest: j rest", config={"tcdm_bytes": 4096}))
    assert text.startswith("core 1: ")
    reason, text = ended(session("loop: beq x0, x0, next\nnext: beq x0, x0, loop", quantum=10), 95)
    assert reason is Reason.MAX_CYCLES
    assert text.startswith("core 1: not finished after 95 instructions")


@pytest.mark.parametrize(
    ("access", "cause"), [("lw x7, 0(x6)", 5), ("sw x7, 0(x6)", 7), ("p.lw x7, 4(x6!)", 5), ("p.sw x7, 4(x6!)", 7)]
)
@pytest.mark.parametrize(
    "address",
    [
        0x1000_1000,  # behind the TCDM
        0x0000_1000,
        0x1010_1000,
        0x1020_0004,  # registers that are none: control, timer, caches, event unit
        0x1020_0428,
        0x1020_1400,
        0x1020_4244,
        0x102F_0000,
    ],
)
def test_where_nothing_is_the_bus_answers_with_an_error(address, access, cause):
    source = f"bne x5, x0, stay; li x6, {address}; {access}; j wrong"
    handler = f"csrrs x8, mcause, x0; li x9, {cause}; bne x8, x9, bad; li x9, {address}; bne x6, x9, bad; li x30, 1\n"
    handler += "tell: sw x30, 0(x31)\nhang: j hang\nbad: li x30, 5; j tell"
    passes(source, vectors=handler, config={"tcdm_bytes": 4096, "icache_private": 0})


def test_the_limit_is_that_of_all_cores_together():
    made = session("loop: beq x0, x0, next\nnext: beq x0, x0, loop", quantum=10)
    made.run(95)
    assert [iss.executed for iss in made.harts] == [30, 25, 20, 20]


def test_what_does_not_fit():
    with pytest.raises(InputError, match=r"^quantum must be at least 1, not 0$"):
        session(PASS, quantum=0)
    large = (Segment(0x1000_0000, b"", 8 << 10), Segment(ENTRY - 0x80, bytes(0x200), 0x200))
    with pytest.raises(InputError) as caught:
        session(PASS, replaced={"segments": large}, config={"tcdm_bytes": 4096})
    assert str(caught.value).endswith(
        "must fit into the TCDM, which ends at 0x10001000, not have a piece up to 0x10002000"
    )


def test_without_post_increment_cores_wait_too():
    core = replace(PRESETS["ri5cy"], xpulpv2=False)
    passes(ALL_WAIT_FOR_BARRIERS.format(mask=3) + "lw x6, 0x1c(x21)\n", cores=2, core=core)
