"""The drawings show what there is: the house, and of signals what is found in a simulation of the core."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import pytest
from amaranth.sim import Simulator
from docs.generate.drawings import LAYERS, Timing, timings

from xpulpnn import Core, preset
from xpulpnn_sw.assembly.asm import assemble

ROOT = Path(__file__).parents[2]
TIMINGS = {
    name: drawn
    for page in ("integration", "verification")
    for name, drawn in timings((ROOT / f"docs/{page}.md").read_text()).items()
}
SIGNALS = ("fetch_enable", "boot_addr", "core_sleep", "irq_ack", "irq_id", "rvfi_valid", "rvfi_insn")
BOOT, ENABLED_AT, CYCLES_OF_SLEEP, CYCLES = 0x1C00_0080, 4, 4, 36
PROGRAM = """
    li a0, 0x100
    li a1, 0x80
    csrrw zero, mie, a1
    csrrsi zero, mstatus, 8
    lw a2, 0(a0)
    sh a1, 4(a0)
    nop
    li a2, 0x200
    li a3, 0x300
    pv.mlsdotsup.n a4, (a2!), 16
    pv.mlsdotsup.n a5, (a3!), 18
    pv.mlsdotsup.n a6, (zero!), 4
    pv.mlsdotsup.n a7, (a2!), 22
    wfi
done:
    j done
"""
MAC_LOADS = [line.strip() for line in PROGRAM.splitlines() if "pv." in line]
WORDS = {line.partition(",")[0]: assemble(line, BOOT).words[0] for line in MAC_LOADS}


class Bus:
    """An OBI memory: cycles without grant before each request, and from grant to response; the last ones repeat."""

    def __init__(self, waits: Sequence[int], latencies: Sequence[int]) -> None:
        self.waits, self.latencies = (chain(values, repeat(values[-1])) for values in (waits, latencies))
        self.wait = next(self.waits)
        self.answers: dict[int, int] = {}  # address by cycle

    def grant(self, cycle: int, req: int, address: int) -> bool:
        granted = bool(req) and self.wait == 0
        if granted:
            self.answers[cycle + next(self.latencies)] = address
            self.wait = next(self.waits)
        elif req:
            self.wait -= 1
        return granted


def simulated(instr: Bus, data: Bus) -> list[dict[str, int]]:
    core = Core(replace(preset("xpulpnn2"), rvfi=True))
    image = assemble(PROGRAM, BOOT).to_bytes()
    words = {BOOT + at: int.from_bytes(image[at : at + 4], "little") for at in range(0, len(image), 4)}
    trace: list[dict[str, int]] = []

    async def surroundings(ctx):
        ctx.set(core.boot_addr, BOOT)
        for cycle in range(CYCLES):
            ctx.set(core.fetch_enable, cycle >= ENABLED_AT)
            asleep = sum(row["core_sleep"] for row in trace)
            ctx.set(core.irq, 1 << 7 if asleep >= CYCLES_OF_SLEEP else 0)
            for bus, port in ((instr, core.instr), (data, core.data)):
                ctx.set(port.rvalid, cycle in bus.answers)
                ctx.set(port.rdata, words.get(bus.answers.get(cycle), 0x0000_0013))
            await ctx.delay(1e-9)
            for bus, port in ((instr, core.instr), (data, core.data)):
                ctx.set(port.gnt, bus.grant(cycle, ctx.get(port.req), ctx.get(port.addr)))
            row = {name: ctx.get(getattr(core, name)) for name in SIGNALS}
            row |= {"irq[7]": ctx.get(core.irq) >> 7 & 1, "rst": int(cycle < 2)}
            for side, port in (("instr", core.instr), ("data", core.data)):
                row |= {f"{side}__{name}": ctx.get(getattr(port, name)) for name in port.signature.members}
            trace.append(row)
            await ctx.tick()

    simulator = Simulator(core)
    simulator.add_clock(1e-6)
    simulator.add_testbench(surroundings)
    simulator.run()
    return trace


def shown_at(drawn: Timing, trace: list[dict[str, int]], start: int) -> bool:
    """Tell whether the drawing shows the cycles from ``start`` on."""
    seen: dict[str, int] = {}
    for name, levels in drawn.waves.items():
        level = "x"
        for cycle, letter in enumerate(levels):
            level = level if letter == "." else letter
            if levels[0] == "p" or level == "x":
                continue
            value = trace[start + cycle][name]
            if value != (int(level) if level in "01" else seen.setdefault(level, value)):
                return False
    for letter, text in drawn.values.items():
        number = {"1111": 0b1111, "0011": 0b0011}.get(text, WORDS.get(text))
        if number is None and text[0].isdigit():
            number = int(text, 0)
        if number is not None and seen.get(letter) != number:
            return False
    return True


@pytest.fixture(scope="module")
def traces() -> dict[str, list[dict[str, int]]]:
    mixed = simulated(Bus([0], [1]), Bus([1, 0], [2, 1]))
    return {**dict.fromkeys(TIMINGS, mixed), "fetch": simulated(Bus([0], [2]), Bus([0], [1]))}


@pytest.mark.flow
@pytest.mark.parametrize("name", TIMINGS)
def test_drawing_shows_the_core(traces, name):
    drawn, trace = TIMINGS[name], traces[name]
    starts = range(CYCLES - len(drawn.waves["clk"]))
    names = [*drawn.waves][1:]
    assert any(shown_at(drawn, trace, start) for start in starts), [[row[name] for name in names] for row in trace]


def test_every_folder_is_drawn():
    parts = (ROOT / "sim/xpulpnn_sim").glob("*/__init__.py")
    assert {f"xpulpnn_sim.{part.parent.name}" for part in parts} <= set(" ".join(LAYERS).split())
