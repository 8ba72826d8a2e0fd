"""Model of hardware loops in a machine that executes one instruction after the other, and random executions."""

from dataclasses import dataclass, field
from enum import Enum
from random import Random

from xpulpnn.isa.machine import WORD_MASK, XLEN

HARDWARE_LOOPS = 2
START, END, COUNT = range(3)  # registers of a loop in the order of their CSR addresses
REGISTERS_PER_LOOP = 3
LOOP_SETUPS = {
    "STARTI": (START,),
    "ENDI": (END,),
    "COUNT": (COUNT,),
    "COUNTI": (COUNT,),
    "SETUP": (START, END, COUNT),
    "SETUPI": (START, END, COUNT),
}
"""Loop registers that each set-up operation writes."""

SPAN_BYTES = 96  # executions jump back when they are this far from their base
_RECENT = 6
_SMALL_COUNTS = (0, 1, 2, 2, 3, 4)


class LoopEffect(Enum):
    PLAIN = "neither"
    SETUP = "sets loop registers when it leaves ID"
    CSR_READ = "reads the loop registers in EX"
    CSR_WRITE = "writes one when it leaves EX"
    BRANCH = "decides in EX where to go"
    JUMP = "leaves ID for a target"
    TRAP = "leaves ID for a handler without any effect"


@dataclass(frozen=True, slots=True)
class LoopAction:
    effect: LoopEffect
    op: str = ""
    loop: int = 0
    register: int = 0
    values: tuple[int, int, int] = (0, 0, 0)
    taken: bool = False
    target: int = 0

    @property
    def blocks(self) -> bool:
        """Return whether the next instruction must not leave ID in the cycle in which this one leaves EX."""
        return self.taken or self.effect is LoopEffect.CSR_WRITE


@dataclass(frozen=True, slots=True)
class LoopStep:
    pc: int
    size: int
    action: LoopAction
    before: tuple[int, ...]  # loop registers before the instruction
    sequel: int  # address of the next instruction unless this one transfers control; a loop may jump back


@dataclass(slots=True)
class LoopMachine:
    """Hardware-loop registers of a machine that executes one instruction after the other."""

    registers: list[int] = field(default_factory=lambda: [0] * HARDWARE_LOOPS * REGISTERS_PER_LOOP)

    def _set(self, loop: int, register: int, value: int) -> None:
        # bit 0 of an address is always 0
        self.registers[REGISTERS_PER_LOOP * loop + register] = value if register == COUNT else value & ~1

    def ending(self, pc: int) -> int | None:
        for loop in range(HARDWARE_LOOPS):
            _, end, count = self.registers[REGISTERS_PER_LOOP * loop :][:REGISTERS_PER_LOOP]
            if end == pc and count > 1:
                return loop
        return None

    def execute(self, pc: int, size: int, action: LoopAction) -> tuple[LoopStep, int]:
        loop = self.ending(pc)
        back = (pc + size) & WORD_MASK if loop is None else self.registers[REGISTERS_PER_LOOP * loop + START]
        step = LoopStep(pc, size, action, tuple(self.registers), back)
        if action.effect in (LoopEffect.JUMP, LoopEffect.TRAP) or action.taken:
            return step, action.target
        if loop is not None:
            self.registers[REGISTERS_PER_LOOP * loop + COUNT] -= 1
        if action.effect is LoopEffect.SETUP:
            for register in LOOP_SETUPS[action.op]:
                self._set(action.loop, register, action.values[register])
        elif action.effect is LoopEffect.CSR_WRITE:
            self._set(action.loop, action.register, action.values[action.register])
        return step, back


class RandomExecution:
    """Draws instructions one by one; the size of an instruction depends on its address, all else is random."""

    _WEIGHTS = (10, 5, 2, 3, 4, 1, 1)  # frequency of each effect

    def __init__(self, base: int, rng: Random) -> None:
        self.base, self.rng = base, rng
        self._sizes: dict[int, int] = {}
        self._recent = [base]

    def size_at(self, pc: int) -> int:
        return self._sizes.setdefault(pc, self.rng.choice((2, 4)))

    def _address_ahead(self, pc: int, most: int) -> int:
        for _ in range(self.rng.randint(0, most)):
            pc = (pc + self.size_at(pc)) & WORD_MASK
        return pc

    def _body(self, pc: int) -> tuple[int, int]:
        if self.rng.random() < 0.3:
            return self.rng.choice(self._recent), self.rng.choice([*self._recent, self._address_ahead(pc, 4)])
        start = self._address_ahead(pc, 2)
        return start, self._address_ahead(start, 2)

    def _draw(self, pc: int, *, at_end: bool) -> LoopAction:
        """Draw the action of an instruction; at a loop end it is often one that takes effect late in the pipeline."""
        rng = self.rng
        effect = rng.choices(list(LoopEffect), self._WEIGHTS)[0]
        if at_end and rng.random() < 0.5:
            effect = rng.choice((LoopEffect.BRANCH, LoopEffect.CSR_READ, LoopEffect.CSR_WRITE))
        target = rng.choice([*self._recent, self._address_ahead(pc, 5)])
        if (pc - self.base) & WORD_MASK > SPAN_BYTES:
            effect, target = LoopEffect.JUMP, self.base
        start, end = self._body(pc)
        if rng.random() < 0.15:
            # an end that no instruction has
            end ^= 1 << rng.randrange(1, XLEN)
        large = 1 << rng.randrange(2, XLEN) | rng.getrandbits(1)
        return LoopAction(
            effect,
            op=rng.choice([*LOOP_SETUPS, "SETUP", "SETUPI"]),
            loop=rng.randrange(HARDWARE_LOOPS),
            register=rng.randrange(REGISTERS_PER_LOOP),
            values=(
                start | rng.getrandbits(1),
                end | rng.getrandbits(1),
                large if rng.random() < 0.25 else rng.choice(_SMALL_COUNTS),
            ),
            taken=effect is LoopEffect.BRANCH and rng.random() < 0.35,
            target=target,
        )

    def steps(self, count: int, machine: LoopMachine) -> list[LoopStep]:
        pc = self.base
        steps: list[LoopStep] = []
        for _ in range(count):
            action = self._draw(pc, at_end=machine.ending(pc) is not None)
            step, after = machine.execute(pc, self.size_at(pc), action)
            self._recent = [*self._recent[1 - _RECENT :], pc]
            steps.append(step)
            pc = after
        return steps
