"""A program that runs a network in C for examples, and how it is built."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn_sw.kernels.layout import OutputLayout, PlanesLayout, Words, pack_words
from xpulpnn_sw.kernels.programs.function import ARGUMENTS_HEADER, arguments_header, kernel_function
from xpulpnn_sw.library.header import KERNELS_HEADER, kernels_header
from xpulpnn_sw.library.packed_text import word_lines
from xpulpnn_sw.networks.c_programs.c_network import CNetwork
from xpulpnn_sw.networks.c_programs.names import comment_text
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
from xpulpnn_sw.networks.c_programs.picture import plan_picture
from xpulpnn_sw.networks.described import Scaling
from xpulpnn_sw.networks.kernels import weight_bytes

_OFFSET, _PRIME = 0x811C9DC5, 0x01000193  # of FNV-1a
_WORD = 0xFFFF_FFFF

_BYTES_PER_LINE = 20


@dataclass(frozen=True, eq=False, kw_only=True)
class Example:
    """An input and what must become of it."""

    # the input in memory, by piece, or the samples of an image, of which the network makes one
    input: Mapping[str, Words] | NDArray[np.uint8]
    scores: NDArray[Any]
    results: Sequence[NDArray[Any]]  # of every layer as it is computed, in the shapes of their results
    label: int | None = None  # the class that it has, if that is known


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramTarget:
    """The core that a program is for."""

    core: str
    settings: str  # the options that describe the core on the command line
    tcdm: int | None = None  # bytes of the TCDM of a cluster


def files(network: CNetwork, examples: Sequence[Example], target: ProgramTarget, scaling: Scaling) -> dict[str, str]:
    """Text by path in the folder of the program.

    ``scaling`` says what elements of the input are of the samples of an image. Examples are either all samples, which
    is possible where the network has :attr:`CNetwork.input_layouts`, or all words.
    """
    made = isinstance(examples[0].input, np.ndarray)
    prepare = f"{network.name}_input(current->input, input)" if made else "memcpy(input, current->input, sizeof input)"
    found = {
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
            includes="" if made else "#include <string.h>\n",
        ),
        "Makefile": _makefile(network, target),
        "README.md": _readme(network, target),
        "plan.svg": plan_picture(network),
        f"include/{KERNELS_HEADER}": kernels_header(network.functions),
        f"include/{ARGUMENTS_HEADER}": arguments_header(),
    }
    if network.input_layouts:
        found["input.c"] = input_source(network, scaling)
    return found | {f"kernels/{run.name}.s": kernel_function(run) for run in network.functions}


def _checksum(output: OutputLayout, results: NDArray[Any]) -> int:
    """Return the checksum that ``main.c`` must find of the results of a layer in memory."""
    if isinstance(output, PlanesLayout):
        results = results.transpose(2, 0, 1)
    rows = output.in_rows
    words = pack_words(results.reshape(-1, rows.shape[-1]).astype(np.int64), rows.bits)
    assert words.shape == (prod(rows.shape[:-1]), result_words(rows)[0])
    found = _OFFSET
    for word in words.reshape(-1).tolist():
        found = (found ^ word) * _PRIME & _WORD
    return found


def _makefile(network: CNetwork, target: ProgramTarget) -> str:
    cores = "" if network.cores is None else f" --cores {network.cores}"
    cluster = "" if network.cores is None else f" --cluster{cores} --tcdm {target.tcdm}"
    return c_template("Makefile").substitute(
        title=title(network),
        settings=target.settings,
        input=" input.c" if network.input_layouts else "",
        cluster=cluster,
        cores=cores,
        kernels=" \\\n".join(f"    kernels/{run.name}.s" for run in network.functions),
    )


def _readme(network: CNetwork, target: ProgramTarget) -> str:
    cores = "" if network.cores is None else f"a cluster of {network.cores} cores "
    known = bool(network.input_layouts)
    rows = [
        f"| {stage.name} | {stage.kind.name} | {stage.layer} | {stage.precision} | `{layer.run.name}` | {layer.macs} |"
        for layer in network.layers
        for stage in [layer.stage]
    ]
    return c_template("README.md").substitute(
        name=network.network.name,
        id=network.name,
        core=f"{cores}{target.core}",
        input_call=f" for what `{network.name}_input` makes of an image" if known else "",
        input_file="\n| `input.c` | makes inputs of images |" if known else "",
        weight_bytes=sum(weight_bytes(layer.run) for layer in network.layers),
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
