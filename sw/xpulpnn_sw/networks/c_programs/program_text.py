"""A C program that runs a network on examples, with its Makefile, README and memory plan."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sw.kernels.layout import OutputLayout, Words, pack_words
from xpulpnn_sw.kernels.programs.c_program import ARGUMENTS_HEADER, arguments_header, kernel_function
from xpulpnn_sw.library.packed_layer import word_lines
from xpulpnn_sw.library.write import KERNELS_HEADER, kernels_header
from xpulpnn_sw.networks.c_programs.c_network import CNetwork, comment_text
from xpulpnn_sw.networks.c_programs.network_text import (
    c_template,
    input_source,
    network_header,
    network_source,
    result_words,
    title,
    weights_header,
    weights_source,
)
from xpulpnn_sw.networks.deployment import Piece
from xpulpnn_sw.networks.network import Scaling

_STEP, _HEIGHT = 92, 420
_LEFT, _TOP, _BOTTOM, _RIGHT = 70, 44, 74, 16
_TEXT = 11
_LETTER = 6.2  # width of a letter, about
_TICKS = 8
_KIB = 1024
_COLOURS = {"maps": "#56b4e9", "weights": "#009e73", "buffers": "#e69f00"}
_BY_ENDING = {"weights": "weights", "buffer": "buffers"}
_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" \
font-family="sans-serif" font-size="{text}">
<rect width="100%" height="100%" fill="#fff"/>
<text x="{left}" y="18" font-size="14">{title}</text>
"""
_OFFSET, _PRIME = 0x811C9DC5, 0x01000193  # of FNV-1a
_BYTES_PER_LINE = 20
_FOR_ANY_SIZE = """\
Its functions take layers of any size. `xpulpnn net generate --specialise` writes one for each layer instead, faster for
more code: MLPerf Tiny's keyword network takes 690,055 instead of 1,176,000 cycles on one `xpulpnn3`, CIFAR-10's ResNet8
3,833,294 instead of 3,856,842 on one `xpulpnn2`."""
_SPECIALISED = "Each layer has a function of its own, for its sizes alone (`--specialise`)."


