"""A kernel as a program of its own: start, measured call, report to the host; no compiler needed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sw.assembly.asm import assemble
from xpulpnn_sw.kernels.kernel import SharedFunction

DATA_ALIGNMENT = 8
_VECTOR_ALIGNMENT = 256  # of the address in mtvec
_HANDLED = (1, 5, 10, 31)  # registers the handler saves on the stack and overwrites

# registers that belong to the caller, with what it finds in them after the call, or else the program fails
KEPT = {name: -number for number, name in enumerate(("tp", *(f"s{n}" for n in range(2, 12))), start=1)}

_CALLER = """
    .equ function, {function}
handler:
    addi sp, sp, -{frame}
    {save}
    lw x5, 0(gp)
    addi x5, x5, 1
    sw x5, 0(gp)
    {overwrite}
    {restore}
    addi sp, sp, {frame}
    mret
start:
    li sp, {stack}
    li gp, {interrupts}
    li t0, {handler}
    csrw mtvec, t0
    li t0, -1
    csrw mie, t0
    csrsi mstatus, 8
    li a0, {arguments}
    li a1, 0
    li a2, 1
    {mark}
    csrr s0, mcycle
    jal ra, function
    csrr s1, mcycle
    csrci mstatus, 8
    {compare}
    li t0, {cycles}
    sw s0, 0(t0)
    sw s1, 4(t0)
    li t0, {tohost}
    li t1, 1
end:
    sw t1, 0(t0)
stay:
    j stay
wrong:
    li t0, {tohost}
    li t1, 3
    j end
"""
"""Code behind the function. Any interrupt enters the handler, which uses the stack and counts at ``gp``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class BareProgram:
    """Memory contents and addresses of a kernel's program."""

    entry: int  # first instruction
    text_base: int  # addresses of `text` and `data`
    text: bytes  # Code; operands, results and what the program reports
    data_base: int  # addresses of `text` and `data`
    data: bytes  # Code; operands, results and what the program reports
    tohost: int  # word through which the program ends
    cycles: int  # address of two words, mcycle before and after the kernel, and of a third: the interrupts

    def measured(self, memory: NDArray[np.uint8]) -> int:
        """Cycles of the kernel, the call included, from the data memory after the run."""
        at = self.cycles - self.data_base
        before, after = memory[at : at + 8].view("<u4").tolist()
        return (after - before) & 0xFFFF_FFFF


def bare_program(run: SharedFunction) -> BareProgram:
    """The program that calls a kernel once, on one core."""
    function, image = run.function, run.image
    base = int(function.pcs[0])
    end = -(-(image.base + image.data.size) // DATA_ALIGNMENT) * DATA_ALIGNMENT
    tohost, cycles = end, end + DATA_ALIGNMENT
    after = -(-(base + function.words.nbytes) // _VECTOR_ALIGNMENT) * _VECTOR_ALIGNMENT
    slots = [f"x{{}}, {4 * number}(sp)".format(register) for number, register in enumerate(_HANDLED)]
    kept = KEPT | {"sp": run.stack_top(), "gp": cycles + DATA_ALIGNMENT}
    caller = _CALLER.format(
        function=base,
        handler=after,
        frame=-(-4 * len(_HANDLED) // 16) * 16,
        save="; ".join(f"sw {slot}" for slot in slots),
        restore="; ".join(f"lw {slot}" for slot in slots),
        mark="; ".join(f"li {name}, {value}" for name, value in KEPT.items()),
        compare="; ".join(f"li t0, {value}; bne {name}, t0, wrong" for name, value in kept.items()),
        overwrite="; ".join(f"li x{register}, -{register}" for register in _HANDLED),
        interrupts=cycles + DATA_ALIGNMENT,
        stack=run.stack_top(),
        arguments=image.symbols["arguments"].address,
        cycles=cycles,
        tohost=tohost,
    )
    rest = assemble(caller, after)
    data = image.data.tobytes().ljust(cycles + 2 * DATA_ALIGNMENT - image.base, b"\0")
    return BareProgram(
        entry=rest.labels["start"],
        text_base=base,
        text=function.words.astype("<u4").tobytes().ljust(after - base, b"\0") + rest.to_bytes(),
        data_base=image.base,
        data=data,
        tohost=tohost,
        cycles=cycles,
    )
