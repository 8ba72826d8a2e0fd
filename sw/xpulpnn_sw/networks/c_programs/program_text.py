"""A C program that runs a network on examples, with its Makefile, README and memory plan."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from numpy.typing import NDArray

from xpulpnn.isa.machine import BYTE_BITS, WORD_BYTES, WORD_MASK, XLEN
from xpulpnn_sw.kernels.layout import Words, pack_words
from xpulpnn_sw.kernels.programs.c_program import ARGUMENTS_HEADER, arguments_header, kernel_function
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.library.packed_layer import word_lines
from xpulpnn_sw.library.write import KERNELS_HEADER, kernels_header
from xpulpnn_sw.networks.c_programs.c_network import CLayer, CNetwork, InputLayout, c_string, comment_text
from xpulpnn_sw.networks.deployment import weights_name
from xpulpnn_sw.networks.network import Scaling

_TEMPLATES: Any = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "c"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters |= {"c_string": c_string, "comment_text": comment_text, "word_lines": word_lines}
_FILES = (
    *("network.h", "network.c", "weights.h", "weights.c", "input.c", "examples.h", "main.c"),
    *("Makefile", "README.md", "plan.svg"),
)
_TICKS = 8  # most lines of a scale
_OFFSET, _PRIME = 0x811C9DC5, 0x01000193  # of FNV-1a
_BYTES_PER_LINE = 20
_MOST_SAMPLE = (1 << BYTE_BITS) - 1
_I32 = 1 << 31  # arguments from here on are negative


@dataclass(frozen=True, eq=False, kw_only=True)
class Example:
    # words by piece, or samples of an image, which the program converts
    input: Mapping[str, Words] | NDArray[np.uint8]
    scores: NDArray[Any]
    results: Sequence[NDArray[Any]]  # of each layer
    label: int | None = None  # its class, if known

    @property
    def lines(self) -> Iterator[str]:
        if not isinstance(self.input, np.ndarray):
            return word_lines(np.concatenate(list(self.input.values())))
        samples = self.input.reshape(-1).tolist()
        starts = range(0, len(samples), _BYTES_PER_LINE)
        return (" ".join(f"{sample}," for sample in samples[start : start + _BYTES_PER_LINE]) for start in starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramTarget:
    core: str
    settings: str  # options of the command line that describe the core
    tcdm: int | None = None  # bytes of the TCDM of a cluster
    icache: int = 0  # bytes of the instruction cache of each core of a cluster; 0: ideal
    command: str = "xpulpnn"  # for the Makefile
    ram: str = ""  # size of the ram as the option --ram has it; empty: the usual one
    specialised: bool = False  # whether each layer has its own function


def program_files(
    network: CNetwork, examples: Sequence[Example], target: ProgramTarget, scaling: Scaling
) -> dict[str, str]:
    """Return the texts of a program's files by path; either all ``examples`` hold image samples, or all hold words."""
    cores, whole = network.cores, network.network
    cores_option = "" if cores is None else f" --cores {cores}"
    element_type, element = _element(network.input_layouts[0], scaling)
    values: dict[str, Any] = {
        "network": network,
        "id": network.name,
        "cores": cores,
        "title": comment_text(f"{whole.name}: {len(network.layers)} layers, {whole.macs} multiplications"),
        "results": prod(network.results),
        "input_bytes": sum(words.nbytes for words in network.input.values()),
        "tick": 1 << (-(-network.plan.extent // _TICKS) - 1).bit_length(),
        "memory_bytes": max(network.plan.extent, WORD_BYTES),
        "weight_bytes": sum(layer.run.weight_bytes for layer in network.layers),
        "arguments": partial(_arguments, network),
        "copies": list(_input_copies(network)),
        "steps": list(_steps(network)),
        "output": network.layers[-1].run.output,
        "bit": _result_bit(network),
        "element_type": element_type,
        "element": element,
        "examples": examples,
        "has_images": isinstance(examples[0].input, np.ndarray),
        "checksums": [list(map(_checksum, network.layers, example.results)) for example in examples],
        "target": target,
        "cores_option": cores_option,
        "cluster": (f" --cluster{cores_option} --tcdm {target.tcdm}" if cores_option else "")
        + (f" --ram {target.ram}" if target.ram else ""),
    }
    texts = {name: _TEMPLATES.get_template(name).render(values) for name in _FILES}
    texts |= {
        f"include/{KERNELS_HEADER}": kernels_header(network.functions),
        f"include/{ARGUMENTS_HEADER}": arguments_header(),
    }
    return texts | {f"kernels/{run.name}.s": kernel_function(run) for run in network.functions}


def _checksum(layer: CLayer, results: NDArray[Any]) -> str:
    output = layer.run.output
    if output.planes:
        results = results.transpose(2, 0, 1)
    rows = output.in_rows
    words = pack_words(results.reshape(-1, rows.shape[-1]).astype(np.int64), rows.bits)
    _, pixels, _, pixel_words = layer.counts
    assert words.shape == (pixels, pixel_words)
    checksum = _OFFSET
    for word in words.reshape(-1).tolist():
        checksum = (checksum ^ word) * _PRIME & WORD_MASK
    return f"0x{checksum:08x}"


def _element(layout: InputLayout, scaling: Scaling) -> tuple[str, list[str]]:
    given = (scaling.subtract, scaling.multiply, scaling.add)
    colours = max([1, *(len(numbers) for numbers in given if not isinstance(numbers, int))])
    rows = scaling.by_colour(colours)
    ends = [(sample - less) * times + more for sample in (0, _MOST_SAMPLE) for less, times, more in rows]
    kind = "int64_t" if max(map(abs, ends)) >= _I32 else "int32_t"
    place = "channel" if colours == layout.channels else f"channel % {colours}"
    lines: list[str] = []
    value = "sample"
    steps = (("subtract", "-", 0), ("multiply", "*", 1), ("add", "+", 0))
    for (name, sign, neutral), numbers in zip(steps, zip(*rows, strict=True), strict=True):
        if set(numbers) == {neutral}:
            continue
        number = f"{name}[{place}]"
        if len(set(numbers)) == 1:
            number = str(numbers[0]) if numbers[0] >= 0 else f"({numbers[0]})"
        else:
            lines.append(f"static const int32_t {name}[] = {{{', '.join(map(str, numbers))}}};")
        value = f"({value} {sign} {number})"
    if not lines:
        lines.append("(void)channel;")
    if scaling.shift:
        value += f" >> {scaling.shift}"
    least = -(1 << layout.bits - 1) if layout.signed else 0
    most = least + (1 << layout.bits) - 1
    shifted = [end >> scaling.shift for end in ends]
    if layout.bits == SIGN_BITS:
        lines.append(f"return {value} >= 0 ? 1 : 0;")
    elif least <= min(shifted) and max(shifted) <= most:
        lines.append(f"return (int32_t)({value});" if kind == "int64_t" else f"return {value};")
    else:
        result = "(int32_t)value" if kind == "int64_t" else "value"
        lines.append(f"const {kind} value = {value};")
        lines.append(f"return value < {least} ? {least} : value > {most} ? {most} : {result};")
    return kind, lines


def _arguments(network: CNetwork, layer: CLayer) -> Iterator[tuple[str, str]]:
    for field in layer.run.structure.fields:
        value = layer.run.arguments[field.name]
        yield field.name, _address(network, layer, value) if field.pointer else _number(value)


def _number(value: int) -> str:
    word = value & WORD_MASK
    return str(word) if word < _I32 else f"(uint32_t){word - (1 << XLEN)}"


def _address(network: CNetwork, layer: CLayer, address: int) -> str:
    for name, symbol in layer.run.image.symbols.items():
        offset = address - symbol.address
        if not 0 <= offset < symbol.length:
            continue
        if name in layer.places:
            return f"{network.place(layer.places[name])}{f' + {offset}' if offset else ''}"
        piece, place = weights_name(layer.stage.name), f"{layer.weights}."
        if piece in network.plan.offsets:
            place = f"WEIGHTS({layer.name}, {network.piece_names[piece]})->"
        return f"{place}{name}{f' + {offset // WORD_BYTES}' if offset else ''}"
    raise AssertionError(address)


def _steps(network: CNetwork) -> Iterator[str]:
    for step in network.plan.steps:
        function = "0" if step.layer is None else f"layer_{network.layers[step.layer].name}"
        loaded = "0, 0, 0"
        if step.load is not None:
            layer = network.layers[step.load]
            loaded = f"&{layer.weights}, {network.place(weights_name(layer.stage.name))}, sizeof {layer.weights}"
        yield f"{function}, {loaded}"


def _input_copies(network: CNetwork) -> Iterator[dict[str, Any]]:
    offset = 0
    for name, words in network.input.items():
        start, is_inside = f" + {offset}" if offset else "", name in network.plan.offsets
        yield {"place": network.place(name), "start": start, "bytes": words.nbytes, "inside": is_inside}
        offset += words.nbytes


def _result_bit(network: CNetwork) -> str:
    output, (*pixels, channels) = network.layers[-1].run.output, network.results
    if prod(pixels) == 1:
        return f"number * {output.bits}"
    return f"number / {channels} * {output.pixel_bytes * BYTE_BITS} + number % {channels} * {output.bits}"
