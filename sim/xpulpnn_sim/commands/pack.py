"""``xpulpnn pack``: weights of a trained layer in the order of a kernel."""

import argparse
import re
from pathlib import Path

from xpulpnn.config import preset
from xpulpnn.errors import InputError
from xpulpnn_sim.commands.common import (
    DEFAULT_PRESET,
    OK,
    add_json,
    output,
    require_folder,
    require_writable,
    write_json,
)
from xpulpnn_sim.commands.kernel import add_requantise, forms, rule_of
from xpulpnn_sim.files import write_bytes, write_text
from xpulpnn_sw.clibrary.packed_layer import PackedLayer, read_arrays
from xpulpnn_sw.clibrary.packed_text import c_header, c_source, npz
from xpulpnn_sw.clibrary.packing import MAP_KERNELS, PACKED_KERNELS, packed
from xpulpnn_sw.kernels.kinds import Kind, kind
from xpulpnn_sw.precision import Precision

_SUFFIXES = (".c", ".h", ".npz")
_KERNELS = (*PACKED_KERNELS, *MAP_KERNELS)
_USUAL_BITS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the subcommand."""
    parser.add_argument("kernel", choices=_KERNELS, metavar="KERNEL", help=", ".join(_KERNELS))
    parser.add_argument("layer", metavar="LAYER", help=forms(_KERNELS))
    parser.add_argument(
        "weights",
        type=Path,
        nargs="?",
        metavar="WEIGHTS.npz",
        help="arrays of integers: weights [out][ky][kx][in], depthwise [channel][ky][kx], conv1d [out][k][in], linear "
        "and matmul [out][in]; bias [out] if there is one; and for the rule kappa, lambda [out] and shift, or factor "
        "and shift, or shift, or thresholds [out][levels - 1]; none of these with results of 32 bits. add: factors, "
        "summands, shifts [2], or with :shift factors [2], shift and maybe a summand; avgpool with :scaled factor, "
        "summand, shift; the other pools and relu without file",
    )
    parser.add_argument(
        "--precision",
        metavar="XxWxY",
        help="widths of inputs, weights (add: of the second map) and results (default 8 bits, signs as usual)",
    )
    parser.add_argument(
        "--variant",
        metavar="NAME",
        help=f"way to write the kernel, as of cosim (default: the fastest on {DEFAULT_PRESET})",
    )
    add_requantise(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("build/layer.c"),
        metavar="FILE",
        help="NAME.c, and NAME.h beside it; NAME.h, with the arrays in it; or NAME.npz (default build/layer.c)",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Pack and write."""
    path: Path = arguments.output
    if path.suffix not in _SUFFIXES:
        raise InputError(f"--output must end in one of {', '.join(_SUFFIXES)}, not {path}")
    if path.suffix != ".npz" and not re.fullmatch(r"[A-Za-z]\w*", path.stem, re.ASCII):
        raise InputError(f"--output must be called like a name in C, not {path.name}")
    computing = kind(arguments.kernel)
    layer = computing.layer.parse(arguments.layer)
    variant = arguments.variant or _fastest(computing)
    has_weights = computing.name in PACKED_KERNELS
    usual = Precision.uniform(_USUAL_BITS) if has_weights else computing.uniform(_USUAL_BITS)
    precision = usual if arguments.precision is None else Precision.parse(arguments.precision)
    arrays = {} if arguments.weights is None else read_arrays(arguments.weights)
    result = packed(computing, layer, precision, variant, arrays, rule_of(arguments))
    require_folder(path.parent, "--output")
    require_writable(arguments.json)
    written = _write(result, path)
    output().print("\n".join(str(file) for file in written), markup=False, soft_wrap=True)
    write_json(
        arguments.json,
        {
            "function": result.run.name,
            "files": [str(file) for file in written],
            **{f"{name}_bytes": words.nbytes for name, words in result.contents.items()},
            **result.sizes,
            "arguments": result.constants,
        },
    )
    return OK


def _fastest(computing: Kind) -> str:
    """The variant that a library for the usual core has."""
    extensions = preset(DEFAULT_PRESET).extensions
    return [name for name, level in computing.variants.items() if level.extensions <= extensions][-1]


def _write(result: PackedLayer, path: Path) -> list[Path]:
    if path.suffix == ".npz":
        write_bytes(path, npz(result))
        return [path]
    name, header = path.stem, path.with_suffix(".h")
    if path.suffix == ".h":
        write_text(path, c_header(result, name, defines=True))
        return [path]
    write_text(path, c_source(result, name))
    write_text(header, c_header(result, name, defines=False))
    return [path, header]
