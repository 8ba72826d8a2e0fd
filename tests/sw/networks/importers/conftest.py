"""Networks of other makers, which are not part of the repository."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def nets() -> Path:
    """The folder XPULPNN_NETS: TFC_1W1A.onnx, resnet8_int8.tflite, cnv_w1a1_cifar10.npz, cmsis_cifar10.npz, cifar20."""
    folder = os.environ.get("XPULPNN_NETS")
    if folder is None:
        pytest.skip("XPULPNN_NETS names no folder")
    return Path(folder)
