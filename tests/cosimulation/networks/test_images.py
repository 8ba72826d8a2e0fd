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


def require_refused(path, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        read_images(path)


def test_files_that_do_not_exist(mnist, tmp_path):
    require_refused(tmp_path / "no.npz", "images must be in a file or folder that exists, and there is no ")
    with pytest.raises(
        InputError, match=r"^labels must be in a file or folder that exists, and there is no .*/lables$"
    ):
        read_images(mnist, tmp_path / "lables")


def replaced(content):
    return lambda path: path.write_bytes(content)


BAD = {
    "empty": (replaced(b""), f"images must be {FORMS}, not "),
    "text": (replaced(b"nothing at all"), f"images must be {FORMS}, not "),
    "cut": (replaced(idx(SAMPLES)[:40]), "IDX file must have 72 elements, not 24: "),
    "cut head": (replaced(idx(SAMPLES)[:9]), f"images must be {FORMS}, not "),
    "floats": (replaced(b"\0\0\x0d" + idx(SAMPLES)[3:]), f"images must be {FORMS}, not "),
    "cut gzip": (replaced(gzip.compress(idx(SAMPLES))[:30]), f"images must be {FORMS}, not "),
    "too many": (replaced(idx(SAMPLES[:2])), "labels must be 2, one for each image, not 3, in "),
    "labels": (replaced(idx(LABELS)), f"images must be {FORMS}, not of shape (3,) in "),
    "none": (lambda path: path.unlink(), "images must be in a file or folder that exists, and there is no /"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_idx(mnist, case):
    change, message = BAD[case]
    change(mnist)
    require_refused(mnist, message)


BAD_NPZ = {
    "no images": ({"labels": LABELS}, "images must be an npz file with images, not "),
    "fractions": ({"images": SAMPLES / 2}, "images must be integers, not float64, in "),
    "count": ({"images": SAMPLES, "labels": LABELS[:2]}, "labels must be 3, one for each image, not 2, in "),
}


@pytest.mark.parametrize("case", BAD_NPZ)
def test_bad_npz(tmp_path, case):
    arrays, message = BAD_NPZ[case]
    np.savez(tmp_path / "bad.npz", **arrays)
    require_refused(tmp_path / "bad.npz", message)


@pytest.mark.parametrize("content", [b"", b"PK\3\4 no zip"])
def test_no_npz_at_all(tmp_path, content):
    (tmp_path / "bad.npz").write_bytes(content)
    require_refused(tmp_path / "bad.npz", f"images must be {FORMS}, not ")
