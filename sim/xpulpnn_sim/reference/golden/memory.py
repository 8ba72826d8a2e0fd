"""Loads and stores in all addressing forms (guide, "RV32I" and "Loads and stores of XpulpV2")."""

from collections.abc import Callable

import numpy as np

from xpulpnn.isa.insn import Insn
from xpulpnn_sim.reference.golden import fields
from xpulpnn_sim.reference.golden.effects import U32, Effects, Sources

OFFSETS: dict[str, Callable[[Sources], U32]] = {
    "imm12": lambda src: fields.imm12(src.word),
    "stimm12": lambda src: fields.stimm12(src.word),
    "rs2": lambda src: src.rs2,
    "rs3": lambda src: src.rd,
}
"""Offset of an access by its operand token; rs3 is the register in the rd field."""

LOADS: dict[str, tuple[int, Callable[[U32], U32]]] = {
    "lb": (1, lambda word: fields.sign_extend(word, 8)),
    "lbu": (1, lambda word: word & np.uint32(0xFF)),
    "lh": (2, lambda word: fields.sign_extend(word, 16)),
    "lhu": (2, lambda word: word & np.uint32(0xFFFF)),
    "lw": (4, lambda word: word),
    "elw": (4, lambda word: word),
}
"""Bytes and extension of each load."""

STORES: dict[str, tuple[int, int]] = {"sb": (1, 0xFF), "sh": (2, 0xFFFF), "sw": (4, 0xFFFF_FFFF)}
"""Bytes and data mask of each store."""


def _access(insn: Insn, src: Sources, size: int) -> Effects:
    """Address and base update: the post-increment forms access the old base."""
    offset_token = insn.operands.split("(")[0].rsplit(",", maxsplit=1)[-1]
    moved = src.rs1 + OFFSETS[offset_token](src)
    always = np.ones(len(src.word), np.bool_)
    if "!" in insn.operands:
        return Effects(base=moved, base_written=always, address=src.rs1, accessed=always, size=size)
    return Effects(address=moved, accessed=always, size=size)


def load(insn: Insn, src: Sources) -> Effects:
    """``rd`` = the memory at the address, extended."""
    size, extend = LOADS[insn.op]
    effects = _access(insn, src, size)
    effects.rd = extend(src.loaded)
    return effects


def store(insn: Insn, src: Sources) -> Effects:
    """Memory at the address = the low bytes of rs2."""
    size, mask = STORES[insn.op]
    effects = _access(insn, src, size)
    effects.store = src.rs2 & np.uint32(mask)
    return effects
