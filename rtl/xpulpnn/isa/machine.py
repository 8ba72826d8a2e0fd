"""Constants of the core and instruction timing, shared by hardware, simulators, software and test benches."""

from dataclasses import dataclass
from enum import Enum, IntEnum

from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.retirement import WaitCause

XLEN = 32  # bits of a register, an address and a memory word

BYTE_BITS = 8
HALF_BYTES, WORD_BYTES = 2, 4
HALF_BITS = HALF_BYTES * BYTE_BITS
BYTE_MASK, HALF_MASK, WORD_MASK = (1 << BYTE_BITS) - 1, (1 << HALF_BITS) - 1, (1 << XLEN) - 1
ADDRESS_SPACE = 1 << XLEN
REGISTERS = 32

LENGTH_BITS = 2
LENGTH_MASK = (1 << LENGTH_BITS) - 1  # low bits of an instruction, all set in 4-byte instructions only


def instruction_size(word: int) -> int:
    return WORD_BYTES if word & LENGTH_MASK == LENGTH_MASK else HALF_BYTES


NNRF_ACTIVATIONS, NNRF_WEIGHTS = 2, 4
NNRF_ENTRIES = NNRF_ACTIVATIONS + NNRF_WEIGHTS
"""Words of the NN-RF with the nn form of Mac&Load; with Compute&Update alone it has only the weights."""

FIRST_WEIGHT = NNRF_ACTIVATIONS
"""NN-RF entry number of weight 0, after the activations (guide, "The NN register file")."""

NNRF_PARAMETERS = 2
FIRST_PARAMETER = NNRF_ENTRIES
"""NN-RF entry number of the first requantisation parameter, the factor kappa; the summand lambda follows."""

SECOND_PAIR = FIRST_PARAMETER + NNRF_PARAMETERS
"""NN-RF entry number of the first activation of the second pair, which only Mac&Load of two products uses."""

NNRF_WORDS = SECOND_PAIR + NNRF_ACTIVATIONS  # largest number of NN-RF entries

ACTIVATION_SELECT, WEIGHT_SELECT_LSB, WEIGHT_SELECT = 0b00001, 1, 0b011
RELOADS_ACTIVATION, RELOADS_WEIGHT = 0b01000, 0b10000
"""Selector of a Mac&Load: the entries it multiplies, and the entry it reloads (guide, "Rules of both forms")."""

INCREMENT = 4  # bytes by which a Mac&Load advances its base register, whatever the format
QUANTISED_PIXELS = 2  # pixels of pv.qnt; each loads a threshold for every bit of its code


class ExceptionCause(IntEnum):
    """Exception codes of mcause (guide, "Exceptions and interrupts")."""

    INSTRUCTION_ACCESS_FAULT = 1  # instruction fetch that was answered with instr.err, at its execution
    ILLEGAL_INSTRUCTION = 2  # illegal instruction, or forbidden access to a CSR
    BREAKPOINT = 3  # ebreak, c.ebreak
    LOAD_ACCESS_FAULT = 5  # load or Mac&Load that was answered with data.err
    STORE_ACCESS_FAULT = 7  # store that was answered with data.err
    ENVIRONMENT_CALL = 11  # ecall


class Interrupt(IntEnum):
    """Named interrupt lines: their bits in mie and mip and their codes in mcause."""

    SOFTWARE = 3
    TIMER = 7
    EXTERNAL = 11


CLINT_BASE, CLINT_BYTES = 0x0200_0000, 0xC000  # of the timer beside a core, in simulators and with Wishbone
CLINT_SPACE = 0x1_0000  # address range of a CLINT in hardware


class Clint(IntEnum):
    """Registers of the first hart in a core-local interruptor, by offset; those of others follow, but for the time."""

    MSIP = 0x0000  # bit 0: software interrupt
    MTIMECMP = 0x4000  # the timer interrupt is pending while the time is at least this; 64 bits, all 1 at the start
    MTIME = 0xBFF8  # the time in cycles, 64 bits


IRQ_LINES = 32
FIRST_CUSTOM_IRQ = 16  # lines from here up are free for the platform

IRQ_PRIORITY = (
    *reversed(range(FIRST_CUSTOM_IRQ, IRQ_LINES)),
    Interrupt.EXTERNAL.value,
    Interrupt.SOFTWARE.value,
    Interrupt.TIMER.value,
)
"""Usable interrupt lines, highest priority first."""

IRQ_BITS = sum(1 << line for line in IRQ_PRIORITY)  # usable lines as bits of mie and mip
MACHINE_MODE = 3  # code of the only privilege mode

VECTOR_BYTES = 4
VECTORS = 32  # entries of the vector table

TEXT_BASE = 0x1C00_0000
"""Address at which programs start with their vector table, in the L2 memory of the PULP platforms."""

ENTRY = TEXT_BASE + VECTORS * VECTOR_BYTES  # first instruction, behind the vector table
DATA_BASE = 0x1000_0000  # address at which data starts, in the L1 scratchpad of the PULP platforms


