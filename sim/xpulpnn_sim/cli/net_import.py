"""``xpulpnn net import``: a model of a training framework as a network of integer layers."""

from dataclasses import field
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from xpulpnn.errors import InputError
from xpulpnn_sim.cli.common import OK, output, table, tell, write_json
from xpulpnn_sim.cli.network_samples import ImageOptions, Samples, normalisation_of, samples_of
from xpulpnn_sim.cli.options import Json, NewFile, arguments, command
from xpulpnn_sim.tools.files import write_bytes, write_text
from xpulpnn_sw.networks.form import written
from xpulpnn_sw.networks.importers.registry import READERS, ImportOptions, import_model, request_of
from xpulpnn_sw.networks.network import Described

_KNOWN = ", ".join(f"{reader.name} ({reader.suffix})" for reader in READERS)


@arguments
class ImportArguments(Samples, ImageOptions, Json):
    """Options of the command; the images give ranges of activations, with --quantise."""

    model: Annotated[Path, Parameter(help=f"The model: {_KNOWN}.")] = field(kw_only=False)
    output: Annotated[NewFile, Parameter(alias="-o", metavar="NET.json")]
    """The network; its weights go to the npz file of the same name beside it."""
    name: str | None = None
    """Name of the network (default: that of the output)."""
    quantise: Annotated[str | None, Parameter(metavar="BITS")] = None
    """8, 4 or 2 bits for a model in floating point, whose ranges are those of --images: one number for all, or one for
    each layer with weights, such as 8,4,4, or NAME=4 for the layer NAME; 4/8 means weights of 4 bits and maps of 8 that
    are read."""
    wide: bool = False
    """Requantise by 64 bits where 32 would round more."""


@command
def net_import_command(asked: ImportArguments) -> int:
    """Import and write."""
    path: Path = asked.output
    if path.suffix != ".json":
        raise InputError(f"--output must end in .json, not {path}")
    if (asked.quantise is None) != (asked.images is None):
        has, lacks = ("--images", "--quantise") if asked.quantise is None else ("--quantise", "--images")
        raise InputError(f"{has} must come with {lacks}, not alone")
    notes: list[str] = []
    images = asked.read()
    options = ImportOptions(
        name=asked.name or path.stem,
        samples=samples_of(asked),
        normalisation=normalisation_of(asked),
        quantise=None if asked.quantise is None else request_of(asked.quantise),
        images=None if images is None else images.samples,
        wide=asked.wide,
        note=notes.append,
    )
    described = import_model(asked.model, options)
    weights = path.with_suffix(".npz")
    text, arrays = written(described, weights.name)
    write_bytes(weights, arrays)
    write_text(path, text)
    output().print(_layers(described))
    for note in notes:
        tell(note)
    tell(path, weights)
    layers = [stage.name for stage in described.network.stages]
    record = {"network": described.network.name, "macs": described.network.macs, "layers": layers, "notes": notes}
    write_json(asked.json, record | {"files": [str(path), str(weights)]})
    return OK


def _layers(described: Described) -> Table:
    rows: list[tuple[object, ...]] = []
    for number, stage in enumerate(described.network.stages):
        rule = getattr(stage.tensors, "requantisation", None)
        rows.append(
            (
                stage.name,
                stage.kind.name,
                str(stage.layer),
                str(stage.precision),
                rule.rule.value if rule else "-",
                ", ".join(described.network.sources(number)),
                stage.layer.macs if stage.multiplies else "-",
            )
        )
    headings = ("layer", "kernel", "size", "precision", "results by", "of", "MAC")
    return table(headings, rows, title=described.network.name)
