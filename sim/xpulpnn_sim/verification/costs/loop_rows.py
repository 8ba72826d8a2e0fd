"""Cycle costs of hardware loops."""

from collections.abc import Iterator, Mapping

from xpulpnn.config import CoreConfig
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.reference.bare.layout import FAR
from xpulpnn_sim.verification.costs.late_costs import fetched_elsewhere, stalls
from xpulpnn_sim.verification.costs.measurement import FREE, CostRow, overhead

_STARTS = tuple(base + offset for base, offset in zip(FAR, (0xAA8, 0x554, 0x5A4), strict=True))
"""Addresses of loop bodies that begin far away from the program."""
_FAR_BODY = """li a0, 0x{start:x}
la t1, 75f
lw t2, 0(t1)
sw t2, 0(a0)
lw t2, 4(t1)
sw t2, 4(a0)
fence.i
la t1, 77f
jal zero, 76f
75: addi a1, a1, 1
jalr zero, 0(t1)
76: addi a1, zero, 0"""
"""Code that copies the start of a loop body to ``start`` and sets a0 to it; the body goes on at label 77."""
_LONG = "hardware loop, body of 2 or more: overhead"
_LATE = "hardware loop, body of 2 that ends with a branch or CSR access: overhead"
_ONE = "hardware loop, body of 1 right behind lp.setup: overhead"
_ALONE = "hardware loop, body of 1: overhead"
_MOVED = "hardware loop, body of 1 that moves the end: overhead"


def _body(length: int, register: str = "a0", label: str = "77") -> str:
    """Return ``length`` additions, the last of them at a label."""
    add = f"addi {register}, {register}, 1"
    return "\n".join([add] * (length - 1) + [f"{label}: {add}"])


def _turns(config: CoreConfig, taken: int, waits: Mapping[WaitCause, int] = FREE) -> Mapping[WaitCause, int]:
    """Return the stalls of a loop that jumps back ``taken`` times, together with the stalls ``waits``."""
    return {**waits, **stalls(*fetched_elsewhere(config, taken))}


def _bodies_of_one(config: CoreConfig, number: int) -> Iterator[CostRow]:
    """Measure loops with a body of one instruction, which is fetched again while it is in ID."""
    setup = f"lp.starti {number}, 77f\n lp.endi {number}, 77f\n li t1, "
    for count in (1, 2, 3, 4, 10):
        name = f"loop {number}, {count} times"
        yield overhead(_ALONE, name, _body(1), _turns(config, count - 1), f"{setup}{count}\n lp.count {number}, t1")
    # moves the end away from itself while more than one iteration is left, and it has been fetched a third time
    body = f"77: lp.endi {number}, 78f\n lp.counti {number}, 1\n {_body(3, label='78')}"
    for place in range(2, XLEN):
        counted = f"{setup}0x{1 << place:x}\n lp.count {number}, t1"
        # which fetching elsewhere a cycle late avoids
        waits = stalls(*fetched_elsewhere(config)) or {WaitCause.LOOP: 1}
        yield overhead(_MOVED, f"loop {number}, count of 2**{place}", body, waits, counted)


def _late_ends(config: CoreConfig, number: int) -> Iterator[CostRow]:
    """Measure loops whose last instruction is counted when it leaves EX."""
    for last in ("bne zero, zero, 77b", "csrrs a1, mscratch, zero"):
        for length in (2, 3, 4):
            body = "\n".join([f"lp.setupi {number}, 10, 77f", *["addi a0, a0, 1"] * (length - 1), f"77: {last}"])
            # of two instructions, the last but one pass is still to be counted when the end is met again at once
            group = _LATE if length == 2 else _LONG
            waits = {WaitCause.LOOP: 1} if length == 2 and not config.late_results else FREE
            yield overhead(
                group, f"loop {number}, body {length}, {last.split()[0]} at its end", body, _turns(config, 9, waits), ""
            )


def loop_rows(config: CoreConfig) -> Iterator[CostRow]:
    """Measure hardware loops: the cycles of all iterations, minus one per instruction."""
    for form in ("lp.setup 0, t1, 77f", "lp.setupi 0, 4, 77f"):
        yield CostRow(
            "hardware loop, setup", form.split()[0], f"{form}\n {_body(4)}", _turns(config, 3), setup="li t1, 4"
        )
    separate = f"lp.starti 0, 76f\n lp.endi 0, 77f\n lp.counti 0, 4\n 76: {_body(3)}"
    yield CostRow("hardware loop, setup", "lp.starti, lp.endi, lp.counti", separate, _turns(config, 3))
    for length in (1, 2, 3, 4, 5, 8, 16, 40):
        # a body of one has been fetched, without what follows, before its end is known
        group, waits = (_LONG, FREE) if length > 1 else (_ONE, {WaitCause.LOOP: 1})
        yield overhead(
            group,
            f"body {length}, 10 times",
            f"lp.setup 0, t1, 77f\n {_body(length)}",
            _turns(config, 9, waits),
            "li t1, 10",
        )
    for number in range(2):
        yield from _bodies_of_one(config, number)
        yield from _late_ends(config, number)
        for place in range(2, XLEN):
            # the second pass sets the count to 1, and is the last one
            body = f"76: lp.count {number}, t1\n addi t1, zero, 1\n {_body(2)}"
            setup = f"lp.starti {number}, 76f\n lp.endi {number}, 77f\n li t1, 0x{1 << place:x}"
            yield overhead(_LONG, f"loop {number}, count of 2**{place}", body, _turns(config, 1), setup)
        for start in _STARTS:
            setup = f"lp.endi {number}, 77f\n csrrw zero, lpstart{number}, a0\n lp.counti {number}, 3"
            name = f"loop {number}, from 0x{start:x}, 3 times"
            yield overhead(_LONG, name, _body(2, "a1"), _turns(config, 2), f"{_FAR_BODY.format(start=start)}\n {setup}")
    for outer, inner in ((3, 3), (4, 3), (8, 6)):
        lines = ["lp.setup 1, t1, 78f", *["addi a0, a0, 1"] * (outer - 3), "lp.setupi 0, 6, 77f"]
        lines += [_body(inner, "a1"), _body(2, label="78")]
        name = f"bodies {outer} and {inner}"
        yield overhead(
            "hardware loops, two nested: overhead", name, "\n".join(lines), _turns(config, 4 + 5 * 5), "li t1, 5"
        )
    compressed = ["lp.setup 0, t1, 77f", "c.addi a0, 1", "addi a1, a1, 1", "c.addi a0, 1", "77: addi a1, a1, 1"]
    group = "hardware loop, body with compressed instructions: overhead"
    yield overhead(group, "start misaligned by nothing", "\n".join(compressed), _turns(config, 9), "li t1, 10")
