"""Why nothing retires: one cause in every cycle without a retirement, as often as the memories of the test say.

The documented costs, each under its cause, are measured by ``xpulpnn verify costs``.
"""

from collections import Counter, deque
from dataclasses import replace
from random import Random

import pytest
from tests.rtl.replay import simulate

from xpulpnn.config import PRESETS
from xpulpnn.core.core import Core
from xpulpnn.isa.machine import DATA_BASE, ENTRY, IRQ_PRIORITY, TEXT_BASE, WORD_BYTES, Cost
from xpulpnn.isa.retirement import WaitCause
from xpulpnn_sim.verification.random.designs import run_reference_core
from xpulpnn_sim.verification.random.generator import generate
from xpulpnn_sim.verification.random.layout import BUS_ERRORS
from xpulpnn_sw.assembly.asm import assemble

pytestmark = pytest.mark.flow

LIMIT = 30_000
IRQ_PERIOD = 400
"""Cycles between interrupts of a random program."""
BRANCH_OPCODE = 0b1100011


class Port:
    """Memory side of an OBI port: grants and answers at once, or with probability ``rate`` each cycle not."""

    def __init__(self, port, words, rate=0.0, seed=0, refusals=(), delays=()):
        self.port, self.words, self.rate, self.rng = port, words, rate, Random(seed)
        self.granted = deque()
        self.refusals, self.delays = deque(refusals), deque(delays)
        self.refused = self.unanswered = 0
        self.gnt = self.rvalid = 0

    def drive(self, ctx):
        """Inputs of the next cycle."""
        late = self.rng.random() < self.rate or (self.granted and self.delays and self.delays[0] > 0)
        if late and self.granted and self.delays:
            self.delays[0] -= 1
        self.rvalid = int(bool(self.granted) and not late)
        if self.rvalid:
            word, error = self.granted.popleft()
            ctx.set(self.port.rdata, word)
            ctx.set(self.port.err, error)
            if self.delays:
                self.delays.popleft()
        self.gnt = int(self.rng.random() >= self.rate and not (self.refusals and self.refusals[0] > 0))
        ctx.set(self.port.rvalid, self.rvalid)
        ctx.set(self.port.gnt, self.gnt)

    def sample(self, req, addr, write=None):
        """Outputs of the cycle that ends."""
        self.unanswered += bool(self.granted)
        if req and not self.gnt:
            self.refused += 1
            if self.refusals and self.refusals[0] > 0:
                self.refusals[0] -= 1
        if req and self.gnt:
            if self.refusals:
                self.refusals.popleft()
            fails = any(first <= addr < first + size for first, size in BUS_ERRORS)
            self.granted.append((self.words.get(addr, 0), fails))
            if write is not None and not fails:
                mask = sum(0xFF << 8 * lane for lane in range(WORD_BYTES) if write[0] >> lane & 1)
                self.words[addr] = self.words.get(addr, 0) & ~mask | write[1] & mask


class Run:
    """Cycles of a core: ``waits`` by cycle, NONE where something retires, and what retires by its cycle."""

    def __init__(self, config, words, entry, done, *, fetch=None, data=None, irq=()):
        core = Core(replace(config, rvfi=True))
        self.waits, self.retired = [], {}
        self.fetch = Port(core.instr, words, **(fetch or {}))
        self.data = Port(core.data, words, **(data or {}))
        rises = dict(irq)

        async def testbench(ctx):
            ctx.set(core.boot_addr, entry)
            ctx.set(core.fetch_enable, 1)
            lines = 0
            while len(self.waits) < LIMIT:
                self.fetch.drive(ctx)
                self.data.drive(ctx)
                lines |= rises.get(len(self.waits), 0)
                ctx.set(core.irq, lines)
                names = ("instr.req", "instr.addr", "data.req", "data.addr", "data.we", "data.be", "data.wdata")
                ports = [getattr(getattr(core, name.split(".")[0]), name.split(".")[1]) for name in names]
                ports += [getattr(core, f"rvfi_{name}") for name in ("valid", "wait", "order", "pc_rdata", "insn")]
                ports += [core.rvfi_pc_wdata, core.irq_ack, core.irq_id]
                values = (await ctx.tick().sample(*ports))[2:]
                instr_req, instr_addr, req, addr, we, be, wdata, valid, wait, order, pc, insn, after, ack, line = values
                if ack:
                    lines &= ~(1 << line)
                if valid:
                    assert order == len(self.retired)
                    self.retired[len(self.waits)] = (pc, insn, after)
                assert (wait == WaitCause.NONE) == valid
                self.waits.append(WaitCause(wait))
                self.fetch.sample(instr_req, instr_addr)
                self.data.sample(req, addr, (be, wdata) if we else None)
                if req and we and self.data.gnt and addr == done:
                    return
            raise AssertionError(f"not finished after {LIMIT} cycles")

        simulate(core, testbench, clocked=True)

    def between(self, first, last):
        """Waits after the first retirement at address ``first`` and before the first at ``last``."""
        cycles = {}
        for cycle, (pc, _, _) in self.retired.items():
            cycles.setdefault(pc, cycle)
        return counted(self.waits[cycles[first] : cycles[last]])


