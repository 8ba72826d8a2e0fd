"""``xpulpnn cosim bnn``, ``cifar10`` and ``ulppack``: workloads of other papers, beside their figures."""

from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter

from xpulpnn.config import BOTH_FORMS, ClusterConfig, CoreConfig
from xpulpnn.errors import InputError, require
from xpulpnn_sim.api.cosimulation import MOST_CYCLES
from xpulpnn_sim.api.packed_sweeps import SWEEPS, USUAL_MATMUL, USUAL_PAIRS, SweepRequest, sweep_points
from xpulpnn_sim.cli.common import Columns, finish, pick, plain, quotient, record_table, run_results, table, tell
from xpulpnn_sim.cli.configurations import CoreCounts, GrantStalls, Simulated
from xpulpnn_sim.cli.network_runs import NetworkRuns, run_networks
from xpulpnn_sim.cli.options import Count, Jobs, Json, Preset, Report, Seed, arguments, command, listed
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.networks.images import read_images
from xpulpnn_sim.cosimulation.networks.job import NetworkTask
from xpulpnn_sim.cosimulation.workloads import cifar10
from xpulpnn_sim.cosimulation.workloads.bnn_run import HARDWARE, POPCOUNTS, SOFTWARE, BnnCase, run_bnn
from xpulpnn_sim.cosimulation.workloads.packed_products import run_sweep_points
from xpulpnn_sim.exploration.report.packed_tables import bytes_cycles, sweep_tables, write_packed_tables
from xpulpnn_sim.tools.named_table import TerminalTable
from xpulpnn_sw.kernels.bnn.classifier import CLASSIFIER_VARIANTS
from xpulpnn_sw.kernels.ulppack.packing import ISAS
from xpulpnn_sw.layers.layer import MatmulLayer

_WIDTHS = tuple(str(bits) for bits in range(1, 9))
_PAIRS = " ".join(f"W{w}A{a}" for w, a in USUAL_PAIRS)
_WEIGHTS = Parameter(help=f"Bits of the weights, 1 to 8 (default, with all: {_PAIRS}).")


@arguments
class UlppackOptions(Simulated, GrantStalls, Seed, Jobs, Report, Json):
    preset: Preset = BOTH_FORMS
    weights: Annotated[tuple[str, ...], listed(_WIDTHS), _WEIGHTS] = ()
    activations: Annotated[tuple[str, ...], listed(_WIDTHS)] = ()
    """Bits of the activations, combined with all --weights."""
    matmul: Annotated[str, Parameter(metavar="MxKxP")] = USUAL_MATMUL
    """Channels, reduction length, pixels."""
    isa: Annotated[tuple[str, ...], listed(ISAS, "Instruction sets")] = ISAS
    scheme: str | None = None
    """P1, P2, or with the register's bits, such as P2-16."""
    depth: Count | None = None
    """Elements packed into one operand (default the best)."""
    iterations: Annotated[Count | None, Parameter(name="--iter")] = None
    """Products added up before the result is taken out (default the most)."""
    block: Annotated[str | None, Parameter(metavar="MxP")] = None
    """Channels x pixels computed together (default the best)."""
    signed: bool = False
    """Signed weights, stored with an offset."""
    sweep: Annotated[tuple[str, ...], listed(tuple(SWEEPS), "Instead of the table, or with it")] = ("table",)
    check: Literal["results", "all"] = "all"
    """Comparison: the results in memory, or every instruction too."""

    @property
    def request(self) -> SweepRequest:
        if bool(self.weights) != bool(self.activations):
            raise InputError("--weights must be given together with --activations, not by itself")
        chosen = pick(self, "scheme", "depth", "iterations", "block", "signed")
        pairs = [(int(w), int(a)) for w in self.weights for a in self.activations]
        return SweepRequest(layer=MatmulLayer.parse(self.matmul), pairs=pairs, isas=self.isa, **chosen)


@command("cosim ulppack")
def cosim_ulppack_command(options: UlppackOptions) -> int:
    """
    xpulpnn cosim ulppack  # products of packed operands, bit-serial and ordinary ones side by side
    xpulpnn cosim ulppack --weights 3 --activations 3 --signed --isa xpulpv2  # one pair of widths
    xpulpnn cosim ulppack --sweep all --report build/ulppack.html  # the maps and curves of the ULPPACK paper
    """
    config, everything = options.simulated_core, sweep_points(options.sweep, options.request)
    points = [point for point in everything if point.runs_on(config)]
    if not points:
        raise InputError("--isa must be one that the configuration can run, not " + ",".join(options.isa))
    machine = Machine.of(options, max_cycles=MOST_CYCLES)
    results = run_sweep_points(points, config, machine, check=options.check == "all", jobs=options.jobs)
    name = "W{0[weights]}A{0[activations]} {0[isa]} {0[product]} {0[scheme]} {0[depth]}".format
    records = [result.record for result in run_results("products", results, len(points), name)]
    if "table" in options.sweep:
        tell(_packed_table([record for record in records if record["sweep"] == "table"]))
    for sweep in sweep_tables(records):
        rows = ((cell or "-" for cell in row) for row in sweep.rows)
        tell(f"\n{sweep.title}", table((column.name for column in sweep.columns), rows))
    if options.report is not None:
        write_packed_tables(options.report, records)
    wrong = sum(bool(record["mismatches"]) for record in records)
    missing = len(everything) - len(points)
    left_out = f"; {missing} left out, for which the configuration lacks instructions" if missing else ""
    tell(f"{len(records)} products, {wrong} wrong{left_out}")
    return finish(options.json, records, good=not wrong)


