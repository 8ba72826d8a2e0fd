"""What all these kernels share: where their maps lie, and the result handed to the harness."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from xpulpnn_sw.kernels.arguments import Structure
from xpulpnn_sw.kernels.channelwise.levels import ElementLevel
from xpulpnn_sw.kernels.kernel import STACK_STRIDES, KernelRun
from xpulpnn_sw.kernels.program import Program
from xpulpnn_sw.kernels.requantisation import Rule
from xpulpnn_sw.kernels.terms import Argument, Name, Term, lesser, positive, shared
from xpulpnn_sw.kernels.variants import BYTE_BITS
from xpulpnn_sw.layer import Layer
from xpulpnn_sw.layout import ImageBuilder, Ints, OutputLayout, Placement, pack_words, pad_axis, padded_channels
from xpulpnn_sw.precision import Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a kernel is to be written."""

    name: str
    cores: int  # Stacks, and buffers if there are any, for so many cores
    specialise: bool  # whether the function is for one layer only, its sizes constants
    placement: Placement  # of what each core has for itself


class Maps:
    """Places feature maps of one number of channels, HWC, each pixel filled up to whole words of every map."""

    def __init__(self, memory: ImageBuilder, channels: int, *widths: int) -> None:
        """Decide the channels in memory."""
        self._memory, self._channels = memory, channels
        self.padded = padded_channels(channels, min(widths))

    def pixel_bytes(self, bits: int) -> int:
        """Bytes of a pixel."""
        return self.padded * bits // BYTE_BITS

    def place(self, name: str, values: Ints, bits: int, *, spare: int = 0) -> int:
        """Place a map ``[row][column][channel]``, followed by ``spare`` words, and return its address."""
        return self._memory.place(name, pack_words(pad_axis(values, 2, self.padded), bits), spare=spare)

    def reserve(self, name: str, pixels: int, bits: int) -> int:
        """Reserve a map of so many pixels and return its address."""
        return self._memory.reserve(name, pixels * self.pixel_bytes(bits))


def piece(total: Term) -> dict[str, Term]:
    """``begin`` and ``count`` of the core's share of so many things; the last cores may have less, or none."""
    core, cores, size, begin = Argument("core"), Argument("cores"), Name("piece"), Name("begin")
    return {
        "piece": shared(total + cores - 1),
        "begin": core * size,
        "count": lesser(size, positive(total - begin)),
    }


def finished(
    layer: Layer,
    precision: Precision,
    level: ElementLevel,
    options: Options,
    structure: Structure,
    memory: ImageBuilder,
    arguments: Mapping[str, int],
    pixel_bytes: int,
    write: Callable[[Mapping[str, int]], Program],
    rule: Rule | None = None,
) -> KernelRun:
    """The function that ``write`` makes of the arguments that are constants, for operands laid out in ``memory``.

    ``pixel_bytes`` are those of an output pixel. The function's name tells the ``rule``, if there is one, but for the
    usual one.
    """
    memory.place("arguments", np.array([arguments[field.name] for field in structure.fields]).astype(np.uint32))
    memory.reserve("stack", options.cores * STACK_STRIDES[options.placement])
    known = {
        field.name: arguments[field.name] for field in structure.fields if not field.pointer and options.specialise
    }
    name = f"{options.name}_{precision}_{level.name}"
    if rule not in (None, Rule.BN32):
        name += f"_{rule.value}"
    return KernelRun(
        name=f"{name}_{re.sub('[^0-9a-z]', '_', str(layer))}" if options.specialise else name,
        layer=layer,
        precision=precision,
        variant=level,
        specialised=options.specialise,
        function=write(known),
        structure=structure,
        arguments=arguments,
        image=memory.finish(),
        output=OutputLayout(
            symbol="output",
            bits=precision.y,
            shape=(*layer.out_shape, layer.out_channels),
            pixel_bytes=pixel_bytes,
            signed=precision.y_signed,
        ),
        placement=options.placement,
        rule=rule,
    )
