"""Many small kernels as one program of a core, so that starting a simulation takes no time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.model.session import RunResult
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, case_tensors, reference
from xpulpnn_sim.cosimulation.workloads.workload import Compared, Result, Workload, executable_of
from xpulpnn_sw.kernels.catalogue import kernel_of
from xpulpnn_sw.kernels.kernel import ARGUMENTS, BUFFERS, OUTPUT, STACK, KernelRun
from xpulpnn_sw.kernels.programs.bare import bare_program
from xpulpnn_sw.kernels.series import series
from xpulpnn_sw.kernels.tensors import for_core

_WRITABLE = {OUTPUT, *BUFFERS, ARGUMENTS, STACK}
_MOST_CODE = 900_000  # bytes of kernels in a program, which one jump must reach


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class SharedCase:
    """A kernel that a core computes by calls for all ``cores`` that might share it."""

    case: Case
    cores: int
    kernel: KernelRun
    tensors: Any

    @property
    def name(self) -> str:
        """Everything that tells it from other kernels."""
        case, rule = self.case, self.kernel.rule
        words = [case.name, "" if rule is None else rule.value, "specialised" if case.specialise else ""]
        return " ".join(filter(None, [*words, f"in {self.cores} shares" if self.cores > 1 else ""]))


def shared_case(case: Case, cores: int) -> SharedCase:
    """The kernel of a case, with room for ``cores``; raises :class:`LayerError` if there is none."""
    tensors = case_tensors(case)
    kernel = kernel_of(case.layer).build(
        case.layer,
        case.precision,
        case.variant,
        for_core(tensors, case.precision, case.config.core.extensions),
        cores=cores,
        specialise=case.specialise,
    )
    return SharedCase(case=case, cores=cores, kernel=kernel, tensors=tensors)


class KernelSeries(Workload):
    """Kernels that a core computes one after the other."""

    def __init__(self, cases: Sequence[SharedCase], config: CoreConfig) -> None:
        self._cases, self._series = cases, series([one.kernel for one in cases], [one.cores for one in cases])
        function = self._series.function
        executable = executable_of(bare_program(function), function.name)
        super().__init__(config, Machine(), executable, macs=function.macs, checked=False)

    def compared(self, outcome: RunResult) -> Iterator[Compared]:
        """Compare the results with the reference layers, and all other operands with what they were."""
        base = self._series.function.image.base
        memory = outcome.memory[base]
        for one, address in zip(self._cases, self._series.addresses, strict=True):
            image = one.kernel.image
            data = memory[address - base : address - base + image.data.size]
            expected = reference(one.case.layer, one.tensors, one.case.precision)
            yield Compared.of(f"{one.name}: output", expected, one.kernel.output.decode(image, data))
            for symbol in {*image.symbols} - _WRITABLE:
                yield Compared.of(f"{one.name}: {symbol}", image.view(symbol), image.view(symbol, data))

    def figures(self, outcome: RunResult, compared: Sequence[Compared]) -> dict[str, Any]:
        """Return the cycles of the whole program, and whether something has stopped it."""
        return {"cycles": outcome.cycles, "stopped": not outcome.exit.ok}


def run_series(cases: Sequence[SharedCase], config: CoreConfig) -> Iterator[tuple[Sequence[SharedCase], Result]]:
    """Run the kernels in as many programs as they need; one that does not end well is cut until a kernel is alone."""
    code = sum(one.kernel.function.words.nbytes for one in cases)
    if code <= _MOST_CODE or len(cases) == 1:
        result = KernelSeries(cases, config).run()
        if len(cases) == 1 or not result.record["stopped"]:
            yield cases, result
            return
    for part in (cases[: len(cases) // 2], cases[len(cases) // 2 :]):
        yield from run_series(part, config)
