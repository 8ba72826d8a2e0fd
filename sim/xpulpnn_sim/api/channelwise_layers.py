"""Random layers that keep channels apart, as they are written: windows reaching over edges, any number of channels."""

from random import Random

_MOST_CHANNELS = 20
"""More than two words of the widest elements, and than one of the narrowest."""

_MOST_WINDOW = 5
"""Rows and columns; pools have loops of their own up to three, depthwise convolutions keep filters up to three."""


def _window(rng: Random, channels: int) -> str:
    """A map and a window with padding below the window's size, uneven, and steps of their own in y and x."""
    ky, kx = (rng.choice((1, 2, 3, 3, rng.randint(4, _MOST_WINDOW))) for _ in range(2))
    top, bottom = (rng.randint(0, min(2, ky - 1)) for _ in range(2))
    left, right = (rng.randint(0, min(2, kx - 1)) for _ in range(2))
    height = rng.randint(max(1, ky - top - bottom), 9)
    width = rng.randint(max(1, kx - left - right), 9)
    stride = f"{rng.randint(1, 3)}x{rng.randint(1, 3)}"
    return f"{height}x{width}x{channels}:{ky}x{kx}:s={stride},p={top}x{bottom}x{left}x{right}"


def depthwise(rng: Random) -> str:
    """A depthwise convolution."""
    return _window(rng, rng.randint(1, 9))


def maxpool(rng: Random) -> str:
    """A maximum pooling."""
    return _window(rng, rng.randint(1, _MOST_CHANNELS))


def avgpool(rng: Random) -> str:
    """An average pooling, every other one with requantisation."""
    return _window(rng, rng.randint(1, _MOST_CHANNELS)) + rng.choice(("", ":scaled"))


def relu(rng: Random) -> str:
    """A ReLU."""
    return f"{rng.randint(1, 5)}x{rng.randint(1, 5)}x{rng.randint(1, 2 * _MOST_CHANNELS)}"


def transpose(rng: Random) -> str:
    """A transposition."""
    return f"{rng.randint(1, 5)}x{rng.randint(1, 20)}x{rng.randint(1, 2 * _MOST_CHANNELS)}"


def add(rng: Random) -> str:
    """An addition, every other one with a shifted sum."""
    return relu(rng) + rng.choice(("", ":shift"))
