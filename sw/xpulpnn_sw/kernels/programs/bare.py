"""Programs that call a kernel on one core or on all cores of a cluster, made without a compiler.

The program measures a call and reports to the host. In a cluster all cores start together and each computes a part of
the kernel's results.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.cluster import MAX_CORES, PRIVATE_DMA, PRIVATE_EVENT_UNIT, Barrier, Dma, EventLine, EventRegister
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sw.assembly.asm import assemble
from xpulpnn_sw.kernels.kernel import SharedFunction
from xpulpnn_sw.kernels.layout import Program

DATA_ALIGNMENT = 8
_VECTOR_ALIGNMENT = 256  # alignment of the address in mtvec
_HANDLED = (1, 5, 10, 31)  # registers the handler saves on the stack and overwrites

# callee-saved registers, with the values that they must hold after the call
PRESERVED = {name: -number for number, name in enumerate(("tp", *(f"s{n}" for n in range(2, 12))), start=1)}

_CALLER = """
    .equ function, {function}
handler:
    addi sp, sp, -{frame}; {save}
    lw x5, 0(gp); addi x5, x5, 1; sw x5, 0(gp)
    {overwrite}; {restore}
    addi sp, sp, {frame}; mret
start:
    li sp, {stack}; li gp, {interrupts}; li t0, {handler}; csrw mtvec, t0; {prepare}
    li t0, -1; csrw mie, t0; csrsi mstatus, 8
    li a0, {arguments}; li a1, 0; li a2, 1; {mark}
    csrr s0, mcycle; jal ra, function; csrr s1, mcycle; csrci mstatus, 8
    {compare}
    li t0, {report}; sw s0, 0(t0); sw s1, 4(t0); li t0, {tohost}; li t1, 1
end:
    sw t1, 0(t0)
stay:
    j stay
wrong:
    li t0, {tohost}; li t1, 3; j end
"""
"""Code after the function: a caller, and the handler of all interrupts, which counts them at the address in ``gp``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class BareProgram:
    entry: int  # address of the first instruction
    text_base: int
    text: bytes
    data_base: int
    data: bytes  # operands, results and the report
    tohost: int  # address of the word that ends the program
    cycles: int  # address of three words: mcycle before and after the kernel, and the count of interrupts

    def measured_cycles(self, memory: NDArray[np.uint8]) -> int:
        at = self.cycles - self.data_base
        before, after = memory[at : at + 8].view("<u4").tolist()
        return (after - before) & WORD_MASK


def with_caller(function: Program, caller: str, start: int, **numbers: object) -> tuple[int, bytes]:
    """Return the entry address of ``caller``, and the function's code followed by the assembled caller at ``start``."""
    base = int(function.pcs[0])
    rest = assemble(caller.format(function=base, **numbers), start)
    return rest.labels["start"], function.words.astype("<u4").tobytes().ljust(start - base, b"\0") + rest.to_bytes()


def _reporting(
    run: SharedFunction, caller: str, start: int, report: bytes, preserved: Mapping[str, int], **numbers: object
) -> dict[str, Any]:
    function, image, cycles = run.function, run.image, _report_address(run)
    tohost = cycles - DATA_ALIGNMENT
    places = {"stack": run.stack_top(), "arguments": image.symbols["arguments"].address, "report": cycles}
    mark = "; ".join(f"li {name}, {value}" for name, value in PRESERVED.items())
    compare = "; ".join(f"li t0, {value}; bne {name}, t0, wrong" for name, value in preserved.items())
    numbers |= {"mark": mark, "compare": compare, "tohost": tohost}
    entry, text = with_caller(function, caller, start, **places, **numbers)
    data = image.data.tobytes().ljust(cycles - image.base, b"\0") + report
    parts = {"text_base": int(function.pcs[0]), "text": text, "data_base": image.base, "data": data}
    return {"entry": entry, **parts, "tohost": tohost, "cycles": cycles}


