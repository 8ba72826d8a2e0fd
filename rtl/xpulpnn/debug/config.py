"""Configuration of the debug module and its transport."""

from dataclasses import dataclass

from xpulpnn.errors import ConfigError, require
from xpulpnn.isa.debug import DEBUG_BASE, DEBUG_BYTES, IDCODE, MAX_HARTS
from xpulpnn.isa.machine import ADDRESS_SPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugConfig:
    harts: int = 1  #: Number of harts, 1 to 32.
    base: int = DEBUG_BASE  #: Address of the memory that halted harts execute, a multiple of its 4096 bytes.
    hart_reset: bool = True  #: The debugger can reset a single hart.
    idcode: int = IDCODE  #: Identification of the test access port, an odd number of 32 bits.

    def __post_init__(self) -> None:
        require(1 <= self.harts <= MAX_HARTS, f"harts must be 1 to {MAX_HARTS}, not {self.harts}", ConfigError)
        if self.base % DEBUG_BYTES or not 0 <= self.base < ADDRESS_SPACE:
            raise ConfigError(f"base must be a multiple of {DEBUG_BYTES} in 32 bits, not {self.base:#x}")
        if not (self.idcode & 1 and 0 < self.idcode < ADDRESS_SPACE):
            raise ConfigError(f"idcode must be an odd number of 32 bits, not {self.idcode:#x}")
