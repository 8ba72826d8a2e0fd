"""Sequences of memory accesses and Mac&Loads in a small address range, and requantisations near bounds."""

from collections.abc import Collection
from dataclasses import dataclass, field
from random import Random

from xpulpnn.isa.fields import FieldKind, Operand
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES, XLEN
from xpulpnn_sim.reference.bare.draw import Draw, Group, written_fields
from xpulpnn_sim.reference.bare.layout import BASE, LOW_SIZE, MASK, POOL, SCRATCH, SLOT_COUNT, SLOTS, SP
from xpulpnn_sim.reference.bare.program import ProgramBlock
from xpulpnn_sim.reference.stimuli import random_word, requantisation
from xpulpnn_sw.assembly.disasm import ABI_NAMES

_SHIFT_BITS = 5
_ZERO_LSB, _OUTSIDE = 8, 2  # of a pv.rqx: place of its zero point, and how far that is from 0
_PARAMETERS = 2
_X6, _SP = ABI_NAMES[SCRATCH], ABI_NAMES[SP]


def shift_register(rng: Random, width: int, *, exact: bool = False) -> int:
    """Return a register value that makes a pv.rq, or pv.rqx if ``exact``, shift random sums to about ``width`` bits."""
    word = rng.getrandbits(XLEN - _SHIFT_BITS) << _SHIFT_BITS | rng.randrange(XLEN - width - 1, XLEN - width + 1)
    if not exact:
        return word
    return word & ~(0xFF << _ZERO_LSB) | XLEN | (rng.randrange(-_OUTSIDE, _OUTSIDE + 1) & 0xFF) << _ZERO_LSB


def _constant(draw: Draw, register: int, value: int, slot: int) -> list[str]:
    name = ABI_NAMES[register]
    lines = [f"li {name}, 0x{value:x}"]
    if draw.chance(0.3):
        lines += [f"sw {name}, {slot}({_SP})", f"lw {name}, {slot}({_SP})"]
    return lines


def aimed_lines(draw: Draw, preserved: Collection[int] = ()) -> tuple[str, ...]:
    """Return the loads of parameters in random order, then a pv.rq whose result is often next to a bound."""
    # the registers `preserved` stay as they are
    rng, insn = draw.rng, draw.deal(Group.REQUANTISE)
    scale, total = rng.getrandbits(XLEN), random_word(rng)
    kappa, lam, scale = requantisation(insn, total, scale, rng)
    accumulator, shift, *pointers = rng.sample([register for register in POOL if register not in preserved], 4)
    bases = [ABI_NAMES[pointer] for pointer in pointers]
    slot = SLOTS + WORD_BYTES * rng.randrange(SLOT_COUNT - _PARAMETERS)
    lines: list[str] = []
    for at, word in enumerate((kappa, lam)):
        lines += [f"li {_X6}, 0x{word:x}", f"sw {_X6}, {slot + WORD_BYTES * at}({_SP})"]
    other = slot + WORD_BYTES * _PARAMETERS
    registers = [_constant(draw, shift, scale, other)]
    registers.append(_constant(draw, accumulator, total, other))
    loads = [f"addi {base}, {_SP}, {slot + WORD_BYTES * at}" for at, base in enumerate(bases)]
    loads += rng.sample([f"pv.rqld {at}, ({base}!)" for at, base in enumerate(bases)], _PARAMETERS)
    rng.shuffle(registers)
    order = [[*registers[0], *registers[1], *loads], [*loads, *registers[0], *registers[1]]]
    order.append([*registers[0], *loads, *registers[1]])
    lines += rng.choice(order)
    return (*lines, draw.text(insn, draw.values(insn, preserved, {"rs1": accumulator, "rs2": shift})))


