"""Kernels: what they compute and from what, a function with its argument structure, a layer to call it for."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from random import Random
from typing import Any

import numpy as np

from xpulpnn.errors import LayerError
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import WORD_MASK
from xpulpnn_sw.kernels.builder import WORD, Builder, Label
from xpulpnn_sw.kernels.frame import ARGUMENTS_POINTER, CORE, CORES, RA, SP, STACK_ALIGNMENT
from xpulpnn_sw.kernels.layout import Image, ImageBuilder, OutputLayout, Placement, Program, joined_programs
from xpulpnn_sw.kernels.requantisation import EXACT_RULES, Rule
from xpulpnn_sw.kernels.variants import Level
from xpulpnn_sw.layers.layer import Layer
from xpulpnn_sw.layers.precision import Precision
from xpulpnn_sw.layers.text import Windows, random_sizes

INPUT, OUTPUT = "input", "output"  # symbols of a kernel that other layers know too
SUMMANDS = ("first", "second")  # symbols of both inputs of an addition
SHARED = "im2col"  # symbol of what a kernel needs only while it runs
BUFFERS = (SHARED, "buffer")  # symbols of that, of which a kernel has one or none
ARGUMENTS, STACK = "arguments", "stack"  # symbols of a kernel that belong to its call


@dataclass(frozen=True, slots=True)
class ArgumentField:
    name: str  # name in C and in the kernel
    meaning: str
    pointer: bool = False  # whether it is an address; those are never constants of a specialised kernel


@dataclass(frozen=True, slots=True)
class Structure:
    name: str
    fields: tuple[ArgumentField, ...]  # in their order in memory
    notes: str  # what a caller has to know

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    def constants(self, arguments: dict[str, int]) -> dict[str, int]:
        """The arguments that are constants of a function for one layer: all that are no addresses."""
        return {field.name: arguments[field.name] for field in self.fields if not field.pointer}


def argument_structure(name: str, *fields: ArgumentField, notes: str) -> Structure:
    """The argument structure of the kernel ``name``."""
    return Structure(f"xp_{name}_arguments", fields, notes)


def with_outside(structure: Structure) -> Structure:
    """The structure of a function around whose input there is a value that it is told, in place of zeros."""
    fields = (replace(field, meaning=field.meaning.removeprefix("zero ")) for field in structure.fields)
    outside = ArgumentField("outside", "value around the input, as of its elements")
    name, usual = structure.name, structure.name.removeprefix("xp_").removesuffix("_arguments")
    notes = f"As {usual}, with the value around the map."
    return Structure(name.replace("_arguments", "_outside_arguments"), (*fields, outside), notes)


SHIFT = ArgumentField("shift", "right shift of the requantisation")
SIZES = (ArgumentField("height", "input rows"), ArgumentField("width", "input columns"))
OUT_SIZES = (ArgumentField("out_height", "output rows"), ArgumentField("out_width", "output columns"))
WINDOW = (
    ArgumentField("kernel_height", "filter rows"),
    ArgumentField("kernel_width", "filter columns"),
    ArgumentField("stride_y", "step in y"),
    ArgumentField("stride_x", "step in x"),
    ArgumentField("pad_top", "zero rows above the input"),
    ArgumentField("pad_left", "zero columns left of the input"),
)


def window_arguments(layer: Windows) -> dict[str, int]:
    """Sizes and steps of a layer, as functions with windows are told them."""
    top, _, left, _ = layer.padding
    names = ("height", "width", "out_height", "out_width", "kernel_height", "kernel_width")
    sizes = {name: getattr(layer, name) for name in names}
    return {**sizes, "stride_y": layer.stride[0], "stride_x": layer.stride[1], "pad_top": top, "pad_left": left}


STACK_BYTES = 2048  # bytes of a core's stack, for the frame of the function and those of interrupt handlers

# bytes from one core's stack to the next one's, which if padded begins in another bank
STACK_STRIDES: Mapping[Placement, int] = {"padded": STACK_BYTES + STACK_ALIGNMENT, "aligned": STACK_BYTES}
STACK_STRIDE = STACK_STRIDES["padded"]


@dataclass(frozen=True, eq=False, kw_only=True)
class SharedFunction:
    """A generated function with the memory it works on, ready to be called by the cores that share it."""

    name: str
    # `void (const ARGUMENTS *arguments, unsigned core, unsigned cores)`, reentrant, by the ilp32 convention
    function: Program
    image: Image  # initial data memory: operands, `arguments`, a `stack` per core
    output: OutputLayout  # where the results are afterwards
    placement: Placement = "padded"  # of the weight streams, and of what each core has for itself

    @property
    def stack_stride(self) -> int:
        """Bytes from one core's stack to the next one's."""
        return STACK_STRIDES[self.placement]

    def stack_top(self, core: int = 0) -> int:
        """Stack pointer of the caller on a core."""
        top = self.image.symbols["stack"].address + STACK_BYTES + core * self.stack_stride
        return top & -STACK_ALIGNMENT


@dataclass(frozen=True, eq=False, kw_only=True)
class Function(SharedFunction):
    """A function that is no kernel of one layer."""

    extensions: frozenset[Extension]  # what the core needs besides the base set
    macs: int  # multiplications of the result


def finished_function(
    memory: ImageBuilder, fields: tuple[str, ...], addresses: Mapping[str, int], cores: int, **known: Any
) -> Function:
    """The function for operands laid out in ``memory``, whose arguments are ``addresses`` in this order."""
    memory.place("arguments", np.array([addresses[name] for name in fields], dtype=np.uint32))
    memory.reserve("stack", cores * STACK_STRIDE)
    return Function(image=memory.finish(), **known)


# what rules need of the core besides
_OF_RULE = {Rule.QNT: Extension.XPULPQNT} | dict.fromkeys(EXACT_RULES, Extension.XPULPRQ_EXACT)


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelRun(SharedFunction):
    """A kernel function with a layer to call it for."""

    layer: Layer
    precision: Precision  # widths of inputs, weights and results
    variant: Level  # how it is written; a Variant if it is a MatMul
    specialised: bool  # whether the function is for this layer only
    structure: Structure
    # the values of the fields for the layer; those that are no addresses are constants of a specialised function
    arguments: Mapping[str, int]
    rule: Rule | None = None  # how the results of a MatMul come of its accumulators

    @property
    def extensions(self) -> frozenset[Extension]:
        """Extensions that the core needs besides the base set."""
        return self.variant.extensions | {_OF_RULE[self.rule]} if self.rule in _OF_RULE else self.variant.extensions

    def length(self, name: str) -> int:
        """Bytes of a symbol, 0 if there is none such."""
        return self.image.symbols[name].length if name in self.image.symbols else 0

    @property
    def inputs(self) -> tuple[str, ...]:
        """Symbols of the maps that it reads, in the order of the layer's inputs: one, of an addition two."""
        return SUMMANDS if SUMMANDS[0] in self.image.symbols else (INPUT,)

    @property
    def buffer(self) -> str | None:
        """Symbol of what it needs only while it runs."""
        return next((name for name in BUFFERS if name in self.image.symbols), None)

    @property
    def own_symbols(self) -> list[str]:
        """The symbols that belong to a layer alone: filters, parameters, tables."""
        others = (*self.inputs, OUTPUT, *BUFFERS, ARGUMENTS, STACK)
        return [name for name in self.image.symbols if name not in others]

    @property
    def weight_bytes(self) -> int:
        """Bytes of what belongs to a layer alone."""
        return sum(map(self.length, self.own_symbols))

    def moved(self, places: Mapping[str, int]) -> list[int]:
        """The argument structure if symbols have moved, those there are in ``places``."""

        def address(value: int) -> int:
            for name, symbol in self.image.symbols.items():
                if name in places and symbol.address <= value < symbol.address + symbol.length:
                    return places[name] + value - symbol.address
            raise AssertionError(value)

        fields = ((field, self.arguments[field.name]) for field in self.structure.fields)
        return [address(value) if field.pointer else value & WORD_MASK for field, value in fields]


