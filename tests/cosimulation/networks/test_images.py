"""Images with their classes, in each of the forms."""

import gzip
import re

import numpy as np
import pytest

from xpulpnn.errors import InputError
from xpulpnn_sim.cosimulation.networks.images import read_images

SAMPLES = np.random.default_rng(5).integers(0, 256, (3, 4, 6)).astype(np.uint8)
LABELS = np.array([7, 0, 2], np.uint8)
FORMS = "a folder of NAME_LABEL.png, an IDX file, or an npz file with images and labels"


def idx(values: np.ndarray) -> bytes:
    """As MNIST has them: unsigned bytes."""
    return bytes([0, 0, 8, values.ndim]) + b"".join(size.to_bytes(4, "big") for size in values.shape) + values.tobytes()


@pytest.fixture
def mnist(tmp_path):
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx(SAMPLES))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(LABELS))
    return tmp_path / "t10k-images-idx3-ubyte"


def same(images, labels=LABELS):
    np.testing.assert_array_equal(images.samples, SAMPLES)
    if labels is None:
        assert images.labels is None
    else:
        assert images.labels.tolist() == labels.tolist()
    return True


@pytest.mark.flow
def test_idx(mnist, tmp_path):
    assert same(read_images(mnist))
    mnist.write_bytes(gzip.compress(idx(SAMPLES)))
    assert same(read_images(mnist))
    other = tmp_path / "other"
    other.write_bytes(idx(LABELS[::-1]))
    assert same(read_images(mnist, other), LABELS[::-1])
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    assert same(read_images(mnist), None)


def test_npz(tmp_path):
    np.savez(tmp_path / "some.npz", images=SAMPLES, labels=LABELS.astype(np.int64))
    assert same(read_images(tmp_path / "some.npz"))
    np.savez(tmp_path / "some.npz", images=SAMPLES)
    assert same(read_images(tmp_path / "some.npz"), None)


def test_the_first_of_them_and_their_classes(mnist):
    images = read_images(mnist)
    few = images.first(2)
    assert (len(few.samples), few.checked_labels(8).tolist()) == (2, [7, 0])
    assert len(images.first(None).samples) == len(images.first(9).samples) == 3
    with pytest.raises(InputError, match=r"^labels of images must be 0\.\.6, not 7, in "):
        images.checked_labels(7)


def test_labels_that_do_not_exist(mnist, tmp_path):
    with pytest.raises(InputError, match=r"^labels must be in a file .*, and there is no /.*lables$"):
        read_images(mnist, tmp_path / "lables")


NEITHER = f"images must be {FORMS}, not "
ABSENT = "images must be in a file or folder that exists, and there is no /"
BAD = {
    "empty": (b"", NEITHER),
    "text": (b"nothing at all", NEITHER),
    "cut": (idx(SAMPLES)[:40], "IDX file must have 72 elements, not 24: "),
    "cut head": (idx(SAMPLES)[:9], NEITHER),
    "floats": (b"\0\0\x0d" + idx(SAMPLES)[3:], NEITHER),
    "cut gzip": (gzip.compress(idx(SAMPLES))[:30], NEITHER),
    "too many": (idx(SAMPLES[:2]), "labels must be 2, one for each image, not 3, in "),
    "labels": (idx(LABELS), f"{NEITHER}of shape (3,) in "),
    "none": (None, ABSENT),
    "none.npz": (None, ABSENT),
    "empty.npz": (b"", NEITHER),
    "zip.npz": (b"PK\3\4 no zip", NEITHER),
    "no images.npz": ({"labels": LABELS}, "images must be an npz file with images, not "),
    "fractions.npz": ({"images": SAMPLES / 2}, "images must be integers, not float64, in "),
    "count.npz": ({"images": SAMPLES, "labels": LABELS[:2]}, "labels must be 3, one for each image, not 2, in "),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(mnist, tmp_path, name):
    content, message = BAD[name]
    path = tmp_path / name if name.endswith(".npz") else mnist
    path.unlink(missing_ok=True)
    if isinstance(content, dict):
        np.savez(path, **content)
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        read_images(path)
