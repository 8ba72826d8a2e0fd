"""``xpulpnn kernel``, ``library`` and ``pack``: kernels for C programs; options of all kernel commands."""

import re
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from xpulpnn.config import DEFAULT_PRESET, preset
from xpulpnn.errors import InputError, require
from xpulpnn_sim.cli.common import finish, pick, progress_bar, tell
from xpulpnn_sim.cli.configurations import Configuration
from xpulpnn_sim.cli.options import CompilerChoice, Json, NewFile, NewFolder, Seed, Words, arguments, command, listed
from xpulpnn_sim.cosimulation.model.machine import Machine
from xpulpnn_sim.cosimulation.workloads.kernel_run import Case, case_kernel, case_tensors
from xpulpnn_sim.tools.files import output_folder, replacing, write_bytes, write_texts
from xpulpnn_sim.tools.name_lists import select_names
from xpulpnn_sw.kernels.catalogue import KERNELS, find_kernel
from xpulpnn_sw.kernels.kernel import Kernel, KernelRun
from xpulpnn_sw.kernels.programs.c_program import c_program
from xpulpnn_sw.kernels.requantisation import RULES, Rule
from xpulpnn_sw.layers.npz import npz_arrays
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.library.functions import WINDOWS, Selection, library_functions
from xpulpnn_sw.library.packed_layer import PackedLayer, c_header, c_source, npz, packed
from xpulpnn_sw.library.public import PublicFunction, PublicFunctions
from xpulpnn_sw.library.write import LIBRARY_FILE, objects, texts
from xpulpnn_sw.toolchain.build import Options, build
from xpulpnn_sw.toolchain.compilers import find_compiler

WIDTHS = ("16", "8", "4", "2", "1")
FORMS = ", ".join(f"{name}: {kernel.layer.form}" for name, kernel in KERNELS.items())  # help on layers


@arguments
class Precisions:
    bits: Annotated[tuple[str, ...], listed(WIDTHS)] = ()
    """Widths of inputs, weights and results together, out of 16, 8, 4, 2, 1 (default 8; of cosim 8+4+2)."""
    precision: Annotated[Words, Parameter(metavar="XxWxY")] = ()
    """The three widths, such as 8x8x8+8x4x4."""

    def precisions(self, kernel: Kernel, default: Sequence[int] = (8,)) -> list[Precision]:
        if self.precision:
            require(not self.bits, "--bits must be left out with --precision")
            return [Precision.parse(text) for text in self.precision]
        if self.bits:
            # only products have single-bit operands
            select_names("+".join(self.bits), WIDTHS if kernel.rules else WIDTHS[:-1], "--bits")
        return [kernel.uniform(bits) for bits in map(int, self.bits or default)]


@arguments
class Requantising:
    requantise: Annotated[
        str | None,
        Parameter(
            choices=RULES,
            help="How results below 32 bits come of the accumulators: kappa*acc + lambda in 32 or in 64 bits, shifted, "
            "or (exact) TFLite's factor and shift for each channel, rounded once, more a code of 0, by one instruction "
            "on a core with --set requantise_exact=true (exact_one_shift: the same shift for all channels), or one "
            "factor for all and a shift, or a shift alone, or thresholds of 16 bits, or (qnt) those by pv.qnt, for "
            "results of 4 and 2 bits on a core with --set qnt=true"
            " (default bn32; results of one bit by a threshold).",
        ),
    ] = None

    @property
    def rule(self) -> Rule:
        return Rule(self.requantise or Rule.BN32)


@arguments
class Specialising:
    specialise: bool = False
    """Generate kernel functions for one layer, with its sizes as constants: faster, but more code."""


_LAYER = Parameter(help=f"{FORMS} (default conv {KERNELS['conv'].usual}).", metavar="SPEC")


@arguments
class KernelOptions(Configuration, Precisions, Specialising, Seed, CompilerChoice, Json):
    kernel: Annotated[str, Parameter(choices=("conv", "pointwise", "matmul"), show_choices=True)] = field(kw_only=False)
    """Kernel with a program in plain C beside it."""
    layer: Annotated[str | None, _LAYER] = None
    variant: str | None = None
    """Variant of the kernel, as in cosim (default nn_4x4, of matmul nn_4x2)."""
    no_build: bool = False
    """Write the sources only."""
    output: Annotated[NewFolder, Parameter(alias="-o")] = Path("build/kernel")
    """Folder of sources and program."""


