"""Writes a library into a folder: objects, headers that declare and describe the functions, and its README."""

import re
import tempfile
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from xpulpnn_sw.kernels.builder import WORD
from xpulpnn_sw.kernels.im2col import SPARE_WORDS
from xpulpnn_sw.kernels.kernel import STACK_BYTES, KernelRun
from xpulpnn_sw.kernels.programs.c_program import ARGUMENTS_HEADER, arguments_header, declaration, kernel_function
from xpulpnn_sw.kernels.variants import Level, Variant
from xpulpnn_sw.library.functions import elements
from xpulpnn_sw.library.public import PublicFunction
from xpulpnn_sw.library.utils_header import UTILS_HEADER, utils_header
from xpulpnn_sw.toolchain.build import archive
from xpulpnn_sw.toolchain.build_options import Options

KERNELS_HEADER = "xpulpnn_kernels.h"
LIBRARY_FILE = "libxpulpnn.a"

_KERNELS = f"""\
Every function computes the share of `core` out of `cores`: call it with 0, 1 for all of it. It is reentrant and may be
interrupted at any time; {STACK_BYTES} bytes of stack hold its frame and a handler's. Hardware loops and the NN-RF are
lost to the caller, and an interrupt handler must leave them as they are.
All pointers are word-aligned. Elements are packed little end first; feature maps are [row][column][channel], each pixel
filled up with zero channels to whole words and to a multiple of four channels. Of elements of one bit 1 is +1 and 0 is
-1; around such a map lies -1, and bits of channels that fill up are 0. Nothing is checked at run time: `xpulpnn pack`
checks a layer and writes its arguments."""

_PRODUCT = """\
weights, parameters: as `xpulpnn pack` lays them out. Output: room for whole groups of pixels (x2_4x4, nn_4x4: 4).
Where the name ends with qnt, the parameters begin at a multiple of 64 bytes, for results of 2 bits of 16."""

# what the caller has to know, by argument structure
_RULES = {
    "xp_conv_arguments": f"""\
Also for conv1d without dilation and for what is not in place of pointwise and linear. Variants Nx1 are for layers with
a single output pixel, the others for all others. An input pixel has channels for whole words of inputs and of weights.
{_PRODUCT}
Input: one word behind it may be read. Buffer: buffer_stride for each core, at least the variant's pixels times
row_stride and {SPARE_WORDS} words; best 2 words more than a multiple of 32, so that cores meet in no bank.""",
    "xp_conv1d_arguments": f"""\
Dilated: the sequence runs along the rows, width and kernel_width are 1. Otherwise as conv.
{_PRODUCT}""",
    "xp_conv_outside_arguments": """\
As conv, with the value around the map.""",
    "xp_conv1d_outside_arguments": """\
As conv1d, with the value around the map.""",
    "xp_matmul_arguments": f"""\
Rows of activations: of pointwise the pixels of a map, of which up to one group less one, and two words, behind the
input may be read; of matmul one word. Rows of matmul alternate word by word in groups of four with the variants nn_4x4
and x2_4x4, of two with x2_4x2; those of inputs wider than the weights are cut into planes, and without sub-byte
products they are bytes.
{_PRODUCT}""",
    "xp_linear_arguments": f"""\
Inputs as wide as the weights (bytes without sub-byte products). Up to two words behind those that fill whole words of
weights may be read.
{_PRODUCT}""",
    "xp_depthwise_arguments": """\
The input is [channel][row][column], each row of whole words; two words behind it may be read. The output is
[row][column][channel]. weights, parameters: as `xpulpnn pack` lays them out. Filters Kx3_s1 are for K rows, at most 3
columns and steps of one column, the others for all others. Buffer: buffer_stride for each core, rows of whole words
that hold a padded input row, as many as the padded input has, and 32 bytes.""",
    "xp_depthwise_outside_arguments": """\
As depthwise, with the value around the map.""",
    "xp_add_arguments": """\
Of two maps and the result, each pixel has as many channels as the narrowest one needs for whole words. The weights'
width and sign in the name are those of the second map. A table has a byte for each bit pattern of an element.""",
    "xp_add_shift_arguments": """\
clip((first_factor * a + second_factor * b + summand) >> shift); otherwise as the other addition.""",
    "xp_maxpool_arguments": """\
For the window and stride in the name only. What lies outside the map is not looked at.""",
    "xp_avgpool_arguments": """\
For the window and stride in the name only: the sum over the window's area, towards zero.""",
    "xp_avgpool_scaled_arguments": """\
For the window and stride in the name only: (factor * sum / area + summand) >> shift, clipped.""",
    "xp_relu_arguments": """\
Of signed elements, word by word; the output may be the input.""",
    "xp_transpose_arguments": """\
The output is [channel][row][column], as the input of a depthwise convolution: each row of whole words, whose last
elements may be anything behind those of the row, and a channel for each of an input pixel, those that fill it up too.
Behind the input up to three pixels may be read, of elements of 4 and 2 bits up to seven.""",
}

