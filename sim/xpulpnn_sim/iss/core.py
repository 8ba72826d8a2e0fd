"""Instruction-set simulator: one hart, one instruction per step, semantics from the golden models."""

from dataclasses import dataclass

import numpy as np

from xpulpnn.isa.csr import CsrGroup
from xpulpnn.isa.formats import BASE_EXTENSIONS, ElemFmt, Extension
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.table import Decoder, enabled, expand_compressed
from xpulpnn_sim.golden.dotp import ACTIVATION_SELECT, FIRST_WEIGHT, WEIGHT_SELECT, WEIGHT_SELECT_LSB
from xpulpnn_sim.golden.effects import U32, Effects, Sources
from xpulpnn_sim.golden.execute import execute
from xpulpnn_sim.golden.quant import quantise
from xpulpnn_sim.iss.csrs import MCAUSE_INTERRUPT, Cause, CsrFile
from xpulpnn_sim.iss.memory import Memory
from xpulpnn_sim.iss.system import csr_access, csr_is_legal, loop_writes

REGISTERS = 32
NN_ENTRIES = 6
WORD_MASK = 0xFFFF_FFFF
COMPRESSED_BYTES, WORD_BYTES = 2, 4
ALL_WIDTHS = frozenset(fmt.width for fmt in ElemFmt)
DEFAULT_EXTENSIONS = BASE_EXTENSIONS | {
    Extension.XPULPV2,
    Extension.XPULPNN,
    Extension.XPULPML_NN,
    Extension.XPULPML_CU,
}

LENGTH_BITS = 0b11
"""Low instruction bits, all set in a 32-bit instruction."""

HALF_MASK = 0xFFFF

REGISTER_LSB = {"rs1": 15, "rs2": 20, "rd": 7}
"""Lowest bit of the register fields."""

EXCEPTIONS = {"ecall": Cause.ENVIRONMENT_CALL, "ebreak": Cause.BREAKPOINT}
CSR_OPS = frozenset({"csrrw", "csrrs", "csrrc"})
LOOP_OPS = frozenset({"lp.starti", "lp.endi", "lp.count", "lp.setup"})
SYSTEM_OPS = CSR_OPS | LOOP_OPS | {"mret", "wfi"}
"""Operations executed here and not by the golden models."""


@dataclass(slots=True)
class State:
    """Architectural state next to the CSRs and the memory.

    Members
    -------
    pc : int
        Address of the next instruction.
    regs : list of 32 int
        GP-RF; entry 0 stays 0.
    nn : list of 6 int
        NN-RF: activations 0 and 1, weights 2 to 5.
    asleep : bool
        A wfi waits for an interrupt.
    """

    pc: int
    regs: list[int]
    nn: list[int]
    asleep: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did.

    Members
    -------
    pc : int
        Address of the instruction, or the one at which the interrupt was taken.
    insn : Insn or None
        The row executed, compressed rows expanded; None for interrupts, sleep and illegal words.
    word : int
        The instruction word, compressed ones expanded; 0 for interrupts and sleep.
    cause : int or None
        mcause of the trap taken, if any.
    """

    pc: int
    insn: Insn | None = None
    word: int = 0
    cause: int | None = None


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A decoded instruction: its 32-bit row and word, bytes in memory, register fields it reads."""

    insn: Insn
    word: int
    length: int
    reads: frozenset[str]


def _array(value: int) -> U32:
    return np.array([value], np.uint32)


def _field(word: int, lsb: int) -> int:
    return word >> lsb & (REGISTERS - 1)


