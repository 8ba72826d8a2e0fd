"""``xpulpnn net explore``: choose bit widths for a floating-point model's layers by accuracy and cycles."""

from dataclasses import field
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from xpulpnn.config import ClusterConfig, CoreConfig
from xpulpnn.errors import InputError, require
from xpulpnn.isa.cluster import MAX_CORES
from xpulpnn_sim.cli.common import finish, pick, progress_bar, tell
from xpulpnn_sim.cli.configurations import Simulated, refuse
from xpulpnn_sim.cli.networks import Samples, write_network
from xpulpnn_sim.cli.options import Count, Json, Natural, NewFolder, Report, arguments, between, command, listed, rule
from xpulpnn_sim.cosimulation.networks.images import FORMS, Images, read_images
from xpulpnn_sim.exploration.widths.exploration import Exploration, explore_widths
from xpulpnn_sim.exploration.widths.page import front_table, write_widths_page
from xpulpnn_sim.exploration.widths.studied_model import StudiedModel
from xpulpnn_sim.exploration.widths.width_search import widths_text
from xpulpnn_sim.tools.named_table import TerminalTable
from xpulpnn_sw.networks.importers.onnx_file import OnnxModel, import_onnx
from xpulpnn_sw.networks.importers.onnx_operators import QUANTISERS
from xpulpnn_sw.networks.importers.registry import ImportOptions, importer_for

_KNOWN = ("8", "4", "2")
_PERCENT = 100

_IMAGES = Parameter(
    help=f"Labelled images: the first give the ranges of activations, those behind them decide: {FORMS}.",
    metavar="PATH",
)


@arguments
class NetExploreOptions(Simulated, Samples, Report, Json):
    model: Annotated[Path, Parameter(metavar="MODEL.onnx")] = field(kw_only=False)
    """The model, in floating point."""
    images: Annotated[Path, _IMAGES]
    labels: Path | None = None
    """IDX file with the classes of --images."""
    test: Path | None = None
    """Labelled images for the accuracies that are shown; they decide nothing (default: the rest of --images)."""
    test_labels: Path | None = None
    """IDX file with the classes of --test."""
    test_limit: Count | None = None
    """Only the first N images of --test."""
    calibrate: Count = 100
    """Number of images that determine the ranges of tensors."""
    decide: Count = 1000
    """Number of images after those of --calibrate; accuracy on these images decides."""
    trials: Count = 300
    """Assignments of bit widths to evaluate: all if there are not more, else those that a search chooses."""
    verify: Natural = 3
    """Points that are run on the design as whole networks, the chosen one first."""
    jobs: Count = 1
    """Processes side by side."""
    bits: Annotated[tuple[str, ...], listed(_KNOWN, "Widths to choose from")] = _KNOWN
    floor: Annotated[float | None, rule("0 to 100 percent", lambda value: 0 <= value <= _PERCENT, "PERCENT")] = None
    """Choose the fastest point that classifies so much of the images as labelled."""
    cores: Annotated[int | None, between(1, MAX_CORES)] = None
    """1 for one core by itself, more for a cluster (default 1, or the cluster of the preset)."""
    output: Annotated[NewFolder | None, Parameter(alias="-o")] = None
    """Write the networks of the front as net run reads them."""


@command("net explore")
def net_explore_command(options: NetExploreOptions) -> int:
    """
    xpulpnn net explore model.onnx --images labelled.npz --floor 98  # the fastest bits that are right often enough
    """
    refuse(options, ("test_labels", "test_limit") * (options.test is None), "must come with --test, not alone")
    config = options.with_cores(options.cores)
    bits = tuple(int(name) for name in options.bits)
    calibrating, deciding, test = _images(options)
    studied = _model(options, calibrating, deciding, config)
    space = studied.space(bits)
    classes = studied.described(space.uniform()[0]).classes
    for images in (deciding, test):
        images.checked_labels(classes)
    floor = 0.0 if options.floor is None else options.floor / _PERCENT
    limits = {**pick(options, "trials", "jobs"), "runs": options.verify}
    with progress_bar("assignments", min(len(space), options.trials)) as bar:

        def report_progress(known: int, runs: int) -> None:
            bar.describe(f"assignments, {runs} runs on the design")
            bar.reach(known)

        exploration = explore_widths(studied, space, test, floor=floor, progress=report_progress, **limits)
    _show(exploration, options.floor)
    files = _write_files(options, studied, exploration)
    tell(*files)
    record = exploration.record() | {"model": options.model.name, "files": files}
    return finish(options.json, record, good=not exploration.reports)


def _images(options: NetExploreOptions) -> tuple[Images, Images, Images]:
    given = read_images(options.images, options.labels)
    first, last = options.calibrate, options.calibrate + options.decide
    needed = last + (options.test is None)
    if len(given.samples) < needed:
        rest = "" if options.test is not None else ", and some for the test"
        raise InputError(
            f"--images must be {last} at least, {first} for ranges and {options.decide} that decide{rest}, "
            f"not {len(given.samples)}"
        )
    if options.test is None:
        test = given.section(last, None)
    else:
        test = read_images(options.test, options.test_labels).first(options.test_limit)
    if test.samples.shape[1:] != given.samples.shape[1:]:
        raise InputError(
            f"--test must be of the size of --images {given.samples.shape[1:]}, not {test.samples.shape[1:]}"
        )
    return given.first(first), given.section(first, last), test


def _model(
    request: NetExploreOptions, calibrating: Images, deciding: Images, config: CoreConfig | ClusterConfig
) -> StudiedModel:
    path: Path = request.model
    values = {"samples": request.bounds, "normalisation": request.normalisation, "images": calibrating.samples}
    options = ImportOptions(name=path.stem, **values)
    with importer_for(path) as reader:
        if not reader.importer.endswith(f".{import_onnx.__name__}"):
            raise InputError(f"model must be ONNX in floating point, not {reader.name}: {path}")
        model = OnnxModel.read(path)
        quantiser = next((node for node in model.nodes if node.operator in QUANTISERS), None)
        require(quantiser is None, f"model must be in floating point, not have a quantiser: {quantiser}")
        calibration = model.calibration(options)
    return StudiedModel(onnx=model, calibration=calibration, options=options, images=deciding, config=config)


def _show(exploration: Exploration, floor: float | None) -> None:
    tell(f"bits of weights/maps read, by layer: {', '.join(exploration.layers)}")
    tell(TerminalTable(front_table(exploration)))
    refused = [point for point in exploration.points if point.problem]
    if refused:
        tell(
            f"{len(refused)} of {len(exploration.points)} assignments cannot run on the design, such as "
            f"{widths_text(refused[0].widths)}: {refused[0].problem}"
        )
    tell(
        *exploration.reports,
        f"{len(exploration.points)} assignments evaluated; --quantise of net import takes their bits",
    )
    if floor is not None:
        chosen = "none has as much" if exploration.chosen is None else widths_text(exploration.chosen.widths)
        tell(f"fastest with {floor:g} % of the images that decide: {chosen}")


def _write_files(options: NetExploreOptions, studied: StudiedModel, exploration: Exploration) -> list[Path]:
    files: list[Path] = []
    if options.output is not None:
        for widths in (best.widths for best in exploration.best):
            name = f"{options.model.stem}_{widths_text(widths).replace(',', '_').replace('/', 'a')}"
            files += write_network(studied.described(widths, name), options.output / f"{name}.json")[:1]
    if options.report is not None:
        write_widths_page(options.report, options.model.name, exploration)
        files.append(options.report)
    return files