@command("kernel")
def kernel_command(options: KernelOptions) -> int:
    """
    xpulpnn kernel conv --bits 4 -o build/conv  # a convolution as a function, with a main that tests it
    xpulpnn kernel matmul --layer 16x288x16 --bits 8 --variant nn_4x2 --no-build  # sources only
    xpulpnn kernel conv --bits 8 --variant cu_4x2 --preset xpulpnn-cu  # Compute&Update needs its core
    """
    config = options.core
    kernel = find_kernel(options.kernel)
    precisions = options.precisions(kernel)
    require(len(precisions) == 1, f"--bits and --precision must be one, not {len(precisions)}")
    layer = kernel.layer.parse(options.layer or kernel.usual)
    variant = options.variant or ("nn_4x2" if options.kernel == "matmul" else "nn_4x4")
    how = {"machine": Machine(seed=options.seed), "checked": False, "variant": variant, **pick(options, "specialise")}
    case = Case(layer=layer, precision=kernel.precision(layer, precisions[0]), config=config, **how)
    case.check()
    tensors = case_tensors(case)
    program = c_program(case_kernel(case, tensors), tensors)
    written = write_texts(options.output, program.files)
    elf = options.output / f"{program.name}.elf"
    if not options.no_build:
        sources = [options.output / name for name in program.sources]
        build(sources, elf, compiler=options.compiler, options=Options(config=config))
        written.append(elf)
    tell(*written)
    return finish(options.json, {"function": program.name, "files": written})


_WINDOWS = Parameter(help=f"Windows and strides of pools, KyxKx[:s=] (default {'+'.join(WINDOWS)}).")


@arguments
class LibraryOptions(Configuration, Requantising, CompilerChoice, Json):
    kernel: Annotated[tuple[str, ...], listed(tuple(KERNELS), "Kernels; repeatable (default all)")] = ()
    precision: Words = ()
    """Widths of inputs, weights and results such as 8x8x8+8x4x8 (default: all of 8, 4 and 2 bits, and accumulators)."""
    variant: Words = ()
    """Variants of the kernels, as in cosim (default: the fastest on the core)."""
    windows: Annotated[Words, _WINDOWS] = ()
    outside: bool = False
    """Also functions that take the padding value, such as the zero point of the inputs."""
    pulp_nn: bool = False
    """Functions with the public names of PULP-NN, and only the kernels that they need unless --kernel names others.
    With --requantise bn64, the functions with kappa and lambda of 64 bits."""
    output: Annotated[NewFolder, Parameter(alias="-o")] = Path("build/library")
    """Folder of library, headers and README."""


@command("library")
def library_command(options: LibraryOptions) -> int:
    """
    xpulpnn library -o build/library  # headers, libxpulpnn.a and a table of its functions
    xpulpnn library --kernel conv+maxpool --precision 8x8x8+4x4x4 --preset ri5cy  # a few of them
    xpulpnn library --pulp-nn -o build/pulp_nn  # with the public names of PULP-NN, for its applications
    """
    config = options.core
    selection = Selection(
        kernels=options.kernel,
        precisions=[*map(Precision.parse, options.precision)],
        variants=options.variant,
        windows=options.windows or WINDOWS,
        **pick(options, "rule", "outside"),
    )
    find_compiler(options.compiler)
    functions: dict[str, KernelRun] = {}
    public: list[PublicFunction] = []
    with progress_bar("functions", None) as bar:
        if options.pulp_nn:
            public += bar.each(PublicFunctions(selection.precisions, selection.rule, config, selection.windows))
            functions |= {kernel.name: kernel for function in public for kernel in function.kernels}
        if selection.kernels or not options.pulp_nn:
            functions |= {kernel.name: kernel for kernel in bar.each(library_functions(selection, config))}
    kernels, how = list(functions.values()), {"compiler": options.compiler, "options": Options(config=config)}
    library = options.output / LIBRARY_FILE
    with output_folder(options.output, "--output"), replacing(library) as built:
        with progress_bar(f"objects of {len(functions)} functions", None):
            objects(kernels, built, public=public, **how)
        headers = texts(kernels, options.title, options.command_words, public)
        written = [library, *write_texts(options.output, headers)]
    names = [name for function in public for name in function.names]
    tell(*written, f"{len(functions)} functions" + (f", {len(names)} public names" if names else ""))
    return finish(options.json, {"functions": list(functions), "public": names, "files": written})


