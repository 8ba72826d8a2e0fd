"""Pairs of instructions, the first of which writes a register that the second one uses."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.reference.golden.dotp import RELOADS_ACTIVATION, RELOADS_WEIGHT
from xpulpnn_sim.verification.coverage.crosses import Crosses
from xpulpnn_sim.verification.coverage.kinds import MEMORY, CrossKind, Producer, cross_kind_of, producers_of
from xpulpnn_sim.verification.coverage.placing import PRODUCER, Placer, placed_destination, token_of
from xpulpnn_sim.verification.random.layout import BASE, COUNTER, FRAME, LINK, POOL, RA, SP
from xpulpnn_sim.verification.random.memory_run import memory_operand
from xpulpnn_sw.assembly.disasm import ABI_NAMES

_ATTEMPTS = 30
_SLOT = 0xF0  # offset from the window of words that carry constants and zeros
_ZERO_LANE = 2  # byte that is zero in every address of the memory map, where a requantised zero changes nothing
_T0, _T2, _TP, _SP = (ABI_NAMES[number] for number in (LINK, COUNTER, BASE, SP))
_READERS = frozenset({"csrrs", "csrrc"})
_STEP = WORD_BYTES


@dataclass(slots=True)
class ProducedPair:
    """Lines of a pair."""

    before: list[str]
    producer: list[str]  # what writes the register; the last instruction does
    consumer: list[str]  # what uses it; the first instruction does
    keep: set[int]  # registers that nothing in between may write


class Producing:
    """Writes pairs."""

    def __init__(self, crosses: Crosses, placer: Placer) -> None:
        self._placer = placer
        self._rng: Random = placer.draw.rng
        self._rows: dict[Producer, list[Insn]] = {producer: [] for producer in Producer}
        for row in crosses.rows:
            for producer in producers_of(row):
                # compressed accesses reach few registers for their address
                if row.size == WORD_BYTES or cross_kind_of(row) is CrossKind.ALU:
                    self._rows[producer].append(row)

    def pair(
        self, row: Insn, slot: str, producer: Producer, pins: Mapping[str, int] | None = None
    ) -> ProducedPair | None:
        """A pair whose second instruction reads what the first one writes in the operand ``slot``."""
        token, chosen = token_of(row, slot), dict(pins or {})
        register = SP if token is None else self._register(token.field.low, token.field.high)
        name = "" if token is None else token.field.name
        if cross_kind_of(row) in MEMORY:
            operand = memory_operand(row)
            if operand.value is not None and not operand.increment:
                if operand.base is not None and token == operand.value:
                    # the offset alone is the address
                    chosen[operand.base.field.name] = 0
                elif producer is Producer.LINK:
                    # the address is that of a word behind a jump
                    chosen.setdefault(operand.value.field.name, 0)
        if token is not None:
            chosen[name] = register
        placed = self._placer.place(row, chosen, () if token is None else {register})
        if placed is None:
            return None
        consumer = [placed.text, *placed.after, *([] if token else [f"li {_SP}, 0x{FRAME:x}"])]
        value = placed.needs.get(name)
        made = self._valued(producer, register, value) if value else self._free(producer, register)
        if made is None:
            return None
        if value and not value[0].isdigit() and producer is Producer.LINK:
            consumer.append(f"{self._out}:")
        return ProducedPair([*placed.before, *made[0]], made[1], consumer, {register} | placed.registers(row))

    def overwritten(self, row: Insn, producer: Producer) -> ProducedPair | None:
        """A pair that writes the same register, which the second instruction does not read."""
        token = placed_destination(row)
        register = RA if token is None else self._register(token.field.low, token.field.high)
        pins = {} if token is None else {token.field.name: register}
        for _ in range(_ATTEMPTS):
            placed = self._placer.place(row, pins)
            if placed is None:
                return None
            operands = [one for one in row.tokens if one.field.kind is FieldKind.REGISTER and one != token]
            sources = [placed.values[one.field.name] for one in operands]
            if register not in sources:
                break
        else:
            return None
        if (made := self._free(producer, register)) is None:
            return None
        return ProducedPair([*placed.before, *made[0]], made[1], [placed.text, *placed.after], {register, *sources})

    def _register(self, low: int, high: int) -> int:
        return self._rng.choice([register for register in POOL if low <= register <= high])

    def _free(self, producer: Producer, register: int) -> tuple[list[str], list[str]] | None:
        """Something that writes anything into a register: what prepares it, and what ends with it."""
        if producer is Producer.LINK:
            over = self._placer.draw.label("over")
            return [], [f"jal {ABI_NAMES[register]}, {over}", self._placer.filler({register}), f"{over}:"]
        if register == SP:
            return self._valued(producer, register, f"0x{FRAME:x}")
        is_base = producer in (Producer.BASE, Producer.MAC_LOAD_BASE)
        for _ in range(_ATTEMPTS):
            row = self._rng.choice(self._rows[producer])
            token = memory_operand(row).base if is_base else placed_destination(row)
            if token is None or not token.accepts(register):
                continue
            pins = {token.field.name: register}
            if row.op in _READERS and self._rng.random() < 0.5:
                # a CSR that is only read holds nobody up
                pins |= {one.field.name: 0 for one in row.tokens if one.field.name in ("rs1", "zimm5")}
            placed = self._placer.place(row, pins, {register}, scratch=PRODUCER)
            if placed is None:
                continue
            ahead = [f"li {ABI_NAMES[register]}, {placed.needs[token.field.name]}"] if is_base else []
            return [*placed.before, *ahead], [placed.text]
        return None

    def _valued(self, producer: Producer, register: int, value: str) -> tuple[list[str], list[str]] | None:
        """The same with a value: a number or a label."""
        name = ABI_NAMES[register]
        is_label = not value[0].isdigit()
        load = f"{'la' if is_label else 'li'} {_T2}, {value}"
        slot = f"{_SLOT}({_TP})"
        # the divisor is larger than all values, and takes the fewest cycles
        ways: dict[Producer, tuple[list[str], str]] = {
            Producer.MULTIPLY: ([f"addi {_T0}, zero, 1"], f"mul {name}, {_T2}, {_T0}"),
            Producer.MULTIPLY_HIGH: ([f"slli {_T2}, {_T2}, 1", f"lui {_T0}, 0x80000"], f"mulhu {name}, {_T2}, {_T0}"),
            Producer.DIVISION: ([f"lui {_T0}, 0x80000"], f"remu {name}, {_T2}, {_T0}"),
            Producer.LOAD: ([f"sw {_T2}, {slot}"], f"lw {name}, {slot}"),
            Producer.CSR: ([f"csrrw zero, mscratch, {_T2}"], f"csrrs {name}, mscratch, zero"),
            Producer.BASE: ([f"addi {name}, {_T2}, {-_STEP}"], f"p.lw {_T0}, {_STEP}({name}!)"),
        }
        if producer in ways:
            before, last = ways[producer]
            return [load, *before], [last]
        match producer:
            case Producer.ALU:
                return [load], [self._rng.choice((f"addi {name}, {_T2}, 0", f"add {name}, zero, {_T2}"))]
            case Producer.LINK:
                # the link leads to a word that may be overwritten, or on
                over, self._out = self._placer.draw.label("over"), self._placer.draw.label("out")
                behind = f"jal zero, {self._out}" if is_label else ".word 0x00000013"
                return [], [f"jal {name}, {over}", behind, f"{over}:"]
            case Producer.MAC_LOAD | Producer.MAC_LOAD_BASE:
                return self._mac_load(producer, name, load)
            case Producer.REQUANTISE:
                words = [f"sw zero, {_SLOT + at}({_TP})" for at in (0, _STEP)]
                loads = [f"addi {_T0}, {_TP}, {_SLOT}", f"pv.rqld 0, ({_T0}!)", f"pv.rqld 1, ({_T0}!)"]
                row = self._rng.choice(("pv.rqu.b", "pv.rqs.b"))
                return [*words, *loads, load, f"addi {name}, {_T2}, 0"], [f"{row} {name}, zero, zero, {_ZERO_LANE}"]
            case _:
                return None

    def _mac_load(self, producer: Producer, name: str, load: str) -> tuple[list[str], list[str]]:
        """A Mac&Load that adds a product with zero, or moves its base."""
        row = self._rng.choice([one for one in self._rows[producer] if not one.reloads_other and one.accumulates])
        form = f"{row.mnemonic} {{}}, ({{}}!), {{}}"
        if producer is Producer.MAC_LOAD_BASE:
            last = RELOADS_WEIGHT if row.is_nn_form else "zero"
            return [load, f"addi {name}, {_T2}, {-_STEP}"], [form.format("zero", name, last)]
        zero = [f"sw zero, {slot}({_TP})" for slot in (_SLOT, _SLOT + _STEP)] + [f"addi {_T0}, {_TP}, {_SLOT}"]
        if row.is_nn_form:
            zero.append(form.format("zero", _T0, RELOADS_WEIGHT))
        last = RELOADS_ACTIVATION if row.is_nn_form else "zero"
        return [*zero, load, f"addi {name}, {_T2}, 0"], [form.format(name, _T0, last)]
