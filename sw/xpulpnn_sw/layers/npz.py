"""Reader of npz files that may be damaged."""

import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError, require


def npz_arrays(path: Path, description: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file that ``numpy.savez`` has written; raise :class:`InputError` for any other file."""
    require(path.is_file(), f"{description} must be an existing file, not {path}")
    try:
        # opened here, so that it is closed whatever numpy raises
        with path.open("rb") as content, np.load(content, allow_pickle=False) as file:
            return {name: np.asarray(file[name]) for name in file.files}
    except (OSError, ValueError, TypeError, AttributeError, EOFError, KeyError, BadZipFile, zlib.error, RuntimeError):
        # numpy and zipfile raise all of these for other or damaged files
        raise InputError(f"{description} must be a file of numpy.savez with numbers, not {path}") from None
