"""``xpulpnn verify kernels``: run every kernel, variant, precision and rule on small layers."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated

from xpulpnn.config import PRESETS, CoreConfig
from xpulpnn.errors import require
from xpulpnn_sim.api.kernel_sweep import Combination, SweepResult, combinations, run_combinations, select_pass
from xpulpnn_sim.cli.common import Columns, finish, interruptible, plain, progress_bar, record_table, tell
from xpulpnn_sim.cli.configurations import Settings
from xpulpnn_sim.cli.options import Count, Fresh, Jobs, Json, Seed, arguments, command, listed
from xpulpnn_sim.cosimulation.model.libraries import model_library, simulated
from xpulpnn_sim.tools.jobs import executor
from xpulpnn_sim.tools.results import cached_results, digest, sources_digest
from xpulpnn_sw.kernels.catalogue import KERNELS

_BATCH = 64  # combinations per batch; their layers share programs

_COLUMNS: Columns = {
    **plain("kernel"),
    "combinations": "{[combinations]:,}",
    "layers": "{[layers]:,}",
    "refused": lambda record: sum(record["refused"].values()),
    "Mcycles": lambda record: f"{record['cycles'] / 1e6:.1f}",
    "errors": "{[wrong]}",
}


@arguments
class KernelSweepOptions(Settings, Fresh, Seed, Jobs, Json):
    kernel: Annotated[tuple[str, ...], listed(tuple(KERNELS), "Kernels; repeatable")] = tuple(KERNELS)
    preset: Annotated[tuple[str, ...], listed(tuple(PRESETS), "Cores, of which the first that can runs a kernel")] = (
        tuple(PRESETS)
    )
    passes: Count = 1
    """Passes over all combinations, each with other signs and channels; --seed is the number of the first."""
    every: Count = 1
    """Run one in N combinations, in each pass others."""

    @property
    def cores(self) -> list[CoreConfig]:
        return [simulated(self.of_preset(name).core) for name in self.preset]


@command("verify kernels")
def verify_kernels_command(options: KernelSweepOptions) -> int:
    """
    xpulpnn verify kernels --every 100  # one in a hundred combinations
    xpulpnn verify kernels --kernel pointwise --preset xpulpnn3 --passes 2  # all of a kernel on one core, twice
    """
    known_combinations = list(combinations(options.kernel, options.cores))
    require(known_combinations, "--kernel must be one that a core of --preset can run")
    batches = list(_batches(known_combinations, options))
    store = cached_results("kernels")
    if options.fresh:
        store.remove()
    totals, numbers, done = {name: SweepResult() for name in options.kernel}, dict.fromkeys(options.kernel, 0), 0
    waiting = [(digest(sources_digest(), batch, number), batch, number) for batch, number in batches]
    known = {name: value for name, *_ in waiting if (value := store.find(name)) is not None}
    left = [entry for entry in waiting if entry[0] not in known]
    with progress_bar("kernels", len(waiting)) as bar, interruptible() as stop, executor(options.jobs) as pool:
        for config in dict.fromkeys(batch[0].config for _, batch, _ in left):
            model_library("core", config)
        results = pool.map(run_combinations, *([entry[place] for entry in left] for place in (1, 2)))
        for name, batch, _ in waiting:
            result = SweepResult(**known[name]) if name in known else next(results)
            store.store(name, asdict(result))
            tell(*result.reports)
            totals[batch[0].kernel].merge(result)
            numbers[batch[0].kernel] += len(batch)
            done += 1
            bar.advance()
    records = [{"kernel": name, "combinations": numbers[name], **asdict(total)} for name, total in totals.items()]
    tell(record_table(_COLUMNS, records))
    if not stop.interrupted:
        store.remove()
    good = not any(record["wrong"] for record in records)
    return finish(options.json, records, good=good, stop=stop, done=f"{done} of {len(waiting)} parts")


def _batches(
    chosen: Sequence[Combination], options: KernelSweepOptions
) -> Iterator[tuple[tuple[Combination, ...], int]]:
    for number in range(options.seed, options.seed + options.passes):
        groups: dict[tuple[str, CoreConfig], list[Combination]] = {}
        for combination in select_pass(chosen, number)[number % options.every :: options.every]:
            groups.setdefault((combination.kernel, combination.config), []).append(combination)
        for group in groups.values():
            for start in range(0, len(group), _BATCH):
                yield tuple(group[start : start + _BATCH]), number