class Cost(Enum):
    """Cycles in addition to one per instruction, with memories that grant at once and answer in the next cycle.

    Events that are not listed cost nothing. The numbers are those of RI5CY; for divisions see :func:`division_cycles`.
    """

    def __init__(self, cycles: int, cause: WaitCause, meaning: str) -> None:
        self.cycles = cycles  # cycles without a retirement
        self.cause = cause  # cause that the retirement port reports in these cycles
        self.meaning = meaning  # condition under which they are added

    MULTIPLY_HIGH = 4, WaitCause.MULTICYCLE, "mulh, mulhsu, mulhu, unless the multiplier has products of 64 bits"
    PRODUCT_USE = (
        1,
        WaitCause.LOAD_USE,
        "the next instruction uses a mulh* or a shifted product of half-words made on the arrays of dot products",
    )
    MISALIGNED_ACCESS = 1, WaitCause.MISALIGNED, "load or store across a word boundary"
    LOAD_USE = 1, WaitCause.LOAD_USE, "the next instruction uses the loaded value"
    MAC_LOAD_USE = 1, WaitCause.MAC_LOAD, "the next instruction uses the base or the reloaded entry of a Mac&Load"
    PAIR_USE = (
        1,
        WaitCause.MAC_LOAD,
        "the next instruction reads a sum, or multiplies the loaded entry, of a Mac&Load of two products",
    )
    PARAMETER_USE = 1, WaitCause.MAC_LOAD, "the next instruction is a pv.rq*, behind a pv.rqld"
    REQUANTISE_USE = (1, WaitCause.MAC_LOAD, "the next instruction reads the result of a pv.rq*, even as its old rd")
    EXACT_USE = (
        1,
        WaitCause.MAC_LOAD,
        "a pv.rqx*, for each cycle until its rs1 and the summand are written, taken from where they are stored",
    )
    TAKEN_BRANCH = 2, WaitCause.BRANCH, "branch, taken"
    JUMP = 1, WaitCause.JUMP, "jal, jalr"
    JUMP_REGISTER = 1, WaitCause.JUMP_REGISTER, "jalr, its base written by the ALU instruction before"
    MISALIGNED_TARGET = 1, WaitCause.FETCH, "target of a jump or branch is a 32-bit instruction across a word boundary"
    TRAP = 1, WaitCause.TRAP, "entry of an exception handler, mret"
    INTERRUPT = 3, WaitCause.TRAP, "entry of an interrupt handler, if what is older ends at once"
    CSR_WRITE = 1, WaitCause.CSR, "instruction behind a CSR write"
    FENCE_I = 1, WaitCause.SYNC, "fence.i, from when everything older is complete"
    WFI = 1, WaitCause.SLEEP, "wfi, likewise, if an interrupt waits that mie enables"
    LATE_USE = (
        1,
        WaitCause.LOAD_USE,
        "with late results: the next instruction uses a result that is neither a sum of words nor logic",
    )
    LATE_STEP = (
        1,
        WaitCause.MULTICYCLE,
        "with late results: sums that are shifted, bit counts, every product but dot products",
    )
    LATE_FETCH = (
        1,
        WaitCause.FETCH,
        "with late results: branch, jump or loop end that is taken, mret, fence.i, entry of a handler",
    )


SHORTEST_DIVISION = 3  # cycles of a division by a divisor that cannot be shifted


def division_cycles(divisor: int, *, signed: bool) -> int:
    """Return the cycles of a division: 3 plus the redundant upper bits of the divisor; 35 for divisor 0."""
    if signed and divisor >> (XLEN - 1):
        return SHORTEST_DIVISION + XLEN - 1 - (divisor ^ WORD_MASK).bit_length()
    return SHORTEST_DIVISION + XLEN - divisor.bit_length()


_ALWAYS = {
    **dict.fromkeys(("mulh", "mulhsu", "mulhu"), Cost.MULTIPLY_HIGH),
    **dict.fromkeys(("jal", "jalr"), Cost.JUMP),
    **dict.fromkeys(("ecall", "ebreak", "mret"), Cost.TRAP),
    "fence.i": Cost.FENCE_I,
    "wfi": Cost.WFI,
}
"""Cost of every execution of an operation, by operation."""


@dataclass(frozen=True, slots=True)
class Cycles:
    #: fewest, most: Cycles of the instruction itself; they differ if the operands decide.
    fewest: int
    most: int
    sometimes: tuple[Cost, ...] = ()  #: Costs that depend on the circumstances.


def cycles(insn: Insn) -> Cycles:
    """Return the cycles that ``insn`` always takes, and the costs that it may cause in addition."""
    if insn.divides:
        return Cycles(SHORTEST_DIVISION, division_cycles(0, signed=insn.op in ("div", "rem")))
    fixed = 1 + (_ALWAYS[insn.op].cycles if insn.op in _ALWAYS else 0)
    if insn.op == "pv.qnt" and insn.fmt is not None:
        fixed += QUANTISED_PIXELS * insn.fmt.width
    return Cycles(fixed, fixed, tuple(_sometimes(insn)))


_ACCESSES = frozenset({InsnClass.LOAD, InsnClass.STORE, InsnClass.MAC_LOAD, InsnClass.PARAMETER})


def _sometimes(insn: Insn) -> list[Cost]:
    conditions = {
        Cost.TAKEN_BRANCH: insn.is_branch,
        Cost.JUMP_REGISTER: insn.op == "jalr",
        Cost.MISALIGNED_TARGET: insn.is_branch or insn.is_jump,
        Cost.MISALIGNED_ACCESS: insn.insn_class in _ACCESSES and not insn.is_byte_access,
        Cost.LOAD_USE: insn.is_load,
        Cost.MAC_LOAD_USE: insn.insn_class is InsnClass.MAC_LOAD,
        Cost.PAIR_USE: insn.is_pair,
        Cost.PARAMETER_USE: insn.loads_parameter,
        Cost.REQUANTISE_USE: insn.requantises,
        Cost.EXACT_USE: insn.is_exact,
        Cost.CSR_WRITE: insn.insn_class is InsnClass.CSR,
    }
    return [cost for cost, holds in conditions.items() if holds]
