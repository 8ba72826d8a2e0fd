"""Kernels run on the instruction-set simulator, compared with the reference of their layer, and counted."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.formats import BASE_EXTENSIONS
from xpulpnn.isa.machine import Cost
from xpulpnn_sim.cosimulation.workloads.kernel_run import reference
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.reference.iss.kernel_calls import executed, kernel_memory
from xpulpnn_sim.reference.iss.memory import Memory
from xpulpnn_sw.assembly.disasm import register_number
from xpulpnn_sw.kernels import requantisation as rules
from xpulpnn_sw.kernels.catalogue import find_kernel, kernel_of
from xpulpnn_sw.kernels.kernel import Function, KernelCall, KernelRun, kernel_call
from xpulpnn_sw.kernels.layout import Program
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.layers.layer import ConvLayer, Layer
from xpulpnn_sw.layers.precision import Precision

LIMIT = 1 << 21


def alternating(rows: Iterable[Any], columns: Iterable[Any], choices: tuple[Any, Any]) -> list[tuple[Any, Any, Any]]:
    """Every row with every column, and with one choice or the other in turn, as on a chessboard."""
    pairs = product(enumerate(rows), enumerate(columns))
    return [(row, column, choices[(number + place) % 2]) for (number, row), (place, column) in pairs]


def results(run, memory):
    data = np.frombuffer(memory.read_bytes(run.image.base, run.image.data.size), np.uint8)
    return run.output.decode(run.image, data)


PRESERVED = {
    name: 0x5A5A_0000 + register_number(name) for name in ("gp", "tp", *(f"s{number}" for number in range(12)))
}

OWN = ("buffer", "im2col", "output", "stack")

LONG = (1 << 31) - 1
RULES: dict[str, rules.AnyRequantisation] = {
    "wraps at 32 bits": rules.Requantisation(kappa=np.full(4, LONG), lam=np.full(4, LONG), shift=23),
    "no shift": rules.Requantisation(kappa=np.full(4, -1), lam=np.full(4, 100), shift=0),
    "64 bits by less than a word": rules.WideRequantisation(
        kappa=np.array([1 << 40, -(1 << 33) - 1, 3, -LONG]), lam=np.array([1 << 60, -1, 1 << 31, 5]), shift=19
    ),
    "64 bits by a word": rules.WideRequantisation(
        kappa=np.array([1 << 20, -(1 << 21), 77, -1]), lam=np.array([LONG, -LONG, 1 << 32, -1]), shift=32
    ),
    "64 bits by more": rules.WideRequantisation(
        kappa=np.array([1 << 48, -(1 << 50) + 1, 1 << 33, -1]), lam=np.array([1 << 62, -(1 << 62), 0, -1]), shift=57
    ),
    "64 bits without shift": rules.WideRequantisation(
        kappa=np.array([1, -1, 1 << 32, LONG]), lam=np.array([100, 3, 1 << 40, 0]), shift=0
    ),
    "exact with factors of 31 bits": rules.ExactRequantisation(
        factors=np.array([LONG >> 1, -LONG >> 1, 1 << 29, 1]), shifts=np.array([37, 38, 38, 38]), zero=-3
    ),
    "exact, which is the code of 0": rules.ExactRequantisation(
        factors=np.array([LONG, -LONG - 1, 77, 0]), shifts=np.array([62, 62, 44, 44]), zero=5
    ),
    "factor that wraps": rules.Multiplication(factor=LONG, shift=24),
    "more than 16 bits before they are clipped": rules.Multiplication(factor=3001, shift=1),
    "negative factor": rules.Multiplication(factor=-9, shift=6),
    "shift of all bits": rules.Shifting(shift=31),
    "shift alone": rules.Shifting(shift=5),
    "thresholds at both ends": rules.Thresholds(
        values=np.array([[-32768] * 7 + [32767] * 8, [*range(-7, 8)], [0] * 15, [*range(-32768, 32760, 4369)][:15]])
    ),
}
"""Rules at the ends of their ranges, for four channels; thresholds for results of four bits."""


def tensors_of(layer: Layer, precision: Precision, seed: int = 0, rule: Rule = Rule.BN32):
    return kernel_of(layer).tensors(layer, precision, np.random.default_rng(seed), rule)


def built(name: str, text: str, precision: str, variant: str, *, seed: int = 0, rule: Rule = Rule.BN32, **options):
    layer, widths = find_kernel(name).layer.parse(text), Precision.parse(precision)
    return find_kernel(name).build(layer, widths, variant, tensors_of(layer, widths, seed, rule), **options)


def run_share(run: KernelRun, core: int, cores: int, memory: Memory) -> tuple[int, int]:
    """Let a core compute its share; return its multiplications and instructions."""
    call, products, instructions = kernel_call(run, core, cores), 0, 0
    for positions in executed(run, call, memory, limit=LIMIT):
        products += int(call.program.products[positions].sum())
        instructions += len(positions)
    return products, instructions


def hart_before(function: Function, call: KernelCall, memory: Memory) -> Iss:
    extensions = BASE_EXTENSIONS | function.extensions
    hart = Iss(int(call.program.pcs[call.entry]), extensions=extensions, memory=memory)
    hart.memory.write_bytes(int(call.program.pcs[0]), call.program.words.tobytes())
    return hart


def computed(run: KernelRun, cores: int = 1) -> NDArray[np.int64]:
    memory = kernel_memory(run)
    for core in range(cores):
        run_share(run, core, cores, memory)
    return results(run, memory)


def check(
    layer: Layer,
    precision: Precision,
    variant: str,
    tensors=None,
    *,
    cores: int = 1,
    rule: Rule = Rule.BN32,
    seed: int = 0,
    **options,
) -> tuple[KernelRun, int, int]:
    """Compare the results of all cores' shares with the reference; nothing else in memory may change."""
    tensors = tensors_of(layer, precision, seed, rule) if tensors is None else tensors
    run = kernel_of(layer).build(layer, precision, variant, tensors, cores=cores, **options)
    image, memory = run.image, kernel_memory(run)
    counts = np.sum([run_share(run, core, cores, memory) for core in range(cores)], axis=0)
    described = f"{run.name} {layer}"
    np.testing.assert_array_equal(results(run, memory), reference(layer, tensors, precision), described)
    after = np.frombuffer(memory.read_bytes(image.base, image.data.size), np.uint8)
    if precision.y == 1 and not run.output.planes:
        # channels that fill words up
        behind = replace(run.output, shape=(*run.output.shape[:-1], run.output.pixel_bytes * 8))
        assert (behind.decode(image, after)[..., layer.out_channels :] == -1).all(), described
    for symbol in image.symbols:
        assert symbol in OWN or np.array_equal(image.view(symbol, after), image.view(symbol)), (described, symbol)
    assert not any(memory.read_bytes(image.base + image.data.size, 64))
    return run, *counts.tolist()


