"""A layer packed for a function of the library, and the arrays that it is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError
from xpulpnn_sw.kernels.kernel import KernelRun
from xpulpnn_sw.kernels.layout import Ints, Words
from xpulpnn_sw.layers.npz import npz_arrays
from xpulpnn_sw.layers.precision import ACCUMULATOR_BITS, SIGN_BITS

Arrays = Mapping[str, NDArray[Any]]

_WORD = (1 << ACCUMULATOR_BITS) - 1


@dataclass(frozen=True, eq=False, kw_only=True)
class PackedLayer:
    """A layer for a function of the library."""

    run: KernelRun  # the function, and the layer with zeros for inputs
    # what fields of its argument structure point to, such as weights; read-ahead is part of the weights
    contents: Mapping[str, Words]
    input_bytes: Mapping[str, int]  # room of the maps that other fields point to, with what is read ahead
    output_bytes: int  # room of the results, with what is written beyond
    buffer_bytes: int  # of one core; 0: there is no buffer

    @property
    def constants(self) -> dict[str, int]:
        """The arguments that are no addresses, as the words that they are in memory."""
        return {f.name: self.run.arguments[f.name] & _WORD for f in self.run.structure.fields if not f.pointer}

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of what the caller provides."""
        rooms = {f"{name}_bytes": size for name, size in self.input_bytes.items()}
        return rooms | {"output_bytes": self.output_bytes, "core_buffer_bytes": self.buffer_bytes}


def packed_run(run: KernelRun, contents: Sequence[str]) -> PackedLayer:
    """A layer whose operands called ``contents`` are known."""
    symbols, image = run.image.symbols, run.image
    known = {*contents, "output", "buffer"}
    return PackedLayer(
        run=run,
        contents={name: image.view(name).view("<u4") for name in contents},
        input_bytes={
            one.name: symbols[one.name].length for one in run.structure.fields if one.pointer and one.name not in known
        },
        output_bytes=symbols["output"].length,
        buffer_bytes=run.arguments.get("buffer_stride", 0),
    )


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file; raises :class:`InputError` unless it is one of ``numpy.savez``."""
    return npz_arrays(path, "weights")


def check_names(arrays: Arrays, needed: Sequence[str], optional: str = "") -> None:
    """Raise :class:`InputError` unless the arrays are those needed, and perhaps the ``optional`` one."""
    known = [*needed[:1], *([optional] if optional else []), *needed[1:]]
    listed = f"{', '.join(known) or 'none'}{f' ({optional} if there is one)' if optional else ''}"
    for name in needed:
        if name not in arrays:
            raise InputError(f"arrays must be {listed}, not without {name}")
    for name in arrays:
        if name not in known:
            raise InputError(f"arrays must be {listed}, not also {name}")


def ranged(name: str, values: NDArray[Any], bits: int, *, signed: bool = True) -> Ints:
    """The values; raises :class:`InputError` unless they are integers of so many bits."""
    if values.dtype.kind not in "iu":
        raise InputError(f"{name} must be integers, not {values.dtype}")
    if not values.size:
        raise InputError(f"{name} must have elements, not the shape {values.shape}")
    least = -(1 << (bits - 1)) if signed else 0
    greatest = least + (1 << bits) - 1
    low, high = int(values.min()), int(values.max())
    if bits == SIGN_BITS:
        if (others := values[np.abs(values) != 1]).size:
            raise InputError(f"{name} of one bit must be -1 or 1, not {others[0]}")
    elif low < least or high > greatest:
        raise InputError(f"{name} must be {least}..{greatest}, not {low if low < least else high}")
    return values.astype(np.int64)


def single_number(name: str, values: NDArray[Any]) -> int:
    """The only one of an array, of 32 bits; raises :class:`InputError` for others."""
    if values.size != 1:
        raise InputError(f"{name} must be a single number, not of shape {values.shape}")
    return int(ranged(name, values, ACCUMULATOR_BITS).reshape(()))
