"""``xpulpnn net explore``: bits of the layers of a model in floating point, by accuracy and cycles."""

import argparse
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from xpulpnn.config import CLUSTER_PRESETS, ClusterConfig, CoreConfig
from xpulpnn.errors import InputError
from xpulpnn.isa.cluster import MAX_CORES
from xpulpnn_sim.commands import cosim_cluster
from xpulpnn_sim.commands.common import (
    FAILED,
    OK,
    add_configuration,
    add_exact,
    add_json,
    comma_list,
    output,
    progress_bar,
    require_folder,
    require_writable,
    simulated_configuration,
    write_json,
)
from xpulpnn_sim.commands.network_samples import add_samples, normalisation_of, samples_of
from xpulpnn_sim.files import write_bytes, write_text
from xpulpnn_sim.images import FORMS, Images, read_images
from xpulpnn_sim.widths.exploration import Best, Exploration, Settings, explore
from xpulpnn_sim.widths.page import write_page
from xpulpnn_sim.widths.point import Assignment, text_of
from xpulpnn_sim.widths.subject import Subject
from xpulpnn_sim.widths.workers import workers
from xpulpnn_sw.importers.onnx_file import OnnxModel, import_onnx
from xpulpnn_sw.importers.onnx_operators import QUANTISERS
from xpulpnn_sw.importers.options import ImportOptions
from xpulpnn_sw.importers.registry import packages_for
from xpulpnn_sw.networks.form import written

_KNOWN = ("8", "4", "2")
_KIB = 1024
_MILLION = 1e6
_PERCENT = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the action."""
    parser.add_argument("model", type=Path, metavar="MODEL.onnx", help="the model, in floating point")
    parser.add_argument(
        "--images",
        type=Path,
        metavar="PATH",
        required=True,
        help=f"labelled images: the first give the ranges of activations, those behind them decide: {FORMS}",
    )
    parser.add_argument("--labels", type=Path, metavar="FILE", help="IDX file with the classes of --images")
    parser.add_argument(
        "--test",
        type=Path,
        metavar="PATH",
        help="labelled images that decide nothing, for what accuracies are shown of (default: the rest of --images)",
    )
    parser.add_argument("--test-labels", type=Path, metavar="FILE", help="IDX file with the classes of --test")
    parser.add_argument("--test-limit", type=int, metavar="N", help="only the first N images of --test")
    for name, usual, what in (
        ("calibrate", 100, "images that ranges are of"),
        ("decide", 1000, "images behind those that decide"),
        ("trials", 300, "assignments that are evaluated: all if there are not more, else the outcome of a search"),
        ("verify", 3, "points that are run on the design as whole networks, the chosen one first"),
        ("jobs", 1, "processes"),
    ):
        parser.add_argument(f"--{name}", type=int, default=usual, metavar="N", help=f"{what} (default {usual})")
    parser.add_argument(
        "--bits", default=",".join(_KNOWN), metavar="LIST", help="widths to choose from (default 8,4,2)"
    )
    parser.add_argument(
        "--floor",
        type=float,
        metavar="PERCENT",
        help="choose the fastest point that classifies so much of the images as labelled",
    )
    add_samples(parser)
    parser.add_argument(
        "--cores",
        type=int,
        metavar="N",
        help="1 for one core by itself, more for a cluster (default 1, or the cluster of the preset)",
    )
    add_configuration(parser, clusters=True)
    add_exact(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="write the networks of the front as net run reads them"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.html", help="plot all points, by cycles and by weights")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Search, show and write; fails if a run on the design does."""
    _check(arguments)
    config = _target(arguments)
    bits = tuple(int(name) for name in comma_list(arguments.bits, _KNOWN, "--bits"))
    calibrating, deciding, test = _images(arguments)
    subject = _subject(arguments, calibrating, deciding, config)
    space = subject.space(bits)
    classes = subject.described(space.uniform()[0]).classes
    for one in (deciding, test):
        one.known(classes)
    floor = 0.0 if arguments.floor is None else arguments.floor / _PERCENT
    settings = Settings(floor=floor, trials=arguments.trials, runs=arguments.verify)
    with (
        workers(arguments.jobs) as processes,
        progress_bar("assignments", min(len(space), arguments.trials)) as (progress, task),
    ):

        def tell(known: int, runs: int) -> None:
            progress.update(task, completed=known, description=f"assignments, {runs} runs on the design")

        found = explore(subject, space, test, settings, processes, tell)
    _show(found, deciding, test, arguments.floor)
    _write(arguments, subject, found)
    return FAILED if found.reports else OK


def _target(arguments: argparse.Namespace) -> CoreConfig | ClusterConfig:
    """The core, or the cluster of so many."""
    cores: int | None = arguments.cores
    if cores is None and arguments.preset not in CLUSTER_PRESETS:
        return simulated_configuration(arguments)
    cluster = cosim_cluster.configured(arguments)
    if cores is None:
        return cluster
    if not 1 <= cores <= MAX_CORES:
        raise InputError(f"--cores must be 1 to {MAX_CORES}, not {cores}")
    return cluster.core if cores == 1 else replace(cluster, cores=cores)