_NEAR = 16  # Offsets are mostly this small, so that accesses overlap
_DRIFT_LIMIT = 0x800
"""Largest distance by which increments may move a base register before accesses may leave the margin of the window."""
_SMALL = 0x7F  # largest value of an offset register
_BOTH = 0b11000  # Both update bits of a Mac&Load
_INCREMENT = 4  # bytes a Mac&Load moves its base
_LOST_CHANCE = 0.15  # how often an access may overwrite its own base
_ATTEMPTS = 20
_AIMED_CHANCE = 0.2  # how often the next in a run of requantisations is one whose result is aimed at
_IMMEDIATE_OFFSETS = frozenset({"imm12", "stimm12", "cl7"})
_LOADS_AND_STORES = (Group.LOAD, Group.STORE, Group.SHORT_MEMORY)

STYLES: dict[str, tuple[Group, ...]] = {
    "memory": _LOADS_AND_STORES,
    "Mac&Load": (Group.MAC_LOAD,),
    "mixed": (Group.MAC_LOAD, Group.LOAD, Group.STORE),
    "quantise": (*(Group.QUANTISE,) * 4, Group.MAC_LOAD, Group.LOAD, Group.STORE),
    "requantise": (*(Group.REQUANTISE,) * 6, *(Group.PARAMETER,) * 4, Group.MAC_LOAD, Group.LOAD, Group.STORE),
}
"""Groups of instructions in a run, by name of the run; repeated groups are more frequent."""

OPTIONAL = {"quantise": Group.QUANTISE, "requantise": Group.REQUANTISE}
"""Runs that need a group of instructions which only some cores have."""

_SYSTEM = ("fence", "fence.i", "ecall", "csrrs zero, mcause, zero")  # what may stand between two requantisations


@dataclass(slots=True)
class _Known:
    # distance a base may have from the masked address, by register
    bases: dict[int, int] = field(default_factory=dict[int, int])
    small: set[int] = field(default_factory=lambda: {0})  # registers that hold at most _SMALL

    def forget(self, register: int) -> None:
        self.bases.pop(register, None)
        if register:
            self.small.discard(register)

    @property
    def registers(self) -> set[int]:
        return self.bases.keys() | (self.small - {0})


def memory_operand(insn: Insn) -> Operand:
    return next(operand for operand in insn.forms if operand.is_memory)


