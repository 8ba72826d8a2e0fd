"""A C program that runs a network on examples, with its Makefile, README and memory plan."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

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
from xpulpnn_sw.networks.deployment import Piece, weights_name
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
    *("Makefile", "README.md"),
)
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
_MOST_SAMPLE = (1 << BYTE_BITS) - 1
_I32 = 1 << 31  # arguments from here on are negative


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
        "cluster": f" --cluster{cores_option} --tcdm {target.tcdm}" if cores_option else "",
    }
    texts = {name: _TEMPLATES.get_template(name).render(values) for name in _FILES}
    texts |= {
        "plan.svg": plan_picture(network),
        f"include/{KERNELS_HEADER}": kernels_header(network.functions),
        f"include/{ARGUMENTS_HEADER}": arguments_header(),
    }
    return texts | {f"kernels/{run.name}.s": kernel_function(run) for run in network.functions}


def _checksum(layer: CLayer, results: NDArray[Any]) -> str:
    """Return the checksum that ``main.c`` computes over the results of a layer in memory."""
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
    """Return the type of a sample, and the C statements that convert one to an element of the input."""
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
    """Return the C expression of the first bit of result ``number`` in the results of the last layer."""
    output, (*pixels, channels) = network.layers[-1].run.output, network.results
    if prod(pixels) == 1:
        return f"number * {output.bits}"
    return f"number / {channels} * {output.pixel_bytes * BYTE_BITS} + number % {channels} * {output.bits}"
