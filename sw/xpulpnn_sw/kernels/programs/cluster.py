"""A kernel as a program of a cluster: all cores start together, share the kernel, and core 0 reports to the host."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.cluster import MAX_CORES, PRIVATE_DMA, PRIVATE_EVENT_UNIT, Barrier, Dma, EventLine, EventRegister
from xpulpnn_sw.assembly.asm import assemble
from xpulpnn_sw.kernels.kernel import SharedFunction
from xpulpnn_sw.kernels.programs.bare import DATA_ALIGNMENT, KEPT, BareProgram

# words that each core reports: mcycle when it starts with its share, has done it, and all have done theirs
_REPORT = ("begin", "done", "end")
_WORD_BYTES = 4

CLUSTER_ADDRESSES = {
    "cores_mask": MAX_CORES - 1,
    "event_unit": PRIVATE_EVENT_UNIT,
    "dma": PRIVATE_DMA,
    "line": 1 << EventLine.BARRIER,
    "mask": int(EventRegister.MASK),
    "wait_event": int(EventRegister.WAIT),
    "target": EventRegister.BARRIER + Barrier.TARGET_MASK,
    "trigger": EventRegister.BARRIER + Barrier.TRIGGER_MASK,
    "barrier": EventRegister.BARRIER + Barrier.TRIGGER_WAIT_CLEAR,
    "command": int(Dma.COMMAND),
    "status": int(Dma.STATUS),
}
"""Addresses and masks of a cluster, by their names in the texts of programs."""

_CALLER = """
    .equ function, {function}
start:
    csrr t0, mhartid
    andi a1, t0, {cores_mask}
    li t1, {stack_stride}
    mul t1, t1, a1
    li sp, {stack}
    add sp, sp, t1
    li gp, {event_unit}
    li t1, {line}
    sw t1, {mask}(gp)
    bne a1, zero, set
    li t1, {team}
    sw t1, {target}(gp)
    sw t1, {trigger}(gp)
set:
    csrr t0, mhartid
    andi a1, t0, {cores_mask}
    li a0, {arguments}
    li a2, {cores}
    {mark}
    p.elw t0, {barrier}(gp)
    csrr s0, mcycle
    jal ra, function
    csrr s1, mcycle
    p.elw t0, {barrier}(gp)
    csrr a0, mcycle
    {compare}
    csrr t0, mhartid
    andi a1, t0, {cores_mask}
    li t1, {report_bytes}
    mul t1, t1, a1
    li t0, {report}
    add t0, t0, t1
    lw t1, 0(t0)
    addi t1, t1, -1
    sw t1, 0(t0)
    bne t1, zero, set
    sw s0, 0(t0)
    sw s1, 4(t0)
    sw a0, 8(t0)
    p.elw t0, {barrier}(gp)
    bne a1, zero, sleep
    li t1, 1
end:
    li t0, {tohost}
    sw t1, 0(t0)
sleep:
    sw zero, {mask}(gp)
    p.elw t0, {wait_event}(gp)
    j sleep
wrong:
    li t1, 3
    j end
"""
"""Code behind the function. The barrier gathers arrivals also before core 0 has set its masks. The last barrier is for
the reports, whose first word counts the passes until then; what is behind it waits for no event, for good."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ClusterProgram(BareProgram):
    """Memory contents and addresses of a kernel's program; the cores report one after the other at ``cycles``."""

    cores: int  # that share the kernel

    def measured(self, memory: NDArray[np.uint8]) -> int:
        """Cycles from the release of the barrier before the last pass to that of the one after it."""
        report = self._report(memory)[0]
        return int(report[_REPORT.index("end")] - report[_REPORT.index("begin")]) & 0xFFFF_FFFF

    def shares(self, memory: NDArray[np.uint8]) -> list[int]:
        """Cycles that each core takes for its share of the last pass, the call included."""
        report = self._report(memory)
        return ((report[:, _REPORT.index("done")] - report[:, _REPORT.index("begin")]) & 0xFFFF_FFFF).tolist()

    def _report(self, memory: NDArray[np.uint8]) -> NDArray[np.int64]:
        at, size = self.cycles - self.data_base, self.cores * len(_REPORT) * _WORD_BYTES
        return memory[at : at + size].view("<u4").astype(np.int64).reshape(self.cores, -1)


def cluster_program(run: SharedFunction, cores: int, passes: int = 1) -> ClusterProgram:
    """The program in which ``cores`` cores, for which ``run`` has room, compute a kernel ``passes`` times.

    Programs that differ in nothing but the passes do the same in each of them.
    """
    function, image = run.function, run.image
    base = int(function.pcs[0])
    end = -(-(image.base + image.data.size) // DATA_ALIGNMENT) * DATA_ALIGNMENT
    tohost, report = end, end + DATA_ALIGNMENT
    report_bytes = len(_REPORT) * _WORD_BYTES
    reports = passes.to_bytes(report_bytes, "little") * cores
    after = base + function.words.nbytes
    caller = _CALLER.format(
        function=base,
        stack_stride=run.stack_stride,
        stack=run.stack_top(),
        **CLUSTER_ADDRESSES,
        team=(1 << cores) - 1,
        arguments=image.symbols["arguments"].address,
        cores=cores,
        mark="; ".join(f"li {name}, {value}" for name, value in KEPT.items()),
        compare="; ".join(f"li t0, {value}; bne {name}, t0, wrong" for name, value in KEPT.items()),
        report=report,
        report_bytes=report_bytes,
        tohost=tohost,
    )
    rest = assemble(caller, after)
    return ClusterProgram(
        entry=rest.labels["start"],
        text_base=base,
        text=function.words.astype("<u4").tobytes() + rest.to_bytes(),
        data_base=image.base,
        data=image.data.tobytes().ljust(report - image.base, b"\0") + reports,
        tohost=tohost,
        cycles=report,
        cores=cores,
    )
