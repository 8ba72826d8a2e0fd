"""Many kernels as one function for a single core, which computes the parts of all cores one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import TEXT_BASE, WORD_BYTES
from xpulpnn_sw.kernels.builder import ZERO, Builder, Label
from xpulpnn_sw.kernels.frame import ARGUMENTS_POINTER, CORE, CORES, RA, SP, STACK_ALIGNMENT
from xpulpnn_sw.kernels.kernel import ARGUMENTS, STACK, Function, KernelRun, finished_function
from xpulpnn_sw.kernels.layout import ImageBuilder, Program, joined_programs

_ALIGNMENT = 256  # largest alignment of an operand in bytes


def with_functions(b: Builder, names: Sequence[str], labels: Sequence[Label], functions: Sequence[Program]) -> Program:
    """Return the code of ``b`` followed by the functions: function i at ``labels[i]``, in the region ``names[i]``."""
    position = b.position
    for label, function in zip(labels, functions, strict=True):
        label.position = position
        position += len(function)
    regions = [
        replace(function, regions=(name,) * len(function)) for name, function in zip(names, functions, strict=True)
    ]
    joined = joined_programs([b.finish(), *regions])
    pcs = np.arange(len(joined), dtype=np.uint32) * np.uint32(WORD_BYTES) + np.uint32(TEXT_BASE)
    return replace(joined, pcs=pcs)


@dataclass(frozen=True, eq=False, kw_only=True)
class Series:
    function: Function
    runs: Sequence[KernelRun]
    addresses: Sequence[int]  # start of the operands of each kernel


def series(runs: Sequence[KernelRun], cores: Sequence[int]) -> Series:
    """Return a function that calls each kernel once for each of its ``cores``; all code must be in reach of a jump."""
    memory, addresses = ImageBuilder(), list[int]()
    b = Builder(TEXT_BASE, xpulp=False)
    b("addi", SP, SP, -STACK_ALIGNMENT)
    b("sw", RA, 0, SP)
    labels = [Label() for _ in runs]
    for number, (run, label, count) in enumerate(zip(runs, labels, cores, strict=True)):
        image = run.image
        data = image.data[: image.symbols[STACK].address - image.base].copy()
        address = memory.reserve(f"kernel{number}", 0, alignment=_ALIGNMENT)
        places = {name: address + symbol.address - image.base for name, symbol in image.symbols.items()}
        image.view(ARGUMENTS, data)[:] = np.array(run.relocated_arguments(places), np.uint32).view(np.uint8)
        memory.place(f"operands{number}", data.tobytes())
        addresses.append(address)
        for core in range(count):
            for register, value in ((ARGUMENTS_POINTER, places[ARGUMENTS]), (CORE, core), (CORES, count)):
                b.li(register, value)
            b.jump(label, link=RA)
    b("lw", RA, 0, SP)
    b("addi", SP, SP, STACK_ALIGNMENT)
    b("jalr", ZERO, 0, RA)
    function = finished_function(
        memory,
        (),
        {},
        cores=1,
        name="series",
        function=with_functions(b, [run.name for run in runs], labels, [run.function for run in runs]),
        extensions=frozenset[Extension]().union(*(run.extensions for run in runs)),
        output=runs[-1].output,
        macs=sum(run.layer.macs for run in runs),
    )
    return Series(function=function, runs=runs, addresses=addresses)
