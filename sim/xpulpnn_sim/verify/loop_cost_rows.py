"""Cycle costs of hardware loops, and the code that shows them."""

from collections.abc import Iterator

from xpulpnn.isa.machine import XLEN
from xpulpnn_sim.verify.cost_row import FREE, CostRow
from xpulpnn_sim.verify.layout import FAR

_STARTS = tuple(base + offset for base, offset in zip(FAR, (0xAA8, 0x554, 0x5A4), strict=True))
"""Where bodies begin far away."""
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
"""Makes the beginning of a body that goes on at 77, and is in a0."""


def loop_rows() -> Iterator[CostRow]:
    """Hardware loops: cycles beyond one per instruction, over all iterations."""
    for form in ("lp.setup 0, t1, 77f", "lp.setupi 0, 4, 77f"):
        body = "\n".join(["addi a0, a0, 1"] * 3 + ["77: addi a0, a0, 1"])
        yield CostRow("hardware loop, setup", form.split()[0], f"{form}\n {body}", FREE, setup="li t1, 4")
    separate = "lp.starti 0, 76f\n lp.endi 0, 77f\n lp.counti 0, 4"
    yield CostRow(
        "hardware loop, setup",
        "lp.starti, lp.endi, lp.counti",
        f"{separate}\n 76: addi a0, a0, 1\n addi a0, a0, 1\n 77: addi a0, a0, 1",
        FREE,
    )
    for length in (1, 2, 3, 4, 5, 8, 16, 40):
        body = "\n".join(["addi a0, a0, 1"] * (length - 1) + ["77: addi a0, a0, 1"])
        group = "hardware loop, body of 3 or more: overhead" if length > 2 else "hardware loop, short body: overhead"
        waits = FREE if length > 2 else None
        code = f"lp.setup 0, t1, 77f\n {body}"
        yield CostRow(group, f"body {length}, 10 times", code, waits, setup="li t1, 10", is_extra=True)
    group = "hardware loop, body of 3 or more: overhead"
    for number in range(2):
        for place in range(2, XLEN):
            # the second pass sets the count to 1, and is the last one
            body = f"76: lp.count {number}, t1\n addi t1, zero, 1\n addi a0, a0, 1\n 77: addi a0, a0, 1"
            setup = f"lp.starti {number}, 76f\n lp.endi {number}, 77f\n li t1, 0x{1 << place:x}"
            yield CostRow(group, f"loop {number}, count of 2**{place}", body, FREE, setup=setup, is_extra=True)
        for start in _STARTS:
            yield CostRow(
                group,
                f"loop {number}, from 0x{start:x}, 3 times",
                "addi a1, a1, 1\n 77: addi a1, a1, 1",
                FREE,
                setup=f"{_FAR_BODY.format(start=start)}\n lp.endi {number}, 77f\n csrrw zero, lpstart{number}, a0\n"
                f" lp.counti {number}, 3",
                is_extra=True,
            )
    for outer, inner in ((3, 3), (4, 3), (8, 6)):
        lines = ["lp.setup 1, t1, 78f", *["addi a0, a0, 1"] * (outer - 3), "lp.setupi 0, 6, 77f"]
        lines += [*["addi a1, a1, 1"] * (inner - 1), "77: addi a1, a1, 1", "addi a0, a0, 1", "78: addi a0, a0, 1"]
        yield CostRow(
            "hardware loops, two nested: overhead",
            f"bodies {outer} and {inner}",
            "\n".join(lines),
            FREE,
            setup="li t1, 5",
            is_extra=True,
        )
    compressed = ["lp.setup 0, t1, 77f", "c.addi a0, 1", "addi a1, a1, 1", "c.addi a0, 1", "77: addi a1, a1, 1"]
    yield CostRow(
        "hardware loop, body with compressed instructions: overhead",
        "start misaligned by nothing",
        "\n".join(compressed),
        FREE,
        setup="li t1, 10",
        is_extra=True,
    )
