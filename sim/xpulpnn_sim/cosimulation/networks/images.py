"""Reads images with their classes from folders of PNG files, IDX files such as MNIST's, and npz files."""

import base64
import gzip
import zlib
from dataclasses import dataclass, replace
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from xpulpnn.errors import InputError, require, unreadable
from xpulpnn.isa.machine import WORD_BYTES
from xpulpnn_sw.layers.npz import npz_arrays

_FORMS = (b"\x08\x00", b"\x08\x02", b"\x08\x06")  # bit depth and colour type: grey, RGB, RGB with transparency
_FORM_AT = 24  # offset of bit depth and colour type in a file


def read_png(path: Path) -> NDArray[np.uint8]:
    """Return the pixels of a PNG file, ``[row][column][colour]``, without transparency; grey ones have one colour."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(unreadable(path, error)) from None
    try:
        with Image.open(BytesIO(content), formats=["PNG"]) as image:
            require(content[_FORM_AT : _FORM_AT + 2] in _FORMS, f"image must be 8-bit RGB or grey, not {path}")
            samples = np.array(image)
    except (OSError, SyntaxError, ValueError):
        raise InputError(f"image must be a whole PNG file, not {path}") from None
    return samples.reshape(*samples.shape[:2], -1)[..., :3]


def picture(samples: NDArray[Any]) -> str:
    """Return a data URL of the picture; samples are 0..255."""
    pixels = np.clip(samples, 0, 255).astype(np.uint8)
    content = BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2:] == (1,) else pixels).save(content, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"


FORMS = "a folder of NAME_LABEL.png, an IDX file, or an npz file with images and labels"  # readable formats
_GZIP = b"\x1f\x8b"
_IDX_BYTES = 8  # type code of unsigned bytes in an IDX file
_ARRAYS = ("images", "labels")


@dataclass(frozen=True, eq=False, kw_only=True)
class Images:
    path: Path  # file or folder that they were read from
    samples: NDArray[Any]  # `[image][row][column][colour]`, or without colours
    labels: NDArray[np.int64] | None  # class of each image

    def first(self, count: int | None) -> "Images":
        return self.section(0, count)

    def section(self, first: int, last: int | None) -> "Images":
        labels = None if self.labels is None else self.labels[first:last]
        return replace(self, samples=self.samples[first:last], labels=labels)

    def checked_labels(self, classes: int) -> NDArray[np.int64]:
        if self.labels is None:
            raise InputError(f"images must have labels, not be without, in {self.path}")
        wrong = self.labels[(self.labels < 0) | (self.labels >= classes)]
        if len(wrong):
            raise InputError(f"labels of images must be 0..{classes - 1}, not {wrong[0]}, in {self.path}")
        return self.labels


def read_images(path: Path, labels: Path | None = None) -> Images:
    """Read the images of a folder or file, with labels from ``labels``, from file names, or from files beside them."""
    for name, file in ("images", path), ("labels", labels):
        if file is not None and not file.exists():
            raise InputError(f"{name} must be in a file or folder that exists, and there is no {file}")
    if path.is_dir():
        images = _folder(path)
    elif path.suffix == ".npz":
        images = _arrays(path)
    else:
        beside = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
        if labels is None and beside != path and beside.is_file():
            labels = beside
        images = Images(path=path, samples=_idx(path), labels=None)
    if labels is not None:
        images = replace(images, labels=_idx(labels).astype(np.int64))
    if images.samples.ndim < 2 or not images.samples.size:
        raise InputError(f"images must be {FORMS}, not of shape {images.samples.shape} in {path}")
    if images.labels is not None and images.labels.shape != images.samples.shape[:1]:
        shape = "x".join(map(str, images.labels.shape))
        raise InputError(f"labels must be {len(images.samples)}, one for each image, not {shape}, in {labels or path}")
    return images


def _folder(folder: Path) -> Images:
    paths = sorted(folder.glob("*.png"))
    require(paths, f"images must be a folder of PNG files, not {folder}")
    samples = [read_png(path) for path in paths]
    for path, pixels in zip(paths, samples, strict=True):
        if pixels.shape != samples[0].shape:
            height, width, _ = pixels.shape
            raise InputError(f"images must have the size of {paths[0].name}, not {width}x{height} as {path}")
    ends = [path.stem.rpartition("_")[2] for path in paths]
    are_numbers = [end.isascii() and end.isdecimal() for end in ends]
    for path, is_number in zip(paths, are_numbers, strict=True):
        if any(are_numbers) and not is_number:
            raise InputError(f"image must be called NAME_LABEL.png, label a number, not {path.name}")
    labels = np.array([int(end) for end in ends], np.int64) if all(are_numbers) else None
    return Images(path=folder, samples=np.stack(samples), labels=labels)


def _arrays(path: Path) -> Images:
    try:
        arrays = {name: values for name, values in npz_arrays(path, "images").items() if name in _ARRAYS}
    except InputError:
        raise InputError(f"images must be {FORMS}, not {path}") from None
    require("images" in arrays, f"images must be an npz file with images, not {path} without them")
    for name, values in arrays.items():
        require(values.dtype.kind in "iu", f"{name} must be integers, not {values.dtype}, in {path}")
    labels = arrays["labels"].astype(np.int64) if "labels" in arrays else None
    return Images(path=path, samples=arrays["images"], labels=labels)


def _idx(path: Path) -> NDArray[np.uint8]:
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if content.startswith(_GZIP) else content
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"images must be {FORMS}, not {path}: {error}") from None
    count = content[3] if len(content) > 3 else 0
    start = WORD_BYTES * (1 + count)
    require(content[:3] == bytes((0, 0, _IDX_BYTES)) and len(content) >= start, f"images must be {FORMS}, not {path}")
    sizes = np.frombuffer(content[4:start], ">u4").tolist()
    if len(content) - start != prod(sizes):
        raise InputError(f"IDX file must have {prod(sizes)} elements, not {len(content) - start}: {path}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(sizes)
