"""Runs of networks for the command line: targets, progress, tables of layers, memory and whole networks."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.table import Table

from xpulpnn.config import CLUSTER_PRESETS, ClusterConfig, CoreConfig
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
from xpulpnn_sim.harness.deployed_run import network_program
from xpulpnn_sim.harness.machine import Machine
from xpulpnn_sim.harness.network_case import NetworkCase
from xpulpnn_sim.harness.network_run import run_network
from xpulpnn_sw.layout import Ints
from xpulpnn_sw.networks.network import Network

_MILLION = 1e6
_KIB = 1024

Labelled = tuple[Network, Ints, int | None]
"""A network, an input, and its class if that is known."""


def require_outputs(arguments: argparse.Namespace) -> None:
    """Raise :class:`~xpulpnn.errors.InputError` unless what is asked for can be written."""
    require_writable(arguments.json)
    if arguments.plot is not None:
        require_folder(arguments.plot.parent, "--plot")


def targets(arguments: argparse.Namespace) -> list[CoreConfig | ClusterConfig]:
    """The core alone, and the clusters of the numbers of cores asked for; else what the preset describes."""
    if arguments.cores is None:
        is_cluster = arguments.preset in CLUSTER_PRESETS
        return [cosim_cluster.configured(arguments) if is_cluster else simulated_configuration(arguments)]
    known = tuple(str(count) for count in range(1, MAX_CORES + 1))
    counts = [int(name) for name in comma_list(arguments.cores, known, "--cores")]
    cluster = cosim_cluster.configured(arguments)
    return [cluster.core if count == 1 else replace(cluster, cores=count) for count in counts]


def run_networks(
    arguments: argparse.Namespace,
    inputs: Sequence[Labelled],
    chosen: Sequence[CoreConfig | ClusterConfig],
    paper_cycles: int | None = None,
) -> int:
    """Run every input on every target, and show and write what came of it; fails if a check does.

    Of several inputs of the same network the layers of the first are shown. ``paper_cycles`` are those of a row above
    ours. Raises :class:`~xpulpnn.errors.LayerError` before anything runs if a network does not fit into a cluster.
    """
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
        for target in chosen
    ]
    for case, _ in cases:
        if isinstance(case.config, ClusterConfig):
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
    # by kernel and cores, the last of which is the first that was run
    shown = list({(record["kernel"], record["cores"]): record for record in reversed(records)}.values())[::-1]
    for record in shown:
        console.print(_layers(record))
        console.print(_memory(record))
    console.print(_networks(records, paper_cycles))
    answers = [record for record in records[:: len(chosen)] if "label" in record]
    if answers:
        right = sum(record["label"] == record["answer"] for record in answers)
        console.print(f"{right} of {len(answers)} images classified as labelled")
    write_json(arguments.json, records)
    if arguments.plot is not None:
        write_network_plots(arguments.plot, shown)
    return FAILED if any(record["mismatches"] for record in records) else OK


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
            *(layer[name] for name in ("name", "layer", "precision")),
            f"{layer['variant']}{', folded' * layer['folded']}",
            str(layer["cycles"]),
            *((str(layer["macs"]), f"{layer['macs_per_cycle']:.2f}") if layer["macs"] else ("-", "-")),
            *(str(layer["stalls"][cause]) for cause in causes),
            str(layer["mismatches"]),
        )
    return table


def _memory(record: dict[str, Any]) -> Table:
    """Memory and transfers of the layers, and of the steps before and after them."""
    is_cluster = "steps" in record
    title = "bytes in memory" + (" and moved by DMA; cycles of moving, and of waiting for it" if is_cluster else "")
    table = Table(box=None, title=title, title_justify="left")
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


def _networks(records: list[dict[str, Any]], paper_cycles: int | None) -> Table:
    """The networks as a whole."""
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
    if paper_cycles is not None:
        rate = f"{records[0]['macs'] / paper_cycles:.2f}"
        table.add_row("PULP-NN paper, 8 bit", "1", f"{paper_cycles / _MILLION:.3f}", "-", rate)
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
