"""A kernel as data: its static program and the sequence of instructions it executes.

The program is what an ELF file would hold. The sequence is the same program unrolled: for every executed instruction
the position of its static one. It is put together by numpy from whole loop bodies, so long kernels cost little Python.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.insn import Insn

Indices = NDArray[np.uint16 | np.uint32]
Bools = NDArray[np.bool_]
Env = Mapping[str, int]
"""Numbers of the iterations under way, by the names of their loops."""

REGIONS = ("setup", "im2col", "matmul", "quant")
"""Parts of a kernel: pointers and pixel loop; patch copy; accumulators and products; requantisation and stores."""


@dataclass(frozen=True, eq=False)
class Program:
    """Static text of a kernel; execution starts at its first and ends after its last instruction.

    Parameters
    ----------
    words : array of uint32
        Instruction words, all 32 bits long.
    pcs : array of uint32
        Their addresses, consecutive.
    insns : tuple of Insn
        Their rows in the instruction table.
    regions : tuple of str
        The part of the kernel each belongs to, out of :data:`REGIONS`.
    hwloop_end : array of bool
        Set for the last instruction of a hardware-loop body.
    inner : array of bool
        Set for the instructions of the innermost MatMul loop.
    """

    words: NDArray[np.uint32]
    pcs: NDArray[np.uint32]
    insns: tuple[Insn, ...]
    regions: tuple[str, ...]
    hwloop_end: Bools
    inner: Bools

    def __len__(self) -> int:
        """Static instructions."""
        return len(self.insns)

    def region(self, name: str) -> Bools:
        """Which static instructions belong to the part ``name``."""
        return np.array([region == name for region in self.regions], dtype=np.bool_)

    @cached_property
    def is_dotp(self) -> Bools:
        """Which static instructions multiply and accumulate whole words: sum-of-dot-product and Mac&Load.

        The loads of NN-RF entries (rd = x0), which multiply too but keep nothing, are not counted.
        """
        products = [
            insn.op.startswith(("pv.sdot", "pv.mlsdot", "pv.cusdot")) and insn.decode(int(word))["rd"] != 0
            for insn, word in zip(self.insns, self.words, strict=True)
        ]
        return np.array(products, dtype=np.bool_)

    @cached_property
    def is_mul(self) -> Bools:
        """Which static instructions of the inner loop are scalar multiplications."""
        return self.inner & np.array([insn.op == "mul" for insn in self.insns], dtype=np.bool_)

    @cached_property
    def products(self) -> NDArray[np.int64]:
        """Multiplications each static instruction adds to an accumulator."""
        lanes = [insn.fmt.lanes if insn.fmt is not None else 0 for insn in self.insns]
        return np.where(self.is_dotp, np.array(lanes, dtype=np.int64), self.is_mul.astype(np.int64))

    @property
    def opef(self) -> float:
        """Operand efficiency: products over instructions of the innermost loop, from the static text."""
        return float((self.inner & (self.is_dotp | self.is_mul)).sum() / self.inner.sum())


@dataclass(frozen=True, slots=True)
class Run:
    """Static instructions ``start`` up to, not including, ``stop``, executed in order."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """``body`` executed ``count`` times; its nodes find the number of the iteration under ``index`` in the Env."""

    body: "tuple[Node, ...]"
    count: int
    index: str | None = None


@dataclass(frozen=True, slots=True)
class Select:
    """One of two continuations after a branch that ends the node before."""

    taken: Callable[[Env], bool]
    when_taken: "tuple[Node, ...]"
    otherwise: "tuple[Node, ...]"


Node = Run | Repeat | Select

_BLOCK = 1 << 16
"""Fewest instructions in a block of the sequence, except in the last one."""


@dataclass(frozen=True, eq=False)
class Stream:
    """The executed sequence of a program.

    ``blocks()`` yields arrays of positions in the program. A control transfer is taken where the next position is not
    the following one, unless the instruction is flagged ``hwloop_end``.

    Parameters
    ----------
    program : Program
        The static text.
    plan : tuple of Node
        What is executed in which order.
    """

    program: Program
    plan: tuple[Node, ...]
    _constant: dict[int, Indices | None] = field(default_factory=dict[int, "Indices | None"], repr=False)

    @property
    def dtype(self) -> type[np.uint16] | type[np.uint32]:
        """Type of the positions, the smallest that can address the program."""
        return np.uint16 if len(self.program) <= np.iinfo(np.uint16).max else np.uint32

    def blocks(self) -> Iterator[Indices]:
        """The sequence in consecutive arrays."""
        pending: list[Indices] = []
        held = 0
        for piece in self._expand(self.plan, {}):
            pending.append(piece)
            held += len(piece)
            if held >= _BLOCK:
                yield np.concatenate(pending)
                pending, held = [], 0
        if pending:
            yield np.concatenate(pending)

    def indices(self) -> Indices:
        """The whole sequence in one array."""
        return np.concatenate(list(self.blocks()))

    @cached_property
    def executions(self) -> NDArray[np.int64]:
        """How often each static instruction is executed."""
        total = np.zeros(len(self.program), dtype=np.int64)
        for block in self.blocks():
            total += np.bincount(block, minlength=len(self.program))
        return total

    @property
    def instructions(self) -> int:
        """Executed instructions."""
        return int(self.executions.sum())

    @property
    def sdotp(self) -> int:
        """Executed SIMD sum-of-dot-product instructions, Mac&Load included; 0 in a scalar kernel."""
        return int(self.executions[self.program.is_dotp].sum())

    @property
    def steps(self) -> int:
        """Executed product instructions: :attr:`sdotp`, or scalar multiplications; cycles are counted per step."""
        return int(self.executions[self.program.is_dotp | self.program.is_mul].sum())

    @property
    def products(self) -> int:
        """Executed multiplications; more than the layer's MACs where rows are padded to whole words or blocks."""
        return int(self.executions @ self.program.products)

    def region_instructions(self, name: str) -> int:
        """Executed instructions of one part of the kernel."""
        return int(self.executions[self.program.region(name)].sum())

    def _fixed(self, node: Node) -> Indices | None:
        """The sequence of a node that does not depend on the Env, else None."""
        if id(node) not in self._constant:
            self._constant[id(node)] = self._unroll(node)
        return self._constant[id(node)]

    def _unroll(self, node: Node) -> Indices | None:
        match node:
            case Run(start, stop):
                return np.arange(start, stop, dtype=self.dtype)
            case Repeat(body, count, None):
                parts = [self._fixed(child) for child in body]
                known = [part for part in parts if part is not None]
                return np.tile(np.concatenate(known), count) if len(known) == len(parts) else None
            case _:
                return None

    def _expand(self, nodes: tuple[Node, ...], env: Env) -> Iterator[Indices]:
        for node in nodes:
            fixed = self._fixed(node)
            match node:
                case _ if fixed is not None:
                    yield fixed
                case Repeat(body, count, index):
                    for number in range(count):
                        yield from self._expand(body, env if index is None else {**env, index: number})
                case Select(taken, when_taken, otherwise):
                    yield from self._expand(when_taken if taken(env) else otherwise, env)
                case Run():
                    pass