_README = """\
# Kernels of xpulpnn

For {core}. `include/{header}` declares the functions below and says how operands lie in memory.
`lib/{library}` has them, an object each, so that a program takes only those that it calls:

```sh
xpulpnn pack conv 8x8x16:16x3x3 weights.npz --precision 4x4x4 -o layer.c    # a trained layer: layer.c and layer.h
xpulpnn cc {settings} main.c layer.c -I include -L lib -lxpulpnn -o main.elf
```

| function | inputs x weights, if any, x results | variant | bytes |
|---|---|---|---|
{rows}
"""

_PUBLIC = """\

## Public names

`include/pulp_nn_kernels.h` declares functions with the names, arguments and layouts of the PULP-NN libraries, made of
the kernels above; `include/pulp_nn_utils.h` has the short names that programs for those libraries use. A program that
has its own headers of those libraries needs only the library:

```sh
xpulpnn cc {settings} --cluster application.c -I include -L lib -lxpulpnn -o application.elf
```

{names}
"""


def kernels_header(functions: Sequence[KernelRun]) -> str:
    """C text that declares and describes the functions."""
    lines = [_comment(_KERNELS)]
    by_structure = sorted(functions, key=lambda run: list(_RULES).index(run.structure.name))
    for name, group in groupby(by_structure, key=lambda run: run.structure.name):
        lines += ["", _comment(f"struct {name}\n{_RULES[name]}")]
        for run in group:
            lines += ["", f"/* {described(run)}. */", declaration(run)]
    title = "Kernels for neural networks of few bits"
    return _header(title, "XPULPNN_KERNELS_H", f'"{ARGUMENTS_HEADER}"', lines)


def _header(title: str, guard: str, included: str, lines: Iterable[str]) -> str:
    """A header for C and C++."""
    head = [
        f"// {title}. Generated by xpulpnn.",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        f"#include {included}",
        "",
    ]
    begin, end = ["#ifdef __cplusplus", 'extern "C" {', "#endif", ""], ["", "#ifdef __cplusplus", "}", "#endif"]
    return "\n".join([*head, *begin, *lines, *end, "", "#endif", ""])


def readme(functions: Sequence[KernelRun], core: str, settings: str, public: Sequence[PublicFunction] = ()) -> str:
    """Markdown text with tables of the functions, for a core and the options that describe it."""
    rows = "\n".join(
        f"| `{run.name}` | {' x '.join(elements(run))} | {run.variant.name} | {len(run.function) * WORD} |"
        for run in functions
    )
    text = _README.format(core=core, header=KERNELS_HEADER, library=LIBRARY_FILE, settings=settings, rows=rows)
    if not public:
        return text
    names = "\n".join(f"* {', '.join(f'`{name}`' for name in function.names)}" for function in public)
    return text + _PUBLIC.format(names=names, settings=settings)


def described(run: KernelRun) -> str:
    """A function in a few words."""
    parts = [" x ".join(elements(run)), _blocks(run.variant)]
    if run.rule is not None:
        parts.append(f"results by {run.rule.value}")
    if run.specialised:
        parts.append(f"for the layer {run.layer} alone, all arguments but addresses ignored")
    return ", ".join(parts)


def _blocks(level: Level) -> str:
    if not isinstance(level, Variant):
        return f"for {level.name}"
    return f"{level.name}: {level.nch} channels of {level.npx} pixel{'s' if level.npx > 1 else ''} at a time"


def _comment(text: str) -> str:
    first, *rest = text.splitlines()
    return "\n".join([f"/* {first}", *(f"   {line}" for line in rest)]) + " */"


PUBLIC_HEADER = "pulp_nn_kernels.h"

_WIDTH = 120

_GENERAL = """\
Functions of the public PULP-NN libraries, with their arguments and layouts, made of the kernels of xpulpnn. Every core
of a team calls them (pi_cl_team_fork); they share the work, end with a barrier, and take any number of cores.

Feature maps are [row][column][channel], weights [out][ky][kx][in], elements packed little end first; channels of each
map fill whole bytes. Two flags choose the results: both set: clip((kappa * acc + lambda) >> out_shift); flag_relu
alone: clip((out_mul * acc) >> out_shift); no flag_relu: clip(acc >> out_shift). bias: int32_t for each channel unless
said otherwise, or NULL.

Any alignment will do, and any number of channels; fastest are pointers at whole words, pixels of whole words and output
channels in fours. What a kernel needs beside the operands (filters in its order, im2col rows) is taken from the memory
of xp_l1_malloc, on a core by itself malloc, and given back: buffers given as arguments are not used and may be NULL.
Where there is too little, channels are computed in several turns, at last with memory of malloc. Up to two words behind
an operand may be read. An argument that a function cannot take ends the program with a line on stderr.
"""

