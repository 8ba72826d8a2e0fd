"""An instruction of compiled assembly with the registers, memory accesses and control flow that the loop pass needs.

Standard mnemonics, their pseudo-instructions and the ``.insn`` lines of the intrinsics are all found in the instruction
table. An instruction that is not recognised is ``UNKNOWN``, and its function stays as the compiler wrote it.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial

from xpulpnn.errors import EncodingError
from xpulpnn.isa.fields import FUNCT3, FUNCT7, OPCODE, WORD_FIELDS, FieldKind, Token
from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.machine import INCREMENT, RELOADS_ACTIVATION, RELOADS_WEIGHT, WORD_BYTES
from xpulpnn.isa.table import INSNS, Decoder, find
from xpulpnn_sw.assembly.asm import MEMORY, expand, operand_texts, select, statement_parts, token_value
from xpulpnn_sw.assembly.disasm import insn_directive, is_register, register_number, render
from xpulpnn_sw.assembly.expressions import evaluate

RA, SP, GP, TP = 1, 2, 3, 4
A0, A1, A7 = 10, 11, 17
CALLEE_SAVED = frozenset({8, 9, *range(18, 28)})  # registers that a function preserves
ARGUMENT_REGISTERS = frozenset(range(A0, A7 + 1))
ALL = frozenset(range(1, 32))

RETURN_LIVE = CALLEE_SAVED | {RA, SP, GP, TP, A0, A1}  # registers that may be read after a return
_CALL_READS = ARGUMENT_REGISTERS | {SP, GP, TP}
LONGEST = 8  # bytes of the longest expansion of a pseudo-instruction
_LABEL = re.compile(r"[A-Za-z_.$][\w.$]+|[A-Za-z_]")
_LOOP_CSRS = frozenset(range(0x7C0, 0x7C7))
_RELOADS = RELOADS_ACTIVATION | RELOADS_WEIGHT
_LOADING = frozenset({InsnClass.LOAD, InsnClass.MAC_LOAD, InsnClass.PARAMETER, InsnClass.QUANTISE})
_ALL_ROWS = Decoder(insn for insn in INSNS if insn.size == WORD_BYTES)
_RD, _RS1, _RS2 = (WORD_FIELDS[name] for name in ("rd", "rs1", "rs2"))
# operands of `.insn` by format and count, a base before its offset; one operand more is the target
_DIRECTIVES = {
    ("r", 6): (OPCODE, FUNCT3, FUNCT7, _RD, _RS1, _RS2),
    ("i", 5): (OPCODE, FUNCT3, _RD, _RS1, WORD_FIELDS["imm12"]),
    ("s", 5): (OPCODE, FUNCT3, _RS2, _RS1, WORD_FIELDS["stimm12"]),
    ("sb", 5): (OPCODE, FUNCT3, _RS1, _RS2),
}
_WITH_IMMEDIATE = frozenset({"addi", "andi", "ori", "xori", "slli", "srli", "srai", "slti", "sltiu"})


class FlowKind(Enum):
    PLAIN = "plain"
    BRANCH = "branch"
    JUMP = "jump"
    INDIRECT = "indirect jump"
    LEAVE = "return"
    CALL = "call"
    SYSTEM = "system instruction"
    LOOP = "hardware loop"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOperation:
    text: str  # assembly text without label and comment
    kind: FlowKind = FlowKind.PLAIN  # effect on the flow of control
    insn: Insn | None = None  # table row; None for pseudo-instructions of several words and unknown instructions
    values: dict[str, int]  # operand fields of the row, without immediates that the linker fills in
    reads: frozenset[int] = frozenset()  # registers read, without x0
    writes: frozenset[int] = frozenset()  # registers written, without x0
    target: str = ""  # label of a branch or jump
    size: int = WORD_BYTES  # most bytes
    origin: int = -1  # line of the file; -1 for an instruction that the pass added or moved
    comment: str = ""  # comment of the compiler

    @property
    def may_shrink(self) -> bool:
        """True if a linker may shorten the instruction because it contains part of an address."""
        return "%" in self.text or (self.insn is None and "li" not in self.values)

    @property
    def is_load(self) -> bool:
        return self.insn is not None and self.insn.insn_class in _LOADING

    @property
    def is_store(self) -> bool:
        return self.insn is not None and self.insn.is_store

    @property
    def is_fixed(self) -> bool:
        """True if the instruction must not be moved: it affects more than registers and memory, or ends the block."""
        if self.kind is not FlowKind.PLAIN:
            return True
        return self.insn is not None and (self.insn.uses_nnrf or self.insn.op == "elw")

    @property
    def name(self) -> str:
        return "" if self.insn is None else self.insn.mnemonic

    def step(self, register: int) -> int | None:
        insn, values = self.insn, self.values
        if insn is None or register not in self.writes:
            return None
        if insn.mnemonic == "addi" and values["rd"] == values["rs1"] == register:
            return values.get("imm12")
        if not insn.writes_base or values["rs1"] != register:
            return None
        if insn.is_mac_load or insn.loads_parameter:
            return INCREMENT if register not in _results(insn, values) else None
        if insn.is_load:
            return values.get("imm12") if values["rd"] != register else None
        return values.get("stimm12")

    def constant(self, register: int) -> int | None:
        if register not in self.writes:
            return None
        if self.insn is None:
            return self.values.get("li")
        if self.insn.mnemonic == "addi" and self.values["rs1"] == 0:
            return self.values.get("imm12")
        return None


def _number(text: str) -> int | None:
    """Return the value of a constant expression; None if it depends on an address, which only the linker knows."""
    is_address = not text.strip() or "pc" in text or text.startswith("%")
    with suppress(EncodingError):
        return None if is_address else evaluate(text, {}, 0)


def _value(token: Token, text: str) -> int | None:
    kind = token.field.kind
    if kind in (FieldKind.TARGET, FieldKind.FENCE):
        return None
    if kind is FieldKind.IMMEDIATE or text[:1].isdigit():
        return _number(text)
    with suppress(EncodingError):
        return token_value(token, text, {}, 0)


def _results(insn: Insn, values: dict[str, int]) -> set[int]:
    if not insn.writes_rd:
        return set()
    return {values["rd"], values["rd"] + 1} if insn.is_pair and values["rd"] else {values["rd"]}


def _registers(insn: Insn, values: dict[str, int]) -> tuple[frozenset[int], frozenset[int]]:
    fields = {"rd": "rd" if "rd" in values else "rs3", "rs1": "rs1", "rs2": "rs2"}
    writes = _results(insn, values)
    reads = {values[fields[key]] for key in insn.reads} | (writes if insn.is_pair and insn.accumulates else set[int]())
    keeps_base = insn.is_nn_form and not values.get("nnimm5", _RELOADS) & _RELOADS
    if insn.writes_base and not keeps_base:
        writes.add(values["rs1"])
    return frozenset(reads - {0}), frozenset(writes - {0})


def _flow_of(insn: Insn, values: dict[str, int], target: str) -> FlowKind:
    match insn.insn_class:
        case InsnClass.LOOP:
            return FlowKind.LOOP
        case InsnClass.BRANCH:
            return FlowKind.BRANCH
        case InsnClass.JUMP if values["rd"] != 0 or (insn.op == "jal" and not target):
            return FlowKind.CALL
        case InsnClass.JUMP if insn.op == "jal":
            return FlowKind.JUMP
        case InsnClass.JUMP:
            return FlowKind.LEAVE if values["rs1"] == RA else FlowKind.INDIRECT
        case InsnClass.CSR:
            # a CSR whose number is not known may be one of the loop registers
            return FlowKind.LOOP if values.get("csr", min(_LOOP_CSRS)) in _LOOP_CSRS else FlowKind.SYSTEM
        case InsnClass.SYSTEM:
            return FlowKind.LEAVE if insn.op == "mret" else FlowKind.SYSTEM
        case _:
            return FlowKind.PLAIN


def _row(text: str, insn: Insn, values: dict[str, int], target: str, origin: int) -> ListedOperation:
    kind = _flow_of(insn, values, target)
    reads, writes = _registers(insn, values)
    if kind is FlowKind.CALL:
        reads, writes = reads | _CALL_READS, writes | {RA}
    elif kind is FlowKind.LEAVE:
        reads = ALL if insn.mnemonic == "mret" else reads | RETURN_LIVE
    elif kind in (FlowKind.INDIRECT, FlowKind.SYSTEM, FlowKind.LOOP):
        reads = ALL
    return ListedOperation(
        text=text,
        kind=kind,
        insn=insn,
        values=values,
        reads=reads,
        writes=writes,
        target=target,
        # a branch that does not reach its target becomes two instructions
        size=LONGEST if kind is FlowKind.BRANCH else insn.size,
        origin=origin,
    )


def unknown(text: str, origin: int) -> ListedOperation:
    return ListedOperation(text=text, kind=FlowKind.UNKNOWN, values={}, reads=ALL, size=LONGEST, origin=origin)


def _directive(text: str, origin: int) -> ListedOperation:
    head, operands = statement_parts(text.removeprefix(".insn"))
    plain: list[str] = []
    for operand in operands:
        memory = MEMORY.fullmatch(operand)
        plain += [memory["base"], memory["offset"].strip() or "0"] if memory else [operand]
    fields = _DIRECTIVES.get((head, len(plain)), ())
    target = plain[-1] if head == "sb" else ""
    word = 0
    for field, part in zip(fields, plain, strict=False):
        is_named = is_register(part)
        value = register_number(part) if is_named else _number(part)
        if value is None or is_named != (field.kind is FieldKind.REGISTER):
            return unknown(text, origin)
        word |= field.insert(value)
    insn = _ALL_ROWS.decode(word) if fields else None
    if insn is None or (target and not _LABEL.fullmatch(target)):
        return unknown(text, origin)
    return _row(text, insn, insn.decode(word), target, origin)


def _special(name: str, operands: tuple[str, ...], text: str, origin: int) -> ListedOperation | None:
    made = partial(ListedOperation, text=text, size=LONGEST, origin=origin)
    match name, operands:
        case "li" | "la" | "lla", (rd, value) if is_register(rd):
            constant = _number(value) if name == "li" else None
            values = {} if constant is None else {"li": constant}
            return made(values=values, writes=frozenset({register_number(rd)} - {0}))
        case "call", (_,):
            return made(kind=FlowKind.CALL, values={}, reads=_CALL_READS, writes=frozenset({RA}))
        case "tail", (_,):
            return made(kind=FlowKind.LEAVE, values={}, reads=ALL)
        case "call", (link, _) if is_register(link):
            # helpers that save registers have another calling convention
            return made(kind=FlowKind.CALL, values={}, reads=ALL, writes=ALL)
        case _:
            return None


def parse_operation(text: str, origin: int = -1) -> ListedOperation:
    """Return the operation for a line without label and comment; if it is not recognised, return :func:`unknown`."""
    mnemonic, operands = statement_parts(text)
    if mnemonic == ".insn":
        return _directive(" ".join(text.split()), origin)
    special = _special(mnemonic, operands, text, origin)
    if special is not None:
        return special
    if f"{mnemonic}i" in _WITH_IMMEDIATE and len(operands) == 3 and not is_register(operands[2]):
        # the GNU assembler accepts an immediate in place of the last register
        mnemonic = f"{mnemonic}i"
    with suppress(EncodingError):
        expanded = list(expand(mnemonic, operands, {}, 0))
        if len(expanded) == 1:
            return _matched(text, *expanded[0], origin)
    return unknown(text, origin)


def _matched(text: str, mnemonic: str, operands: tuple[str, ...], origin: int) -> ListedOperation:
    insn = select(mnemonic, operands)
    is_bare = any(form.is_memory and not MEMORY.fullmatch(own) for form, own in zip(insn.forms, operands, strict=True))
    if insn.size != WORD_BYTES or is_bare or (insn.insn_class is InsnClass.LOOP and is_register(operands[0])):
        # other spellings are the programmer's, whose functions stay unchanged
        return unknown(text, origin)
    written = list(operand_texts(insn, operands))
    values = {token.field.name: value for token, part in written if (value := _value(token, part)) is not None}
    target = next((part for token, part in written if token.field.kind is FieldKind.TARGET), "")
    if (target and not _LABEL.fullmatch(target)) or (insn.mnemonic == "auipc" and "uimm20" in values):
        # a distance instead of a label: nothing around it may change its size
        return unknown(text, origin)
    return _row(text, insn, values, target, origin)


def make(mnemonic: str, operands: str | None = None, *, origin: int = -1, **values: int) -> ListedOperation:
    """Return the operation with this mnemonic and fields; raise :class:`EncodingError` for values that do not fit."""
    insn = find(mnemonic, operands)
    word = insn.encode(**values)
    standard = insn.extension.value in ("RV32I", "RV32M")
    text = render(insn, word) if standard else f"{insn_directive(word)}  # {render(insn, word)}"
    return _row(text, insn, insn.decode(word), "", origin)
