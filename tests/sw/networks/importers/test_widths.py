"""Bits of the layers of a model: what users write, and what the tensors get."""

import pytest

from xpulpnn.errors import InputError
from xpulpnn_sw.networks.importers.registry import LayerWidths, ReadingLayer, request_of, widths_of

READERS = (
    ReadingLayer(name="first", inputs=("image",), weights="w0"),
    ReadingLayer(name="second", inputs=("a",), weights="w1"),
    ReadingLayer(name="sum", inputs=("a", "b")),
    ReadingLayer(name="third", inputs=("c",), weights="w2"),
)
"""Two layers that read one map, and a sum in front of the last."""


@pytest.mark.parametrize(
    ("text", "tensors"),
    [
        ("4", {"image": 4, "w0": 4, "a": 4, "w1": 4, "b": 4, "c": 4, "w2": 4}),
        # the map a is read with 8 bits by one layer, which is more than the other wants
        ("8,4/8,2", {"image": 8, "w0": 8, "a": 8, "w1": 4, "b": 2, "c": 2, "w2": 2}),
        ("8,third=4/2", {"image": 8, "w0": 8, "a": 8, "w1": 8, "b": 8, "c": 2, "w2": 4}),
        ("8,4,2,sum=8", {"image": 8, "w0": 8, "a": 8, "w1": 4, "b": 8, "c": 2, "w2": 2}),
        ("first=8,second=4,third=4", {"image": 8, "w0": 8, "a": 4, "w1": 4, "b": 4, "c": 4, "w2": 4}),
    ],
)
def test_bits_of_tensors(text: str, tensors: dict[str, int]) -> None:
    requested = request_of(text).tensors(READERS)
    assert requested == tensors
    assert requested["unknown"] == 8


def test_texts_are_read_as_they_are_written() -> None:
    for widths in (LayerWidths(4, 8), LayerWidths(2, 2)):
        assert widths_of(str(widths)) == widths


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", "have widths of 2, 4, 8"),
        ("", "have widths of 2, 4, 8"),
        ("8/4/2", "have widths of 2, 4, 8"),
        ("=4", "name every layer once, not =4"),
        ("first=4,first=8", "name every layer once, not first=8"),
        ("8,other=4", "name one of first, second, sum, third"),
        ("8,4", "have one width, or one for each of 3 layers"),
        ("first=8,sum=4", "have bits for every layer, not be without those of second"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(InputError, match=f"^bits must {message}"):
        request_of(text).tensors(READERS)


def test_a_layer_without_weights_at_the_end() -> None:
    readers = (*READERS, ReadingLayer(name="mean", inputs=("d",)))
    assert request_of("8,4,4,mean=8").tensors(readers)["d"] == 8
    with pytest.raises(InputError, match="must name mean, behind which no layer has weights"):
        request_of("8,4,4").tensors(readers)
    assert request_of("4").tensors(readers)["d"] == 4
