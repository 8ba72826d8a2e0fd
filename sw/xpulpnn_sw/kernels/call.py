"""A call of a kernel function: the instructions that load its registers, around it."""

from dataclasses import dataclass

import numpy as np

from xpulpnn_sw.kernels.builder import WORD, Builder, Label
from xpulpnn_sw.kernels.frame import ARGUMENTS_POINTER, CORE, CORES, RA, SP
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.program import Program


@dataclass(frozen=True, eq=False)
class Call:
    """A function and a caller, which follows it."""

    program: Program  # Both; the caller is the region `call`
    entry: int  # position of the caller's first instruction; its last is where the function returns to


def kernel_call(run: KernelRun, core: int = 0, cores: int = 1) -> Call:
    """The call for the share of ``core`` out of ``cores``."""
    function, symbols = run.function, run.image.symbols
    entry = len(function)
    b = Builder(int(function.pcs[0]) + entry * WORD, xpulp=False)
    with b.region("call"):
        b.li(SP, run.stack_top(core))
        b.li(ARGUMENTS_POINTER, symbols["arguments"].address)
        b.li(CORE, core)
        b.li(CORES, cores)
        b.jump(Label(-entry), link=RA)
        b.mv(0, 0)
    caller = b.finish()
    return Call(
        Program(
            words=np.append(function.words, caller.words),
            pcs=np.append(function.pcs, caller.pcs),
            insns=function.insns + caller.insns,
            regions=function.regions + caller.regions,
            hwloop_end=np.append(function.hwloop_end, caller.hwloop_end),
            inner=np.append(function.inner, caller.inner),
        ),
        entry,
    )