_SUFFIXES = (".c", ".h", ".npz")
_USUAL_BITS = 8


@arguments
class PackOptions(Requantising, Json):
    kernel: Annotated[str, Parameter(choices=tuple(KERNELS), show_choices=True)] = field(kw_only=False)
    """Kernel whose order the weights take."""
    layer: Annotated[str, Parameter(help=f"{FORMS}.")] = field(kw_only=False)
    weights: Path | None = field(default=None, kw_only=False)
    """Arrays of integers: weights [out][ky][kx][in], depthwise [channel][ky][kx], conv1d [out][k][in], linear and
    matmul [out][in]; bias [out] if there is one; and for the rule kappa, lambda [out] and shift, or factors,
    shifts [out] and zero, or factor and shift, or shift, or thresholds [out][levels - 1]; none of these with results
    of 32 bits. add: factors, summands, shifts [2], or with :shift factors [2], shift and maybe a summand; avgpool with
    :scaled factor, summand, shift; the other pools and relu without file."""
    precision: Annotated[str | None, Parameter(metavar="XxWxY")] = None
    """Widths of inputs, weights (add: of the second map) and results (default 8 bits, signs as usual)."""
    variant: str | None = None
    """Variant of the kernel, as in cosim (default: the fastest on the usual core)."""
    output: Annotated[NewFile, Parameter(alias="-o")] = Path("build/layer.c")
    """NAME.c, and NAME.h beside it; NAME.h, with the arrays in it; or NAME.npz."""


@command("pack")
def pack_command(options: PackOptions) -> int:
    """
    xpulpnn pack conv 8x8x16:16x3x3 weights.npz --precision 4x4x4 -o build/layer.c  # layer.c and layer.h
    xpulpnn pack linear 512:64 weights.npz --requantise thresholds -o build/layer.npz  # for scripts
    """
    path: Path = options.output
    require(path.suffix in _SUFFIXES, f"--output must end in one of {', '.join(_SUFFIXES)}, not {path}")
    if path.suffix != ".npz" and not re.fullmatch(r"[A-Za-z]\w*", path.stem, re.ASCII):
        raise InputError(f"--output must be called like a name in C, not {path.name}")
    computing = find_kernel(options.kernel)
    layer = computing.layer.parse(options.layer)
    # the variant that a library for the default core has
    extensions = preset(DEFAULT_PRESET).extensions
    fastest = [name for name, level in computing.variants.items() if level.extensions <= extensions][-1]
    variant = options.variant or fastest
    usual = Precision.uniform(_USUAL_BITS) if computing.rules else computing.uniform(_USUAL_BITS)
    precision = usual if options.precision is None else Precision.parse(options.precision)
    arrays = {} if options.weights is None else npz_arrays(options.weights, "weights")
    result = packed(computing, layer, precision, variant, arrays, options.rule)
    written = _write_layer(result, path)
    tell(*written)
    sizes = {f"{name}_bytes": words.nbytes for name, words in result.contents.items()} | result.sizes
    record = {"function": result.run.name, "files": written, **sizes, "arguments": result.constants}
    return finish(options.json, record)


def _write_layer(result: PackedLayer, path: Path) -> list[Path]:
    name = path.stem
    if path.suffix == ".npz":
        write_bytes(path, npz(result))
        return [path]
    if path.suffix == ".h":
        return write_texts(path.parent, {path.name: c_header(result, name, defines=True)})
    header = c_header(result, name, defines=False)
    return write_texts(path.parent, {path.name: c_source(result, name), f"{name}.h": header})
