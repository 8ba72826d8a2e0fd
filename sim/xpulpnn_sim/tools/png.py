"""Pictures in PNG files: true colour or grey, eight bits a sample, as data sets of small images have them."""

import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xpulpnn.errors import InputError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_SAMPLES = {0: 1, 2: 3, 6: 4}  # samples of a pixel by colour type: grey, or red, green and blue, then what is covered

_FORM = "8-bit RGB or grey without interlace"
_COLOURS = 3


def read_png(path: Path) -> NDArray[np.uint8]:
    """The picture as ``[row][column][colour]``, opaque; there is one colour if it is grey.

    Raises :class:`InputError` for a file that is none, is damaged, or has another form.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"image must be a file that can be read, not {path}: {error.strerror}") from None
    try:
        return _decoded(content, path)
    except (zlib.error, ValueError, IndexError):
        raise InputError(f"image must be a whole PNG file, not {path}") from None


def _decoded(content: bytes, path: Path) -> NDArray[np.uint8]:
    if not content.startswith(_SIGNATURE):
        raise ValueError
    header, packed, at = b"", b"", len(_SIGNATURE)
    while at < len(content):
        length, kind = int.from_bytes(content[at : at + 4], "big"), content[at + 4 : at + 8]
        data = content[at + 8 : at + 8 + length]
        header, packed = (data if kind == b"IHDR" else header), (packed + data if kind == b"IDAT" else packed)
        at += length + 12
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    depth, colour, _, _, interlace = header[8:13]
    if depth != 8 or colour not in _SAMPLES or interlace:
        raise InputError(f"image must be {_FORM}, not {path}")
    samples = _SAMPLES[colour]
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * samples)
    above = np.zeros(width * samples, np.uint8)
    lines = [above := _unfiltered(int(row[0]), row[1:], above, samples) for row in rows]
    return np.stack(lines).reshape(height, width, samples)[..., :_COLOURS]


def _unfiltered(kind: int, row: NDArray[np.uint8], above: NDArray[np.uint8], samples: int) -> NDArray[np.uint8]:
    """A row of samples from what is stored: differences to the left, above, their mean, or the nearest of three."""
    if kind == 0:
        return row
    if kind == 2:
        return row + above
    out = [0] * samples + row.tolist()
    upper = [0] * samples + above.tolist()
    for i in range(samples, len(out)):
        left, up, corner = out[i - samples], upper[i], upper[i - samples]
        out[i] = (out[i] + (left, 0, (left + up) >> 1, _nearest(left, up, corner))[(1, 2, 3, 4).index(kind)]) & 0xFF
    return np.array(out[samples:], np.uint8)


def _nearest(left: int, up: int, corner: int) -> int:
    return min((left, up, corner), key=lambda value: abs(left + up - corner - value))
