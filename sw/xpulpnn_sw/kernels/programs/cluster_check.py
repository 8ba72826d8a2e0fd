"""Test program for all of a cluster: caches, barrier, test-and-set, DMA engine, control registers, main memory.

Core 0 copies operands from main memory into the TCDM. Every core adds up some of them and then adds its sum to a common
sum under a lock. Core 0 copies the sums to main memory, returns the result and signals the end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import ConfigError
from xpulpnn.isa import cluster
from xpulpnn.isa.machine import WORD_BYTES, WORD_MASK
from xpulpnn_sw.assembly.asm import Assembled, assemble

OPERANDS = 128  # words that are added up

OPERANDS_AT, RESULTS_AT = 0x1000, 0x1800  # offsets of operands and results in main memory, after the program

# offset in the TCDM, after the operands, of the sums of the cores, the sum of all and the lock
TCDM_RESULTS_AT = OPERANDS * WORD_BYTES
TCDM_USED = 0x400  # bytes of the TCDM that the program may use
_SOURCE = """
    csrr s0, mhartid; andi s0, s0, 31
    li s1, event_unit; li s2, tcdm; li s3, control; li s4, results; li s5, outside_results
    li s6, test_set
    li t0, barrier_event; sw t0, MASK(s1)
    bne s0, zero, wait_for_operands
    # core 0 sets up the barrier, which counts whoever is there already
    li t0, all_cores; sw t0, BARRIER_TARGET_MASK(s1); sw t0, BARRIER_TRIGGER_MASK(s1)
    sw zero, total(s4); sw zero, lock(s4)
{copy_in}
wait_for_operands:
    lw t0, BARRIER_WAIT(s1)
    # every core takes the words core, core + N, ...
    slli t1, s0, 2; add t1, t1, s2; li t2, results; li a0, 0
add:
    lw t3, 0(t1); add a0, a0, t3; addi t1, t1, stride; bltu t1, t2, add
    slli t1, s0, 2; add t1, t1, s4; sw a0, 0(t1)
try:
    lw t0, lock(s6); bne t0, zero, try
    lw t3, total(s4); add t3, t3, a0; sw t3, total(s4)
    sw zero, lock(s4)
    lw t0, BARRIER_WAIT(s1)
    bne s0, zero, sleep
{copy_out}
    lw t3, total(s4); li t0, done_bit; or t3, t3, t0; sw t3, RETURN(s3)
    li t0, 1; sw t0, EOC(s3)
sleep:
    sw zero, MASK(s1); lw t0, WAIT(s1)
    j sleep
"""

_DMA_COPY = """
    li a0, dma; li t0, dma_event; sw t0, MASK(s1)
    lw a1, DMA_COMMAND(a0)
    li t0, {command}; sw t0, DMA_COMMAND(a0)
    li t0, {inside}; sw t0, DMA_COMMAND(a0)
    li t0, {outside}; sw t0, DMA_COMMAND(a0)
    lw t0, WAIT_CLEAR(s1)
    li t0, 1; sll t0, t0, a1; sw t0, DMA_STATUS(a0)
    li t0, barrier_event; sw t0, MASK(s1)"""

_COPY = """
    li a0, {source}; li a1, {target}; li a2, {end}
