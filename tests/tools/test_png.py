"""Pictures in PNG files: those that are read, and those that are refused."""

import re
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from xpulpnn.errors import InputError
from xpulpnn_sim.cosimulation.networks.images import read_png


def png(pixels, mode=None) -> bytes:
    content = BytesIO()
    image = Image.fromarray(pixels.squeeze())
    image.convert(mode or image.mode).save(content, "PNG")
    return content.getvalue()


@pytest.mark.parametrize("samples", [1, 3, 4])
def test_colours(tmp_path, samples):
    pixels = np.random.default_rng(3).integers(0, 256, (11, 7, samples)).astype(np.uint8)
    path = tmp_path / "image.png"
    path.write_bytes(png(pixels))
    assert np.array_equal(read_png(path), pixels[..., :3])


PIXELS = np.zeros((4, 4, 3), np.uint8)
BAD = {
    "missing": (None, "{} must be an existing file, and there is none of this name"),
    "text": (b"nothing", "image must be a whole PNG file, not {}"),
    "cut": (png(PIXELS)[:45], "image must be a whole PNG file, not {}"),
    "empty": (b"\x89PNG\r\n\x1a\n", "image must be a whole PNG file, not {}"),
    "depth": (png(PIXELS[..., 0], "I;16"), "image must be 8-bit RGB or grey, not {}"),
    "palette": (png(PIXELS, "P"), "image must be 8-bit RGB or grey, not {}"),
}


@pytest.mark.parametrize("case", BAD)
def test_others_are_refused(tmp_path, case):
    content, message = BAD[case]
    path = tmp_path / "image.png"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=f"^{re.escape(message.format(path))}$"):
        read_png(path)
