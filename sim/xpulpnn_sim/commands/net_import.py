"""``xpulpnn net import``: a model of a training framework as a network of integer layers."""

import argparse
from pathlib import Path

from rich.table import Table

from xpulpnn.errors import InputError
from xpulpnn_sim.commands.common import OK, add_json, output, require_folder, require_writable, write_json
from xpulpnn_sim.commands.network_images import add_images, images_of
from xpulpnn_sim.commands.network_samples import add_samples, normalisation_of, samples_of
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
    add_samples(parser)
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
    notes: list[str] = []
    options = ImportOptions(
        name=arguments.name or path.stem,
        samples=samples_of(arguments),
        normalisation=normalisation_of(arguments),
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