def counted(waits):
    return Counter(cause for cause in waits if cause is not WaitCause.NONE)


def words_of(executable):
    words = {}
    for segment in executable.segments:
        for at in range(0, len(segment.data), WORD_BYTES):
            words[segment.address + at] = int.from_bytes(segment.data[at : at + WORD_BYTES], "little")
    return words


def assembled(text):
    """Words and labels of a program whose vector table leads to the label ``handler``."""
    code = assemble("jal zero, handler\n" * 32 + text, TEXT_BASE)
    image = code.to_bytes()
    image += bytes(-len(image) % WORD_BYTES)
    pairs = ((TEXT_BASE + at, image[at : at + WORD_BYTES]) for at in range(0, len(image), WORD_BYTES))
    return {address: int.from_bytes(word, "little") for address, word in pairs}, code.labels


@pytest.mark.parametrize(
    ("name", "seed", "rate", "interrupts"),
    [("xpulpnn-full", 12, 0.3, False), ("ri5cy", 2, 0.2, True)],
)
def test_random_programs(name, seed, rate, interrupts):
    """The causes that memories and transfers decide, counted where they are made."""
    config = PRESETS[name]
    rng = Random(seed)
    executable = generate(config, seed, interrupts=interrupts, budget=100).executable()
    run = Run(
        config,
        words_of(executable),
        executable.entry,
        executable.tohost,
        fetch={"rate": rate, "seed": seed},
        data={"rate": rate, "seed": seed + 1},
        irq=[(cycle, 1 << rng.choice(IRQ_PRIORITY)) for cycle in range(0, LIMIT, IRQ_PERIOD) if interrupts],
    )
    waits = counted(run.waits)
    assert waits.total() + len(run.retired) == len(run.waits)
    taken = sum(
        insn & 0x7F == BRANCH_OPCODE and after not in (pc + 2, pc + 4) for pc, insn, after in run.retired.values()
    )
    assert taken
    if interrupts:
        assert waits[WaitCause.TRAP] > Cost.INTERRUPT.cycles
    else:
        end, records, _ = run_reference_core(config, executable, limit=LIMIT)
        assert end.ok
        # the store that ends the run has not retired yet
        assert [pc for pc, _, _ in run.retired.values()] == records["pc_rdata"][: len(run.retired)].tolist()
    # the last cycle's own bubbles are still on their way
    assert run.data.refused - waits[WaitCause.GRANT] in (0, 1)
    assert run.data.unanswered - waits[WaitCause.RESPONSE] in (0, 1)
    assert waits[WaitCause.BRANCH] >= Cost.TAKEN_BRANCH.cycles * taken


def test_the_data_memory_refuses_and_answers_late():
    words, labels = assembled(
        f"""handler: jal zero, handler
        li t0, 0x{DATA_BASE:x}
        addi zero, zero, 0
        from: addi zero, zero, 0
        lw t1, 0(t0)
        lw t2, 2(t0)
        addi zero, zero, 0
        to: addi zero, zero, 0
        sw t0, 256(t0)
        """
    )
    run = Run(
        PRESETS["ri5cy"],
        words,
        ENTRY + WORD_BYTES,
        DATA_BASE + 256,
        data={"refusals": (3, 0, 2), "delays": (4, 1, 5)},
    )
    found = run.between(labels["from"], labels["to"])
    assert found == {WaitCause.GRANT: 3 + 2, WaitCause.RESPONSE: 4 + 1 + 5, WaitCause.MISALIGNED: 1}
