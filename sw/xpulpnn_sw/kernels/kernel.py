"""Kernels: their description, argument structures, and functions with the operands of a layer in memory."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from random import Random
from typing import Any

import numpy as np

from xpulpnn.errors import LayerError, require
from xpulpnn.isa.formats import Extension
from xpulpnn.isa.machine import TEXT_BASE, WORD_BYTES, WORD_MASK
from xpulpnn_sw.kernels.builder import WORD, ZERO, Builder, Label
from xpulpnn_sw.kernels.frame import ARGUMENTS_POINTER, CORE, CORES, RA, SP, STACK_ALIGNMENT
from xpulpnn_sw.kernels.layout import Image, ImageBuilder, OutputLayout, Placement, Program, joined_programs
from xpulpnn_sw.kernels.requantisation import EXACT_RULES, Rule
from xpulpnn_sw.kernels.variants import Level
from xpulpnn_sw.layers.layer import Layer
from xpulpnn_sw.layers.precision import SIGN_BITS, Precision
from xpulpnn_sw.layers.text import Windows, random_sizes

INPUT, OUTPUT = "input", "output"  # symbols of a kernel shared with other layers
SUMMANDS = ("first", "second")  # symbols of both inputs of an addition
SHARED = "im2col"  # symbol of a buffer used only while a kernel runs
BUFFERS = (SHARED, "buffer")  # symbols of such buffers; a kernel has one or none
ARGUMENTS, STACK = "arguments", "stack"  # symbols of a kernel's call


@dataclass(frozen=True, slots=True)
class ArgumentField:
    name: str  # name in C and in the kernel
    meaning: str
    pointer: bool = False  # whether the field is an address, which is never a constant of a specialised kernel


Known = Mapping[str, int]  # arguments with known values, which are constants of a function


@dataclass(frozen=True, slots=True)
class Structure:
    name: str
    fields: tuple[ArgumentField, ...]  # in memory order
    notes: str  # notes for callers

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    def constants(self, arguments: Known) -> dict[str, int]:
        return {field.name: arguments[field.name] for field in self.fields if not field.pointer}


def argument_structure(name: str, *fields: ArgumentField, notes: str) -> Structure:
    return Structure(f"xp_{name}_arguments", fields, notes)


def with_outside(structure: Structure) -> Structure:
    fields = (replace(field, meaning=field.meaning.removeprefix("zero ")) for field in structure.fields)
    outside = ArgumentField("outside", "value around the input, in the range of its elements")
    name = structure.name.removeprefix("xp_").removesuffix("_arguments")
    notes = f"As {name}, with the value around the map."
    return argument_structure(f"{name}_outside", *fields, outside, notes=notes)


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
    top, _, left, _ = layer.padding
    names = ("height", "width", "out_height", "out_width", "kernel_height", "kernel_width")
    sizes = {name: getattr(layer, name) for name in names}
    return {**sizes, "stride_y": layer.stride[0], "stride_x": layer.stride[1], "pad_top": top, "pad_left": left}


STACK_BYTES = 2048  # bytes of a core's stack, for the frame of the function and those of interrupt handlers

# bytes between the stacks of neighbouring cores; padded stacks begin in different banks
STACK_STRIDES: Mapping[Placement, int] = {"padded": STACK_BYTES + STACK_ALIGNMENT, "aligned": STACK_BYTES}
STACK_STRIDE = STACK_STRIDES["padded"]


@dataclass(frozen=True, eq=False, kw_only=True)
class SharedFunction:
    """A generated function with its operands in memory, which several cores may call at the same time."""

    name: str
    # `void (const ARGUMENTS *arguments, unsigned core, unsigned cores)`, reentrant, by the ilp32 convention
    function: Program
    image: Image  # initial data memory: operands, `arguments`, a `stack` per core
    output: OutputLayout  # layout of the results
    placement: Placement = "padded"  # placement of weight streams and of each core's own data

    @property
    def stack_stride(self) -> int:
        return STACK_STRIDES[self.placement]

    def stack_top(self, core: int = 0) -> int:
        top = self.image.symbols["stack"].address + STACK_BYTES + core * self.stack_stride
        return top & -STACK_ALIGNMENT


@dataclass(frozen=True, eq=False, kw_only=True)
class Function(SharedFunction):
    extensions: frozenset[Extension]  # extensions needed in addition to the base set
    macs: int  # multiplications of a call


def finished_function(
    memory: ImageBuilder, fields: tuple[str, ...], addresses: Mapping[str, int], cores: int, **known: Any
) -> Function:
    """Return the function for operands in ``memory``; the argument structure has the ``addresses`` of ``fields``."""
    memory.place("arguments", np.array([addresses[name] for name in fields], dtype=np.uint32))
    memory.reserve("stack", cores * STACK_STRIDE)
    return Function(image=memory.finish(), **known)


# extensions that rules need
_OF_RULE = {Rule.QNT: Extension.XPULPQNT} | dict.fromkeys(EXACT_RULES, Extension.XPULPRQ_EXACT)
_OF_COPROCESSOR = dict.fromkeys(EXACT_RULES, Extension.XIF_RQ_EXACT)


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelRun(SharedFunction):
    """A function of a kernel variant, with the memory that one call needs."""

    layer: Layer
    precision: Precision  # widths of inputs, weights and results
    variant: Level  # variant of the code, a Variant for a MatMul
    specialised: bool  # whether the function is for this layer only
    structure: Structure
    # values of the fields for the layer; all but addresses are constants of a specialised function
    arguments: Mapping[str, int]
    rule: Rule | None = None  # rule that turns accumulators of a MatMul into results

    @property
    def extensions(self) -> frozenset[Extension]:
        of_rule = _OF_COPROCESSOR if Extension.XIF in self.variant.extensions else _OF_RULE
        return self.variant.extensions | {of_rule[self.rule]} if self.rule in of_rule else self.variant.extensions

    def length(self, name: str) -> int:
        return self.image.symbols[name].length if name in self.image.symbols else 0

    @property
    def inputs(self) -> tuple[str, ...]:
        return SUMMANDS if SUMMANDS[0] in self.image.symbols else (INPUT,)

    @property
    def buffer(self) -> str | None:
        return next((name for name in BUFFERS if name in self.image.symbols), None)

    @property
    def own_symbols(self) -> list[str]:
        """Symbols of the layer's constants: filters, parameters, tables."""
        others = (*self.inputs, OUTPUT, *BUFFERS, ARGUMENTS, STACK)
        return [name for name in self.image.symbols if name not in others]

    @property
    def weight_bytes(self) -> int:
        return sum(map(self.length, self.own_symbols))

    def relocated_arguments(self, places: Mapping[str, int]) -> list[int]:
        """Return the words of the argument structure if symbols are moved to the addresses in ``places``."""

        def address(value: int) -> int:
            for name, symbol in self.image.symbols.items():
                if name in places and symbol.address <= value < symbol.address + symbol.length:
                    return places[name] + value - symbol.address
            raise AssertionError(value)

        fields = ((field, self.arguments[field.name]) for field in self.structure.fields)
        return [address(value) if field.pointer else value & WORD_MASK for field, value in fields]


