"""Many small kernels as one program of a core, so that the simulation starts only once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xpulpnn.config import CoreConfig
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.model.session import RunResult
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, case_kernel, case_tensors, reference
from xpulpnn_sim.cosimulation.workloads.workload import Comparison, Result, Workload, executable_of
from xpulpnn_sw.kernels.kernel import ARGUMENTS, BUFFERS, OUTPUT, STACK, KernelRun, series
from xpulpnn_sw.kernels.programs.bare import bare_program

_WRITABLE = {OUTPUT, *BUFFERS, ARGUMENTS, STACK}
_MOST_CODE = 900_000  # most bytes of kernels in a program, within the reach of a jump


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class SharedCase:
    """A kernel divided among ``cores`` cores. Here a single core computes all parts one after the other."""

    case: Case
    cores: int
    kernel: KernelRun
    tensors: Any

    @property
    def name(self) -> str:
        case, rule = self.case, self.kernel.rule
        words = [case.name, "" if rule is None else rule.value, "specialised" if case.specialise else ""]
        return " ".join(filter(None, [*words, f"in {self.cores} shares" if self.cores > 1 else ""]))


def shared_case(case: Case, cores: int) -> SharedCase:
    """Build the kernel of a case for ``cores`` cores; raises :class:`LayerError` if there is none."""
    tensors = case_tensors(case)
    return SharedCase(case=case, cores=cores, kernel=case_kernel(case, tensors, cores), tensors=tensors)


class KernelSeries(Workload):
    def __init__(self, cases: Sequence[SharedCase], config: CoreConfig) -> None:
        self._cases = cases
        self._series = series([shared.kernel for shared in cases], [shared.cores for shared in cases])
        function = self._series.function
        executable = executable_of(bare_program(function), function.name)
        super().__init__(config, Machine(), executable, macs=function.macs, checked=False)

    def compared(self, outcome: RunResult) -> Iterator[Comparison]:
        base = self._series.function.image.base
        memory = outcome.memory[base]
        for shared, address in zip(self._cases, self._series.addresses, strict=True):
            image = shared.kernel.image
            data = memory[address - base : address - base + image.data.size]
            expected = reference(shared.case.layer, shared.tensors, shared.case.precision)
            yield Comparison.of(f"{shared.name}: output", expected, shared.kernel.output.decode(image, data))
            for symbol in {*image.symbols} - _WRITABLE:
                yield Comparison.of(f"{shared.name}: {symbol}", image.view(symbol), image.view(symbol, data))

    def figures(self, outcome: RunResult, compared: Sequence[Comparison]) -> dict[str, Any]:
        return {"cycles": outcome.cycles, "stopped": not outcome.exit.ok}


def run_series(cases: Sequence[SharedCase], config: CoreConfig) -> Iterator[tuple[Sequence[SharedCase], Result]]:
    """Run the kernels in as many programs as they need. A program that is aborted is split until it has one kernel."""
    code = sum(shared.kernel.function.words.nbytes for shared in cases)
    if code <= _MOST_CODE or len(cases) == 1:
        result = KernelSeries(cases, config).run()
        if len(cases) == 1 or not result.record["stopped"]:
            yield cases, result
            return
    for part in (cases[: len(cases) // 2], cases[len(cases) // 2 :]):
        yield from run_series(part, config)
