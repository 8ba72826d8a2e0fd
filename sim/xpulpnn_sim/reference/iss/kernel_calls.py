"""Calls of kernel functions on the simulator."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import XpulpnnError
from xpulpnn.isa.formats import BASE_EXTENSIONS
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn.xif.config import XifConfig
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.library import PATH
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sw.kernels.kernel import KernelCall, KernelRun


def kernel_memory(run: KernelRun) -> Memory:
    memory = Memory()
    memory.write_bytes(run.image.base, run.image.data.tobytes())
    return memory


def executed(run: KernelRun, call: KernelCall, memory: Memory, *, limit: int = 1 << 32) -> Iterator[NDArray[np.uint32]]:
    """Execute a call and yield the positions of the executed instructions in its program, block by block."""
    program = call.program
    base, entry = program.pcs[0], int(program.pcs[call.entry])
    extensions = BASE_EXTENSIONS | run.extensions
    hart = Iss(entry, extensions=extensions, memory=memory, xif=XifConfig.of(extensions))
    memory.write_bytes(int(base), program.words.tobytes())
    path: list[int] = []
    hart.observe(path.extend)
    last = int(program.pcs[-1])
    while hart.state.pc != last:
        hart.run(PATH, until=last)
        if hart.csrs["mcause"]:
            raise XpulpnnError(f"kernel must not trap, not with cause {hart.csrs['mcause']}")
        if hart.executed > limit:
            raise XpulpnnError(f"kernel must return within {limit} instructions, not run on")
        yield (np.array(path, np.uint32) - base) // np.uint32(WORD_BYTES)
        path.clear()
    yield np.array([len(program) - 1], np.uint32)
