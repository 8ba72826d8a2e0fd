"""Instructions as Python closures over the state of a hart, so that a step costs a call and not a decode."""

from collections.abc import Callable

import numpy as np

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import HALF_BYTES, WORD_MASK
from xpulpnn_sim.golden import fields
from xpulpnn_sim.golden.effects import U32, Sources
from xpulpnn_sim.golden.quant import quantise
from xpulpnn_sim.iss import packed, scalar
from xpulpnn_sim.iss.fetched import CONDITIONS, Access, Fetched
from xpulpnn_sim.iss.memory import BusError, Memory, PostponedError
from xpulpnn_sim.iss.scalar import Value, immediate

Operation = Callable[[], int]
"""Executes one instruction and returns the address of the next, hardware loops aside."""

_MAKERS = scalar.MAKERS | packed.MAKERS

_SIGN_OF_LOAD = {"lb": 0x80, "lh": 0x8000}


class Translator:
    """Makes the operations of one hart.

    The last thing an operation does is a store, so that whoever watches memory sees the state after the instruction.
    """

    def __init__(self, regs: list[int], nn: list[int], memory: Memory, *, products: bool = True) -> None:
        self._regs, self._nn, self._memory, self._products = regs, nn, memory, products

    def operation(self, fetched: Fetched, pc: int) -> Operation | None:
        """The operation of an instruction at ``pc``; None if it concerns CSRs, traps, loops or sleep."""
        insn = fetched.insn
        following = (pc + fetched.length) & WORD_MASK
        if not self._products and "dot" in insn.op:
            return self._without_product(fetched, following)
        if insn.op in _MAKERS:
            return self._arithmetic(fetched, _MAKERS[insn.op](insn, fetched.word), following)
        if insn.is_load:
            return self._load(fetched, following)
        if insn.is_store:
            return self._store(fetched, following)
        if insn.is_branch:
            return self._branch(fetched, pc, following)
        if insn.is_mac_load:
            return self._mac_load(fetched, following)
        match insn.op:
            case "jal":
                return self._jump(fetched, (pc + immediate(fields.joff21, fetched.word)) & WORD_MASK, following)
            case "jalr":
                return self._jump_register(fetched, following)
            case "auipc":
                constant = (pc + immediate(fields.uimm20, fetched.word)) & WORD_MASK
                return self._arithmetic(fetched, lambda a, b, d: constant, following)
            case "fence" | "fence.i":
                return lambda: following
            case "pv.qnt":
                return self._quantise(fetched, following)
            case "pv.rqld":
                return self._load_parameter(fetched, following)
            case "pv.rqu" | "pv.rqs":
                value = packed.requantise(insn, fetched.word, self._nn)
                return self._arithmetic(fetched, value, following)
            case _:
                return None

    def _arithmetic(self, fetched: Fetched, value: Value, following: int) -> Operation:
        regs, rd, rs1, rs2 = self._regs, fetched.rd, fetched.rs1, fetched.rs2
        if not rd:
            return lambda: following

        def operate() -> int:
            regs[rd] = value(regs[rs1], regs[rs2], regs[rd])
            return following

        return operate

    def _branch(self, fetched: Fetched, pc: int, following: int) -> Operation:
        regs, rs1, rs2 = self._regs, fetched.rs1, fetched.rs2
        target = (pc + immediate(fields.boff13, fetched.word)) & WORD_MASK
        holds, constant = CONDITIONS[fetched.insn.op], fetched.branch_immediate
        if constant is not None:
            return lambda: target if holds(regs[rs1], constant) else following
        return lambda: target if holds(regs[rs1], regs[rs2]) else following

    def _jump(self, fetched: Fetched, target: int, following: int) -> Operation:
        regs, rd = self._regs, fetched.rd
        if not rd:
            return lambda: target

        def jump() -> int:
            regs[rd] = following
            return target

        return jump

    def _jump_register(self, fetched: Fetched, following: int) -> Operation:
        regs, rd, rs1, offset = self._regs, fetched.rd, fetched.rs1, immediate(fields.imm12, fetched.word)
        mask = WORD_MASK & ~1

        def jump() -> int:
            target = (regs[rs1] + offset) & mask
            if rd:
                regs[rd] = following
            return target

        return jump

    def _mover(self, fetched: Fetched, access: Access) -> Callable[[], int]:
        """The address of an access that updates its base, and the update; x0 stays."""
        regs, base, offset, register = self._regs, fetched.rs1, access.offset, access.offset_register

        def move() -> int:
            address = regs[base]
            if base:
                regs[base] = (address + (offset if register is None else regs[register])) & WORD_MASK
            return address

        return move

    def _load(self, fetched: Fetched, following: int) -> Operation:
        regs, rd, base, read, access = self._regs, fetched.rd, fetched.rs1, self._memory.read, fetched.access
        assert access is not None
        size, offset, register = access.size, access.offset, access.offset_register
        sign = _SIGN_OF_LOAD.get(fetched.insn.op, 0)
        if access.updates_base:
            move = self._mover(fetched, access)

            def load_and_move() -> int:
                # the loaded value stays if it goes to the base
                value = read(regs[base], size)
                move()
                if rd:
                    regs[rd] = ((value ^ sign) - sign) & WORD_MASK
                return following

            return load_and_move

        def load() -> int:
            address = regs[base] + (offset if register is None else regs[register])
            value = read(address & WORD_MASK, size)
            if rd:
                regs[rd] = ((value ^ sign) - sign) & WORD_MASK
            return following

        return load

    def _store(self, fetched: Fetched, following: int) -> Operation:
        regs, source, base, write, access = self._regs, fetched.rs2, fetched.rs1, self._memory.write, fetched.access
        assert access is not None
        size, offset, register = access.size, access.offset, access.offset_register
        if access.updates_base:
            move = self._mover(fetched, access)

            def store_and_move() -> int:
                value, old = regs[source], regs[base]
                try:
                    write(move(), size, value)
                except (BusError, PostponedError):
                    # the instruction has no effect, or will be executed again
                    regs[base] = old
                    raise
                return following

            return store_and_move

        def store() -> int:
            address = regs[base] + (offset if register is None else regs[register])
            write(address & WORD_MASK, size, regs[source])
            return following

        return store

    def _mac_load(self, fetched: Fetched, following: int) -> Operation:
        """The product uses the old entries; rd stays when it is the base."""
        insn, regs, nn, read = fetched.insn, self._regs, self._nn, self._memory.read
        assert insn.fmt is not None
        assert fetched.nn_weight is not None
        product = packed.sum_of_products(insn.fmt, a_signed=insn.a_signed, b_signed=insn.b_signed)
        factors, factor = (regs, fetched.rs2) if fetched.nn_activation is None else (nn, fetched.nn_activation)
        rd, base, weight, loaded = fetched.rd, fetched.rs1, fetched.nn_weight, fetched.nn_loaded
        move = None if fetched.access is None else self._mover(fetched, fetched.access)
        kept = WORD_MASK if insn.accumulates else 0

        def mac_load() -> int:
            total = ((regs[rd] & kept) + product(nn[weight], factors[factor])) & WORD_MASK
            if move is not None and loaded is not None:
                nn[loaded] = read(regs[base], 4)
                move()
            if rd:
                regs[rd] = total
            return following

        return mac_load

    def _load_parameter(self, fetched: Fetched, following: int) -> Operation:
        regs, nn, read, base, loaded, access = (
            *(self._regs, self._nn, self._memory.read),
            *(fetched.rs1, fetched.nn_loaded, fetched.access),
        )
        assert access is not None
        assert loaded is not None
        move = self._mover(fetched, access)

        def load() -> int:
            nn[loaded] = read(regs[base], access.size)
            move()
            return following

        return load

    def _without_product(self, fetched: Fetched, following: int) -> Operation:
        """A dot product that only moves its base, if it has one."""
        if fetched.access is None:
            return lambda: following
        move = self._mover(fetched, fetched.access)

        def move_on() -> int:
            move()
            return following

        return move_on

    def _quantise(self, fetched: Fetched, following: int) -> Operation:
        insn, memory = fetched.insn, self._memory

        def read_half(address: U32) -> U32:
            return _column(memory.read(int(address[0]), HALF_BYTES))

        regs, rd, rs1, rs2 = self._regs, fetched.rd, fetched.rs1, fetched.rs2

        def search() -> int:
            # also without a destination: the reads may fail
            codes = _quantised(insn, fetched.word, regs[rs1], regs[rs2], read_half)
            if rd:
                regs[rd] = codes
            return following

        return search


def _column(value: int) -> U32:
    return np.array([value], np.uint32)


def _quantised(insn: Insn, word: int, rs1: int, rs2: int, read_half: Callable[[U32], U32]) -> int:
    effects = quantise(insn, Sources(word=_column(word), rs1=_column(rs1), rs2=_column(rs2)), read_half)
    assert effects.rd is not None
    return int(effects.rd[0])


def counted(operation: Operation, pc: int, visits: dict[int, int]) -> Operation:
    """The operation, its executions counted."""

    def visit() -> int:
        visits[pc] = visits.get(pc, 0) + 1
        return operation()

    return visit


def followed(operation: Operation, pc: int, append: Callable[[int], None]) -> Operation:
    """The operation, each execution put down."""

    def follow() -> int:
        append(pc)
        return operation()

    return follow
