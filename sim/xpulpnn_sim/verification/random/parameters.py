"""Parameters of the requantisation for random programs: chosen so that results spread over their range."""

from collections.abc import Collection
from dataclasses import dataclass
from random import Random

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK, XLEN
from xpulpnn_sim.reference.stimuli import random_word
from xpulpnn_sim.verification.random.draw import Draw, Group
from xpulpnn_sim.verification.random.layout import POOL, SCRATCH, SLOTS, SP
from xpulpnn_sw.assembly.registers import ABI_NAMES

_SHIFT_BITS = 5
_OUTSIDE = 2  # how far beyond the range results are aimed at
_END_CHANCE = 0.4  # how often it is an end of the range or just beyond
_PARAMETERS = 2
_X6, _SP = ABI_NAMES[SCRATCH], ABI_NAMES[SP]


def shift_register(rng: Random, width: int) -> int:
    """A word whose low bits shift a random word about into the range of ``width`` bits."""
    return rng.getrandbits(XLEN - _SHIFT_BITS) << _SHIFT_BITS | rng.randrange(XLEN - width - 1, XLEN - width + 1)


@dataclass(frozen=True, slots=True)
class Aimed:
    """Operands of a pv.rq whose result is in the range or just outside."""

    kappa: int
    lam: int
    accumulator: int
    shift: int  # only the low bits count


def aimed(insn: Insn, rng: Random) -> Aimed:
    """Operands for the row ``insn``: any factor and accumulator, and the lambda that brings the sum where it must be.

    What the shift drops is all zeros or all ones now and then, so that sums lie directly at the bounds.
    """
    assert insn.fmt is not None
    width = insn.fmt.width
    low = -(1 << (width - 1)) if insn.a_signed else 0
    high = low + (1 << width) - 1
    ends = (low - 1, low, high, high + 1)
    wanted = rng.choice(ends) if rng.random() < _END_CHANCE else rng.randint(low - _OUTSIDE, high + _OUTSIDE)
    # sums are words: above this shift some of the results cannot be reached
    shift = rng.randrange(XLEN - width - 1) if rng.random() < 0.8 else rng.randrange(XLEN)
    dropped = rng.choice((0, (1 << shift) - 1, rng.getrandbits(XLEN) & (1 << shift) - 1))
    kappa, accumulator = random_word(rng), random_word(rng)
    lam = ((wanted << shift) + dropped - kappa * accumulator) & WORD_MASK
    return Aimed(kappa, lam, accumulator, rng.getrandbits(XLEN - _SHIFT_BITS) << _SHIFT_BITS | shift)


def _constant(draw: Draw, register: int, value: int, slot: int) -> list[str]:
    """Lines that put ``value`` into a register, now and then as a loaded value."""
    name = ABI_NAMES[register]
    lines = [f"li {name}, 0x{value:x}"]
    if draw.chance(0.3):
        lines += [f"sw {name}, {slot}({_SP})", f"lw {name}, {slot}({_SP})"]
    return lines


def aimed_lines(draw: Draw, keep: Collection[int] = ()) -> tuple[str, ...]:
    """Both parameters loaded, and a pv.rq with an aimed result, as close to each other as chance will have it.

    Registers of ``keep`` stay as they are.
    """
    rng, insn = draw.rng, draw.deal(Group.REQUANTISE)
    operands = aimed(insn, rng)
    accumulator, shift, *pointers = rng.sample([register for register in POOL if register not in keep], 4)
    bases = [ABI_NAMES[pointer] for pointer in pointers]
    slot = SLOTS + WORD_BYTES * rng.randrange(8)
    lines: list[str] = []
    for at, word in enumerate((operands.kappa, operands.lam)):
        lines += [f"li {_X6}, 0x{word:x}", f"sw {_X6}, {slot + WORD_BYTES * at}({_SP})"]
    other = slot + WORD_BYTES * _PARAMETERS
    registers = [_constant(draw, shift, operands.shift, other)]
    registers.append(_constant(draw, accumulator, operands.accumulator, other))
    loads = [f"addi {base}, {_SP}, {slot + WORD_BYTES * at}" for at, base in enumerate(bases)]
    loads += rng.sample([f"pv.rqld {at}, ({base}!)" for at, base in enumerate(bases)], _PARAMETERS)
    rng.shuffle(registers)
    order = [[*registers[0], *registers[1], *loads], [*loads, *registers[0], *registers[1]]]
    order.append([*registers[0], *loads, *registers[1]])
    lines += rng.choice(order)
    return (*lines, draw.text(insn, draw.values(insn, keep, {"rs1": accumulator, "rs2": shift})))
