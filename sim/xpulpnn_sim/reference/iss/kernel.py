"""Calls of kernel functions on the simulator: the sequence of instructions they execute, and their results."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import XpulpnnError
from xpulpnn.isa.formats import BASE_EXTENSIONS
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sw.kernels.kernel import KernelCall, KernelRun

_WORD_BYTES = np.uint32(4)
_BLOCK = 1 << 17  # instructions of a block of the sequence


def kernel_memory(run: KernelRun) -> Memory:
    """The data memory a kernel starts with."""
    memory = Memory()
    memory.write_bytes(run.image.base, run.image.data.tobytes())
    return memory


def executed(
    run: KernelRun, call: KernelCall, memory: Memory, *, products: bool = True, limit: int = 1 << 32
) -> Iterator[NDArray[np.uint32]]:
    """Execute a call and yield the positions of the executed instructions in its program, block by block.

    Without ``products`` the results are wrong, but the sequence, which does not depend on them, comes sooner.

    A control transfer is taken where the next position is not the following one, unless the instruction is flagged
    ``hwloop_end``. Raises :class:`XpulpnnError` if an instruction traps or there are more than ``limit``.
    """
    program = call.program
    base, entry = program.pcs[0], int(program.pcs[call.entry])
    hart = Iss(entry, extensions=BASE_EXTENSIONS | run.extensions, memory=memory, products=products)
    hart.load(int(base), program.words.tolist())
    hart.path = path = []
    last = int(program.pcs[-1])
    try:
        while hart.state.pc != last:
            hart.run(_BLOCK, until=last)
            if hart.csrs["mcause"]:
                raise XpulpnnError(f"kernel must not trap, not with cause {hart.csrs['mcause']}")
            if hart.executed > limit:
                raise XpulpnnError(f"kernel must return within {limit} instructions, not run on")
            yield (np.array(path, np.uint32) - base) // _WORD_BYTES
            path.clear()
    finally:
        hart.retire()
    yield np.array([len(program) - 1], np.uint32)


def results(run: KernelRun, memory: Memory) -> NDArray[np.int64]:
    """The outputs in memory after all calls."""
    data = np.frombuffer(memory.read_bytes(run.image.base, run.image.data.size), np.uint8)
    return run.output.decode(run.image, data)
