"""Any instruction of the table as a few lines that may stand anywhere in a random program, whatever it does."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from xpulpnn.isa.compressed import EXPANSIONS
from xpulpnn.isa.csr import CSR_BY_NAME
from xpulpnn.isa.fields import FieldKind, Token
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sim.cosimulation.model.statics import register
from xpulpnn_sim.verification.coverage.kinds import MEMORY, CrossKind, cross_kind_of
from xpulpnn_sim.verification.random import layout
from xpulpnn_sim.verification.random.draw import Draw, Group, written_fields
from xpulpnn_sim.verification.random.memory_run import memory_operand
from xpulpnn_sw.assembly.disasm import ABI_NAMES, render

_SAFE = layout.WINDOW + 0x80  # Behind the words that fail
_SPAN = 0x40
_NEAR = 16
_BOTH = 0b11000
_LOADS = (0b01000, 0b10000)
_MPIE = 128
_SP_AGAIN = f"li {ABI_NAMES[layout.SP]}, 0x{layout.FRAME:x}"
_FEW_TURNS = {"rs1": "4"}
CONSUMER, PRODUCER = (layout.SCRATCH, layout.SHORT_COUNTER), (layout.COUNTER, layout.LINK)
"""Registers for addresses of what is placed, one in reach of few and one of compressed instructions, and of what comes
before it.
"""


@dataclass(slots=True)
class Placed:
    """An instruction with what it needs."""

    before: list[str]  # lines some time before it
    text: str
    after: list[str] = field(default_factory=list[str])  # lines directly behind it
    values: dict[str, int] = field(default_factory=dict[str, int])
    # what operands must hold whose registers the caller has chosen, numbers or labels; of one that is implied under ""
    needs: dict[str, str] = field(default_factory=dict[str, str])

    def behind(self, lines: Sequence[str] = ()) -> list[str]:
        """All lines, with others right before the instruction."""
        return [*self.before, *lines, self.text, *self.after]

    def registers(self, row: Insn) -> set[int]:
        """Registers of the instruction, one of ``row``."""
        return {self.values[token.field.name] for token in row.tokens if token.field.kind is FieldKind.REGISTER}


def token_of(row: Insn, slot: str) -> Token | None:
    """The operand that stands in the register field ``slot`` of the (expanded) instruction; None: it is implied."""
    tokens = [token for token in row.tokens if token.field.kind is FieldKind.REGISTER]
    if row.size == WORD_BYTES:
        return next((token for token in tokens if token.field.name in (slot, "rs3" if slot == "rd" else slot)), None)
    expansion = EXPANSIONS[row.mnemonic]
    for token in tokens:
        values = {one.field.name: one.field.high for one in row.tokens}
        marks: list[bool] = []
        for mark in (8, 9):
            values |= {one.field.name: 10 for one in tokens} | {token.field.name: mark}
            marks.append(register(expansion.word(values), slot) == mark)
        if all(marks):
            return token
    return None


class Placer:
    """Writes single instructions."""

    def __init__(self, draw: Draw, *, interrupts: bool) -> None:
        self.draw, self.interrupts = draw, interrupts

    def place(
        self,
        row: Insn,
        pins: Mapping[str, int] | None = None,
        keep: Collection[int] = (),
        *,
        scratch: tuple[int, int] = CONSUMER,
        fails: bool = False,
        crosses_word: bool = False,
    ) -> Placed | None:
        """An instruction of ``row``; None if there is no way."""
        pins, kind = dict(pins or {}), cross_kind_of(row)
        if kind in MEMORY:
            return self._access(row, pins, keep, scratch, fails=fails, crosses_word=crosses_word)
        if kind is CrossKind.BRANCH:
            return self._target(row, pins, keep, [self.filler(keep)])
        if kind is CrossKind.JUMP:
            return self._jump(row, pins, keep, scratch[0])
        if kind is CrossKind.LOOP:
            return self._loop(row, pins, keep)
        if kind is CrossKind.SYSTEM:
            return self._system(row)
        if kind is CrossKind.QUANTISE:
            return None
        if kind is CrossKind.CSR:
            pins.setdefault("csr", CSR_BY_NAME["mscratch"].address)
        return self._plain(row, pins, keep)

    def filler(self, keep: Collection[int] = ()) -> str:
        """An instruction of a cycle that writes none of ``keep``."""
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
        """Loops that end at once: no other count is left behind."""
        draw, number = self.draw, pins.setdefault("L", self.draw.rng.randrange(2))
        off = f"lp.counti {number}, 0"
        counts = [token.field.name for token in row.tokens if token.field.name == "lpcnt12"]
        pins |= {name: draw.rng.randrange(1, 4) for name in counts if name not in pins}
        before: list[str] = []
        if "rs1" in {token.field.name for token in row.tokens} and "rs1" not in pins:
            pins["rs1"] = draw.rng.choice([one for one in layout.POOL if one not in keep])
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

    def _system(self, row: Insn) -> Placed | None:
        scratch = ABI_NAMES[layout.SCRATCH]
        if row.op == "wfi":
            if not self.interrupts:
                return None
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
    ) -> Placed | None:
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
                return Placed([f"li {ABI_NAMES[layout.SP]}, {value}"], self._plain(row, pins, keep).text, [_SP_AGAIN])
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
        """A small immediate, or x0 as a register."""
        if token.field.kind is FieldKind.REGISTER:
            return 0
        near = range(max(token.field.low, -_NEAR), min(token.field.high, _NEAR) + 1)
        return self.draw.rng.choice([value for value in near if token.accepts(value)])


def placed_destination(row: Insn) -> Token | None:
    """The operand that names the register of the result."""
    bases = {operand.base.field.name for operand in row.forms if operand.increment and operand.base}
    names = [name for name in written_fields(row) if name not in bases]
    return next((token for token in row.tokens if token.field.name in names), None)
