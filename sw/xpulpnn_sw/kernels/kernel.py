"""What a kernel is: a function, a layer to call it for, and what the harness has to know about them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from xpulpnn.isa.formats import Extension
from xpulpnn_sw.kernels.arguments import Structure
from xpulpnn_sw.kernels.codes import code_of
from xpulpnn_sw.kernels.frame import STACK_ALIGNMENT
from xpulpnn_sw.kernels.im2col import Im2col
from xpulpnn_sw.kernels.operands import Blocking
from xpulpnn_sw.kernels.program import Program
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.variants import Level
from xpulpnn_sw.layer import Layer
from xpulpnn_sw.layout import Image, ImageBuilder, OutputLayout, Placement
from xpulpnn_sw.precision import Precision

STACK_BYTES = 2048
"""Of a core, for the frame of the function and those of interrupt handlers."""

STACK_STRIDES: Mapping[Placement, int] = {"padded": STACK_BYTES + STACK_ALIGNMENT, "aligned": STACK_BYTES}
"""Bytes from one core's stack to the next one's."""


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelRun:
    """A kernel function with a layer to call it for."""

    name: str
    layer: Layer
    precision: Precision  # widths of inputs, weights and results
    variant: Level  # How; a Variant if it is a MatMul
    specialised: bool  # whether the function is for this layer only
    # `void (const ARGUMENTS *arguments, unsigned core, unsigned cores)` by the ilp32 calling convention
    function: Program
    structure: Structure
    # the values of the fields for the layer; those that are no addresses are constants of a specialised function
    arguments: Mapping[str, int]
    image: Image  # initial data memory: operands, `arguments`, a `stack` per core
    output: OutputLayout  # where the results are afterwards
    placement: Placement  # of the weight streams, and of what each core has for itself
    rule: Rule | None = None  # how the results of a MatMul come of its accumulators

    @property
    def extensions(self) -> frozenset[Extension]:
        """What the core needs besides the base set."""
        searched = {Extension.XPULPQNT} if self.rule is Rule.QNT else set[Extension]()
        return self.variant.extensions | searched

    @property
    def stack_stride(self) -> int:
        """Bytes from one core's stack to the next one's."""
        return STACK_STRIDES[self.placement]

    def stack_top(self, core: int = 0) -> int:
        """Stack pointer of the caller on a core."""
        top = self.image.symbols["stack"].address + STACK_BYTES + core * self.stack_stride
        return top & -STACK_ALIGNMENT


def kernel_run(
    kind: str,
    layer: Layer,
    blocking: Blocking,
    structure: Structure,
    memory: ImageBuilder,
    arguments: Mapping[str, int],
    *,
    im2col: Im2col | None = None,
    cores: int,
    specialise: bool,
    placement: Placement,
) -> KernelRun:
    """The function for operands laid out in ``memory``, which takes the argument structure and stacks besides.

    The function is called after ``kind``, precision, variant, and rule but for the usual one.
    """
    variant, precision = blocking.variant, blocking.precision
    memory.place("arguments", np.array([arguments[field.name] for field in structure.fields], dtype=np.uint32))
    memory.reserve("stack", cores * STACK_STRIDES[placement])
    known = {field.name: arguments[field.name] for field in structure.fields if not field.pointer and specialise}
    code = code_of(blocking)
    marks = f"{'_folded' * blocking.folded}{'_unbiased' * (blocking.is_fresh and not blocking.requantises)}"
    name = f"{kind}{marks}_{precision}_{variant.name}"
    if blocking.rule not in (None, Rule.BN32):
        name += f"_{blocking.rule.value}"
    return KernelRun(
        name=f"{name}_{re.sub('[^0-9a-z]', '_', str(layer))}" if specialise else name,
        layer=layer,
        precision=precision,
        variant=variant,
        specialised=specialise,
        function=code(blocking, structure, known, im2col).write(),
        structure=structure,
        arguments=arguments,
        image=memory.finish(),
        output=OutputLayout(
            symbol="output",
            bits=precision.y,
            shape=(*layer.out_shape, layer.out_channels),
            pixel_bytes=arguments["out_stride"],
            signed=precision.y_signed,
        ),
        placement=placement,
        rule=blocking.rule,
    )
