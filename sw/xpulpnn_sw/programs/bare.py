"""A kernel as a program of its own: start, measured kernel, report to the host; no compiler needed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sw.asm import assemble
from xpulpnn_sw.kernels.kernel import KernelRun

_ALIGNMENT = 8

_AFTER_KERNEL = """
    .equ kernel, {kernel}
    csrr ra, mcycle
    li sp, {cycles}
    sw ra, 4(sp)
    li ra, 1
    li sp, {tohost}
    sw ra, 0(sp)
stay:
    j stay
start:
    csrr ra, mcycle
    li sp, {cycles}
    sw ra, 0(sp)
    j kernel
"""
"""What follows the text of the kernel, which ends by falling through; all registers are free before and after it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class BareProgram:
    """Memory contents and addresses of a kernel's program.

    Parameters
    ----------
    entry : int
        First instruction.
    text_base, data_base : int
        Addresses of ``text`` and ``data``.
    text, data : bytes
        Code; operands, results and what the program reports.
    tohost : int
        Word through which the program ends.
    cycles : int
        Address of two words: mcycle before and after the kernel.
    """

    entry: int
    text_base: int
    text: bytes
    data_base: int
    data: bytes
    tohost: int
    cycles: int

    def measured(self, memory: NDArray[np.uint8]) -> int:
        """Cycles of the kernel, the call included, from the data memory after the run."""
        at = self.cycles - self.data_base
        before, after = memory[at : at + 8].view("<u4").tolist()
        return (after - before) & 0xFFFF_FFFF


def bare_program(run: KernelRun) -> BareProgram:
    """The program that runs a kernel once."""
    kernel = run.program
    base, image = int(kernel.pcs[0]), run.image
    end = -(-(image.base + image.data.size) // _ALIGNMENT) * _ALIGNMENT
    tohost, cycles = end, end + _ALIGNMENT
    after = base + 4 * len(kernel.words)
    rest = assemble(_AFTER_KERNEL.format(cycles=cycles, tohost=tohost, kernel=base), after)
    data = image.data.tobytes().ljust(cycles + _ALIGNMENT - image.base, b"\0")
    return BareProgram(
        entry=rest.labels["start"],
        text_base=base,
        text=kernel.words.astype("<u4").tobytes() + rest.to_bytes(),
        data_base=image.base,
        data=data,
        tohost=tohost,
        cycles=cycles,
    )