def _report_address(run: SharedFunction) -> int:
    return (-(-(run.image.base + run.image.data.size) // DATA_ALIGNMENT) + 1) * DATA_ALIGNMENT


def bare_program(run: SharedFunction, prepare: str = "") -> BareProgram:
    interrupts = _report_address(run) + DATA_ALIGNMENT
    start = -(-(int(run.function.pcs[0]) + run.function.words.nbytes) // _VECTOR_ALIGNMENT) * _VECTOR_ALIGNMENT
    slots = [f"x{register}, {4 * number}(sp)" for number, register in enumerate(_HANDLED)]
    numbers = {
        "handler": start,
        "frame": -(-4 * len(_HANDLED) // 16) * 16,
        "save": "; ".join(f"sw {slot}" for slot in slots),
        "restore": "; ".join(f"lw {slot}" for slot in slots),
        "overwrite": "; ".join(f"li x{register}, -{register}" for register in _HANDLED),
        "interrupts": interrupts,
        "prepare": prepare,
    }
    preserved = PRESERVED | {"sp": run.stack_top(), "gp": interrupts}
    return BareProgram(**_reporting(run, _CALLER, start, bytes(2 * DATA_ALIGNMENT), preserved, **numbers))


_REPORT_WORDS = 3  # of each core: mcycle at the start and end of its share, and at the end of all shares

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
"""Addresses and masks of a cluster, by their names in assembly texts."""

CLUSTER_CALLER = """
    .equ function, {function}
start:
    csrr t0, mhartid; andi a1, t0, {cores_mask}; li t1, {stack_stride}; mul t1, t1, a1; li sp, {stack}; add sp, sp, t1
    li gp, {event_unit}; li t1, {line}; sw t1, {mask}(gp)
    bne a1, zero, set
    li t1, {team}; sw t1, {target}(gp); sw t1, {trigger}(gp)
set:
    csrr t0, mhartid; andi a1, t0, {cores_mask}; li a0, {arguments}; li a2, {cores}; {mark}
    p.elw t0, {barrier}(gp)
    csrr s0, mcycle; jal ra, function; csrr s1, mcycle
    p.elw t0, {barrier}(gp)
    csrr a0, mcycle
    {compare}
    csrr t0, mhartid; andi a1, t0, {cores_mask}; li t1, {report_bytes}; mul t1, t1, a1; li t0, {report}; add t0, t0, t1
    lw t1, 0(t0); addi t1, t1, -1; sw t1, 0(t0); bne t1, zero, set
    sw s0, 0(t0); sw s1, 4(t0); sw a0, 8(t0)
    p.elw t0, {barrier}(gp)
    bne a1, zero, sleep; li t1, 1
end:
    li t0, {tohost}; sw t1, 0(t0)
sleep:
    sw zero, {mask}(gp); p.elw t0, {wait_event}(gp); j sleep
wrong:
    li t1, 3; j end
"""
"""Code after the function: the cores call it and report the cycles. The barrier counts arrivals even before core 0 has
set its masks. The first word of a report counts the remaining passes until the last one; after the last barrier the
cores sleep for good."""


@dataclass(frozen=True, eq=False, kw_only=True)
class BareClusterProgram(BareProgram):
    """Program in which a cluster computes a kernel; the reports of the cores begin at ``cycles``."""

    cores: int  # cores that share the kernel

    def measured_cycles(self, memory: NDArray[np.uint8]) -> int:
        begin, end = self.span(memory)
        return (end - begin) & WORD_MASK

    def span(self, memory: NDArray[np.uint8]) -> tuple[int, int]:
        begin, _, end = self._report(memory)[:, 0].tolist()
        return begin, end

    def shares(self, memory: NDArray[np.uint8]) -> list[int]:
        begin, done, _ = self._report(memory)
        return ((done - begin) & WORD_MASK).tolist()

    def _report(self, memory: NDArray[np.uint8]) -> NDArray[np.int64]:
        at, size = self.cycles - self.data_base, self.cores * _REPORT_WORDS * WORD_BYTES
        return memory[at : at + size].view("<u4").astype(np.int64).reshape(self.cores, -1).T


def cluster_program(run: SharedFunction, cores: int, passes: int = 1) -> BareClusterProgram:
    report_bytes = _REPORT_WORDS * WORD_BYTES
    start = int(run.function.pcs[0]) + run.function.words.nbytes
    numbers = CLUSTER_ADDRESSES | {"stack_stride": run.stack_stride, "team": (1 << cores) - 1}
    numbers |= {"cores": cores, "report_bytes": report_bytes}
    reports = passes.to_bytes(report_bytes, "little") * cores
    return BareClusterProgram(cores=cores, **_reporting(run, CLUSTER_CALLER, start, reports, PRESERVED, **numbers))
