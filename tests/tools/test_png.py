"""Pictures in PNG files, written by the test row by row with every filter."""

import re
import struct
import zlib

import numpy as np
import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.tools.png import read_png

pytestmark = pytest.mark.unit


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels, *, depth=8, colour=2, interlace=0) -> bytes:
    """A picture whose row ``n`` is stored by filter ``n`` of five, as the specification of the format has it."""
    height, width, samples = pixels.shape
    padded = np.zeros((height + 1, width + 1, samples), np.int64)
    padded[1:, 1:] = pixels
    rows = b""
    for y in range(height):
        left, up, corner = padded[y + 1, :-1], padded[y, 1:], padded[y, :-1]
        estimate = left + up - corner
        distances = np.abs(np.stack([left, up, corner]) - estimate)
        nearest = np.choose(distances.argmin(axis=0), [left, up, corner])
        guess = (0, left, up, (left + up) // 2, nearest)[y % 5]
        rows += bytes([y % 5]) + ((padded[y + 1, 1:] - guess) & 0xFF).astype(np.uint8).tobytes()
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    packed = zlib.compress(rows)
    parts = (chunk(b"IDAT", packed[:40]), chunk(b"IDAT", packed[40:]))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(parts) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("colour", "samples"), [(0, 1), (2, 3), (6, 4)])
def test_every_filter(tmp_path, colour, samples):
    pixels = np.random.default_rng(3).integers(0, 256, (11, 7, samples)).astype(np.uint8)
    path = tmp_path / "image.png"
    path.write_bytes(png(pixels, colour=colour))
    assert np.array_equal(read_png(path), pixels[..., :3])


PIXELS = np.zeros((4, 4, 3), np.uint8)
BAD = {
    "text": (b"nothing", "image must be a whole PNG file, not {}"),
    "cut": (png(PIXELS)[:50], "image must be a whole PNG file, not {}"),
    "empty": (b"\x89PNG\r\n\x1a\n", "image must be a whole PNG file, not {}"),
    "depth": (png(PIXELS, depth=16), "image must be 8-bit RGB or grey without interlace, not {}"),
    "palette": (png(PIXELS, colour=3), "image must be 8-bit RGB or grey without interlace, not {}"),
    "interlace": (png(PIXELS, interlace=1), "image must be 8-bit RGB or grey without interlace, not {}"),
}


@pytest.mark.parametrize("case", BAD)
def test_others_are_refused(tmp_path, case):
    content, message = BAD[case]
    path = tmp_path / "image.png"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"^{re.escape(message.format(path))}$"):
        read_png(path)


def test_a_missing_file(tmp_path):
    path = tmp_path / "none.png"
    message = f"image must be a file that can be read, not {path}: No such file or directory"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        read_png(path)
