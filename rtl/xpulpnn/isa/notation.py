"""Reading of the statements of :mod:`xpulpnn.isa.semantics` (guide, "Notation of the operations")."""

import ast

from xpulpnn.errors import InputError
from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import XLEN
from xpulpnn.isa.semantics import statements

MEMORY = {"mem8": 8, "mem16": 16, "mem32": 32}  # Bits of an access, by the name of memory in it.

LOOPS = ("lpstart", "lpend", "lpcount")  # Registers of hardware loops, each by the number of the loop.


def definition(insn: Insn) -> list[ast.stmt]:
    """The statements of a row."""
    return ast.parse("\n".join(statements(insn))).body


def is_lane(insn: Insn, name: str) -> bool:
    """Return whether ``name[i]`` is an element of a vector in a row, and not a bit."""
    immediates = {token.field.name for token in insn.tokens if token.field.kind is not FieldKind.REGISTER}
    return insn.fmt is not None and name not in immediates


def lane_width(insn: Insn) -> int:
    """Bits of an element of the vectors of a row."""
    assert insn.fmt is not None
    return insn.fmt.width


def width_read(insn: Insn, node: ast.expr) -> int:
    """Bits of what ``s()`` reads in a row; raises :class:`InputError` if nobody says."""
    match node:
        case ast.Subscript(value=ast.Name(id=name)) if name in MEMORY:
            return MEMORY[name]
        case ast.Subscript(value=ast.Name(id=name)) if is_lane(insn, name):
            return lane_width(insn)
        case ast.Name():
            return XLEN
        case _:
            raise beyond_notation(node)


def beyond_notation(node: ast.AST) -> InputError:
    """The error for what the notation does not have."""
    return InputError(f"statement must be in the notation, not {ast.unparse(node)}")
