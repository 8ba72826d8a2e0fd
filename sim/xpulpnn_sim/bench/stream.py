"""Instruction streams for the back end: the reference machine that makes them and the driver that feeds them.

A stream is what a program would execute, in order. The reference machine (the instruction-set simulator) is stepped
with the words the bench chooses, so that any instruction may follow any other and control may go anywhere.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from cocotb.triggers import FallingEdge, RisingEdge

from xpulpnn.config import CoreConfig
from xpulpnn.isa.insn import Insn
from xpulpnn_sim.bench.obi import WordMemory
from xpulpnn_sim.bench.parts import Dut, sample
from xpulpnn_sim.golden.dotp import RELOADS_ACTIVATION, RELOADS_WEIGHT
from xpulpnn_sim.iss.core import Iss, Step
from xpulpnn_sim.iss.memory import Memory

BOOT_ADDRESS = 0x1000
COMPRESSED_BYTES, WORD_BYTES = 2, 4
LENGTH_BITS = 0b11
REGISTER_MASK = 31
PIPELINE_STAGES = 4
ACCEPT_LIMIT = 400
"""Cycles after which an instruction that is not accepted counts as a hang; a division and a slow memory fit."""


class ReferenceMemory(Memory):
    """Memory of the reference machine: data as in :class:`WordMemory`, one chosen word per instruction fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.words = WordMemory()
        self.fetched: int | None = None
        self.accessed: int | None = None

    def read(self, address: int, size: int) -> int:
        """The chosen word at the first read after :attr:`fetched` was set, data otherwise."""
        if self.fetched is not None:
            word, self.fetched = self.fetched, None
            return word
        self.accessed = address
        return self.words.load(address) & ((1 << 8 * size) - 1)

    def write(self, address: int, size: int, value: int) -> None:
        """Store data."""
        self.accessed = address
        self.words.store(address, size, value)


@dataclass(frozen=True, slots=True)
class Executed:
    """One instruction of a stream and the state after it.

    Members
    -------
    pc, word, compressed
        What the back end receives; ``word`` is expanded.
    insn : Insn or None
        The row; None if the word is illegal.
    cause : int or None
        Exception it raises.
    redirect : int or None
        Where it transfers control.
    operands : tuple of int
        Values of rs1 and rs2 before it.
    address : int or None
        Byte address of its memory access.
    regs, nn : tuple of int
        GP-RF and NN-RF after it.
    """

    pc: int
    word: int
    compressed: bool
    insn: Insn | None
    cause: int | None
    redirect: int | None
    operands: tuple[int, int]
    address: int | None
    regs: tuple[int, ...]
    nn: tuple[int, ...]

    @property
    def is_branch(self) -> bool:
        """Whether it is a conditional branch."""
        return self.insn is not None and self.insn.is_branch


class Reference:
    """The sequential machine: executes chosen words one after the other."""

    def __init__(self, config: CoreConfig) -> None:
        self.memory = ReferenceMemory()
        self.iss = Iss(BOOT_ADDRESS, extensions=config.extensions, widths=config.widths, memory=self.memory)

    def execute(self, raw: int) -> Executed:
        """Execute the word ``raw``, compressed or not, at the current pc. After an exception the next word follows."""
        state = self.iss.state
        pc, compressed = state.pc, raw & LENGTH_BITS != LENGTH_BITS
        rs1, rs2 = raw >> 15 & REGISTER_MASK, raw >> 20 & REGISTER_MASK
        operands = (state.regs[rs1], state.regs[rs2])
        self.memory.fetched, self.memory.accessed = raw, None
        step = self.iss.step()
        after = (pc + (COMPRESSED_BYTES if compressed else WORD_BYTES)) & 0xFFFF_FFFF
        if step.cause is not None:
            state.pc = after
        transfers = step.insn is not None and (step.insn.is_jump or (step.insn.is_branch and state.pc != after))
        return Executed(
            pc=pc,
            word=step.word,
            compressed=compressed,
            insn=step.insn,
            cause=step.cause,
            redirect=state.pc if transfers and step.cause is None else None,
            operands=operands,
            address=self.memory.accessed if self._accesses(step) else None,
            regs=tuple(state.regs),
            nn=tuple(state.nn),
        )

    @staticmethod
    def _accesses(step: Step) -> bool:
        """Whether the step accesses memory; a Mac&Load without an update bit does not, though its word is looked up."""
        insn = step.insn
        if insn is None or insn.op != "pv.mlsdot":
            return insn is not None and (insn.is_load or insn.is_store or insn.is_mac_load)
        return bool(step.word >> 20 & (RELOADS_ACTIVATION | RELOADS_WEIGHT))

    def stream(self, words: Iterable[int]) -> Iterator[Executed]:
        """Execute all ``words``."""
        return (self.execute(word) for word in words)


