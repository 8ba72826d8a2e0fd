"""The cores of a cluster, and stacks and data in its memory."""

from dataclasses import dataclass

from xpulpnn.errors import InputError
from xpulpnn.isa.cluster import MAX_CORES

DEFAULT_CORES, DEFAULT_TCDM = 8, 128 << 10
DEFAULT_MASTER_STACK, DEFAULT_CORE_STACK = 0x800, 0x400
STACK_ALIGNMENT = 16
MAX_TCDM = 1 << 20  # bytes between the TCDM and its test&set view


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLayout:
    """The cores a program is for, and their TCDM, at whose start the stacks are."""

    cores: int = DEFAULT_CORES  # 1 to 16
    tcdm: int = DEFAULT_TCDM
    stack: int = DEFAULT_MASTER_STACK  # bytes of the stack of core 0, a multiple of 16
    core_stack: int = DEFAULT_CORE_STACK  # bytes of the stack of each other core, a multiple of 16

    def __post_init__(self) -> None:
        if not 1 <= self.cores <= MAX_CORES:
            raise InputError(f"cores must be 1 to {MAX_CORES}, not {self.cores}")
        if not 0 < self.tcdm <= MAX_TCDM or self.tcdm.bit_count() != 1:
            raise InputError(f"TCDM must be a power of two up to {MAX_TCDM} bytes, not {self.tcdm}")
        for name, size in (("stack", self.stack), ("core stack", self.core_stack)):
            if size <= 0 or size % STACK_ALIGNMENT:
                raise InputError(f"{name} must be a multiple of {STACK_ALIGNMENT} bytes, not {size}")
        stacks = self.stack + (self.cores - 1) * self.core_stack
        if stacks > self.tcdm:
            raise InputError(f"stacks must be at most {self.tcdm} bytes together, the size of the TCDM, not {stacks}")
