"""``xpulpnn net import`` and ``generate``, and options for images."""

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from numpy.typing import NDArray

from xpulpnn.errors import InputError, require
from xpulpnn_sim.cli.common import Columns, finish, plain, progress_bar, record_table, remark, table, tell
from xpulpnn_sim.cli.configurations import Cores
from xpulpnn_sim.cli.kernels import Specialising
from xpulpnn_sim.cli.options import CompilerChoice, Count, Json, NewFile, NewFolder, Seed, arguments, command
from xpulpnn_sim.cosimulation.networks.images import FORMS, Images, read_images
from xpulpnn_sim.cosimulation.networks.network_program import Inputs, NetworkProgram, network_program, program_options
from xpulpnn_sim.reference.golden.network import agreement, moved_codes
from xpulpnn_sim.tools.files import write_bytes, write_text, write_texts
from xpulpnn_sim.tools.named_table import TerminalTable
from xpulpnn_sw.networks.importers.registry import READERS, ImportOptions, import_model, request_of
from xpulpnn_sw.networks.network import Network, NetworkModel
from xpulpnn_sw.networks.network_file import read_network, serialised
from xpulpnn_sw.toolchain.build import build
from xpulpnn_sw.toolchain.compilers import find_compiler

_IMAGES = Parameter(help=f"Images, with labels for answers to be counted: {FORMS}.", metavar="PATH")


@arguments
class ImageOptions:
    images: Annotated[Path | None, _IMAGES] = None
    labels: Path | None = None
    """IDX file with the classes of the images (default: the one beside them called labels-idx1)."""
    limit: Count | None = None
    """Only the first N images."""

    def read(self) -> Images | None:
        return None if self.images is None else read_images(self.images, self.labels).first(self.limit)


@arguments
class Samples:
    samples: Annotated[str | None, Parameter(metavar="LOW:HIGH")] = None
    """Values of the samples 0 and 255 of an image, such as -1:1 (default 0:1; of TFLite the codes of the
    input as they are)."""
    mean: Annotated[str | None, Parameter(metavar="LIST")] = None
    """Numbers to subtract from the samples of an ONNX network, one for each colour or one for all."""
    std: Annotated[str | None, Parameter(metavar="LIST")] = None
    """Numbers by which to divide the differences, one for each colour or one for all (default 1)."""

    @property
    def bounds(self) -> tuple[Fraction, Fraction] | None:
        if self.samples is None:
            return None
        try:
            low, high = map(Fraction, self.samples.split(":"))
        except (ValueError, ZeroDivisionError):
            raise InputError(f"--samples must be LOW:HIGH, two numbers, not {self.samples}") from None
        require(low < high, f"--samples must be LOW:HIGH, the first the smaller one, not {self.samples}")
        return low, high

    @property
    def normalisation(self) -> list[tuple[Fraction, Fraction]]:
        if self.mean is None and self.std is None:
            return []
        lists: list[list[Fraction]] = []
        for option, text, usual in (("--mean", self.mean, "0"), ("--std", self.std, "1")):
            try:
                lists.append([Fraction(number) for number in re.split("[,+]", usual if text is None else text)])
            except (ValueError, ZeroDivisionError):
                raise InputError(f"{option} must be numbers such as 0.5,0.4, not {text}") from None
        count = max(map(len, lists))
        means, deviations = (number * count if len(number) == 1 else number for number in lists)
        if len(means) != len(deviations):
            raise InputError(f"--mean and --std must have as many numbers, not {len(means)} and {len(deviations)}")
        return [*zip(means, deviations, strict=True)]


_KNOWN = ", ".join(f"{reader.name} ({reader.suffix})" for reader in READERS)


