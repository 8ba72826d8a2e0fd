"""Write any instruction of the table with code around it that lets a random program continue after it.

Such code sets a valid address, for example. Pairs consist of a producer and an instruction that uses its result.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from xpulpnn.isa.compressed import EXPANSIONS
from xpulpnn.isa.csr import CSR_BY_NAME, MSTATUS_MPIE
from xpulpnn.isa.fields import FieldKind, Token
from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.machine import RELOADS_ACTIVATION, RELOADS_WEIGHT, WORD_BYTES
from xpulpnn_sim.reference.bare import layout
from xpulpnn_sim.reference.bare.draw import Draw, Group, written_fields
from xpulpnn_sim.reference.bare.program import block_of
from xpulpnn_sim.verification.coverage.kinds import BASES, MEMORY, Producer, producers_of
from xpulpnn_sim.verification.random.memory_run import memory_operand
from xpulpnn_sw.assembly.disasm import ABI_NAMES, render

_SAFE, _SPAN = layout.WINDOW + 0x80, 0x40  # addresses of accesses: from here on, behind the words that fail
_NEAR = 16  # largest offset
_SLOT = 0xF0  # offset from the window of words that carry constants and zeros
_ATTEMPTS = 30
CONSUMER, PRODUCER = (layout.SCRATCH, layout.SHORT_COUNTER), (layout.COUNTER, layout.LINK)
"""Scratch registers for addresses, in the lines of an instruction and in those of the producer of its operand. The
second of each pair is one that compressed instructions reach."""
_SP, _SP_AGAIN = ABI_NAMES[layout.SP], f"li {ABI_NAMES[layout.SP]}, 0x{layout.FRAME:x}"

_ZEROS = f"sw zero, {_SLOT}(tp); sw zero, {_SLOT + WORD_BYTES}(tp); addi t0, tp, {_SLOT}"
_NEW = "addi {name}, t2, 0"
_WAYS = {
    Producer.ALU: f"| {_NEW}",
    Producer.MULTIPLY: "addi t0, zero, 1 | mul {name}, t2, t0",
    Producer.MULTIPLY_HIGH: "slli t2, t2, 1; lui t0, 0x80000 | mulhu {name}, t2, t0",
    # the divisor is larger than all values, and takes the fewest cycles
    Producer.DIVISION: "lui t0, 0x80000 | remu {name}, t2, t0",
    Producer.LOAD: f"sw t2, {_SLOT}(tp) | lw {{name}}, {_SLOT}(tp)",
    Producer.CSR: "csrrw zero, mscratch, t2 | csrrs {name}, mscratch, zero",
    Producer.BASE: "addi {name}, t2, -4 | p.lw t0, 4({name}!)",
    # products of zeros are added to the value
    Producer.MAC_LOAD: f"{_ZEROS}; {{row}} zero, (t0!), {{weight}}; {_NEW} | {{row}} {{name}}, (t0!), {{activation}}",
    Producer.MAC_LOAD_BASE: "addi {name}, t2, -4 | {row} zero, ({name}!), {weight}",
    Producer.PAIR: f"{_ZEROS}; {{row}} zero, (t0!), 0, 0, 2; {_NEW} | {{row}} {{even}}, 0, 0",
    # zeros are requantised into a lane of an address that is 0 anyway
    Producer.REQUANTISE: f"{_ZEROS}; pv.rqld 0, (t0!); pv.rqld 1, (t0!); {_NEW} | {{row}} {{name}}, x0, x0, {{lane}}",
}
"""Instructions that write the value in t2 to a register; what stands behind the bar is the producer itself."""
_ZERO_LANES = {"c": 15, "n": 5, "b": 2}  # lane of a pv.rq that is 0 in every address, by suffix of the mnemonic


class NoWayError(Exception):
    """Raised if no code around an instruction lets a random program continue after it."""


@dataclass(slots=True)
class Placed:
    """An instruction with the lines that make it safe."""

    before: list[str]  # lines some time before it
    text: str
    after: list[str] = field(default_factory=list[str])  # lines directly behind it
    values: dict[str, int] = field(default_factory=dict[str, int])
    # what operands must hold whose registers the caller has chosen, numbers or labels; of one that is implied under ""
    needs: dict[str, str] = field(default_factory=dict[str, str])

    def all_lines(self, lines: Sequence[str] = ()) -> list[str]:
        return [*self.before, *lines, self.text, *self.after]

    def registers(self, row: Insn) -> set[int]:
        used = {self.values[token.field.name] for token in row.tokens if token.field.kind is FieldKind.REGISTER}
        return used | ({self.values["rd"] + 1} if row.is_pair else set[int]())


@dataclass(slots=True)
class ProducedPair:
    before: list[str]
    producer: list[str]  # what writes the register; the last instruction does
    consumer: list[str]  # what uses it; the first instruction does
    preserved: set[int]  # registers that nothing in between may write


def _destination(row: Insn) -> Token | None:
    """Return the operand that names the result register of an instruction."""
    bases = {operand.base.field.name for operand in row.forms if operand.increment and operand.base}
    names = [name for name in written_fields(row) if name not in bases]
    return next((token for token in row.tokens if token.field.name in names), None)


def _token_of(row: Insn, slot: str) -> Token | None:
    """Return the operand that becomes the field ``slot`` of the expanded instruction; None for an implied register."""
    names = (slot, "rs3") if slot == "rd" else (slot,)
    if row.size < WORD_BYTES:
        names = (EXPANSIONS[row.mnemonic].sources[slot],)
    return next((token for token in row.tokens if token.field.name in names), None)


def _load(register: int, value: str) -> str:
    return f"l{'i' if value[0].isdigit() else 'a'} {ABI_NAMES[register]}, {value}"


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
        preserved: Collection[int] = (),
        *,
        scratch: tuple[int, int] = CONSUMER,
        fails: bool = False,
        crosses_word: bool = False,
    ) -> Placed:
        """Return an instruction with code that lets a program continue; raise :class:`NoWayError` if there is none."""
        placed, kind = Placed([], "", values=dict(pins or {})), row.insn_class
        pinned, label = {*placed.values}, self.draw.label("over")
        placed.values |= {token.field.name: 8 * token.field.step for token in self._targets(row)}
        if kind in MEMORY:
            self._access(row, placed, fails=fails, crosses_word=crosses_word)
        elif kind is InsnClass.LOOP:
            self._end_loop(row, placed, label)
        elif kind is InsnClass.SYSTEM:
            self._system(row, placed)
        elif kind is InsnClass.CSR:
            placed.values.setdefault("csr", CSR_BY_NAME["mscratch"].address)
        elif row.op == "jalr":
            placed.needs["rs1"] = label
            placed.values |= {"imm12": 0} if row.size == WORD_BYTES else {}
        elif kind is InsnClass.QUANTISE:
            raise NoWayError
        for name, value in placed.needs.items():
            if name and name not in pinned:
                token = next(token for token in row.tokens if token.field.name == name)
                placed.values[name] = scratch[token.field.low >= layout.POOL[0]]
                placed.before.append(_load(placed.values[name], value))
        preserved = {*preserved, *(placed.values.get(name, layout.SP) for name in placed.needs)}
        if kind in (InsnClass.BRANCH, InsnClass.JUMP):
            placed.after = [self.filler(preserved), f"{label}:"]
        placed.after = [line or self.filler(preserved) for line in placed.after]
        placed.values = self.draw.values(row, preserved, placed.values)
        placed.text = placed.text or self._text(row, placed.values, label)
        return placed

    def filler(self, preserved: Collection[int] = ()) -> str:
        return self.draw.arithmetic(preserved, group=Group.INTEGER)

    @staticmethod
    def _targets(row: Insn) -> list[Token]:
        return [token for token in row.tokens if token.field.kind is FieldKind.TARGET]

    def _text(self, row: Insn, values: dict[str, int], label: str) -> str:
        if not (targets := self._targets(row)):
            return self.draw.text(row, values)
        return render(row, row.encode(**values)).replace(f"pc{values[targets[0].field.name]:+d}", label)

    def _end_loop(self, row: Insn, placed: Placed, end: str) -> None:
        """Add lines so that the loop of a hardware-loop instruction ends at once with the count 0."""
        names, rng = {token.field.name for token in row.tokens}, self.draw.rng
        off = f"lp.counti {placed.values.setdefault('L', rng.randrange(2))}, 0"
        if "lpcnt12" in names:
            placed.values.setdefault("lpcnt12", rng.randrange(1, 4))
        counted = "rs1" not in placed.values
        if "rs1" in names:
            placed.needs["rs1"] = str(WORD_BYTES)  # few iterations; an incremented base has been at 0
        if row.op == "lp.setup":
            # a count that is not chosen here may be large; empty lines become fillers
            placed.after = ["", "", "" if counted else off, f"{end}:", "", off]
        else:
            placed.before.append(off)
            placed.after = [off, *[f"{end}:"] * bool(self._targets(row)), ""]

    def _system(self, row: Insn, placed: Placed) -> None:
        scratch = ABI_NAMES[layout.SCRATCH]
        if row.op == "wfi":
            if not self.interrupts:
                raise NoWayError
            placed.before = [f"addi {scratch}, zero, -1", f"csrrw zero, mie, {scratch}"]
        elif row.op == "mret":
            over = self.draw.label("mret")
            placed.before = ["csrrci zero, mstatus, 8", f"addi {scratch}, zero, {MSTATUS_MPIE}"]
            placed.before.append(f"csrr{'s' if self.interrupts else 'c'} zero, mstatus, {scratch}")
            placed.before += [f"la {scratch}, {over}", f"csrrw zero, mepc, {scratch}"]
            placed.after = ["", f"{over}:"]

    def _access(self, row: Insn, placed: Placed, *, fails: bool, crosses_word: bool) -> None:
        """Choose an address and the operands that give it."""
        rng, operand, values = self.draw.rng, memory_operand(row), placed.values
        if row.is_nn_form:
            single = (RELOADS_ACTIVATION, RELOADS_WEIGHT)
            loads = (sum(single),) if row.reloads_other else single
            values.setdefault("nnimm5", rng.choice(loads) | rng.randrange(8))
        offset = 0
        if operand.value is not None:
            token, name = operand.value, operand.value.field.name
            if token.field.kind is FieldKind.REGISTER:
                values.setdefault(name, 0)
            else:
                near = range(max(token.field.low, -_NEAR), min(token.field.high, _NEAR) + 1)
                offset = values.setdefault(name, rng.choice([value for value in near if token.accepts(value)]))
        address = layout.FAILING[0] + WORD_BYTES if fails else _SAFE + rng.randrange(_SPAN)
        address |= (WORD_BYTES - 1) * crosses_word
        address -= 0 if operand.increment else offset
        if operand.base is None:
            placed.needs[""] = f"0x{layout.FRAME:x}"
            if fails or crosses_word:
                placed.before, placed.after = [f"li {_SP}, 0x{address:x}"], [_SP_AGAIN]
            return
        name = operand.base.field.name
        placed.needs[name] = f"0x{address:x}"
        if operand.value is not None and values.get(name) == 0:
            # the offset alone is the address
            placed.needs[operand.value.field.name] = f"0x{_SAFE + rng.randrange(_SPAN):x}"

    def pair(self, row: Insn, slot: str, producer: Producer, pins: Mapping[str, int] | None = None) -> ProducedPair:
        """Return a pair whose first instruction, a ``producer``, writes the operand ``slot`` of the second."""
        is_second = row.is_pair and slot == "rs2"  # the second of two sums, in the register behind rd
        token, chosen = _token_of(row, "rd" if is_second else slot), dict(pins or {})
        register, name = (layout.SP, "") if token is None else (self._register(token), token.field.name)
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
        value, consumer = placed.needs.get(name), [placed.text, *placed.after, *([] if token else [_SP_AGAIN])]
        if value and producer is Producer.LINK:
            made, behind = self._link_value(register, value)
            consumer += behind
        else:
            made = self._given_value(producer, register, value) if value else self._any_value(producer, register)
        return ProducedPair([*placed.before, *made[0]], made[1], consumer, {register} | placed.registers(row))

    def overwritten(self, row: Insn, producer: Producer) -> ProducedPair:
        """Return a pair whose instructions write the same register, which the second one does not read."""
        token = _destination(row)
        register = layout.RA if token is None else self._register(token)
        pins = {} if token is None else {token.field.name: register}
        for _ in range(_ATTEMPTS):
            placed = self.place(row, pins)
            others = [other for other in row.tokens if other.field.kind is FieldKind.REGISTER and other != token]
            sources = [placed.values[other.field.name] for other in others]
            if register not in sources:
                before, made = self._any_value(producer, register)
                consumer = [placed.text, *placed.after]
                return ProducedPair([*placed.before, *before], made, consumer, {register, *sources})
        raise NoWayError

    def _register(self, token: Token) -> int:
        both = (0, 1) if token.field.step > 1 else (0,)  # the register behind an even one is written as well
        usual = [register for register in layout.POOL if all(register + offset in layout.POOL for offset in both)]
        return self.draw.rng.choice([register for register in usual if token.field.accepts(register)])

    def _any_value(self, producer: Producer, register: int) -> tuple[list[str], list[str]]:
        """Return the preparation, and the line of a ``producer`` instruction that writes any value to a register."""
        if producer is Producer.LINK:
            over = self.draw.label("over")
            return [], [f"jal {ABI_NAMES[register]}, {over}", self.filler({register}), f"{over}:"]
        if register == layout.SP:
            return self._given_value(producer, register, f"0x{layout.FRAME:x}")
        is_base = producer in BASES
        for _ in range(_ATTEMPTS):
            row = self.draw.rng.choice(self._rows[producer])
            token = memory_operand(row).base if is_base else _destination(row)
            odd = register % 2 if row.is_pair and not is_base else 0
            fits = token is not None and token.accepts(register - odd)
            if token is None or not fits or (row.is_pair and not is_base and register ^ 1 not in layout.POOL):
                continue
            pins = {token.field.name: register - odd}
            if row.op in ("csrrs", "csrrc") and self.draw.chance(0.5):
                # a CSR that is only read holds nobody up
                pins |= {operand.field.name: 0 for operand in row.tokens if operand.field.name in ("rs1", "zimm5")}
            with suppress(NoWayError):
                placed = self.place(row, pins, {register}, scratch=PRODUCER)
                ahead = [_load(register, placed.needs[token.field.name])] if is_base else []
                return [*placed.before, *ahead], [placed.text]
        raise NoWayError

    def _link_value(self, register: int, value: str) -> tuple[tuple[list[str], list[str]], list[str]]:
        """Return a jump whose link is the address of the word behind it, and lines for the end of the code."""
        over, out = self.draw.label("over"), self.draw.label("out")
        number = value[0].isdigit()
        behind = ".word 0x00000013" if number else f"jal zero, {out}"
        return ([], [f"jal {ABI_NAMES[register]}, {over}", behind, f"{over}:"]), [] if number else [f"{out}:"]

    def _given_value(self, producer: Producer, register: int, value: str) -> tuple[list[str], list[str]]:
        """Return code as :meth:`_any_value` does, for an instruction that writes a number or the address of a label."""
        if producer not in _WAYS:
            raise NoWayError
        texts = {"name": ABI_NAMES[register], "even": ABI_NAMES[register & ~1]}
        rows = [row for row in self._rows[producer] if row.accumulates and not row.reloads_other]
        if producer is Producer.REQUANTISE:
            names = [row.mnemonic for row in self._rows[producer]]
            suffix = next(suffix for suffix in _ZERO_LANES if any(name.endswith(suffix) for name in names))
            rows = [row for row in self._rows[producer] if row.mnemonic.endswith(suffix)]
            texts["lane"] = str(_ZERO_LANES[suffix])
        if "{row}" in _WAYS[producer]:
            row = self.draw.rng.choice(rows)
            entries = (RELOADS_WEIGHT, RELOADS_ACTIVATION) if row.is_nn_form else ("zero", "zero")
            texts |= {"row": row.mnemonic, "weight": entries[0], "activation": entries[1]}
        before, _, last = _WAYS[producer].format(**texts).partition("| ")
        return [_load(layout.COUNTER, value), *block_of("", before).head], [last]
