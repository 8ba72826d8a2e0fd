"""Instructions as Python closures over the state of a hart, so that a step costs a call and not a decode.

What they do comes from the statements of the instruction table, compiled by
:mod:`xpulpnn_sim.reference.statements.compiled`; nothing here knows an instruction.
"""

from collections.abc import Callable

from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sim.reference.iss.fetched import Fetched
from xpulpnn_sim.reference.iss.memory import BusError, Memory, PostponedError
from xpulpnn_sim.reference.statements.compiled import HartOperation, is_compiled, maker

_FAILURES = (BusError, PostponedError)  # a store that raises one of these has not happened, or will be executed again

_WRITTEN = ("rd", "rs1")  # Register fields that statements write


class Translator:
    """Makes the operations of one hart.

    The last thing an operation does is a store, so that whoever watches memory sees the state after the instruction.
    """

    def __init__(self, regs: list[int], nn: list[int], memory: Memory, *, products: bool = True) -> None:
        self._regs, self._nn, self._memory, self._products = regs, nn, memory, products

    def operation(self, fetched: Fetched, pc: int) -> HartOperation | None:
        """The operation of an instruction at ``pc``; None if it concerns CSRs, traps, loops or sleep."""
        insn, fields, memory = fetched.insn, fetched.operands, self._memory
        if not is_compiled(insn):
            return None
        zeros = frozenset(name for name in _WRITTEN if fields.get(name) == 0)
        make = maker(insn, zeros, fields.get("nnimm5"), _FAILURES, products=self._products)
        following = (pc + fetched.length) & WORD_MASK
        return make(self._regs, self._nn, memory.read, memory.write, pc, fetched.length, following, **fields)


def counted(operation: HartOperation, pc: int, visits: dict[int, int]) -> HartOperation:
    """The operation, its executions counted."""

    def visit() -> int:
        visits[pc] = visits.get(pc, 0) + 1
        return operation()

    return visit


def followed(operation: HartOperation, pc: int, append: Callable[[int], None]) -> HartOperation:
    """The operation, each execution put down."""

    def follow() -> int:
        append(pc)
        return operation()

    return follow
