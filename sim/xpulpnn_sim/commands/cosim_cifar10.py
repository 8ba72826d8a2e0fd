"""``xpulpnn cosim cifar10``: the CIFAR-10 network of the PULP-NN paper, layer by layer."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.cluster import MAX_CORES
from xpulpnn_sim.api.cosimulation import MOST_CYCLES
from xpulpnn_sim.commands import cosim_cluster
from xpulpnn_sim.commands.common import (
    FAILED,
    OK,
    comma_list,
    output,
    progress_bar,
    require_folder,
    require_writable,
    simulated_configuration,
    write_json,
)
from xpulpnn_sim.explorer.report.network_plots import write_network_plots
from xpulpnn_sim.harness.cifar10 import (
    WIDTHS,
    normalised,
    random_network,
    read_images,
    trained,
)
from xpulpnn_sim.harness.deployed_run import network_program
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.network_case import NetworkCase
from xpulpnn_sim.harness.network_run import run_network
from xpulpnn_sw.layout import Ints
from xpulpnn_sw.networks.network import Network

NAME = "cifar10"
HELP = "the CIFAR-10 network of the PULP-NN paper, all layers in one program"

_SHARED = (
    *("kernel", "preset", "settings", "exact", "no_check", "seed", "json", "bits", "cores", "grant_stalls"),
    *("l2_latency", "plot"),
)
_OPTIONS = ("network", "images")

_PAPER_CYCLES = 4_862_000
"""Of the PULP-NN paper, 8 bit, one core."""

_MILLION = 1e6
_KIB = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the network."""
    widths = ",".join(map(str, WIDTHS))
    group = parser.add_argument_group(
        NAME,
        f"With the kernel {NAME}, which always runs as a program on whole cores: random weights of --bits, out of "
        f"{widths} (default all; the first layer has 8), or",
    )
    group.add_argument(
        "--network",
        type=Path,
        metavar="FILE.npz",
        help="weights and biases of 8 bits: conv1, conv2, conv3 [out][ky][kx][in], ip1 [out][in], b1, b2, b3, bi",
    )
    group.add_argument(
        "--images", type=Path, metavar="DIR", help="classify these, 32x32 RGB in files NAME_LABEL.png, with --network"
    )


def refuse_its_options(arguments: argparse.Namespace) -> None:
    """Raise :class:`InputError` for options of this kernel with another."""
    for name in _OPTIONS:
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name} must be left out with {arguments.kernel}: it is for {NAME}")


def run(arguments: argparse.Namespace, usual: argparse.Namespace) -> int:
    """Run the network for every width or image; fails if a check does. ``usual`` are the arguments' defaults."""
    for name, value in vars(arguments).items():
        if name not in (*_SHARED, *_OPTIONS) and value != getattr(usual, name, value):
            raise InputError(f"--{name.replace('_', '-')} must be left out with {NAME}")
    require_writable(arguments.json)
    if arguments.plot is not None:
        require_folder(arguments.plot.parent, "--plot")
    cases, alike = _cases(arguments)
    for case, _ in cases:
        if isinstance(case.config, ClusterConfig):
            # before anything runs
            network_program(case, case.config)
    records: list[dict[str, Any]] = []
    console = output()
    with progress_bar("networks", len(cases)) as (progress, task):
        for case, label in cases:
            result = run_network(case)
            answer = {} if label is None else {"label": label, "answer": int(result.scores.argmax())}
            records.append(result.record | answer)
            progress.advance(task)
            for report in result.reports:
                console.print(f"{case.network.name}\n{report}\n", markup=False, soft_wrap=True)
    shown = records if arguments.images is None else records[:alike]
    for record in shown:
        console.print(_layers(record))
        console.print(_memory(record))
    console.print(_networks(records))
    if arguments.images is not None:
        answers = records[::alike]
        right = sum(record["label"] == record["answer"] for record in answers)
        console.print(f"{right} of {len(answers)} images classified as labelled")
    write_json(arguments.json, records)
    if arguments.plot is not None:
        write_network_plots(arguments.plot, shown)
    return FAILED if any(record["mismatches"] for record in records) else OK


def _cores(text: str) -> list[int]:
    known = tuple(str(count) for count in range(1, MAX_CORES + 1))
    return [int(name) for name in comma_list(text, known, "--cores")]


def _targets(arguments: argparse.Namespace) -> list[CoreConfig | ClusterConfig]:
    """The core alone, and the clusters of the numbers of cores asked for."""
    if arguments.cores is None:
        return [simulated_configuration(arguments)]
    cluster = cosim_cluster.configured(arguments)
    return [cluster.core if count == 1 else replace(cluster, cores=count) for count in _cores(arguments.cores)]


