"""A generated function with the memory it works on, ready to be called."""

from dataclasses import dataclass

from xpulpnn.isa.formats import Extension
from xpulpnn_sw.kernels.frame import STACK_ALIGNMENT
from xpulpnn_sw.kernels.kernel import STACK_BYTES
from xpulpnn_sw.kernels.program import Program
from xpulpnn_sw.layout import Image, OutputLayout

STACK_STRIDE = STACK_BYTES + STACK_ALIGNMENT
"""Bytes from one core's stack to the next one's, which begins in another bank."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Function:
    """A function and its data."""

    name: str
    # `void (const uint32_t *arguments, unsigned core, unsigned cores)`, reentrant, by the ilp32 convention
    function: Program
    extensions: frozenset[Extension]  # what the core needs besides the base set
    image: Image  # initial data memory, with `arguments` and a `stack` per core
    output: OutputLayout  # where the results are afterwards
    macs: int  # multiplications of the result

    @property
    def stack_stride(self) -> int:
        """Bytes from one core's stack to the next one's."""
        return STACK_STRIDE

    def stack_top(self, core: int = 0) -> int:
        """Stack pointer of the caller on a core."""
        return self.image.symbols["stack"].address + STACK_BYTES + core * STACK_STRIDE & -STACK_ALIGNMENT
