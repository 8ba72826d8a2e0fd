"""``xpulpnn net import``: a model of a training framework as a network of integer layers."""

import argparse
from fractions import Fraction
from pathlib import Path

from rich.table import Table

from xpulpnn.errors import InputError
from xpulpnn_sim.commands.common import OK, add_json, output, require_folder, require_writable, write_json
from xpulpnn_sim.commands.network_images import add_images, images_of
from xpulpnn_sim.files import write_bytes, write_text
from xpulpnn_sw.importers.options import ImportOptions
from xpulpnn_sw.importers.registry import READERS, import_model
from xpulpnn_sw.importers.widths import request_of
from xpulpnn_sw.networks.described import Described
from xpulpnn_sw.networks.form import written


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the action."""
    known = ", ".join(f"{reader.name} ({reader.suffix})" for reader in READERS)
    parser.add_argument("model", type=Path, metavar="MODEL", help=f"the model: {known}")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="NET.json",
        help="the network; its weights go to the npz file of the same name beside it",
    )
    parser.add_argument("--name", metavar="NAME", help="of the network (default: that of the output)")
    parser.add_argument(
        "--samples",
        metavar="LOW:HIGH",
        help="what the model takes for the samples 0 and 255 of an image, such as -1:1 (default 0:1; of TFLite the "
        "codes of the input as they are)",
    )
    parser.add_argument(
        "--mean",
        metavar="LIST",
        help="numbers that are subtracted from that, by colour or one for all, before a network of ONNX sees it",
    )
    parser.add_argument("--std", metavar="LIST", help="numbers that it is divided by then, as many (default 1)")
    parser.add_argument(
        "--quantise",
        metavar="BITS",
        help="8, 4 or 2 bits for a model in floating point, whose ranges are those of --images: one number for all, or "
        "one for each layer with weights, such as 8,4,4, or NAME=4 for the layer NAME; 4/8 means weights of 4 bits and "
        "maps of 8 that are read",
    )
    parser.add_argument("--wide", action="store_true", help="requantise by 64 bits where 32 would round more")
    add_images(parser, "what ranges of activations are taken from, with --quantise")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Import and write."""
    path: Path = arguments.output
    if path.suffix != ".json":
        raise InputError(f"--output must end in .json, not {path}")
    if (arguments.quantise is None) != (arguments.images is None):
        has, lacks = ("--images", "--quantise") if arguments.quantise is None else ("--quantise", "--images")
        raise InputError(f"{has} must come with {lacks}, not alone")
    samples = None if arguments.samples is None else samples_range(arguments.samples)
    notes: list[str] = []
    options = ImportOptions(
        name=arguments.name or path.stem,
        samples=samples,
        normalisation=_normalisation(arguments.mean, arguments.std),
        quantise=None if arguments.quantise is None else request_of(arguments.quantise),
        images=None if arguments.images is None else images_of(arguments).samples,
        wide=arguments.wide,
        note=notes.append,
    )
    described = import_model(arguments.model, options)
    require_folder(path.parent, "--output")
    require_writable(arguments.json)
    weights = path.with_suffix(".npz")
    text, arrays = written(described, weights.name)
    write_bytes(weights, arrays)
    write_text(path, text)
    console = output()
    console.print(_layers(described))
    for note in notes:
        console.print(note, markup=False, soft_wrap=True)
    console.print("\n".join(map(str, (path, weights))), markup=False, soft_wrap=True)
    layers = [stage.name for stage in described.network.stages]
    record = {"network": described.network.name, "macs": described.network.macs, "layers": layers, "notes": notes}
    write_json(arguments.json, record | {"files": [str(path), str(weights)]})
    return OK


def samples_range(text: str) -> tuple[Fraction, Fraction]:
    """What is meant by ``LOW:HIGH``."""
    try:
        low, high = map(Fraction, text.split(":"))
    except (ValueError, ZeroDivisionError):
        raise InputError(f"--samples must be LOW:HIGH, two numbers, not {text}") from None
    if low >= high:
        raise InputError(f"--samples must be LOW:HIGH, the first the smaller one, not {text}")
    return low, high


def _normalisation(mean: str | None, std: str | None) -> list[tuple[Fraction, Fraction]]:
    """What is meant by both lists."""
    lists: list[list[Fraction]] = []
    for option, text, usual in (("--mean", mean, 0), ("--std", std, 1)):
        try:
            lists.append([Fraction(usual)] if text is None else [Fraction(one) for one in text.split(",")])
        except (ValueError, ZeroDivisionError):
            raise InputError(f"{option} must be numbers with commas between, not {text}") from None
    means, deviations = lists
    if mean is None and std is None:
        return []
    count = max(map(len, lists))
    means, deviations = (one * count if len(one) == 1 else one for one in (means, deviations))
    if len(means) != len(deviations):
        raise InputError(f"--mean and --std must have as many numbers, not {len(means)} and {len(deviations)}")
    return [*zip(means, deviations, strict=True)]


def _layers(described: Described) -> Table:
    table = Table(box=None, title=described.network.name, title_justify="left")
    for heading in ("layer", "kernel", "size", "precision", "results by", "of"):
        table.add_column(heading, no_wrap=True)
    table.add_column("MAC", justify="right")
    for number, stage in enumerate(described.network.stages):
        rule = getattr(stage.tensors, "requantisation", None)
        table.add_row(
            stage.name,
            stage.kind.name,
            str(stage.layer),
            str(stage.precision),
            rule.rule.value if rule else "-",
            ", ".join(described.network.sources(number)),
            str(stage.layer.macs) if stage.multiplies else "-",
        )
    return table