@dataclass(frozen=True, eq=False)
class KernelRequest:
    """A kernel that is to be written, and the memory in which its operands are laid out."""

    layer: Any
    precision: Precision
    level: Any  # Variant of a MatMul, else Level
    tensors: Any
    cores: int  # stacks, and buffers if there are any, for so many cores
    specialise: bool  # whether the function is for one layer only, its sizes constants
    placement: Placement  # of what cores read side by side
    memory: ImageBuilder = field(default_factory=ImageBuilder)

    def finish(
        self,
        name: str,
        structure: Structure,
        arguments: dict[str, int],
        write: Callable[[Mapping[str, int]], Program],
        rule: Rule | None = None,
    ) -> KernelRun:
        """The kernel whose function ``write`` makes of the arguments that are constants.

        It is called after ``name``, precision, variant, and the ``rule`` but for the usual one. Output pixels are
        ``out_stride`` bytes apart if that is an argument, else they fill the output.
        """
        layer, precision = self.layer, self.precision
        values = np.array([arguments[name] for name in structure.names])
        self.memory.place("arguments", values.astype(np.uint32))
        self.memory.reserve("stack", self.cores * STACK_STRIDES[self.placement])
        parts = [name, str(precision), self.level.name]
        parts += [rule.value] if rule not in (None, Rule.BN32) else []
        parts += [re.sub("[^0-9a-z]", "_", str(layer))] if self.specialise else []
        pixel_bytes = self.memory.symbols["output"].length // prod(layer.out_shape)
        return KernelRun(
            name="_".join(parts),
            layer=layer,
            precision=precision,
            variant=self.level,
            specialised=self.specialise,
            function=write(structure.constants(arguments) if self.specialise else {}),
            structure=structure,
            arguments=arguments,
            image=self.memory.finish(),
            output=OutputLayout(
                symbol="output",
                bits=precision.y,
                shape=(*layer.out_shape, layer.out_channels),
                pixel_bytes=arguments.get("out_stride", pixel_bytes),
                signed=precision.y_signed,
            ),
            placement=self.placement,
            rule=rule,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel that the command line knows."""

    name: str
    help: str  # what it computes, in a few words
    layer: type[Layer]  # layers it computes; no two kernels have the same
    usual: str  # layer unless another is given
    write: Callable[[KernelRequest], KernelRun]
    variants: Mapping[str, Level]  # ways to write it, by name
    usual_variants: tuple[str, ...]  # those that run unless others are named
    # operands for a layer and a precision out of a generator; for a `rule`, a keyword, if there are `rules`
    random: Callable[..., Any]
    usual_tiny: str | None = None  # usual layer in a cluster whose TCDM the other does not fit
    uniform: Callable[[int], Precision] = Precision.uniform  # the precision that one width for all means
    # the precision for a layer: as given, unless the layer itself says what its results are
    precision: Callable[[Any, Precision], Precision] = lambda _, precision: precision
    rules: tuple[Rule, ...] = ()  # how its results may come of accumulators; none: there is no choice
    drawn: Callable[[Random], str] = lambda rng: random_sizes(rng, 5, 5, 40)  # a random layer, as written
    structures: tuple[Structure, ...] = ()  # of the arguments of its functions, unless another kernel has them
    # layers for which the functions differ; all others have the function of one of these. Pools have a function for
    # each window.
    samples: tuple[str, ...] = ("4x4x4",)
    # layers with another value than 0 around the map, where no other kernel has them
    outside_samples: tuple[str, ...] = ()

    @property
    def has_weights(self) -> bool:
        """Tell whether it has weights, or a second map, whose width and sign a precision names in their place."""
        return bool(self.rules) or getattr(self.layer, "operands", 1) > 1

    @property
    def form(self) -> str:
        """The form in which a layer is written."""
        return self.layer.form

    @property
    def usual_in_cluster(self) -> str:
        """Layer unless another is given, in a cluster."""
        return self.usual_tiny or self.usual

    def tensors(self, layer: Any, precision: Precision, rng: np.random.Generator, rule: Rule = Rule.BN32) -> Any:
        """Random operands of a layer whose results come by a rule."""
        return self.random(layer, precision, rng, rule=rule) if self.rules else self.random(layer, precision, rng)

    def variant(self, name: str) -> Level:
        """The variant called ``name``; raises :class:`LayerError` for an unknown one."""
        try:
            return self.variants[name]
        except KeyError:
            raise LayerError(f"variant must be one of {', '.join(self.variants)}, not {name}") from None

    def build(
        self,
        layer: Any,
        precision: Precision,
        name: str,
        tensors: Any,
        *,
        cores: int = 1,
        specialise: bool = False,
        placement: Placement = "padded",
    ) -> KernelRun:
        """Write the kernel for a layer by the variant ``name``, and lay out its operands ``tensors``.

        Buffers and stacks are for ``cores`` cores. A specialised function is for this layer only. ``placement`` is that
        of what cores read side by side.
        """
        level = self.variant(name)
        level.check_precision(precision)
        computed = level.computed(self.precision(layer, precision))
        return self.write(KernelRequest(layer, computed, level, tensors, cores, specialise, placement))


@dataclass(frozen=True, eq=False)
class KernelCall:
    """A function and a caller, which follows it."""

    program: Program  # both; the caller is the region `call`
    entry: int  # position of the caller's first instruction; its last is where the function returns to


def kernel_call(run: SharedFunction, core: int = 0, cores: int = 1) -> KernelCall:
    """The call for the share of ``core`` out of ``cores``."""
    function, entry = run.function, len(run.function)
    b = Builder(int(function.pcs[0]) + entry * WORD, xpulp=False)
    with b.region("call"):
        b.li(SP, run.stack_top(core))
        b.li(ARGUMENTS_POINTER, run.image.symbols["arguments"].address)
        b.li(CORE, core)
        b.li(CORES, cores)
        b.jump(Label(-entry), link=RA)
        b.mv(0, 0)
    return KernelCall(joined_programs([function, b.finish()]), entry)
