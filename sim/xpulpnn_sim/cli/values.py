"""Types of arguments, with the rule that each value must obey."""

from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

from xpulpnn.config import CLUSTER_PRESETS, PRESETS
from xpulpnn.errors import InputError
from xpulpnn_sim.tools.files import require_place, require_writable
from xpulpnn_sim.tools.lists import chosen_names, words

STANDARD_OUTPUT = Path("-")  # what stands for the standard output in the place of a file


def rule(text: str, holds: Callable[[Any], bool], metavar: str) -> Parameter:
    """A value that must be as ``text`` says."""

    def check(_kind: type, value: Any) -> None:
        if value is not None and not holds(value):
            raise ValueError(f"It must be {text}.")

    return Parameter(validator=check, metavar=metavar)


def at_least(least: int, metavar: str = "N") -> Parameter:
    """A number that is not smaller."""
    return rule(f"at least {least}", lambda value: value >= least, metavar)


def between(least: int, most: int) -> Parameter:
    """A number in a range, with both ends."""
    return rule(f"{least} to {most}", lambda value: least <= value <= most, "N")


Count = Annotated[int, at_least(1)]
Natural = Annotated[int, at_least(0)]
Probability = Annotated[float, rule("a probability below 1", lambda value: 0 <= value < 1, "P")]
Seconds = Annotated[float, rule("positive", lambda value: value > 0 and isfinite(value), "S")]


def listed(known: Sequence[str], what: str = "", metavar: str = "LIST") -> Parameter:
    """Distinct words out of ``known``, which are ``what``, joined by ``+`` or commas, ``all`` standing for all."""

    def split(_kind: type, tokens: Sequence[Token]) -> tuple[str, ...]:
        found = (name for token in tokens for name in chosen_names(token.value, known, token.keyword or metavar))
        return tuple(dict.fromkeys(found))

    text = f"{what}: out of {', '.join(known)}, or all." if what else None
    return Parameter(converter=split, metavar=metavar, help=text)


def _words(_kind: type, tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for token in tokens for word in words(token.value, token.keyword or "list")))


def _numbers(_kind: type, tokens: Sequence[Token]) -> tuple[int, ...]:
    texts = [(text, token) for token in tokens for text in words(token.value, token.keyword or "list")]
    for text, token in texts:
        if not text.isdecimal():
            raise InputError(f"{token.keyword} must be a list of numbers such as 8+16, not {token.value or 'empty'}")
    return tuple(dict.fromkeys(int(text) for text, _ in texts))


Words = Annotated[tuple[str, ...], Parameter(converter=_words, metavar="LIST")]
Numbers = Annotated[tuple[int, ...], Parameter(converter=_numbers, metavar="LIST")]
Repeated = tuple[str, ...]


def _folder(_kind: type, tokens: Sequence[Token]) -> Path:
    (token,) = tokens
    require_place(Path(token.value), token.keyword or "folder")
    return Path(token.value)


def _file(_kind: type, tokens: Sequence[Token]) -> Path:
    (token,) = tokens
    path = Path(token.value)
    if path != STANDARD_OUTPUT:
        require_writable(path, token.keyword or "FILE")
    return path


NewFile = Annotated[Path, Parameter(converter=_file, metavar="FILE")]  # a file that can be written
NewFolder = Annotated[Path, Parameter(converter=_folder, metavar="DIR")]
"""A folder that files can be written into, or that can be made."""

Preset = Annotated[str, Parameter(choices=(*PRESETS, *CLUSTER_PRESETS), metavar="NAME", show_choices=True)]
CorePreset = Annotated[str, Parameter(choices=tuple(PRESETS), metavar="NAME", show_choices=True)]