_KINDS = {
    "conv": "Convolutions, and with a filter of one pixel pointwise ones. Padding and strides hold for both.",
    "depthwise": "Depthwise convolutions. The input is [channel][row][column], where the channels of a byte lie in the "
    "same byte of a map, lowest bits first; so do those of the weights, [channel][ky][kx]. The output is "
    "[row][column][channel].",
    "linear": "Fully connected layers. Weights are [out][in], each row of whole bytes.",
    "linear_sums": "The same, results are int32_t accumulators.",
    "maxpool": "Maximum pools. The input is left as it is.",
    "avgpool": "Average pools, over the whole window's area; with flag_requant clip((sum * (lambda / area) + out_add) "
    ">> out_shift). pulp_nn_avgpool: clip((sum * lambda / area + out_add) >> out_shift).",
    "add": "Sums of two maps: each element becomes clip8((element * in_mult + in_add) >> in_shift), with the sign of "
    "the results, and with out_requant_flag their sum (sum * out_mult + out_add) >> out_shift, which is clipped.",
    "add_shift": "clip((out_mult1 * input + out_mult2 * input2) >> out_shift); results are as wide as the first map.",
}

_BYTES = "Of the functions without widths in their names bias is int8_t for each channel."


def public_header(functions: Sequence[PublicFunction]) -> str:
    """C text that declares and describes the functions."""
    lines = [f"/* {_GENERAL}", f"{_BYTES} */"]
    by_kind = sorted(functions, key=lambda function: list(_KINDS).index(function.kind))
    for kind, group in groupby(by_kind, key=lambda function: function.kind):
        comment = textwrap.fill(f"/* {_KINDS[kind]}", _WIDTH - 3, subsequent_indent="   ") + " */"
        lines += ["", comment]
        for function in group:
            for name in function.names:
                lines += _declaration(function, name)
    return _header("Functions with the names of PULP-NN", "XP_PULP_NN_KERNELS_H", "<stdint.h>", lines)


def _declaration(function: PublicFunction, name: str) -> list[str]:
    words = [f"{one.text}," for one in function.parameters]
    words[-1] = words[-1].rstrip(",")
    # a parameter is not torn apart
    text = textwrap.wrap(" ".join(word.replace(" ", "\0") for word in words), _WIDTH - 4)
    return [f"void {name}(", *(f"    {line}".replace("\0", " ") for line in text), ");"]


_PARTS = Path(__file__).parent / "c"  # what functions with public names have in common
_COMMON = "common"  # the part that the others call


def texts(
    functions: Sequence[KernelRun], core: str, settings: str, public: Sequence[PublicFunction] = ()
) -> dict[str, str]:
    """Everything but the objects, by path in the library's folder."""
    written = {
        f"include/{ARGUMENTS_HEADER}": arguments_header(),
        f"include/{KERNELS_HEADER}": kernels_header(functions),
        "README.md": readme(functions, core, settings, public),
    }
    if public:
        wide = any(one.type.startswith("int64_t") for function in public for one in function.parameters)
        written[f"include/{PUBLIC_HEADER}"] = public_header(public)
        written[f"include/{UTILS_HEADER}"] = utils_header(wide=wide)
    return written


def objects(
    functions: Sequence[KernelRun],
    folder: Path,
    *,
    compiler: str | None,
    options: Options,
    public: Sequence[PublicFunction] = (),
) -> Path:
    """Assemble the functions, an object each, into the library of a folder, where it appears complete or not at all.

    ``public`` functions are compiled besides; those that they call must be among ``functions``.
    Raises :class:`~xpulpnn_sw.toolchain.compilers.CompileError` and :class:`~xpulpnn.errors.ToolError`.
    """
    library = folder / "lib" / LIBRARY_FILE
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="xpulpnn-library-") as name:
        place = Path(name)
        written = {f"{run.name}.s": kernel_function(run) for run in functions}
        written |= {f"{function.name}.c": function.source for function in public}
        for file, text in written.items():
            (place / file).write_text(text)
        (place / ARGUMENTS_HEADER).write_text(arguments_header())
        sources = [place / file for file in written]
        sources += _parts(public)
        archive(
            sources, library, compiler=compiler, options=replace(options, include=(*options.include, _PARTS, place))
        )
    return library


def _parts(public: Sequence[PublicFunction]) -> list[Path]:
    names: set[str] = set()
    for function in public:
        for match in re.finditer(r"xp_nn_(\w+?)(?:_shift)?\(&?kernel", function.source):
            names |= {_COMMON, "pool" if match[1].endswith("pool") else match[1]}
    return [_PARTS / f"xp_nn_{name}.c" for name in sorted(names)]
