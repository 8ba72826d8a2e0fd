"""``xpulpnn net run``: a network out of a file on the design, layer by layer."""

from dataclasses import field
from pathlib import Path
from typing import Literal

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.cli.network_report import Manner, NetworkRuns, run_networks, usable_processors
from xpulpnn_sim.cli.networks import ImageOptions
from xpulpnn_sim.cli.options import Count, Dask, Fresh, arguments, command
from xpulpnn_sim.cosimulation.model.machine import USUAL_L2_BYTES
from xpulpnn_sim.cosimulation.networks.job import NetworkTask
from xpulpnn_sim.exploration.library import load_library
from xpulpnn_sim.tools.dask_workers import require_dask
from xpulpnn_sw.networks.form import read_network
from xpulpnn_sw.networks.network import Described


@arguments
class NetRunOptions(NetworkRuns, ImageOptions, Dask, Fresh):
    """Options of the command; without images the input is random."""

    network: Path = field(kw_only=False)
    """The layers, FILE.json; their weights are in the npz file that it names."""
    l2_bytes: Count = USUAL_L2_BYTES
    """Size of the memory outside, or of that of one core, for code and data."""
    check: Literal["first", "all", "results", "none"] = "first"
    """Images of which every retirement is checked besides the results of every layer, which are of all: the first, all,
    or none, which is results too."""
    jobs: Count | None = None
    """Processes (default: processors that may be used)."""
    liberty: Path | None = None
    """Cell library for energies of the layers on one core: pieces of them at gate level, as in explore."""

    @property
    def l2_size(self) -> int:
        """Bytes of the memory outside, or of that of one core."""
        return self.l2_bytes


@command
def net_run_command(options: NetRunOptions) -> int:
    """Run the network for every image; fails if a check does."""
    described = read_network(options.network)
    task = _task(options, described)
    if options.dask:
        require_dask(options.dask)
    library = None
    if options.liberty is not None:
        if all(isinstance(one, ClusterConfig) for one in options.targets()):
            raise InputError("--liberty must come with one core among --cores, not with clusters alone")
        library = load_library(options.liberty)
    manner = Manner(
        check="none" if options.check == "results" else options.check,
        jobs=options.jobs or usable_processors(),
        dask=options.dask,
        fresh=options.fresh,
        library=library,
    )
    return run_networks(options, [task], manner)


def _task(options: NetRunOptions, described: Described) -> NetworkTask:
    """The images, with the right answers if these are known, or an input that is random."""
    images = options.read()
    if images is None:
        return NetworkTask(network=described.network, inputs=described.random_input(options.seed)[None])
    return NetworkTask(
        network=described.network,
        inputs=described.batch(images.samples),
        labels=None if images.labels is None else images.known(described.classes),
        classes=described.labels,
        samples=images.samples,
    )
