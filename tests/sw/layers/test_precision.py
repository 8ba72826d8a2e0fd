"""Precisions and the text that names them."""

import pytest

from xpulpnn.errors import LayerError
from xpulpnn_sw.layers.precision import Precision


@pytest.mark.parametrize(
    ("text", "precision", "shown"),
    [
        ("8x4x8", Precision(8, 4, 8), "8x4x8"),
        ("u8xi4xu8", Precision(8, 4, 8), "8x4x8"),
        ("i8xu2xi16", Precision(8, 2, 16, x_signed=True, w_signed=False, y_signed=True), "i8xu2xi16"),
        ("2x2xi32", Precision.uniform(2).accumulators, "2x2xi32"),
    ],
)
def test_text(text: str, precision: Precision, shown: str):
    assert Precision.parse(text) == precision
    assert str(precision) == shown
    assert Precision.parse(shown) == precision


WRONG = {
    "XxWxY such as": ["", "8", "8x8", "8x8x8x8", "s8x8x8", "8X8X8", "8x8x888", "8x٨x8"],
    "widths out of": ["8x3x8"],
    "no sign before a width of 1": ["i1x1x1", "1xu1x1", "1x1xi1"],
}


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in WRONG.items() for text in texts])
def test_other_text(rule: str, text: str):
    with pytest.raises(LayerError, match=f"^precision must (be|have) {rule}"):
        Precision.parse(text)
