"""Pictures in PNG files, written by the test row by row."""

import re
import struct
import zlib

import numpy as np
import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.tools.png import read_png

pytestmark = pytest.mark.unit


def png(pixels, *, depth=8, colour=2) -> bytes:
    """A picture whose rows are stored as they are, as the specification of the format has it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


@pytest.mark.parametrize(("colour", "samples"), [(0, 1), (2, 3), (6, 4)])
def test_colours(tmp_path, colour, samples):
    pixels = np.random.default_rng(3).integers(0, 256, (11, 7, samples)).astype(np.uint8)
    path = tmp_path / "image.png"
    path.write_bytes(png(pixels, colour=colour))
    assert np.array_equal(read_png(path), pixels[..., :3])


PIXELS = np.zeros((4, 4, 3), np.uint8)
BAD = {
    "text": (b"nothing", "image must be a whole PNG file, not {}"),
    "cut": (png(PIXELS)[:45], "image must be a whole PNG file, not {}"),
    "empty": (b"\x89PNG\r\n\x1a\n", "image must be a whole PNG file, not {}"),
    "depth": (png(PIXELS, depth=16), "image must be 8-bit RGB or grey, not {}"),
    "palette": (png(PIXELS, colour=3), "image must be 8-bit RGB or grey, not {}"),
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
