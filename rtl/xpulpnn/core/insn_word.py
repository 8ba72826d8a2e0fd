"""Fields of the instruction word in ID."""

from amaranth.hdl import Cat, Const, Value
from amaranth.lib import data

from xpulpnn.isa.fields import WORD_FIELDS


class InsnWord(data.Struct):
    opcode: 7
    rd: 5
    funct3: 3
    rs1: 5
    rs2: 5
    funct7: 7


class NnSelector(data.Struct):
    """Operand ``nnimm5`` of the nn form of Mac&Load."""

    activation: 1  #: Activation entry that is multiplied.
    weight: 2  #: Weight entry that is multiplied.
    reloads_activation: 1  #: The loaded word goes to the activation entry; with ``reloads_weight`` to the other one.
    reloads_weight: 1  #: The loaded word goes to the weight entry.


def operand(word: Value, token: str) -> Value:
    """Return the value of an operand field by its token in the instruction table; bits not in the word are 0."""
    bits: list[Value] = []
    top = 0
    for low, position, width in sorted(WORD_FIELDS[token].parts, key=lambda part: part[1]):
        if position > top:
            bits.append(Const(0, position - top))
        bits.append(word[low : low + width])
        top = position + width
    return Cat(bits)