copy_{name}:
    lw t0, 0(a0); sw t0, 0(a1); addi a0, a0, 4; addi a1, a1, 4; bltu a0, a2, copy_{name}"""


@dataclass(frozen=True, slots=True)
class ClusterCheck:
    assembled: Assembled  # instructions, from the start of main memory on
    source: Sequence[str]
    operands: Sequence[int]  # words to add up, at OPERANDS_AT
    results: Sequence[int]  # words expected at RESULTS_AT: a sum per core, the sum of all

    @property
    def return_value(self) -> int:
        return self.results[-1] | 1 << cluster.RETURN_DONE_BIT

    def image(self, words: int) -> list[int]:
        memory = [0] * words
        code = self.assembled.to_bytes()
        assert len(code) <= OPERANDS_AT
        for place, word in enumerate(self.operands):
            memory[OPERANDS_AT // WORD_BYTES + place] = word
        for at in range(0, len(code), WORD_BYTES):
            memory[at // WORD_BYTES] = int.from_bytes(code[at : at + WORD_BYTES], "little")
        return memory


def _symbols(config: ClusterConfig) -> Mapping[str, int]:
    stride, results = config.cores * WORD_BYTES, cluster.TCDM_BASE + TCDM_RESULTS_AT
    events, lines, barrier = cluster.EventRegister, cluster.EventLine, cluster.Barrier
    symbols = {"event_unit": cluster.PRIVATE_EVENT_UNIT, "tcdm": cluster.TCDM_BASE, "control": cluster.CONTROL}
    symbols |= {"dma": cluster.PRIVATE_DMA, "results": results, "test_set": results + (1 << cluster.TEST_SET_BIT)}
    symbols |= {"outside_results": cluster.L2_BASE + RESULTS_AT, "total": stride, "lock": stride + WORD_BYTES}
    symbols |= {"stride": stride, "all_cores": (1 << config.cores) - 1, "barrier_event": 1 << lines.BARRIER}
    symbols |= {"dma_event": 1 << lines.DMA, "done_bit": 1 << cluster.RETURN_DONE_BIT}
    symbols |= {"MASK": events.MASK, "WAIT": events.WAIT, "WAIT_CLEAR": events.WAIT_CLEAR}
    triggers = (barrier.TARGET_MASK, barrier.TRIGGER_MASK, barrier.TRIGGER_WAIT_CLEAR)
    names = ("BARRIER_TARGET_MASK", "BARRIER_TRIGGER_MASK", "BARRIER_WAIT")
    symbols |= {name: events.BARRIER + offset for name, offset in zip(names, triggers, strict=True)}
    symbols |= {"DMA_COMMAND": cluster.Dma.COMMAND, "DMA_STATUS": cluster.Dma.STATUS}
    return symbols | {"RETURN": cluster.Control.RETURN, "EOC": cluster.Control.EOC}


def _copy(config: ClusterConfig, *, inwards: bool) -> str:
    words = OPERANDS if inwards else config.cores + 1
    inside = cluster.TCDM_BASE + (0 if inwards else TCDM_RESULTS_AT)
    outside = cluster.L2_BASE + (OPERANDS_AT if inwards else RESULTS_AT)
    size = words * WORD_BYTES
    if not config.dma:
        source, target = (outside, inside) if inwards else (inside, outside)
        return _COPY.format(source=source, target=target, end=source + size, name="in" if inwards else "out")
    assert size < 1 << cluster.DMA_LENGTH_BITS
    command = cluster.DmaCommand
    flags = command.INCREMENT | command.EVENT | (command.FROM_EXTERNAL if inwards else 0)
    return _DMA_COPY.format(command=size | flags, inside=inside, outside=outside)


def cluster_check(config: ClusterConfig, operands: Sequence[int]) -> ClusterCheck:
    if config.tcdm_bytes < TCDM_USED:
        raise ConfigError(f"tcdm_bytes must be at least {TCDM_USED} for the testbench, not {config.tcdm_bytes}")
    assert len(operands) == OPERANDS
    text = _SOURCE.format(copy_in=_copy(config, inwards=True), copy_out=_copy(config, inwards=False))
    source = [f"    .equ {name}, {value}" for name, value in _symbols(config).items()]
    source += text.strip("\n").splitlines()
    assembled = assemble("\n".join(source), cluster.L2_BASE)
    shares = [*(operands[core :: config.cores] for core in range(config.cores)), operands]
    results = [sum(share) & WORD_MASK for share in shares]
    return ClusterCheck(assembled=assembled, source=source, operands=operands, results=results)
