"""Sizes and options of layers: their bounds, and how they are written."""

import re
from collections.abc import Mapping

from xpulpnn.errors import LayerError

MAX_SIZE = 65535  # largest dimension, stride or padding: sizes are 16-bit in the PULP-NN kernels


MAX_ELEMENTS = 1 << 24  # most elements of a tensor; keeps a mistyped layer from filling the host's memory


def check_size(name: str, value: int, *, least: int = 1) -> None:
    """Raise :class:`LayerError` unless a size is between ``least`` and :data:`MAX_SIZE`."""
    if not least <= value <= MAX_SIZE:
        raise LayerError(f"{name} must be {least}..{MAX_SIZE}, not {value}")


def check_elements(name: str, count: int) -> None:
    """Raise :class:`LayerError` for a tensor of more than :data:`MAX_ELEMENTS`."""
    if count > MAX_ELEMENTS:
        raise LayerError(f"{name} must be at most {MAX_ELEMENTS} elements, not {count}")


_MAX_DIGITS = 9


def number(digits: str) -> int:
    """A size; raises :class:`LayerError` for one of too many digits."""
    if len(digits) > _MAX_DIGITS:
        raise LayerError(f"size must be a number of at most {_MAX_DIGITS} digits, not {len(digits)} digits")
    return int(digits)


def options_of(text: str, part: str | None, keys: tuple[str, ...] = ("s", "p")) -> dict[str, str]:
    """The options of the layer ``text`` by key; raises :class:`LayerError` unless each is one of ``keys``."""
    if part is None:
        return {}
    options: dict[str, str] = {}
    for item in part.split(","):
        key, equals, value = item.partition("=")
        if not equals or key not in keys or key in options:
            known = " and ".join(filter(None, (", ".join(f"{name}=" for name in keys[:-1]), f"{keys[-1]}=")))
            raise LayerError(f"layer options must be {known}, each at most once, not {item or 'empty'} in {text}")
        options[key] = value
    return options


def spread(key: str, text: str, count: int) -> tuple[int, ...]:
    """One number for all ``count`` places, or one for each."""
    if re.fullmatch(r"\d+(x\d+)*", text, re.ASCII):
        numbers = tuple(map(number, text.split("x")))
        if len(numbers) in (1, count):
            return numbers * (count // len(numbers))
    raise LayerError(f"{key}= must be one number or {count} joined by x, not {text or 'empty'}")


def whole_number(key: str, text: str) -> int:
    """One number, with a sign or without; raises :class:`LayerError` for anything else."""
    if not re.fullmatch(r"-?\d+", text, re.ASCII):
        raise LayerError(f"{key}= must be a whole number, not {text or 'empty'}")
    digits = text.removeprefix("-")
    return -number(digits) if text != digits else number(digits)


def join(values: tuple[int, ...]) -> str:
    """The text :func:`spread` accepts."""
    return str(values[0]) if len(set(values)) == 1 else "x".join(map(str, values))


def written(text: str, given: Mapping[str, tuple[tuple[int, ...], str]]) -> str:
    """A layer's text with its options, each a value and the text that stands for it if it is left out."""
    options = [f"{key}={join(value)}" for key, (value, usual) in given.items() if join(value) != usual]
    return f"{text}:{','.join(options)}" if options else text
