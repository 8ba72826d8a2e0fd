"""The static text of a kernel, with what the harness has to know about its instructions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.insn import Insn
from xpulpnn_sw.kernels.variants import WORD_BITS

Bools = NDArray[np.bool_]

REGIONS = ("call", "setup", "im2col", "matmul", "body", "quant")
"""Parts of a program: registers for the call; begin and end of the function, and its pixel loop; patch copy;
accumulators and products, or in kernels that are no MatMul what they do for each element; requantisation and stores."""


@dataclass(frozen=True, eq=False)
class Program:
    """Instructions at consecutive addresses."""

    words: NDArray[np.uint32]  # instruction words, all 32 bits long
    pcs: NDArray[np.uint32]  # their addresses, consecutive
    insns: tuple[Insn, ...]  # their rows in the instruction table
    # the part of the kernel each belongs to, out of REGIONS; in a whole network its layers by their names
    regions: tuple[str, ...]
    hwloop_end: Bools  # set for the last instruction of a hardware-loop body
    inner: Bools  # set for the instructions of the innermost MatMul loop

    def __len__(self) -> int:
        return len(self.insns)

    def region(self, name: str) -> Bools:
        """Mark the static instructions of the part ``name``."""
        return np.array([region == name for region in self.regions], dtype=np.bool_)

    @cached_property
    def is_dotp(self) -> Bools:
        """Mark the static instructions that multiply and accumulate whole words: sum-of-dot-product and Mac&Load.

        The loads of NN-RF entries (rd = x0), which multiply too but keep nothing, are not counted. Words of single
        bits are multiplied where those that differ are counted.
        """
        products = [
            insn.op.startswith(("pv.sdot", "pv.mlsdot", "pv.mldot", "pv.cusdot")) and insn.decode(int(word))["rd"] != 0
            for insn, word in zip(self.insns, self.words, strict=True)
        ]
        return np.array(products, dtype=np.bool_) | self._is_count

    @cached_property
    def _is_count(self) -> Bools:
        return self.inner & np.array([insn.op == "cnt" for insn in self.insns], dtype=np.bool_)

    @cached_property
    def is_mul(self) -> Bools:
        """Mark scalar multiplications of the inner loop; of single bits one for each word."""
        return self.inner & np.array([insn.op == "mul" for insn in self.insns], dtype=np.bool_)

    @cached_property
    def products(self) -> NDArray[np.int64]:
        """Multiplications each static instruction adds to an accumulator."""
        lanes = [insn.fmt.lanes if insn.fmt is not None else 0 for insn in self.insns]
        found = np.where(self.is_dotp, np.array(lanes, dtype=np.int64), self.is_mul.astype(np.int64))
        return np.where(self._is_count, WORD_BITS, found)

    @property
    def opef(self) -> float:
        """Operand efficiency: products over instructions of the innermost loop, from the static text; 0 without one."""
        return float((self.inner & (self.is_dotp | self.is_mul)).sum() / max(self.inner.sum(), 1))


def joined_programs(parts: Sequence[Program]) -> Program:
    """Programs that follow each other as one."""
    return Program(
        words=np.concatenate([part.words for part in parts]),
        pcs=np.concatenate([part.pcs for part in parts]),
        insns=tuple(insn for part in parts for insn in part.insns),
        regions=tuple(region for part in parts for region in part.regions),
        hwloop_end=np.concatenate([part.hwloop_end for part in parts]),
        inner=np.concatenate([part.inner for part in parts]),
    )