class Iss:
    """A hart and its memory.

    mcycle counts one cycle per step: the simulator has no notion of time. The PULP performance counters do not exist.

    Parameters
    ----------
    boot_address : int
        First instruction; also the reset value of mtvec's base.
    extensions : frozenset of Extension
        Instructions that exist; all others trap.
    widths : frozenset of int
        SIMD element widths in bits that exist.
    hart_id : int
        Value of mhartid.
    memory : Memory or None
        An existing memory to run on, else a new one.
    """

    def __init__(
        self,
        boot_address: int = 0,
        *,
        extensions: frozenset[Extension] = DEFAULT_EXTENSIONS,
        widths: frozenset[int] = ALL_WIDTHS,
        hart_id: int = 0,
        memory: Memory | None = None,
    ) -> None:
        """Start in the reset state."""
        self.memory = Memory() if memory is None else memory
        self.state = State(boot_address & ~1, [0] * REGISTERS, [0] * NN_ENTRIES)
        groups = {CsrGroup.BASE, CsrGroup.HWLOOP} if Extension.XPULPV2 in extensions else {CsrGroup.BASE}
        is_xpulp = bool(extensions - BASE_EXTENSIONS)
        self.csrs = CsrFile(boot_address, hart_id, frozenset(groups), is_xpulp=is_xpulp)
        self._decoder = Decoder(enabled(extensions, widths))
        self._fetched: dict[int, _Fetched | None] = {}

    def load(self, address: int, words: list[int]) -> None:
        """Put 32-bit words into memory."""
        for index, word in enumerate(words):
            self.memory.write(address + WORD_BYTES * index, WORD_BYTES, word)

    def run(self, limit: int, until: int | None = None) -> int:
        """Step until ``pc`` is ``until`` or ``limit`` steps are done; returns the number of steps."""
        for steps in range(limit):
            if self.state.pc == until:
                return steps
            self.step()
        return limit

    def step(self) -> Step:
        """Take an interrupt, wait one cycle in wfi, or execute one instruction."""
        pc, inhibit = self.state.pc, self.csrs["mcountinhibit"]
        self.csrs.written.clear()
        if self.state.asleep and not self.csrs.wakes:
            self.csrs.count("mcycle", inhibit)
            return Step(pc)
        self.state.asleep = False
        line = self.csrs.interrupt()
        if line is not None:
            return self._trap(Step(pc, cause=MCAUSE_INTERRUPT | line), inhibit)
        raw = self.memory.read(pc, WORD_BYTES)
        if raw & LENGTH_BITS != LENGTH_BITS:
            raw &= HALF_MASK
        fetched = self._decode(raw)
        if fetched is None:
            return self._trap(Step(pc, word=raw, cause=Cause.ILLEGAL_INSTRUCTION), inhibit)
        insn, word = fetched.insn, fetched.word
        if insn.op in EXCEPTIONS:
            return self._trap(Step(pc, insn, word, EXCEPTIONS[insn.op]), inhibit)
        if insn.op in CSR_OPS and not csr_is_legal(insn, word, self.csrs):
            return self._trap(Step(pc, insn, word, Cause.ILLEGAL_INSTRUCTION), inhibit)
        if insn.op in SYSTEM_OPS:
            self._execute_system(fetched)
        else:
            self._execute(fetched)
        self.csrs.count("mcycle", inhibit)
        self.csrs.count("minstret", inhibit)
        return Step(pc, insn, word)

    def _trap(self, step: Step, inhibit: int) -> Step:
        assert step.cause is not None
        self.state.pc = self.csrs.enter_trap(step.cause, step.pc)
        self.csrs.count("mcycle", inhibit)
        return step

    def _decode(self, raw: int) -> _Fetched | None:
        """The instruction in a word, or in a half-word if it is compressed; None if it is illegal."""
        if raw not in self._fetched:
            row, word, length = self._decoder.decode(raw), raw, WORD_BYTES
            if row is not None and row.size == COMPRESSED_BYTES:
                word, length = expand_compressed(raw), COMPRESSED_BYTES
                row = self._decoder.decode(word)
            self._fetched[raw] = None if row is None else _Fetched(row, word, length, row.reads)
        return self._fetched[raw]

    def _sources(self, fetched: _Fetched) -> Sources:
        insn, word, nn = fetched.insn, fetched.word, self.state.nn
        sources = Sources(word=_array(word), pc=_array(self.state.pc), length=fetched.length)
        for name in fetched.reads:
            setattr(sources, name, _array(self.state.regs[_field(word, REGISTER_LSB[name])]))
        if insn.op == "pv.mlsdot":
            selector = _field(word, REGISTER_LSB["rs2"])
            sources.act = _array(nn[selector & ACTIVATION_SELECT])
            sources.wgt = _array(nn[FIRST_WEIGHT + (selector >> WEIGHT_SELECT_LSB & WEIGHT_SELECT)])
        elif insn.entry is not None and insn.is_mac_load:
            sources.wgt = _array(nn[FIRST_WEIGHT + insn.entry])
        return sources

    def _effects(self, insn: Insn, sources: Sources) -> Effects:
        if insn.op == "pv.qnt":
            return quantise(insn, sources, lambda address: _array(self.memory.read(int(address[0]), 2)))
        effects = execute(insn, sources)
        if effects.address is not None and effects.store is None:
            # The address does not depend on the loaded word: ask for it first, then execute with the word.
            sources.loaded = _array(self.memory.read(int(effects.address[0]), WORD_BYTES))
            return execute(insn, sources)
        return effects

    def _write(self, register: int, value: int) -> None:
        if register:
            self.state.regs[register] = value

    def _sequel(self, length: int) -> int:
        """Next pc without a transfer of control: the start of a hardware loop that ends here, or what follows."""
        target = self.csrs.next_of_loop(self.state.pc)
        return (self.state.pc + length) & WORD_MASK if target is None else target

    def _execute_system(self, fetched: _Fetched) -> None:
        """CSR access, hardware-loop setup, mret and wfi.

        A loop that ends here counts down before the instruction writes, so that the written value stays.
        """
        insn, word, pc = fetched.insn, fetched.word, self.state.pc
        if insn.op == "mret":
            self.state.pc = self.csrs.leave_trap()
            return
        operand = self.state.regs[_field(word, REGISTER_LSB["rs1"])]
        if insn.op in CSR_OPS:
            access = csr_access(insn, word, operand, self.csrs)
            self.state.pc = self._sequel(fetched.length)
            if access.written is not None:
                self.csrs.write(access.csr, access.written)
            self._write(_field(word, REGISTER_LSB["rd"]), access.read)
            return
        self.state.pc = self._sequel(fetched.length)
        if insn.op == "wfi":
            self.state.asleep = True
            return
        for name, value in loop_writes(insn, word, operand, pc).items():
            self.csrs[name] = value

    def _execute(self, fetched: _Fetched) -> None:
        """An instruction of the golden models: commit its effects, the base register before rd."""
        insn, word = fetched.insn, fetched.word
        sources = self._sources(fetched)
        effects = self._effects(insn, sources)
        if effects.store is not None and effects.address is not None and effects.size is not None:
            self.memory.write(int(effects.address[0]), effects.size, int(effects.store[0]))
        if effects.nn_index is not None and effects.nn_written is not None and effects.nn_written[0]:
            self.state.nn[int(effects.nn_index[0])] = int(sources.loaded[0])
        if effects.base is not None and effects.base_written is not None and effects.base_written[0]:
            self._write(_field(word, REGISTER_LSB["rs1"]), int(effects.base[0]))
        if effects.rd is not None:
            self._write(_field(word, REGISTER_LSB["rd"]), int(effects.rd[0]))
        if effects.taken is not None and effects.target is not None and effects.taken[0]:
            self.state.pc = int(effects.target[0])
        else:
            self.state.pc = self._sequel(fetched.length)
