"""``xpulpnn pack``: weights of a trained layer in the order of a kernel."""

import re
from dataclasses import field
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from xpulpnn.config import preset
from xpulpnn.errors import InputError
from xpulpnn_sim.cli.common import OK, tell, write_json
from xpulpnn_sim.cli.configurations import DEFAULT_PRESET
from xpulpnn_sim.cli.kernel_options import FORMS, Requantising
from xpulpnn_sim.cli.options import Json, NewFile, arguments, command
from xpulpnn_sim.tools.files import write_bytes, write_text
from xpulpnn_sw.kernels.kinds import KINDS, kind
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.library.packed_layer import PackedLayer, c_header, c_source, npz, read_arrays
from xpulpnn_sw.library.packing import packed

_SUFFIXES = (".c", ".h", ".npz")
_USUAL_BITS = 8


@arguments
class PackOptions(Requantising, Json):
    """Options of the command."""

    kernel: Annotated[str, Parameter(choices=tuple(KINDS), show_choices=True)] = field(kw_only=False)
    """Kernel whose order the weights take."""
    layer: Annotated[str, Parameter(help=f"{FORMS}.")] = field(kw_only=False)
    weights: Path | None = field(default=None, kw_only=False)
    """Arrays of integers: weights [out][ky][kx][in], depthwise [channel][ky][kx], conv1d [out][k][in], linear and
    matmul [out][in]; bias [out] if there is one; and for the rule kappa, lambda [out] and shift, or factor and
    shift, or shift, or thresholds [out][levels - 1]; none of these with results of 32 bits. add: factors, summands,
    shifts [2], or with :shift factors [2], shift and maybe a summand; avgpool with :scaled factor, summand, shift;
    the other pools and relu without file."""
    precision: Annotated[str | None, Parameter(metavar="XxWxY")] = None
    """Widths of inputs, weights (add: of the second map) and results (default 8 bits, signs as usual)."""
    variant: str | None = None
    """Way to write the kernel, as of cosim (default: the fastest on the usual core)."""
    output: Annotated[NewFile, Parameter(alias="-o")] = Path("build/layer.c")
    """NAME.c, and NAME.h beside it; NAME.h, with the arrays in it; or NAME.npz."""


@command
def pack_command(options: PackOptions) -> int:
    """Pack and write."""
    path: Path = options.output
    if path.suffix not in _SUFFIXES:
        raise InputError(f"--output must end in one of {', '.join(_SUFFIXES)}, not {path}")
    if path.suffix != ".npz" and not re.fullmatch(r"[A-Za-z]\w*", path.stem, re.ASCII):
        raise InputError(f"--output must be called like a name in C, not {path.name}")
    computing = kind(options.kernel)
    layer = computing.layer.parse(options.layer)
    # the variant that a library for the usual core has
    extensions = preset(DEFAULT_PRESET).extensions
    fastest = [name for name, level in computing.variants.items() if level.extensions <= extensions][-1]
    variant = options.variant or fastest
    usual = Precision.uniform(_USUAL_BITS) if computing.rules else computing.uniform(_USUAL_BITS)
    precision = usual if options.precision is None else Precision.parse(options.precision)
    arrays = {} if options.weights is None else read_arrays(options.weights)
    result = packed(computing, layer, precision, variant, arrays, options.rule)
    written = _write(result, path)
    tell("\n".join(str(file) for file in written))
    write_json(
        options.json,
        {
            "function": result.run.name,
            "files": [str(file) for file in written],
            **{f"{name}_bytes": words.nbytes for name, words in result.contents.items()},
            **result.sizes,
            "arguments": result.constants,
        },
    )
    return OK


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
