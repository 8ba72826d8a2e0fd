"""A hart without CSRs that executes single instructions by their statements."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xpulpnn.isa.insn import Insn
from xpulpnn.isa.machine import BYTE_BITS, BYTE_MASK, WORD_MASK
from xpulpnn_sim.reference.statements.compiled import NOT_TAKEN, WRITTEN, maker


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
        zeros = frozenset(name for name in WRITTEN if fields.get(name) == 0)
        make = maker(insn, zeros, fields.get("nnimm5"), (), products=True)
        return make(self.regs, self.nn, self._load, self._store, self, self.pc, insn.size, otherwise, **fields)()

    def _load(self, address: int, size: int) -> int:
        return sum(self.read((address + byte) & WORD_MASK) << BYTE_BITS * byte for byte in range(size))

    def _store(self, address: int, size: int, value: int) -> None:
        for byte in range(size):
            self.stored[(address + byte) & WORD_MASK] = value >> BYTE_BITS * byte & BYTE_MASK

    def next_pc(self, pc: int, following: int) -> int:
        return following

    def __setitem__(self, name: str, value: int) -> None:
        self.loops[name] = value


def result(insn: Insn, immediates: Mapping[str, int], rs1: int, rs2: int, rd: int) -> int:
    """The word that an instruction computes, or whether a branch is taken."""
    fields = {token.field.name: 0 for token in insn.tokens} | dict(immediates) | {"rs1": 1, "rs2": 2, "rd": 3}
    fields = {token.field.name: fields[token.field.name] for token in insn.tokens}
    hart = Hart(regs=[0, rs1, rs2, rd])
    following = hart.following(insn, fields, NOT_TAKEN)
    return int(following != NOT_TAKEN) if insn.is_branch else hart.regs[3]
