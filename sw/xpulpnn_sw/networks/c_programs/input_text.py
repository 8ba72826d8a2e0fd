"""The function in C that makes an input of the samples of an image."""

import textwrap
from collections.abc import Sequence

from xpulpnn_sw.kernels.variants import BYTE_BITS
from xpulpnn_sw.layers.precision import SIGN_BITS
from xpulpnn_sw.networks.c_programs.input_layout import InputLayout
from xpulpnn_sw.networks.described import Scaling

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