def _cases(arguments: argparse.Namespace) -> tuple[list[tuple[NetworkCase, int | None]], int]:
    """What to run, with the right answer where there is one; how many of them one after the other are alike."""
    if (arguments.network is None) != (arguments.images is None):
        given, missing = ("images", "network") if arguments.network is None else ("network", "images")
        raise InputError(f"--{given} must be given together with --{missing}, not by itself")
    if arguments.network is not None and arguments.bits is not None:
        raise InputError("--bits must be left out with --network")
    targets = _targets(arguments)
    inputs: list[tuple[Network, Ints, int | None]] = []
    if arguments.network is not None:
        network = trained(arguments.network)
        inputs += [(network, normalised(one.pixels), one.label) for one in read_images(arguments.images)]
    else:
        known = tuple(map(str, WIDTHS))
        for bits in known if arguments.bits is None else comma_list(arguments.bits, known, "--bits"):
            inputs.append((*random_network(int(bits), arguments.seed), None))
    cases = [
        (
            NetworkCase(
                network=network,
                image=image,
                config=target,
                machine=Machine(
                    grant_stalls=arguments.grant_stalls,
                    # a core alone has no other memory
                    l2_latency=arguments.l2_latency if isinstance(target, ClusterConfig) else 1,
                    seed=arguments.seed,
                    max_cycles=MOST_CYCLES,
                ),
                checked=not arguments.no_check,
            ),
            label,
        )
        for network, image, label in inputs
        for target in targets
    ]
    return cases, len(targets)


def _layers(record: dict[str, Any]) -> Table:
    """Cycles of the layers and what they are lost to."""
    layers = record["layers"]
    causes = [cause for cause in record["stalls"] if any(layer["stalls"][cause] for layer in layers)]
    title = f"{record['kernel']}: cycles, those without a retirement by cause"
    if record["cores"] > 1:
        title = (
            f"{record['kernel']}: cycles from barrier to barrier, those of all {record['cores']} cores without a "
            "retirement by cause"
        )
    table = Table(box=None, title=title, title_justify="left")
    for heading in ("layer", "size", "precision", "variant"):
        table.add_column(heading, no_wrap=True)
    for heading in ("cycles", "MAC", "MAC/cyc", *causes, "errors"):
        table.add_column(heading, justify="right", no_wrap=True)
    for layer in layers:
        table.add_row(
            *(layer[name] for name in ("name", "layer", "precision", "variant")),
            str(layer["cycles"]),
            *((str(layer["macs"]), f"{layer['macs_per_cycle']:.2f}") if layer["macs"] else ("-", "-")),
            *(str(layer["stalls"][cause]) for cause in causes),
            str(layer["mismatches"]),
        )
    return table


def _memory(record: dict[str, Any]) -> Table:
    """Memory and transfers of the layers, and of the steps before and after them."""
    is_cluster = "steps" in record
    title = "bytes in memory; DMA: bytes meanwhile, cycles of that, and those in which cores wait for it"
    table = Table(box=None, title=title if is_cluster else title.partition(";")[0], title_justify="left")
    table.add_column("layer", no_wrap=True)
    moved = ("TCDM in use", "DMA in", "DMA out", "moving", "waiting") if is_cluster else ()
    for heading in ("cycles", "weights", "results", *moved):
        table.add_column(heading, justify="right", no_wrap=True)
    layers = {layer["name"]: layer for layer in record["layers"]}
    for step in record["steps"] if is_cluster else record["layers"]:
        layer = layers.get(step["name"], {})
        table.add_row(
            step["name"],
            str(step["cycles"]),
            *(str(layer.get(name, "-")) for name in ("weight_bytes", "result_bytes")),
            *(str(step[name]) for name in ("tcdm_bytes", "loaded", "stored", "moving", "waiting") if is_cluster),
        )
    return table


def _networks(records: list[dict[str, Any]]) -> Table:
    table = Table(box=None)
    table.add_column("network", no_wrap=True)
    for heading in (
        "cores",
        "Mcycles",
        "speed-up",
        "MAC/cyc",
        "code KiB",
        "data KiB",
        "label",
        "answer",
        "errors",
        "Mcyc/s",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row(
        "PULP-NN paper, 8 bit", "1", f"{_PAPER_CYCLES / _MILLION:.3f}", "-", f"{records[0]['macs'] / _PAPER_CYCLES:.2f}"
    )
    alone = {record["kernel"]: record["cycles"] for record in records if record["cores"] == 1}
    for record in records:
        single = alone.get(record["kernel"])
        table.add_row(
            record["kernel"],
            str(record["cores"]),
            f"{record['cycles'] / _MILLION:.3f}",
            "-" if single is None else f"{single / record['cycles']:.2f}",
            f"{record['macs'] / record['cycles']:.2f}",
            *(f"{record[name] / _KIB:.1f}" for name in ("code_bytes", "data_bytes")),
            *(str(record.get(name, "-")) for name in ("label", "answer")),
            str(record["mismatches"]),
            f"{record['sim_cycles_per_s'] / _MILLION:.2f}",
        )
    return table
