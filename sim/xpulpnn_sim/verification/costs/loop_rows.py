"""Cycle costs of hardware loops."""

from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.reference.bare.layout import FAR
from xpulpnn_sim.verification.costs.measurement import CostTable

_STARTS = tuple(base + offset for base, offset in zip(FAR, (0xAA8, 0x554, 0x5A4), strict=True))
"""Addresses of loop bodies that begin far away from the program."""
_FAR_BODY = """
li a0, 0x{start:x}; la t1, 75f; lw t2, 0(t1); sw t2, 0(a0); lw t2, 4(t1); sw t2, 4(a0); fence.i
la t1, 77f; jal zero, 76f
75: addi a1, a1, 1; jalr zero, 0(t1)
76: addi a1, zero, 0
lp.endi {loop}, 77f; csrrw zero, lpstart{loop}, a0; lp.counti {loop}, 3"""
"""Code that copies the start of a loop body to ``start``; the body goes on at label 77."""
_LONG = "+ hardware loop, body of 2 or more: overhead"


def _body(length: int, register: str = "a0", label: str = "77") -> str:
    add = f"addi {register}, {register}, 1"
    return "; ".join([add] * (length - 1) + [f"{label}: {add}"])


def _bodies_of_one(costs: CostTable, loop: int) -> None:
    """Measure loops with a body of one instruction, which is fetched again while it is in ID."""
    setup = f"lp.starti {loop}, 77f; lp.endi {loop}, 77f; li t1, "
    for count in (1, 2, 3, 4, 10):
        counted = f"{setup}{count}; lp.count {loop}, t1"
        group, name = "+ hardware loop, body of 1: overhead", f"loop {loop}, {count} times"
        costs.add(group, name, _body(1), f"{count - 1}*LATE_FETCH", counted)
    # moves the end away from itself while more than one iteration is left, and it has been fetched a third time, which
    # fetching elsewhere a cycle late avoids
    body = f"77: lp.endi {loop}, 78f; lp.counti {loop}, 1; {_body(3, label='78')}"
    for place in range(2, XLEN):
        counted = f"{setup}0x{1 << place:x}; lp.count {loop}, t1"
        group, name = "+ hardware loop, body of 1 that moves the end: overhead", f"loop {loop}, count of 2**{place}"
        costs.add(group, name, body, "LATE_FETCH ~LOOP", counted)


def _late_ends(costs: CostTable, loop: int) -> None:
    """Measure loops whose last instruction decrements the count only when it leaves EX."""
    for last in ("bne zero, zero, 77b", "csrrs a1, mscratch, zero"):
        for length in (2, 3, 4):
            body = "; ".join([f"lp.setupi {loop}, 10, 77f", *["addi a0, a0, 1"] * (length - 1), f"77: {last}"])
            group, waits = _LONG, "9*LATE_FETCH"
            if length == 2:
                # the last but one pass is still to be counted when the end is met again at once
                group = "+ hardware loop, body of 2 that ends with a branch or CSR access: overhead"
                waits += " ~LOOP"
            costs.add(group, f"loop {loop}, body {length}, {last.split()[0]} at its end", body, waits)


_SETUPS = f"""
@ li t1, 4
== hardware loop, setup => 3*LATE_FETCH
lp.setup | lp.setup 0, t1, 77f; {_body(4)}
lp.setupi | lp.setupi 0, 4, 77f; {_body(4)}
lp.starti, lp.endi, lp.counti | lp.starti 0, 76f; lp.endi 0, 77f; lp.counti 0, 4; 76: {_body(3)}
"""
_COMPRESSED = """
@ li t1, 10
== + hardware loop, body with compressed instructions: overhead => 9*LATE_FETCH
start misaligned by nothing | lp.setup 0, t1, 77f; c.addi a0, 1; addi a1, a1, 1; c.addi a0, 1; 77: addi a1, a1, 1
"""


def loop_rows(costs: CostTable) -> None:
    """Measure hardware loops: the cycles of all iterations, minus one per instruction."""
    costs.table(_SETUPS)
    for length in (1, 2, 3, 4, 5, 8, 16, 40):
        # a body of one has been fetched, without what follows, before its end is known
        group = _LONG if length > 1 else "+ hardware loop, body of 1 right behind lp.setup: overhead"
        waits = "9*LATE_FETCH" if length > 1 else "9*LATE_FETCH LOOP"
        costs.add(group, f"body {length}, 10 times", f"lp.setup 0, t1, 77f; {_body(length)}", waits, "li t1, 10")
    for loop in range(2):
        _bodies_of_one(costs, loop)
        _late_ends(costs, loop)
        for place in range(2, XLEN):
            # the second pass sets the count to 1, and is the last one
            body = f"76: lp.count {loop}, t1; addi t1, zero, 1; {_body(2)}"
            setup = f"lp.starti {loop}, 76f; lp.endi {loop}, 77f; li t1, 0x{1 << place:x}"
            costs.add(_LONG, f"loop {loop}, count of 2**{place}", body, "LATE_FETCH", setup)
        for start in _STARTS:
            setup, name = _FAR_BODY.format(start=start, loop=loop), f"loop {loop}, from 0x{start:x}, 3 times"
            costs.add(_LONG, name, _body(2, "a1"), "2*LATE_FETCH", setup)
    for outer, inner in ((3, 3), (4, 3), (8, 6)):
        lines = ["lp.setup 1, t1, 78f", *["addi a0, a0, 1"] * (outer - 3), "lp.setupi 0, 6, 77f"]
        code = "; ".join([*lines, _body(inner, "a1"), _body(2, label="78")])
        group, waits = "+ hardware loops, two nested: overhead", f"{4 + 5 * 5}*LATE_FETCH"
        costs.add(group, f"bodies {outer} and {inner}", code, waits, "li t1, 5")
    costs.table(_COMPRESSED)