@dataclass(frozen=True, eq=False)
class KernelRequest:
    layer: Any
    precision: Precision
    level: Any  # Variant of a MatMul, else Level
    tensors: Any
    cores: int  # number of cores with stacks and buffers
    specialise: bool  # whether the function is for one layer only, with constant sizes
    placement: Placement  # placement of data that cores read side by side
    memory: ImageBuilder = field(default_factory=ImageBuilder)

    def finish(
        self,
        name: str,
        structure: Structure,
        arguments: Known,
        write: Callable[[Known], Program],
        rule: Rule | None = None,
    ) -> KernelRun:
        layer, precision = self.layer, self.precision
        values = np.array([arguments[name] for name in structure.names])
        self.memory.place("arguments", values.astype(np.uint32))
        self.memory.reserve("stack", self.cores * STACK_STRIDES[self.placement])
        parts = [name, str(precision), self.level.name]
        parts += [rule.value] if rule not in (None, Rule.BN32) else []
        parts += [re.sub("[^0-9a-z]", "_", str(layer))] if self.specialise else []
        pixel_bytes = self.memory.symbols["output"].length // prod(layer.out_shape)
        shape, distance = (*layer.out_shape, layer.out_channels), arguments.get("out_stride", pixel_bytes)
        element: dict[str, Any] = {"bits": precision.y, "signed": precision.y_signed}
        function = write(structure.constants(arguments) if self.specialise else {})
        known: dict[str, Any] = {"layer": layer, "precision": precision, "variant": self.level, "rule": rule}
        known |= {"structure": structure, "arguments": arguments, "placement": self.placement}
        output = OutputLayout(symbol="output", shape=shape, pixel_bytes=distance, **element)
        known |= {"specialised": self.specialise, "image": self.memory.finish(), "output": output}
        return KernelRun(name="_".join(parts), function=function, **known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    name: str
    help: str  # short description
    layer: type[Layer]  # class of the layers it computes, different for each kernel
    usual: str  # default layer
    write: Callable[[KernelRequest], KernelRun]
    variants: Mapping[str, Level]  # variants of the code by name
    usual_variants: tuple[str, ...]  # default variants
    # random operands of a layer, given precision, generator and, if there are `rules`, the keyword `rule`
    random: Callable[..., Any]
    usual_tiny: str | None = None  # default layer in a cluster whose TCDM is too small for `usual`
    uniform: Callable[[int], Precision] = Precision.uniform  # precision of one width for all operands
    # precision of a layer: as given, unless the layer determines its results
    precision: Callable[[Any, Precision], Precision] = lambda _, precision: precision
    rules: tuple[Rule, ...] = ()  # rules that may turn accumulators into results; empty without a choice
    random_text: Callable[[Random], str] = lambda rng: random_sizes(rng, 5, 5, 40)  # text of a random layer
    structures: tuple[Structure, ...] = ()  # argument structures of its functions, unless another kernel has them
    # layers that cover all functions of the kernel that no other covers; pools have a function for each window
    samples: tuple[str, ...] = ("4x4x4",)

    @property
    def has_weights(self) -> bool:
        """True if the width ``w`` of a precision applies: to weights or to a second feature map."""
        return bool(self.rules) or getattr(self.layer, "operands", 1) > 1

    @property
    def usual_in_cluster(self) -> str:
        return self.usual_tiny or self.usual

    def tensors(self, layer: Any, precision: Precision, rng: np.random.Generator, rule: Rule = Rule.BN32) -> Any:
        return self.random(layer, precision, rng, rule=rule) if self.rules else self.random(layer, precision, rng)

    def variant(self, name: str) -> Level:
        require(name in self.variants, f"variant must be one of {', '.join(self.variants)}, not {name}", LayerError)
        return self.variants[name]

    def require_rule(self, rule: Rule, precision: Precision) -> None:
        """Raise :class:`InputError` if ``rule``, where it is not the default, cannot turn accumulators into results."""
        if rule is not Rule.BN32:
            require(self.rules, f"requantisation must be left out with {self.name}")
            known = ", ".join(known_rule.value for known_rule in self.rules)
            require(rule in self.rules, f"requantisation must be one of {known} with {self.name}, not {rule.value}")
            is_possible = precision.y != SIGN_BITS or rule is Rule.THRESHOLDS
            require(is_possible, f"requantisation must be thresholds for results of one bit, not {rule.value}")

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
        level = self.variant(name)
        level.check_precision(precision)
        computed = level.computed_precision(self.precision(layer, precision))
        return self.write(KernelRequest(layer, computed, level, tensors, cores, specialise, placement))


@dataclass(frozen=True, eq=False)
class KernelCall:
    program: Program  # function and caller, which is the region `call`
    entry: int  # position of the caller's first instruction; the function returns to its last one


def kernel_call(run: SharedFunction, core: int = 0, cores: int = 1) -> KernelCall:
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


_ALIGNMENT = 256  # largest alignment of an operand in bytes


def with_functions(b: Builder, names: Sequence[str], labels: Sequence[Label], functions: Sequence[Program]) -> Program:
    """Return the code of ``b`` followed by the functions: function i at ``labels[i]``, in the region ``names[i]``."""
    position = b.position
    for label, function in zip(labels, functions, strict=True):
        label.position = position
        position += len(function)
    regions = [
        replace(function, regions=(name,) * len(function)) for name, function in zip(names, functions, strict=True)
    ]
    joined = joined_programs([b.finish(), *regions])
    pcs = np.arange(len(joined), dtype=np.uint32) * np.uint32(WORD_BYTES) + np.uint32(TEXT_BASE)
    return replace(joined, pcs=pcs)


@dataclass(frozen=True, eq=False, kw_only=True)
class Series:
    function: Function
    runs: Sequence[KernelRun]
    addresses: Sequence[int]  # start of the operands of each kernel


def series(runs: Sequence[KernelRun], cores: Sequence[int]) -> Series:
    """Return a function that calls each kernel once for each of its ``cores``; all code must be in reach of a jump."""
    memory, addresses = ImageBuilder(), list[int]()
    b = Builder(TEXT_BASE, xpulp=False)
    b("addi", SP, SP, -STACK_ALIGNMENT)
    b("sw", RA, 0, SP)
    labels = [Label() for _ in runs]
    for number, (run, label, count) in enumerate(zip(runs, labels, cores, strict=True)):
        image = run.image
        data = image.data[: image.symbols[STACK].address - image.base].copy()
        address = memory.reserve(f"kernel{number}", 0, alignment=_ALIGNMENT)
        places = {name: address + symbol.address - image.base for name, symbol in image.symbols.items()}
        image.view(ARGUMENTS, data)[:] = np.array(run.relocated_arguments(places), np.uint32).view(np.uint8)
        memory.place(f"operands{number}", data.tobytes())
        addresses.append(address)
        for core in range(count):
            for register, value in ((ARGUMENTS_POINTER, places[ARGUMENTS]), (CORE, core), (CORES, count)):
                b.li(register, value)
            b.jump(label, link=RA)
    b("lw", RA, 0, SP)
    b("addi", SP, SP, STACK_ALIGNMENT)
    b("jalr", ZERO, 0, RA)
    function = finished_function(
        memory,
        (),
        {},
        cores=1,
        name="series",
        function=with_functions(b, [run.name for run in runs], labels, [run.function for run in runs]),
        extensions=frozenset[Extension]().union(*(run.extensions for run in runs)),
        output=runs[-1].output,
        macs=sum(run.layer.macs for run in runs),
    )
    return Series(function=function, runs=runs, addresses=addresses)