def _packed_table(records: list[dict[str, Any]]) -> TerminalTable:
    base = bytes_cycles(records)

    def faster(record: dict[str, Any]) -> str:
        alone = base.get((record["isa"], record["matmul"]))
        return "-" if alone is None or record["kind"] == "bytes" else f"{alone / record['cycles']:.2f}x"

    columns: Columns = {
        "bits": "W{0[weights]}A{0[activations]}",
        **plain("isa", "product"),
        "packing": lambda record: record["scheme"] or record["kind"],
        **plain("depth"),
        "iter": lambda record: record["iterations"] if record["kind"] == "ulppack" else "-",
        **plain("block", "cycles"),
        "cyc/MAC": "{[cycles_per_mac]:.4f}",
        "packed too": "{[cycles_per_mac_with_packing]:.4f}",
        "faster": faster,
        "errors": "{[mismatches]}",
    }
    title = (
        "cycles per MAC without and with the packing of the activations; faster: than bytes of the same instruction "
        "set, without"
    )
    return record_table(columns, records, title=title)


_PAPER_CYCLES = 4_862_000  # PULP-NN paper, 8 bit, one core


@arguments
class Cifar10Options(NetworkRuns, Jobs):
    preset: Preset = BOTH_FORMS
    bits: Annotated[
        tuple[str, ...],
        listed(tuple(map(str, cifar10.WIDTHS)), "Widths of random weights (default all; the first layer has 8)"),
    ] = ()
    network: Path | None = None
    """Weights and biases of 8 bits, FILE.npz: conv1, conv2, conv3 [out][ky][kx][in], ip1 [out][in], b1, b2, b3, bi."""
    images: Path | None = None
    """Classify these, 32x32 RGB in files NAME_LABEL.png of a folder, with --network."""
    check: Literal["results", "all"] = "all"
    """Comparison: the results of every layer, or every instruction too."""


@command("cosim cifar10")
def cosim_cifar10_command(options: Cifar10Options) -> int:
    """
    xpulpnn cosim cifar10 --bits 8+4  # the CIFAR-10 network layer by layer, random weights
    xpulpnn cosim cifar10 --bits 8 --cores 1,8 --report build/net.html  # shared by eight cores; its memory
    """
    if (options.network is None) != (options.images is None):
        given, missing = ("images", "network") if options.network is None else ("network", "images")
        raise InputError(f"--{given} must be given together with --{missing}, not by itself")
    require(options.network is None or not options.bits, "--bits must be left out with --network")
    check = "all" if options.check == "all" else "none"
    return run_networks(options, _tasks(options), check=check, paper_cycles=_PAPER_CYCLES, jobs=options.jobs)


def _tasks(options: Cifar10Options) -> list[NetworkTask]:
    if options.network is not None and options.images is not None:
        network = cifar10.trained_network(options.network)
        images = read_images(options.images)
        if images.samples.shape[1:] != cifar10.IMAGE:
            sizes = ["x".join(map(str, shape)) for shape in (cifar10.IMAGE, images.samples.shape[1:])]
            raise InputError(f"images must be {sizes[0]}, not {sizes[1]}, in {options.images}")
        labels, samples = images.checked_labels(cifar10.CLASSES), images.samples
        inputs = cifar10.normalised_images(samples)
        return [NetworkTask(network=network, inputs=inputs, labels=labels, samples=samples)]
    drawn = (cifar10.random_network(int(bits), options.seed) for bits in options.bits or cifar10.WIDTHS)
    return [NetworkTask(network=network, inputs=image[np.newaxis]) for network, image in drawn]


_WINDOW, _CRUMBS = "window", "crumbs"  # the variant for one core only, and the variant that needs `p.cnt`
_PAPER_CLASSIFIER = {SOFTWARE: (84_078_092, 86.5e6), HARDWARE: (37_830_833, 38.9e6)}
"""Instructions, and cycles (seconds at 33 MHz), of the paper's classifier with software or hardware bit counts."""

