"""Operands and results of the reference models: one table row executed many times.

Everything is an array over the N executions of one row, so that a million instructions of a kernel cost a few hundred
numpy calls. Values are 32-bit patterns (``uint32``); signs are a matter of the operation, not of the storage.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

U32 = NDArray[np.uint32]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Bits = NDArray[np.bool_]

BASE_LENGTH = 4  # bytes of an uncompressed instruction


_ABSENT = np.zeros(0, np.uint32)


@dataclass(slots=True, kw_only=True)
class Sources:
    """Operands of N executions of one row. A field left out reads zero.

    Members
    -------
    word : uint32[N]
        Instruction words, expanded to 32 bits; registers and immediates may differ between the executions.
    rs1, rs2, rd : uint32[N]
        Old values of the registers in the fields [19:15], [24:20] and [11:7].
    pc : uint32[N]
        Instruction addresses.
    loaded : uint32[N]
        Little-endian word in memory at the access address, which may be misaligned. Loads and Mac&Load.
    act, wgt : uint32[N]
        NN-RF entries addressed, before the update: activation (nn form) and weight, or the one entry of the C&U form;
        of a requantisation the factor and the summand.
    length : int
        Bytes of the instruction in memory, 2 if it was compressed; decides the link address.
    """

    word: U32
    rs1: U32 = field(default_factory=lambda: _ABSENT)
    rs2: U32 = field(default_factory=lambda: _ABSENT)
    rd: U32 = field(default_factory=lambda: _ABSENT)
    pc: U32 = field(default_factory=lambda: _ABSENT)
    loaded: U32 = field(default_factory=lambda: _ABSENT)
    act: U32 = field(default_factory=lambda: _ABSENT)
    wgt: U32 = field(default_factory=lambda: _ABSENT)
    length: int = BASE_LENGTH

    def __post_init__(self) -> None:
        """Give the fields left out their zeros."""
        zeros = np.zeros(len(self.word), np.uint32)
        for name in ("rs1", "rs2", "rd", "pc", "loaded", "act", "wgt"):
            if getattr(self, name) is _ABSENT:
                setattr(self, name, zeros)


@dataclass(slots=True, kw_only=True)
class Effects:
    """Results of N executions of one row; ``None`` where the row has no such effect.

    When ``base`` and ``rd`` name the same register, ``rd`` stays (guide, "Loads and stores of XpulpV2" and "Rules of
    both forms"): apply ``base`` first.
    x0 stays zero whatever is written here.

    Members
    -------
    rd : uint32[N]
        Value written to rd.
    base, base_written : uint32[N], bool[N]
        New value of the base register of post-increment and Mac&Load instructions, and where it is written.
    address, accessed : uint32[N], bool[N]
        Byte address of the memory access, and where there is one.
    store : uint32[N]
        Stored value, zero above ``size`` bytes.
    size : int
        Bytes accessed: 1, 2 or 4.
    nn_index, nn_written : uint32[N], bool[N]
        NN-RF entry that takes ``Sources.loaded`` (0, 1 activations, 2..5 weights, 6 factor, 7 summand), and where it
        does.
    taken, target : bool[N], uint32[N]
        Whether control is transferred, and the address it would go to.
    """

    rd: U32 | None = None
    base: U32 | None = None
    base_written: Bits | None = None
    address: U32 | None = None
    accessed: Bits | None = None
    store: U32 | None = None
    size: int | None = None
    nn_index: U32 | None = None
    nn_written: Bits | None = None
    taken: Bits | None = None
    target: U32 | None = None
