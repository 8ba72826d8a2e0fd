"""Packed tensors: little end first, both signs, all widths."""

from random import Random

import numpy as np
import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sim.reference.golden.layers import pack_map, unpack_map

pytestmark = pytest.mark.unit

SEED = 577


@pytest.mark.parametrize(
    ("values", "bits", "signed", "data"),
    [
        ([1, 2, 3, 15], 4, False, [0x21, 0xF3]),
        ([-1, 2, -8, 7], 4, True, [0x2F, 0x78]),
        ([0, 1, 2, 3], 2, False, [0b11100100]),
        ([-2, -1, 0, 1], 2, True, [0b01001110]),
        ([-128, 127], 8, True, [0x80, 0x7F]),
        ([0x1234, 0xFFFE], 16, False, [0x34, 0x12, 0xFE, 0xFF]),
        ([-2], 32, True, [0xFE, 0xFF, 0xFF, 0xFF]),
        ([1, 0, 0, 0, 0, 0, 1, 1], 1, False, [0xC1]),
    ],
)
def test_bytes_worked_out_by_hand(values, bits, signed, data):
    assert pack_map(np.array(values), bits, signed=signed).tolist() == data
    assert unpack_map(np.array(data, np.uint8), bits, signed=signed).tolist() == values


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_rows_pack_along_the_last_axis(bits, signed):
    generator = Random(SEED)
    low = -(1 << (bits - 1)) if signed else 0
    values = np.array([low + generator.randrange(1 << bits) for _ in range(2 * 3 * 16)]).reshape(2, 3, 16)
    packed = pack_map(values, bits, signed=signed)
    assert packed.shape == (2, 3, 16 * bits // 8)
    assert np.array_equal(packed[1, 2], pack_map(values[1, 2], bits, signed=signed))
    assert np.array_equal(unpack_map(packed, bits, signed=signed), values), f"seed {SEED}"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pack_map(np.zeros(8, int), 3, signed=False), "`bits` must be one of 1, 2, 4, 8, 16, 32, not 3"),
        (lambda: pack_map(np.array([0, 16]), 4, signed=False), "`values` must be in [0, 15], not 16"),
        (lambda: pack_map(np.array([0, -9]), 4, signed=True), "`values` must be in [-8, 7], not -9"),
        (
            lambda: pack_map(np.array([1, 2, 3]), 4, signed=False),
            "`values` must fill whole bytes, not 3 elements of 4 bits",
        ),
        (
            lambda: unpack_map(np.zeros(3, np.uint8), 16, signed=False),
            "`data` must hold whole elements, not 3 bytes of 16-bit elements",
        ),
    ],
)
def test_what_does_not_pack(call, message):
    with pytest.raises(LayerError) as refusal:
        call()
    assert str(refusal.value) == message