_PAPER_OPERATIONS = 3_302_048, 2_553_032  # compared words and binarised values of the paper's classifier
_MILLION = 1e6


@arguments
class BnnOptions(Simulated, GrantStalls, Seed, Json):
    preset: Preset = BOTH_FORMS
    variant: Annotated[tuple[str, ...], listed(tuple(CLASSIFIER_VARIANTS))] = ()
    """Bits of a word: window, a receptive field of one channel, as in the paper; dense, 32 channels; crumbs, as dense,
    but two bits per channel in the second convolution (default all, with --cores all but window)."""
    popcount: Annotated[tuple[str, ...], listed(POPCOUNTS)] = ()
    """Count of bits, by hardware or software (default all, with --cores hardware)."""
    cores: CoreCounts = ()
    """Run on clusters of so many cores; 1 and without it one core by itself."""
    check: Literal["results", "all"] = "all"
    """Comparison: the results in memory, or every instruction too."""


@command("cosim bnn")
def cosim_bnn_command(options: BnnOptions) -> int:
    """
    xpulpnn cosim bnn --popcount hardware --cores 1,8  # the binarised vehicle classifier, then shared by eight cores
    """
    core, checked = options.simulated_core, options.check == "all"
    machine = Machine.of(options, max_cycles=MOST_CYCLES)
    targets = [
        ClusterConfig(core=core, cores=int(count)) if count != "1" else core for count in options.cores or ("1",)
    ]
    cases = [
        BnnCase(variant=variant, popcount=popcount, config=target, machine=machine, checked=checked)
        for variant, popcount in _runnable(_ways(options), core, is_open=not options.variant)
        for target in targets
    ]
    name = "{0[variant]}, {0[popcount]} popcount, {0[cores]} cores".format
    records = [result.record for result in run_results("classifications", map(run_bnn, cases), len(cases), name)]
    tell(_classifier_table(records))
    return finish(options.json, records, good=not any(record["mismatches"] for record in records))


def _ways(options: BnnOptions) -> list[tuple[str, str]]:
    alone = not options.cores
    variants = options.variant or [name for name in CLASSIFIER_VARIANTS if alone or name != _WINDOW]
    if not alone and _WINDOW in variants:
        raise InputError(f"--variant must be without {_WINDOW} with --cores: its maps do not fit into the TCDM")
    popcounts = options.popcount or (POPCOUNTS if alone else POPCOUNTS[:1])
    ways = [way for way in product(variants, popcounts) if way != (_CRUMBS, SOFTWARE)]
    require(ways, f"--popcount must be {HARDWARE} with {_CRUMBS}, not {SOFTWARE}")
    return ways


def _runnable(ways: list[tuple[str, str]], core: CoreConfig, *, is_open: bool) -> list[tuple[str, str]]:
    runnable = [way for way in ways if CLASSIFIER_VARIANTS[way[0]] <= core.extensions]
    if runnable and (is_open or len(runnable) == len(ways)):
        return runnable
    variant = next(way[0] for way in ways if way not in runnable)
    missing = min(extension.value for extension in CLASSIFIER_VARIANTS[variant] - core.extensions)
    raise InputError(f"variant must be one that the configuration can run, not {variant} (needs {missing})")


def _classifier_table(records: list[dict[str, Any]]) -> TerminalTable:
    way_of = itemgetter("variant", "popcount")
    layers = [name for name in records[0]["layers"] if name != "setup"]
    title = "millions of instructions and cycles; layers: of core 0; paper: its cycles over ours"
    alone = {way_of(record): record["cycles"] for record in records if record["cores"] == 1}
    rows: list[list[Any]] = []
    for popcount, (instructions, cycles) in _PAPER_CLASSIFIER.items():
        blank = [""] * (len(layers) + 3)
        rows.append(["paper", popcount, 1, *_millions(instructions, *_PAPER_OPERATIONS, cycles), *blank])
    for record in records:
        paper, cycles = _PAPER_CLASSIFIER[record["popcount"]][1], record["cycles"]
        figures = _millions(record["instructions"], *record["operations"].values(), cycles)
        ratios = quotient(paper, cycles), quotient(alone.get(way_of(record)), cycles)
        by_layer = _millions(*(record["layers"][name] for name in layers), digits=3)
        rows.append([*way_of(record), record["cores"], *figures, *ratios, *by_layer, record["mismatches"]])
    headings = ("variant", "popcount", "cores", "Minsn", "Mxor", "Mcompare", "Mcycles", "paper", "speed-up")
    return table((*headings, *layers, "errors"), rows, title=title)


def _millions(*figures: float, digits: int = 2) -> list[str]:
    return [f"{figure / _MILLION:.{digits}f}" for figure in figures]
