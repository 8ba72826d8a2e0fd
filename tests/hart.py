"""A hart without CSRs that executes single instructions by their statements, compressed ones included."""

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, BYTE_MASK, WORD_MASK
from xpulpnn.isa.semantics import LOOPS
from xpulpnn_sim.reference.iss import library
from xpulpnn_sim.reference.statements.cpp import CSR_PLACES

NOT_TAKEN = 1
UNCHANGED = 0xA5A5_A5A5
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_uint32, *(ctypes.c_void_p,) * 2, *(ctypes.c_uint32,) * 2)


@cache
def no_pages():
    return library.table()


@dataclass(slots=True, kw_only=True)
class Hart:
    regs: list[int]  # x0 to x31
    nn: list[int] = field(default_factory=list[int])  # NN-RF: activations, then weights
    pc: int = 0
    read: Callable[[int], int] = field(default=lambda address: 0)  # the byte at an address
    stored: dict[int, int] = field(default_factory=dict[int, int])  # stored bytes by address
    loops: dict[str, int] = field(default_factory=dict[str, int])  # written registers of hardware loops

    def execute(self, insn: Insn, word: int) -> None:
        """Execute an instruction word; hardware loops do not end."""
        self.pc = self.following(insn, insn.decode(word), (self.pc + insn.size) & WORD_MASK)

    def following(self, insn: Insn, fields: Mapping[str, int], otherwise: int) -> int:
        """Execute an instruction; returns the target of a taken branch or jump, else ``otherwise``."""
        library.library()
        pages = ctypes.addressof(no_pages())
        callbacks = library.Read(self._load), library.Write(self._store)
        memory = library.NativeMemory(pages, pages, pages, None, 0, *callbacks)
        hart = library.NativeHart(memory=ctypes.addressof(memory))
        hart.regs[: len(self.regs)], hart.nn[: len(self.nn)] = self.regs, self.nn
        loops = {f"{name}{loop}": CSR_PLACES[f"{name}{loop}"] for name in LOOPS for loop in (0, 1)}
        for place in loops.values():
            hart.csr[place] = UNCHANGED
        operation = library.Operation(operands=tuple(fields.values()), length=insn.size)
        pc = FUNCTION(library.function_of(insn))(
            ctypes.addressof(hart), ctypes.addressof(operation), self.pc, otherwise
        )
        self.regs[:], self.nn[:] = hart.regs[: len(self.regs)], hart.nn[: len(self.nn)]
        self.loops |= {name: hart.csr[place] for name, place in loops.items() if hart.csr[place] != UNCHANGED}
        return pc

    def _load(self, address: int, size: int, value: "ctypes._Pointer[ctypes.c_uint32]") -> int:
        value[0] = sum(self.read((address + byte) & WORD_MASK) << BYTE_BITS * byte for byte in range(size))
        return library.DONE

    def _store(self, address: int, size: int, value: int) -> int:
        for byte in range(size):
            self.stored[(address + byte) & WORD_MASK] = value >> BYTE_BITS * byte & BYTE_MASK
        return library.DONE


def result(insn: Insn, immediates: Mapping[str, int], rs1: int, rs2: int, rd: int) -> int:
    """The word that an instruction computes, or whether a branch is taken."""
    fields = {token.field.name: 0 for token in insn.tokens} | dict(immediates) | {"rs1": 1, "rs2": 2, "rd": 3}
    fields = {token.field.name: fields[token.field.name] for token in insn.tokens}
    hart = Hart(regs=[0, rs1, rs2, rd])
    following = hart.following(insn, fields, NOT_TAKEN)
    return int(following != NOT_TAKEN) if insn.is_branch else hart.regs[3]
