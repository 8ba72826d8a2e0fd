"""Producers and operands of instructions, and the properties of instruction words that the coverage model needs."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.config import CoreConfig
from xpulpnn.isa.csr import CSRS
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.insn import Insn, InsnClass
from xpulpnn.isa.machine import FIRST_PARAMETER, instruction_size
from xpulpnn.isa.table import Decoder, enabled
from xpulpnn_sim.reference.iss.core import ALL_WIDTHS
from xpulpnn_sim.reference.iss.fetched import decoding

_TEXTS = {
    "ALU": "ALU",
    "BASE": "post-increment",
    "CSR": "CSR",
    "MAC_LOAD": "Mac&Load",
    "MAC_LOAD_BASE": "base of a Mac&Load",
    "PARAMETER": "pv.rqld",
    "PAIR": "two products",
}


class Producer(IntEnum):
    ALU = 0
    MULTIPLY = 1
    MULTIPLY_HIGH = 2
    DIVISION = 3
    LOAD = 4
    BASE = 5
    LINK = 6
    CSR = 7
    MAC_LOAD = 8
    MAC_LOAD_BASE = 9
    REQUANTISE = 10
    QUANTISE = 11
    PAIR = 12


BASES = frozenset({Producer.BASE, Producer.MAC_LOAD_BASE})  # increments of base registers
NOTHING = -1  # in place of a number: there is none
MEMORY = frozenset({InsnClass.LOAD, InsnClass.STORE, InsnClass.MAC_LOAD, InsnClass.PARAMETER})
_PRODUCER_OF = {each: Producer[each.name] for each in InsnClass if each.name in Producer.__members__}
_PRODUCER_OF[InsnClass.JUMP] = Producer.LINK


def text_of(member: InsnClass | Producer) -> str:
    return _TEXTS.get(member.name, member.name.lower().replace("_", " "))


def producers_of(row: Insn) -> tuple[Producer, ...]:
    if row.is_pair:
        # port A writes both sums late, as loaded values; the base is early
        return (Producer.PAIR, Producer.BASE) if row.writes_base else (Producer.PAIR,)
    producers: list[Producer] = []
    if row.insn_class in _PRODUCER_OF and (row.writes_rd or row.is_jump):
        producers.append(_PRODUCER_OF[row.insn_class])
    if row.writes_base:
        producers.append(Producer.MAC_LOAD_BASE if row.is_mac_load else Producer.BASE)
    return tuple(producers)


@dataclass(frozen=True, slots=True)
class RegisterReads:
    """Operands that an instruction reads; for a compressed instruction, those of its expansion."""

    slots: tuple[str, ...]  # register operands out of `rs1`, `rs2` and `rd`, those of x0 left out
    entries: tuple[str, ...]  # entries of the NN-RF


def _sample(row: Insn) -> int:
    """Return an encoded word of an instruction, with the highest legal value of each operand."""
    word = row.match
    for token in row.tokens:
        high, step = token.field.high, token.field.step
        word |= token.encode(next(value for value in range(high, high - 64 * step, -step) if token.accepts(value)))
    return word


def reserved_words(row: Insn, decoder: Decoder) -> list[int]:
    """Return words that would be an instruction if the value of one operand were not excluded."""
    words: list[int] = []
    for token in row.restricted:
        others = [value for value in range(token.field.high + 1) if not token.field.accepts(value)]
        excluded = [token.field.not_both if token.excluded is None else token.excluded]
        rest = _sample(row) & ~token.field.insert(-1)
        words += [rest | token.field.insert(value) for value in (others if token.field.only else excluded)]
    return [word for word in words if decoder.decode(word) is None]


SLOTS = ("rs1", "rs2", "rd")
ENTRIES = ("activation", "weight", "kappa", "lambda", "second activation")


def reads_of(row: Insn) -> RegisterReads:
    """Return the operands that an instruction reads, without those that are always x0."""
    fetched = decoding(frozenset(Extension), ALL_WIDTHS)(_sample(row))
    assert fetched is not None
    reads = fetched.insn.reads | fetched.reads
    slots = tuple(slot for slot in SLOTS if slot in reads and getattr(fetched, slot))
    if row.is_pair:
        return RegisterReads(slots, (*ENTRIES[:2], ENTRIES[-1]))
    entries = ENTRIES[:2] if row.is_nn_form else ENTRIES[1:2] if row.is_mac_load else ()
    return RegisterReads(slots, ENTRIES[2:4] if row.requantises else entries)


_NUMBERS = ("row", "kind", "reserved", "csr", "producer", "base_producer", "activation", "weight", "second_activation")
_OTHERS, _FLAGS = ("size", *SLOTS, "offset"), ("parameters", "writes_csr", "branch", "elsewhere")
_DETAILS = np.dtype([*((name, np.int16) for name in (*_NUMBERS, *_OTHERS)), *((name, np.bool_) for name in _FLAGS)])
"""Properties of an instruction word: numbers of its instruction, CSR and class in their tables, and of the
instruction that it would be but for a reserved operand; size in bytes; registers (0: none) and entries of the NN-RF
that it reads; producers of what it writes; branch offset; whether it writes the CSR, branches or goes elsewhere."""

_DEFAULTS = dict.fromkeys(_NUMBERS, NOTHING) | dict.fromkeys((*_OTHERS, *_FLAGS), 0)


class Words:
    def __init__(self, config: CoreConfig) -> None:
        self.rows = enabled(config.extensions, config.widths)
        self._numbers = {row.key: number for number, row in enumerate(self.rows)}
        self._decoder = Decoder(self.rows)
        self._decode = decoding(config.extensions, config.widths)
        csrs = [csr for csr in CSRS if csr.group in config.csr_groups]
        self._csrs = {csr.address: number for number, csr in enumerate(csrs)}
        self._known: dict[int, tuple[int, ...]] = {}

    def properties_of(self, words: NDArray[np.uint32]) -> NDArray[Any]:
        """Return the properties of each word; the instruction number of illegal words is :data:`NOTHING`."""
        distinct, which = np.unique(words, return_inverse=True)
        for word in distinct.tolist():
            if word not in self._known:
                values = _DEFAULTS | self._properties(word)
                self._known[word] = tuple(values.values())
        return np.array([self._known[word] for word in distinct.tolist()], _DETAILS)[which]

    def _properties(self, word: int) -> dict[str, int]:
        row, fetched, size = self._decoder.decode(word), self._decode(word), instruction_size(word)
        if row is None or fetched is None:
            rows = (row for row in self.rows if row.restricted and row.size == size and word & row.mask == row.match)
            return {"size": size, "reserved": next((self._numbers[row.key] for row in rows), NOTHING)}
        values, registers = row.decode(word), {"rs1": fetched.rs1, "rs2": fetched.read_as_rs2, "rd": fetched.rd}
        properties = {
            "row": self._numbers[row.key],
            "kind": row.insn_class,
            "size": size,
            "parameters": row.requantises,
            "branch": row.is_branch,
            "elsewhere": row.is_jump or row.op == "mret",
            "offset": values.get("boff13", values.get("cb9", 0)),
            **{slot: register for slot, register in registers.items() if slot in fetched.reads},
            **{("base_" if producer in BASES else "") + "producer": producer for producer in producers_of(row)},
        }
        if row.extension is Extension.ZICSR:
            properties["csr"] = self._csrs.get(values["csr"], NOTHING)
            properties["writes_csr"] = row.op == "csrrw" or bool(values.get("rs1", values.get("zimm5")))
        if fetched.nn_activation is not None:
            properties["activation"] = fetched.nn_activation
            properties |= {"second_activation": fetched.nn_activation + 1} if row.is_pair else {}
        if fetched.nn_weight is not None:
            properties["weight"] = fetched.nn_weight
        return properties


PARAMETERS = (FIRST_PARAMETER, FIRST_PARAMETER + 1)  # entries of kappa and lambda
