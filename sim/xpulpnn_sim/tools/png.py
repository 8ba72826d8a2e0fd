"""Pictures in PNG files: true colour or grey, eight bits a sample, as data sets of small images have them."""

import base64
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from xpulpnn.errors import InputError

_FORMS = (b"\x08\x00", b"\x08\x02", b"\x08\x06")  # bits of a sample and colours: grey, RGB, RGB with transparency
_FORM_AT = 24  # place of these in a file


def read_png(path: Path) -> NDArray[np.uint8]:
    """The picture as ``[row][column][colour]``, opaque; there is one colour if it is grey.

    Raises :class:`InputError` for a file that is none, is damaged, or has another form.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"image must be a file that can be read, not {path}: {error.strerror}") from None
    try:
        with Image.open(BytesIO(content), formats=["PNG"]) as image:
            if content[_FORM_AT : _FORM_AT + 2] not in _FORMS:
                raise InputError(f"image must be 8-bit RGB or grey, not {path}")
            samples = np.array(image)
    except (OSError, SyntaxError, ValueError):
        raise InputError(f"image must be a whole PNG file, not {path}") from None
    return samples.reshape(*samples.shape[:2], -1)[..., :3]


def picture(samples: NDArray[Any]) -> str:
    """The address that has the picture in it; samples are 0..255."""
    pixels = np.clip(samples, 0, 255).astype(np.uint8)
    content = BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2:] == (1,) else pixels).save(content, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