class MemoryRun:
    def __init__(self, draw: Draw, style: str) -> None:
        self._draw, self._rng, self._style = draw, draw.rng, style
        self._groups = tuple(group for group in STYLES[style] if draw.groups[group]) or _LOADS_AND_STORES
        self._known = _Known()

    def block(self, length: int) -> ProgramBlock:
        """Return about ``length`` instructions: they make base registers valid, then access memory."""
        draw, rng = self._draw, self._rng
        with draw.narrowed(rng.choice((2, 3, len(POOL)))):
            head = self._prepare()
            children: list[ProgramBlock] = []
            while len(children) < length and self._known.bases:
                if draw.chance(0.3):
                    children.append(ProgramBlock("arithmetic", (draw.arithmetic(self._known.registers),)))
                elif self._style == "requantise" and draw.chance(0.04):
                    children.append(ProgramBlock("system", (rng.choice(_SYSTEM),)))
                elif self._style == "requantise" and draw.chance(_AIMED_CHANCE):
                    children.append(ProgramBlock("aimed", aimed_lines(draw, self._known.registers)))
                elif (text := self._access()) is not None:
                    children.append(ProgramBlock("access", (text,)))
        return ProgramBlock(self._style, head, tuple(children))

    def _prepare(self) -> tuple[str, ...]:
        """Return code that sets base registers to valid addresses last, so that accesses depend on recent results."""
        draw, rng = self._draw, self._rng
        lines: list[str] = []
        bases = rng.sample(POOL, rng.choice((1, 1, 2)))
        if draw.chance(0.5):
            small = rng.choice([register for register in POOL if register not in bases])
            lines.append(f"andi {ABI_NAMES[small]}, {ABI_NAMES[draw.source()]}, {_SMALL}")
            self._known.small.add(small)
        for base in bases:
            name = ABI_NAMES[base]
            lines.append(f"and {name}, {ABI_NAMES[draw.source()]}, {ABI_NAMES[MASK]}")
            lines.append(f"add {name}, {name}, {ABI_NAMES[BASE]}")
            if draw.chance(0.3):
                lines += draw.through_memory(name)
            self._known.bases[base] = 0
        return tuple(lines)

    def _access(self) -> str | None:
        draw, known = self._draw, self._known
        for _ in range(_ATTEMPTS):
            insn = draw.deal(*self._groups)
            pins = {} if insn.requantises or (insn.is_pair and not insn.writes_base) else self._pins(insn)
            if pins is None:
                continue
            preserved = () if draw.chance(_LOST_CHANCE) else known.registers - {pins.get("rs1", 0)}
            values = draw.values(insn, preserved, pins)
            self._note(insn, values)
            return draw.text(insn, values)
        return None

    def _pins(self, insn: Insn) -> dict[str, int] | None:
        """Return operands for base and offset of an access, by field name; None if nothing fits."""
        draw, rng, known = self._draw, self._rng, self._known
        operand = memory_operand(insn)
        if operand.base is None:
            return {}
        base_field = operand.base.field
        pins: dict[str, int] = {}
        if insn.is_nn_form:
            pins["nnimm5"] = (_BOTH if insn.reloads_other else rng.choice((0, 8, 8, 16, 16))) | rng.randrange(8)
            if pins["nnimm5"] < _NEAR // 2:
                return pins
        base = rng.choice([*known.bases])
        if not base_field.low and draw.chance(0.05):
            base = 0
        if not draw.chance(_LOST_CHANCE) and insn.writes_rd and base and not insn.is_pair:
            chosen = next(token.field for token in insn.tokens if token.field.name == "rd")
            pins["rd"] = draw.destination(known.registers, chosen.low, chosen.high)
        pins[base_field.name] = base
        if operand.value is None:
            return pins
        name = operand.value.field.name
        choose = self._immediate if name in _IMMEDIATE_OFFSETS else self._offset_register
        value = choose(operand, base)
        if value is None:
            return None
        pins[name] = value
        return pins

    def _immediate(self, operand: Operand, base: int) -> int | None:
        assert operand.value is not None
        bits, rng = operand.value.field, self._rng
        low, high = bits.low, bits.high
        if not base:
            low = low if operand.increment else 0
        elif operand.increment:
            drift = self._known.bases[base]
            low, high = max(low, -_DRIFT_LIMIT - drift), min(high, _DRIFT_LIMIT - drift)
        if self._draw.chance(0.75):
            low, high = max(low, -_NEAR), min(high, _NEAR)
        choices = range(low + -low % bits.step, high + 1, bits.step)
        if bits.legal:
            choices = [value for value in choices if bits.accepts(value)]
        return rng.choice(choices) if choices else None

    def _offset_register(self, operand: Operand, base: int) -> int | None:
        """Return an offset register; any will do for post-increment, which adds it to the base after the access."""
        known, rng = self._known, self._rng
        if operand.increment and (not base or self._draw.chance(0.5)):
            return self._draw.source()
        if not base:
            # the register offset alone is the address
            return rng.choice([*known.bases])
        return rng.choice(sorted(known.small - {base}))

    def _note(self, insn: Insn, values: dict[str, int]) -> None:
        known = self._known
        if insn.is_pair:
            known.forget(values["rd"] + 1)
        if insn.requantises or (insn.is_pair and not insn.writes_base):
            known.forget(values["rd"])
            return
        operand = memory_operand(insn)
        base = values.get(operand.base.field.name, 0) if operand.base else 0
        moves = operand.increment and values.get("nnimm5", 8) >= 8
        if base in known.bases and moves:
            known.bases[base] = drift = known.bases[base] + self._step(operand, values)
            if abs(drift) > _DRIFT_LIMIT:
                known.forget(base)
        if base and base not in known.bases and moves:
            known.forget(base)
        for name in written_fields(insn):
            if operand.base is None or name != operand.base.field.name:
                known.forget(values[name])

    def _step(self, operand: Operand, values: dict[str, int]) -> int:
        if operand.value is None:
            return _INCREMENT
        token = operand.value.field
        value = values[token.name]
        if token.kind is not FieldKind.REGISTER:
            return value
        return _SMALL if value in self._known.small - {0} else 0 if value == 0 else LOW_SIZE