@arguments
class ImportArguments(Samples, ImageOptions, Seed, Json):
    model: Annotated[Path, Parameter(help=f"The model: {_KNOWN}.")] = field(kw_only=False)
    output: Annotated[NewFile, Parameter(alias="-o", metavar="NET.json")]
    """The network; its weights go to the npz file of the same name beside it."""
    name: str | None = None
    """Name of the network (default: that of the output)."""
    quantise: Annotated[str | None, Parameter(metavar="BITS")] = None
    """Quantise a floating-point model, with ranges from --images, to 8, 4 or 2 bits: one number for all layers, or one
    for each layer with weights, such as 8,4,4, or NAME=4 for the layer NAME; 4/8 means 4-bit weights and 8-bit
    inputs."""
    allow: Count = 1
    """Most by which results of a layer may differ from the model's where no rule has them exactly."""
    fast: bool = False
    """Requantise TFLite's models in 32 bits (bn32), for cores on which the exact rule is slow, and tell how many
    results that changes in each layer, for --images or a few random inputs."""


@command("net import")
def net_import_command(request: ImportArguments) -> int:
    """
    xpulpnn net import model.tflite -o build/model.json  # a quantised model as layers of integers
    xpulpnn net import model.onnx -o build/model.json --quantise 4 --images calibration.npz  # one in floating point
    """
    path: Path = request.output
    require(path.suffix == ".json", f"--output must end in .json, not {path}")
    if request.quantise is not None and request.images is None:
        raise InputError("--quantise must come with --images, not alone")
    if request.quantise is None and request.images is not None and not request.fast:
        raise InputError("--images must come with --quantise or --fast, not alone")
    notes: list[str] = []
    expected: list[NDArray[np.floating[Any]]] = []
    images = request.read()
    options = ImportOptions(
        name=request.name or path.stem,
        samples=request.bounds,
        normalisation=request.normalisation,
        quantise=None if request.quantise is None else request_of(request.quantise),
        images=None if images is None else images.samples,
        allow=request.allow,
        is_fast=request.fast,
        note=notes.append,
        scores=expected.append,
    )
    described = import_model(request.model, options)
    network, files = described.network, write_network(described, path)
    tell(_layers(described), *notes)
    more: dict[str, Any] = {"moved": _moved(request, options, network, images)} if request.fast else {}
    correlation = 1.0
    if images is not None and expected:
        agreed = agreement(network, described.batch(images.samples), expected[0])
        more["agreement"], correlation = asdict(agreed), agreed.correlation
        text = f"beside the model in floating point: correlation of results {correlation:.4f}"
        answers = "" if described.classes == 1 else f", same answer for {agreed.same} of {agreed.images} images"
        tell(text + answers)
    tell(*files)
    layers = [stage.name for stage in network.stages]
    record = {"network": network.name, "macs": network.macs, "layers": layers, "notes": notes, "files": files}
    if correlation < _NEAR:
        remark(f"warning: results are far from the model's, correlation below {_NEAR}: more bits or images may help")
    return finish(request.json, record | more, good=correlation >= _RELATED)


_NEAR, _RELATED = 0.9, 0.5  # correlations below which the command warns or fails
_RANDOM_INPUTS = 8
_MOVED: Columns = {
    **plain("layer"),
    "codes": "{[codes]:,}",
    "moved": "{[moved]:,}",
    "share": lambda record: f"{record['moved'] / record['codes']:.2%}",
    "by at most": "{[most]}",
}


def _moved(
    request: ImportArguments, options: ImportOptions, fast: Network, images: Images | None
) -> list[dict[str, object]]:
    exact = import_model(request.model, replace(options, is_fast=False, note=str))
    if images is None:
        inputs = np.stack([exact.random_input(request.seed + number) for number in range(_RANDOM_INPUTS)])
    else:
        inputs = exact.batch(images.samples)
    given = f"{len(inputs)} random inputs, seed {request.seed}" if images is None else f"{len(inputs)} images"
    records = [
        {"layer": name, "codes": codes, "moved": moved, "most": most}
        for name, (codes, moved, most) in moved_codes(exact.network, fast, inputs).items()
    ]
    tell(record_table(_MOVED, records, title=f"moved codes, {given}"))
    return records


