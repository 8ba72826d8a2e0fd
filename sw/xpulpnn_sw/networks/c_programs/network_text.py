"""The text of a network in C: its functions, its weights."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from string import Template

from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sw.kernels.layout import OutputLayout, Words
from xpulpnn_sw.kernels.variants import BYTE_BITS, WORD_BITS
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.library.packed_layer import word_lines
from xpulpnn_sw.networks.c_programs.c_network import CLayer, CNetwork, InputLayout, c_string, comment_text
from xpulpnn_sw.networks.deployment import Piece, results_name, weights_name
from xpulpnn_sw.networks.kernels import inputs_of, own_symbols
from xpulpnn_sw.networks.network import Scaling

_MOST_SAMPLE = (1 << BYTE_BITS) - 1
_I32 = 1 << 31
_PIECE = """\
memset(bytes{start}, {around}, {size});
for (uint32_t row = 0; row < {rows}; ++row)
    for (uint32_t column = 0; column < {columns}; ++column)
        for (uint32_t channel = 0; channel < {channels}; ++channel) {{
            const uint8_t sample = image[(row * {columns} + column) * {channels} + channel];
            const uint32_t bit = {base}row * {row_bits} + column * {pixel_bits} + channel * {channel_bits};
            bytes[{byte}] {put};
        }}"""


def input_declaration(name: str, layout: InputLayout) -> str:
    """The prototype in C, with what the function takes."""
    rows = f"{layout.rows} rows of {layout.columns} pixels of " if layout.rows * layout.columns > 1 else ""
    samples = f"{layout.channels} byte{'s' if layout.channels > 1 else ''}"
    return "\n".join(
        [
            f"/* Makes an input of the samples of an image, {rows}{samples}. */",
            f"void {name}_input(const uint8_t *image, void *input);",
        ]
    )


def input_functions(name: str, layouts: Sequence[InputLayout], scaling: Scaling, *, signed: bool) -> str:
    """Its definition; ``layouts`` are the places of the input one after the other."""
    lines = [*_element(layouts[0], scaling, signed=signed), ""]
    lines += [f"void {name}_input(const uint8_t *image, void *input) {{", "    uint8_t *bytes = input;"]
    start = 0
    for layout in layouts:
        base, mask, is_byte = layout.bit(0, 0, 0), (1 << layout.bits) - 1, layout.bits == BYTE_BITS
        element = "element(sample, channel)"
        piece = _PIECE.format(
            start=f" + {start}" if start else "",
            around=layout.around & mask if is_byte else 0,
            size=layout.size,
            rows=layout.rows,
            columns=layout.columns,
            channels=layout.channels,
            base=f"{base} + " if base else "",
            row_bits=layout.row_bits,
            pixel_bits=layout.pixel_bits,
            channel_bits=layout.channel_bits,
            byte=f"{f'{start} + ' if start else ''}bit / 8",
            put=f"= (uint8_t){element}" if is_byte else f"|= (uint8_t)(({element} & {mask}) << bit % 8)",
        )
        lines += [f"    /* {layout.shown} */", textwrap.indent(piece, "    ")]
        start += layout.size
    return "\n".join([*lines, "}", ""])


def _element(layout: InputLayout, scaling: Scaling, *, signed: bool) -> list[str]:
    given = (scaling.subtract, scaling.multiply, scaling.add)
    colours = max([1, *(len(numbers) for numbers in given if not isinstance(numbers, int))])
    rows = scaling.by_colour(colours)
    ends = [(sample - less) * times + more for sample in (0, _MOST_SAMPLE) for less, times, more in rows]
    kind = "int64_t" if max(map(abs, ends)) >= _I32 else "int32_t"
    place = "channel" if colours == layout.channels else f"channel % {colours}"
    lines: list[str] = []
    value = "sample"
    for name, numbers, sign, neutral in zip(
        ("subtract", "multiply", "add"), zip(*rows, strict=True), "-*+", (0, 1, 0), strict=True
    ):
        if set(numbers) == {neutral}:
            continue
        number = f"{name}[{place}]"
        if len(set(numbers)) == 1:
            number = str(numbers[0]) if numbers[0] >= 0 else f"({numbers[0]})"
        else:
            lines.append(f"    static const int32_t {name}[] = {{{', '.join(map(str, numbers))}}};")
        value = f"({value} {sign} {number})"
    if not lines:
        lines.append("    (void)channel;")
    if scaling.shift:
        value += f" >> {scaling.shift}"
    least = -(1 << layout.bits - 1) if signed else 0
    most = least + (1 << layout.bits) - 1
    shifted = [end >> scaling.shift for end in ends]
    if layout.bits == SIGN_BITS:
        lines.append(f"    return {value} >= 0 ? 1 : 0;")
    elif least <= min(shifted) and max(shifted) <= most:
        lines.append(f"    return (int32_t)({value});" if kind == "int64_t" else f"    return {value};")
    else:
        result = "(int32_t)value" if kind == "int64_t" else "value"
        lines.append(f"    const {kind} value = {value};")
        lines.append(f"    return value < {least} ? {least} : value > {most} ? {most} : {result};")
    return [
        "/* An element of the input, of a sample of the image. */",
        f"static int32_t element({kind} sample, uint32_t channel) {{",
        *lines,
        "}",
    ]


_TEMPLATES = Path(__file__).parent / "c"
_SMALL = 1 << 31  # arguments from here on are negative numbers


def c_template(name: str) -> Template:
    """A file of the folder ``c``."""
    return Template((_TEMPLATES / name).read_text())


def title(network: CNetwork) -> str:
    """Return a line that describes the network."""
    layers = len(network.layers)
    return comment_text(f"{network.network.name}: {layers} layers, {network.network.macs} multiplications")


def network_header(network: CNetwork) -> str:
    """``network.h``."""
    known, names = network.input_layouts, _class_names(network)
    cluster = network.cores is not None
    return c_template("network.h").substitute(
        title=title(network),
        guard=network.name.upper(),
        id=network.name,
        layers=len(network.layers),
        results=prod(network.results),
        input_bytes=sum(words.nbytes for words in network.input.values()),
        who=f" on {network.cores} cores; core 0 calls it outside of a fork" if cluster else "",
        declaration=f"{input_declaration(network.name, known[0])}\n\n" if known else "",
        classes=f"/* What the results stand for. */\nextern const char *const {names};\n\n" if network.classes else "",
        made=f", as {network.name}_input makes it" if known else "",
        meaning=": from barrier to barrier, with what\n   has been brought for it alone" if cluster else "",
    )


def network_source(network: CNetwork) -> str:
    """``network.c``."""
    is_cluster = network.cores is not None
    texts = ", ".join(map(c_string, network.classes))
    return c_template("network_cluster.c" if is_cluster else "network_core.c").substitute(
        title=title(network),
        id=network.name,
        places="\n".join(_enumerators(network, network.plan.pieces, network.plan.places)),
        outside=_outside(network),
        memory_bytes=max(network.plan.extent, WORD_BYTES),
        functions="\n\n".join(_function(network, layer) for layer in network.layers),
        descriptions="\n".join(f"    {{{_description(layer)}}}," for layer in network.layers),
        calls="\n".join(f"    layer_{layer.name}," for layer in network.layers),
        classes=f"const char *const {_class_names(network)} = {{{texts}}};\n\n" if texts else "",
        results="\n".join(
            f"    (const uint32_t *){network.place(results_name(layer.stage.name))}," for layer in network.layers
        ),
        score=_score(network),
        steps="\n".join(f"    {{{text}}}," for text in _steps(network)),
        brought="\n".join(_brought(network)),
        cores=network.cores or 1,
    )


def input_source(network: CNetwork, scaling: Scaling) -> str:
    """``input.c``; only where it is known where elements of the input are."""
    signed = _reads_signed(network)
    lines = [f"// The input of {title(network)}. Generated by xpulpnn."]
    lines += ['#include "network.h"', "", "#include <string.h>", ""]
    return "\n".join([*lines, input_functions(network.name, network.input_layouts, scaling, signed=signed)])


def _reads_signed(network: CNetwork) -> bool:
    for layer in network.layers:
        for symbol, (_, signed) in zip(inputs_of(layer.run), layer.stage.input_elements, strict=True):
            if layer.places[symbol] in network.input:
                return signed
    raise AssertionError(network.name)


def _class_names(network: CNetwork) -> str:
    return f"{network.name}_class[{network.name}_results]"


def weights_header(network: CNetwork) -> str:
    """``weights.h``: a structure for each layer that has any."""
    lines = [f"// Weights and parameters of {title(network)}. Generated by xpulpnn."]
    guard = f"XP_WEIGHTS_{network.name.upper()}_H"
    lines += [f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", ""]
    lines += ["/* In the order in which the functions read them, with what they read ahead. */"]
    for layer, name in _weighted(network):
        lines.append(f"extern const struct {name} {{")
        lines += [f"    uint32_t {key}[{words.size}];" for key, words in _contents(layer).items()]
        lines += [f"}} {name};", ""]
    return "\n".join([*lines, "#endif", ""])


def weights_source(network: CNetwork) -> str:
    """``weights.c``."""
    lines = [f"// Weights and parameters of {title(network)}. Generated by xpulpnn.", '#include "weights.h"']
    for layer, name in _weighted(network):
        lines += ["", f"const struct {name} {name} = {{"]
        for key, words in _contents(layer).items():
            lines += [f"    .{key} = {{", *(f"        {text}" for text in word_lines(words)), "    },"]
        lines.append("};")
    return "\n".join([*lines, ""])


def result_words(output: OutputLayout) -> tuple[int, int]:
    """Words of a pixel that have results, and the bits of the last of them that do."""
    bits = output.shape[-1] * output.bits
    words = -(-bits // WORD_BITS)
    return words, (1 << (bits - (words - 1) * WORD_BITS)) - 1


def _enumerators(network: CNetwork, pieces: Sequence[Piece], places: Mapping[str, int]) -> Iterator[str]:
    for piece in pieces:
        yield f"    {network.piece_names[piece.name]} = {places[piece.name]},"


def _outside(network: CNetwork) -> str:
    plan = network.plan
    if not plan.outside:
        return ""
    return "\n".join(
        [
            "",
            "/* Maps and buffers for which there is no room in the TCDM. */",
            "enum {",
            *_enumerators(network, plan.outside, plan.outside_places),
            f"    OUTSIDE_BYTES = {plan.outside_extent},",
            "};",
            "static uint32_t outside[OUTSIDE_BYTES / 4];",
            "",
            "#define L2(place) ((uint8_t *)outside + (place))",
            "",
        ]
    )


def _weighted(network: CNetwork) -> Iterator[tuple[CLayer, str]]:
    for layer in network.layers:
        if own_symbols(layer.run):
            yield layer, _weights(network, layer)


def _weights(network: CNetwork, layer: CLayer) -> str:
    return f"{network.name}_{layer.name}_weights"


def _contents(layer: CLayer) -> dict[str, Words]:
    return {key: layer.run.image.view(key).view("<u4") for key in own_symbols(layer.run)}


def _function(network: CNetwork, layer: CLayer) -> str:
    stage, run = layer.stage, layer.run
    macs = f", {layer.macs} MAC" if layer.macs else ""
    storage = "TCDM static" if network.cores is not None else "static const"
    fields = [
        f"        .{field.name} = {_address(network, layer, value) if field.pointer else _number(value)},"
        for field in run.structure.fields
        for value in [run.arguments[field.name]]
    ]
    return "\n".join(
        [
            _comment_line(f"{stage.name}: {stage.kind.name} {stage.layer}, {stage.precision}{macs}."),
            f"static void layer_{layer.name}(uint32_t core, uint32_t cores) {{",
            f"    {storage} struct {run.structure.name} arguments = {{",
            *fields,
            "    };",
            f"    {run.name}(&arguments, core, cores);",
            "}",
        ]
    )


def _comment_line(text: str) -> str:
    return f"/* {comment_text(text)} */"


def _number(value: int) -> str:
    word = value & ((1 << WORD_BITS) - 1)
    return str(word) if word < _SMALL else f"(uint32_t){word - (1 << WORD_BITS)}"


def _address(network: CNetwork, layer: CLayer, address: int) -> str:
    for name, symbol in layer.run.image.symbols.items():
        offset = address - symbol.address
        if not 0 <= offset < symbol.length:
            continue
        if name in layer.places:
            return f"{network.place(layer.places[name])}{f' + {offset}' if offset else ''}"
        weights = _weights(network, layer)
        piece = weights_name(layer.stage.name)
        if piece in network.plan.places:
            place = network.piece_names[piece]
            return f"WEIGHTS({layer.name}, {place})->{name}{f' + {offset // WORD_BYTES}' if offset else ''}"
        return f"{weights}.{name}{f' + {offset // WORD_BYTES}' if offset else ''}"
    raise AssertionError(address)


def _description(layer: CLayer) -> str:
    output = layer.run.output.in_rows
    words, mask = result_words(output)
    counts = (layer.macs, prod(output.shape[:-1]), output.pixel_bytes // WORD_BYTES, words)
    return f"{c_string(layer.stage.name)}, {', '.join(map(str, counts))}, 0x{mask:08X}"


def _steps(network: CNetwork) -> Iterator[str]:
    for step in network.plan.steps:
        function = "0" if step.layer is None else f"layer_{network.layers[step.layer].name}"
        if step.load is None:
            yield f"{function}, 0, 0, 0"
            continue
        layer = network.layers[step.load]
        weights, place = _weights(network, layer), network.place(weights_name(layer.stage.name))
        yield f"{function}, &{weights}, {place}, sizeof {weights}"


def _brought(network: CNetwork) -> Iterator[str]:
    offset = 0
    for name, words in network.input.items():
        place, start = network.place(name), f" + {offset}" if offset else ""
        if name in network.plan.places and network.cores is not None:
            yield f"            bring((const uint8_t *)task.input{start}, {place}, {words.nbytes});"
        elif network.cores is not None:
            yield f"            memcpy({place}, (const uint8_t *)task.input{start}, {words.nbytes});"
        else:
            yield f"    memcpy({place}, (const uint8_t *)input{start}, {words.nbytes});"
        offset += words.nbytes


def _score(network: CNetwork) -> str:
    output, shape = network.layers[-1].run.output, network.results
    channels, results = shape[-1], f"results_of[{network.name}_layers - 1]"
    bit = f"number * {output.bits}"
    if prod(shape[:-1]) > 1:
        bit = f"number / {channels} * {output.pixel_bytes * 8} + number % {channels} * {output.bits}"
    half, mask = 1 << (output.bits - 1), (1 << output.bits) - 1
    lines = [f"    const uint32_t bit = {bit}, element = {results}[bit / 32] >> bit % 32 & 0x{mask:X};"]
    if output.bits == SIGN_BITS:
        lines.append("    return element ? 1 : -1;")
    elif output.bits == WORD_BITS:
        lines = [f"    return (int32_t){results}[{bit.replace(f' * {WORD_BITS}', '')}];"]
        if prod(shape[:-1]) > 1:
            lines = [f"    const uint32_t bit = {bit};", f"    return (int32_t){results}[bit / 32];"]
    elif output.signed:
        lines.append(f"    return (int32_t)(element ^ 0x{half:X}) - 0x{half:X};")
    else:
        lines.append("    return (int32_t)element;")
    return "\n".join(["/* A result of the last layer. */", "static int32_t score(uint32_t number) {", *lines, "}"])