def _check(arguments: argparse.Namespace) -> None:
    """Raise :class:`InputError` for what can be known to be wrong before anything is read."""
    for name, least in (("calibrate", 1), ("decide", 1), ("trials", 1), ("verify", 0), ("jobs", 1), ("test_limit", 1)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise InputError(f"--{name.replace('_', '-')} must be at least {least}, not {value}")
    if arguments.floor is not None and not 0 <= arguments.floor <= _PERCENT:
        raise InputError(f"--floor must be 0 to 100 percent, not {arguments.floor:g}")
    for option in ("test_labels", "test_limit"):
        if getattr(arguments, option) is not None and arguments.test is None:
            raise InputError(f"--{option.replace('_', '-')} must come with --test, not alone")
    require_writable(arguments.json)
    if arguments.plot is not None:
        require_folder(arguments.plot.parent, "--plot")
    if arguments.output is not None:
        require_folder(arguments.output, "--output")


def _images(arguments: argparse.Namespace) -> tuple[Images, Images, Images]:
    """Images that give ranges, those that decide, and those that do neither."""
    given = read_images(arguments.images, arguments.labels)
    first, last = arguments.calibrate, arguments.calibrate + arguments.decide
    needed = last + (arguments.test is None)
    if len(given.samples) < needed:
        rest = "" if arguments.test is not None else ", and some for the test"
        raise InputError(
            f"--images must be {last} at least, {first} for ranges and {arguments.decide} that decide{rest}, "
            f"not {len(given.samples)}"
        )
    if arguments.test is None:
        test = given.between(last, None)
    else:
        test = read_images(arguments.test, arguments.test_labels).first(arguments.test_limit)
    if test.samples.shape[1:] != given.samples.shape[1:]:
        raise InputError(
            f"--test must be of the size of --images {given.samples.shape[1:]}, not {test.samples.shape[1:]}"
        )
    return given.first(first), given.between(first, last), test


def _subject(
    arguments: argparse.Namespace, calibrating: Images, deciding: Images, config: CoreConfig | ClusterConfig
) -> Subject:
    """The model with its ranges; raises :class:`InputError` for a model that is not in floating point."""
    path: Path = arguments.model
    options = ImportOptions(
        name=path.stem,
        samples=samples_of(arguments),
        normalisation=normalisation_of(arguments),
        images=calibrating.samples,
    )
    with packages_for(path) as reader:
        if reader.function != import_onnx.__name__:
            raise InputError(f"model must be ONNX in floating point, not {reader.name}: {path}")
        model = OnnxModel.read(path)
        quantiser = next((node for node in model.nodes if node.operator in QUANTISERS), None)
        if quantiser is not None:
            raise InputError(f"model must be in floating point, not have a quantiser: {quantiser}")
        calibration = model.calibration(options)
    return Subject(model=model, calibration=calibration, options=options, images=deciding, config=config)


def _show(found: Exploration, deciding: Images, test: Images, floor: float | None) -> None:
    """The front, and what is to be said about the rest."""
    console = output()
    title = f"bits of weights/maps read, by layer: {', '.join(found.layers)}"
    console.print(title, markup=False, soft_wrap=True)
    table = Table(box=None)
    table.add_column("bits", no_wrap=True)
    for heading in (
        f"of {len(deciding.samples)} that decide",
        f"of {len(test.samples)} for the test",
        "Mcycles",
        "weights KiB",
        "on RTL",
        "error",
    ):
        table.add_column(heading, justify="right")
    for best in found.best:
        table.add_row(*_row(best, found.tested))
    if found.widest is not None:
        table.add_section()
        table.add_row(*_row(found.widest, found.tested))
    console.print(table)
    refused = [point for point in found.points if point.problem]
    if refused:
        console.print(
            f"{len(refused)} of {len(found.points)} assignments cannot run on the design, such as "
            f"{text_of(refused[0].widths)}: {refused[0].problem}",
            markup=False,
            soft_wrap=True,
        )
    for report in found.reports:
        console.print(report, markup=False, soft_wrap=True)
    console.print(
        f"{len(found.points)} assignments evaluated; --quantise of net import takes their bits", soft_wrap=True
    )
    if floor is not None:
        chosen = "none has as much" if found.chosen is None else text_of(found.chosen.widths)
        console.print(f"fastest with {floor:g} % of the images that decide: {chosen}", soft_wrap=True)


def _row(best: Best, tested: int) -> list[str]:
    point = best.point
    cells = [
        text_of(point.widths),
        f"{point.accuracy:.2%}",
        f"{best.right / tested:.2%}",
        f"{point.cycles / _MILLION:.3f}",
        f"{point.weight_bytes / _KIB:.1f}",
    ]
    if best.measured is None or best.error is None:
        return [*cells, "-", "-"]
    return [*cells, f"{best.measured / _MILLION:.3f}", f"{best.error:+.2%}"]


def _write(arguments: argparse.Namespace, subject: Subject, found: Exploration) -> None:
    """Networks, plot and record."""
    files: list[Path] = []
    folder: Path | None = arguments.output
    for best in found.best if folder is not None else ():
        assert folder is not None
        widths = best.point.widths
        name = _name(arguments.model.stem, widths)
        path = folder / f"{name}.json"
        weights = path.with_suffix(".npz")
        text, arrays = written(subject.described(widths, name), weights.name)
        write_bytes(weights, arrays)
        write_text(path, text)
        files.append(path)
    if arguments.plot is not None:
        write_page(arguments.plot, arguments.model.name, found)
        files.append(arguments.plot)
    if files:
        output().print("\n".join(map(str, files)), markup=False, soft_wrap=True)
    write_json(arguments.json, found.record() | {"model": arguments.model.name, "files": list(map(str, files))})


def _name(model: str, widths: Assignment) -> str:
    """Of a network and its file."""
    return f"{model}_{text_of(widths).replace(',', '_').replace('/', 'a')}"