class StreamDriver:
    """Feeds a stream with the bubbles of instruction fetching; the only writer of ``insn__*``.

    After a jump one cycle without an instruction; after a taken branch none until ``branch__valid``, then one more
    cycle without. While a taken branch is waiting, and in cycles without an instruction, the payload shows other
    instructions, which must have no effect.

    Parameters
    ----------
    dut : handle
        The back end.
    rng : Random
        Source of wrong-path words and of pauses.
    pause : float
        Probability of an extra cycle without an instruction.
    """

    def __init__(self, dut: Dut, rng: Random, pause: float) -> None:
        self.dut = dut
        self.rng = rng
        self.pause = pause
        self.cycle = 0
        self.accepted: list[int] = []

    def _show(self, word: int, pc: int, compressed: bool, *, valid: bool) -> None:
        dut = self.dut
        dut.insn__payload__word.value = word
        dut.info__raw.value = word
        dut.insn__payload__pc.value = pc
        dut.insn__payload__compressed.value = int(compressed)
        dut.insn__valid.value = int(valid)

    async def _cycle(self) -> None:
        await RisingEdge(self.dut.clk)
        self.cycle += 1

    async def _bubble(self) -> None:
        self._show(self.rng.getrandbits(32), self.rng.getrandbits(32), False, valid=False)
        await FallingEdge(self.dut.clk)
        self._no_redirect("without an instruction")
        await self._cycle()

    def _no_redirect(self, where: str) -> None:
        for port in (self.dut.jump__valid, self.dut.branch__valid, self.dut.trap__valid):
            assert not sample(port), f"unexpected {port._name} {where} (cycle {self.cycle})"

    async def _await_branch(self, target: int, wrong_path: int) -> None:
        """Offer a wrong-path instruction until the branch is resolved; it must not be accepted before."""
        self._show(wrong_path, self.rng.getrandbits(32) & ~LENGTH_BITS, False, valid=True)
        for _ in range(ACCEPT_LIMIT):
            await FallingEdge(self.dut.clk)
            resolved = sample(self.dut.branch__valid)
            assert not sample(self.dut.jump__valid), "a killed instruction jumps"
            assert not sample(self.dut.trap__valid), "a killed instruction traps"
            if resolved:
                got = sample(self.dut.branch__target)
                assert got == target, f"branch to {got:#x}, expected {target:#x}"
            else:
                assert not sample(self.dut.insn__ready), "an instruction after an unresolved branch is accepted"
            await self._cycle()
            if resolved:
                return
        raise AssertionError(f"no branch within {ACCEPT_LIMIT} cycles")

    def _check_redirects(self, item: Executed) -> None:
        dut, where = self.dut, f"with {item.word:#010x} at {item.pc:#x}"
        assert not sample(dut.branch__valid), f"unexpected branch {where}"
        assert sample(dut.trap__valid) == (item.cause is not None), f"trap {where}"
        if item.cause is not None:
            assert sample(dut.trap__cause) == item.cause, f"cause {sample(dut.trap__cause)} {where}"
        jumps = item.redirect is not None and not item.is_branch
        assert sample(dut.jump__valid) == jumps, f"jump {where}"
        if jumps:
            got = sample(dut.jump__target)
            assert got == item.redirect, f"jump to {got:#x}, expected {item.redirect:#x} {where}"

    async def run(self, stream: Iterable[Executed]) -> None:
        """Feed all instructions; :attr:`accepted` tells the cycle in which each was taken."""
        wrong_path = self.rng.getrandbits(32)
        for item in stream:
            while self.rng.random() < self.pause:
                await self._bubble()
            self._show(item.word, item.pc, item.compressed, valid=True)
            for _ in range(ACCEPT_LIMIT):
                await FallingEdge(self.dut.clk)
                ready = sample(self.dut.insn__ready)
                if ready:
                    self._check_redirects(item)
                else:
                    self._no_redirect(f"before {item.word:#010x} is accepted")
                await self._cycle()
                if ready:
                    break
            else:
                raise AssertionError(f"{item.word:#010x} not accepted within {ACCEPT_LIMIT} cycles")
            self.accepted.append(self.cycle - 1)
            if item.redirect is not None:
                if item.is_branch:
                    await self._await_branch(item.redirect, wrong_path)
                await self._bubble()
            wrong_path = item.word
        self._show(0, 0, False, valid=False)

    async def drain(self) -> None:
        """Wait until nothing is in flight and the last retirement was reported."""
        for _ in range(ACCEPT_LIMIT):
            await FallingEdge(self.dut.clk)
            busy = sample(self.dut.busy)
            await self._cycle()
            if not busy:
                break
        else:
            raise AssertionError(f"busy for {ACCEPT_LIMIT} cycles after the last instruction")
        # An instruction that traps has no effect to wait for, but its record still travels down the pipeline.
        for _ in range(PIPELINE_STAGES):
            await self._cycle()