def plan_picture(network: CNetwork) -> str:
    """Draw the memory plan as SVG: steps from left to right, addresses upwards."""
    plan = network.plan
    width, height = _LEFT + _STEP * len(plan.steps) + _RIGHT, _TOP + _HEIGHT + _BOTTOM
    whole = max(plan.extent, 1)
    where = "memory" if network.cores is None else "TCDM"
    title = f"{network.network.name}: {plan.extent} bytes of {where} over the steps"
    if network.outside:
        title += f", {len(network.outside)} pieces outside"
    lines = [_HEAD.format(width=max(width, 420), height=height, text=_TEXT, left=_LEFT, title=escape(title))]
    lines += _axes(network, whole)
    for piece in plan.pieces:
        lines += _box(piece, plan.offsets[piece.name], whole)
    kinds = {_kind(piece) for piece in plan.pieces}
    for number, kind in enumerate(kind for kind in _COLOURS if kind in kinds):
        colour = _COLOURS[kind]
        x = _LEFT + 110 * number
        lines.append(f'<rect x="{x}" y="26" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{x + 15}" y="35">{kind}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _y(address: int, whole: int) -> float:
    return round(_TOP + _HEIGHT - _HEIGHT * address / whole, 1)


def _axes(network: CNetwork, whole: int) -> Iterator[str]:
    end = _LEFT + _STEP * len(network.plan.steps)
    unit = next(step for power in range(31) for step in (1 << power,) if whole / step <= _TICKS)
    for address in range(0, whole + 1, unit):
        y = _y(address, whole)
        shown = f"{address // _KIB} KiB" if unit >= _KIB else str(address)
        yield f'<line x1="{_LEFT}" y1="{y}" x2="{end}" y2="{y}" stroke="#e6e9ee"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{shown}</text>'
    for number, step in enumerate(network.plan.steps):
        x = _LEFT + _STEP * number + _STEP / 2
        name = "" if step.layer is None else network.layers[step.layer].stage.name
        load = "" if step.load is None else f"loads {network.layers[step.load].stage.name}"
        texts = [name or ("input" if number == 0 else ""), f"{network.plan.demand(number)} bytes", load]
        for row, text in enumerate(texts):
            y = _TOP + _HEIGHT + 16 + 15 * row
            yield f'<text x="{x}" y="{y}" text-anchor="middle">{escape(_short(text, _STEP))}</text>'


def _box(piece: Piece, place: int, whole: int) -> Iterator[str]:
    x, width = _LEFT + _STEP * piece.first + 1, _STEP * (piece.last - piece.first + 1) - 2
    top, bottom = _y(place + piece.size, whole), _y(place, whole)
    height = round(max(bottom - top, 1), 1)
    kind = _kind(piece)
    title = f"{piece.name}: {piece.size} bytes from {place} on"
    box = f'x="{x}" y="{top}" width="{width}" height="{height}" fill="{_COLOURS[kind]}" stroke="#fff"'
    yield f"<rect {box}><title>{escape(title)}</title></rect>"
    if height > _TEXT:
        name = escape(_short(piece.name, width))
        yield f'<text x="{x + width / 2}" y="{round(top + height / 2 + 4, 1)}" text-anchor="middle">{name}</text>'


def _kind(piece: Piece) -> str:
    return _BY_ENDING.get(piece.name.rpartition(".")[2], "maps")


def _short(text: str, width: float) -> str:
    most = int(width / _LETTER)
    return text if len(text) <= most else f"{text[: max(most - 1, 1)]}\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Example:
    # words by piece, or samples of an image, which the program converts
    input: Mapping[str, Words] | NDArray[np.uint8]
    scores: NDArray[Any]
    results: Sequence[NDArray[Any]]  # of each layer
    label: int | None = None  # its class, if known


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramTarget:
    core: str
    settings: str  # options of the command line that describe the core
    tcdm: int | None = None  # bytes of the TCDM of a cluster
    icache: int = 0  # bytes of the instruction cache of each core of a cluster; 0: ideal
    command: str = "xpulpnn"  # for the Makefile
    specialised: bool = False  # whether each layer has its own function


def program_files(
    network: CNetwork, examples: Sequence[Example], target: ProgramTarget, scaling: Scaling
) -> dict[str, str]:
    """Return the texts of a program's files by path; either all ``examples`` hold image samples, or all hold words."""
    made = isinstance(examples[0].input, np.ndarray)
    prepare = f"{network.name}_input(current->input, input)" if made else "memcpy(input, current->input, sizeof input)"
    texts = {
        "network.h": network_header(network),
        "network.c": network_source(network),
        "weights.h": weights_header(network),
        "weights.c": weights_source(network),
        "examples.h": _examples(network, examples),
        "main.c": c_template("main.c").substitute(
            id=network.name,
            name=comment_text(network.network.name),
            prepare=prepare,
            name_format=" (%s)" if network.classes else "",
            name_argument=f", {network.name}_class[answer]" if network.classes else "",
            label_format="%s" if network.classes else "%d",
            label=f"{network.name}_class[current->label]" if network.classes else "current->label",
            includes="" if made else "#include <string.h>\n",
        ),
        "Makefile": _makefile(network, target),
        "README.md": _readme(network, target),
        "plan.svg": plan_picture(network),
        f"include/{KERNELS_HEADER}": kernels_header(network.functions),
        f"include/{ARGUMENTS_HEADER}": arguments_header(),
    }
    texts["input.c"] = input_source(network, scaling)
    return texts | {f"kernels/{run.name}.s": kernel_function(run) for run in network.functions}


def _checksum(output: OutputLayout, results: NDArray[Any]) -> int:
    """Return the checksum that ``main.c`` computes over the results of a layer in memory."""
    if output.planes:
        results = results.transpose(2, 0, 1)
    rows = output.in_rows
    words = pack_words(results.reshape(-1, rows.shape[-1]).astype(np.int64), rows.bits)
    assert words.shape == (prod(rows.shape[:-1]), result_words(rows)[0])
    checksum = _OFFSET
    for word in words.reshape(-1).tolist():
        checksum = (checksum ^ word) * _PRIME & WORD_MASK
    return checksum


def _cluster_words(network: CNetwork, target: ProgramTarget) -> str:
    return "" if network.cores is None else f" --cluster --cores {network.cores} --tcdm {target.tcdm}"


def _makefile(network: CNetwork, target: ProgramTarget) -> str:
    cores = "" if network.cores is None else f" --cores {network.cores}"
    return c_template("Makefile").substitute(
        title=title(network),
        settings=target.settings,
        command=target.command.replace("$", "$$"),
        cluster=_cluster_words(network, target),
        cores=cores,
        icache=cores and f" --icache {target.icache or 'ideal'}",
        kernels=" \\\n".join(f"    kernels/{run.name}.s" for run in network.functions),
    )


def _readme(network: CNetwork, target: ProgramTarget) -> str:
    cores = "" if network.cores is None else f"a cluster of {network.cores} cores "
    rows = [
        f"| {stage.name} | {stage.kind.name} | {stage.layer} | {stage.precision} | `{layer.run.name}` | {layer.macs} |"
        for layer in network.layers
        for stage in [layer.stage]
    ]
    return c_template("README.md").substitute(
        name=network.network.name,
        id=network.name,
        command=target.command,
        settings=target.settings,
        cluster=_cluster_words(network, target),
        functions=_SPECIALISED if target.specialised else _FOR_ANY_SIZE,
        core=f"{cores}{target.core}",
        weight_bytes=sum(layer.run.weight_bytes for layer in network.layers),
        memory_bytes=network.plan.extent,
        memory="TCDM" if network.cores is not None else "maps and buffers",
        layers="\n".join(rows),
    )


def _examples(network: CNetwork, examples: Sequence[Example]) -> str:
    lines = [
        f"// Inputs of {title(network)}, and what must become of them. Generated by xpulpnn.",
        "#ifndef XP_EXAMPLES_H",
        "#define XP_EXAMPLES_H",
        "",
        "#include <stdint.h>",
        "",
        "struct example {",
        "    const void *input;",
        "    int label; // the class it has; -1: unknown",
        f"    uint32_t layers[{len(network.layers)}]; // checksums of their results",
        f"    int32_t scores[{prod(network.results)}];",
        "};",
        "",
    ]
    for number, example in enumerate(examples):
        lines += [*_input(example.input, f"input{number}"), ""]
    lines += [f"enum {{ EXAMPLES = {len(examples)} }};", "", "static const struct example examples[EXAMPLES] = {"]
    for number, example in enumerate(examples):
        sums = [
            f"0x{_checksum(layer.run.output, results):08x}"
            for layer, results in zip(network.layers, example.results, strict=True)
        ]
        scores = [str(value) for value in example.scores.reshape(-1).tolist()]
        lines += [
            "    {",
            f"        .input = input{number},",
            f"        .label = {-1 if example.label is None else example.label},",
            f"        .layers = {{{', '.join(sums)}}},",
            f"        .scores = {{{', '.join(scores)}}},",
            "    },",
        ]
    return "\n".join([*lines, "};", "", "#endif", ""])


def _input(values: Mapping[str, Words] | NDArray[np.uint8], name: str) -> Iterator[str]:
    if isinstance(values, np.ndarray):
        yield f"static const uint8_t {name}[] = {{"
        samples = values.reshape(-1).tolist()
        for start in range(0, len(samples), _BYTES_PER_LINE):
            yield f"    {' '.join(f'{sample},' for sample in samples[start : start + _BYTES_PER_LINE])}"
    else:
        yield f"static const uint32_t {name}[] = {{"
        for text in word_lines(np.concatenate(list(values.values()))):
            yield f"    {text}"
    yield "};"