def check_named(
    kernel: str,
    text: str,
    precision: str | Precision,
    variant: str,
    *,
    change: Callable[[Any], Any] = lambda tensors: tensors,
    seed: int = 0,
    rule: Rule = Rule.BN32,
    **options,
) -> tuple[KernelRun, int, int]:
    layer, widths = find_kernel(kernel).layer.parse(text), Precision.parse(str(precision))
    return check(layer, widths, variant, change(tensors_of(layer, widths, seed, rule)), **options)


TAKEN_BRANCH, JUMP = (1 + cost.cycles for cost in (Cost.TAKEN_BRANCH, Cost.JUMP))

CORNER = "4x4x32:64x3x3"
"""A sixteenth of the papers' layer: the same per pixel group but for the borders."""


@dataclass(frozen=True)
class Counted:
    run: KernelRun
    program: Program
    positions: NDArray[np.int64]

    def executions(self, chosen: NDArray[np.bool_]) -> int:
        return int(chosen[self.positions].sum())


@cache
def kernel(name: str, bits: int, text: str = CORNER) -> KernelRun:
    layer, precision = ConvLayer.parse(text), Precision.uniform(bits)
    return find_kernel("conv").build(layer, precision, name, tensors_of(layer, precision))


@cache
def counted(name: str, bits: int, text: str = CORNER) -> Counted:
    run = kernel(name, bits, text)
    call = kernel_call(run)
    return Counted(run, call.program, np.concatenate(list(executed(run, call, kernel_memory(run)))))


def load_uses(kernel: Counted) -> NDArray[np.bool_]:
    """Executed instructions that use the word that the one before loads."""
    program, positions = kernel.program, kernel.positions
    loaded = np.zeros(len(program), dtype=np.int64)
    reads = np.zeros((len(program), 32), dtype=np.bool_)
    for position, (insn, word) in enumerate(zip(program.insns, program.words.tolist(), strict=True)):
        values = insn.decode(word)
        loaded[position] = values["rd"] if insn.is_load else 0
        for name in insn.reads:
            reads[position, values["rs3" if name == "rd" and "rs3" in values else name]] = True
    before = loaded[positions[:-1]]
    return np.append(False, (before != 0) & reads[positions[1:], before])


def cycles(kernel: Counted, *regions: str) -> int:
    """Cycles on the core: one per instruction, taken branches, jumps, and uses of a value just loaded."""
    program, positions = kernel.program, kernel.positions
    taken = np.append(positions[1:] != positions[:-1] + 1, False)
    jumps = np.array([insn.is_jump for insn in program.insns])[positions]
    branches = np.array([insn.is_branch for insn in program.insns])[positions]
    cost = 1 + (branches & taken) * (TAKEN_BRANCH - 1) + jumps * (JUMP - 1) + load_uses(kernel)
    return int(cost[np.isin(np.array(program.regions), regions)[positions]].sum())
