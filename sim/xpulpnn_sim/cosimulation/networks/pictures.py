"""Small pictures for pages: samples as PNG files inside of the page."""

import base64
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"\x89PNG\r\n\x1a\n"
_KINDS = {1: 0, 3: 2}  # Colour type of a file by its colours: grey, or red, green and blue

_MOST = 255


def is_picture(samples: NDArray[Any]) -> bool:
    """Return whether samples, ``[row][column]`` with or without colours behind, can be shown."""
    shape = samples.shape
    colours = shape[2] if len(shape) == 3 else 1
    return len(shape) in (2, 3) and colours in _KINDS and 1 < min(shape[:2])


def picture(samples: NDArray[Any]) -> str:
    """The address that has the picture in it; samples are 0..255."""
    pixels = np.clip(samples, 0, _MOST).astype(np.uint8).reshape(*samples.shape[:2], -1)
    height, width, colours = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _KINDS[colours], 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    content = _MAGIC + b"".join(_chunk(name, data) for name, data in parts)
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