def write_network(described: NetworkModel, path: Path) -> list[Path]:
    weights = path.with_suffix(".npz")
    text, arrays = serialised(described, weights.name)
    write_bytes(weights, arrays)
    write_text(path, text)
    return [path, weights]


def _layers(described: NetworkModel) -> TerminalTable:
    rows: list[tuple[object, ...]] = []
    for number, stage in enumerate(described.network.stages):
        rule = getattr(stage.tensors, "requantisation", None)
        by, sources = rule.rule.value if rule else "-", ", ".join(described.network.sources(number))
        macs = stage.layer.macs if stage.multiplies else "-"
        rows.append((stage.name, stage.kind.name, stage.layer, stage.precision, by, sources, macs))
    headings = ("layer", "kernel", "size", "precision", "results by", "of", "MAC")
    return table(headings, rows, title=described.network.name)


_PROGRAM = "network.elf"


@arguments
class NetGenerateOptions(Cores, ImageOptions, Specialising, Seed, CompilerChoice, Json):
    network: Path = field(kw_only=False)
    """The network, FILE.json, its weights in the npz beside it."""
    output: Annotated[NewFolder, Parameter(alias="-o")]
    """Folder for sources, Makefile and a picture of the memory."""
    build: bool = False
    """Compile it at once, to DIR/network.elf."""


@command("net generate")
def net_generate_command(request: NetGenerateOptions) -> int:
    """xpulpnn net generate digits.json -o build/digits --build  # a C program, compiled"""
    if request.compiler is not None and not request.build:
        raise InputError(f"--compiler must come with --build, not alone with {request.compiler}")
    config = request.target
    network = read_network(request.network)
    inputs = _inputs(request, network)
    if request.build:
        find_compiler(request.compiler)
    how = {"specialise": request.specialise, "classes": network.labels, "command": _own_command()}
    with progress_bar("kernels and reference", None):
        program = network_program(
            network.network, inputs, config, core=request.title, settings=request.command_words, **how
        )
    if program.network.outside:
        remark(f"stays in the L2, for which the TCDM has no room: {', '.join(program.network.outside)}")
    folder: Path = request.output
    written = write_texts(folder, program.texts)
    if request.build:
        how = {"include": (folder / "include",), "extra": ("-Wall", "-Wextra"), "ram": program.ram}
        options = program_options(config, core=request.title, **how)
        with progress_bar("compiling", None):
            sources = [folder / name for name in program.sources]
            printed = build(sources, folder / _PROGRAM, compiler=request.compiler, options=options)
        sys.stderr.write(printed)
        written.append(folder / _PROGRAM)
    if not request.specialise:
        remark(f"functions for layers of any size; --specialise writes faster ones for these: {folder / 'README.md'}")
    tell(*written)
    return finish(request.json, _record(program, written))


def _own_command() -> str:
    """Return the running command as it can be typed in any shell and folder."""
    script = Path(sys.executable).with_name("xpulpnn")
    return shlex.quote(str(script)) if script.is_file() else f"{shlex.quote(sys.executable)} -m xpulpnn_sim"


def _inputs(request: NetGenerateOptions, network: NetworkModel) -> Inputs:
    images = request.read()
    if images is None:
        return Inputs(values=network.random_input(request.seed)[np.newaxis], scaling=network.scaling)
    images = images.first(request.limit or 1)
    return Inputs(
        values=network.batch(images.samples),
        samples=images.samples,
        labels=None if images.labels is None else images.checked_labels(network.classes),
        scaling=network.scaling,
    )


def _record(program: NetworkProgram, written: Sequence[Path]) -> dict[str, object]:
    network = program.network
    layers = [{"name": layer.stage.name, "function": layer.run.name, "macs": layer.macs} for layer in network.layers]
    return {
        "name": network.name,
        "cores": network.cores or 1,
        "files": written,
        "memory_bytes": network.plan.extent,
        "outside": network.outside,
        "weight_bytes": sum(layer.run.weight_bytes for layer in network.layers),
        "layers": layers,
    }
