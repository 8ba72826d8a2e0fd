"""Write any instruction of the table with lines around it that make it safe anywhere in a random program.

Also write pairs of instructions, the first of which writes a register that the second one uses.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from xpulpnn.isa.compressed import EXPANSIONS
from xpulpnn.isa.csr import CSR_BY_NAME
from xpulpnn.isa.fields import FieldKind, Token
from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.cosimulation.model.statics import register
from xpulpnn_sim.reference.bare import layout
from xpulpnn_sim.reference.bare.draw import Draw, Group, written_fields
from xpulpnn_sim.reference.golden.dotp import RELOADS_ACTIVATION, RELOADS_WEIGHT
from xpulpnn_sim.verification.coverage.kinds import MEMORY, Producer, producers_of
from xpulpnn_sim.verification.random.memory_run import memory_operand
from xpulpnn_sw.assembly.disasm import ABI_NAMES, render

_SAFE = layout.WINDOW + 0x80  # Behind the words that fail
_SPAN = 0x40
_NEAR = 16
_BOTH = RELOADS_ACTIVATION | RELOADS_WEIGHT
_LOADS = (RELOADS_ACTIVATION, RELOADS_WEIGHT)
_MPIE = 128
_FEW_TURNS = {"rs1": "4"}
CONSUMER, PRODUCER = (layout.SCRATCH, layout.SHORT_COUNTER), (layout.COUNTER, layout.LINK)
"""Scratch registers for addresses, in the lines of an instruction and in those of the producer of its operand."""
_ATTEMPTS = 30
_SLOT = 0xF0  # offset from the window of words that carry constants and zeros
_ZERO_LANES = {"c": 15, "n": 5, "b": 2}
"""Lane operand of a pv.rq that requantises zeros into lanes of an address that are 0 anyway, by suffix of the
mnemonic."""
_T0, _T2, _TP, _SP = (ABI_NAMES[number] for number in (layout.LINK, layout.COUNTER, layout.BASE, layout.SP))
_SP_AGAIN = f"li {_SP}, 0x{layout.FRAME:x}"
_READERS = frozenset({"csrrs", "csrrc"})
_STEP = WORD_BYTES


class NoWayError(Exception):
    """Raised if an instruction cannot be made safe by lines around it."""


@dataclass(slots=True)
class Placed:
    """An instruction with the lines that make it safe."""

    before: list[str]  # lines some time before it
    text: str
    after: list[str] = field(default_factory=list[str])  # lines directly behind it
    values: dict[str, int] = field(default_factory=dict[str, int])
    # what operands must hold whose registers the caller has chosen, numbers or labels; of one that is implied under ""
    needs: dict[str, str] = field(default_factory=dict[str, str])

    def behind(self, lines: Sequence[str] = ()) -> list[str]:
        """Return all lines, with ``lines`` right before the instruction itself."""
        return [*self.before, *lines, self.text, *self.after]

    def registers(self, row: Insn) -> set[int]:
        """Return the numbers of the registers in the operands of the instruction."""
        used = {self.values[token.field.name] for token in row.tokens if token.field.kind is FieldKind.REGISTER}
        return used | ({self.values["rd"] + 1} if row.is_pair else set[int]())


@dataclass(slots=True)
class ProducedPair:
    """The lines of two instructions, the first of which writes a register that the second uses."""

    before: list[str]
    producer: list[str]  # what writes the register; the last instruction does
    consumer: list[str]  # what uses it; the first instruction does
    keep: set[int]  # registers that nothing in between may write


def placed_destination(row: Insn) -> Token | None:
    """Return the operand that names the result register of an instruction."""
    bases = {operand.base.field.name for operand in row.forms if operand.increment and operand.base}
    names = [name for name in written_fields(row) if name not in bases]
    return next((token for token in row.tokens if token.field.name in names), None)


def token_of(row: Insn, slot: str) -> Token | None:
    """Return the operand that becomes the field ``slot`` of the expanded instruction; None if it is implied."""
    tokens = [token for token in row.tokens if token.field.kind is FieldKind.REGISTER]
    if row.size == WORD_BYTES:
        return next((token for token in tokens if token.field.name in (slot, "rs3" if slot == "rd" else slot)), None)
    expansion = EXPANSIONS[row.mnemonic]
    for token in tokens:
        values = {operand.field.name: operand.field.high for operand in row.tokens}
        marks: list[bool] = []
        for mark in (8, 9):
            values |= {operand.field.name: 10 for operand in tokens} | {token.field.name: mark}
            marks.append(register(expansion.word(values), slot) == mark)
        if all(marks):
            return token
    return None


class Placer:
    """Writes single instructions, and pairs of a producer and an instruction that uses its result."""

    def __init__(self, draw: Draw, rows: Sequence[Insn], *, interrupts: bool) -> None:
        self.draw, self.interrupts = draw, interrupts
        self._rows: dict[Producer, list[Insn]] = {producer: [] for producer in Producer}
        for row in rows:
            for producer in producers_of(row):
                # compressed accesses reach few registers for their address
                if row.size == WORD_BYTES or row.insn_class is InsnClass.ALU:
                    self._rows[producer].append(row)

    def place(
        self,
        row: Insn,
        pins: Mapping[str, int] | None = None,
        keep: Collection[int] = (),
        *,
        scratch: tuple[int, int] = CONSUMER,
        fails: bool = False,
        crosses_word: bool = False,
    ) -> Placed:
        """Return an instruction with the lines that make it safe; raise :class:`NoWayError` if there are none."""
        pins, kind = dict(pins or {}), row.insn_class
        if kind in MEMORY:
            return self._access(row, pins, keep, scratch, fails=fails, crosses_word=crosses_word)
        if kind is InsnClass.BRANCH:
            return self._target(row, pins, keep, [self.filler(keep)])
        if kind is InsnClass.JUMP:
            return self._jump(row, pins, keep, scratch[0])
        if kind is InsnClass.LOOP:
            return self._loop(row, pins, keep)
        if kind is InsnClass.SYSTEM:
            return self._system(row)
        if kind is InsnClass.QUANTISE:
            raise NoWayError
        if kind is InsnClass.CSR:
            pins.setdefault("csr", CSR_BY_NAME["mscratch"].address)
        return self._plain(row, pins, keep)

    def filler(self, keep: Collection[int] = ()) -> str:
        """Return a single-cycle instruction that writes none of ``keep``."""
        return self.draw.arithmetic(keep, group=Group.INTEGER)

    def _plain(self, row: Insn, pins: Mapping[str, int], keep: Collection[int]) -> Placed:
        values = self.draw.values(row, keep, pins)
        return Placed([], self.draw.text(row, values), values=values)

    def _target(self, row: Insn, pins: dict[str, int], keep: Collection[int], skipped: list[str]) -> Placed:
        target = next(token.field for token in row.tokens if token.field.kind is FieldKind.TARGET)
        over = self.draw.label("over")
        pins[target.name] = 8 * target.step
        placed = self._plain(row, pins, keep)
        return Placed([], self._labelled(row, placed, over), [*skipped, f"{over}:"], placed.values)

    @staticmethod
    def _labelled(row: Insn, placed: Placed, label: str) -> str:
        text = render(row, row.encode(**placed.values))
        for token in row.tokens:
            if token.field.kind is FieldKind.TARGET:
                text = text.replace(f"pc{placed.values[token.field.name]:+d}", label)
        return text

    def _jump(self, row: Insn, pins: dict[str, int], keep: Collection[int], scratch: int) -> Placed:
        if row.op == "jal":
            return self._target(row, pins, keep, [self.filler(keep)])
        over = self.draw.label("to")
        before: list[str] = []
        if "rs1" not in pins:
            pins["rs1"] = scratch
            before = [f"la {ABI_NAMES[scratch]}, {over}"]
        if row.size == WORD_BYTES:
            pins["imm12"] = 0
        placed = self._plain(row, pins, {*keep, pins["rs1"]})
        return Placed(before, placed.text, [self.filler(keep), f"{over}:"], placed.values, {"rs1": over})

    def _loop(self, row: Insn, pins: dict[str, int], keep: Collection[int]) -> Placed:
        """Return a hardware-loop instruction with lines after which its loop ends at once and leaves no count."""
        draw, number = self.draw, pins.setdefault("L", self.draw.rng.randrange(2))
        off = f"lp.counti {number}, 0"
        counts = [token.field.name for token in row.tokens if token.field.name == "lpcnt12"]
        pins |= {name: draw.rng.randrange(1, 4) for name in counts if name not in pins}
        before: list[str] = []
        if "rs1" in {token.field.name for token in row.tokens} and "rs1" not in pins:
            pins["rs1"] = draw.rng.choice([register for register in layout.POOL if register not in keep])
            before.append(f"addi {ABI_NAMES[pins['rs1']]}, zero, {draw.rng.randrange(1, 4)}")
        # the instruction may be repeated
        keep = {*keep, pins.get("rs1", 0)}
        targets = [token for token in row.tokens if token.field.kind is FieldKind.TARGET]
        end = self.draw.label("last")
        for token in targets:
            pins[token.field.name] = 8 * token.field.step
        placed = self._plain(row, pins, keep)
        text = self._labelled(row, placed, end)
        if row.op != "lp.setup":
            # the count may be anything
            body = [f"{end}:"] if targets else []
            return Placed([off, *before], text, [off, *body, self.filler(keep)], placed.values, _FEW_TURNS)
        # a count that is not chosen here may be large
        body = [self.filler(keep), self.filler(keep), self.filler(keep) if before or counts else off]
        return Placed(before, text, [*body, f"{end}:", self.filler(keep), off], placed.values, _FEW_TURNS)

    def _system(self, row: Insn) -> Placed:
        scratch = ABI_NAMES[layout.SCRATCH]
        if row.op == "wfi":
            if not self.interrupts:
                raise NoWayError
            return Placed([f"addi {scratch}, zero, -1", f"csrrw zero, mie, {scratch}"], "wfi")
        if row.op != "mret":
            return self._plain(row, {}, ())
        over = self.draw.label("mret")
        before = ["csrrci zero, mstatus, 8", f"addi {scratch}, zero, {_MPIE}"]
        before.append(f"csrr{'s' if self.interrupts else 'c'} zero, mstatus, {scratch}")
        before += [f"la {scratch}, {over}", f"csrrw zero, mepc, {scratch}"]
        return Placed(before, "mret", [self.filler(), f"{over}:"])

    def _access(
        self,
        row: Insn,
        pins: dict[str, int],
        keep: Collection[int],
        scratch: tuple[int, int],
        *,
        fails: bool,
        crosses_word: bool,
    ) -> Placed:
        rng, operand = self.draw.rng, memory_operand(row)
        if row.is_nn_form:
            load = _BOTH if row.reloads_other else rng.choice(_LOADS)
            pins.setdefault("nnimm5", load | rng.randrange(8))
        offset = 0
        if operand.value is not None and operand.value.field.name not in pins:
            offset = self._offset(operand.value)
            pins[operand.value.field.name] = offset
        elif operand.value is not None and operand.value.field.kind is FieldKind.IMMEDIATE:
            offset = pins[operand.value.field.name]
        offset = 0 if operand.increment else offset
        address = layout.FAILING[0] + WORD_BYTES if fails else _SAFE + rng.randrange(_SPAN)
        if crosses_word:
            address |= WORD_BYTES - 1
        value, before, needs = f"0x{address - offset:x}", list[str](), dict[str, str]()
        if operand.base is None:
            if fails or crosses_word:
                # sp is put back
                return Placed([f"li {_SP}, {value}"], self._plain(row, pins, keep).text, [_SP_AGAIN])
            base, needs[""] = layout.SP, f"0x{layout.FRAME:x}"
        else:
            name = operand.base.field.name
            if name not in pins:
                pins[name] = scratch[operand.base.field.low >= layout.POOL[0]]
                before.append(f"li {ABI_NAMES[pins[name]]}, {value}")
            base, needs[name] = pins[name], value
            if operand.value is not None and not base:
                # the offset alone is the address
                needs[operand.value.field.name] = f"0x{_SAFE + rng.randrange(_SPAN):x}"
        placed = self._plain(row, pins, {*keep, base})
        return Placed(before, placed.text, [], placed.values, needs)

    def _offset(self, token: Token) -> int:
        """Return the value of an offset operand: a small immediate, or x0 for a register."""
        if token.field.kind is FieldKind.REGISTER:
            return 0
        near = range(max(token.field.low, -_NEAR), min(token.field.high, _NEAR) + 1)
        return self.draw.rng.choice([value for value in near if token.accepts(value)])

    def pair(self, row: Insn, slot: str, producer: Producer, pins: Mapping[str, int] | None = None) -> ProducedPair:
        """Return a pair whose first instruction, a ``producer``, writes the operand ``slot`` of the second."""
        is_second = row.is_pair and slot == "rs2"  # the second of two sums, in the register behind rd
        token, chosen = token_of(row, "rd" if is_second else slot), dict(pins or {})
        register = layout.SP if token is None else self._register(token)
        name = "" if token is None else token.field.name
        if row.insn_class in MEMORY:
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
        register += is_second
        placed = self.place(row, chosen, () if token is None else {register})
        consumer = [placed.text, *placed.after, *([] if token else [_SP_AGAIN])]
        value = placed.needs.get(name)
        made = self._valued(producer, register, value) if value else self._free(producer, register)
        if value and not value[0].isdigit() and producer is Producer.LINK:
            consumer.append(f"{self._out}:")
        return ProducedPair([*placed.before, *made[0]], made[1], consumer, {register} | placed.registers(row))

    def overwritten(self, row: Insn, producer: Producer) -> ProducedPair:
        """Return a pair whose instructions write the same register, which the second one does not read."""
        token = placed_destination(row)
        register = layout.RA if token is None else self._register(token)
        pins = {} if token is None else {token.field.name: register}
        for _ in range(_ATTEMPTS):
            placed = self.place(row, pins)
            others = [other for other in row.tokens if other.field.kind is FieldKind.REGISTER and other != token]
            sources = [placed.values[other.field.name] for other in others]
            if register not in sources:
                made = self._free(producer, register)
                consumer = [placed.text, *placed.after]
                return ProducedPair([*placed.before, *made[0]], made[1], consumer, {register, *sources})
        raise NoWayError

    def _register(self, token: Token) -> int:
        both = (0, 1) if token.field.step > 1 else (0,)  # the register behind an even one is written as well
        usual = [register for register in layout.POOL if all(register + offset in layout.POOL for offset in both)]
        return self.draw.rng.choice([register for register in usual if token.field.accepts(register)])

    def _free(self, producer: Producer, register: int) -> tuple[list[str], list[str]]:
        """Return the preparation of an instruction that writes any value to a register, and the instruction."""
        if producer is Producer.LINK:
            over = self.draw.label("over")
            return [], [f"jal {ABI_NAMES[register]}, {over}", self.filler({register}), f"{over}:"]
        if register == layout.SP:
            return self._valued(producer, register, f"0x{layout.FRAME:x}")
        is_base = producer in (Producer.BASE, Producer.MAC_LOAD_BASE)
        for _ in range(_ATTEMPTS):
            row = self.draw.rng.choice(self._rows[producer])
            token = memory_operand(row).base if is_base else placed_destination(row)
            odd = register % 2 if row.is_pair and not is_base else 0
            if token is None or not token.accepts(register - odd):
                continue
            if row.is_pair and not is_base and register ^ 1 not in layout.POOL:
                continue
            pins = {token.field.name: register - odd}
            if row.op in _READERS and self.draw.rng.random() < 0.5:
                # a CSR that is only read holds nobody up
                pins |= {operand.field.name: 0 for operand in row.tokens if operand.field.name in ("rs1", "zimm5")}
            with suppress(NoWayError):
                placed = self.place(row, pins, {register}, scratch=PRODUCER)
                ahead = [f"li {ABI_NAMES[register]}, {placed.needs[token.field.name]}"] if is_base else []
                return [*placed.before, *ahead], [placed.text]
        raise NoWayError

    def _valued(self, producer: Producer, register: int, value: str) -> tuple[list[str], list[str]]:
        """Return code as :meth:`_free` does, for an instruction that writes a number or the address of a label."""
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
                return [load], [self.draw.rng.choice((f"addi {name}, {_T2}, 0", f"add {name}, zero, {_T2}"))]
            case Producer.LINK:
                # the link leads to a word that may be overwritten, or on
                over, self._out = self.draw.label("over"), self.draw.label("out")
                behind = f"jal zero, {self._out}" if is_label else ".word 0x00000013"
                return [], [f"jal {name}, {over}", behind, f"{over}:"]
            case Producer.MAC_LOAD | Producer.MAC_LOAD_BASE:
                return self._mac_load(producer, name, load)
            case Producer.PAIR:
                # sums with products of a weight of zero: the other register of the two stays
                row = self.draw.rng.choice([row for row in self._rows[producer] if row.accumulates])
                zero = [f"sw zero, {slot}", f"addi {_T0}, {_TP}, {_SLOT}", f"{row.mnemonic} zero, ({_T0}!), 0, 0, 2"]
                return [*zero, load, f"addi {name}, {_T2}, 0"], [f"{row.mnemonic} {ABI_NAMES[register & ~1]}, 0, 0"]
            case Producer.REQUANTISE:
                words = [f"sw zero, {_SLOT + at}({_TP})" for at in (0, _STEP)]
                loads = [f"addi {_T0}, {_TP}, {_SLOT}", f"pv.rqld 0, ({_T0}!)", f"pv.rqld 1, ({_T0}!)"]
                names = [row.mnemonic for row in self._rows[producer]]
                suffix = next(suffix for suffix in _ZERO_LANES if any(mnemonic.endswith(suffix) for mnemonic in names))
                row = self.draw.rng.choice([mnemonic for mnemonic in names if mnemonic.endswith(suffix)])
                last = f"{row} {name}, zero, zero, {_ZERO_LANES[suffix]}"
                return [*words, *loads, load, f"addi {name}, {_T2}, 0"], [last]
            case _:
                raise NoWayError

    def _mac_load(self, producer: Producer, name: str, load: str) -> tuple[list[str], list[str]]:
        """Return code as :meth:`_valued` does, for a Mac&Load that writes its result or its base register."""
        row = self.draw.rng.choice([row for row in self._rows[producer] if not row.reloads_other and row.accumulates])
        form = f"{row.mnemonic} {{}}, ({{}}!), {{}}"
        if producer is Producer.MAC_LOAD_BASE:
            last = RELOADS_WEIGHT if row.is_nn_form else "zero"
            return [load, f"addi {name}, {_T2}, {-_STEP}"], [form.format("zero", name, last)]
        zero = [f"sw zero, {slot}({_TP})" for slot in (_SLOT, _SLOT + _STEP)] + [f"addi {_T0}, {_TP}, {_SLOT}"]
        if row.is_nn_form:
            zero.append(form.format("zero", _T0, RELOADS_WEIGHT))
        last = RELOADS_ACTIVATION if row.is_nn_form else "zero"
        return [*zero, load, f"addi {name}, {_T2}, 0"], [form.format(name, _T0, last)]
