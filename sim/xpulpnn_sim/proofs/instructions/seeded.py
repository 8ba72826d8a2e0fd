"""Wrong statements: those of a row with one bit wrong in one case, which its proof must refute."""

import ast
import copy

from xpulpnn.isa.fields import FieldKind
from xpulpnn.isa.insn import Insn
from xpulpnn.isa.notation import definition

_RARE = 0x5A3C_96F0  # value of a source in the one case that is wrong; even, since it may be an address

_SOURCES = ("rs1", "rs2", "rd")


def seeded(insn: Insn) -> list[ast.stmt] | None:
    """The statements of a row, but the lowest bit of what the last one assigns is inverted if a source has one value.

    The source is the first register read; the address of a branch, and of an instruction that reads none. None if the
    row has no statements.
    """
    body = copy.deepcopy(definition(insn))
    assigned = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Assign)]
    if not assigned:
        return None
    read = {token.field.name for token in insn.tokens if token.field.kind is FieldKind.REGISTER} & insn.reads
    # a branch that is taken may leave its operands no other value
    source = next((name for name in _SOURCES if name in read and not insn.is_branch), "pc")
    last = assigned[-1]
    wrong = ast.Compare(ast.Name(source, ast.Load()), [ast.Eq()], [ast.Constant(_RARE)])
    last.value = ast.BinOp(last.value, ast.BitXor(), wrong)
    return body
